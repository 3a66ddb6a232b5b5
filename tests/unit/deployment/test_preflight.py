# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether the services of a stack fit together: in any order of placement, only in some orders, or never."""

from __future__ import annotations

from typing import Any

import pytest
from swarm_api import discrete, named, node, task

from plugins.module_utils._deployment import stack as on_swarm
from plugins.module_utils._deployment.preflight import preflight
from plugins.module_utils._ledger.listed import Listed


def nodes(*sizes: int) -> list[dict[str, Any]]:
    """Return nodes n1, n2, … with these numbers of GPUs."""
    return [node(f"n{place}", resources=named(*(f"GPU-{place}-{card}" for card in range(size)))) for place, size in enumerate(sizes, 1)]


TWO_AND_ONE = nodes(2, 1)


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
        # a needs both GPUs of n1, so a fits only if b is on n2.
        ([spec("a", 2), spec("b", 1)], "ab", {"a": ["b"]}),
        ([spec("a", 1), spec("b", 1)], "ab", {}),
        ([spec("a", 1, 3)], "a", {}),
        ([spec("a", 1, 4)], "", {}),
        ([spec("a", 1, 2), spec("b", 1, 2)], "x", {}),
        # If Swarm placed the services in the order of their names, a could take the GPU of n2, which b needs.
        ([spec("a", 1, 2, on="n1"), spec("b", 1, on="n2")], "ab", {}),
        ([spec("a", 1), spec("b", 1, on="n2"), spec("c", 1, on="n1")], "abc", {"b": ["a"]}),
        ([spec("b", 0, 2, ports=80), spec("a", 0, 1, ports=80)], "x", {}),
        ([spec("b", 0, 1, ports=80), spec("a", 0, 1, ports=80)], "ab", {}),
        ([spec("a", 1, everywhere=True), spec("b", 2, on="n1")], "x", {}),
        ([spec("a", 1, everywhere=True), spec("b", 1)], "ab", {"a": ["b"]}),
        ([spec("a", 1, 0), spec("b", 1, 3)], "ab", {}),
        ([spec("a", 0, 50), spec("b", 1, 3)], "ab", {}),
        # If Swarm spreads a over both nodes, b finds no GPU on n2.
        ([spec("a", 1, 2), spec("b", 1, on="n2")], "ab", {"b": ["a"]}),
        ([spec("a", 1, 2), spec("b", 1, on="n2"), spec("c", 0, 50)], "abc", {"b": ["a"]}),
        ([spec("a", 0, on="n2", ports=80), spec("b", 0, ports=80)], "ab", {"a": ["b"]}),
    ],
)
def test_together(specs: list[dict[str, Any]], fit: str, rivals: dict[str, list[str]]) -> None:
    """``fit`` has the names of the services that fit, or is x if any of the services does not fit."""
    found = {one["service"]: one for one in preflight("s", specs, Listed(TWO_AND_ONE, [], [], None), "gpu-swarm.")["explained"]}
    fitting = {name for name, one in found.items() if one["fits"]}
    assert fitting == set(fit) if fit != "x" else len(fitting) < len(specs)
    if fit != "x":
        assert {name: one["rivals"] for name, one in found.items()} == {**{name: [] for name in found}, **rivals}


@pytest.mark.parametrize(
    ("sizes", "specs", "fit"),
    [
        # The three tasks of a leave no card for b.
        ((1, 2), [spec("a", 1, 3), spec("b", 1, on="n2")], "a"),
        # Swarm spreads b over both nodes, unless it places the two tasks of c first.
        ((3, 4), [spec("a", 0), spec("b", 2, 2), spec("c", 1, 2, on="n1")], "abc"),
        ((3, 4), [spec("a"), spec("b", 0, on="n2"), spec("c", 1, 2, on="n1"), spec("d", 3)], "abcd"),
    ],
)
def test_together_on_other_nodes(sizes: tuple[int, ...], specs: list[dict[str, Any]], fit: str) -> None:
    found = preflight("s", specs, Listed(nodes(*sizes), [], [], None), "gpu-swarm.")["explained"]
    assert "".join(one["service"] for one in found if one["fits"]) == fit


@pytest.mark.parametrize(("wanted", "fit"), [(1, "ab"), (2, "a")])
def test_gpus_that_are_counted_are_taken_from_each_other(wanted: int, fit: str) -> None:
    listed = Listed([node("n1", resources=discrete(2, "NVIDIA-GPU"))], [], [], None)
    found = preflight("s", [spec("a", wanted), spec("b", 1)], listed, "gpu-swarm.")["explained"]
    assert "".join(one["service"] for one in found if one["fits"]) == fit


def test_what_has_no_room_beside_the_others_says_how_much_there_is_and_where() -> None:
    listed = Listed(TWO_AND_ONE, [], [], None)
    (_a, b) = preflight("s", [spec("a", 2), spec("b", 1, 3)], listed, "gpu-swarm.")["explained"]
    assert (b["fits"], b["feasible"], b["room"]) == (False, ["n2"], 1)
    assert "there is room for 1 of 3 tasks" in b["text"]


# -- a stack that is deployed -----------------------------------------------------------------------------------------


def deployed(*specs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return services of the stack. The id of a service is its name."""
    return [{"ID": one["Name"], "Spec": {**one, "Labels": {on_swarm.NAMESPACE: "s"}}} for one in specs]


def running(name: str, *cards: str, slot: int = 1) -> dict[str, Any]:
    """Return a task with these cards, such as GPU-1-0 of the node n1."""
    return task(f"{name}.{slot}", f"n{cards[0][4]}", given=named(*cards), service=name, slot=slot, reserves={"NVIDIA-GPU": len(cards)})


ALL_BY_A = [running("a", "GPU-1-0"), running("a", "GPU-1-1", slot=2), running("a", "GPU-2-0", slot=3)]
START_FIRST = {"UpdateConfig": {"Order": "start-first"}}


@pytest.mark.parametrize(
    ("before", "tasks", "after", "prune", "fit"),
    [
        # a has fewer tasks than before. Nobody knows which of them end, so b may get any card.
        ([spec("a", 1, 3)], ALL_BY_A, [spec("a"), spec("b", 2, on="n1")], False, "ab"),
        ([spec("a", 1, 3)], ALL_BY_A, [spec("a", 1, 3), spec("b", 2, on="n1")], False, "a"),
        # The old tasks of a end before the new tasks of a start.
        ([spec("a", 1, 3)], ALL_BY_A, [spec("a", 2)], False, "a"),
        # A service that is no longer in the file keeps its cards, unless the service is pruned.
        ([spec("a", 1, 3)], ALL_BY_A, [spec("b")], False, ""),
        ([spec("a", 1, 3)], ALL_BY_A, [spec("b")], True, "b"),
        # Pruning c does not move the other services of the stack.
        ([spec("a"), spec("c", 2)], [running("a", "GPU-2-0"), running("c", "GPU-1-0", "GPU-1-1")], [spec("a"), spec("b", 2)], True, "ab"),
        ([spec("a"), spec("c", 2)], [running("a", "GPU-2-0"), running("c", "GPU-1-0", "GPU-1-1")], [spec("a"), spec("b", 2)], False, "a"),
        ([spec("a"), spec("c", 2)], [running("a", "GPU-2-0"), running("c", "GPU-1-0", "GPU-1-1")], [spec("a"), spec("b", 3)], True, "a"),
    ],
)  # fmt: skip
def test_beside_what_runs(before: Any, tasks: Any, after: Any, prune: bool, fit: str) -> None:
    found = preflight("s", after, Listed(TWO_AND_ONE, tasks, deployed(*before), None), "gpu-swarm.", prune)["explained"]
    assert "".join(one["service"] for one in found if one["fits"]) == fit


@pytest.mark.parametrize(
    ("before", "tasks", "after", "keeps_tasks", "overlaps"),
    [
        ([], [], spec("a"), False, False),
        ([], [], spec("a", 1, 0), False, False),
        ([spec("a")], [running("a", "GPU-1-0")], spec("a"), True, False),
        # The service has one more task than before, which needs a place.
        ([spec("a")], [running("a", "GPU-1-0")], spec("a", 1, 2), False, False),
        ([spec("a")], [running("a", "GPU-1-0")], spec("a", 2), False, False),
        ([spec("a")], [running("a", "GPU-1-0")], {**spec("a", 2), **START_FIRST}, False, True),
        ([spec("a")], [running("a", "GPU-1-0")], {**spec("a"), **START_FIRST}, True, False),
        # No task of the service runs yet.
        ([spec("a")], [], {**spec("a", 2), **START_FIRST}, False, False),
    ],
)  # fmt: skip
def test_whether_its_tasks_stay_or_run_beside_the_new_ones(before: Any, tasks: Any, after: Any, keeps_tasks: bool, overlaps: bool) -> None:
    (found,) = preflight("s", [after], Listed(TWO_AND_ONE, tasks, deployed(*before), None), "gpu-swarm.")["explained"]
    assert (found["keeps_tasks"], found["overlaps"]) == (keeps_tasks, overlaps)


def test_a_service_is_said_to_fit_wherever_it_could_be() -> None:
    """Nobody knows on which nodes Swarm will place the other services of the stack."""
    listed = Listed(TWO_AND_ONE, [], [], None)
    (a, _b) = preflight("s", [spec("a", 1), spec("b", 2)], listed, "gpu-swarm.")["explained"]
    assert a["feasible"] == ["n1", "n2"]


@pytest.mark.parametrize(("wanted", "fit", "rivals"), [(1, ["a", "b"], ["a"]), (2, ["b"], [])])
def test_what_takes_all_leaves_nothing_for_another(wanted: int, fit: list[str], rivals: list[str]) -> None:
    """Service a reserves 0 of a named kind, so it gets all free GPUs of its node. Both fit only if Swarm places b first and b leaves one GPU."""
    greedy = spec("a", 0)
    greedy["TaskTemplate"]["Resources"]["Reservations"] = {"GenericResources": [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU"}}]}
    listed = Listed(TWO_AND_ONE[:1], [], [], None)
    found = {one["service"]: one for one in preflight("s", [greedy, spec("b", wanted)], listed, "gpu-swarm.")["explained"]}
    assert [name for name, one in found.items() if one["fits"]] == fit
    assert fit != ["a", "b"] or found["b"]["rivals"] == rivals


def test_a_stack_without_services() -> None:
    assert preflight("s", [], Listed(TWO_AND_ONE, [], [], None), "gpu-swarm.")["explained"] == []
