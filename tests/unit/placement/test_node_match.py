# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement.node_match import is_constraint, is_met, runs_on

NODE = node("n1", {"gpu.model": "Tesla-T4", "Rack": "7"})
NODE["Description"]["Engine"]["Labels"] = {"storage": "ssd"}
BARE = {"ID": "n2", "Spec": {"Role": "worker"}, "Status": {}}


@pytest.mark.parametrize(
    ("constraint", "met", "met_by_bare"),
    [
        ("node.id==n1", True, False),
        ("node.id!=n1", False, True),
        ("node.hostname == HOST-N1", True, False),
        ("Node.Role==worker", True, True),
        ("node.role!=manager", True, True),
        ("node.platform.os==linux", True, False),
        ("node.platform.arch==x86_64", True, False),
        ("node.platform.arch==amd64", False, False),
        ("node.labels.gpu.model==tesla-t4", True, False),
        ("node.labels.gpu.model!=tesla-t4", False, True),
        ("node.labels.GPU.model==Tesla-T4", False, False),
        ("NODE.LABELS.Rack==7", True, False),
        ("node.labels.none!=x", True, True),
        ("engine.labels.storage==SSD", True, False),
        ("engine.labels.storage!=ssd", False, True),
        ("node.ip==192.0.2.1", True, False),
        ("node.ip==192.0.2.0/24", True, False),
        ("node.ip==192.0.2.7/24", True, False),  # swarm takes the network of the address
        ("node.ip!=192.0.2.0/24", False, False),
        ("node.ip!=198.51.100.0/24", True, False),
        ("node.ip==here", False, False),
        ("node.colour!=red", False, False),
        ("rack==7", False, False),
        ("node.labels.rack", True, True),
    ],
)
def test_constraints_are_met(constraint, met, met_by_bare):
    assert (is_met(constraint, NODE), is_met(constraint, BARE)) == (met, met_by_bare)


@pytest.mark.parametrize("text", ["node.role==worker", " node.labels.gpu.model != Tesla T4 ", "node.ip==192.0.2.0/24", "a_==[x](y)*?+|^$\\:/"])
def test_valid_constraints_are_accepted(text):
    assert is_constraint(text)


NO_CONSTRAINTS = ["", "node.role", "node.labels.x=1", "node.labels.x>=1", "node.labels.a/b==1", "x==", "x== ", "1x==1", "ab!=c==d", "ab==ü"]


@pytest.mark.parametrize("text", NO_CONSTRAINTS)
def test_a_constraint_that_swarm_refuses(text):
    assert not is_constraint(text)


@pytest.mark.parametrize(
    ("platforms", "runs"),
    [
        ([], True),
        ([{}], True),
        ([{"OS": "linux", "Architecture": "amd64"}], True),
        ([{"OS": "linux", "Architecture": "x86_64"}], True),
        ([{"OS": "linux"}], True),
        ([{"OS": "windows", "Architecture": "amd64"}], False),
        ([{"OS": "linux", "Architecture": "arm64"}], False),
        ([{"OS": "linux", "Architecture": "arm64"}, {"OS": "linux", "Architecture": "amd64"}], True),
    ],
)
def test_platforms_match(platforms, runs):
    assert runs_on(platforms, NODE) is runs


def test_a_node_that_never_reported_runs_only_images_without_a_platform():
    assert runs_on([], BARE)
    assert not runs_on([{"OS": "linux"}], BARE)
