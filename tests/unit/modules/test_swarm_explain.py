# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""With a directory, swarm_explain writes the metrics of the whole swarm, even if it explains only some services."""

from __future__ import annotations

import pytest
from queue_fleet import QueueManager
from swarm_api import A, named, node, pending, service

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_explain as module


class FakeManager:
    swarm_id, node_id, autolocked, spec, time = "c1", "n1", False, {}, "2026-11-20T13:00:00.5Z"

    def nodes(self):
        return [node(resources=named(A))]

    def tasks(self):
        return iter([pending("t1", {"NVIDIA-GPU": 2}, service="s1"), pending("t2", {"NVIDIA-GPU": 3}, service="s2")])

    def services(self):
        return [service("s1", "train", reserves={"NVIDIA-GPU": 2}), service("s2", "sweep", reserves={"NVIDIA-GPU": 3})]


@pytest.fixture
def run(monkeypatch):
    def call(directory=None, services=("*",), check_mode=False, manager=FakeManager):
        monkeypatch.setattr(module, "connect", lambda params: manager())
        params = {"prefix": "gpu-swarm.", "services": list(services), "textfile_directory": directory and str(directory)}
        params["owner_label"] = "owner"
        return module.run(params, check_mode)

    return call


def explained(result):
    return [one["service"] for one in result["explained"]]


def test_owners_by_a_label_of_services(run, monkeypatch):
    owned, empty = service("s1", "train"), service("s2", "sweep")
    owned["Spec"]["Labels"], empty["Spec"]["Labels"] = {"owner": "alice"}, {"owner": ""}
    monkeypatch.setattr(FakeManager, "services", lambda self: [owned, empty, service("s3", "web")])
    assert run()["owners"] == {"train": "alice"}


def test_without_a_directory_it_only_reads(run):
    result = run()
    assert (result["changed"], "textfile" in result) == (False, False)


@pytest.mark.parametrize(("services", "shown"), [(["*"], ["sweep", "train"]), (["train"], ["train"]), (["s2"], ["sweep"]), (["gone"], [])])
def test_the_file_has_everything_and_the_result_only_the_wanted_services(run, tmp_path, services, shown):
    result = run(tmp_path, services)
    assert (result["changed"], result["textfile"]) == (True, str(tmp_path / "gpu-swarm.prom"))
    assert explained(result) == shown
    written = (tmp_path / "gpu-swarm.prom").read_text()
    assert [name for name in ("train", "sweep") if 'pending_possible{service="%s"} 0' % name in written] == ["train", "sweep"]


def test_in_check_mode_nothing_is_written(run, tmp_path):
    result = run(tmp_path, check_mode=True)
    assert (result["changed"], list(tmp_path.iterdir())) == (True, [])


def test_if_the_file_cannot_be_written_the_ledger_is_still_returned(run, tmp_path):
    with pytest.raises(GpuSwarmError, match="none/gpu-swarm.prom: No such file or directory. Create it") as caught:
        run(tmp_path / "none")
    assert (caught.value.details["changed"], len(caught.value.details["nodes"])) == (False, 1)


def test_queues_are_returned_with_the_work_that_somebody_asks_for(run, tmp_path):
    assert run()["queue"] is None
    work = run(manager=QueueManager)["queue"]["work"]
    assert [row["service"] for row in work if row["state"] == "over"] == []
    assert run(services=["stopped"], manager=QueueManager)["queue"]["work"][-1]["service"] == "stopped"
    assert run(tmp_path, manager=QueueManager)["queue"]["work"] == work
    assert 'gpu_swarm_queue_waiting{queue="research",reason="cap"} 3' in (tmp_path / "gpu-swarm.prom").read_text()
