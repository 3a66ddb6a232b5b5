# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of a stack beside each other: whichever swarm places first, only in some order, or in none."""

from __future__ import annotations

from typing import Any

import pytest
from swarm_api import A, B, named, node

from plugins.module_utils._ledger.listed import Listed
from plugins.module_utils._ledger.preflight import preflight

TWO_AND_ONE = [node("n1", resources=named(A, B)), node("n2", resources=named("GPU-c"))]


def spec(name: str, gpus: int = 1, replicas: int = 1, on: str | None = None, ports: int | None = None, everywhere: bool = False) -> dict[str, Any]:
    reservations = {"GenericResources": [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": gpus}}]} if gpus else {}
    published = [{"Protocol": "tcp", "PublishedPort": ports, "PublishMode": "host"}] if ports else []
    return {
        "Name": name,
        "Mode": {"Global": {}} if everywhere else {"Replicated": {"Replicas": replicas}},
        "EndpointSpec": {"Ports": published},
        "TaskTemplate": {
            "Resources": {"Reservations": reservations},
            "Placement": {"Constraints": [f"node.id=={on}"] if on else [], "MaxReplicas": 0},
        },
    }


@pytest.mark.parametrize(
    ("specs", "fit", "rivals"),
    [
        ([spec("a", 2), spec("b", 1, on="n2")], "ab", {}),
        # Where b is decides whether a has two on one node.
        ([spec("a", 2), spec("b", 1)], "ab", {"a": ["b"]}),
        ([spec("a", 1), spec("b", 1)], "ab", {}),
        ([spec("a", 1, 3)], "a", {}),
        ([spec("a", 1, 4)], "", {}),
        ([spec("a", 1, 2), spec("b", 1, 2)], "x", {}),
        # In the order of their names a would be on n2, which b needs.
        ([spec("a", 1, 2, on="n1"), spec("b", 1, on="n2")], "ab", {}),
        ([spec("a", 1), spec("b", 1, on="n2"), spec("c", 1, on="n1")], "abc", {"b": ["a"]}),
        ([spec("b", 0, 2, ports=80), spec("a", 0, 1, ports=80)], "x", {}),
        ([spec("b", 0, 1, ports=80), spec("a", 0, 1, ports=80)], "ab", {}),
        ([spec("a", 1, everywhere=True), spec("b", 2, on="n1")], "x", {}),
        ([spec("a", 1, everywhere=True), spec("b", 1)], "ab", {"a": ["b"]}),
        ([spec("a", 1, 0), spec("b", 1, 3)], "ab", {}),
        ([spec("a", 0, 50), spec("b", 1, 3)], "ab", {}),
    ],
)
def test_together(specs: list[dict[str, Any]], fit: str, rivals: dict[str, list[str]]) -> None:
    """``fit``: the names of those that do; x where it is one of them that does not."""
    found = {one["service"]: one for one in preflight("s", specs, Listed(TWO_AND_ONE, [], [], None), "gpu-swarm.")["explained"]}
    fitting = {name for name, one in found.items() if one["fits"]}
    assert fitting == set(fit) if fit != "x" else len(fitting) < len(specs)
    if fit != "x":
        assert {name: one["rivals"] for name, one in found.items() if one["rivals"]} == rivals


def test_a_service_is_said_to_fit_wherever_it_could_be() -> None:
    """Where the others of the stack will be is not known."""
    listed = Listed(TWO_AND_ONE, [], [], None)
    (a, _b) = preflight("s", [spec("a", 1), spec("b", 2)], listed, "gpu-swarm.")["explained"]
    assert a["feasible"] == ["n1", "n2"]


@pytest.mark.parametrize(("wanted", "fit", "rivals"), [(1, ["a", "b"], ["a"]), (2, ["b"], [])])
def test_what_takes_all_leaves_nothing_for_another(wanted: int, fit: list[str], rivals: list[str]) -> None:
    """a reserves 0 of a named kind. It fits beside b only where b comes first and leaves one."""
    greedy = spec("a", 0)
    greedy["TaskTemplate"]["Resources"]["Reservations"] = {"GenericResources": [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU"}}]}
    listed = Listed(TWO_AND_ONE[:1], [], [], None)
    found = {one["service"]: one for one in preflight("s", [greedy, spec("b", wanted)], listed, "gpu-swarm.")["explained"]}
    assert [name for name, one in found.items() if one["fits"]] == fit
    assert fit != ["a", "b"] or found["b"]["rivals"] == rivals


def test_a_stack_without_services() -> None:
    assert preflight("s", [], Listed(TWO_AND_ONE, [], [], None), "gpu-swarm.")["explained"] == []
