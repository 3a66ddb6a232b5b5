# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems that are reported before a deployment: used names, refusing registries, and images that the toolkit of a node would not start."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from swarm_api import A, B, named, node

from plugins.filter.images_with_gpus import FilterModule
from plugins.module_utils._deployment import stack as on_swarm
from plugins.module_utils._deployment.preflight import preflight
from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._ledger.listed import Listed
from plugins.plugin_utils._stack import deploy_preconditions, image_answers, registries
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
    fixed = {"networks_taken": [], "missing_objects": [], "refused": [], "images": {PRIVATE: {}}, "progress": []}
    return {"nodes": found["nodes"], "preflight": found["explained"], **fixed, **more}


def judged(hostvars: dict[str, Any] | None = None, **more: Any) -> tuple[str | None, list[str]]:
    host_facts, _notes = image_answers.read_answers(hostvars or {})
    errors, notes = deploy_preconditions.check_answer(answer(**more), document(), "s", deploy_preconditions.Access({}, False), host_facts)
    return " ".join(errors) or None, notes


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
def test_the_registry_of_an_image_is_found(image: str, registry: str) -> None:
    assert registries.registry_of(image) == registry


def test_registries_and_networks_are_queried() -> None:
    found = deploy_preconditions.query_options(document(), "s", deploy_preconditions.Access({}, False), True)
    assert (found["query"], found["networks"]) == ({PRIVATE: "registry.example:5000"}, ["s_default", "s_own", "x"])
    assert json.loads(base64.b64decode(found["logins"])) == {}  # the manager's logins do not count, because they are not passed to the nodes
    assert "logins" not in deploy_preconditions.query_options(document(), "s", deploy_preconditions.Access({}, True), True)
    assert "query" not in deploy_preconditions.query_options(document(), "s", deploy_preconditions.Access(LOGINS, False), False)
    access = deploy_preconditions.Access({"docker.io": LOGINS["registry.example:5000"]}, False)
    hub = deploy_preconditions.query_options(document(), "s", access, True)
    assert sorted(hub["query"]) == ["lab/task", PRIVATE]


def test_logins_are_sent_like_docker_does() -> None:
    logins = registries.logins_of({"https://registry.example:5000/": LOGINS["registry.example:5000"], "docker.io": {"username": "u", "password": 7}})
    auths = json.loads(registries.docker_config(logins))["auths"]
    assert base64.b64decode(auths["registry.example:5000"]["auth"]) == b"u:pa:ss"
    assert base64.b64decode(auths["https://index.docker.io/v1/"]["auth"]) == b"u:7"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("s3cret", "must have username and password"),
        ({"username": "u"}, "must have username and password"),
        ({"username": "u", "password": "s3cret", "email": "e"}, "must have username and password"),
        ({"username": "u", "password": ""}, "its password is empty"),
        ({"username": "u:s3cret", "password": "s3cret"}, "its username has a colon"),
    ],
)
def test_an_invalid_login_is_not_shown(entry: Any, message: str) -> None:
    with pytest.raises(GpuSwarmError, match=message) as raised:
        registries.logins_of({"registry.example": entry})
    assert "s3cret" not in raised.value.message


def test_a_refusal_of_a_registry_is_reported() -> None:
    refused = [{"image": PRIVATE, "said": "unauthorized: authentication required"}]
    error, _notes = judged(refused=refused)
    assert error is not None
    assert error.startswith(f"The registry registry.example:5000 refuses the image {PRIVATE}: unauthorized: authentication required. Add a login")
    assert "Correct the login" in str(registries.refusal_errors(refused, LOGINS, False))
    assert "Log in on the manager again" in str(registries.refusal_errors(refused, {}, True))
    assert registries.refusal_errors([], LOGINS, False) == []


def test_existing_networks_are_reported() -> None:
    networks = [{"Name": "s_default", "Labels": {}}, {"Name": "s_own", "Labels": {"com.docker.stack.namespace": "s"}}, {"Name": "bridge"}]
    taken = on_swarm.networks_taken("s", ["s_default", "s_own", "x"], networks)
    assert taken == ["s_default"]
    error, _notes = judged(networks_taken=taken)
    assert error is not None
    assert error.startswith("The networks s_default exist already and do not belong to the stack s")


def test_missing_external_configs_networks_and_secrets_are_reported() -> None:
    """Docker looks for configs and secrets after it has created the networks. It does not look for networks that exist on each machine."""
    text = """
      services:
        a: {image: i, configs: [c, own], secrets: [{source: s}, named, older], networks: [n, own, host]}
        b: {image: i}
      configs: {c: {external: true}, own: {content: x}, unused: {external: true}}
      secrets: {s: {external: true}, named: {external: true, name: other}, older: {external: {name: former}}}
      networks: {default: {external: true, name: shared}, n: {external: true}, own: {}, unused: {external: true}, host: {external: true, name: host}}
    """
    wanted = deploy_preconditions.query_options(document(dedent(text)), "s", deploy_preconditions.Access({}, False), False)["external"]
    assert wanted == {"configs": ["c"], "networks": ["n", "shared"], "secrets": ["former", "other", "s"]}
    access = deploy_preconditions.Access({}, False)
    assert deploy_preconditions.query_options(document("services: {a: {image: i}}"), "s", access, False)["external"] == {}
    networks = on_swarm.of_swarm([{"Name": "n", "Id": "n1", "Scope": "local"}, {"Name": "shared", "Id": "n2", "Scope": "swarm"}])
    assert networks == ["shared", "n2"]
    found = on_swarm.missing_objects(wanted, {"services": ["c"], "configs": ["x"], "secrets": ["s", "former"], "networks": networks})
    assert found == ["config c", "network n", "secret other"]
    error, _notes = judged(missing_objects=found)
    assert error == (
        "The swarm has no config c, no network n, no secret other, but the Compose file declares it as external. Create it with 'docker config "
        "create' and 'docker network create --driver overlay' and 'docker secret create', or correct its name. Nothing was deployed."
    )


def test_a_stack_of_another_owner_is_refused() -> None:
    other = {"progress": [{"service": "s_x"}]}
    said = str(deploy_preconditions.name_conflict(other, ["s_a"], "s", "c.yml"))
    assert said.startswith("The swarm already has a stack s, with the services s_x. c.yml contains none of them.")
    assert deploy_preconditions.name_conflict({"progress": []}, ["s_a"], "s", "c.yml") is None
    assert deploy_preconditions.name_conflict({"progress": [{"service": "s_a"}, {"service": "s_x"}]}, ["s_a"], "s", "c.yml") is None


NEEDS = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}
ON_MANAGER = {"images": {PRIVATE: NEEDS}}


def answered(enforces: Any, images: Any) -> dict[str, Any]:
    return {image_answers.ANSWER: {"changed": False, "enforces": enforces, "images": images}}


@pytest.mark.parametrize(
    ("hostvars", "on_manager", "found"),
    [
        # The node gave no answer. The variables on the manager and the toolkit's version in the inventory decide.
        ({}, True, "it is not known whether the toolkit there checks that"),
        ({"nvidia_container_toolkit_version": ""}, True, "it is not known"),
        ({"nvidia_container_toolkit_version": "latest"}, True, "it is not known"),
        ({"nvidia_container_toolkit_version": "1.17.8"}, True, "in legacy mode, refuses such tasks"),
        ({"nvidia_container_toolkit_version": "1.19.0"}, True, "the toolkit there does not check that"),
        ({}, False, ""),
        # The answer of the node overrides the manager and the inventory.
        (answered(True, {PRIVATE: NEEDS}), False, "in legacy mode, refuses such tasks"),
        ({**answered(True, {PRIVATE: NEEDS}), "nvidia_container_toolkit_version": "1.20.0"}, False, "in legacy mode, refuses such tasks"),
        (answered(False, {PRIVATE: NEEDS}), False, "the toolkit there does not check that"),
        (answered(None, {PRIVATE: NEEDS}), False, "it is not known"),
        ({**answered(None, {PRIVATE: NEEDS}), "nvidia_container_toolkit_version": "1.17.8"}, False, "in legacy mode, refuses such tasks"),
        (answered(True, {PRIVATE: {}}), True, ""),
        # The node lacks the image and will pull it, so the manager's answer about the image is used.
        (answered(True, {}), True, "in legacy mode, refuses such tasks"),
        (answered(True, {}), False, ""),
        # The answer of the node is invalid.
        ({image_answers.ANSWER: {"failed": True, "msg": "no dockerd"}}, True, "it is not known"),
        ({image_answers.ANSWER: "nonsense"}, True, "it is not known"),
        (answered("yes", [PRIVATE]), True, "it is not known"),
        (answered("yes", {PRIVATE: "cuda>=1"}), True, "the toolkit there does not check that"),
    ],
)
def test_requirements_of_an_image_are_checked(hostvars: dict[str, Any], on_manager: bool, found: str) -> None:
    error, notes = judged({"inventory-1": hostvars}, **(ON_MANAGER if on_manager else {}))
    said = f"s_a: its image {PRIVATE} requires cuda>=12.4, and host-n1 has cuda 12.2; "
    assert bool(error) is ("legacy" in found)
    assert error is None or (error.startswith(said) and error.endswith("Nothing was deployed."))
    assert len(notes) == (0 if error else bool(found))
    assert found in (error or "".join(notes))


def test_an_image_may_exist_only_on_another_node() -> None:
    hostvars = {"inventory-1": answered(True, {}), "inventory-2": answered(True, {PRIVATE: NEEDS})}
    assert "host-n1 has cuda 12.2" in str(judged(hostvars)[0])


def video_notes(service: str, images: dict[str, dict[str, str]], in_images_of_nodes: dict[str, dict[str, str]] | None = None) -> list[str]:
    host_facts, _notes = image_answers.read_answers({"inventory-1": answered(True, in_images_of_nodes or {})})
    stack = document("services: {a: {%s}}" % service)
    return deploy_preconditions.check_answer(answer(images=images), stack, "s", deploy_preconditions.Access({}, False), host_facts)[1]


ENCODER = "image: jrottenberg/ffmpeg, gpus: [{count: 1}]"
VARIABLE = "NVIDIA_DRIVER_CAPABILITIES"


@pytest.mark.parametrize(
    ("service", "on_manager", "on_node", "found"),
    [
        (ENCODER, None, None, "s_a has ffmpeg in its image or command, but neither it nor a known image sets NVIDIA_DRIVER_CAPABILITIES with video."),
        (ENCODER, None, "compute,utility", "but its NVIDIA_DRIVER_CAPABILITIES is compute,utility, without video. A task may find no encoder."),
        (ENCODER, "compute", None, "is compute, without video"),
        (ENCODER + ", environment: {%s: utility}" % VARIABLE, "all", "all", "is utility, without video"),
        ("image: x, command: [sh, -c, 'enc -c:v h264_NVENC'], gpus: [{count: 1}]", None, None, "s_a has NVENC in its image or command"),
        ("image: x, entrypoint: ffmpeg -i x, gpus: [{count: 1}]", None, None, "s_a has ffmpeg"),
        (ENCODER, None, "compute,utility,video", ""),
        (ENCODER, "all", None, ""),
        (ENCODER + ", environment: {%s: 'video, utility'}" % VARIABLE, None, None, ""),
        ("image: jrottenberg/ffmpeg, gpus: [{count: 1, capabilities: [gpu, video]}]", "compute", "compute", ""),
        ("image: jrottenberg/ffmpeg", None, None, ""),
        ("image: complex/train, command: train, gpus: [{count: 1}]", None, None, ""),
    ],
)
def test_an_encoder_that_does_not_request_video_is_noted(service: str, on_manager: str | None, on_node: str | None, found: str) -> None:
    image = "jrottenberg/ffmpeg"
    notes = video_notes(service, {image: {VARIABLE: on_manager} if on_manager else {}}, {image: {VARIABLE: on_node}} if on_node else {})
    assert len(notes) == bool(found)
    assert found in "".join(notes)


def test_nodes_that_gave_no_answer_are_named() -> None:
    silent = {f"g{number}": {image_answers.ANSWER: {"failed": True, "msg": "it hangs"}} for number in range(7)}
    said = image_answers.read_answers({"m1": {}, **silent})[1]
    assert said[0] == "the requirements of images on g0 are not known: it hangs"
    assert (len(said), said[-1]) == (6, "the same holds for 2 more hosts")


def test_nodes_are_queried_about_these_images(tmp_path: Path) -> None:
    path = tmp_path / "compose.yml"
    path.write_text(COMPOSE.replace("services:", "services:\n  d: {image: x, x-gpu: {images: [{image: y, cuda: '12.2'}]}, gpus: [{count: 1}]}"))
    images = FilterModule().filters()["images_with_gpus"]
    assert images(str(path)) == [PRIVATE, "y"]
    path.write_text("services: {a: {gpus: all}}")  # the deployment itself reports the problem
    assert images(str(path)) == images(str(tmp_path / "missing.yml")) == []


def test_all_problems_are_reported_at_once() -> None:
    refused = [{"image": PRIVATE, "said": "denied"}, {"image": f"{PRIVATE}2", "said": "denied"}]
    errors, _notes = deploy_preconditions.check_answer(
        answer(refused=refused, networks_taken=["s_n"], missing_objects=["config c"]), document(), "s", deploy_preconditions.Access({}, False), {}
    )
    begins = ["The networks s_n exist", "The swarm has no config c", f"The registry registry.example:5000 refuses the image {PRIVATE}:"]
    assert [one.startswith(begin) for begin, one in zip([*begins, begins[-1][:-1] + "2:"], errors, strict=True)] == [True] * 4
