# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger goes along with the assessment of the first manager, and with no other."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from fleet_lab import assessed
from host_vars import HostVars

from ansible_collections.fleet.gpu_swarm.plugins.action.gpu_node import ASSESS, READS_LEDGER, ROLE_TASK, WARNS_LATER, ActionModule

LEDGER = {"changed": False, "nodes": [{"id": "n1"}], "pending": [], "ansible_facts": {"verify_image": "theirs"}}
MANAGER = {"state": "active", "node_id": "n1", "control_available": True, "error": "", "managers": []}


def run(monkeypatch, host="m1", args=None, ledger=None, reads=True, settings=None, execute=None, verbosity=None, shown=(), own=(), **answer):
    """(the result, the arguments of each module that was run); with a verbosity as where a plan follows; ``shown`` stands for parts of an answer,
    ``own`` for variables"""
    calls = []

    def answer_of(self, module_name, module_args, task_vars):
        calls.append((module_name.rpartition(".")[2], module_args))
        whole = {"left_out": [], "advertised": [], "refused": [], "swarm": MANAGER}
        return dict(ledger or LEDGER) if module_name.endswith("swarm_gpu_info") else {**assessed("n1", **{**whole, **answer}), **dict(shown)}

    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(ActionBase, "_execute_module", execute or answer_of)
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args=args or {}, check_mode=True, delegate_to=None, ignore_unreachable=False, name="Read the node")
    action._connection = SimpleNamespace()
    action._display = SimpleNamespace(verbosity=verbosity)
    action._templar = SimpleNamespace(template=lambda value: value)
    variables = {"inventory_hostname": host, "hostvars": HostVars({host: settings or {}}), **dict(own)}
    variables = {**variables, "groups": {"swarm_managers": ["m1", "m2"]}, **({READS_LEDGER: True} if reads else {})}
    if verbosity is not None:
        variables[WARNS_LATER] = True
    return action.run(task_vars=variables), calls


def test_the_first_manager_answers_with_the_ledger(monkeypatch):
    result, calls = run(monkeypatch, args={"docker_socket": "/run/other.sock"})
    assert result["ledger"] == {"changed": False, "nodes": [{"id": "n1"}], "pending": []}
    assert calls[:1] == [("swarm_gpu_info", {"docker_host": "unix:///run/other.sock", "keep_label": "gpu-swarm.keep"})]


def test_it_is_read_with_the_label_of_the_inventory(monkeypatch):
    _result, calls = run(monkeypatch, settings={"provision_keep_label": "team.keep"})
    assert calls[0][1]["keep_label"] == "team.keep"


def test_what_the_ledger_warns_of_is_shown(monkeypatch):
    result, _calls = run(monkeypatch, ledger={**LEDGER, "warnings": ["GPU-1 is allocated twice"]}, warnings=["of the node"])
    assert result["warnings"] == ["m1: of the node", "GPU-1 is allocated twice"]
    assert "warnings" not in result["ledger"]


@pytest.mark.parametrize(
    "other",
    [
        {"reads": False},
        {"host": "m2"},
    ],
)
def test_elsewhere_no_ledger_is_read(monkeypatch, other):
    result, calls = run(monkeypatch, **other)
    assert "ledger" not in result
    assert [name for name, _args in calls] == ["gpu_node"]


@pytest.mark.parametrize(
    "other",
    [
        {"swarm": {**MANAGER, "control_available": False}},
        {"swarm": {**MANAGER, "state": "inactive", "control_available": False}},
        {"failed": True, "msg": "no driver"},
    ],
)
def test_one_whose_assessment_is_of_no_manager_has_none(monkeypatch, other):
    """Whatever it answered to that."""
    result, _calls = run(monkeypatch, **other)
    assert "ledger" not in result


def test_a_host_that_cannot_be_reached_is_tried_once(monkeypatch):
    calls = []

    def execute(self, module_name, **_call):
        calls.append(module_name)
        raise AnsibleConnectionFailure("timed out")

    with pytest.raises(AnsibleConnectionFailure):
        run(monkeypatch, execute=execute)
    assert calls == ["fleet.gpu_swarm.swarm_gpu_info"]


def test_a_manager_that_cannot_say_leaves_it_to_the_task_that_reports_why(monkeypatch):
    result, calls = run(monkeypatch, ledger={"failed": True, "msg": "the swarm has no leader"})
    assert "ledger" not in result
    assert [name for name, _args in calls] == ["swarm_gpu_info", "gpu_node"]


@pytest.mark.parametrize(
    ("ledger", "advertise", "sent"),
    [({"failed": True, "msg": "none"}, [{"as": "gpu"}], True), ({"failed": True, "msg": "none"}, [], False), (LEDGER, [{"as": "gpu"}], False)],
)
def test_to_a_manager_without_a_swarm_the_binding_goes_along_at_once(monkeypatch, ledger, advertise, sent):
    _result, calls = run(monkeypatch, ledger=ledger, args={"advertise": advertise})
    assert ("libraries" in calls[1][1]) is sent


@pytest.mark.parametrize(
    ("own", "changed"),
    [
        ({ROLE_TASK: ASSESS, "ansible_check_mode": False}, False),
        ({ROLE_TASK: ASSESS, "ansible_check_mode": True}, True),
        ({ROLE_TASK: "apply", "ansible_check_mode": False}, True),
        ({"ansible_check_mode": False}, True),
    ],
)
def test_an_assessment_reports_a_change_in_a_check_run_alone(monkeypatch, own, changed):
    """What somebody runs in check mode in a playbook of their own reports it too."""
    shown = {"changed": True, "diff": [{"before": "a", "after": "b"}]}
    result, _calls = run(monkeypatch, reads=False, own=own, shown=shown)
    assert (result["changed"], bool(result["diff"])) == (changed, changed)


@pytest.mark.parametrize(
    ("args", "label"),
    [
        ({"dedicated": True}, {"gpu.dedicated": "true"}),
        ({"dedicated": "yes", "label_prefix": "accel."}, {"accel.dedicated": "true"}),
        ({"dedicated": "false"}, {}),
        ({}, {}),
        ({"dedicated": True, "advertise": []}, {}),
        ({"dedicated": True, "state": "absent"}, {}),
    ],
)
def test_whether_a_node_is_dedicated_is_said_by_the_inventory(monkeypatch, args, label):
    """Never by the node's answer; and whether or not it has GPUs just now, since a label that comes back evicts."""
    prefix = args.get("label_prefix", "gpu.")
    assert run(monkeypatch, args=args, reads=False, labels={prefix + "dedicated": "true"})[0]["labels"] == label
    assert run(monkeypatch, args=args, reads=False, labels={})[0]["labels"] == label


def test_a_dedicated_node_without_a_prefix_is_refused_before_it_is_touched(monkeypatch):
    calls = []
    with pytest.raises(AnsibleActionFail, match=r"gpu_swarm_dedicated.*gpu_node_label_prefix\), which is empty.* Nothing was changed"):
        run(monkeypatch, args={"dedicated": True, "label_prefix": ""}, execute=lambda *_args, **_named: calls.append(1))
    assert calls == []
    for args in ({"advertise": []}, {"state": "absent"}):  # of a host without GPUs, or one that is deprovisioned
        assert run(monkeypatch, args={"dedicated": True, "label_prefix": "", **args}, reads=False)[0]["labels"] is not None


@pytest.mark.parametrize(
    ("args", "label"),
    [
        ({"on_loss": "report"}, "report"),
        ({"on_loss": "shrink", "advertise": [{"as": "gpu"}]}, "shrink"),
        ({"on_loss": "pause"}, None),
        ({}, None),
        ({"on_loss": "report", "advertise": []}, None),
        ({"on_loss": "report", "state": "absent"}, None),
    ],
)
def test_what_becomes_of_a_node_is_a_label_of_the_inventory(monkeypatch, args, label):
    """Never of the node's answer."""
    result, _calls = run(monkeypatch, args=args, reads=False, labels={"gpu.count": "2", "fleet.gpu-swarm.on-loss": "report"})
    assert result["labels"] == {"gpu.count": "2", **({"fleet.gpu-swarm.on-loss": label} if label else {})}


CARD = "GPU-00000000-1111-2222-3333-444444444444"
PLACE = {"pci_bus_id": "00000000:C1:00.0", "slot": None, "serial": "1322"}
LOST = {"index": 5, "uuid": CARD, "name": "Tesla T4", "reason": "GPU is lost", "last_known": True, **PLACE}
UNKNOWN = {**LOST, "index": 6, "uuid": None, "name": None, "pci_bus_id": None, "serial": None}
DIVIDED = {"index": 7, "uuid": CARD, "name": "NVIDIA H100", "reason": "it is in MIG mode"}
MISSED = f"fault {CARD} reason=lost pci=00000000:C1:00.0 serial=1322"
CONSENTED = MISSED.replace("fault", "ok")


@pytest.mark.parametrize(
    ("args", "left_out", "label"),
    [
        ({}, [LOST], MISSED),
        ({}, [LOST, UNKNOWN, DIVIDED], f"{MISSED}; fault reason=lost gpu=6"),
        ({}, [{**LOST, "last_known": False}], MISSED.replace("lost", "failed")),
        ({}, [{**LOST, "serial": "; fault reason=hang"}], MISSED.partition(" serial")[0]),
        ({}, [DIVIDED], None),
        ({}, [], None),
        ({"expect": "7"}, [LOST], CONSENTED),
        ({"allow_shrink": True}, [LOST], CONSENTED),
        ({"on_loss": "shrink"}, [LOST], CONSENTED),
        ({"on_loss": "report"}, [LOST], MISSED),
        ({"allow_shrink": "no"}, [LOST], MISSED),
    ],
)
def test_a_card_that_a_node_does_without_is_a_label_with_whether_somebody_has_consented(monkeypatch, args, left_out, label):
    result, _calls = run(monkeypatch, args=args, reads=False, left_out=left_out, labels={"gpu.count": "7", "fleet.gpu-swarm.left-out": "fault"})
    assert result["labels"].get("fleet.gpu-swarm.left-out") == label


OF_ROLE = {ROLE_TASK: "apply", "gpu_node_has_gpus": True}
RULES = [{"as": "gpu"}]


@pytest.mark.parametrize(
    ("own", "different"),
    [
        ({}, {}),
        ({"gpu_node_has_gpus": "yes", "gpu_swarm_isolation": "", "gpu_swarm_dedicated": None}, {}),
        ({"gpu_node_has_gpus": False}, {"advertise": [], "extra_resources": []}),
        ({"gpu_node_has_gpus": "false"}, {"advertise": [], "extra_resources": []}),
        ({"gpu_swarm_dedicated": "yes"}, {"dedicated": "yes"}),
        ({"gpu_swarm_isolation": "reserved"}, {"isolation": "reserved"}),
        ({"gpu_swarm_isolation": False}, {"isolation": False}),  # a bare off
        ({"gpu_swarm_isolation": "reserved", "_gpu_node_level": "off"}, {"isolation": "off"}),
        ({"gpu_swarm_isolation": "reserved", "_gpu_node_level": None}, {"isolation": None}),
    ],
)
def test_in_the_role_what_holds_for_the_swarm_and_the_host_goes_before(monkeypatch, own, different):
    args = {"advertise": RULES, "extra_resources": ["SSD=1"], "isolation": "audit"}
    wanted = {name: value for name, value in {**args, **different}.items() if value is not None}
    assert run(monkeypatch, reads=False, args=args, own={**OF_ROLE, **own})[1] == [("gpu_node", wanted)]
    # In a task of somebody's own, these variables are none of the module's.
    assert run(monkeypatch, reads=False, args=args, own=own)[1] == [("gpu_node", args)]


@pytest.mark.parametrize("value", ["", None])
def test_what_is_empty_in_the_role_is_not_set(monkeypatch, value):
    _result, calls = run(monkeypatch, reads=False, args={"expect": value, "isolation": value, "nvml_path": value, "label_prefix": "gpu."})
    assert calls == [("gpu_node", {"label_prefix": "gpu."})]


def test_zero_gpus_and_a_bare_off_are_values(monkeypatch):
    _result, calls = run(monkeypatch, reads=False, args={"expect": 0, "isolation": False, "label_prefix": "gpu."})
    assert calls == [("gpu_node", {"expect": 0, "isolation": False, "label_prefix": "gpu."})]


GPU = {"index": 0, "uuid": "GPU-1", "model": "T4", "memory_mib": 15360, "mig_devices": [{"uuid": "MIG-1"}], "health": {"reasons": []}, "pci": "0000"}
READ_BY_A_PLAN = {key: value for key, value in GPU.items() if key not in ("health", "pci")}


@pytest.mark.parametrize(
    ("verbosity", "gpu", "invoked"),
    [(0, READ_BY_A_PLAN, False), (2, READ_BY_A_PLAN, False), (3, GPU, True), (None, GPU, True)],
)
def test_for_a_plan_a_result_has_what_that_reads(monkeypatch, verbosity, gpu, invoked):
    shown = {"gpus": [GPU], "invocation": {"module_args": {}}}
    result, _calls = run(monkeypatch, reads=False, args={"label_prefix": "gpu."}, verbosity=verbosity, shown=shown)
    assert (result["gpus"], "invocation" in result) == ([gpu], invoked)
