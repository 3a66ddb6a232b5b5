# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A swarm with another team's manager: Ansible cannot log in to this manager, which offers only the Docker API with TLS.

The manager is x4, which is not in the inventory. The controller knows it as ``appliance``, with its API.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .fleet import Fleet, Run, advertised_as, wait_until
from .swarm import KIND, availabilities, member, shown

MANAGER, WORKER, HOST = "x4", "x1", "appliance"
NOWHERE = "tcp://127.0.0.1:9"
CERTIFICATES, SETTINGS = "/etc/docker-api", "/etc/default/docker"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key. If no other certificate signed this one, it is a certificate authority."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def of(cls, name: str, signer: Pair | None = None, address: str = "127.0.0.1") -> Pair:
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(signer.certificate.subject if signer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        )
        return cls(built.sign(signer.key if signer else key, hashes.SHA256()), key)

    @property
    def files(self) -> tuple[bytes, bytes]:
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        return self.certificate.public_bytes(pem), self.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)

    def write(self, folder: Path, name: str) -> dict[str, str]:
        """Write the files, and return them as options of a module."""
        paths = folder / f"{name}.pem", folder / f"{name}-key.pem"
        for path, content in zip(paths, self.files, strict=True):
            path.write_bytes(content)
        return {"client_cert": str(paths[0]), "client_key": str(paths[1])}


@dataclass(frozen=True)
class Appliance:
    """The manager, as the other team offers it."""

    fleet: Fleet
    address: str
    tls: dict[str, Any]  # with a certificate that the manager accepts
    strange: dict[str, Any]  # with a certificate of another authority
    python: Path  # with only the standard library

    def run(
        self,
        *arguments: str,
        playbook: str = "fleet.gpu_swarm.provision",
        tls: dict[str, Any] | None = None,
        gone: bool = False,
    ) -> Run:
        """Run a playbook. If ``gone`` is set, the inventory first names an unreachable manager."""
        variables = {
            "ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": str(self.python),
            "swarm_manager_docker_host": self.address, "swarm_manager_docker_tls": tls or self.tls,
        }  # fmt: skip
        hosts = {"gone": {**variables, "swarm_manager_docker_host": NOWHERE}, HOST: variables}
        inventory = self.fleet.inventory(hosts, swarm_managers=[*hosts][not gone :], gpu_nodes=[WORKER])
        return self.fleet.playbook(inventory, *arguments, playbook=playbook)


@pytest.fixture(scope="module")
def appliance(booted: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    kept, node = tmp_path_factory.mktemp("certificates"), booted[MANAGER]
    for name in (MANAGER, WORKER):
        booted[name].leave()
    # Traces of earlier tests must not appear in its new swarm.
    undone = booted.module(MANAGER, "fleet.gpu_swarm.gpu_node", {"state": "absent"})
    assert undone.rc == 0, undone.output
    authority, before = Pair.of("authority"), node.read(SETTINGS)
    (kept / "ca.pem").write_bytes(authority.files[0])
    for path, content in zip(("cert.pem", "key.pem"), Pair.of("server", authority, node.address).files, strict=True):
        node.write(f"{CERTIFICATES}/{path}", content)
    node.write(f"{CERTIFICATES}/ca.pem", authority.files[0])
    files = " ".join(f"--tls{what} {CERTIFICATES}/{file}.pem" for what, file in (("cacert", "ca"), ("cert", "cert"), ("key", "key")))
    node.write(SETTINGS, f'DOCKER_OPTS="--host tcp://0.0.0.0:2376 --tlsverify {files}"\n'.encode())
    node.dockerd("restart")
    node.docker("swarm", "init")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", kept / "python"], check=True)
    common = {"validate_certs": True, "ca_path": str(kept / "ca.pem")}
    yield Appliance(
        fleet=booted.inside(),
        address=f"tcp://{node.address}:2376",
        tls={**common, **Pair.of("client", authority).write(kept, "client")},
        strange={**common, **Pair.of("client", Pair.of("other")).write(kept, "stranger")},
        python=kept / "python" / "bin" / "python",
    )
    for name in (MANAGER, WORKER):
        booted[name].leave()
    node.write(SETTINGS, before or b"")
    node.dockerd("restart")


def test_the_fault_of_the_inventory_is_reported(appliance: Appliance) -> None:
    """The run reports the fault before any query."""
    run = appliance.run(tls={"cert": "/c"})
    assert run.rc != 0
    assert f"{HOST}: swarm_manager_docker_tls has cert, which is not known. Its keys are tls, validate_certs" in run.output


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("certificate", ["The Docker daemon at tcp://", "does not answer: ", "fix docker_host and the TLS options"]),
        ("file", ["/gone.pem on ", "client_key cannot be read", "fix client_key"]),
    ],
)
def test_an_unusable_api_is_reported(appliance: Appliance, fault: str, words: list[str], tmp_path: Path) -> None:
    node = appliance.fleet[WORKER]
    tls = {"certificate": appliance.strange, "file": {**appliance.tls, "client_key": str(tmp_path / "gone.pem")}}
    before = node.files(), node.started()
    run = appliance.run(tls=tls[fault])
    assert run.rc == 2
    (text,) = run.failures(WORKER)
    assert [word for word in [f"{HOST}: ", *words] if word not in text] == []
    assert run.changed()[WORKER] == 0
    assert ((node.files(), node.started()), node.swarm()["LocalNodeState"]) == (before, "inactive")


@pytest.fixture(scope="module")
def joined(appliance: Appliance) -> Run:
    appliance.fleet[MANAGER].touch()
    run = appliance.run("-vvv", "--diff")
    assert run.rc == 0, run.output
    return run


def touched(run: Run) -> list[str]:
    """Return the changed hosts. The recap also lists the controller, because the check of the settings runs there."""
    return [host for host, number in run.changed().items() if number]


def test_a_worker_joins_and_is_labelled(appliance: Appliance, joined: Run) -> None:
    fleet, gpus = appliance.fleet, appliance.fleet[WORKER].gpus()
    assert touched(joined) == [WORKER]
    assert re.split(r"  +", joined.row(WORKER))[-3:] == [f"1 {KIND}", "1", "ready"]
    assert shown(fleet, WORKER, MANAGER) == {KIND: gpus}
    assert member(fleet, WORKER, MANAGER)["Spec"]["Labels"]["gpu.count"] == "1"
    assert member(fleet, WORKER, MANAGER)["Spec"]["Role"] == "worker"


def test_nothing_is_done_on_the_manager(appliance: Appliance, joined: Run) -> None:
    assert appliance.fleet[MANAGER].touched() == []


def test_no_secret_is_shown(appliance: Appliance, joined: Run) -> None:
    manager = appliance.fleet[MANAGER]
    secrets = [manager.docker("swarm", "join-token", "--quiet", role).rsplit("-", 1)[1] for role in ("worker", "manager")]
    secrets += Path(appliance.tls["client_key"]).read_text().splitlines()[1:-1]
    assert appliance.tls["client_key"] in joined.output  # the output may show the key's path
    assert [secret for secret in secrets if secret in joined.output] == []


def test_another_run_changes_nothing(appliance: Appliance, joined: Run) -> None:
    """Nothing changes, even if one of several managers does not answer. A warning says that the answering manager is not verified."""
    assert "is not verified" not in joined.output
    run = appliance.run(gone=True, tls={**appliance.tls, "tls": True, "validate_certs": False})
    assert (run.rc, touched(run)) == (0, []), run.output
    assert f"{appliance.address} is used with TLS, but the certificate of the server is not verified" in " ".join(run.output.split())


def test_the_status_of_its_swarm_is_shown(appliance: Appliance, joined: Run) -> None:
    run = appliance.run(playbook="fleet.gpu_swarm.status")
    assert run.rc == 0, run.output
    assert {name: run.row(name).split()[0] for name in (MANAGER, WORKER)} == dict.fromkeys((MANAGER, WORKER), "ready")
    assert f"{KIND} □" in run.row(WORKER)
    assert list(run.recap) == [HOST]


@pytest.mark.rare
def test_a_change_is_rolled(appliance: Appliance, joined: Run) -> None:
    fleet, manager = appliance.fleet, appliance.fleet[MANAGER]
    before, since = fleet[WORKER].started(), manager.run("date", "+%s.%N")
    run = appliance.run(*advertised_as("RENTED"))
    assert run.rc == 0, run.output
    assert fleet[WORKER].started() != before
    assert shown(fleet, WORKER, MANAGER) == {"RENTED": fleet[WORKER].gpus()}
    assert availabilities(fleet, WORKER, since, MANAGER) == ["pause", "active"]


@pytest.mark.rare
def test_the_worker_is_verified_and_deprovisioned(appliance: Appliance, joined: Run) -> None:
    fleet, manager = appliance.fleet, appliance.fleet[MANAGER]
    run = appliance.run()  # as before the change
    assert run.rc == 0, run.output
    run = appliance.run("--extra-vars", "verify_image=lab/cuda", playbook="fleet.gpu_swarm.verify")
    assert run.rc == 0, run.output
    run = appliance.run(playbook="fleet.gpu_swarm.deprovision")
    assert run.rc == 0, run.output
    assert touched(run) == [WORKER]
    assert fleet[WORKER].swarm()["LocalNodeState"] == "inactive"
    wait_until("the manager to be alone", lambda: len(manager.docker("node", "ls", "--quiet").split()) == 1)
