# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compose files with shapes of public ones, in tests/unit/data/compose: each becomes a stack file, or gives one error that says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugins.module_utils._errors import GpuSwarmError, messages_of
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import Stack, translate

FOLDER = Path(__file__).parents[1] / "data" / "compose"
GPU = {"NVIDIA-GPU": 1}
# The reservations of each service. The second part of a name is a profile.
DEPLOYED: dict[str, dict[str, dict[str, int]]] = {
    "allprofiles auto": {"auto": GPU},
    "capstr": {"api": {}},
    "cmdnum": {"api": {}},
    "extrahosts": {"a": {}},
    "jinja": {"llm": {}},
    "mergelist": {"a": GPU},
    "n8n": {"app": {}},
    "n8n gpu-nvidia": {"ollama-gpu": GPU, "app": {}},
    "plex": {"plex-worker": {}},
    "ray": {"ray-head": {"NVIDIA-GPU": 2}},
    "tmpl-secret": {"api": {}},
    "tum": {"app": {}, "db": {}},
    "vllm-ipc": {"vllm-openai": GPU},
}
# Words of the notes of these files.
NOTES = {
    "allprofiles auto": ["services.auto-cpu is skipped"],
    "jinja": ["It is escaped, so that the container sees it unchanged"],
    "n8n": ["services.ollama-cpu is skipped", "services.ollama-gpu is skipped"],
    "n8n gpu-nvidia": ["services.ollama-cpu is skipped", "services.ollama-gpu.container_name has no effect"],
    "plex": ["so it would see GPUs of others. Reserve the GPUs that it needs"],
    "ray": ["the variable PORT is not set", "ipc has no effect on Swarm and is ignored; instead: nothing: shm_size is set"],
    "vllm-ipc": ["ipc: host becomes a tmpfs of 16 GiB at /dev/shm, half of its limit of memory"],
    "tmpl-secret": ["It is escaped, so that the container sees it unchanged"],
}
# The place of each error, and what to write.
REFUSED = {
    "allprofiles": ("all services have profiles", "such as COMPOSE_PROFILES=auto."),
    "bindnodes": ("services.llm.volumes[0]", "write {driver: nvidia, count: 1, capabilities: [gpu]} under"),
    "devnodes": ("services.api.devices[0]", "write {driver: nvidia, count: 1, capabilities: [gpu]} under"),
    "dnsrr": ("services.api: port 80", "Publish it in mode: host."),
    "dupport": ("services.api.ports publishes 18200/tcp twice", "Write another number"),
    "emptytag": ("services.api.image is 'lab/cuda:'", "The variable TAG_UNSET is not set: set it in .env"),
    "hyphen": ("devices[1]", "Remove the hyphen before capabilities."),
    "maxfail": ("max_failure_ratio is 25", "Write 0.25 for a quarter of the tasks."),
    "owui-value0": ("the value of NVIDIA-GPU is 0", "such as value: 1."),
    "ports2": ("services.b.ports publishes 18181/tcp, as services.a does", "Write another number"),
    "restartcond": ("condition is 'unless-stopped'", "must be none, on-failure or any. Write one."),
    "services-net": ("network_mode is 'none'", "use one with internal: true."),
    "smallmem": ("memory is '16'", "write 16g if you mean gigabytes."),
}
# The devices of these files, and the example that the error gives to a fleet that has no names of devices.
WITHOUT_NAMES = {
    "plex": ("services.plex-worker.devices has /dev/dri, which no name", "gpu_swarm_devices: {dri: [/dev/dri/*]}, run provision"),
    "ray": ("services.ray-head.devices has /dev/infiniband, which no name", "gpu_swarm_devices: {infiniband: [/dev/infiniband/*]}, run provision"),
}
# One error for each of its two volumes.
TWO_ERRORS = "pwd"


def stack_of(name: str, **offered: list[str]) -> Stack:
    file, _blank, profile = name.partition(" ")
    environment = {"PWD": "/work", "HOME": "/root", "COMPOSE_PROFILES": profile}
    stack = translate((FOLDER / f"{file}.yml").read_text(encoding="utf-8"), f"{file}.yml", {}.get, environment, offered=lambda: offered)
    specifications(stack.document, "s")  # as 'docker stack deploy' would send it
    return stack


def errors_of(name: str) -> list[str]:
    with pytest.raises(GpuSwarmError) as error:
        stack_of(name)
    return messages_of(error.value)


def reserved(service: dict[str, Any]) -> dict[str, int]:
    found = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("generic_resources", [])
    return {one["discrete_resource_spec"]["kind"]: one["discrete_resource_spec"]["value"] for one in found}


@pytest.mark.parametrize("name", DEPLOYED)
def test_a_public_file_is_translated(name: str) -> None:
    stack = stack_of(name, dri=["/dev/dri/*"], rdma=["/dev/infiniband/uverbs*"])
    assert {key: reserved(service) for key, service in stack.document["services"].items()} == DEPLOYED[name]
    expected = NOTES.get(name, [])
    assert [words in note for words, note in zip(expected, stack.notes, strict=True)] == [True] * len(expected), stack.notes


@pytest.mark.parametrize("name", [*REFUSED, *WITHOUT_NAMES])
def test_a_public_file_gives_one_error_that_says_what_to_write(name: str) -> None:
    (message,) = errors_of(name)
    place, remedy = {**REFUSED, **WITHOUT_NAMES}[name]
    assert message.startswith(f"{name}.yml: ")
    assert place in message
    assert remedy in message


def test_each_folder_of_the_user_s_machine_is_an_error() -> None:
    messages = errors_of(TWO_ERRORS)
    assert [message.split(" is on your machine")[0] for message in messages] == [
        "pwd.yml: services.triton.volumes[0]: the path ${PWD}/model_repository",
        "pwd.yml: services.triton.volumes[1]: the path ${HOME}/.cache/hub",
    ]


def test_each_file_is_tested() -> None:
    named = {name.partition(" ")[0] for name in [*DEPLOYED, *REFUSED, TWO_ERRORS]}
    assert {path.stem for path in FOLDER.iterdir()} == named


def test_a_secret_with_braces_is_in_no_note() -> None:
    assert "s3cr3t" not in "".join(stack_of("tmpl-secret").notes)
