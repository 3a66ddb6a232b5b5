# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what managers know about a node, with any label prefix. The swarm records the prefix. A node without labels reports its GPUs itself."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.module_utils._health.label import LEFT_OUT, Label, format_label
from plugins.module_utils._ledger import node_labels
from plugins.module_utils._ledger.health import reported
from plugins.module_utils._ledger.unreserved import has_gpus
from plugins.module_utils._metrics.node_metrics import of_nodes
from plugins.module_utils._policy.labels import Options
from plugins.module_utils._policy.labels import node_labels as made_of
from plugins.module_utils._swarm import owned_labels
from plugins.module_utils._view.status import status
from plugins.plugin_utils._stack.image_requirement import facts_of

UUID = "GPU-00000000-1111-2222-3333-444444444444"
T4 = {"index": 0, "uuid": UUID, "model": "Tesla-T4", "memory_mib": 15360, "compute_capability": "7.5", "architecture": "turing", "mig": None}
PREFIXES = ["gpu.", "acme.gpu.", "x-", "counter"]


def written(prefix: str, failed: bool = False, **others: str) -> dict[str, str]:
    """Return the labels of a node with a T4 after a run. ``others`` are labels of other users."""
    wanted = {**made_of([T4], "580.95.05", "13.0", failed, Options(prefix=prefix)), "cpu.microarchitecture": "zen3"}
    return owned_labels.compute(others, wanted, owned_labels.PREFIX)[0]


def record(labels: dict[str, str], report: Label | None = None, kind: str = "NVIDIA-GPU") -> dict[str, Any]:
    """Return a node of the ledger."""
    engine = {"Labels": {"fleet.gpu-swarm.health": format_label(report)}} if report else {}
    entry = {"type": "named", "total": 1, "values": [UUID], "free": [UUID], "held": []}
    memory = {"type": "discrete", "total": 16, "values": None, "free": 16, "held": []}
    return {
        "id": "n1", "hostname": "g1", "labels": labels, "health": reported({"Description": {"Engine": engine}, "Spec": {}}, owned_labels.PREFIX),
        "resources": {kind: memory if kind == "VRAM" else entry}, "tasks": [], "state": "ready", "availability": "active", "role": "worker",
        "set_by_run": False, "engine_version": "29.7.0", "unchanged_for": 60.0, "set_at": None, "message": "", "leader": False,
    }  # fmt: skip


def display_values(one: dict[str, Any]) -> tuple[str, str, str]:
    """Return the model from ``status``, the model from the metrics, and the report about the node from ``status``."""
    ledger = {"nodes": [one], "kinds": {}, "held_twice": [], "on_gpu_nodes": [], "swarm": {}, "pools": {}, "finished_jobs": []}
    metrics = next(sample for sample in of_nodes(ledger, 0.0, {}) if sample.metric.name == "gpu_swarm_node_info")
    found = status(ledger)
    return found["totals"][0]["model"], metrics.labels[3], found["nodes"][0]["why"]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("others", [{}, {"gpu.count": "9", "gpu.healthy": "false", "gpu.model": "of-another-tool"}], ids=["alone", "beside others"])
def test_the_prefix_comes_from_the_record_of_a_run(prefix, others):
    if prefix == "gpu.":
        others = {"rack.count": "7", "rack.model": "R3"}
    labels = written(prefix, **others)
    assert (node_labels.prefixes(labels), node_labels.prefix_of(labels), node_labels.is_labelled(labels)) == ({prefix}, prefix, True)
    assert node_labels.about_gpus(labels)["model"] == "Tesla-T4"
    assert display_values(record(labels)) == ("Tesla-T4", "Tesla-T4", "")
    assert facts_of(labels) == {"cuda": "13.0", "driver": "580.95.05", "arch": "7.5"}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_an_excluded_gpu_is_shown(prefix):
    assert display_values(record(written(prefix, failed=True)))[2] == "a GPU is excluded"
    assert not node_labels.is_excluded(record(written(prefix)))


def test_handwritten_labels_count_only_with_the_default_prefix():
    by_hand = {"gpu.count": "1", "gpu.model": "Tesla-T4"}
    assert node_labels.model_of(record(by_hand)) == "Tesla-T4"
    assert not node_labels.is_labelled({"rack.count": "7", "rack.healthy": "true"})
    assert node_labels.model_of(record({"rack.count": "7", "rack.healthy": "true", "rack.model": "R3"})) == ""


@pytest.mark.parametrize(("cpu", "key"), [("cpu.", "cpu.microarchitecture"), ("acme.", "acme.microarchitecture")])
def test_the_cpu_has_its_own_prefix(cpu, key):
    labels = owned_labels.compute({}, {key: "zen3", "x.count": "1", "x.healthy": "true"}, owned_labels.PREFIX)[0]
    assert node_labels.about_cpu(labels)["microarchitecture"] == "zen3"
    assert node_labels.about_gpus(labels)["count"] == "1"


WITHOUT = written("")


@pytest.mark.parametrize(
    ("report", "model", "why", "left_out"),
    [
        (Label("ok", model="Tesla-T4"), "Tesla-T4", "", False),
        (Label("warning", UUID[:-1] + "5", "failed", model="mixed"), "mixed", f"warning {UUID[:-1]}5 failed; a GPU is excluded", True),
        (Label("warning", UUID, "degraded", model="Tesla-T4"), "Tesla-T4", f"warning {UUID} degraded", False),
        (Label("fault", UUID, "failed", model="Tesla-T4"), "Tesla-T4", f"fault {UUID} failed", False),
        (Label("ok"), "", "", False),
        (None, "", "", False),
    ],
    ids=["healthy", "a GPU is excluded", "degraded", "faulty", "of an older release", "unwatched"],
)
def test_without_labels_the_node_reports_model_and_health(report, model, why, left_out):
    assert not [key for key in WITHOUT if not key.startswith(("cpu.", "gpu-swarm."))]
    one = record(WITHOUT, report)
    assert display_values(one) == (model, model, why)
    assert node_labels.is_excluded(one) is left_out


def test_without_gpu_labels_a_run_still_records_excluded_gpus():
    one = record({**WITHOUT, LEFT_OUT: f"ok {UUID} reason=failed"}, Label("ok", model="Tesla-T4"))
    assert node_labels.is_excluded(one)


def test_labels_override_the_report_of_a_node():
    """The report is only a claim of the node. A manager wrote the label."""
    one = record(written("acme."), Label("warning", UUID[:-1] + "5", "failed", model="NVIDIA-H100"))
    assert (node_labels.model_of(one), node_labels.is_excluded(one)) == ("Tesla-T4", False)


@pytest.mark.parametrize(
    ("labels", "report", "found"),
    [(WITHOUT, Label("ok", model="Tesla-T4"), True), (written("acme."), None, True), (WITHOUT, Label("ok"), False), (WITHOUT, None, False)],
    ids=["reported", "labelled", "reported without a model", "neither"],
)
def test_a_node_whose_gpus_are_advertised_by_memory_has_gpus(labels, report, found):
    assert has_gpus(record(labels, report, kind="VRAM")) is found
