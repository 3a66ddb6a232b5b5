# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks which x-gpu classes match which nodes, and which image of a matrix suits a node best. The nodes have several drivers, models and CPUs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._tasks.class_labels import LABEL, needed_classes
from plugins.plugin_utils._classes import classes, cpus, cuda_versions, images, requirement
from plugins.plugin_utils._classes.in_ledger import prefixes_to_keep, with_classes
from plugins.plugin_utils._classes.nodes import Facts, facts
from plugins.plugin_utils._classes.shares import shares
from plugins.plugin_utils._classes.versions import version


def of_node(model: str, memory: int, capability: str, driver: str, of_driver: str, cpu: str, level: str) -> dict[str, str]:
    """Return the labels that provision sets on such a node."""
    least = {f"gpu.mem_ge_{size}": "true" for size in (16, 24, 40, 80) if size <= memory}
    own = {"count": "4", "model": model, "memory": str(memory), "compute_capability": capability, "driver": driver, "cuda": of_driver}
    return {**{f"gpu.{key}": value for key, value in own.items()}, **least, "cpu.microarchitecture": cpu, "cpu.x86_64_level": level}


OLD, NEW = ("broadwell", "v3"), ("sapphirerapids", "v4")
T4 = ("Tesla-T4", 16, "7.5")
A100 = ("NVIDIA-A100-SXM4-40GB", 40, "8.0")
H100 = ("NVIDIA-H100-80GB-HBM3", 80, "9.0")
R470, R535, R580 = ("470.256.02", "11.4"), ("535.261.03", "12.2"), ("580.95.05", "13.0")
RTX = ("NVIDIA-GeForce-RTX-4090", 24, "8.9")


def node(model: tuple[str, int, str], driver: tuple[str, str], cpu: tuple[str, str]) -> Facts:
    return facts(of_node(*model, *driver, *cpu))


MIXED = {
    "gpu.count": "2",
    "gpu.model": "mixed",
    "gpu.memory": "mixed",
    "gpu.mem_ge_16": "true",
    "gpu.compute_capability": "mixed",
    "gpu.cc_ge_7_0": "true",
}


@pytest.mark.parametrize(
    ("wants", "has", "reason"),
    [
        ({"memory_min": 40000}, (A100, R535, OLD), None),
        ({"memory_min": 40960}, (A100, R535, OLD), None),
        ({"memory_min": "16000"}, (T4, R535, OLD), None),  # the nominal size of the card, although the driver reports less
        ({"memory_min": 41000}, (A100, R535, OLD), "has 40 GB, not 41000 MiB"),
        ({"compute_capability": ">=8.0"}, (A100, R535, OLD), None),
        ({"compute_capability": ">= 8.0, < 9.0"}, (A100, R535, OLD), None),
        ({"compute_capability": ">=8.0,<9.0"}, (H100, R535, OLD), "has compute capability 9.0, not >=8.0,<9.0"),
        ({"compute_capability": "==7.5"}, (T4, R535, OLD), None),
        ({"compute_capability": ">7.5"}, (T4, R535, OLD), "has compute capability 7.5, not >7.5"),
        ({"cuda": ">=12.4"}, (H100, R580, OLD), None),
        ({"cuda": ">=12.4"}, (H100, R535, OLD), "has a driver for CUDA 12.2, not >=12.4"),
        ({"cuda": ">=9"}, (H100, R535, OLD), None),
        ({"model": "*H100*"}, (H100, R535, OLD), None),
        ({"model": "nvidia h100 80gb hbm3"}, (H100, R535, OLD), None),
        ({"model": "H100"}, (H100, R535, OLD), "has NVIDIA-H100-80GB-HBM3, not H100"),
        ({"cpu": "x86-64-v3"}, (T4, R535, OLD), None),
        ({"cpu": "x86_64_v3"}, (T4, R535, NEW), None),
        ({"cpu": "x86-64-v4"}, (T4, R535, OLD), "has the CPU broadwell, which does not run x86_64_v4"),
        ({"cpu": "skylake_avx512"}, (T4, R535, NEW), None),
        ({"cpu": "skylake_avx512"}, (T4, R535, OLD), "has the CPU broadwell, which does not run skylake_avx512"),
        ({"cpu": "zen2"}, (T4, R535, NEW), "has the CPU sapphirerapids, which does not run zen2"),
    ],
)
def test_a_node_has_these_values_for_a_class(wants: dict[str, Any], has: Any, reason: str | None) -> None:
    found = requirement.unmet(requirement.parse(wants, "x"), node(*has))
    assert found == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("wants", "has"),
    [
        ({"memory_min": 16000}, True),
        ({"memory_min": 24000}, False),
        ({"compute_capability": ">=7.0"}, True),
        ({"compute_capability": ">=7.0,<8"}, False),  # one of the cards may have 9.0
        ({"model": "*"}, False),
        ({"cuda": ">=11"}, False),
    ],
)
def test_a_node_with_several_models_has_what_all_its_cards_have(wants: dict[str, Any], has: bool) -> None:
    assert (not requirement.unmet(requirement.parse(wants, "x"), facts(MIXED))) == has


@pytest.mark.parametrize(
    ("wants", "message"),
    [
        ({"memory_min": 40}, "x.memory_min is 40, but must be a number of MiB. For cards of 40 GB write 40000."),
        ({"memory_min": -1}, "x.memory_min is -1"),
        ({"memory_min": True}, "x.memory_min is True"),
        ({"memory_min": [1]}, "x.memory_min is something else"),
        ({"compute_capability": "8.0"}, "x.compute_capability is '8.0'. Write it with a sign, in quotes: '>=8.0'"),
        ({"compute_capability": 8.0}, "x.compute_capability is 8.0"),
        ({"cuda": ">=12.4,"}, "x.cuda is '>=12.4,'"),
        ({"cuda": ">=12.4.1"}, "x.cuda is '>=12.4.1'"),  # the CUDA version of a driver has two numbers
        ({"cuda": "12.*"}, "x.cuda is '12.*'"),
        ({"model": "[A-Z]*"}, "x.model is '[A-Z]*'. Write a model as 'nvidia-smi -L' shows it"),
        ({"model": 100}, "x.model is 100"),
        ({"cpu": "skylake-avx512"}, "x.cpu is 'skylake-avx512', which archspec does not know. Similar names: skylake_avx512"),
        ({"cpu": "x86-64-v5"}, "x.cpu is 'x86-64-v5'"),
        ({"cpu": 3}, "x.cpu is 3. Write a name"),
    ],
)
def test_one_clear_error(wants: dict[str, Any], message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        requirement.parse(wants, "x")
    assert message in raised.value.message


@pytest.mark.parametrize(
    ("of_image", "has", "more", "how"),
    [
        ("12.2", (T4, R535, OLD), {}, cuda_versions.FULLY),
        ("11.8", (T4, R535, OLD), {}, cuda_versions.FULLY),  # drivers run older versions of CUDA
        ("12.4", (T4, R535, OLD), {}, cuda_versions.MINOR),
        ("12.4", (T4, R535, OLD), {"ptx": True}, None),
        ("12.2", (T4, R535, OLD), {"ptx": True}, cuda_versions.FULLY),
        ("11.8", (T4, R470, OLD), {}, cuda_versions.MINOR),
        ("11.8", (T4, ("450.51.06", "11.0"), OLD), {}, None),  # works from driver 450.80.02 on
        ("13.0", (T4, R535, OLD), {}, None),
        ("13.0", (T4, R535, OLD), {"forward": [535, 550]}, cuda_versions.FORWARD),
        ("13.0", (H100, R535, OLD), {"forward": [535]}, cuda_versions.FORWARD),
        ("13.0", (RTX, R535, OLD), {"forward": [535]}, None),  # forward compatibility is only for data-centre GPUs
        ("13.0", (("NVIDIA-T1000", 8, "7.5"), R535, OLD), {"forward": [535]}, None),
        ("13.0", (("NVIDIA-RTX-A6000", 48, "8.6"), R535, OLD), {"forward": [535]}, None),
        ("12.4", (T4, R470, OLD), {"forward": [535]}, None),
        ("14.1", (T4, ("600.1.1", "14.0"), OLD), {}, None),  # this major version is unknown
    ],
)
def test_a_driver_runs_these_versions_of_cuda(of_image: str, has: Any, more: dict[str, Any], how: int | None) -> None:
    found, reason = cuda_versions.compatibility(version(of_image), node(*has), **more)
    assert found == how
    assert bool(reason) == (how is None)


MATRIX = images.parse(
    [
        {"image": "old", "cuda": "11.4"},
        {"image": "plain", "cuda": "12.2"},
        {"image": "avx512", "cuda": "12.2", "cpu": "skylake_avx512"},
        {"image": "new", "cuda": "12.8", "compute_capability": ">=8.0"},
        {"image": "new-avx512", "cuda": "12.8", "compute_capability": ">=8.0", "cpu": "skylake_avx512"},
        {"image": "hopper", "cuda": "13.0", "compute_capability": ">=9.0"},
        {"image": "hopper-avx512", "cuda": "13.0", "compute_capability": ">=9.0", "cpu": "skylake_avx512"},
    ],
    "x",
)


@pytest.mark.parametrize(
    ("model", "driver", "cpu", "image"),
    [
        (T4, R470, OLD, "old"),
        (T4, R470, NEW, "old"),
        (T4, R535, OLD, "plain"),
        (T4, R535, NEW, "avx512"),
        (T4, R580, OLD, "plain"),
        (T4, R580, NEW, "avx512"),
        (A100, R470, OLD, "old"),
        (A100, R470, NEW, "old"),
        (A100, R535, OLD, "plain"),  # full support is preferred to CUDA 12.8 with minor-version compatibility
        (A100, R535, NEW, "avx512"),
        (A100, R580, OLD, "new"),
        (A100, R580, NEW, "new-avx512"),
        (H100, R470, OLD, "old"),
        (H100, R470, NEW, "old"),
        (H100, R535, OLD, "plain"),
        (H100, R535, NEW, "avx512"),
        (H100, R580, OLD, "hopper"),
        (H100, R580, NEW, "hopper-avx512"),
    ],
)
def test_each_node_gets_its_best_image(model: Any, driver: Any, cpu: Any, image: str) -> None:
    best = images.choose(MATRIX, node(model, driver, cpu)).best
    assert [MATRIX[place]["image"] for place in best] == [image]


def matrix(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return images.parse([{"image": f"i{number}", **entry} for number, entry in enumerate(entries)], "x")


@pytest.mark.parametrize(
    ("entries", "best"),
    [
        ([{}, {"cuda": "12.0"}], [1]),
        ([{"cuda": "12.0"}, {"cpu": "x86-64-v3"}], [0, 1]),  # each image is better in one property and worse in the other
        ([{"cuda": "12.0"}, {"cpu": "x86-64-v3"}, {"cuda": "12.0", "cpu": "x86-64-v3"}], [2]),
        ([{"cpu": "skylake_avx512"}, {"cpu": "icelake"}], [1]),
        ([{"cpu": "zen2"}, {"cpu": "icelake"}], [1]),  # the first image does not run on this node
        ([{"model": "*H100*"}, {"model": "*80GB*"}], [0, 1]),
        ([{"model": "*H100*"}, {}], [0]),
        ([{"memory_min": 40000}, {"memory_min": 80000}], [1]),
        ([{"cuda": "13.1"}, {"cuda": "12.9", "ptx": True}], [1]),
        ([{"cuda": "14.0"}, {"cpu": "zen2"}], []),
    ],
)
def test_an_image_is_better_only_if_no_property_is_worse(entries: list[dict[str, Any]], best: list[int]) -> None:
    found = images.choose(matrix(*entries), node(H100, R580, NEW))
    assert found.best == best
    assert len(found.why) + len(best) >= 1
    assert not set(best) & set(found.why)
    assert all(found.why.values())


@pytest.mark.parametrize(
    ("entry", "runs"),
    [
        ({"cuda": "12.4"}, True),
        ({"cuda": "12.4", "ptx": False}, True),
        ({"cuda": "12.4", "ptx": True}, False),  # minor-version compatibility does not cover PTX
        ({"cuda": "13.0"}, False),
        ({"cuda": "13.0", "forward_compat": 535}, True),
        ({"cuda": "13.0", "forward_compat": [550, 535]}, True),
        ({"cuda": "13.0", "forward_compat": [550]}, False),
    ],
)
def test_the_requirements_in_the_matrix_decide_whether_an_image_runs(entry: dict[str, Any], runs: bool) -> None:
    found = images.choose(matrix(entry), node(H100, R535, OLD))
    assert (found.best, bool(found.why)) == (([0], False) if runs else ([], True))


def test_a_node_without_a_fitting_image_has_a_reason_for_each_image() -> None:
    found = images.choose(matrix({"cuda": "14.0"}, {"cuda": "12.0", "cpu": "zen2"}), node(H100, R535, NEW))
    assert found.why[0] == "its driver has CUDA 12.2, not 14.0"
    assert found.why[1] == "it has the CPU sapphirerapids, which does not run zen2"


def test_the_third_number_of_a_cuda_version_means_nothing_to_a_driver() -> None:
    (entry,) = matrix({"cuda": "12.2.2", "name": "small"})
    assert entry == {"image": "i0", "name": "small", "cuda": "12.2"}
    assert images.choose([entry], node(T4, R535, OLD)).best == [0]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "x must be a list of 1 to 32 images"),
        ([], "x must be a list"),
        (["a"], "x[0] must be a mapping"),
        ([{"cuda": "12.4"}], "x[0] has no image"),
        ([{"image": "a", "gpu": 1}], "x[0].gpu is not known. An image supports image, name, cuda"),
        ([{"image": "a", "cuda": ">=12.4"}], "x[0].cuda is '>=12.4'. Write the CUDA version that the image was built with"),
        ([{"image": "a", "cuda": True}], "x[0].cuda is 'True'"),
        ([{"image": "a", "cuda": "1" * 5000}], f"x[0].cuda is '{'1' * 40}'"),
        ([{"image": f"i{number}", "memory_min": 1000 + number} for number in range(33)], "x must be a list of 1 to 32 images"),
        ([{"image": "a", "ptx": "yes"}], "x[0].ptx must be true or false"),
        ([{"image": "a", "forward_compat": "all"}], "x[0].forward_compat must be a list of driver branches"),
        ([{"image": "a", "cuda": "12.4"}, {"image": "b", "cuda": 12.4}], "x is ambiguous: a and b require the same"),
    ],
)
def test_an_invalid_matrix_is_refused(found: Any, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        images.parse(found, "x")
    assert message in raised.value.message


def test_a_matrix_may_have_the_maximum_number_of_images() -> None:
    assert len(matrix(*({"memory_min": 1000 + number} for number in range(32)))) == 32


# -- labels ------------------------------------------------------------------------------------------------------------

H100_NODE, T4_NODE = of_node(*H100, *R580, *NEW), of_node(*T4, *R535, *OLD)


def of(wants: dict[str, Any], prefix: str = "gpu.") -> tuple[str, dict[str, Any]]:
    return classes.class_of_requirement(requirement.parse(wants, "x"), prefix)


def image(found: Any, place: int) -> tuple[str, dict[str, Any]]:
    return classes.class_of_image({}, found, place, "gpu.")


def test_a_class_is_a_label_on_the_nodes_that_match_it() -> None:
    key, meaning = of({"model": "*H100*"})
    assert key.startswith("gpu.class.model-h100-")
    text = classes.to_label({key: meaning})
    assert classes.labels(facts(H100_NODE), classes.read_classes([text]), {}) == {key: "true"}
    assert classes.labels(facts(T4_NODE), classes.read_classes([text]), {}) == {}
    assert classes.labels(facts({"rack": "7"}), classes.read_classes([text]), {}) == {}


def test_the_same_wish_has_the_same_label_and_another_has_another() -> None:
    assert of({"model": "*H100*", "cpu": "x86-64-v3"}) == of({"cpu": "x86_64_v3", "model": "*h100*"})
    assert of({"model": "*H100*"})[0] != of({"model": "H100"})[0]


def test_a_new_tag_of_an_image_changes_no_label() -> None:
    first, second = ([{**entry, "image": f"{entry['image']}:{tag}"} for entry in MATRIX] for tag in (1, 2))
    assert image(first, 1)[0] == image(second, 1)[0]
    assert len({image(MATRIX, place)[0] for place in range(len(MATRIX))}) == len(MATRIX)


def test_a_node_has_one_class_of_a_matrix_and_none_if_it_is_unknown() -> None:
    found = dict(image(MATRIX, place) for place in range(len(MATRIX)))
    read = classes.read_classes([classes.to_label(found)])
    assert list(classes.labels(facts(T4_NODE), read, {})) == [image(MATRIX, 1)[0]]
    vague = matrix({"cuda": "12.0"}, {"cpu": "x86-64-v3"})
    assert classes.labels(facts(T4_NODE), dict(image(vague, place) for place in (0, 1)), {}) == {}


KEY = "gpu.class.x-12345678"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"zone.class.secure": {"wants": {"model": "*"}}}),  # another user's label
        json.dumps({"zone.class.secure-2": {"wants": {"model": "*"}}}),
        "",
        "[]",
        "{",
        "[" * 5000,
        json.dumps({"gpu.model": {"wants": {"model": "*"}}}),  # not the label of a class
        json.dumps({"rack": {"wants": {"model": "*"}}}),
        json.dumps({"gpu.class.": {"wants": {"model": "*"}}}),
        json.dumps({"gpu-swarm.class.x-12345678": {"wants": {"model": "*"}}}),  # a record of the collection itself
        json.dumps({"fleet.gpu-swarm.class.x-12345678": {"wants": {"model": "*"}}}),
    ],
)
def test_labels_that_are_no_class_are_ignored(text: str) -> None:
    assert classes.read_classes([text]) == {}


@pytest.mark.parametrize(
    "meaning",
    [
        None,
        {},
        {"wants": {}},
        {"wants": {"cpu": "cpu-of-a-newer-archspec"}},
        {"wants": {"cuda": "12"}},
        {"wants": {}, "images": [], "image": 0},
        {"wants": {}, "images": [{"cuda": "12.0"}], "image": 1},
        {"wants": {}, "images": [{"cuda": "12.0"}], "image": "0"},
        {"wants": {}, "images": [1], "image": 0},
        {"wants": {}, "images": [{"cuda": "12.0"}]},
    ],
)
def test_an_unknown_class_leaves_its_label_unchanged(meaning: Any) -> None:
    read = classes.read_classes([json.dumps({KEY: meaning})])
    assert read == {KEY: None}
    assert classes.labels(facts(T4_NODE), read, {KEY: "true"}) == {KEY: "true"}
    assert classes.labels(facts(T4_NODE), read, {}) == {}


def test_without_archspec_levels_are_known_and_labels_with_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    key, meaning = of({"cpu": "skylake_avx512"})
    text = classes.to_label({key: meaning})
    monkeypatch.setattr(cpus, "ANCESTORS", {})
    assert classes.read_classes([text]) == {key: None}
    assert not requirement.unmet(requirement.parse({"cpu": "x86-64-v3"}, "x"), facts(T4_NODE))
    with pytest.raises(GpuSwarmError, match="archspec is not installed"):
        requirement.parse({"cpu": "zen2"}, "x")


def in_ledger(*texts: str, **labels: str) -> dict[str, Any]:
    return {"nodes": [{"id": "n1", "labels": labels}], "classes": list(texts)}


def test_a_run_keeps_the_labels_of_the_classes_that_services_need() -> None:
    (key, meaning) = of({"cpu": "x86-64-v3"})
    text = classes.to_label({key: meaning})
    assert with_classes(T4_NODE, (), "n1", in_ledger(text))[key] == "true"
    assert with_classes(T4_NODE, (), "a-new-one", in_ledger(text))[key] == "true"
    assert with_classes({}, (), "n1", in_ledger(text)) == {}
    assert key not in with_classes(T4_NODE, (), "n1", in_ledger())
    without = {name: value for name, value in T4_NODE.items() if not name.startswith("cpu.")}
    assert key not in with_classes(without, (), "n1", in_ledger(text))
    # Labels that this run could not determine are unchanged.
    assert with_classes(without, ("cpu.",), "n1", in_ledger(text, **{"cpu.x86_64_level": "v4"}))[key] == "true"


def under(prefix: str, labels: dict[str, str]) -> dict[str, str]:
    """Return the labels about GPUs that ``provision`` would decide, with another prefix."""
    others = {prefix + key[len("gpu.") :]: value for key, value in {**labels, "gpu.healthy": "true"}.items() if key.startswith("gpu.")}
    return {**others, **{key: value for key, value in labels.items() if not key.startswith("gpu.")}}


def test_a_changed_prefix_keeps_the_label_keys_that_services_use() -> None:
    """Without these label keys, Swarm would evict the tasks of the services, although the node still has everything that they need."""
    for prefix in ("acme.", "gpu."):
        (key, meaning) = of({"model": "*t4*"}, prefix)
        text = classes.to_label({key: meaning})
        assert key.startswith(prefix + "class.model-t4-")
        assert with_classes(under("acme.", T4_NODE), (), "n1", in_ledger(text))[key] == "true"
        assert key not in with_classes(under("acme.", H100_NODE), (), "n1", in_ledger(text))
        assert key not in with_classes({"cpu.microarchitecture": "zen3"}, (), "n1", in_ledger(text))  # a node that must not have labels about GPUs


def test_labels_stay_if_the_needs_of_services_are_unknown() -> None:
    assert prefixes_to_keep(T4_NODE, {"msg": "no answer"}) == ["gpu.class."]
    assert prefixes_to_keep(under("acme.", T4_NODE), {"msg": "no answer"}) == ["acme.class."]
    assert prefixes_to_keep({**under("acme.", T4_NODE), KEY: "true"}, {"msg": "no answer"}) == ["acme.class.", "gpu.class."]
    assert prefixes_to_keep(T4_NODE, in_ledger()) == prefixes_to_keep({}, {}) == prefixes_to_keep(T4_NODE, None) == []


def test_labels_of_services_say_what_they_need() -> None:
    labels = ({LABEL: "1"}, {LABEL: "1"}, None, {"x": "2"})
    services = [{"Spec": {"Name": "a", "Labels": one}} for one in labels]
    assert needed_classes(services) == ["1"]


@pytest.mark.parametrize(
    ("total", "room", "former", "wanted"),
    [
        (6, {"a": 4, "b": 2}, {}, {"a": 4, "b": 2}),
        (3, {"a": 4, "b": 2}, {}, {"a": 2, "b": 1}),
        (1, {"a": 2, "b": 2}, {}, {"a": 1, "b": 0}),
        (0, {"a": 4, "b": 2}, {}, {"a": 0, "b": 0}),
        (8, {"a": 4, "b": 2}, {}, {"a": 5, "b": 3}),  # more tasks than fit: the other tasks wait
        (2, {"a": 0, "b": 2}, {}, {"a": 0, "b": 2}),
        (3, {"a": 0, "b": 2}, {"a": 3}, {"a": 3, "b": 0}),  # running tasks stay
        (4, {"a": 1, "b": 5}, {"a": 3}, {"a": 3, "b": 1}),
        (2, {"a": 4, "b": 4}, {"a": 3, "b": 1}, {"a": 1, "b": 1}),
        (2, {"a": 0, "b": 0}, {}, {"a": 1, "b": 1}),
        (2, {"b": 4}, {"a": 2}, {"b": 2}),  # a class that no longer exists
    ],
)
def test_replicas_are_divided_by_room_and_stay_in_place(total: int, room: dict[str, int], former: dict[str, int], wanted: dict[str, int]) -> None:
    assert shares(total, room, former) == wanted
