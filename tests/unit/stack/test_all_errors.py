# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All errors of a Compose file are reported at once, in the order of the file. Each error is reported once.

An error that only follows from another one is not reported.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import re
from typing import Any

import pytest
import yaml
from junk import JUNK, PLACES, WHOLE

from plugins.module_utils._errors import Errors, GpuSwarmError, messages_of
from plugins.plugin_utils._stack.references import check_names
from plugins.plugin_utils._stack.translate import translate
from tests.refused_stacks import CASES, SECTIONS
from tests.refused_stacks import FILES as CARRIED

FILES = {**CARRIED, "own.env": b"A=1\nis this\nB=${\n"}


def errors(text: str, **environment: str) -> list[str]:
    """Return each error without the name of the file."""
    with pytest.raises(GpuSwarmError) as raised:
        translate(text, "compose.yml", FILES.get, environment)
    return [one.removeprefix("compose.yml: ") for one in messages_of(raised.value)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("services: {}", "has no services to deploy"),
        ("services: {a: {image: i, profiles: [gpu]}, b: {image: i, profiles: [cpu]}}", "all services have profiles"),
        ("services: [a]", "services is a list"),
        ("servces: {}", "servces is not known"),
    ],
)
def test_the_names_of_a_file_without_services_are_checked_too(text: str, said: str) -> None:
    collected = Errors()
    stack = collected.collect(translate, text, "compose.yml", FILES.get, {})
    assert stack is not None
    collected.collect(check_names, stack.document, "s")
    assert [said in message for message in collected.messages] == [True]


PUBLIC = """
version: "3.8"
services:
  llm:
    image: vllm/vllm-openai:latest
    runtime: nvidia
    ipc: host
    ports:
      - "127.0.0.1:8000:8000"
      - "8000:99999"
    environment:
      TOKEN: ${HF_TOKEN:?}
      TEMPLATE: "{{upper .Node.Hostname}}"
    volumes:
      - ~/.cache/huggingface:/root/.cache/huggingface
      - ${PWD}/templates:/templates
      - cache:/cache
      - lost:/lost
    deploy:
      restart_policy: {condition: unless-stopped}
      resources:
        limits: {memory: "16"}
        reservations:
          devices:
            - driver: nvidia
              count: all
            - capabilities: [gpu]
    healthcheck: {interval: 30, retries: many}
    security_opt: ["no-new-privileges:true"]
  ui:
    build: .
    env_file: [own.env]
    devices: [/dev/nvidia0, /dev/nvidiactl]
    network_mode: none
    mem_limit: much
  off: {image: x, profiles: [dev], volumes: ["./src:/src"], runtime: nvidia}
networks: {default: {ipam: {config: [{subnet: 10.0.0.0}]}}}
volumes:
  cache: {driver_opts: {type: none, o: bind, device: ./cache}}
secrets: {s: {file: lost.txt}}
servces: {}
"""
BEGINS = [
    "services.llm.runtime is not supported",
    "services.llm.ports[0] is published only on 127.0.0.1",
    "services.llm.ports[1] is '8000:99999'",
    "services.llm.environment.TOKEN: the variable HF_TOKEN is required",
    "services.llm.environment.TEMPLATE has one of swarm's fields",
    "services.llm.volumes has lost, but the file declares no such volume",
    "services.llm.volumes[0]: the path ~/.cache/huggingface is on your machine",
    "services.llm.volumes[1]: the path ${PWD}/templates is on your machine",
    "services.llm.deploy.restart_policy.condition is 'unless-stopped'",
    "services.llm.deploy.resources.limits.memory is '16'",
    "services.llm.deploy.resources.reservations.devices[0]: its count is all",
    "services.llm.deploy.resources.reservations.devices[1]: capabilities belongs to the device before it",
    "services.llm.healthcheck.interval is 30",
    "services.llm.healthcheck.retries is 'many'",
    "services.llm.security_opt: no-new-privileges is not supported",
    "services.ui has no image",
    "services.ui.env_file[0]: own.env, line 2 is not of the form",
    "services.ui.env_file[0]: own.env, line 3: there is a '${' without",
    "services.ui.devices[0] requests GPUs by /dev/nvidia0, which swarm does not pass on. The same holds for devices[1] by /dev/nvidiactl.",
    "services.ui.network_mode is 'none'",
    "services.ui.mem_limit is 'much'",
    "networks.default.ipam.config[0].subnet is '10.0.0.0'",
    "volumes.cache.driver_opts.device: the path ./cache is on your machine",
    "secrets.s: the file lost.txt does not exist",
    "servces is not known",
]


def test_all_errors_of_a_public_file_are_reported_at_once_in_its_order() -> None:
    found = errors(PUBLIC, PWD="/work")
    assert [place for place, one in zip(BEGINS, found, strict=True) if not one.startswith(place)] == []
    assert all(re.search(r"\.\s[A-Z].*\.$|: [a-z'].*\.$|[.;] .*\.$", one) for one in found), "each with its remedy"
    assert not any("\n" in one for one in found)


ALONE = [case for case in CASES if not case.whole]


@pytest.mark.parametrize("number", range(len(ALONE)))
def test_errors_of_two_services_are_both_reported(number: int) -> None:
    """The errors have the order of the file. Each error has the same text as if it were the only error."""
    texts = [case.text if "image:" in case.text else f"image: lab/task, {case.text}" for case in (ALONE[number], ALONE[(number + 7) % len(ALONE)])]
    alone = [errors(f"services: {{{name}: {{{text}}}}}{SECTIONS}") for name, text in zip("ab", texts, strict=True)]
    both = errors(f"services: {{a: {{{texts[0]}}}, b: {{{texts[1]}}}}}{SECTIONS}")
    assert both == [*alone[0], *alone[1]]
    assert len(both) == 2


ONE_ERROR = {
    "a section that is not a mapping, so its names are unknown": ("services: {a: {image: i, networks: [n]}}\nnetworks: [n]", "networks is a list"),
    "a declared but invalid network": ("services: {a: {image: i, networks: [n]}}\nnetworks: {n: {internal: x}}", "networks.n.internal is 'x'"),
    "a declared but invalid volume": ("services: {a: {image: i, volumes: ['vo:/v']}}\nvolumes: {vo: {drive: x}}", "volumes.vo.drive is not known"),
    "a declared but invalid secret": ("services: {a: {image: i, secrets: [s]}}\nsecrets: {s: {}}", "secrets.s has no content"),
    "an invalid service that exists": ("services: {a: {image: i, runtime: x}}", "services.a.runtime is not supported"),
    "an invalid image that is not missing": ("services: {a: {image: [i]}}", "services.a.image is a list"),
    "an image that requires a variable": ("services: {a: {image: '${I:?}'}}", "services.a.image: the variable I is required"),
    "invalid images of x-gpu that are not missing": ("services: {a: {x-gpu: {images: x}}}", "services.a.x-gpu.images must be a list"),
    "no services but a misspelt key": ("service: {a: {image: i}}", "service is not known"),
    "a service that is text": ("services: {a: image}", "services.a is text"),
    "a CDI device that must be rewritten": (
        "services: {a: {image: i, gpus: [{driver: cdi, device_ids: ['nvidia.com/gpu=0'], count: x}]}}",
        "services.a.gpus[0]: its driver is cdi",
    ),
    "a volume that requests GPUs": (
        "services: {a: {image: i, volumes: ['lost:/var/run/nvidia-container-devices/all']}}",
        "services.a.volumes[0] requests GPUs by",
    ),
    "a required variable without a value": (
        "services: {a: {image: i, volumes: ['${D:?}:/d']}}",
        "services.a.volumes: the variable D is required",
    ),
    "an invalid limit beside a valid limit": (
        "services: {a: {image: i, mem_limit: x, deploy: {resources: {limits: {memory: 1g}}}}}",
        "services.a.mem_limit is 'x'",
    ),
    "entries after an invalid entry keep their numbers": (
        "services: {a: {image: i, volumes: ['./x:/x', '/y:/y'], ports: ['127.0.0.1:1:1', '2:2'], secrets: [s]}}\nsecrets: {s: {content: x}}",
        "services.a.volumes[0]",
    ),
}


@pytest.mark.parametrize(("text", "message"), ONE_ERROR.values(), ids=ONE_ERROR)
def test_an_error_causes_no_further_errors(text: str, message: str) -> None:
    found = errors(text)
    assert found[0].startswith(message)
    assert len(found) == (2 if "127.0.0.1" in text else 1), found


def test_duplicate_keys_are_all_named_beside_other_errors() -> None:
    found = errors("services:\n  a: {image: i, tty: true, tty: false}\n  b: {image: i, init: true, init: maybe}\n")
    assert [re.sub(r"^.*line", "line", one).partition(".")[0] for one in found] == [
        "line 2, column 28: the key tty appears twice",
        "line 3, column 29: the key init appears twice",
        "services",
    ]
    assert "services.b.init is 'maybe'" in found[2]


SECRETS = ["*{}", "!{} x", "!!int {}", "!!float {}", "!!bool {}", "!!timestamp {}", "!{}! x", "[{}]", "{{? {}: x, y: [}}", "'{}", '"\\{}"', "%{}"]


@pytest.mark.parametrize("value", SECRETS)
def test_a_value_that_yaml_misreads_is_not_shown(value: str) -> None:
    """For example, a password may begin with a special character of YAML."""
    found = errors("services:\n  a:\n    image: i\n    environment:\n      PASSWORD: " + value.format("s3cretvalue") + "\n")
    assert "s3cretvalue" not in str(found)
    assert len(found) == 1
    assert "line 5" in found[0] or "does not match" in found[0] or "a list" in found[0] or "line 6" in found[0]


KEYS = {
    "environment:\n    TOKEN=s3cret:": "services.a.TOKEN=*** is not known",
    "environment: {TOKEN=s3cret: 1, TOKEN=s3cret: 2}": "the key TOKEN=*** appears twice",
    "deploy: {TOKEN=s3cret: 1}": "services.a.deploy.TOKEN=*** is not known",
    "environment: {A: '${B:?without it ${TOKEN} is used}'}": "the variable B is required: without it ${TOKEN} is used.",
}


@pytest.mark.parametrize(("text", "message"), KEYS.items())
def test_a_value_in_place_of_a_key_is_not_shown(text: str, message: str) -> None:
    (found,) = errors(f"services:\n  a:\n    image: i\n    {text}\n", TOKEN="s3cret")
    assert message in found
    assert "s3cret" not in found


ALIKE = {
    "environment: {A: [1], B: {c: d}}": ["environment.A is a list", "environment.B is a mapping"],
    "labels: {A: [1], B: [2]}": ["labels.A is a list", "labels.B is a list"],
    "logging: {driver: x, options: {A: [1], B: [2]}}": ["logging.options.A is a list", "logging.options.B is a list"],
    "extra_hosts: [b, c, 'd:1.1.1.1']": ["extra_hosts is 'b'", "extra_hosts is 'c'"],
    "extra_hosts: {b: [c, [d]], e: {f: g}}": ["extra_hosts.b is a list", "extra_hosts.e is a mapping"],
    "command: [null, x, [y]]": ["command[0] is empty", "command[2] is a list"],
    "dns: [null, [x]]": ["dns[0] is empty", "dns[1] is a list"],
    "depends_on: {b: x, c: y}": ["depends_on.b is text", "depends_on.c is text"],
    "networks: {n: {aliases: [[x], [y]]}}": ["networks.n.aliases[0] is a list", "networks.n.aliases[1] is a list"],
    "volumes: [{type: tmpfs, target: /t, source: x, bind: {propagation: shared}}]": ["volumes[0] has bind", "volumes[0]: a tmpfs has no source"],
}


@pytest.mark.parametrize(("text", "begins"), ALIKE.items())
def test_two_errors_in_one_list_are_both_reported(text: str, begins: list[str]) -> None:
    found = errors(f"services: {{a: {{image: i, {text}}}}}\nnetworks: {{n: }}")
    assert [begin for begin, one in zip(begins, found, strict=True) if not one.startswith(f"services.a.{begin}")] == []


def test_all_wrong_names_are_in_one_message() -> None:
    (found,) = errors("services: {a: {image: i, gpus: [{count: 1, capabilities: [gpu, tpu, npu]}]}}")
    assert "its capabilities have 'tpu', 'npu', which NVIDIA's driver" in found
    twice = ", ".join(f"{{discrete_resource_spec: {{kind: {kind}, value: 1}}}}" for kind in "ABCBA")
    (found,) = errors(f"services: {{a: {{image: i, deploy: {{resources: {{reservations: {{generic_resources: [{twice}]}}}}}}}}}}")
    assert "generic_resources has A, B twice" in found


def test_all_errors_of_a_device_are_reported() -> None:
    found = errors("services: {a: {image: i, gpus: [{driver: 3dfx, cuont: 2, capabilities: [tpu]}]}}")
    assert [one.removeprefix("services.a.gpus[0]")[:30] for one in found] == [
        " has cuont, which a device doe", ": its driver is '3dfx'. Only N", ": its capabilities have 'tpu',", " has no count, which would mea"
    ]  # fmt: skip


def test_all_errors_of_env_are_reported() -> None:
    with pytest.raises(GpuSwarmError) as raised:
        translate("services: {a: {image: '${X:?}'}}", "compose.yml", {".env": b"A=1\nis this\nB='open\n"}.get, {})
    assert [one.partition(" is not")[0].partition(": ")[0] for one in messages_of(raised.value)] == [".env, line 2", ".env, line 3"]


ORDER = ["runtime: nvidia", "ports: ['127.0.0.1:1:1']", "volumes: ['./x:/x']", "gpus: all", "init: maybe"]


@pytest.mark.parametrize("keys", list(itertools.permutations(ORDER, 3))[::5])
def test_errors_are_in_the_order_of_the_file(keys: tuple[str, ...]) -> None:
    found = errors(f"services: {{a.b: {{image: i}}, a: {{image: i, {', '.join(keys)}}}}}")
    assert [re.split(r"[ \[:]", one.removeprefix("services.a."))[0] for one in found] == [key.partition(":")[0] for key in keys]


def test_two_errors_anywhere_are_reported_like_each_alone() -> None:
    """The file has all keys. A wrong value in one place causes no error in another place, and no missing value is read."""
    chance, number = random.Random(7), 0
    for _attempt in range(60):
        picks = [(chance.choice(PLACES), chance.choice(JUNK)) for _fault in range(2)]
        alone = [one for pick in picks for one in refused([pick])]
        both = refused(picks)
        assert set(both) <= set(alone), picks
        assert bool(both) == bool(alone), picks
        number += len(both) > 1
    assert number > 10


def refused(picks: list[tuple[tuple[Any, ...], Any]]) -> list[str]:
    document = yaml.safe_load(WHOLE)
    for path, junk in picks:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # one place is inside the other place
            above = document
            for key in path[:-1]:
                above = above[key]
            above[path[-1]] = copy.deepcopy(junk)
    try:
        translate(yaml.safe_dump(document), "compose.yml", {"a.env": b"X=1"}.get, {})
    except GpuSwarmError as problem:
        return messages_of(problem)
    return []
