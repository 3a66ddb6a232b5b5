# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Published Compose files of other people, with profiles, anchors, devices split by a stray hyphen, and folders of one machine."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import Stack, translate


def of(text: str, **environment: str) -> Stack:
    stack = translate(text, "compose.yml", lambda _path: None, environment)
    specifications(stack.document, "s")
    return stack


GPU = "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}"
BY_PROFILE = f"""
x-model: &model
  image: lab/cuda
  container_name: model
  networks: [demo]
  restart: unless-stopped
  ports: ["11434"]
services:
  model-cpu: {{<<: *model, profiles: [cpu]}}
  model-gpu:
    <<: *model
    profiles: [gpu-nvidia, all]
    {GPU}
  app: {{image: lab/cuda, networks: [demo], environment: [DB_USER, KEY], depends_on: {{model-gpu: {{condition: service_started}}}}}}
networks: {{demo: }}
"""


@pytest.mark.parametrize(
    ("chosen", "services"),
    [
        ({}, ["app"]),
        ({"COMPOSE_PROFILES": ""}, ["app"]),
        ({"COMPOSE_PROFILES": "gpu-nvidia"}, ["model-gpu", "app"]),
        ({"COMPOSE_PROFILES": "other, cpu"}, ["model-cpu", "app"]),
        ({"COMPOSE_PROFILES": "*"}, ["model-cpu", "model-gpu", "app"]),
    ],
)
def test_a_profile_chooses_services(chosen: dict[str, str], services: list[str]) -> None:
    stack = of(BY_PROFILE, **chosen)
    assert list(stack.document["services"]) == services
    assert len([note for note in stack.notes if "COMPOSE_PROFILES" in note]) == 3 - len(services)
    gpus = [name for name, one in stack.document["services"].items() if "deploy" in one]
    assert gpus == [name for name in services if name == "model-gpu"]


def test_if_every_service_has_a_profile_one_must_be_chosen() -> None:
    text = "x-base: &base {image: lab/cuda}\nservices:\n  a: &a {<<: *base, profiles: [auto], tty: true}\n  b: {<<: *a, profiles: [auto-cpu]}"
    with pytest.raises(GpuSwarmError, match=r"compose\.yml: all services have profiles, .*COMPOSE_PROFILES=auto. The file has .* auto, auto-cpu\."):
        of(text)
    assert list(of(text, COMPOSE_PROFILES="auto-cpu").document["services"]) == ["b"]


GIB = 1024**3


@pytest.mark.parametrize(
    ("more", "size", "said"),
    [
        ("", 8 * GIB, "a tmpfs of 8 GiB at /dev/shm, the size for a service without a limit of memory. Memory of the node and of other containers"),
        ("mem_limit: 24g", 12 * GIB, "a tmpfs of 12 GiB at /dev/shm, half of its limit of memory, against which used pages count. Memory of"),
        ("deploy: {resources: {limits: {memory: 3g}}}", 3 * GIB // 2, "a tmpfs of 1.5 GiB at /dev/shm, half of its limit"),
        ("mem_limit: 256m", GIB // 8, "a tmpfs of 128 MiB at /dev/shm"),
        ("mem_limit: 0", 8 * GIB, "a tmpfs of 8 GiB at /dev/shm, the size for a service without"),
        ("shm_size: 0", 8 * GIB, "a tmpfs of 8 GiB at /dev/shm"),
        ("shm_size: 16g", 16 * GIB, "ipc has no effect on Swarm and is ignored; instead: nothing: shm_size is set"),
        ("shm_size: 1g, mem_limit: 24g", GIB, "nothing: shm_size is set"),
        ("tmpfs: /dev/shm", None, "nothing: the service mounts something at /dev/shm"),
    ],
)
def test_ipc_of_the_host_becomes_shared_memory_of_a_stated_size(more: str, size: int | None, said: str) -> None:
    stack = of(f"services: {{a: {{image: lab/cuda, ipc: host{', ' * bool(more)}{more}}}}}")
    (note,) = stack.notes
    assert note.startswith("compose.yml: services.a.ipc")
    assert said in note
    (mount,) = stack.document["services"]["a"]["volumes"]
    assert (mount["target"], mount.get("tmpfs", {}).get("size")) == ("/dev/shm", size)


def test_a_bind_of_shared_memory_stays_as_it_is() -> None:
    stack = of("services: {a: {image: lab/cuda, ipc: host, volumes: ['/dev/shm:/dev/shm']}}")
    assert stack.document["services"]["a"]["volumes"] == ["/dev/shm:/dev/shm"]


@pytest.mark.parametrize("ipc", ["shareable", "service:b", "none"])
def test_another_ipc_is_left_out(ipc: str) -> None:
    stack = of(f"services: {{a: {{image: lab/cuda, ipc: '{ipc}'}}}}")
    assert stack.notes == ["compose.yml: services.a.ipc has no effect on Swarm and is ignored; instead: for more shared memory use shm_size"]
    assert "volumes" not in stack.document["services"]["a"]


@pytest.mark.parametrize(("keys", "said"), [("ipc: [host]", "services.a.ipc is a list"), ("ipc: host, mem_limit: many", "mem_limit is 'many'")])
def test_an_ipc_or_a_limit_of_another_form_is_an_error(keys: str, said: str) -> None:
    with pytest.raises(GpuSwarmError, match="compose.yml: ") as raised:
        of(f"services: {{a: {{image: lab/cuda, {keys}}}}}")
    assert said in raised.value.message


def test_a_profile_that_no_service_has_is_named() -> None:
    with pytest.raises(GpuSwarmError, match=r"all services have profiles, and none has a profile of COMPOSE_PROFILES=gpu\. Choose one"):
        of("services: {a: {image: lab/cuda, profiles: [gpu-nvidia]}}", COMPOSE_PROFILES="gpu")


def test_a_runtime_beside_a_reservation_must_only_be_removed() -> None:
    with pytest.raises(GpuSwarmError, match=r"services\.a\.runtime is .*Remove it\.$"):
        of(f"services:\n  a:\n    image: lab/cuda\n    runtime: nvidia\n    {GPU}")
    with pytest.raises(GpuSwarmError, match=r"services\.a\.runtime is .*Remove it, and reserve GPUs with .* and a count\.$"):
        of("services: {a: {image: lab/cuda, runtime: nvidia}}")


def test_a_value_of_a_variable_that_is_not_set_is_empty() -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of("services: {a: {image: lab/cuda, healthcheck: {test: x, interval: '$NOT_SET'}}}")
    said = "services.a.healthcheck.interval is empty (perhaps a variable that is not set), but must be a duration with its unit."
    assert raised.value.message == f"compose.yml: {said} Write it as 90s, 1m30s or 2h."


def devices(*entries: str) -> str:
    lines = "".join(f"\n            - {entry}" for entry in entries)
    return f"services:\n  a:\n    image: lab/cuda\n    deploy:\n      resources:\n        reservations:\n          devices:{lines}"


@pytest.mark.parametrize(
    ("entries", "place", "key"),
    [
        (["driver: nvidia\n              count: 1", "capabilities: [gpu]"], 1, "capabilities"),
        (["driver: nvidia", "count: 1", "capabilities: [gpu]"], 1, "count"),
        (["capabilities: [gpu]", "count: 1"], 1, "count"),
        (["{count: 1, capabilities: [gpu]}", "{count: 1}", "capabilities: [gpu]"], 2, "capabilities"),
        (["{driver: nvidia, device_ids: ['0', '1']}", "capabilities: [gpu]"], 1, "capabilities"),
    ],
)
def test_a_stray_hyphen_that_splits_a_device_is_an_error(entries: list[str], place: int, key: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(devices(*entries))
    assert f"devices[{place}]: {key} belongs to the device before it. Remove the hyphen before {key}" in raised.value.message


def test_without_the_hyphen_it_is_one_gpu() -> None:
    reserved: Any = of(devices("driver: nvidia\n              count: 1\n              capabilities: [gpu]")).document["services"]["a"]["deploy"]
    assert reserved["resources"]["reservations"]["generic_resources"] == [{"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": 1}}]


SERVICE = "services: {{a: {{image: lab/cuda, volumes: [{}]}}}}".format
VOLUME = "services: {{a: {{image: lab/cuda, volumes: ['vol:/v']}}}}\nvolumes: {{vol: {{driver_opts: {{type: none, o: '{}', device: '{}'}}}}}}".format


@pytest.mark.parametrize(
    ("text", "place", "path"),
    [
        (SERVICE("'${PWD}/models:/models'"), "services.a.volumes[0]", "${PWD}/models"),
        (SERVICE("'$PWD/models:/models'"), "services.a.volumes[0]", "$PWD/models"),
        (SERVICE("/a, '${HOME}/.cache/hub:/root/.cache/hub'"), "services.a.volumes[1]", "${HOME}/.cache/hub"),
        (SERVICE("{type: bind, source: '${HOME}', target: /h}"), "services.a.volumes[0]", "${HOME}"),
        (VOLUME("bind", "${PWD}/models"), "volumes.vol.driver_opts.device", "${PWD}/models"),
        (VOLUME("bind,ro", "./models"), "volumes.vol.driver_opts.device", "./models"),
    ],
)
def test_a_folder_of_the_user_s_machine_is_an_error(text: str, place: str, path: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(text, PWD="/work", HOME="/root")
    assert raised.value.message.startswith(f"compose.yml: {place}: the path {path} is on your machine, but a task may run on any node.")


@pytest.mark.parametrize("volume", ["/:/rootfs:ro", "/:/host:ro,rslave", "vo:/data", "/a"])
def test_a_node_path_and_a_short_name_are_not_windows_paths(volume: str) -> None:
    stack = of(f"services: {{a: {{image: lab/cuda, volumes: ['{volume}']}}}}\nvolumes: {{vo: }}")
    assert (stack.document["services"]["a"]["volumes"], stack.notes) == ([volume], [])


def test_a_volume_whose_variable_is_not_set_names_the_variable() -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(SERVICE("/a, '${MEDIA}:/media/'"))
    said = "services.a.volumes[1] is ':/media/'. The variable MEDIA is not set: set it in .env, or in the environment."
    assert raised.value.message == f"compose.yml: {said} Write it as source:target or source:target:ro."


@pytest.mark.parametrize("text", [SERVICE("'${DATA}/models:/models', '/root/a:/b'"), VOLUME("bind", "/models"), VOLUME("addr=192.0.2.2", ":/srv")])
def test_an_absolute_path_is_accepted(text: str) -> None:
    assert of(text, DATA="/srv", PWD="/work", HOME="/root").notes == []


def test_a_service_excluded_by_a_profile_is_not_checked() -> None:
    text = "services: {a: {image: lab/cuda}, b: {image: lab/cuda, profiles: [dev], volumes: ['${HOME}/.cache:/c', './src:/src']}}"
    assert list(of(text, HOME="/root").document["services"]) == ["a"]
    with pytest.raises(GpuSwarmError, match=r"services\.b\.volumes"):
        of(text, HOME="/root", COMPOSE_PROFILES="dev")


MERGED = """
x-gpu: &gpu {deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}}
x-env: &env {LOG: info}
x-log: &log {logging: {driver: json-file, options: {max-size: "10m"}}}
services:
  a:
    <<: [*gpu, *log]
    image: lab/cuda
    environment:
      <<: *env
      K: v
      NUM: 1.10
      BOOL: yes
      NULLED:
"""


def test_lists_of_anchors_are_merged() -> None:
    service = of(MERGED).document["services"]["a"]
    assert service["environment"] == {"LOG": "info", "K": "v", "NUM": "1.1", "BOOL": "yes"}
    assert service["logging"] == {"driver": "json-file", "options": {"max-size": "10m"}}
    assert service["deploy"]["resources"]["reservations"]["generic_resources"][0]["discrete_resource_spec"]["value"] == 1
