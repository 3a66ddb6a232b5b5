# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An update with order: start-first. Swarm starts new tasks beside the old tasks. When a new task runs, swarm ends an old task."""

from __future__ import annotations

from typing import Any

import pytest
from swarm_api import named, node, pending, task

from plugins.module_utils._deployment import stack as on_swarm
from plugins.module_utils._deployment.preflight import preflight
from plugins.module_utils._ledger.listed import Listed

KIND = "NVIDIA-GPU"


def spec(gpus: int = 1, replicas: int | None = 4, order: str = "start-first", at_once: int = 1, **more: Any) -> dict[str, Any]:
    """Return a service whose tasks are replaced. If ``replicas`` is None, the service is global."""
    reservations = {"GenericResources": [{"DiscreteResourceSpec": {"Kind": KIND, "Value": gpus}}]}
    port = [{"Protocol": "tcp", "PublishedPort": more["port"], "PublishMode": "host"}] if more.get("port") else []
    return {
        "Name": "s_a",
        "Labels": {on_swarm.NAMESPACE: "s"},
        "Mode": {"Global": {}} if replicas is None else {"Replicated": {"Replicas": replicas}},
        "EndpointSpec": {"Ports": port},
        "UpdateConfig": {"Order": order, "Parallelism": at_once},
        "TaskTemplate": {
            "Resources": {"Reservations": reservations},
            "Placement": {"Constraints": more.get("constraints", []), "MaxReplicas": more.get("most", 0)},
            "ForceUpdate": more.get("force", 1),
        },
    }


def nodes(*sizes: int) -> list[dict[str, Any]]:
    """Return n1, n2, … with this many GPUs."""
    return [node(f"n{place}", resources=named(*(f"GPU-{place}-{card}" for card in range(size)))) for place, size in enumerate(sizes, 1)]


def running(before: dict[str, Any], *on: str) -> list[dict[str, Any]]:
    """Return a task of the service on each of these nodes."""
    amount = before["TaskTemplate"]["Resources"]["Reservations"]["GenericResources"][0]["DiscreteResourceSpec"]["Value"]
    taken = dict.fromkeys(on, 0)
    made = []
    for slot, name in enumerate(on, 1):
        cards = [f"GPU-{name[1:]}-{taken[name] + card}" for card in range(amount)]
        taken[name] += amount
        numbered = None if "Global" in before["Mode"] else slot
        found = task(f"t{slot}", name, given=named(*cards), service="own", slot=numbered, reserves={KIND: amount})
        found["Status"]["PortStatus"] = {"Ports": before["EndpointSpec"]["Ports"]}
        made.append(found)
    return made


def judged(before: dict[str, Any], after: dict[str, Any], on: list[str], fleet: list[dict[str, Any]], more: Any = ()) -> dict[str, Any]:
    listed = Listed(fleet, [*running(before, *on), *more], [{"ID": "own", "Spec": before}], None)
    (found,) = preflight("s", [after], listed, "gpu-swarm.")["explained"]
    return found


FULL = ["n1", "n1", "n2", "n2"]


@pytest.mark.parametrize(
    ("before", "after", "on", "sizes", "fits"),
    [
        # One free place is enough for any parallelism, because swarm ends an old task for each new task that runs.
        ({}, {}, FULL, (2, 2), False),
        ({}, {}, FULL, (2, 3), True),
        ({}, {"at_once": 2}, FULL, (2, 3), True),
        ({}, {"at_once": 0}, FULL, (2, 3), True),
        ({}, {"at_once": 0}, FULL, (2, 2), False),
        ({}, {"order": "stop-first"}, FULL, (2, 2), True),
        # No task is replaced.
        ({}, {"force": 0}, FULL, (2, 2), True),
        # More replicas need room as well.
        ({}, {"replicas": 5}, FULL, (2, 3), False),
        ({}, {"replicas": 5}, FULL, (2, 4), True),
        # With fewer replicas, some old tasks end at once and make room.
        ({}, {"replicas": 3}, FULL, (2, 2), True),
        ({}, {"replicas": 0}, FULL, (2, 2), True),
        # A place is useless if it becomes free on a node where no new task may run.
        ({}, {"constraints": ["node.id==n2"]}, FULL, (2, 4), False),
        ({}, {"constraints": ["node.id==n2"]}, FULL, (2, 5), True),
        # Swarm chooses the tasks that end. If both tasks on n1 end, the first new task needs room beside the tasks on n2.
        ({}, {"constraints": ["node.id==n2"], "replicas": 2}, FULL, (2, 2), False),
        ({}, {"constraints": ["node.id==n2"], "replicas": 2}, FULL, (2, 3), True),
        ({}, {"constraints": ["node.id==n3"]}, FULL, (2, 2, 3), False),
        ({}, {"constraints": ["node.id==n3"]}, FULL, (2, 2, 4), True),
        # A larger reservation does not fit in place of a smaller one.
        ({}, {"gpus": 2}, FULL, (4, 4), False),
        ({}, {"gpus": 2}, FULL, (6, 6), True),
        ({"gpus": 2}, {"gpus": 1}, FULL, (4, 4), False),
        ({"gpus": 2}, {"gpus": 1}, FULL, (4, 5), True),
        # The old tasks count as replicas on their node, and use the node's port.
        ({"most": 2}, {"most": 2}, FULL, (9, 9), False),
        ({"most": 2}, {"most": 2}, FULL, (9, 9, 1), True),
        ({"most": 2}, {"most": 3}, FULL, (9, 9), True),
        ({"port": 80}, {"port": 80}, ["n1", "n2"], (9, 9), False),
        ({"port": 80}, {"port": 80, "replicas": 2}, ["n1", "n2"], (9, 9, 1), True),
        ({"port": 80}, {"port": 81, "replicas": 2}, ["n1", "n2"], (9, 9), True),
        # On each node, the new task of a global service needs room beside the old task.
        ({"replicas": None}, {"replicas": None}, ["n1", "n2"], (2, 1), False),
        ({"replicas": None}, {"replicas": None}, ["n1", "n2"], (2, 2), True),
        ({"replicas": None}, {"replicas": None, "order": "stop-first"}, ["n1", "n2"], (1, 1), True),
        ({"replicas": None, "port": 80}, {"replicas": None, "port": 80}, ["n1", "n2"], (2, 2), False),
        ({"replicas": None}, {"replicas": None, "constraints": ["node.id==n1"]}, ["n1", "n2"], (2, 1), True),
    ],
)  # fmt: skip
def test_new_tasks_fit_beside_the_old_ones(before: Any, after: Any, on: list[str], sizes: tuple[int, ...], fits: bool) -> None:
    found = judged(spec(**{"replicas": len(on), **before}), spec(**{"replicas": len(on), **after}), on, nodes(*sizes))
    assert found["fits"] is fits, found["text"]
    assert found["possible"]


def test_the_error_says_why_it_does_not_fit_and_what_to_write() -> None:
    found = judged(spec(), spec(), FULL, nodes(2, 2))
    assert found["text"].startswith("needs 1 NVIDIA-GPU on one node: host-n1 has 0 NVIDIA-GPU free")
    assert "its 4 tasks stop only when new ones run (update_config: order: start-first)" in found["text"]
    assert found["text"].endswith("there is room for 0 more beside them, and 1 is needed; with order: stop-first, 0 are needed")
    grown = judged(spec(), spec(gpus=2), FULL, nodes(4, 4))
    assert grown["text"].endswith("because the new tasks reserve more, all 4 need room beside them, and there is room for 2")
    everywhere = judged(spec(replicas=None), spec(replicas=None), ["n1", "n2"], nodes(1, 1))
    assert "its tasks stop only when new ones run" in everywhere["text"]


def test_a_hung_update_can_be_corrected() -> None:
    """After the update is corrected, a task that waits beside its own old task does not need room."""
    stuck = pending("t9", service="own", slot=1, reserves={KIND: 1}, desired="running")
    found = judged(spec(), spec(order="stop-first"), FULL, nodes(2, 2), [stuck])
    assert (found["fits"], found["keeps_tasks"], found["needed"]) == (True, True, 0)
    # A task that replaces no other task still needs room.
    alone = dict(stuck, Slot=5)
    found = judged(spec(replicas=5), spec(replicas=5, order="stop-first"), FULL, nodes(2, 2), [alone])
    assert (found["fits"], found["needed"]) == (False, 1)
    everywhere = dict(pending("t9", service="own", slot=None, reserves={KIND: 1}), NodeID="n1")
    found = judged(spec(replicas=None), spec(replicas=None, order="stop-first"), ["n1", "n2"], nodes(1, 1), [everywhere])
    assert (found["fits"], found["keeps_tasks"]) == (True, True)


def test_room_that_another_service_of_the_stack_takes_does_not_count() -> None:
    other = dict(spec(replicas=1), Name="s_b")
    listed = Listed(nodes(2, 3), running(spec(), *FULL), [{"ID": "own", "Spec": spec()}], None)
    found = {one["service"]: one["fits"] for one in preflight("s", [spec(), other], listed, "gpu-swarm.")["explained"]}
    assert sorted(found.values()) == [False, True]
    listed = listed._replace(nodes=nodes(3, 3))
    assert all(one["fits"] for one in preflight("s", [spec(), other], listed, "gpu-swarm.")["explained"])
