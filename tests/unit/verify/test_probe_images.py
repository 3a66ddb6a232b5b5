# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._verify.probe_images import PULLED, assign_images, refuse_name

ID = "sha256:" + 64 * "a"
CUDA = {"id": ID, "name": "nvidia/cuda:12", "cuda": True}


def first(names, count):
    return names[:count]


def check(node, state="planned", kind="NVIDIA-GPU"):
    return {"node": node, "kind": kind, "state": state, "verdict": "", "count": 1, "others": 3, "image": None}


def brief(checks):
    return [(one["node"], one["state"], one["image"] and (one["image"]["reference"], one["image"]["from"])) for one in checks]


def images(checks, image=None, there=None, pulls="3"):
    return assign_images(checks, image, there or {}, pulls, first)


def test_a_named_image_is_used_everywhere():
    found = images([check("n1"), check("n2")], image="cuda:1", there={"n1": [CUDA]}, pulls="0")
    assert brief(found) == [(node, "planned", ("cuda:1", "named")) for node in ("n1", "n2")]


def test_an_existing_image_is_used_by_its_id_so_that_no_node_pulls():
    found = images([check("n1"), check("n1", kind="MIG-1g.10gb")], there={"n1": [CUDA, {"id": "x", "name": "y", "cuda": False}]}, pulls="0")
    assert brief(found) == [("n1", "planned", (ID, "there"))] * 2
    assert found[0]["image"]["name"] == "nvidia/cuda:12"


@pytest.mark.parametrize(("pulls", "count"), [("3", 3), ("0", 0), ("all", 5), (" All ", 5), ("40%", 2), (1, 1), ("9", 5)])
def test_a_few_nodes_without_an_image_pull_it_and_others_are_not_tested(pulls, count):
    found = images([check("n0"), *(check(f"n{n}") for n in range(1, 6))], there={"n0": [CUDA]}, pulls=pulls)
    assert brief(found)[0] == ("n0", "planned", (ID, "there"))
    assert brief(found)[1 : count + 1] == [(f"n{n}", "planned", (PULLED, "pull")) for n in range(1, count + 1)]
    assert [(one["state"], one["image"], one["count"]) for one in found[count + 1 :]] == [("untested", None, 0)] * (5 - count)
    assert all("raise verify_pulls" in one["verdict"] for one in found[count + 1 :])


def test_a_node_that_is_not_tested_pulls_nothing():
    found = images([check("n1", state="untested"), check("n2")], pulls="1")
    assert brief(found) == [("n1", "untested", None), ("n2", "planned", (PULLED, "pull"))]


@pytest.mark.parametrize("there", [[], None, [{"id": "evil; rm", "name": "x"}], [{"name": "x"}], [{"id": 7}]])
def test_an_invalid_id_of_an_image_is_not_used(there):
    assert brief(images([check("n1")], there={"n1": there}))[0][2] == (PULLED, "pull")


@pytest.mark.parametrize("pulls", ["many", "-1", "", "1.5", "0%"])
def test_a_value_that_is_no_number_is_refused(pulls):
    with pytest.raises(GpuSwarmError, match="^pulls: '%s' is not a number of nodes. Give a number" % pulls):
        images([check("n1")], pulls=pulls)


@pytest.mark.parametrize("image", [None, "", PULLED, f"registry.example:5000/a@{ID}", ID])
def test_valid_images_are_accepted(image):
    refuse_name(image)


@pytest.mark.parametrize("image", ["lab/task:", "lab/Task", "a b", "https://registry.example/a"])
def test_an_invalid_image_is_named_with_its_setting(image):
    with pytest.raises(GpuSwarmError, match=f"verify_image is {image!r}, which is not a valid image name. Write it as name:tag"):
        refuse_name(image)
