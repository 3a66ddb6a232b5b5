# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names that others have, registries that refuse, and images that a node's toolkit would not start: told before anything is deployed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from swarm_api import A, B, named, node

from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._ledger import stack as on_swarm
from plugins.module_utils._ledger.listed import Listed
from plugins.module_utils._ledger.preflight import preflight
from plugins.plugin_utils._stack import beforehand, registries
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import translate

PRIVATE = "registry.example:5000/team/train:1"
COMPOSE = f"""
services:
  a: {{image: {PRIVATE}, gpus: [{{count: 1}}], environment: {{COST: $$5}}}}
  b: {{image: lab/task, networks: [own, there]}}
  c: {{image: lab/task, networks: {{named: {{}}, default: {{}}}}}}
networks: {{own: {{}}, there: {{external: true}}, named: {{name: x}}, unused: {{}}}}
"""
LOGINS = {"registry.example:5000": {"username": "u", "password": "pa:ss"}}
LABELS = {"gpu.cuda": "12.2", "gpu.driver": "535.104.05", "gpu.compute_capability": "mixed", "gpu-swarm.host": "inventory-1"}


def document(text: str = COMPOSE) -> dict[str, Any]:
    return translate(text, "c.yml", lambda _path: None, {}).document


def answer(**more: Any) -> dict[str, Any]:
    nodes = [node("n1", resources=named(A), labels=LABELS), node("n2", resources=named(B), labels={})]
    found = preflight("s", specifications(document(), "s"), Listed(nodes, [], [], None), "gpu-swarm.")
    fixed = {"networks_taken": [], "refused": [], "images": {PRIVATE: {}}, "progress": []}
    return {"nodes": found["nodes"], "preflight": found["explained"], **fixed, **more}


def judged(versions: dict[str, str] | None = None, **more: Any) -> tuple[str | None, list[str]]:
    return beforehand.judged(answer(**more), document(), "s", {}, False, versions or {})


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("train", "docker.io"),
        ("lab/task:1", "docker.io"),
        ("docker.io/library/train", "docker.io"),
        ("registry.example/train", "registry.example"),
        ("registry:5000/train@sha256:0", "registry:5000"),
        ("localhost/train", "localhost"),
    ],
)
def test_the_registry_of_an_image(image: str, registry: str) -> None:
    assert registries.registry_of(image) == registry


def test_what_is_queried() -> None:
    found = beforehand.questions(document(), "s", {}, False, True)
    assert (found["query"], found["networks"]) == ({PRIVATE: "registry.example:5000"}, ["s_default", "s_own", "x"])
    assert json.loads(base64.b64decode(found["logins"])) == {}  # the manager's own are not passed on to the nodes, and do not count
    assert "logins" not in beforehand.questions(document(), "s", {}, True, True)
    assert "query" not in beforehand.questions(document(), "s", LOGINS, False, False)
    hub = beforehand.questions(document(), "s", {"docker.io": LOGINS["registry.example:5000"]}, False, True)
    assert sorted(hub["query"]) == ["lab/task", PRIVATE]


def test_logins_as_docker_has_them() -> None:
    logins = registries.logins_of({"https://registry.example:5000/": LOGINS["registry.example:5000"], "docker.io": {"username": "u", "password": 7}})
    auths = json.loads(registries.docker_config(logins))["auths"]
    assert base64.b64decode(auths["registry.example:5000"]["auth"]) == b"u:pa:ss"
    assert base64.b64decode(auths["https://index.docker.io/v1/"]["auth"]) == b"u:7"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("s3cret", "has to have username and password"),
        ({"username": "u"}, "has to have username and password"),
        ({"username": "u", "password": "s3cret", "email": "e"}, "has to have username and password"),
        ({"username": "u", "password": ""}, "its password is empty"),
        ({"username": "u:s3cret", "password": "s3cret"}, "its username is not one"),
    ],
)
def test_a_login_that_is_none_does_not_show(entry: Any, message: str) -> None:
    with pytest.raises(GpuSwarmError, match=message) as raised:
        registries.logins_of({"registry.example": entry})
    assert "s3cret" not in raised.value.message


def test_a_registry_that_refuses() -> None:
    refused = [{"image": PRIVATE, "said": "unauthorized: authentication required"}]
    error, _notes = judged(refused=refused)
    assert error is not None
    assert error.startswith(f"The registry registry.example:5000 refuses the image {PRIVATE}: unauthorized: authentication required. Write its login")
    assert "Correct its login" in str(registries.refusal(refused, LOGINS, False))
    assert "Log in on the manager again" in str(registries.refusal(refused, {}, True))
    assert registries.refusal([], LOGINS, False) is None


def test_networks_that_are_there_already() -> None:
    networks = [{"Name": "s_default", "Labels": {}}, {"Name": "s_own", "Labels": {"com.docker.stack.namespace": "s"}}, {"Name": "bridge"}]
    taken = on_swarm.networks_taken("s", ["s_default", "s_own", "x"], networks)
    assert taken == ["s_default"]
    error, _notes = judged(networks_taken=taken)
    assert error is not None
    assert error.startswith("The networks s_default are there already, and the stack s does not own them")


def test_the_stack_of_somebody_else() -> None:
    other = {"progress": [{"service": "s_x"}]}
    said = str(beforehand.another_stack(other, ["s_a"], "s", "c.yml"))
    assert said.startswith("The swarm has a stack s already, with s_x, and of none of its services does c.yml say anything.")
    assert beforehand.another_stack({"progress": []}, ["s_a"], "s", "c.yml") is None
    assert beforehand.another_stack({"progress": [{"service": "s_a"}, {"service": "s_x"}]}, ["s_a"], "s", "c.yml") is None


def test_what_the_image_requires() -> None:
    needs = {"images": {PRIVATE: on_swarm.required(["PATH=/bin", "NVIDIA_REQUIRE_CUDA=cuda>=12.4", "SECRET=x"])}}
    assert needs["images"][PRIVATE] == {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}
    error, notes = judged(**needs)
    assert error is None
    assert notes[0].startswith(f"s_a: its image {PRIVATE} requires cuda>=12.4, and host-n1 has cuda 12.2; the toolkit there does not check that")
    error, notes = judged({"inventory-1": "1.17.8"}, **needs)
    assert error is not None
    assert "in legacy mode, starts no such task" in error
    assert error.endswith("Nothing was deployed.")
    assert notes == []
    for version in ("1.19.0", "", "latest"):
        assert judged({"inventory-1": version}, **needs)[0] is None
