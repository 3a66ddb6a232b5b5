# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An execution environment that ansible-builder makes from the folder of the playbook bundle, as docs/operate/awx.md shows.

Packages for dnf come from the lab's repository, and nothing else is downloaded. Then ansible-runner provisions a fleet over SSH, in a container of
this image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab import daemon, images, rootfs, rpms, ssh, variants
from tests.lab import fleet as descriptions
from tests.lab.lab import GATEWAY, REPOSITORY_HOST, Lab, output

from .fleet import BIN, CHECKOUT, LIMIT_S, Fleet, Run, of_its_own

pytestmark = pytest.mark.rare

NAME = "e2e-ee"
FLEET = """
vars: {nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container}
nodes:
  m1: {groups: [swarm_managers], ssh: true}
  g1: {gpus: t4x4, image: debian12, ssh: true}
"""
NODES = ["m1", "g1"]
STICK = "/media/stick/gpu-swarm"
# This node has dnf, and the Python that downloads the bundle.
OF_BASE = descriptions.Node(name="base", image="debian12", family="rhel")
BASE, IMAGE = "lab/ee-base:latest", "lab/gpu-swarm-ee:latest"
# Programs that a real base image has: ssh, and pip, which Debian's Python lacks.
OF_SSH = ("openssh-client_", "libcbor", "libedit", "libfido2")
DOCKERFILE = """\
FROM {image}
COPY etc /etc
COPY {pip} /root/
RUN python3 /root/{pip}/pip install --no-index --break-system-packages /root/{pip}
"""
USER_OF_IMAGE = 1000


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ee")


@pytest.fixture(scope="module")
def fleet(work: Path) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, work)


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a command, and return its output if it succeeds. BuildKit is not tested, because Docker's client needs a plugin to use it."""
    own = {**os.environ, "DOCKER_HOST": Lab.from_environment().docker_host, "DOCKER_BUILDKIT": "0", "NO_COLOR": "1", **env}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, timeout=2 * LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def described(heading: str) -> str:
    """Return an execution-environment.yml from the docs."""
    (found,) = re.findall(rf"```yaml\n({re.escape(heading)}\n.*?)```", (CHECKOUT / "docs" / "operate" / "awx.md").read_text(), re.DOTALL)
    return found


def download() -> list[str]:
    """Return the additional pip downloads from the docs, without the target folder."""
    text = (CHECKOUT / "docs" / "operate" / "awx.md").read_text()
    (line,) = re.findall(rf"^\$ pip (download .*) --dest {STICK}/python (.*)$", text, re.MULTILINE)
    return [word.strip("'\"") for part in line for word in part.split()]


@pytest.fixture(scope="module")
def bundle(fleet: Fleet, work: Path) -> Path:
    words = ["-e", f"bundle={work / 'bundle'}", "-e", "machines=m1"]
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = fleet.playbook(fleet.inventory(swarm_managers=["m1"]), *words, playbook="fleet.gpu_swarm.bundle", env=path)
    assert done.rc == 0, done.output
    python = work / "bundle" / "python"
    run(sys.executable, "-m", "pip", *download(), "--dest", python, cwd=work)
    return work / "bundle"


def publish_ssh(lab: Lab, work: Path) -> Path:
    """Make a package with RHEL's name and Debian's files, in a separate repository."""
    tree, folder = work / "ssh", lab.repository / "openssh"
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed run
    for package in ssh.debs(OF_BASE.image):
        if package.name.startswith(OF_SSH):
            run("dpkg-deb", "--extract", package, tree, cwd=work)
    rpms.build([[rpms.Package("openssh-clients", "9.2-1", tree=tree)]], folder)
    rpms.index(lab, folder)
    return folder


def files_of_base(lab: Lab, work: Path, repository: Path) -> None:
    found = rpms.node_files(lab, OF_BASE.image, "rhel")
    definition = rpms.REPO.format(host=REPOSITORY_HOST, folder=repository.name, key=rpms.KEY).replace("[lab]", "[openssh]")
    found["etc/yum.repos.d/openssh.repo"] = (definition.encode(), 0o644)
    for name, (content, _mode) in found.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(content)


@pytest.fixture(scope="module")
def base(fleet: Fleet, work: Path) -> Iterator[str]:
    """Turn the image of a node with dnf into a base image like a user's."""
    lab, context = Lab.from_environment(), work / "base"
    context.mkdir()
    with daemon.locked(lab):
        rootfs.build(OF_BASE.image)
        images.provide(lab, {OF_BASE.image})
        rpms.publish(lab, [OF_BASE])
        variants.provide(lab, daemon.client(lab), OF_BASE)
        repository = publish_ssh(lab, work)
    files_of_base(lab, context, repository)
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", context, "pip", cwd=work)
    (wheel,) = context.glob("pip-*.whl")
    (context / "Dockerfile").write_text(DOCKERFILE.format(image=variants.tag(OF_BASE), pip=wheel.name))
    run("docker", "build", "--network", "none", "--tag", BASE, context, cwd=work)
    yield BASE
    shutil.rmtree(repository)
    run("docker", "image", "rm", BASE, cwd=work)
    run("docker", "image", "prune", "--force", cwd=work)  # stages of the build that no image uses


@pytest.fixture(scope="module")
def image(bundle: Path, base: str, work: Path) -> Iterator[str]:
    description = yaml.safe_load(described("# execution-environment.yml, of a bundle").replace(STICK, str(bundle)))
    description["images"]["base_image"]["name"] = base
    description["options"] = {"skip_pip_install": True}  # ansible-builder would call ensurepip, which Debian disables
    (work / "execution-environment.yml").write_text(yaml.safe_dump(description))
    options = f"--force-rm --network {daemon.NETWORK} --add-host {REPOSITORY_HOST}:{GATEWAY}"
    builder = [BIN / "ansible-builder", "build", "--container-runtime", "docker", "-t", IMAGE, "--verbosity", "3"]
    run(*builder, "--extra-build-cli-args", options, cwd=work)
    yield IMAGE
    run("docker", "image", "rm", IMAGE, cwd=work)


def inside(fleet: Fleet) -> Fleet:
    """Return the inventory for a container: over SSH, with the files in /runner."""
    found = fleet.over_ssh()
    of_host = ("ansible_ssh_", "ansible_sftp_", "ansible_scp_", "ansible_control_")
    variables: dict[str, Any] = {name: value for name, value in found.vars.items() if not name.startswith(of_host)}
    variables["ansible_ssh_common_args"] = "-o UserKnownHostsFile=/runner/known_hosts"
    return replace(found, vars=variables)


def plain(text: str) -> Run:
    """Return the output of ansible-runner as on a terminal, without colours."""
    return Run(0, re.sub(r"\x1b\[[0-9;]*m|\r", "", text))


@dataclass(frozen=True)
class Runner:
    """ansible-runner with its folder: the inventory, a key and the known hosts."""

    program: Path
    image: str
    folder: Path

    @classmethod
    def of(cls, fleet: Fleet, bundle: Path, image: str, work: Path) -> Runner:
        folder, venv = work / "runner", work / "venv"
        for name in ("env", "inventory", "project"):
            (folder / name).mkdir(parents=True)
        shutil.copy(inside(fleet).inventory(swarm_managers=["m1"], gpu_nodes=["g1"]), folder / "inventory" / "hosts.yml")
        shutil.copy(Lab.from_environment().root / "ssh" / "user", folder / "env" / "ssh_key")
        shutil.copy(output(fleet.name) / "known_hosts", folder)
        run(sys.executable, "-m", "venv", venv, cwd=work)
        run(venv / "bin/pip", "install", "--quiet", "--no-index", "--find-links", bundle / "python", "ansible-runner", cwd=work)
        return cls(venv / "bin/ansible-runner", image, folder)

    def play(self, name: str) -> Run:
        """Play with Docker, as the docs show."""
        isolation = ["--process-isolation", "--process-isolation-executable", "docker", f"--container-option=--network={daemon.NETWORK}"]
        words = ["run", self.folder, *isolation, "--container-image", self.image, "-p", f"fleet.gpu_swarm.{name}"]
        return plain(run(self.program, *words, cwd=self.folder))

    def inside(self, name: str) -> Run:
        """Run ansible-runner in the container as the image's user."""
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, USER_OF_IMAGE, 0)
        words = ["--rm", "--network", daemon.NETWORK, "--volume", f"{self.folder}:/runner", self.image]
        text = run("docker", "run", *words, "ansible-runner", "run", "/runner", "-p", f"fleet.gpu_swarm.{name}", cwd=self.folder)
        return plain(text)


@pytest.fixture(scope="module")
def runner(fleet: Fleet, bundle: Path, image: str, work: Path) -> Runner:
    return Runner.of(fleet, bundle, image, work)


def test_the_image_has_the_packages_that_the_collection_names(image: str, work: Path) -> None:
    libraries = [line.split("==")[0] for line in (CHECKOUT / "meta" / "ee-requirements.txt").read_text().splitlines() if "==" in line]
    listed = run("docker", "run", "--rm", image, "python3", "-m", "pip", "list", "--format=freeze", cwd=work)
    assert [name for name in libraries if f"{name}==" not in listed] == []
    assert "openssh-clients" in run("docker", "run", "--rm", image, "rpm", "--query", "openssh-clients", cwd=work)
    collections = run("docker", "run", "--rm", image, "ansible-galaxy", "collection", "list", cwd=work)
    assert [name for name in ("fleet.gpu_swarm", "community.general") if name not in collections] == []


def test_a_fleet_is_provisioned_from_the_image(fleet: Fleet, runner: Runner) -> None:
    done = runner.play("provision")
    assert {name: done.row(name).split()[-1] for name in NODES} == dict.fromkeys(NODES, "ready"), done.output
    assert fleet["g1"].swarm()["LocalNodeState"] == "active"
    again = runner.play("provision")
    assert again.changed() == dict.fromkeys(NODES, 0), again.output


def test_ansible_runner_in_the_image_shows_the_status(runner: Runner) -> None:
    done = runner.inside("status")
    assert done.failed() == [], done.output
    assert [name for name in NODES if "ready" not in done.row(name)] == [], done.output
