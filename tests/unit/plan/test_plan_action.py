# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action returns steps and shows tables."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.plugins.action import ActionBase
from fleet_lab import assessed, ledger, member, task
from host_vars import HostVars

from ansible_collections.fleet.gpu_swarm.plugins.action.provision_plan import ActionModule
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import Removal, Step
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.values import FOR_STEPS, FOR_TASKS

SERVICES = [task("web.1", "web"), task("gone.1", "a337e469")]


def run(monkeypatch, state, columns=200, **settings):
    args = {
        "hosts": ["gpu-1"],
        "reads": False,
        "ledger": ledger(member("n1", tasks=SERVICES), member("m", role="manager")),
        "evicted": [],
        "state": state,
        "contents": None,
        "maintain": None,
    }
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(ActionBase, "validate_argument_spec", lambda self, argument_spec: (None, args))
    action, shown = ActionModule.__new__(ActionModule), []
    action._task = SimpleNamespace(check_mode=False)
    action._templar = SimpleNamespace(template=lambda value: value)
    action._display = SimpleNamespace(display=shown.append, columns=columns)
    groups = {"gpu_nodes": ["gpu-1"], "swarm_managers": ["m1"], "all": ["gpu-1", "m1"]}
    containers = [("web.1", "web"), ("gone.1", "gone")]
    found = assessed("n1", containers=containers, restart_required=True, drift=["x"], labels={})
    of_host = {"gpu_node_assessed": found, "group_names": ["gpu_nodes"], **settings}
    task_vars = {
        "inventory_hostname": "gpu-1",
        "groups": groups,
        "hostvars": HostVars({"gpu-1": of_host, "m1": {}}),
        "ansible_play_hosts": ["gpu-1"],
        "gpu_swarm_manager_answers": {"results": [{"item": "m1", "swarm": {**found["swarm"], "control_available": True}}]},
    }
    return action.run(task_vars=task_vars), "".join(shown)


@pytest.mark.parametrize(("state", "rooms"), [("absent", None), ("present", {"web": {"running": 1, "pending": 0}})])
def test_leaving_nodes_take_their_room_with_them(monkeypatch, state, rooms):
    """No batch waits until moved services have room elsewhere. Such waits cost minutes for each service that fits nowhere else."""
    found, _text = run(monkeypatch, state)
    assert found["steps"]["gpu-1"]["error"] is None
    assert (found["rooms"] and {"web": found["rooms"]["web"]}) == rooms


@pytest.mark.parametrize("state", ["absent", "present"])
def test_the_impact_shows_no_id_of_a_service(monkeypatch, state):
    """The manager knows a removed service only by its id. The container of the service has a name."""
    _found, text = run(monkeypatch, state)
    assert "moves service web, service gone (removed)" in text
    assert "a337e469" not in text


@pytest.mark.parametrize("state", ["absent", "present"])
@pytest.mark.parametrize("columns", [45, 79])
def test_the_impact_fits_the_terminal_or_columns(monkeypatch, state, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    _found, text = run(monkeypatch, state, columns)
    assert max(map(len, text.splitlines())) <= columns
    monkeypatch.setenv("COLUMNS", "300")
    _found, text = run(monkeypatch, state, columns)
    assert max(map(len, text.splitlines())) > columns


def test_queues_are_shown_and_written_by_a_run_that_has_the_setting(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    queues = {"research": {"weight": 3}, "nightly": None}
    change = {"queues": {"nightly": {}, "research": {"weight": 3}}}
    found, text = run(monkeypatch, "present", gpu_swarm_queues=queues)
    assert "The queues of the swarm change: nightly is new (with the defaults); research is new (weight: 3)." in text
    assert found["queues"] == {"wanted": change["queues"], "change": change}
    assert found["swarm_labels"]["gpu-swarm.queues"] == '{"nightly":{},"research":{"weight":3}}'
    for state, settings in (("absent", {"gpu_swarm_queues": queues}), ("present", {})):
        found, text = run(monkeypatch, state, **settings)
        assert found["queues"] == {"wanted": None, "change": {}}
        assert "queues" not in text


TASKS = [path for path in (Path(__file__).parents[3] / "playbooks").rglob("*.yml") if "steps[inventory_hostname]" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.name)
def test_the_tasks_read_fields_that_a_step_has(path):
    """Tasks read steps as plain data. Ansible reports a misspelt field only when a host reaches the task."""
    fields = asdict(Step(settings=dict.fromkeys(FOR_TASKS + FOR_STEPS, ""), removal=Removal()))
    read = re.findall(r"(?:\.steps\[inventory_hostname\]|_gpu_swarm_host_step)((?:\.\w+)+)", path.read_text(encoding="utf-8"))
    assert read
    for names in read:
        found = fields
        for name in names.strip(".").split("."):
            assert name in found, names
            found = found[name]
