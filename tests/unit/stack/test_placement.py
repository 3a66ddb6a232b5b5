# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""x-gpu of a Compose file is translated into constraints, labels and services of a fleet, or causes one clear error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from textwrap import dedent, indent
from typing import Any

import pytest

from plugins.module_utils._deployment.stack import with_labels
from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._swarm.owned_labels import PREFIX, compute
from plugins.module_utils._tasks.class_labels import LABEL
from plugins.plugin_utils._stack.placement import Placed, place_services
from plugins.plugin_utils._stack.stack_yaml import to_yaml
from plugins.plugin_utils._stack.translate import translate


def record(name: str, free: int, availability: str = "active", **labels: str) -> dict[str, Any]:
    own = {"gpu." + key: value for key, value in labels.items() if key not in ("microarchitecture", "x86_64_level")}
    own |= {"cpu." + key: labels[key] for key in ("microarchitecture", "x86_64_level") if key in labels}
    resources = {"NVIDIA-GPU": {"free": [f"GPU-{name}-{number}" for number in range(free)]}}
    return {"id": "id-" + name, "hostname": name, "labels": own, "resources": resources, "state": "ready", "availability": availability}


def t4(name: str, free: int = 4, **more: str) -> dict[str, Any]:
    labels = {"count": "4", "model": "Tesla-T4", "memory": "16", "mem_ge_16": "true", "compute_capability": "7.5", "cc_ge_7_0": "true"}
    old = {"driver": "535.261.03", "cuda": "12.2", "cuda_ge_12_0": "true", "microarchitecture": "broadwell", "x86_64_level": "v3"}
    return record(name, free, **{**labels, **old, **more})


def rtx(name: str, free: int = 2, **more: str) -> dict[str, Any]:
    labels = {"count": "2", "model": "NVIDIA-GeForce-RTX-4090", "memory": "24", "mem_ge_16": "true", "mem_ge_24": "true"}
    new = {"compute_capability": "8.9", "cc_ge_7_0": "true", "cc_ge_8_0": "true", "driver": "575.64.05", "cuda": "12.9"}
    cpu = {"cuda_ge_12_0": "true", "cuda_ge_12_4": "true", "microarchitecture": "zen4", "x86_64_level": "v4"}
    return record(name, free, **{**labels, **new, **cpu, **more})


MANAGER = {"id": "id-m", "hostname": "m", "labels": {}, "resources": {}, "state": "ready", "availability": "active"}
FLEET = (MANAGER, t4("g1"), rtx("g2"))
ONE = "deploy: {replicas: 4, resources: {reservations: {devices: [{count: 1, capabilities: [gpu]}]}}}"


def on(text: str, nodes: Any = FLEET, former: Any = None, more: str = "", stack: str = "s", declared: str = "") -> Placed:
    file = "services:\n  train:\n    image: lab/task\n" + indent(dedent(text).strip(), "    ") + "\n" + indent(dedent(more), "  ") + declared
    found = translate(file, "c.yml", lambda _path: None, {})
    return place_services(found.document, found.x_gpu, stack, nodes, former)


def constraints(made: Placed, service: str = "train") -> list[str]:
    return made.document["services"][service]["deploy"]["placement"]["constraints"]


@pytest.mark.parametrize(
    ("wants", "constraint"),
    [
        ("memory_min: 24000", "node.labels.gpu.mem_ge_24==true"),
        ("memory_min: 24576", "node.labels.gpu.mem_ge_24==true"),
        ("compute_capability: '>=8.0'", "node.labels.gpu.cc_ge_8_0==true"),
        ("cuda: '>=12.4'", "node.labels.gpu.cuda_ge_12_4==true"),
        ("model: Tesla-T4", "node.labels.gpu.model==Tesla-T4"),
        ("model: tesla t4", "node.labels.gpu.model==Tesla-T4"),
    ],
)
def test_an_existing_equivalent_label_is_used(wants: str, constraint: str) -> None:
    made = on(f"x-gpu: {{{wants}}}")
    assert constraints(made) == [constraint]
    assert made.labels == {}
    assert LABEL not in to_yaml(made.document)


@pytest.mark.parametrize(
    ("wants", "name", "nodes"),
    [
        ("model: '*RTX*'", "model-rtx-", ["id-g2"]),
        ("model: '*'", "model-", ["id-g1", "id-g2"]),
        ("memory_min: 20000", "memory_min-20000-", ["id-g2"]),
        ("compute_capability: '>=8.6'", "compute_capability-8.6-", ["id-g2"]),
        ("cuda: '<12.4'", "cuda-12.4-", ["id-g1"]),
        ("cpu: x86-64-v4", "cpu-x86_64_v4-", ["id-g2"]),
        ("cpu: haswell", "cpu-haswell-", ["id-g1"]),
    ],
)
def test_a_wish_without_a_label_becomes_a_label_on_matching_nodes(wants: str, name: str, nodes: list[str]) -> None:
    made = on(f"x-gpu: {{{wants}}}")
    (constraint,) = constraints(made)
    key = constraint.removeprefix("node.labels.").removesuffix("==true")
    assert key.startswith("gpu.class." + name)
    assert made.labels == {node: {key: "true"} for node in nodes}
    assert key in json.loads(made.document["services"]["train"]["deploy"]["labels"][LABEL])


def test_both_are_combined_with_constraints_of_the_file() -> None:
    made = on("x-gpu: {cuda: '>=12.4', cpu: x86-64-v4}\ndeploy: {labels: [own=1], placement: {constraints: [node.role==worker]}}")
    own, known, new = constraints(made)
    assert (own, known) == ("node.role==worker", "node.labels.gpu.cuda_ge_12_4==true")
    assert new.startswith("node.labels.gpu.class.cpu-x86_64_v4-")
    assert made.document["services"]["train"]["deploy"]["labels"].keys() == {"own", LABEL}
    assert made.placement == [{"service": "train", "image": "lab/task", "constraints": [known, new], "nodes": ["g2"]}]


def test_a_node_with_the_label_does_not_get_it_again() -> None:
    labels = on("x-gpu: {model: '*RTX*'}").labels
    there = [{**one, "labels": {**one["labels"], **labels.get(one["id"], {})}} for one in FLEET]
    assert on("x-gpu: {model: '*RTX*'}", there).labels == {}


def test_the_order_of_a_fleet_and_a_service_without_a_wish_change_nothing() -> None:
    more = "web: {image: lab/task}"
    made = on("x-gpu: {model: '*RTX*'}", list(reversed(FLEET)), more=more)
    assert made.document == on("x-gpu: {model: '*RTX*'}", more=more).document
    assert made.document["services"]["web"] == {"image": "lab/task"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x-gpu: {memory_min: 40000}", "x-gpu.memory_min is 40000, but no node has that. Nodes have 16 GB (g1), 24 GB (g2)."),
        ("x-gpu: {compute_capability: '>=9.0'}", "Nodes have 7.5 (g1), 8.9 (g2)"),
        ("x-gpu: {model: '*H100*'}", "Nodes have NVIDIA-GeForce-RTX-4090 (g2), Tesla-T4 (g1)"),
        ("x-gpu: {cpu: icelake}", "Nodes have broadwell (g1), zen4 (g2)"),
        ("x-gpu: {model: '*T4*', cuda: '>=12.4'}", "no node meets all requirements. g1 has a driver for CUDA 12.2, not >=12.4; g2 has NVIDIA-"),
        ("x-gpu: {gpu: 1}", "services.train.x-gpu.gpu is not known. x-gpu supports memory_min, compute_capability, cuda, model, cpu, images"),
        ("x-gpu: 1", "x-gpu is a number, but must be a mapping"),
        ("x-gpu: {images: [{image: a, cuda: '14.0'}]}",
         "no node can run any of them. g1 can run none of the images: a: its driver has CUDA 12.2, not 14.0"),
        (
            "x-gpu: {images: [{image: a, cuda: '12.0'}, {image: b, cpu: x86-64-v3}]}",
            "x-gpu.images is ambiguous: g1 can run a and b, and neither requires at least as much as the other",
        ),
        ("x-gpu: {images: [{image: a, name: 'A b'}]}", "the name 'A b' must have at most 30 lower-case letters"),
        ("x-gpu: {images: [{image: a}]}\ndeploy: {replicas: -1}", "deploy.replicas is -1"),
        ("x-gpu: {images: [{image: a}, {image: b, cuda: '12.4'}]}\nports: ['80:80']", "is split into 2, but only one of them can publish"),
    ],
)
def test_an_error_is_clear_and_alone(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        on(text)
    assert message in raised.value.message


def test_without_labels_of_gpus_nothing_is_known() -> None:
    with pytest.raises(GpuSwarmError, match="GPU labels, but no node of the swarm has any. Run provision."):
        on("x-gpu: {model: '*'}", [MANAGER])


def under(prefix: str, fleet: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the fleet after a run with another prefix for labels about GPUs."""
    return [{**one, "labels": _under(prefix, one["labels"])} for one in fleet]


def _under(prefix: str, labels: dict[str, str]) -> dict[str, str]:
    about = {key[len("gpu.") :]: value for key, value in labels.items() if key.startswith("gpu.")}
    wanted = {prefix + key: value for key, value in {**about, "healthy": "true"}.items()} if about and prefix else {}
    return compute({}, {**{key: value for key, value in labels.items() if not key.startswith("gpu.")}, **wanted}, PREFIX)[0]


WISHES = ["{memory_min: 20000}", "{model: '*RTX*'}", "{cuda: '>=12.4', cpu: x86-64-v4}", "{images: [{image: a}, {image: b, cuda: '12.4'}]}"]


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("prefix", ["acme.", "q-", "gpu."])
def test_another_prefix_of_labels_changes_only_their_keys(wish: str, prefix: str) -> None:
    by_default, other = on(f"x-gpu: {wish}"), on(f"x-gpu: {wish}", under(prefix, FLEET))
    assert json.dumps(other.document).replace(prefix, "gpu.") == json.dumps(by_default.document)
    assert json.dumps(other.labels).replace(prefix, "gpu.") == json.dumps(by_default.labels)
    assert other.lines == [line.replace("gpu.", prefix) for line in by_default.lines]


def test_nodes_with_several_prefixes_are_chosen_by_their_hardware() -> None:
    """If only some nodes can have a label, the label says nothing about the other nodes."""
    mixed = [MANAGER, *under("acme.", FLEET[1:2]), *FLEET[2:]]
    assert constraints(on("x-gpu: {memory_min: 24000}", mixed)) == ["node.labels.gpu.mem_ge_24==true"]
    (constraint,) = constraints(on("x-gpu: {memory_min: 1000}", mixed))
    assert "class.memory_min-1000-" in constraint
    assert set(on("x-gpu: {memory_min: 1000}", mixed).labels) == {one["id"] for one in FLEET if "gpu.count" in one["labels"]}


def test_nodes_without_labels_are_named_with_the_setting() -> None:
    entry = {"type": "named", "total": 1, "values": ["GPU-1"], "free": ["GPU-1"], "held": []}
    bound = [{**one, "labels": {**one["labels"], PREFIX + "host": one["hostname"]}, "resources": {"NVIDIA-GPU": entry}} for one in under("", FLEET)]
    error = r"these nodes have no GPU labels: g1, g2\. Their gpu_node_label_prefix is empty\. Set it, for example to 'gpu\.', and run provision\."
    with pytest.raises(GpuSwarmError, match=error):
        on("x-gpu: {model: '*'}", [MANAGER, *(one for one in bound if one["hostname"] != MANAGER["hostname"])])


# -- images ------------------------------------------------------------------------------------------------------------

MATRIX = """
x-gpu:
  images:
    - {image: "lab/task:12.2", cuda: "12.2"}
    - {image: "lab/task:12.8", cuda: "12.8", compute_capability: ">=8.0"}
    - {image: "lab/task:14.0", cuda: "14.0"}
"""
OLD, NEW = "train-cuda12-2", "train-cc-8-0-cuda12-8"


def replicas(made: Placed) -> dict[str, int]:
    return {name: service["deploy"]["replicas"] for name, service in made.document["services"].items()}


def test_a_service_for_each_image_with_its_share_and_its_constraint() -> None:
    made = on(MATRIX + ONE)
    services = made.document["services"]
    assert replicas(made) == {OLD: 3, NEW: 1}
    assert {name: service["image"] for name, service in services.items()} == {OLD: "lab/task:12.2", NEW: "lab/task:12.8"}
    assert all(service["networks"] == {"default": {"aliases": ["train"]}} for service in services.values())
    assert [len(constraints(made, name)) for name in services] == [1, 1]
    keys = {node: list(labels) for node, labels in made.labels.items()}
    assert keys.keys() == {"id-g1", "id-g2"}
    assert [f"node.labels.{key}==true" for key in keys["id-g1"]] == constraints(made, OLD)
    assert any("train-cuda14-0 is not created: lab/task:14.0 is not the best image for any node" in line for line in made.lines)
    assert any(f"{NEW}: lab/task:12.8 on g2, 1 of the replicas" in line for line in made.lines)


def test_shares_stay_while_other_work_comes_and_goes() -> None:
    first = on(MATRIX + ONE)
    busy = [MANAGER, t4("g1", free=0), rtx("g2")]
    assert replicas(on(MATRIX + ONE, busy)) != replicas(first)
    assert on(MATRIX + ONE, busy, first.document).document == first.document
    more = on(MATRIX + ONE.replace("4", "5"), busy, first.document)
    assert replicas(more) == {OLD: 3, NEW: 2}


def test_a_paused_node_counts_as_no_room() -> None:
    assert replicas(on(MATRIX + ONE, [t4("g1", availability="pause"), rtx("g2")])) == {OLD: 0, NEW: 4}


def test_a_global_service_has_one_service_for_each_image() -> None:
    made = on(MATRIX + "deploy: {mode: global}")
    assert [service["image"] for service in made.document["services"].values()] == ["lab/task:12.2", "lab/task:12.8", "lab/task:14.0"]
    assert all("replicas" not in service["deploy"] for service in made.document["services"].values())


def test_a_job_without_tasks_is_refused() -> None:
    made = on(MATRIX + ONE.replace("replicas: 4", "replicas: 1, mode: replicated-job"))
    assert replicas(made) == {OLD: 1}


def test_a_node_that_no_image_fits_is_named_with_the_reason() -> None:
    made = on(MATRIX + ONE, [*FLEET, t4("g3", driver="470.256.02", cuda="11.4")])
    assert "note: train: g3 can run none of the images: lab/task:12.2: its driver has CUDA 11.4, not 12.2" in "\n".join(made.lines)
    assert "id-g3" not in made.labels


def test_several_wishes_must_all_match() -> None:
    made = on("x-gpu: {model: '*T4*', images: [{image: a, cuda: '12.0'}, {image: b, cpu: x86-64-v4}]}")
    assert list(made.document["services"]) == ["train-cuda12-0"]
    assert made.labels.keys() == {"id-g1"}


def test_names_of_the_parts_can_be_chosen_and_used_in_dependencies() -> None:
    more, declared = "web: {image: lab/task, depends_on: [train]}", "\nnetworks: {one: , host: {external: true}}"
    made = on("x-gpu: {images: [{image: a, name: old}, {image: b, name: new, cuda: '12.4'}]}\nnetworks: [one, host]", more=more, declared=declared)
    assert list(made.document["services"]) == ["train-old", "train-new", "web"]
    assert made.document["services"]["web"]["depends_on"] == ["train-old", "train-new"]
    assert made.document["services"]["train-new"]["networks"] == {"one": {"aliases": ["train"]}, "host": None}
    with pytest.raises(GpuSwarmError, match="one of its services would be train-old, but another service has that name"):
        on("x-gpu: {images: [{image: a, name: old}]}", more="train-old: {image: i}")


def test_images_with_equal_names_get_different_ones() -> None:
    images = "[{image: a, model: '*T4*'}, {image: b, model: '*T4'}, {image: c, model: '*RTX*'}]"
    made = on(f"x-gpu: {{images: {images}}}\ndeploy: {{mode: global}}", [rtx("g2")])
    names = list(made.document["services"])
    assert len(set(names)) == 3
    assert names[2] == "train-rtx"


def test_a_new_tag_changes_neither_names_nor_constraints() -> None:
    first, second = (on(MATRIX.replace("lab/task", image) + ONE) for image in ("a/b", "c/d"))
    assert first.labels == second.labels
    assert [constraints(first, name) for name in first.document["services"]] == [constraints(second, name) for name in second.document["services"]]


def test_names_are_at_most_as_long_as_docker_allows() -> None:
    images = ", ".join(f"{{image: i{number}, cuda: '12.{number}', cpu: skylake_avx512, model: '*a-name-as-long-as-it-may-be*'}}" for number in (0, 1))
    names = list(on(f"x-gpu: {{images: [{images}, {{image: i}}]}}\ndeploy: {{mode: global}}", stack="a" * 40).document["services"])
    assert len(set(names)) == 3
    assert max(map(len, names)) + 41 <= 63


def test_the_preflight_uses_the_future_labels_of_nodes() -> None:
    nodes = [{"ID": "a", "Spec": {"Labels": {"x": "1"}}}, {"ID": "b", "Spec": {}}]
    found = with_labels(nodes, {"a": {"y": "2"}, "b": {"y": "2"}, "gone": {"y": "2"}})
    assert [node["Spec"]["Labels"] for node in found] == [{"x": "1", "y": "2"}, {"y": "2"}]
    assert nodes[1] == {"ID": "b", "Spec": {}}
