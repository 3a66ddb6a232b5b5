# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""If a stack lacks a key of Compose and an equivalent exists, the key is translated.

Without an equivalent, the key is an error if the task would lose protection or its GPUs. Otherwise, the key causes a note.
"""

from __future__ import annotations

from textwrap import dedent, indent
from typing import Any

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack import unsupported_gpu_requests
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import Stack, translate

OFFERED = {"dri": ["/dev/dri/*"], "fuse": ["/dev/fuse"], "rdma": ["/dev/infiniband/uverbs*"]}
HOST = {"host": {"external": True, "name": "host"}}


def of(text: str, more: str = "") -> Stack:
    service = indent(dedent(text).strip(), "    ")
    text = f"services:\n  a:\n    image: lab/cuda\n{service}\n{dedent(more)}"
    return translate(text, "compose.yml", lambda _path: None, {}, offered=lambda: OFFERED)


def made(text: str, more: str = "") -> tuple[dict[str, Any], list[str]]:
    stack = of(text, more)
    return {key: value for key, value in stack.document["services"]["a"].items() if key != "image"}, stack.notes


def shared(size: int) -> dict[str, Any]:
    return {"volumes": [{"type": "tmpfs", "target": "/dev/shm", "tmpfs": {"size": size}}]}


def limits(**of_deploy: Any) -> dict[str, Any]:
    return {"deploy": {"resources": {"limits": of_deploy}}}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('restart: "no"', {"deploy": {"restart_policy": {"condition": "none"}}}),
        ("restart: no", {"deploy": {"restart_policy": {"condition": "none"}}}),
        ("restart: on-failure", {"deploy": {"restart_policy": {"condition": "on-failure"}}}),
        ("restart: on-failure:3", {"deploy": {"restart_policy": {"condition": "on-failure", "max_attempts": 3}}}),
        ("restart: on-failure:0", {"deploy": {"restart_policy": {"condition": "on-failure"}}}),
        # The result is swarm's default.
        ("restart: always", {}),
        ("restart: unless-stopped", {}),
        ("restart:", {}),
        # Compose uses the key restart only if there is no restart_policy.
        ("restart: always\ndeploy: {restart_policy: {condition: none}}", {"deploy": {"restart_policy": {"condition": "none"}}}),
        ("restart: 'no'\ndeploy: {restart_policy: {delay: 5s}}", {"deploy": {"restart_policy": {"delay": "5s"}}}),
        ("restart: 'no'\ndeploy: {mode: replicated-job}", {"deploy": {"mode": "replicated-job", "restart_policy": {"condition": "none"}}}),
        ("scale: 3", {"deploy": {"replicas": 3}}),
        ("scale: 0", {"deploy": {"replicas": 0}}),
        ("cpus: 0.5", limits(cpus="0.5")),
        ("cpus: '0.5'\ndeploy: {resources: {limits: {cpus: 0.50}}}", limits(cpus="0.5")),
        ("cpu_quota: 50000", limits(cpus="0.500")),
        ("cpu_quota: 50000\ncpu_period: 25000", limits(cpus="2.000")),
        ("cpu_quota: -1", {}),
        ("cpu_quota: 0", {}),
        ("cpu_quota: 50000\ncpu_period: -1", {}),
        ("cpus: 1\ncpu_quota: 50000", limits(cpus="1")),
        ("mem_limit: 512m", limits(memory=str(2**29))),
        ("mem_limit: 1073741824", limits(memory=str(2**30))),
        ("mem_reservation: 0.5g", {"deploy": {"resources": {"reservations": {"memory": str(2**29)}}}}),
        ("mem_limit: 1024m\ndeploy: {resources: {limits: {memory: 1g}}}", limits(memory="1g")),
        ("mem_limit: 1g\npids_limit: 100", limits(memory=str(2**30), pids=100)),
        ("mem_limit: 0\npids_limit: 0\ncpus: 0", {}),
        ("pids_limit: -1", {}),
        ("pids_limit: 100\ndeploy: {resources: {limits: {cpus: 2}}}", limits(cpus="2", pids=100)),
        ("shm_size: 8gb", shared(2**33)),
        ("shm_size: 67108864", shared(2**26)),
        ("shm_size: 0", {}),
        ("shm_size: 1g\nvolumes: [/data]", {"volumes": ["/data", *shared(2**30)["volumes"]]}),
    ],
)  # fmt: skip
def test_equivalent_keys_are_translated_silently(text: str, wanted: dict[str, Any]) -> None:
    assert made(text) == (wanted, [])


def test_a_limit_of_processes_needs_a_newer_version_of_the_file() -> None:
    assert of("pids_limit: 100").document["version"] == "3.9"


def test_translated_keys_count_for_the_scheduler() -> None:
    (one,) = specifications(of("mem_reservation: 1g\nscale: 2").document, "s")
    assert (one["Mode"], one["TaskTemplate"]["Resources"]["Reservations"]) == ({"Replicated": {"Replicas": 2}}, {"MemoryBytes": 2**30})


def test_a_mount_on_shared_memory_overrides_its_size() -> None:
    service, (note,) = made("shm_size: 1g\nvolumes: ['/dev/shm:/dev/shm']")
    assert service == {"volumes": ["/dev/shm:/dev/shm"]}
    assert "services.a.shm_size" in note


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ("", "host"),
        ("networks: {host: {external: true, name: host}}", "host"),
        ("networks: {host: {external: true}, other: }", "host"),
        ("networks: {host: }", "network_of_the_node"),
        ("networks: {host: {external: true, name: mine}}", "network_of_the_node"),
    ],
)
def test_the_network_of_the_host_is_translated(more: str, name: str) -> None:
    stack = of("network_mode: host", more)
    assert (stack.document["services"]["a"]["networks"], stack.notes) == ([name], [])
    assert stack.document["networks"][name] == HOST["host"]
    specifications(stack.document, "s")


def test_with_the_network_of_the_host_no_port_is_published() -> None:
    """Docker also ignores such ports, with a warning."""
    service, (note,) = made("network_mode: host\nports: ['80:80']")
    assert service == {"networks": ["host"]}
    assert "services.a.ports has no effect on Swarm and is ignored; instead: nothing: in the host network a task" in note


@pytest.mark.parametrize("mode", ["bridge", "default"])
def test_the_bridge_of_a_machine_is_the_network_of_the_stack(mode: str) -> None:
    service, (note,) = made(f"network_mode: {mode}")
    assert service == {}
    assert "services.a.network_mode has no effect on Swarm" in note


LOOSENS = [
    "seccomp=unconfined", "seccomp:unconfined", "apparmor=unconfined", "apparmor:unconfined", "label=disable", "label:disable",
    "systempaths=unconfined", "no-new-privileges:false", "writable-cgroups=true",
]  # fmt: skip


@pytest.mark.parametrize("option", LOOSENS)
def test_keys_that_give_a_task_more_rights_are_a_note(option: str) -> None:
    service, (note,) = made(f"security_opt: ['{option}']")
    assert service == {}
    assert note.startswith("compose.yml: services.a.security_opt has no effect on Swarm and is ignored")


@pytest.mark.parametrize(("key", "value"), [("cgroup", "host"), ("userns_mode", "host"), ("pid", "host"), ("ipc", "none"), ("privileged", "true")])
def test_keys_that_share_something_of_the_node_are_a_note(key: str, value: str) -> None:
    assert [note.split(" ")[1] for note in made(f"{key}: {value}")[1]] == [f"services.a.{key}"]


@pytest.mark.parametrize("text", ["privileged: false", "oom_kill_disable: false", "security_opt: []", "devices: []", "expose: []", "ipc: ''"])
def test_keys_without_effect_are_not_named(text: str) -> None:
    assert made(text) == ({}, [])


@pytest.mark.parametrize("options", ["noexec", "rw,noexec,nosuid,nodev"])
def test_default_options_of_a_tmpfs_are_accepted(options: str) -> None:
    assert made(f"tmpfs: ['/tmp:{options}']") == ({"volumes": [{"type": "tmpfs", "target": "/tmp"}]}, [])


def test_a_tmpfs_with_programs_becomes_a_volume() -> None:
    (note,) = made("tmpfs: ['/transcode:exec']")[1]
    instead = "a task cannot run programs from its tmpfs: mount a volume there"
    assert note == f"compose.yml: services.a.tmpfs[0].exec has no effect on Swarm and is ignored; instead: {instead}"


PROTECTS = [
    ("network_mode: none", "services.a.network_mode is 'none', but on Swarm each task gets a network."),
    ("network_mode: service:other", "services.a.network_mode is 'service:other', but on Swarm each task has its own network"),
    ("network_mode: container:other", "services.a.network_mode is 'container:other'"),
    ("network_mode: mine", "services.a.network_mode is 'mine'"),
    ("network_mode: host\nnetworks: [default]", "services.a has both network_mode and networks. Remove one of them."),
    ("security_opt: [no-new-privileges]", "services.a.security_opt: no-new-privileges is not supported on Swarm, so the task would run without"),
    ("security_opt: ['no-new-privileges:true']", "services.a.security_opt: no-new-privileges is not supported"),
    ("security_opt: ['no-new-privileges=true']", "services.a.security_opt: no-new-privileges is not supported"),
    ("security_opt: ['apparmor=unconfined', 'seccomp=./profile.json']", "services.a.security_opt: seccomp is not supported"),
    ("security_opt: ['apparmor:mine']", "services.a.security_opt: apparmor is not supported"),
    ("security_opt: ['label:type:svirt_apache_t']", "services.a.security_opt: label is not supported"),
    ("security_opt: ['mask=/proc/x']", "services.a.security_opt: mask is not supported"),
    ("cgroup: private", "services.a.cgroup: private is not supported on Swarm"),
    ("userns_mode: 'auto:size=65536'", "services.a.userns_mode: auto is not supported on Swarm"),
    ("ports: ['127.0.0.1:5432:5432']", "services.a.ports[0] is published only on 127.0.0.1"),
    ("ports: ['[::1]:5432:5432']", "services.a.ports[0] is published only on [::1]"),
    ("ports: [{target: 80, published: 80, host_ip: 10.0.0.1}]", "services.a.ports[0] is published only on 10.0.0.1"),
    ("volumes: [{type: bind, source: /a, target: /a, bind: {recursive: readonly}}]", "services.a.volumes[0].bind.recursive: swarm also mounts"),
]


@pytest.mark.parametrize(("text", "message"), PROTECTS)
def test_a_key_whose_absence_removes_protection_is_an_error(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(text)
    assert raised.value.message.startswith(f"compose.yml: {message}")
    assert raised.value.message.endswith(".")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("restart: never", "services.a.restart is 'never', but must be no, always, on-failure or unless-stopped"),
        ("restart: false", "services.a.restart is 'false'"),
        ("restart: on-failure:x", "services.a.restart is 'on-failure:x'"),
        ("scale: 3\ndeploy: {replicas: 2}", "services.a.scale and deploy.replicas have different values"),
        ("mem_limit: 1g\ndeploy: {resources: {limits: {memory: 2g}}}", "services.a.mem_limit and deploy.resources.limits.memory have"),
        ("pids_limit: 5\ndeploy: {resources: {limits: {pids: x}}}", "services.a.pids_limit and"),
        ("mem_limit: big", "services.a.mem_limit is 'big', but must be a size"),
        ("mem_limit: 1g\ndeploy: {resources: [x]}", "services.a.deploy.resources is a list, but must be a mapping"),
        ("pids_limit: many", "limits.pids is 'many'"),
        ("shm_size: [x]", "services.a.shm_size is a list"),
        ("cpu_quota: 50ms", "services.a.cpu_quota is '50ms', but must be a whole number of microseconds"),
    ],
)
def test_a_key_without_an_equivalent_is_one_error(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(text)
    assert message in raised.value.message


BY_OTHER_MEANS = {
    "device nodes": ("devices: ['/dev/nvidia0:/dev/nvidia0', /dev/nvidiactl]", "devices[0] requests GPUs by /dev/nvidia0,"),
    "not the first": ("devices: ['/dev/fuse', '/dev/nvidia-uvm:/dev/nvidia-uvm']", "devices[1] requests GPUs by /dev/nvidia-uvm,"),
    "a mapping": ("devices: [{source: /dev/nvidia-caps/nvidia-cap1, target: /x}]", "devices[0] requests GPUs by /dev/nvidia-caps/nvidia-cap1,"),
    "of Jetson": ("devices: [/dev/nvhost-gpu]", "devices[0]"),
    "of WSL": ("devices: [/dev/dxg]", "devices[0]"),
    "a CDI name": ("devices: ['nvidia.com/gpu=all']", "devices[0] requests GPUs by nvidia.com/gpu=all,"),
    "a CDI name of the toolkit": ("devices: ['runtime.nvidia.com/gpu=0']", "devices[0]"),
    "a CDI name as a mapping": ("devices: [{source: 'nvidia.com/gpu=0'}]", "devices[0]"),
    "a bind mount": ("volumes: ['/dev/nvidia0:/dev/nvidia0', '/dev/nvidiactl:/dev/nvidiactl']", "volumes[0] requests GPUs by /dev/nvidia0,"),
    "a bind mount as a mapping": ("volumes: [/x, {type: bind, source: /dev/nvidiactl, target: /dev/nvidiactl}]", "volumes[1]"),
    "a mount that the toolkit reads": ("volumes: ['/dev/null:/var/run/nvidia-container-devices/all']", "volumes[0]"),
    "one as a mapping": ("volumes: [{type: volume, source: v, target: /run/nvidia-container-devices/0}]", "volumes[0]"),
    "a rule for device nodes": ("device_cgroup_rules: ['c 195:* rwm']", "device_cgroup_rules[0] requests GPUs by the rule"),
    "an annotation": ("annotations: {cdi.k8s.io/x: nvidia.com/gpu=0}", "annotations requests GPUs by a CDI name,"),
    "beside a reservation": ("gpus: [{count: 1}]\ndevices: [/dev/nvidia0]", "devices[0]"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BY_OTHER_MEANS.values(), ids=BY_OTHER_MEANS)
def test_gpus_that_are_requested_in_another_way_are_an_error(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(text)
    assert raised.value.message.startswith(f"compose.yml: services.a.{message}")
    assert raised.value.message.endswith(unsupported_gpu_requests.REMEDY)
    assert "count: 1" in unsupported_gpu_requests.REMEDY


@pytest.mark.parametrize("text", ["device_cgroup_rules: ['c 189:* rw']", "annotations: [a=b]"])
def test_rules_and_annotations_that_are_about_no_gpu_are_a_note(text: str) -> None:
    service, (note,) = made(text)
    assert service == {}
    assert "has no effect on Swarm and is ignored" in note


# Files of typical users, each with its result.
RAY = """
services:
  head:
    image: ${IMG:-lab/cuda}
    entrypoint: /bin/bash
    command: >
      -c "ray start --head --block --port=$PORT --dashboard-host=$${HOSTNAME}"
    networks: [host]
    shm_size: ${SHM_SIZE:-10g}
    ipc: host
    ulimits: {memlock: -1, stack: 67108864}
    cap_add: [IPC_LOCK]
    devices: ["/dev/infiniband:/dev/infiniband"]
    deploy:
      replicas: ${N:-1}
      placement: {constraints: [node.role == manager]}
      resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: NVIDIA-GPU, value: "${GPUS:-2}"}}]}}
networks: {host: {name: host, external: true}}
"""
MEDIA = """
services:
  worker:
    image: lab/cuda
    hostname: "worker-{{.Node.Hostname}}"
    environment: {VERSION: docker, PUID: 1000, NVIDIA_VISIBLE_DEVICES: all}
    devices: [/dev/dri:/dev/dri]
    volumes: ["codecs:/codecs", {type: volume, source: shows, target: /config, volume: {nocopy: true}}]
volumes:
  codecs: {name: "codecs-{{.Task.Slot}}"}
  shows: {driver: local, driver_opts: {type: nfs, o: "addr=192.0.2.2,rw", device: ":/srv"}}
"""


def test_a_ray_cluster() -> None:
    stack = translate(RAY, "compose.yml", lambda _path: None, {}, offered=lambda: OFFERED)
    service = stack.document["services"]["head"]
    assert service["volumes"] == shared(10 * 2**30)["volumes"]
    assert service["deploy"]["resources"]["reservations"]["generic_resources"][0]["discrete_resource_spec"] == {"kind": "NVIDIA-GPU", "value": 2}
    assert stack.document["networks"] == {"host": {"external": True, "name": "host"}}
    assert service["environment"] == {"GPU_SWARM_DEVICES": "rdma"}
    assert service["deploy"]["placement"]["constraints"] == ["node.role == manager", "node.labels.gpu-swarm.device.rdma==true"]
    assert [note.split(" ")[1] for note in stack.notes] == ["the", "services.head.ipc"]


def test_a_media_server() -> None:
    stack = translate(MEDIA, "compose.yml", lambda _path: None, {}, offered=lambda: OFFERED)
    assert stack.document["services"]["worker"]["environment"]["GPU_SWARM_DEVICES"] == "dri"
    assert stack.document["services"]["worker"]["hostname"] == "worker-{{.Node.Hostname}}"
    assert stack.document["volumes"]["codecs"] == {"name": "codecs-{{.Task.Slot}}"}
    assert [note.split(" ")[1] for note in stack.notes] == ["services.worker"]
