# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes pull an image before an update, and what the task of such a pull means."""

from __future__ import annotations

from typing import Any

import pytest
from pulling_swarm import DIGEST, NEXT, PULLED
from swarm_api import named, node, service, task

from plugins.module_utils._deployment import pulls
from plugins.module_utils._guard import admission
from plugins.module_utils._ledger.ledger import ledger
from plugins.module_utils._ledger.listed import Listed

OLD, NEW = f"reg/web:2@{DIGEST}", f"reg/web:2@{NEXT}"
FLEET = [node(name, resources=named("GPU-" + name)) for name in ("n1", "n2", "n3", "n4")]


def running(*node_ids: str, image: str = OLD, **options: Any) -> list[dict[str, Any]]:
    tasks = [task(f"t{slot}", node_id, service="s1", slot=slot, **options) for slot, node_id in enumerate(node_ids, 1)]
    for one in tasks:
        one["Spec"]["ContainerSpec"]["Image"] = image
    return tasks


def planned(tasks: Any = (), mode: Any = None, feasible: Any = (), nodes: Any = None, image: str = NEW) -> list[str]:
    """Return the nodes that pull the new image of the service s_web."""
    spec = {"Name": "s_web", "Mode": mode or {"Replicated": {"Replicas": 2}}}
    listed = Listed(nodes or FLEET, tasks, [service("s1", "s_web")] if tasks else [])
    plan = pulls.plan({"s_web": image}, [spec], [{"service": "s_web", "feasible": list(feasible)}], listed)
    assert {pull["image"] for pull in plan["pulls"]} <= {image}
    assert all(pull["hostname"] == f"host-{pull['node']}" for pull in plan["pulls"])
    return [pull["node"] for pull in plan["pulls"]]


def test_nodes_whose_tasks_are_replaced_pull() -> None:
    assert planned(running("n1", "n2"), feasible=["n3", "n4"]) == ["n1", "n2"]
    assert planned(running("n1", "n1"), feasible=["n3", "n4"]) == ["n1"]


def test_as_many_more_nodes_pull_as_replicas_are_new() -> None:
    assert planned(running("n1", "n2"), {"Replicated": {"Replicas": 3}}, feasible=["n2", "n3", "n4"]) == ["n1", "n2", "n3"]
    assert planned(mode={"Replicated": {"Replicas": 3}}, feasible=["n1", "n2"]) == ["n1", "n2"]
    assert planned(mode={"Global": {}}, feasible=["n1", "n2", "n4"]) == ["n1", "n2", "n4"]
    assert planned(mode={"ReplicatedJob": {"TotalCompletions": 9, "MaxConcurrent": 2}}, feasible=["n1", "n2", "n4"]) == ["n1", "n2"]
    assert planned(mode={"Replicated": {"Replicas": 0}}, feasible=["n1"]) == []


@pytest.mark.parametrize("closed", [{"state": "down"}, {"availability": "drain"}, {"availability": "pause"}])
def test_a_node_that_takes_no_tasks_pulls_nothing(closed: dict[str, str]) -> None:
    shut = node("n1", availability=closed.get("availability", "active"), State=closed.get("state", "ready"))
    assert planned(running("n1", "n2"), feasible=["n3"], nodes=[shut, *FLEET[1:]]) == ["n2", "n3"]


def test_a_digest_that_a_node_runs_is_not_pulled_again() -> None:
    assert planned(running("n1", "n2"), image=OLD) == []
    assert planned(running("n1", "n2", image=NEW), feasible=["n3"]) == []
    assert planned([*running("n1"), *running("n2", image=NEW)], feasible=["n3"]) == ["n1"]
    # A task that does not run may still pull.
    assert planned(running("n1", image=NEW, state="preparing"), {"Replicated": {"Replicas": 1}}) == ["n1"]
    # An image without a digest says nothing.
    assert planned(running("n1", image="reg/web:2"), {"Replicated": {"Replicas": 1}}) == ["n1"]


def test_tasks_that_ended_or_end_now_do_not_count() -> None:
    ended = running("n1", state="failed") + running("n2", desired="shutdown")
    assert planned(ended, {"Replicated": {"Replicas": 1}}, feasible=["n4"]) == ["n4"]


def test_the_service_starts_nothing_and_reserves_nothing() -> None:
    spec = pulls.service("s" * 40, "n1", NEW)
    template = spec["TaskTemplate"]
    assert len(spec["Name"]) <= 63
    assert "Resources" not in template
    assert template["ContainerSpec"]["Env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert (template["RestartPolicy"], template["Placement"]) == ({"Condition": "none"}, {"Constraints": ["node.id==n1"]})
    names = {pulls.service("s", node_id, image)["Name"] for node_id in ("n1", "n2") for image in (OLD, NEW)}
    assert len(names) == 4


def test_the_guard_neither_refuses_nor_counts_a_pull() -> None:
    """The image requests all GPUs, as CUDA images do. The variable of the service comes last."""
    own = pulls.service("s", "n1", NEW)["TaskTemplate"]["ContainerSpec"]["Env"]
    labels = {admission.TASK: "t1", admission.SERVICE: "gpu-swarm-pull-s-1234567"}
    record = admission.Container(labels, ["CUDA_VERSION=13", *own], (), _Record())
    for level in ("reserved", "exclusive", "audit"):
        verdict = admission.decide(admission.Settings(level, devices=["GPU-a"], kinds=["NVIDIA-GPU"]), record)
        assert (verdict.refused, verdict.found, tuple(verdict.devices or ())) == (None, {}, ())
    without = record._replace(entries=["CUDA_VERSION=13"])
    assert admission.HIDDEN in admission.decide(admission.Settings("reserved", devices=["GPU-a"], kinds=["NVIDIA-GPU"]), without).found


class _Record:
    named, amounts, environment = (), (), ("NVIDIA_VISIBLE_DEVICES=void",)


def test_a_pull_is_no_work_of_a_user() -> None:
    spec = pulls.service("s", "n1", NEW)
    made = {"ID": "p1", "Spec": spec}
    listed = Listed(FLEET, [task("a", "n1", service="p1", state="preparing", restart="none")], [made])
    assert ledger(listed, "gpu-swarm.")["on_gpu_nodes"] == []
    waits = Listed(FLEET, [task("a", None, service="p1", state="pending", restart="none", error="no suitable node")], [made])
    found = ledger(waits, "gpu-swarm.", ["*"])
    assert (found["pending"], found["explained"]) == ([], [])
    found = ledger(waits._replace(services=[{"ID": "p1", "Spec": {**spec, "Name": "of-a-user"}}]), "gpu-swarm.", ["*"])
    assert [row["service"] for row in found["pending"]] == ["of-a-user"]


@pytest.mark.parametrize(
    ("state", "desired", "error", "container", "expected"),
    [
        ("preparing", "running", "", "", ("pulling", "")),
        ("ready", "running", "", "", ("pulling", "")),
        ("pending", "running", "no suitable node", "", ("pulling", "no suitable node")),
        ("failed", "shutdown", "starting container failed: x", "c1", (PULLED, "")),
        ("starting", "running", "", "c1", (PULLED, "")),
        ("rejected", "shutdown", "write /x: no space left on device.", "", ("failed", "write /x: no space left on device")),
        ("preparing", "shutdown", "", "", ("failed", pulls.NODE_GONE)),
        ("orphaned", "shutdown", "", "", ("failed", "started")),
    ],
)
def test_the_task_says_whether_the_node_has_the_image(state: str, desired: str, error: str, container: str, expected: tuple[str, str]) -> None:
    made = task("a", "n1", state=state, desired=desired, error=error)
    made["Status"]["ContainerStatus"] = {"ContainerID": container} if container else None
    assert pulls.outcome(made) == expected


def test_a_pull_that_failed_says_where_the_reason_is() -> None:
    """The agent reports only that there is no such image."""
    state, reason = pulls.outcome(task("a", "n1", state="rejected", desired="shutdown", error=f"No such image: {NEW}"))
    assert (state, reason.startswith(f"No such image: {NEW}. On the node, 'journalctl -u docker' says why")) == ("failed", True)
    assert pulls.outcome(None) == ("pulling", "")
