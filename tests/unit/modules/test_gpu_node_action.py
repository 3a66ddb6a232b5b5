# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only the assessment of the first manager contains the ledger."""

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
    """Return the result, and the name and arguments of each module that ran.

    With ``verbosity``, the action runs like before a plan. ``shown`` replaces parts of an answer, ``own`` are variables.
    """
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


def test_the_ledger_is_read_with_the_label_of_the_inventory(monkeypatch):
    _result, calls = run(monkeypatch, settings={"provision_keep_label": "team.keep"})
    assert calls[0][1]["keep_label"] == "team.keep"


def test_warnings_of_the_ledger_are_shown(monkeypatch):
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
def test_an_assessment_of_another_host_has_no_ledger(monkeypatch, other):
    """The answer of the other host does not matter."""
    result, _calls = run(monkeypatch, **other)
    assert "ledger" not in result


def test_an_unreachable_host_is_tried_once(monkeypatch):
    calls = []

    def execute(self, module_name, **_call):
        calls.append(module_name)
        raise AnsibleConnectionFailure("timed out")

    with pytest.raises(AnsibleConnectionFailure):
        run(monkeypatch, execute=execute)
    assert calls == ["fleet.gpu_swarm.swarm_gpu_info"]


def test_an_error_of_a_manager_is_left_to_the_task_that_reports_it(monkeypatch):
    result, calls = run(monkeypatch, ledger={"failed": True, "msg": "the swarm has no leader"})
    assert "ledger" not in result
    assert [name for name, _args in calls] == ["swarm_gpu_info", "gpu_node"]


@pytest.mark.parametrize(
    ("ledger", "advertise", "sent"),
    [({"failed": True, "msg": "none"}, [{"as": "gpu"}], True), ({"failed": True, "msg": "none"}, [], False), (LEDGER, [{"as": "gpu"}], False)],
)
def test_a_manager_without_a_swarm_gets_the_binding_at_once(monkeypatch, ledger, advertise, sent):
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
def test_only_a_check_run_reports_an_assessment_as_a_change(monkeypatch, own, changed):
    """A user's own playbook in check mode reports the change too."""
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
def test_the_inventory_decides_whether_a_node_is_dedicated(monkeypatch, args, label):
    """The answer of the node decides nothing. The label stays if the node has no GPUs now, because a label that returns evicts tasks."""
    prefix = args.get("label_prefix", "gpu.")
    assert run(monkeypatch, args=args, reads=False, labels={prefix + "dedicated": "true"})[0]["labels"] == label
    assert run(monkeypatch, args=args, reads=False, labels={})[0]["labels"] == label


def test_a_dedicated_node_without_a_prefix_is_refused_before_it_is_touched(monkeypatch):
    calls = []
    with pytest.raises(AnsibleActionFail, match=r"gpu_swarm_dedicated.*gpu_node_label_prefix\), which is empty.* Nothing was changed"):
        run(monkeypatch, args={"dedicated": True, "label_prefix": ""}, execute=lambda *_args, **_named: calls.append(1))
    assert calls == []
    for args in ({"advertise": []}, {"state": "absent"}):  # for a host without GPUs, or a host that is deprovisioned
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
def test_the_purpose_of_a_node_is_a_label_from_the_inventory(monkeypatch, args, label):
    """The answer of the node does not decide."""
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
def test_an_excluded_card_is_a_label_that_shows_consent(monkeypatch, args, left_out, label):
    result, _calls = run(monkeypatch, args=args, reads=False, left_out=left_out, labels={"gpu.count": "7", "fleet.gpu-swarm.left-out": "fault"})
    assert result["labels"].get("fleet.gpu-swarm.left-out") == label


OFFERED = {"rdma": ["/dev/infiniband/uverbs*"], "fuse": ["/dev/fuse"]}


@pytest.mark.parametrize(
    ("args", "devices", "labels"),
    [
        ({"devices": OFFERED}, {"rdma": ["/dev/infiniband/uverbs0"], "fuse": []}, {"gpu-swarm.device.rdma": "true"}),
        ({"devices": OFFERED, "label_prefix": ""}, {"fuse": ["/dev/fuse"]}, {"gpu-swarm.device.fuse": "true"}),
        ({"devices": OFFERED, "advertise": []}, {"fuse": ["/dev/fuse"]}, {"gpu-swarm.device.fuse": "true"}),
        ({"devices": OFFERED}, None, {}),
        # The names come from the setting, so a node cannot choose the key of a label.
        ({"devices": OFFERED}, {"tpu": ["/dev/accel0"], "labels": ["x"], "../host": ["x"]}, {}),
        ({}, {"rdma": ["/dev/infiniband/uverbs0"]}, {}),
        ({"devices": {"Bad.name": ["/dev/fuse"]}}, {"Bad.name": ["/dev/fuse"]}, {}),
        ({"devices": OFFERED, "state": "absent"}, {"fuse": ["/dev/fuse"]}, {}),
    ],
)
def test_a_node_says_only_which_of_the_devices_of_the_setting_it_has(monkeypatch, args, devices, labels):
    result, _calls = run(monkeypatch, args=args, reads=False, devices=devices, labels={"gpu-swarm.device.rdma": "true", "gpu-swarm.device.x": "true"})
    assert result["labels"] == labels


@pytest.mark.parametrize("devices", ["fuse", ["fuse"], {"fuse": True}, {"fuse": [1]}, {"fuse": "/dev/fuse"}, {str(name): [] for name in range(33)}])
def test_devices_of_another_form_are_no_answer(monkeypatch, devices):
    result, _calls = run(monkeypatch, args={"devices": OFFERED}, reads=False, devices=devices)
    assert result["failed"]
    assert "devices does not have the right form" in result["msg"]


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
        ({"gpu_swarm_devices": {"fuse": ["/dev/fuse"]}}, {"devices": {"fuse": ["/dev/fuse"]}}),
        ({"gpu_swarm_devices": {}}, {}),
        ({"gpu_swarm_queues": {"q": {}}, "gpu_node_data_interface": ""}, {"data_interface": "advertised"}),
        ({"gpu_swarm_queues": {"q": {}}, "swarm_member_advertise_addr": "eth1"}, {"data_interface": "eth1"}),
        ({"gpu_swarm_queues": {"q": {}}, "swarm_member_advertise_addr": "eth1:2377"}, {"data_interface": "advertised"}),
        ({"gpu_swarm_queues": {"q": {}}, "swarm_member_advertise_addr": "eth1", "gpu_node_data_interface": "ib0"}, {}),
        ({"swarm_member_advertise_addr": "eth1", "gpu_node_data_interface": ""}, {}),  # without queues
        ({"gpu_swarm_queues": {}, "gpu_node_data_interface": ""}, {}),
        ({"gpu_swarm_isolation": "reserved"}, {"isolation": "reserved"}),
        ({"gpu_swarm_isolation": False}, {"isolation": False}),  # an unquoted off
        ({"gpu_swarm_isolation": "reserved", "_gpu_node_level": "off"}, {"isolation": "off"}),
        ({"gpu_swarm_isolation": "reserved", "_gpu_node_level": None}, {"isolation": None}),
    ],
)
def test_in_the_role_variables_of_swarm_and_host_come_first(monkeypatch, own, different):
    args = {"advertise": RULES, "extra_resources": ["SSD=1"], "isolation": "audit"}
    wanted = {name: value for name, value in {**args, **different}.items() if value is not None}
    assert run(monkeypatch, reads=False, args=args, own={**OF_ROLE, **own})[1] == [("gpu_node", wanted)]
    # In a user's own task, these variables do not affect the module.
    assert run(monkeypatch, reads=False, args=args, own=own)[1] == [("gpu_node", args)]


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_variable_of_the_role_is_not_set(monkeypatch, value):
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
def test_a_result_has_what_the_plan_reads(monkeypatch, verbosity, gpu, invoked):
    shown = {"gpus": [GPU], "invocation": {"module_args": {}}}
    result, _calls = run(monkeypatch, reads=False, args={"label_prefix": "gpu."}, verbosity=verbosity, shown=shown)
    assert (result["gpus"], "invocation" in result) == ([gpu], invoked)


ADDRESSES = {"eth0": ["192.168.1.5"], "ib0": ["10.0.0.5"]}
DATA = ["gpu-swarm.data-"]


@pytest.mark.parametrize(
    ("args", "swarm", "label", "unknown", "warned"),
    [
        ({"data_interface": "ib0"}, {"addresses": ADDRESSES}, ("10.0.0.5", "ib0"), [], False),
        ({"data_interface": "advertised"}, {"addr": "192.168.1.5", "addresses": ADDRESSES}, ("192.168.1.5", "eth0"), [], False),
        ({"data_interface": "advertised"}, {"addresses": ADDRESSES}, None, DATA, False),  # it has not joined yet
        ({"data_interface": ""}, {"addr": "192.168.1.5", "addresses": ADDRESSES}, None, DATA, False),
        ({}, {"addr": "192.168.1.5", "addresses": ADDRESSES}, None, DATA, False),
        ({"data_interface": "ib0"}, {}, None, DATA, False),
        ({"data_interface": "ib1"}, {"addresses": ADDRESSES}, None, [], True),
        ({"data_interface": "ib0", "state": "absent"}, {"addresses": ADDRESSES}, None, [], False),
    ],
)
def test_the_setting_chooses_the_data_interface_and_the_node_only_tells_its_address(monkeypatch, args, swarm, label, unknown, warned):
    claimed = {"gpu-swarm.data-address": "10.6.6.6"}
    result, _calls = run(monkeypatch, args=args, reads=False, labels=claimed, swarm={"state": "active", **swarm})
    assert result["labels"] == ({"gpu-swarm.data-address": label[0], "gpu-swarm.data-interface": label[1]} if label else {})
    assert result["labels_unknown"] == unknown
    warnings = [text for text in result["warnings"] if "gpu_node_data_interface" in text]
    assert len(warnings) == warned


def test_a_node_that_has_not_joined_has_the_labels_for_each_of_its_addresses_and_cannot_choose_them(monkeypatch):
    forged = {"10.0.0.5": {"gpu.count": "99"}}
    addresses = {**ADDRESSES, "lo": ["127.0.0.1"]}
    for args, expected in (
        ({"data_interface": "advertised"}, {address: labels_of(address) for address in ("192.168.1.5", "10.0.0.5")}),
        ({"data_interface": ""}, None),
    ):
        swarm = {"state": "inactive", "addresses": addresses}
        result, _calls = run(monkeypatch, args=args, reads=False, labels={}, swarm=swarm, labels_by_address=forged)
        assert result.get("labels_by_address") == expected


def labels_of(address):
    return {"gpu-swarm.data-address": address, "gpu-swarm.data-interface": {"192.168.1.5": "eth0", "10.0.0.5": "ib0"}[address]}
