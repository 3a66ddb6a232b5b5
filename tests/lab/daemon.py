# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts, finds, stops and wipes the lab's dockerd, which runs in separate namespaces."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.errors import DockerException

from . import limits
from .lab import GATEWAY, HERE, SUBNET, Lab, LabError

NETWORK = "lab"
# The folders of a lab in its root. Only these folders are removed, because the user chooses the root.
CONTENTS = (
    "compiled", "daemon.json", "docker", "dockerd.log", "etc-docker", "fleets", "images.tar", "lent-etc-docker", "nvml", "repository", "signing",
    "ssh",
)  # fmt: skip
START_LIMIT = 60  # seconds
NEEDED = {  # program: Debian package
    "dockerd": "docker.io", "docker": "docker-cli (docker.io on Debian 12)", "containerd": "containerd",
    "ip": "iproute2", "unshare": "util-linux", "iptables": "iptables",
}  # fmt: skip


def wait_for(what: str, seconds: float, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise LabError(f"gave up after {seconds:.0f} s of waiting for {what}")
        time.sleep(0.05)


def require_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab needs root, for a dockerd of its own in network and mount namespaces of its own; use sudo")


def need(programs: dict[str, str]) -> None:
    missing = {package for program, package in programs.items() if not shutil.which(program)}
    if missing:
        raise LabError(f"the lab needs what these packages bring; install them: {', '.join(sorted(missing))}")


@contextmanager
def locked(lab: Lab) -> Iterator[None]:
    """Lock the parts that a lab has only once: its daemon, its images, its repository."""
    lab.run.mkdir(mode=0o755, exist_ok=True)
    with open(lab.run / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pid(lab: Lab) -> int | None:
    """Return the process that keeps the namespaces, if it runs and belongs to the lab. By now, another process may have the recorded number."""
    try:
        pid = int(lab.pidfile.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if str(lab.root).encode() in command else None


def running(lab: Lab) -> bool:
    return _pid(lab) is not None


def any_running() -> bool:
    """Return whether any lab runs on this machine, in any root."""
    for pidfile in Path("/run").glob("gpu-swarm-lab-*/init.pid"):
        command = Path("/proc", pidfile.read_text().strip(), "cmdline")
        if command.exists() and str(pidfile.parent).encode() in command.read_bytes():
            return True
    return False


def client(lab: Lab, timeout: int = 120) -> docker.DockerClient:
    if not running(lab):
        raise LabError(f"no lab is running with root {lab.root}; start a fleet with: python -m tests.lab up")
    return docker.DockerClient(base_url=lab.docker_host, timeout=timeout)


def _settings(lab: Lab) -> dict[str, object]:
    return {
        "hosts": [lab.docker_host], "data-root": str(lab.root / "docker"), "exec-root": str(lab.run / "exec"),
        "pidfile": str(lab.run / "docker.pid"), "cgroup-parent": f"/{lab.name}",
        # The network namespace belongs to the lab alone, so nothing needs a filter.
        "bridge": "none", "iptables": False, "ip-masq": False, "userland-proxy": False,
        # The cgroup driver `systemd` would request scopes from the host's systemd, which does not know the names of the lab.
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
    }  # fmt: skip


def start(lab: Lab) -> None:
    """Start the lab unless it runs already."""
    if running(lab):
        return
    need(NEEDED)
    wipe(lab)
    limits.lift()
    for folder in (lab.root, lab.run, lab.nodes, lab.repository, lab.fleets, lab.root / "etc-docker"):
        folder.mkdir(parents=True, exist_ok=True)
    _lend_etc_docker(lab)
    (lab.root / "daemon.json").write_text(json.dumps(_settings(lab), indent=2))
    with open(lab.log, "wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "--net", "--ipc", "--pid", "--fork", "--kill-child",
             "--mount-proc", sys.executable, str(HERE / "init.py"), str(lab.root), str(lab.run)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
        )  # fmt: skip
    lab.pidfile.write_text(str(process.pid))
    wait_for(f"the lab's dockerd (log: {lab.log})", START_LIMIT, lambda: _answers(lab, process))
    _network(lab)


def _answers(lab: Lab, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        tail = lab.log.read_text(errors="replace").strip().splitlines()[-5:]
        raise LabError("the lab's dockerd did not start; its last words:\n" + "\n".join(tail))
    try:
        return lab.socket.exists() and docker.DockerClient(base_url=lab.docker_host).ping()
    except DockerException:
        return False


def _network(lab: Lab) -> None:
    pool = docker.types.IPAMPool(subnet=SUBNET, gateway=GATEWAY)
    client(lab).networks.create(
        NETWORK, driver="bridge", ipam=docker.types.IPAMConfig(pool_configs=[pool]),
        options={"com.docker.network.bridge.name": "lab0", "com.docker.network.bridge.enable_ip_masquerade": "false"},
    )  # fmt: skip


def _lend_etc_docker(lab: Lab) -> None:
    """init.py mounts a folder of the lab over /etc/docker. If /etc/docker does not exist, create it, and remove it again at the end."""
    if not Path("/etc/docker").exists():
        Path("/etc/docker").mkdir()
        (lab.root / "lent-etc-docker").touch()


def stop(lab: Lab) -> None:
    pid = _pid(lab)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)  # because of --kill-child, process 1 of the namespaces ends too, and so do all processes in them
        # A process that has ended has no command line, even if its parent never reaps it. Process 1 of a container may be a sleep that reaps nothing.
        wait_for("the lab's processes to end", 60, lambda: _pid(lab) is None)
        _collect(pid)
    wait_for("the nodes' processes to end", 60, lambda: not any(_members(lab)))


def _collect(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # another process started the lab, so the lab is no child of this process
        os.waitpid(pid, 0)


def _cgroups(lab: Lab) -> list[Path]:
    """Return the lab's cgroup in each hierarchy: one with cgroup v2, several with v1."""
    base = Path("/sys/fs/cgroup")
    return [folder for folder in (base / lab.name, *base.glob(f"*/{lab.name}")) if folder.is_dir()]


def _members(lab: Lab) -> Iterator[str]:
    for top in _cgroups(lab):
        for folder, _folders, _files in os.walk(top):
            yield from (Path(folder) / "cgroup.procs").read_text().split()


def wipe(lab: Lab) -> None:
    """Stop the lab and remove all of its files, except caches and installed packages."""
    stop(lab)
    for top in _cgroups(lab):
        for folder, _folders, _files in os.walk(top, topdown=False):
            os.rmdir(folder)
    if (lab.root / "lent-etc-docker").exists():
        Path("/etc/docker").rmdir()
    for own in (*(lab.root / name for name in CONTENTS), *lab.run.glob("[!l]*")):
        if own.is_dir():
            shutil.rmtree(own)
        else:
            own.unlink(missing_ok=True)
    if lab.root.is_dir() and not any(lab.root.iterdir()):
        lab.root.rmdir()
    limits.restore(any_running)
