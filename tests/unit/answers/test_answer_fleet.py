# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For any answer of a node, the run either refuses the answer on this host, or makes plans and reports for the whole fleet."""

from __future__ import annotations

import copy
import json

import pytest
from fleet_lab import assessed, host, member, swarm
from node_lab import UUIDS, gpu, resources
from swarm_api import A, discrete, named
from swarm_api import node as api_node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._verify import plan as verify_plan
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.allowed_labels import with_allowed_labels
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.answer import form_error
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet import advertised, model
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.membership import find_swarm
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import (
    consent,
    impact,
    isolation_label,
    warnings,
)
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import (
    deprovision as plan_deprovision,
)
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import (
    provision as plan_provision,
)
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import provision_tables as report_provision
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import verify as report_verify
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout import ends

EXTENT = verify_plan.Extent("auto", "all", lambda nodes, count: nodes[:count])
ISOLATION = {"level": "audit", "label": '{"level":"audit","since":5}', "services": ["train"], "time": 9}
LEFT_OUT = gpu(2, mig_devices=[{"uuid": "MIG-1", "profile": "1g.10gb", "memory_mib": None}])


def answer(**other):
    """Return a complete answer of a node. Every part of the answer affects the run."""
    rich = {
        "gpus": [gpu(0, mig_devices=[]), LEFT_OUT],
        "resources": [*resources(0), "VRAM=80"],
        "advertised": [*resources(0), "VRAM=80", "SSD=1"],
        "left_out": [{"index": 2, "uuid": UUIDS[2], "name": None, "reason": "GPU is lost"}],
        "refused": [{"id": "shrink", "text": "1 GPU less."}],
        "images": [{"id": "sha256:1", "name": "cuda", "cuda": True}],
        "drift": ["1 GPU not advertised"],
        "adopted": ["a flag"],
        "restart_required": True,
        "labels_unknown": [],
        "toolkit_held": ["nvidia-container-toolkit"],
        "runtime_stays": False,
        "kept": True,
        "restarted": False,
        "cpu": {"machine": "x86_64", "vendor": "GenuineIntel", "implementer": None, "part": None, "model": None, "features": ["sse2"]},
        "isolation": {
            "level": "audit", "turned_off": False, "found": {"train": {"forged": {"count": 1, "last": 5, "text": "x"}}},
            "memory": {"VRAM": {"devices": [UUIDS[0]], "mib": 301}},
        },
        "isolation_level": "audit",
        "health": {
            "label": "ok", "blocked": None, "reasons": [], "report": "all", "shown": "ok",
            "allocation_findings": [["outside", "GPU-00000000-1111-2222-3333-444444444444", "", "", "alice (py)", 5]],
        },
        "containers": [{"name": "c", "service": None, "task": None, "age": 7, "swarm_networks": ["mesh"]}],
    }
    answer = {**assessed(shown=[*resources(0, 1), "VRAM=10"]), **rich, **other}
    answer["engine"].update(running=True, lost_at_reload=["--authorization-plugin"])
    of_network = {"addr": "10.0.0.5", "addresses": {"eth0": ["10.0.0.5", "fe80::1"]}, "manager_ids": ["m1"]}
    answer["swarm"].update(error=None, half_joined=False, undecided=[], **of_network)
    return answer


ANSWERS = {
    "all": answer(),
    "nothing refused": answer(refused=[], toolkit_held=[]),
    "in no swarm": answer(refused=[], containers=[], swarm={"state": "inactive", "node_id": "", "undecided": ["10.0.0.5 (eth0)"]}),
}
GONE = object()
OTHERS = [
    GONE, None, True, 5, -1, 0.5, float("inf"), float("nan"), 10**400, "", "x", "1.x", "9" * 5000, [], ["x"], ["x="], ["K=1", "K=a"], [5], [None],
    [[]], [{}], [{"x": 1}], {}, {"x": 1}, {"x": []}, [{"NamedResourceSpec": {"Kind": "K", "Value": 5}}],
    [{"DiscreteResourceSpec": {"Kind": "K", "Value": "9" * 5000}}],
]  # fmt: skip


def places(value, at=()):
    """Yield the path of every value in an answer, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from places(item, (*at, key))


def replaced(answer, place, other):
    """Return the answer with another value at this path, or without the value."""
    changed = copy.deepcopy(answer)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if other is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = other
    return changed


def run(answer):
    """Do everything that a run does for all hosts at once. One of the hosts has this answer."""
    bad = model.Host("gpu-1", True, False, with_allowed_labels(dict(answer), "gpu-1", "gpu.", "cpu."))
    hosts = [bad, host("gpu-2", node_id="n2", toolkit_version="1.19.0")]
    find_swarm({"gpu-1": answer, "m": assessed("m1", gpus=0)}, ["m", "gpu-1"], ["m"])
    warnings.merge_noted({one.name: one.assessed for one in hosts})
    for bad.advertise_addr in ("", "eth0"):
        advertised.difference(bad.advertise_addr, (bad.assessed or {}).get("swarm") or {})
    for known in (swarm(member(), member("n2")), swarm()):
        for wanted, maintain in ((None, None), ("1.20.1", None), (None, "reboots")):
            bad.toolkit = wanted
            provision(hosts, known, maintain)
        steps = plan_deprovision.plan(hosts, known, {})
        for one in hosts:
            state = report_provision.deprovision_state(steps[one.name], ends.End(known.nodes.get(one.node_id or ""), None))
            report_provision.deprovision_row(one, steps[one.name], state)
            report_verify.host_result(one.assessed, known.nodes.get(one.node_id or ""), one.node_id, report_verify.SwarmResult({}, ISOLATION))
        isolation_label.update_at_start("audit", hosts, {**(known.ledger or {}), "swarm": {"isolation": ISOLATION}})
        report_verify.enforcement({one.name: one.assessed for one in hosts})
    tried(bad)


def tried(bad):
    """Plan the checks and services of the role verify for a node with this answer."""
    (node,) = ledger(Listed([api_node("n1", resources=[*named(A), *discrete(9000)])], [], []), "gpu-swarm.")["nodes"]
    memory = (bad.assessed.get("isolation") or {}).get("memory", {})
    for check in verify_plan.checks([node], ["n1"], EXTENT, verify_plan.Guarded({"n1": "reserved"}, {"n1": memory})):
        verify_plan.service({**check, "image": {"reference": "cuda"}}, "v-1", {}, ["nvidia-smi"])


def provision(hosts, known, maintain):
    steps = plan_provision.plan(hosts, known, maintain, "reserved")
    impact.leader_warnings(hosts, steps, known)
    impact.toolkit_warnings(hosts, steps)
    plan_provision.hosts_in(steps, plan_provision.in_batches(hosts, steps))
    consent.check_reservations(hosts, steps, known, [])
    consent.plan_finished_jobs(hosts, steps, known, False)
    report_provision.impact(steps, 79)
    for one in hosts:
        node = known.nodes.get(one.node_id or "")
        report_provision.row(one, node, ends.state_of(one, steps[one.name], ends.End(node, None)))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_full_answer_is_used(name):
    assert form_error(ANSWERS[name]) is None
    run(ANSWERS[name])


# The other answers are marked as rare tests. Each lacks one part of the first answer, and its test takes as long as the first.
@pytest.mark.parametrize("name", ["all", *(pytest.param(name, marks=pytest.mark.rare) for name in list(ANSWERS)[1:])])
def test_no_answer_of_a_node_ends_the_run_for_others(name):
    ends = {}
    for place in places(ANSWERS[name]):
        for other in OTHERS:
            answer = replaced(ANSWERS[name], place, other)
            if form_error(answer) is None:
                try:
                    run(answer)
                except Exception as problem:  # any exception would end the run
                    ends.setdefault(place, f"{str(other)[:60]}: {problem!r}"[:200])
    assert ends == {}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_failed_answer_may_lack_any_part(name):
    for key in ANSWERS[name]:
        answer = {**replaced(ANSWERS[name], (key,), GONE), "failed": True, "msg": "NVML failed."}
        assert form_error(answer) is None
        assert form_error(json.loads(json.dumps(answer))) is None
        run(answer)
