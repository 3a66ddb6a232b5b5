# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The x-gpu section of a job becomes constraints and labels of a fleet, or produces one clear error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._tasks.class_labels import LABEL
from plugins.plugin_utils._classes.for_job import parse_x_gpu, place_job


def record(name: str, **labels: str) -> dict[str, Any]:
    return {"id": "id-" + name, "hostname": name, "labels": {"gpu." + key: value for key, value in labels.items()}}


SMALL = record("g1", count="4", model="Tesla-T4", memory="16", mem_ge_16="true", cuda="12.2")
LARGE = record("g2", count="2", model="NVIDIA-A100-SXM4-80GB", memory="80", mem_ge_16="true", mem_ge_40="true", cuda="12.8")
FLEET = [{"id": "id-m", "hostname": "m", "labels": {}}, SMALL, LARGE]


def test_an_equivalent_label_becomes_its_constraint():
    made = place_job(parse_x_gpu({"memory_min": "40000"}, "sweep"), "sweep", FLEET)
    assert made.placement == {"constraints": ["node.labels.gpu.mem_ge_40==true"], "labels": {}, "nodes": {}}
    assert (made.labels, made.lines) == ({}, ["sweep: node.labels.gpu.mem_ge_40==true: g2"])


def test_another_wish_becomes_a_class_which_the_service_explains():
    made = place_job(parse_x_gpu({"memory_min": 40000, "model": "*A100*"}, "sweep"), "sweep", FLEET)
    (key,) = made.labels["id-g2"]
    assert made.placement["constraints"] == ["node.labels.gpu.mem_ge_40==true", f"node.labels.{key}==true"]
    assert made.placement["nodes"] == made.labels == {"id-g2": {key: "true"}}
    assert json.loads(made.placement["labels"][LABEL]) == {key: {"wants": {"model": "*a100*"}}}
    assert made.lines[1] == f"label {key}=true is added to g2"
    again = place_job(parse_x_gpu({"model": "*A100*"}, "sweep"), "sweep", [SMALL, {**LARGE, "labels": {**LARGE["labels"], key: "true"}}])
    assert (again.labels, len(again.placement["labels"])) == ({}, 1)


@pytest.mark.parametrize("nothing", [None, "", {}, {"model": ""}], ids=str)
def test_x_gpu_may_be_empty(nothing):
    assert parse_x_gpu(nothing, "sweep") == {}


WRONG = [
    ({"memory": 40000}, "The job sweep: x-gpu.memory is not known. x-gpu supports memory_min,"),
    ("large", "The job sweep: x-gpu must be a mapping."),
    ({"cuda": "new"}, "The job sweep: x-gpu.cuda is 'new'."),
    ({"images": [{"image": "a"}]}, "The job sweep: x-gpu.images is not known."),
    ({"memory_min": 90000}, "x-gpu.memory_min is 90000, but no node has that. Nodes have 16 GB (g1), 80 GB (g2)."),
]


@pytest.mark.parametrize(("found", "words"), WRONG, ids=str)
def test_an_invalid_x_gpu_has_one_clear_error(found, words):
    with pytest.raises(GpuSwarmError) as problem:
        place_job(parse_x_gpu(found, "sweep"), "sweep", FLEET)
    assert words in problem.value.message
    assert problem.value.message.endswith("Nothing was submitted.")


def test_nodes_that_were_never_provisioned_match_nothing():
    with pytest.raises(GpuSwarmError, match="Run provision. Nothing was submitted."):
        place_job({"memory_min": 1000}, "sweep", FLEET[:1])
