# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as containers: creates them from a description, boots them, waits for them, removes them."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
from archspec.cpu import TARGETS
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from . import rpms, ssh, variants
from .archive import Files, archive
from .daemon import NETWORK, client
from .fleet import Fleet, Node, seeded
from .lab import GATEWAY, HERE, REPOSITORY_HOST, SUBNET, Lab, LabError
from .packages import apt_files

BOOT_LIMIT = 120  # seconds
FLEET_LABEL = "gpu-swarm-lab.fleet"
NODE_LABEL = "gpu-swarm-lab.node"
NVML_CONF = "etc/gpu-lab/nvml.conf"
# The test runner sets this variable. Nodes for measurements do not use the cache.
COMPILED = "GPU_SWARM_LAB_COMPILED"
# systemd 257 boots with cgroup v1 only if the kernel's command line allows it.
KERNEL_LINE = "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"


def container_name(fleet: str, node: str) -> str:
    return f"{fleet}.{node}"


def find(lab: Lab, fleet: str) -> list[Container]:
    return client(lab).containers.list(all=True, filters={"label": f"{FLEET_LABEL}={fleet}"})


def get(lab: Lab, name: str) -> Container:
    """Return a node by FLEET.NODE, or by its name alone if only one fleet has a node with that name."""
    engine = client(lab)
    try:
        return engine.containers.get(name)
    except NotFound:
        found = engine.containers.list(all=True, filters={"label": f"{NODE_LABEL}={name}"})
    if len(found) != 1:
        names = ", ".join(c.name for c in found or engine.containers.list(filters={"label": FLEET_LABEL}))
        raise LabError(f"{'more than one' if found else 'no'} node is called {name!r}; there are: {names or 'none'}")
    return found[0]


def run(container: Container, *command: str) -> str:
    """Return the output of a command in a node."""
    done = container.exec_run(list(command), demux=True)
    out, errors = ((part or b"").decode(errors="replace").strip() for part in done.output)
    if done.exit_code != 0:
        raise LabError(f"{container.name}: {' '.join(command)} failed: {errors or out}")
    return out


PYTHON = b"#!/usr/bin/python3 -ISE\n"  # a program on the nodes returns this status


def driver_files(lab: Lab, text: str, node_name: str) -> Files:
    """Return the files of the driver on a GPU node: the stand-in for NVML and its programs."""
    built = lab.root / "nvml"
    return {
        "usr/lib/libnvidia-ml.so.1": ((built / "libnvidia-ml.so.1").read_bytes(), 0o644),
        "usr/lib/libcuda.so.1": ((built / "libcuda.so.1").read_bytes(), 0o644),
        "usr/bin/nvidia-smi": ((built / "nvidia-smi").read_bytes(), 0o755),
        "usr/bin/nvidia-modprobe": ((HERE / "driver" / "nvidia-modprobe").read_bytes(), 0o755),
        "usr/sbin/modprobe": ((HERE / "driver" / "modprobe").read_bytes(), 0o755),
        # A static program, because images of tasks may lack a libc. The stand-in runtime mounts this program in their containers.
        "usr/lib/gpu-lab/nvidia-smi": ((built / "nvidia-smi-static").read_bytes(), 0o755),
        "usr/local/sbin/lab-gpu-devices": (PYTHON + (HERE / "driver" / "lab_gpu_devices.py").read_bytes(), 0o755),
        NVML_CONF: (seeded(text, node_name).encode(), 0o644),
    }


def build_driver(lab: Lab) -> None:
    command = ["make", "--silent", "-C", str(HERE / "nvml"), f"OUT={lab.root / 'nvml'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed (it needs make, gcc and libc6-dev):\n{done.stderr.strip()}")


def compiled(lab: Lab) -> Path | None:
    """Return the nodes' cache of compiled Python code (compiled/lab_compiled.py), or None if they have no cache."""
    return lab.root / "compiled" if os.environ.get(COMPILED) else None


def compiled_files() -> Files:
    return {f"usr/lib/python3/dist-packages/{path.name}": (path.read_bytes(), 0o644) for path in (HERE / "compiled").glob("lab_compiled.p*")}


def node_files(lab: Lab, fleet: str, node: Node) -> Files:
    files = {"usr/share/gpu-lab/images.tar": ((lab.root / "images.tar").read_bytes(), 0o644)}
    if compiled(lab):
        files.update(compiled_files())
    files.update(rpms.node_files(lab, node.image, node.family) if node.family else apt_files(lab, node.image))
    if node.ssh:
        files.update(ssh.node_files(lab, container_name(fleet, node.name)))
    if node.gpus is not None:
        files.update(driver_files(lab, node.gpus, node.name))
    if node.cpu is not None:
        files["usr/share/gpu-lab/cpuinfo"] = (cpuinfo(node.cpu).encode(), 0o644)
        files["etc/fstab"] = (b"/usr/share/gpu-lab/cpuinfo /proc/cpuinfo none bind 0 0\n", 0o644)
    if node.daemon_json is not None:
        files["etc/docker/daemon.json"] = (node.daemon_json.encode(), 0o644)
    return files


def cpuinfo(name: str) -> str:
    """Return /proc/cpuinfo for the x86-64 processor with this name in archspec."""
    cpu = TARGETS[name]
    return f"processor\t: 0\nvendor_id\t: {cpu.vendor}\nflags\t\t: {' '.join(sorted(cpu.features | {'pni'}))}\n\n"


def _host_config(lab: Lab) -> dict[str, object]:
    """Return the host configuration as the Docker API expects it, because the SDK lacks some options.

    Nodes are not privileged, because that fails if this machine itself lacks CAP_SYS_RESOURCE.
    """
    kept = compiled(lab)
    if kept:
        kept.mkdir(exist_ok=True)
    return {
        "Binds": [f"{kept}:/var/cache/lab-compiled"] if kept else [],
        "CapAdd": ["ALL"], "CapDrop": ["SYS_RESOURCE"], "DeviceCgroupRules": ["a *:* rwm"],
        "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"], "MaskedPaths": [], "ReadonlyPaths": [],
        "Tmpfs": {"/run": "exec,mode=755", "/run/lock": "", "/tmp": "exec"},
        "NetworkMode": NETWORK, "ExtraHosts": [f"{REPOSITORY_HOST}:{GATEWAY}"],
        "RestartPolicy": {"Name": "on-failure"},  # a reboot ends the container with a status that is not 0
        "Dns": ["127.0.0.1"],  # so queries of other names are refused at once, without a time-out
        "CgroupnsMode": "private",  # so the containers of the node's dockerd are also below the lab's control group
    }  # fmt: skip


def create_all(lab: Lab, fleet: Fleet) -> list[Container]:
    """Create all nodes of a fleet without starting them. Only one `up` may run at a time, because a lab has only one range of addresses."""
    engine = client(lab)
    wanted = {variants.tag(node): node for node in fleet.nodes}
    with ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(lambda node: variants.provide(lab, engine, node), wanted.values()))
        return list(pool.map(lambda pair: _create(lab, engine, fleet.name, *pair), zip(fleet.nodes, free_addresses(engine), strict=False)))


def free_addresses(engine: docker.DockerClient) -> Iterator[str]:
    """Yield the free addresses.

    Each node always keeps its address. Otherwise Docker could give the address of a stopped node to another node. A swarm does not recognise a
    manager with a new address.
    """
    found = engine.containers.list(all=True, ignore_removed=True, filters={"label": FLEET_LABEL})
    taken = {GATEWAY, *(address for container in found for address in addresses([container]).values())}
    return (str(host) for host in ipaddress.ip_network(SUBNET).hosts() if str(host) not in taken)


def addresses(containers: list[Container]) -> dict[str, str]:
    """Return the addresses by the nodes' names."""
    return {
        container.labels[NODE_LABEL]: container.attrs["NetworkSettings"]["Networks"][NETWORK]["IPAMConfig"]["IPv4Address"] for container in containers
    }


def _create(lab: Lab, engine: docker.DockerClient, fleet: str, node: Node, given: str) -> Container:
    config = {
        "Image": variants.tag(node), "Hostname": node.name,
        "Labels": {FLEET_LABEL: fleet, NODE_LABEL: node.name}, "StopSignal": "SIGRTMIN+3",
        "Env": [f"SYSTEMD_PROC_CMDLINE={KERNEL_LINE}"], "HostConfig": _host_config(lab),
        "NetworkingConfig": {"EndpointsConfig": {NETWORK: {"IPAMConfig": {"IPv4Address": given}}}},
    }  # fmt: skip
    created = engine.api.create_container_from_config(config, container_name(fleet, node.name))
    container = engine.containers.get(created["Id"])
    (lab.nodes / container.name).write_text(f"{container.id}\n")
    container.put_archive("/", archive(node_files(lab, fleet, node)))
    return container


def await_boot(container: Container) -> None:
    """Wait until systemd has started all units. Then dockerd answers, because its unit reports when dockerd is ready."""
    end = time.monotonic() + BOOT_LIMIT
    state = "no answer"
    while time.monotonic() < end:
        try:
            state = container.exec_run(["systemctl", "is-system-running", "--wait"]).output.decode().strip()
        except APIError as error:
            raise LabError(f"node {container.name} stopped while it booted: {error.explanation}") from error
        if state == "running":
            return
        if state == "degraded":
            failed = container.exec_run(["systemctl", "--failed", "--no-legend", "--plain"]).output.decode()
            raise LabError(f"node {container.name} booted with failed units:\n{failed}")
        time.sleep(0.1)  # no bus yet
    raise LabError(f"node {container.name} did not boot in {BOOT_LIMIT} s; systemd says: {state}")


def boot_all(containers: list[Container]) -> None:
    """Boot all nodes in parallel."""

    def boot(container: Container) -> None:
        container.start()
        await_boot(container)

    with ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(boot, containers))


def remove(lab: Lab, fleet: str) -> int:
    found = find(lab, fleet)
    with ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(lambda container: container.remove(force=True, v=True), found))
    return len(found)


def swap_machine(container: Container, text: str) -> None:
    """Give a running node the GPUs of another machine. The next read of NVML shows them."""
    content = seeded(text, container.labels[NODE_LABEL]).encode()
    container.put_archive("/", archive({NVML_CONF: (content, 0o644)}))
    run(container, "/usr/local/sbin/lab-gpu-devices")
