# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Compose file is translated into an equivalent stack file, or causes one clear error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

import pytest
import yaml
from junk import JUNK, PLACES, WHOLE

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack.document import load_compose, load_yaml
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.stack_yaml import to_display, to_yaml
from plugins.plugin_utils._stack.translate import Stack, translate

ONE_GPU = [{"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": 1}}]


def of_file(text: str, files: dict[str, bytes] | None = None, **environment: str) -> Stack:
    return translate(dedent(text), "compose.yml", (files or {}).get, environment)


def of_service(text: str, files: dict[str, bytes] | None = None, **environment: str) -> tuple[dict[str, Any], list[str]]:
    """Translate the service train, with its image and these keys. Return the service and the notes."""
    stack = of_file("services:\n  train:\n    image: lab/task\n" + indent(dedent(text).strip(), "    "), files, **environment)
    return {key: value for key, value in stack.document["services"]["train"].items() if key != "image"}, stack.notes


def reservations(service: dict[str, Any]) -> Any:
    return service["deploy"]["resources"]["reservations"]


DEVICES = """
deploy:
  resources:
    reservations:
      {}:
        - {}
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (DEVICES.format("devices", "{driver: nvidia, count: 1, capabilities: [gpu]}"), {"NVIDIA-GPU": 1}),
        (DEVICES.format("devices", "{count: 2, capabilities: [gpu, nvidia]}"), {"NVIDIA-GPU": 2}),
        (DEVICES.format("devices", "{count: '${N:-3}', capabilities: [gpu]}"), {"NVIDIA-GPU": 3}),
        (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: VRAM, value: 4000}}"), {"VRAM": 4000}),
        ("gpus: [{count: 1}]", {"NVIDIA-GPU": 1}),
        ("gpus: [{driver: nvidia, count: 1, capabilities: [gpu]}, {count: 2}]", {"NVIDIA-GPU": 3}),
    ],
)
def test_gpus_become_generic_resources(text: str, wanted: dict[str, int]) -> None:
    service, notes = of_service(text)
    found = [item["discrete_resource_spec"] for item in reservations(service)["generic_resources"]]
    assert {one["kind"]: one["value"] for one in found} == wanted
    assert "gpus" not in service
    assert "devices" not in reservations(service)
    assert notes == []


@pytest.mark.parametrize(
    ("text", "capabilities"),
    [
        (DEVICES.format("devices", "{count: 1, capabilities: [gpu, video]}"), "compute,utility,video"),
        (DEVICES.format("devices", "{count: 1, capabilities: [utility, gpu, compute]}"), "compute,utility"),
        (DEVICES.format("devices", "{count: 1, capabilities: [graphics]}"), "compute,utility,graphics"),
        ("gpus: [{count: 1, capabilities: [gpu, video]}, {count: 1, capabilities: [compute, display]}]", "compute,utility,video,display"),
        ("gpus: [{count: 1}]", None),
        (DEVICES.format("devices", "{count: 1, capabilities: [nvidia, gpu]}"), None),
        ("gpus: [{count: 1, capabilities: [gpu, video]}]\nenvironment: [NVIDIA_DRIVER_CAPABILITIES=all]", "all"),
        ("gpus: [{count: 1, capabilities: [gpu, video]}]\nenv_file: own.env", "display"),
    ],
)
def test_capabilities_of_the_driver_always_include_compute_and_utility(text: str, capabilities: str | None) -> None:
    service, notes = of_service(text, {"own.env": b"NVIDIA_DRIVER_CAPABILITIES=display\n"})
    assert service.get("environment", {}).get("NVIDIA_DRIVER_CAPABILITIES") == capabilities
    assert notes == []


def test_options_of_a_device_are_named() -> None:
    _service, (note,) = of_service(DEVICES.format("devices", "{count: 1, capabilities: [gpu], options: {virtualization: false}}"))
    assert note.startswith("compose.yml: services.train.deploy.resources.reservations.devices[0].options has no effect on Swarm and is ignored")
    assert of_service("gpus: [{count: 1, options: {}}]")[1] == []


def test_the_fleet_may_have_another_kind() -> None:
    stack = translate("services: {a: {image: i, gpus: [{count: 1}]}}", "c.yml", lambda _path: None, {}, "GPU")
    assert reservations(stack.document["services"]["a"])["generic_resources"][0]["discrete_resource_spec"]["kind"] == "GPU"


MISPRINT = """
deploy:
  resources:
    reservations:
      generic_resources:
        - discrete_resource_spec:
          kind: NVIDIA-GPU
          value: 1
"""
TWICE = DEVICES.format(
    "generic_resources", "\n        - ".join("{discrete_resource_spec: {kind: %s, value: 1}}" % kind for kind in ("VRAM", "NVIDIA-GPU", "NVIDIA-GPU"))
)
NOT_DEPLOYED = [
    ("gpus: all", "services.train.gpus is all. Swarm allocates GPUs by number"),
    ("gpus: 2", "services.train.gpus is 2, but must be a list. Write gpus: [{count: 1}]"),
    ("gpus: {count: 2}", "services.train.gpus is {'count': 2}, but must be a list"),
    ("gpus: [{count: all}]", "its count is all"),
    ("gpus: [{driver: nvidia}]", "has no count, which would mean all"),
    (DEVICES.format("devices", "{count: all, capabilities: [gpu]}"), "reservations.devices[0]: its count is all"),
    (DEVICES.format("devices", "{driver: nvidia, capabilities: [gpu]}"), "has no count, which would mean all GPUs of the machine"),
    (DEVICES.format("devices", "{device_ids: ['0'], capabilities: [gpu]}"), "sets device_ids, but swarm chooses the cards"),
    (DEVICES.format("devices", "{count: 1}"), "capabilities: [gpu]"),
    (DEVICES.format("devices", "{driver: cdi, count: 1, capabilities: [gpu]}"), "its driver is cdi, which finds devices only by their names"),
    ("gpus: [{driver: NVIDIA, count: 1}]", "its driver is 'NVIDIA', but Docker has no such driver. Write driver: nvidia."),
    (DEVICES.format("devices", "{count: 1, capabilities: [nvidia-compute]}"), "its capabilities have 'nvidia-compute', which NVIDIA's driver"),
    (DEVICES.format("devices", "{count: 1, capabilities: [gpu, tpu]}"), "its capabilities have 'tpu'"),
    (DEVICES.format("devices", "{count: 1, capabilities: [[gpu]]}"), "its capabilities have ['gpu']"),
    (DEVICES.format("devices", "{count: 1, capabilities: gpu}"), "its capabilities are 'gpu'. Write capabilities: [gpu]"),
    (DEVICES.format("devices", "{count: 1, capabilities: []}"), "its capabilities are empty. Write capabilities: [gpu]"),
    (DEVICES.format("devices", "{count: ' 2 ', capabilities: [gpu]}"), "its count is ' 2 ', but must be a whole number"),
    (DEVICES.format("devices", "{count: ²,  capabilities: [gpu]}"), "its count is '²', but must be a whole number"),
    (DEVICES.format("devices", "{count: 0, capabilities: [gpu]}"), "its count is 0"),
    (DEVICES.format("devices", "{count: true, capabilities: [gpu]}"), "its count is True"),
    (DEVICES.format("devices", "{cuont: 1, capabilities: [gpu]}"), "has cuont"),
    (DEVICES.format("devices", "gpu"), "is 'gpu', but must be a mapping"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: VRAM, value: -4000}}"), "the value of VRAM is -4000"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: NVIDIA-GPU, value: 0}}"), "a task would get every free NVIDIA-GPU of"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: NVIDIA-GPU, value: '0'}}"), "Write how many each task needs"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: VRAM, value: 0.5}}"), "the value of VRAM is 0.5"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: '', value: 1}}"), "its kind is empty. Write the name of a resource kind"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: 5, value: 1}}"), "its kind is 5. Write the name of a resource kind"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {value: 1}}"), "its kind is empty. Write the name of a resource kind"),
    (DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: A, value: 1}, a: 1}"), "under it. Rewrite it like that"),
    (DEVICES.format("generic_resources", "a"), "must be discrete_resource_spec with only kind and value under it"),
    (DEVICES.format("generic_resources", "{named_resource_spec: {kind: GPU, value: a}}"), "must be discrete_resource_spec"),
    (TWICE, "generic_resources has NVIDIA-GPU twice. Write it once, with the sum"),
    (MISPRINT, "kind and value are beside discrete_resource_spec, but must be under it. Indent both"),
    ("gpus: [{count: 1}]\n" + DEVICES.format("devices", "{count: 1, capabilities: [gpu]}"), "in both gpus and"),
    ("gpus: [{count: 1}]\n" + DEVICES.format("generic_resources", "{discrete_resource_spec: {kind: NVIDIA-GPU, value: 1}}"), "again as devices"),
    ("runtime: nvidia", "services.train.runtime is not supported on Swarm: a task gets the default runtime"),
    ("x-gpu: {memory: 40000}", "services.train.x-gpu.memory is not known. x-gpu supports memory_min, "),
    ("comand: x", "services.train.comand is not known"),
    ("deploy: {replica: 2}", "services.train.deploy.replica is not known"),
    ("deploy: {resources: {limits: {devices: []}}}", "limits.devices is not known. Write it under reservations"),
    ("extends: {service: base}", "services.train.extends is not supported on Swarm: write the extended"),
    ("volumes: ['./data:/data']", "volumes[0]: the path ./data is on your machine"),
    ("volumes: ['../data:/data:ro']", "the path ../data is on your machine"),
    ("volumes: ['~/data:/data']", "the path ~/data is on your machine"),
    ("volumes: ['sub/data:/data']", "the path sub/data is on your machine"),
    ("volumes: [{type: bind, source: ., target: /data}]", "the path . is on your machine"),
    ("volumes: [{type: volume, source: a, target: /b, volume: {subpath: c}}]", "swarm mounts only whole volumes"),
    ("env_file: missing.env", "services.train.env_file[0]: the file missing.env does not exist"),
    ("env_file: own.env", "own.env, line 2 is not of the form NAME=value"),
    ("env_file: quote.env", "quote.env, line 2: the quote at the start of the value is not closed. Close it"),
    ("environment: {A: [1]}", "environment.A is a list, but must be text"),
    ("command: ${WHO:?say who}", "the variable WHO is required: say who"),
    ("command: echo ${", "there is a '${' without a valid variable"),
    ("command: echo ${ A}", "Write ${NAME}, or $${"),
    ("command: echo ${A!x}", "there is a '${' without a valid variable"),
    ("command: echo ${A", "there is a '${' without a valid variable"),
    ("command: echo ${A:-${B}", "there is a '${' without a valid variable"),
    ("ports: [{target: 80, published: '8000-8010'}]", "ports[0].published is '8000-8010'"),
    ("volumes: [{type: tmpfs, target: /t, tmpfs: {size: big}}]", "tmpfs.size is 'big'"),
    ("tmpfs: run", "services.train.tmpfs[0]: run is not an absolute path"),
    ("tmpfs: ['/run:size=big']", "services.train.tmpfs[0].size is 'big'"),
    ("tmpfs: {/run: }", "services.train.tmpfs is a mapping, but must be a list of strings"),
    ("deploy: {resources: {limits: {pids: many}}}", "limits.pids is 'many', but must be a whole number"),
    ("networks: {default: {alias: x}}", "services.train.networks.default.alias is not known"),
    # Docker itself would find these errors only after it has created networks, secrets and configs.
    ("networks: [back]", "services.train.networks has back, but the file declares no such network. Declare it under networks, or correct the name"),
    ("networks: {back: {aliases: [x]}}", "services.train.networks has back"),
    ("networks: [host]", "services.train.networks has host"),
    ("volumes: ['data:/data']", "services.train.volumes has data, but the file declares no such volume"),
    ("volumes: [{type: volume, source: data, target: /data}]", "services.train.volumes has data"),
    ("volumes: [{type: cluster, source: data, target: /data}]", "services.train.volumes has data"),
    ("configs: [settings]", "services.train.configs has settings, but the file declares no such config"),
    ("configs: [{source: settings, target: /s}]", "services.train.configs has settings"),
    ("configs: [{target: /s}]", "services.train.configs[0] must be a name, or a mapping with source"),
    ("configs: settings", "services.train.configs is text, but must be a list"),
    ("credential_spec: {config: mine}", "services.train.credential_spec has mine, but the file declares no such config"),
    ("secrets: [{source: key}]", "services.train.secrets has key, but the file declares no such secret"),
    ("deploy: {placement: {constraints: [node.labels.x=1]}}", "constraints has 'node.labels.x=1', which swarm does not accept. Write it as node."),
    ("deploy: {placement: {constraints: [node.labels.a/b==1]}}", "constraints has 'node.labels.a/b==1'"),
    ("deploy: {placement: {constraints: [disktype=ssd]}}", "constraints has 'disktype=ssd'"),
    ("volumes: [{source: a, target: /b}]", "volumes[0]: its type is empty. Write volume, bind, tmpfs, npipe or cluster"),
    ("volumes: [{type: volume, target: /b, tmpfs: {size: 1}}]", "volumes[0] has tmpfs, which needs the type tmpfs. Remove it"),
    ("volumes: [{type: tmpfs, source: a, target: /b}]", "volumes[0]: a tmpfs has no source"),
    ("volumes: ['/a:/tmp/:ro']\ntmpfs: /tmp", "services.train mounts two things at /tmp, under volumes or tmpfs. Remove one of them"),
    ("volumes: [{type: tmpfs, target: /tmp}, /tmp]", "services.train mounts two things at /tmp"),
    ("tmpfs: [/run, '/run:size=1m']", "services.train mounts two things at /run"),
]  # fmt: skip
DECLARED = """
networks: {back: }
volumes: {data: }
configs: {settings: {external: true}}
secrets: {key: {external: true}}
"""


@pytest.mark.parametrize(
    "text",
    [
        "networks: [back, default]",
        "networks: {default: {aliases: [x]}}",
        "volumes: [/e, '/a:/b', 'data:/data:ro', {type: volume, target: /c}, {type: cluster, source: 'group:g', target: /d}]",
        "volumes: [{type: volume, source: data, target: /data}, {type: bind, source: /a, target: /b}, {type: tmpfs, target: /c}]",
        "configs: [settings, {source: settings, target: /s}]",
        "secrets: [key]",
        "credential_spec: {config: settings}",
        "deploy: {placement: {constraints: ['node.labels.x == a b', node.role!=manager, 'engine.labels.y==a/b:c']}}",
    ],
)
def test_names_that_a_service_uses_must_be_declared(text: str) -> None:
    stack = of_file("services:\n  train:\n    image: i\n    " + text + DECLARED)
    assert "train" in stack.document["services"]


@pytest.mark.parametrize(("text", "message"), NOT_DEPLOYED)
def test_an_error_is_clear_and_alone(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of_service(text, {"own.env": b"A=1\nis this\n", "quote.env": b"A=1\nB=\"b\nC=c\n"})
    assert message in raised.value.message
    assert raised.value.message.endswith(".")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: [", "compose.yml is not readable YAML: line 1"),
        ("- a", "compose.yml is not a Compose file"),
        ("", "compose.yml is not a Compose file"),
        ("{}", "compose.yml has no services to deploy"),
        ("services: {a: }", "services.a has no image. Write its name"),
        ("services: {a: {build: .}}", "services.a has no image. Build it, push it"),
        ("services: {a: {image: '', build: .}}", "services.a has no image. Build it, push it"),
        ("services: {a: {image: '${X}', build: .}}", "services.a.image is '', which is not a valid image name. The variable X is not set"),
        ("services: {a: {image: x}, a: {image: y}}", "the key a appears twice"),
        ("services: {a: &a {image: x, environment: {b: *a}}}", "contains itself: an alias"),
        ("services: {a: {image: !reset x}}", "line 1, column 23: there is a tag (!name), but tags are not supported. Remove it"),
        ("service: {a: {image: x}}", "compose.yml: service is not known"),
        ("services: {a: {image: x}}\n---\nservices: {}", "line 2, column 1: a second document (---) begins there"),
        ("include: [other.yml]\nservices: {a: {image: x}}", "include is not supported on Swarm"),
        ("services: {a: {image: x}}\nconfigs: {c: {file: lost.txt}}", "configs.c: the file lost.txt does not exist"),
        ("services: {a: {image: x}}\nconfigs: {c: {}}", "configs.c has no content"),
        ("services: {a: {image: x}}\nsecrets: {c: {file: a, environment: B}}", "secrets.c has file and environment"),
        ("services: {a: {image: x}}\nsecrets: {c: {environment: B}}", "the variable B is not set"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_an_error(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of_file(text)
    assert message in raised.value.message
    assert "\n" not in raised.value.message


def test_aliases_of_aliases_are_bounded() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    with pytest.raises(GpuSwarmError, match="more than 100000 values"):
        of_file(bomb)


@pytest.mark.parametrize("read", [load_compose, load_yaml])
def test_merge_keys_are_bounded(read: Callable[[str, str], Any]) -> None:
    """PyYAML copies a mapping for each alias. In this file, each level has ten times as many copies as the level before."""
    keys, ten = ", ".join(f"k{n}: 1" for n in range(10)), "[{}]".format
    levels = "".join(f"a{n}: &a{n} {{<<: {ten(', '.join([f'*a{n - 1}'] * 10))}}}\n" for n in range(1, 30))
    began = time.process_time()
    assert read(f"a0: &a0 {{{keys}}}\n{levels}", "c.yml")["a29"] == dict.fromkeys([f"k{n}" for n in range(10)], 1)
    assert time.process_time() - began < 1
    keys = ", ".join(f"k{n}: 1" for n in range(3000))
    many = f"a0: &a0 {{{keys}}}\n" + "".join(f"a{n}: &a{n} {{<<: *a{n - 1}, z{n}: 1}}\n" for n in range(1, 60))
    with pytest.raises(GpuSwarmError, match=r"c\.yml is not readable YAML: line 35, column 6: merge keys \(<<\) add more than 100000 values"):
        read(many, "c.yml")


MERGED = """
a: &a {x: 1, y: 2}
b: &b {<<: *a, x: 3}
c: {<<: *b, y: 9}
d: *b
e: {<<: [*b, *a], z: 1}
f: {<<: *a, <<: {y: 5}, x: 4}
g: {deeper: &g {<<: *a, x: 3}}
h: {<<: *g, y: 9}
"""


def test_a_key_that_overrides_an_anchor_is_no_duplicate() -> None:
    """This holds even if the same anchor was merged before, because PyYAML then sees all keys in one mapping."""
    b, c, e = {"x": 3, "y": 2}, {"x": 3, "y": 9}, {"x": 3, "y": 2, "z": 1}
    assert load_compose(MERGED, "c.yml") == {"a": {"x": 1, "y": 2}, "b": b, "c": c, "d": b, "e": e, "f": {"x": 4, "y": 5}, "g": {"deeper": b}, "h": c}
    stack = of_file("""
        x-base: &base {image: lab/cuda, environment: {A: "1"}}
        services:
          a: &a {<<: *base, profiles: [never], environment: {A: "2"}}
          b: {<<: *a, profiles: []}
          c: {<<: *base, image: lab/task}
    """)
    assert {name: (one["image"], one["environment"]["A"]) for name, one in stack.document["services"].items()} == {
        "b": ("lab/cuda", "2"), "c": ("lab/task", "1"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {<<: 1}", "a merge key (<<) accepts only mappings"),
        ("a: {<<: [1]}", "a merge key (<<) accepts only mappings"),
        ("a: &a {x: 1}\nb: {<<: *a, y: 1, y: 2}", "line 2, column 19: the key y appears twice"),
        ("a: &a {b: &b {<<: *a}, <<: *b}", "contains itself"),
    ],
)
def test_an_invalid_merge_is_an_error(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        load_compose(text, "c.yml")
    assert message in raised.value.message


def test_keys_without_meaning_are_dropped_and_named() -> None:
    service, notes = of_service("""
        container_name: t
        memswap_limit: 8g
        ipc: shareable
        build: .
        cpuset: 0-3
        x-own: 1
        stop_signal: SIGINT
    """)
    assert service == {"stop_signal": "SIGINT"}
    assert [note.split(" ")[1].rpartition(".")[2] for note in notes] == ["container_name", "memswap_limit", "build", "cpuset", "ipc"]
    assert notes[-2] == "compose.yml: services.train.cpuset has no effect on Swarm and is ignored; instead: deploy.resources.limits.cpus"


def test_keys_without_meaning_on_a_network_of_a_service_are_dropped() -> None:
    service, notes = of_service("""
        dns_opt: [use-vc]
        pull_refresh_after: 1d
        networks:
          default: {aliases: [x], ipv4_address: 192.0.2.7, mac_address: '02:42:ac:11:00:02', priority: 1, driver_opts: {a: b}, interface_name: eth7}
    """)
    assert service == {"networks": {"default": {"aliases": ["x"]}}}
    found = {note.split(" ")[1].rpartition(".")[2]: note.partition("instead: ")[2] for note in notes}
    assert list(found) == ["dns_opt", "pull_refresh_after", "ipv4_address", "mac_address", "priority", "driver_opts", "interface_name"]
    assert found["driver_opts"] == "set them where the network is declared"
    assert found["dns_opt"] == "set dns-opts in daemon.json of the nodes"


def test_a_stack_uses_only_the_subnets_of_a_network() -> None:
    ipam = "{driver: default, options: {a: b}, config: [{subnet: 198.51.100.0/24, gateway: 198.51.100.1}, {ip_range: 198.51.100.0/25}]}"
    stack = of_file(f"services: {{a: {{image: i, networks: [n]}}}}\nnetworks: {{n: {{ipam: {ipam}}}}}")
    assert stack.document["networks"]["n"] == {"ipam": {"driver": "default", "config": [{"subnet": "198.51.100.0/24"}]}}
    places = ["ipam.options", "ipam.config[0].gateway", "ipam.config[1].ip_range"]
    assert [note.split(" ")[1].partition("networks.n.")[2] for note in stack.notes] == places
    for wrong in ("text", "{config: text}", "{config: [text]}"):
        with pytest.raises(GpuSwarmError, match=r"networks\.n\.ipam"):
            of_file(f"services: {{a: {{image: i}}}}\nnetworks: {{n: {{ipam: {wrong}}}}}")


def test_tmpfs_becomes_mounts() -> None:
    """Docker reads this key in a stack file, but ignores it."""
    service, notes = of_service("tmpfs: ['/run', '/tmp:size=1.5g,mode=1777,ro']\nvolumes: [/data]")
    run, tmp = {"type": "tmpfs", "target": "/run"}, {"type": "tmpfs", "target": "/tmp", "read_only": True, "tmpfs": {"size": 3 * 2**29}}
    assert service == {"volumes": ["/data", run, tmp]}
    assert len(notes) == 1
    assert notes[0].startswith("compose.yml: services.train.tmpfs[1].mode=1777 has no effect on Swarm and is ignored; instead: ")
    assert of_service("tmpfs: /run")[0] == {"volumes": [run]}
    # Linux accepts a share of the node's memory. Swarm accepts only bytes.
    service, notes = of_service("tmpfs: ['/run:size=50%']")
    assert service == {"volumes": [run]}
    why = "compose.yml: services.train.tmpfs[0].size=50% has no effect on Swarm and is ignored; instead: write a size such as size=64m"
    assert notes == [f"{why}; without one it may use half of the node's memory"]


def test_options_for_another_type_of_mount_are_checked() -> None:
    """Docker refuses such options. Options without an effect on Swarm are not passed to Docker."""
    service, notes = of_service("volumes: [{type: bind, source: /d, target: /y, volume: {}}, {type: bind, source: /e, target: /z, tmpfs: }]")
    binds = [{"type": "bind", "source": "/d", "target": "/y"}, {"type": "bind", "source": "/e", "target": "/z"}]
    assert ([{key: value for key, value in one.items() if value} for one in service["volumes"]], notes) == (binds, [])
    mount = "{type: volume, source: data, target: /y, bind: {create_host_path: true}}"
    stack = of_file(f"services: {{a: {{image: i, volumes: [{mount}]}}}}\nvolumes: {{data: }}")
    assert stack.document["services"]["a"]["volumes"] == [{"type": "volume", "source": "data", "target": "/y"}]
    assert [note.split(" ")[1] for note in stack.notes] == ["services.a.volumes[0].bind.create_host_path"]


def test_a_limit_of_processes_raises_the_version_of_the_file() -> None:
    stack = of_file("services: {a: {image: i}, b: {image: i, deploy: {resources: {limits: {pids: '100'}}}}}")
    assert stack.document["version"] == "3.9"
    assert stack.document["services"]["b"]["deploy"] == {"resources": {"limits": {"pids": 100}}}


@pytest.mark.parametrize("pids", ["-1", "'-1'", ""])
def test_no_limit_of_processes(pids: str) -> None:
    stack = of_file(f"services: {{b: {{image: i, deploy: {{resources: {{limits: {{cpus: 1, pids: {pids} }}}}}}}}}}")
    assert stack.document["version"] == "3.8"
    assert stack.document["services"]["b"]["deploy"] == {"resources": {"limits": {"cpus": "1"}}}


def test_different_mounts_are_accepted() -> None:
    found, _notes = of_service("volumes: ['/tmp:/a', /tmp, '/tmp:/b:ro', 'C:\\x:D:\\y', 'C:\\x:D:\\z', {type: tmpfs, target: /c}]\ntmpfs: /tmp/d")
    assert len(found["volumes"]) == 7


def test_a_disabled_healthcheck_has_no_test() -> None:
    """Compose accepts disable together with test. Docker refuses both keys together in a stack."""
    service, notes = of_service("healthcheck: {disable: true, test: [CMD, x], interval: 5s}")
    assert (service["healthcheck"], notes) == ({"disable": True}, [])
    assert of_service("healthcheck: {disable: false, test: [CMD, x]}")[0]["healthcheck"] == {"disable": False, "test": ["CMD", "x"]}


def test_top_level_keys_are_translated() -> None:
    stack = of_file("""
        name: mine
        version: "2.4"
        x-gpu: &gpu {deploy: {resources: {reservations: {devices: [{count: 1, capabilities: [gpu]}]}}}}
        services:
          a: {<<: *gpu, image: i, depends_on: {b: {condition: service_healthy}, c: {condition: service_started}}, networks: {back: {priority: 1}}}
          b: {image: i, depends_on: [a]}
          c: {image: i, profiles: [debug]}
        networks: {back: {driver: bridge}}
        volumes: {data: }
    """)
    assert list(stack.document) == ["version", "services", "networks", "volumes"]
    assert stack.document["version"] == "3.8"
    assert stack.document["services"]["a"]["depends_on"] == ["b", "c"]
    assert "c" not in stack.document["services"]
    assert reservations(stack.document["services"]["a"])["generic_resources"] == ONE_GPU
    assert stack.document["networks"] == {"back": {}}
    assert stack.document["services"]["a"]["networks"] == {"back": None}
    assert len(stack.notes) == 4


# A file of a Windows editor, with blank lines.
COMMENTED = b"\xef\xbb\xbf# A=0\r\n\r\n  # B: none\n  \n"


def test_environment_is_translated() -> None:
    service, notes = of_service(
        """
        env_file: [a.env, {path: none.env, required: false}]
        environment: {B: own, C: , D: , E: 1, F: true, G: '${X}y', H: $$HOME}
        """,
        {"a.env": COMMENTED + b"A=1 # comment\nB=file\nexport Q=\"two\\nlines $X\"\nR='$X'\nS=\nT: u\nJ\n", ".env": b"X=x\nC=of .env\nJ=j\n"},
        C="of the shell",
    )  # fmt: skip
    assert service["environment"] == {
        "A": "1", "B": "own", "Q": "two\nlines x", "R": "$$X", "S": "", "T": "u", "J": "j", "C": "of the shell", "E": "1", "F": "true",
        "G": "xy", "H": "$$HOME",
    }  # fmt: skip
    assert notes == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A", "a"), ("${A}b", "ab"), ("${N:-d}", "d"), ("${N-d}", "d"), ("${E:-d}", "d"), ("${E-d}", ""), ("${A:-d}", "a"), ("${A:+s}", "s"),
        ("${N:+s}", ""), ("${E+s}", "s"), ("${E:+s}", ""), ("${N:-${A}/${M:-x}}z", "a/xz"), ("$$A", "$$A"), ("${A:?w}", "a"), ("${E?w}", ""),
        ("$N.", "."), ("${N-${M-x}}", "x"), ("${A:-${M-${N-x}}}}", "a}"), ("${N:-a$$b}", "a$$b"),
        # A dollar sign that starts no variable is kept, like in Compose (TestUnescaped in its template_test.go). 'docker stack deploy' reads $$ as $.
        ("a $ b", "a $$ b"), ("^R$", "^R$$"), ("$", "$$"), ("$}", "$$}"), ("$(date) $1 $@ $A", "$$(date) $$1 $$@ a"), ("${N:-$(id)}", "$$(id)"),
    ],
)  # fmt: skip
def test_variables_are_interpolated(text: str, value: str) -> None:
    service, notes = of_service(f"hostname: '{text}'", A="a", E="")
    assert service["hostname"] == value
    assert notes == (["compose.yml: the variable N is not set, so it is empty"] if text == "$N." else [])


def test_values_have_the_types_of_compose() -> None:
    stack = of_file("""
        services:
          train:
            image: lab/task
            ports: [22:22, '80', '0.0.0.0:8080:80', '[::]:8081:80', {target: 80, published: "${P}", host_ip: 0.0.0.0, name: web}]
            init: ${I}
            environment: {ON: on, DATE: 2026-01-02}
            deploy: {replicas: "${P}", resources: {limits: {cpus: 1.5, memory: 2g}}}
            configs: [{source: c, mode: 0440}]
            volumes: [data:/data, /srv:/srv:ro, {type: tmpfs, target: /dev/shm, tmpfs: {size: 8gb}}]
        configs: {c: {content: x}}
        volumes: {data: }
    """, P="3", I="true")  # fmt: skip
    service = stack.document["services"]["train"]
    assert service["ports"] == ["22:22", "80", "8080:80", "8081:80", {"target": 80, "published": 3}]
    assert service["init"] is True
    assert service["environment"] == {"ON": "on", "DATE": "2026-01-02"}
    assert service["deploy"] == {"replicas": 3, "resources": {"limits": {"cpus": "1.5", "memory": "2g"}}}
    assert service["configs"][0]["mode"] == 0o440
    assert service["volumes"][2]["tmpfs"] == {"size": 8 * 2**30}


def test_a_variable_may_be_a_switch() -> None:
    stack = of_file("""
        services: {a: {image: i, env_file: [{path: none.env, required: "${OFF}"}], tty: "${ON}", networks: [own, there], volumes: ["there:/data"]}}
        networks: {own: {internal: "${ON}"}, there: {external: "${ON}"}}
        volumes: {there: {external: "${ON}"}}
    """, ON="True", OFF="false")  # fmt: skip
    assert stack.document["services"]["a"]["tty"] is True
    assert stack.document["networks"] == {"own": {"internal": True}, "there": {"external": True}}
    assert stack.document["volumes"] == {"there": {"external": True}}


def test_text_of_the_user_stays_unchanged() -> None:
    service, _notes = of_service("environment: {tty: '${ON}', size: '${N}'}\nlabels: {replicas: '${N}', init: '${ON}'}", ON="True", N="007")
    assert service["environment"] == {"tty": "True", "size": "007"}
    assert service["labels"] == {"replicas": "007", "init": "True"}


def test_a_variable_may_be_a_number_and_of_a_mode_an_octal_one() -> None:
    text = "services: {a: {image: i, deploy: {replicas: '${R}'}, configs: [{source: c, mode: '${M}'}]}}\nconfigs: {c: {content: x}}"
    service = of_file(text, R="010", M="0440").document["services"]["a"]
    assert (service["deploy"]["replicas"], service["configs"][0]["mode"]) == (10, 0o440)
    for values, message in (
        ({"R": "1", "M": "288"}, "configs[0].mode is '288', but must be the mode of a file"),
        ({"R": "1" * 5000, "M": "440"}, "replicas is "),
        ({"R": "-1", "M": "440"}, "replicas is -1, but must be a whole number"),
    ):
        with pytest.raises(GpuSwarmError) as raised:
            of_file(text, **values)
        assert message in raised.value.message


def test_a_raw_file_of_variables_is_read_unchanged() -> None:
    service, _notes = of_service("env_file: [{path: a.env, format: raw}]", {"a.env": b"A='$X' # none\nB=\"b\\n\nexport C= c \n"})
    assert service["environment"] == {"A": "'$$X' # none", "B": '"b\\n', "C": "c "}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"A='a $X \\' \\n' # c\nB=1", {"A": "a $$X ' \\n", "B": "1"}),
        (b'A="a\nb" # c\nB=1', {"A": "a\nb", "B": "1"}),
        (b'A="\\$X \\"$X\\" \\t\\z"\nB=1', {"A": '$$X "x" \t\\z', "B": "1"}),
        (b"A=''", {"A": ""}),
        (b"A=a#b #c\nB=#c\nC=$A-$X\nX=y\nD=$X", {"A": "a#b", "B": "", "C": "a#b-x", "X": "y", "D": "x"}),
    ],
)
def test_a_file_of_variables_is_read(text: bytes, values: dict[str, str]) -> None:
    """Values from outside the file override earlier lines of the file."""
    service, _notes = of_service("env_file: a.env", {"a.env": text}, X="x")
    assert service["environment"] == values


@pytest.mark.parametrize("mode", ["0440", "0o440", "'0440'", "'440'", "'0o440'"])
def test_a_mode_is_octal_however_it_is_written(mode: str) -> None:
    stack = of_file("services: {a: {image: i, configs: [{source: c, mode: %s}]}}\nconfigs: {c: {content: x}}" % mode)
    assert stack.document["services"]["a"]["configs"][0]["mode"] == 0o440


@pytest.mark.parametrize("port", ["65535", "65535:65535", "65534-65535:1-2", "1-2:65534-65535", {"target": 65535, "published": 65535}, {"target": 1}])
def test_the_first_and_the_last_port_of_a_host_are_accepted(port: Any) -> None:
    service, notes = of_service(f"ports: [{json.dumps(port)}]")
    assert (service["ports"], notes) == ([port], [])


def test_an_empty_part_of_a_port_is_ignored() -> None:
    """Such a part may be the result of an unset variable. Compose ignores it too."""
    service, notes = of_service("ports: ['${NOT_SET-}:8080:80', '${NOT_SET-}:81', {target: 82, published: '${NOT_SET-}'}]")
    assert (service["ports"], notes) == (["8080:80", ":81", {"target": 82}], [])


def test_files_are_sent_along() -> None:
    stack = of_file(
        """
        services: {a: {image: i, configs: [c, d, f], secrets: [e]}}
        configs: {c: {file: ./c.txt}, d: {content: "x=${X}"}, f: {external: true}}
        secrets: {e: {environment: TOKEN, name: other}}
        """,
        {"./c.txt": b"\xff"}, X="1", TOKEN="t",
    )  # fmt: skip
    assert stack.files == {"configs/c": b"\xff", "configs/d": b"x=1", "secrets/e": b"t"}
    assert stack.document["configs"] == {"c": {"file": "./configs/c"}, "d": {"file": "./configs/d"}, "f": {"external": True}}
    assert stack.document["secrets"] == {"e": {"file": "./secrets/e", "name": "other"}}


def test_a_request_without_a_reservation_is_named() -> None:
    _service, notes = of_service("environment: {NVIDIA_VISIBLE_DEVICES: all}")
    (note,) = notes
    assert note.startswith("compose.yml: services.train sets NVIDIA_VISIBLE_DEVICES but reserves no GPU, so it would see GPUs of others.")
    assert of_service("environment: {NVIDIA_VISIBLE_DEVICES: void}")[1] == []


@pytest.mark.parametrize("value", ["on", "1e3", "0o14", "22:22", "1.10", "null", "~", "a: b", "two\nlines", "", "=", "<<", "é", "- a", "#a", "x #y"])
def test_the_file_can_be_read_back(value: str) -> None:
    text = to_yaml({"services": {"a": {"environment": {"A": value, value or "B": "1"}}}})
    assert yaml.safe_load(text)["services"]["a"]["environment"]["A"] == value
    assert f'A: "{value}"' in text or value in ("two\nlines",)


def test_secrets_are_not_shown() -> None:
    stack = of_file("services: {a: {image: i, environment: {API_KEY: k1, PLAIN: p, URL: 'http://u:pw@h'}}}")
    text, hidden = to_display(stack.document)
    assert "k1" not in text
    assert "pw" not in text
    assert "PLAIN: p" in text
    assert hidden == ["services.a.environment.API_KEY", "services.a.environment.URL"]


def is_translated(path: tuple[Any, ...], junk: Any) -> bool:
    """Return whether the file with this value is translated. If not, the error must name the file or the service."""
    found = yaml.safe_load(WHOLE)
    above = found
    for key in path[:-1]:
        above = above[key]
    above[path[-1]] = junk
    made, refusal = [], ""
    try:
        made = specifications(of_file(yaml.safe_dump(found), {"a.env": b"X=1"}).document, "s")
    except GpuSwarmError as error:
        refusal = error.message
    assert [one["Name"] for one in made] == ["s_a", "s_b"] or refusal.startswith("s_") or "compose.yml" in refusal or "services." in refusal, refusal
    return not refusal


@pytest.mark.parametrize(("number", "path"), list(enumerate(PLACES)))
def test_any_value_in_any_place_is_translated_or_one_error(number: int, path: tuple[Any, ...]) -> None:
    for step in range(4):  # each place gets different values
        is_translated(path, JUNK[(7 * number + 5 * step) % len(JUNK)])


def test_many_such_files_are_translated_and_many_refused() -> None:
    found = [is_translated(path, JUNK[7 * number % len(JUNK)]) for number, path in enumerate(PLACES)]
    assert found.count(True) > 10
    assert found.count(False) > 20


@pytest.mark.parametrize("deploy", ["mode: [x]", "replicas: []", "placement: text", "placement: {constraints: text}"])
def test_invalid_deploy_sections_are_refused(deploy: str) -> None:
    with pytest.raises(GpuSwarmError):
        specifications(of_file(f"services: {{a: {{image: i, deploy: {{{deploy}}}}}}}").document, "s")


ZERO = """
version: '3.9'
services:
  vectors: {image: lab/cuda, healthcheck: {test: ["CMD-SHELL", "curl localhost:8000/beat || exit 1"], interval: 10s}}
  llm:
    image: lab/cuda
    deploy:
      resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: "NVIDIA-GPU", value: 0}}]}}
      restart_policy: {condition: any, delay: 5s, max_attempts: 3}
"""


def test_0_of_a_kind_is_an_error_that_says_what_it_does() -> None:
    """Widely used stack files contain such a reservation."""
    with pytest.raises(GpuSwarmError) as raised:
        translate(ZERO, "c.yml", lambda _path: None, {})
    where = "c.yml: services.llm.deploy.resources.reservations.generic_resources[0]: the value of NVIDIA-GPU is 0"
    assert raised.value.message.startswith(f"{where}. If the kind has names, as GPUs do, a task would get every free NVIDIA-GPU of its node")
    assert "such as value: 1" in raised.value.message
