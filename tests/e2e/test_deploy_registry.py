# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deploy from a registry with a login: Debian's docker-registry on a node of the lab. The login is in a vault, and no output shows it. Nodes pull the
image before the update.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.lab import families

from .conftest import Loud
from .fleet import BIN, DAEMON_JSON, Fleet, wait_until

PLAYBOOK = "fleet.gpu_swarm.deploy"
STACK = "private"
USER, PASSWORD = "deployer", "S3cret-of-a-registry"
# The same password as `htpasswd -B` hashes it.
HTPASSWD = b"deployer:$2b$04$Sd0q5hxOgS9U6MXRVzgRGORshHdKr2om44YZ0w6Eu2OtaB0kBBN1W\n"
CONFIG = {
    "version": 0.1,
    "storage": {"filesystem": {"rootdirectory": "/var/lib/docker-registry"}},
    "http": {"addr": ":5000"},
    "auth": {"htpasswd": {"realm": "lab", "path": "/etc/docker/registry/htpasswd"}},
}
MEMBERS = ("m1", "g1", "g2")
# A registry without TLS, only in the lab.
INSECURE = "insecure-registries"


@pytest.fixture(scope="module")
def registry(fleet: Fleet, first: Loud) -> Iterator[str]:
    """Return the address of the registry. The registry has the image of the lab's tasks under a name that no member of the swarm knows."""
    host, address = fleet["x3"], f"{fleet['x3'].address}:5000"
    before = {name: fleet[name].read(DAEMON_JSON) for name in MEMBERS}
    try:
        for package in families.debs("debian13", "registry"):
            host.write(f"/root/registry/{package.name}", package.read_bytes())
        host.run("sh", "-c", "dpkg --install /root/registry/*.deb")
        host.write("/etc/docker/registry/config.yml", yaml.safe_dump(CONFIG).encode())
        host.write("/etc/docker/registry/htpasswd", HTPASSWD)
        host.run("systemctl", "restart", "docker-registry")
        for name, content in before.items():
            fleet[name].unwatched()
            fleet[name].write(DAEMON_JSON, json.dumps({**json.loads(content or b"{}"), INSECURE: [address]}).encode())
            fleet[name].run("systemctl", "reload", "docker")
        _push(fleet, address)
        yield address
    finally:
        fleet["m1"].run("docker", "stack", "rm", STACK, check=False)
        for name, content in before.items():
            if content is None:
                fleet[name].run("rm", "--force", DAEMON_JSON)
            else:
                fleet[name].write(DAEMON_JSON, content)
            fleet[name].run("systemctl", "reload", "docker")
        host.run("sh", "-c", "dpkg --purge docker-registry; rm -rf /root/registry /var/lib/docker-registry", check=False)


def _push(fleet: Fleet, address: str) -> None:
    manager, image = fleet["m1"], f"{address}/team/task"
    docker = ("docker", "--config", "/run/push")
    login = [*docker, "login", "--username", USER, "--password-stdin", address]

    def logged_in() -> bool:
        return manager.start(*login, text=PASSWORD.encode(), check=False).returncode == 0

    wait_until("the registry to answer", logged_in)
    manager.docker("tag", "lab/task", image)
    manager.run(*docker, "push", "--quiet", image)
    manager.docker("rmi", "--no-prune", image)
    manager.run("rm", "-r", "/run/push")


@pytest.fixture(scope="module")
def arguments(registry: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    compose = tmp_path_factory.mktemp("private") / "compose.yml"
    service = {"image": f"{registry}/team/task", "command": ["sleep", "100000"], "stop_grace_period": "1s", "gpus": [{"count": 1}]}
    compose.write_text(yaml.safe_dump({"services": {"train": service}}))
    return ["-e", f"compose={compose}", "-e", f"stack={STACK}"]


def _services(fleet: Fleet) -> str:
    return fleet["m1"].docker("service", "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}").strip()


@pytest.mark.parametrize(
    ("password", "remedy"), [(None, "Add a login to gpu_stack_registries"), ("wrong-p4ss", "Correct the login in gpu_stack_registries")]
)
def test_a_registry_may_refuse(fleet: Fleet, inventory: Path, registry: str, arguments: list[str], password: str | None, remedy: str) -> None:
    logins = {registry: {"username": USER, "password": password}} if password else {}
    run = fleet.playbook(inventory, *arguments, "-e", json.dumps({"gpu_stack_registries": logins}), playbook=PLAYBOOK)
    assert run.rc == 2, run.output
    assert f"The registry {registry} refuses the image {registry}/team/task: " in run.output
    assert remedy in run.output
    assert password is None or password not in run.output
    assert not _services(fleet)


def test_a_login_from_a_vault_is_used(fleet: Fleet, inventory: Path, registry: str, arguments: list[str], tmp_path: Path) -> None:
    vault, secret, log = tmp_path / "vault.yml", tmp_path / "secret", tmp_path / "ansible.log"
    vault.write_text(yaml.safe_dump({"vault_password": PASSWORD}))
    secret.write_text("of the vault")
    subprocess.run([BIN / "ansible-vault", "encrypt", "--vault-password-file", secret, vault], check=True, capture_output=True)
    logins = {"gpu_stack_registries": {registry: {"username": USER, "password": "{{ vault_password }}"}}}
    run = fleet.playbook(
        inventory, "-vvvv", "--diff", "--vault-password-file", str(secret), "-e", f"@{vault}", "-e", json.dumps(logins), *arguments,
        playbook=PLAYBOOK, env={"ANSIBLE_LOG_PATH": str(log), "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "1"},
    )  # fmt: skip
    assert run.rc == 0, run.output
    assert f"{STACK}_train: 1 of 1 running" in run.output
    forms = [PASSWORD, base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode().rstrip("=")]
    for text in (run.output, log.read_text()):
        assert not [form for form in forms if form in text]
    patterns = [word for form in forms for word in ("-e", form)]
    # /run contains mounts of the lab, including files of the kernel.
    places = ("/etc", "/root", "/run", "/tmp", "/var/tmp", "/var/lib/gpu-swarm")
    search = ("find", *places, "-xdev", "-type", "f", "-exec", "grep", "-lF", *patterns, "{}", "+")
    assert not fleet["m1"].run(*search, check=False).splitlines()
    # Prove that the search finds existing files.
    fleet["m1"].write("/run/found", forms[1].encode())
    assert fleet["m1"].run(*search, check=False).splitlines() == ["/run/found"]
    fleet["m1"].run("rm", "/run/found")


def test_nodes_pull_an_image_before_the_update(fleet: Fleet, inventory: Path, registry: str, arguments: list[str]) -> None:
    """A killed run left a service that pulls. The new image has another digest, because it has a label."""
    image, manager = f"{registry}/team/task:next", fleet["m1"]
    options = {"gpu_stack_registries": {registry: {"username": USER, "password": PASSWORD}}}
    first = fleet.playbook(inventory, *arguments, "-e", json.dumps(options), playbook=PLAYBOOK)
    assert first.rc == 0, first.output
    digest = _push_next(fleet, registry, image)
    compose = Path(arguments[1].partition("=")[2])
    compose.write_text(compose.read_text().replace(f"{registry}/team/task", image))
    (before,) = manager.inspect_tasks(_running(fleet))
    node = next(name for name in ("g1", "g2") if fleet[name].swarm()["NodeID"] == before["NodeID"])
    left = ("docker", "service", "create", "--detach", "--quiet", "--no-resolve-image", "--restart-condition", "none", "--label")
    manager.run(*left, f"gpu-swarm.pull={STACK}", "--name", "gpu-swarm-pull-left", "lab/task", "/gpu-swarm-pull")
    pulls = json.dumps({**options, "gpu_stack_pull": True})
    run = fleet.playbook(inventory, *arguments, "-e", pulls, playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    lines = [f"{node}: pull {image} before the update", f"{node}: pulls {image}", f"{node}: has {image} (1 of 1)"]
    places = [run.output.find(line) for line in [*lines, f"{STACK}_train: 1 of 1 running"]]
    assert -1 not in places, run.output
    assert places == sorted(places), run.output
    (after,) = manager.inspect_tasks(_running(fleet))
    assert after["Spec"]["ContainerSpec"]["Image"] == f"{image}@{digest}"
    assert PASSWORD not in run.output
    assert not manager.docker("service", "ls", "--quiet", "--filter", "label=gpu-swarm.pull").strip()
    # The image is everywhere, so nothing is pulled, and no task is replaced.
    again = fleet.playbook(inventory, *arguments, "-e", pulls, playbook=PLAYBOOK)
    assert (again.rc, "before the update" in again.output, _running(fleet)) == (0, False, [after["ID"]]), again.output


def _running(fleet: Fleet) -> list[str]:
    return fleet["m1"].docker("service", "ps", "--quiet", "--no-trunc", "--filter", "desired-state=running", f"{STACK}_train").split()


def _push_next(fleet: Fleet, registry: str, image: str) -> str:
    """Push a new image, and return its digest."""
    manager = fleet["m1"]
    docker = ("docker", "--config", "/run/push")
    manager.start(*docker, "login", "--username", USER, "--password-stdin", registry, text=PASSWORD.encode())
    container = manager.run("docker", "create", "lab/task", "true").strip()
    manager.run("docker", "commit", "--change", "LABEL next=1", container, "lab/next")
    manager.docker("rm", container)
    manager.docker("tag", "lab/next", image)
    manager.run(*docker, "push", "--quiet", image)
    digest = manager.docker("image", "inspect", "--format", "{{index .RepoDigests 0}}", image).partition("@")[2]
    manager.docker("rmi", "--no-prune", image, "lab/next")
    manager.run("rm", "-r", "/run/push")
    return digest
