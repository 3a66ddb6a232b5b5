# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nodes import docker, docker_json, gpus, hostname, named, tasks_of, wait_until
from testinfra.host import Host

testinfra_hosts = ["ansible://swarm_managers"]

KIND = "NVIDIA-GPU"
NODES = ["edited", "scripted", "overridden", "optioned"]
REFUSING = ["overridden", "optioned"]
READY = re.compile(r"^ready$", re.MULTILINE)
RECIPES = Path(__file__).parents[1] / "recipes"

DAEMON_JSON = "/etc/docker/daemon.json"
CONFIG_TOML = "/etc/nvidia-container-runtime/config.toml"
OPTIONS = "/etc/default/docker"
DROP_IN = "/etc/systemd/system/docker.service.d/override.conf"
BACKUP = "/var/lib/gpu-swarm/backup"
NVIDIA_DOCKER = "/var/lib/nvidia-docker/volumes/nvidia_driver"

# The command that systemd starts: of Debian's unit, and of a unit whose override was cleaned.
VENDOR = "/usr/sbin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock $DOCKER_OPTS"
STARTED = {**dict.fromkeys(NODES, VENDOR), "overridden": "/usr/sbin/dockerd -H unix:///var/run/docker.sock"}
# Resources that users advertised besides GPUs.
OWN = {"overridden": ["VRAM=8000"], "optioned": ["SSD=1"]}
# systemd's message id for "a unit was started".
UNIT_STARTED = "39f53479d3a045ac8e11786248231fbf"


@pytest.fixture(scope="module")
def nodes(host: Host, pytestconfig: pytest.Config) -> dict[str, Host]:
    inventory = pytestconfig.getoption("ansible_inventory")
    return {node.backend.host: node for node in host.get_hosts(["ansible://gpu_nodes"], ansible_inventory=inventory)}


@pytest.fixture
def node(nodes: dict[str, Host], name: str) -> Host:
    return nodes[name]


each_node = pytest.mark.parametrize("name", NODES)


def text(node: Host, path: str) -> str:
    return node.file(path).content_string


def daemon_json(node: Host) -> dict[str, Any]:
    return json.loads(text(node, DAEMON_JSON))


def running_flags(node: Host) -> list[str]:
    pid = node.check_output("systemctl show --property MainPID --value docker.service")
    return text(node, f"/proc/{pid}/cmdline").split("\0")[1:]


def kept(node: Host, path: str) -> list[str]:
    """Return the contents of the dated copies of a file, oldest first."""
    return [text(node, copy) for copy in sorted(node.check_output("ls %s.*" % f"{BACKUP}{path}").split())]


def reported(node: Host) -> dict[str, Any]:
    return json.loads(text(node, "/root/reported.json"))


# -- the state of every node -------------------------------------------------------------------------------------------


@each_node
def test_a_node_advertises_its_gpus_by_full_uuids_and_its_other_resources(node: Host, name: str) -> None:
    assert gpus(node)
    assert sorted(daemon_json(node)["node-generic-resources"]) == sorted([*(f"{KIND}={uuid}" for uuid in gpus(node)), *OWN.get(name, [])])


@each_node
def test_the_running_daemon_has_the_settings_of_the_file(node: Host) -> None:
    info = docker_json(node, "info", "--format", "{{json .}}")
    assert named(info["GenericResources"], KIND) == gpus(node)
    assert info["DefaultRuntime"] == daemon_json(node)["default-runtime"] == "nvidia"


@each_node
def test_no_flag_remains_that_is_in_the_file_now(node: Host, name: str) -> None:
    shown = node.check_output("systemctl show --property ExecStart docker.service")
    assert re.findall(r"argv\[\]=(.*?) ;", shown) == [STARTED[name]]
    assert not [flag for flag in running_flags(node) if "generic-resource" in flag or "runtime" in flag]


@each_node
def test_swarm_resource_appears_once_above_all_tables_in_a_valid_file(node: Host) -> None:
    config = text(node, CONFIG_TOML)
    assert tomllib.loads(config)["swarm-resource"] == f"DOCKER_RESOURCE_{KIND}"
    assert len(re.findall(r"^\s*swarm-resource", config, re.MULTILINE)) == 1


@each_node
def test_dockerd_was_started_once(node: Host) -> None:
    started = node.check_output(
        "journalctl --after-cursor=%s --output=cat UNIT=docker.service MESSAGE_ID=%s", text(node, "/root/started"), UNIT_STARTED
    )
    assert len(started.splitlines()) == 1


def test_the_swarm_is_still_the_one_that_was_made_by_hand(host: Host) -> None:
    listed = docker(host, "node", "ls", "--format", "{{.Hostname}} {{.Status}} {{.Availability}} {{.ManagerStatus}}").splitlines()
    assert sorted(line.strip() for line in listed) == [
        "edited Ready Active",
        "optioned Ready Active Leader",
        "overridden Ready Active",
        "scripted Ready Active",
    ]


def test_a_swarm_that_others_made_is_only_audited(host: Host) -> None:
    labels = docker_json(host, "info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}")
    shown = json.loads(labels["gpu-swarm.isolation"])
    assert (shown["level"], {level: len(ids) for level, ids in shown["nodes"].items()}) == ("audit", {"audit": len(NODES)})


# -- settings of users -------------------------------------------------------------------------------------------------


def test_settings_in_daemon_json_are_kept(nodes: dict[str, Host]) -> None:
    written = daemon_json(nodes["edited"])
    assert written["max-concurrent-downloads"] == 2
    assert written["runtimes"]["nvidia"]["runtimeArgs"] == []


def test_the_unneeded_drop_in_is_removed(nodes: dict[str, Host]) -> None:
    assert not nodes["scripted"].file(DROP_IN).exists


def test_the_rest_of_the_drop_in_is_kept(nodes: dict[str, Host]) -> None:
    assert text(nodes["overridden"], DROP_IN).splitlines() == ["[Service]", "ExecStart=", f"ExecStart={STARTED['overridden']}"]


def test_the_other_options_are_kept_and_in_force(nodes: dict[str, Host]) -> None:
    options = text(nodes["optioned"], OPTIONS)
    assert re.findall(r"^DOCKER_OPTS=(.*)$", options, re.MULTILINE) == ['"--log-level=warn"']
    assert options.startswith("# Here in Debian")
    assert "--log-level=warn" in running_flags(nodes["optioned"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scripted", [DROP_IN, "--default-runtime", "--node-generic-resource", "fdd://"]),
        ("overridden", [DROP_IN, "--node-generic-resource"]),
        ("optioned", [OPTIONS, "--node-generic-resource"]),
    ],
)
def test_adopted_settings_are_reported(node: Host, words: list[str]) -> None:
    sentences = " ".join(reported(node)["adopted"])
    for word in words:
        assert word in sentences


def test_original_files_are_kept_with_their_date(nodes: dict[str, Host]) -> None:
    (script,) = re.findall(r"tee [^\n]*\n(.*?)^EOF", (RECIPES / "drop-in").read_text(), re.MULTILINE | re.DOTALL)
    former = kept(nodes["scripted"], DROP_IN)[0]
    assert re.sub(r"=GPU-\w+", "=${GPU_ID}", former) == script * 2
    assert "--node-generic-resource VRAM=8000" in kept(nodes["overridden"], DROP_IN)[0]
    assert '"--node-generic-resource SSD=1 --log-level=warn"' in kept(nodes["optioned"], OPTIONS)[0]


# -- predecessors of the toolkit -----------------------------------------------------------------------------------------


@each_node
def test_predecessors_of_the_toolkit_are_removed(node: Host) -> None:
    for package in ("nvidia-docker", "nvidia-docker2", "nvidia-container-runtime"):
        assert not node.package(package).is_installed
    assert node.package("nvidia-container-toolkit").version == "1.20.0-1"


def test_apt_reads_its_lists_again_and_the_former_ones_are_kept(nodes: dict[str, Host]) -> None:
    edited = nodes["edited"]
    edited.check_output("apt-get --simulate install nvidia-container-toolkit")
    copies = edited.check_output("cat /etc/apt/sources.list.d/*~").splitlines()
    assert [re.sub(r".*keyrings/|-keyring.*", "", line) for line in copies] == ["libnvidia-container", "nvidia-docker"]


def test_an_unused_volume_of_nvidia_docker_is_removed(nodes: dict[str, Host]) -> None:
    assert not nodes["scripted"].file(f"{NVIDIA_DOCKER}/375.66").exists


def test_a_volume_that_a_container_uses_is_kept_and_reported(nodes: dict[str, Host]) -> None:
    scripted = nodes["scripted"]
    (version,) = scripted.file(NVIDIA_DOCKER).listdir()
    assert docker(scripted, "ps", "--all", "--format", "{{.Names}} {{.State}}") == "trainer exited"
    for word in ("scripted", f"nvidia_driver_{version}", "trainer exited", "docker rm"):
        assert word in reported(scripted)["volumes"]


# -- GPUs of tasks -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def services(host: Host) -> Iterator[dict[str, str]]:
    """Start a service with one GPU on each node, and return the services by node. The image requests all GPUs, like every CUDA image."""
    placed = {name: f"on-{name}" for name in ("edited", "scripted")}
    for name, service in placed.items():
        where = ["--constraint", f"node.hostname=={name}", "--generic-resource", f"{KIND}=1"]
        docker(host, "service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", service, *where, "lab/cuda")
    yield placed
    docker(host, "service", "rm", *placed.values())


@pytest.mark.parametrize("name", ["edited", "scripted"])
def test_a_task_sees_its_gpu_and_no_other(host: Host, node: Host, name: str, services: dict[str, str]) -> None:
    log = wait_until("the task to be ready", lambda: READY.search(docker(host, "service", "logs", "--raw", services[name]))).string
    (task,) = tasks_of(host, services[name])
    (given,) = named(task["GenericResources"], KIND)
    assert hostname(host, task["NodeID"]) == name
    assert re.findall(r"^devices: (.*)$", log, re.MULTILINE) == [f"/dev/nvidia{gpus(node).index(given)}"]


# -- nodes whose dockerd refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSING)
def test_a_node_whose_dockerd_refuses_stays_unchanged(node: Host) -> None:
    refused = json.loads(text(node, "/root/refused.json"))
    assert refused["before"]
    assert refused["after"] == refused["before"]
    assert refused["answers"]


@pytest.mark.parametrize("name", REFUSING)
def test_the_reason_is_dockerd_s_message(node: Host) -> None:
    reason = json.loads(text(node, "/root/refused.json"))["reason"]
    for words in ("default-runtime: (from flag: runc, from file: nvidia)", "specified both as a flag", "The files were restored"):
        assert words in reason
