# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services that would have no place after a policy is applied."""

from __future__ import annotations

import pytest
import swarm_api
from fleet_lab import host, ledger, member, swarm
from node_lab import UUIDS, gpu, resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger import ledger as swarm_ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.room import newly_pending
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.consent import check_reservations
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.displaced_services import consented, decided_totals, losses, rooms_to_keep
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import plan

KIND, OTHER = "NVIDIA-GPU", "TRAINING"
RENAMED = resources(0, 1, kind=OTHER)


def group(service="train", tasks=2, able=None, nodes=None, **wants):
    return {"service": service, "tasks": tasks, "wants": wants or {KIND: 1}, "able": able, "nodes": nodes}


def fleet(*groups, nodes=("n1", "n2")):
    return dict(ledger(*(member(node) for node in nodes)), reservations=list(groups))


# case -> (reservations, resources of the changed nodes, words of each loss)
GONE = {OTHER: 2}
LOSSES = {
    "renamed everywhere": ([group()], {"n1": GONE, "n2": GONE}, ["train (2 tasks): no node that it may run on would have 1 NVIDIA-GPU"]),
    "one of two nodes, and the other has room": ([group()], {"n1": GONE}, []),
    "one of two nodes, and the other has too little": ([group(tasks=3)], {"n1": GONE}, ["3 NVIDIA-GPU are reserved, and 2 would be left"]),
    "two services, and too little is left for both": (
        [group(tasks=2), group("web", tasks=1)],
        {"n1": GONE},
        ["train (2 tasks): 3 NVIDIA-GPU", "web (1 task): 3 NVIDIA-GPU"],
    ),
    "only the node that its constraint names": ([group(tasks=1, able=["n1"])], {"n1": GONE}, ["no node that it may run on"]),
    "another node than its constraint names": ([group(tasks=1, able=["n2"])], {"n1": GONE}, []),
    "a task that is larger than any node would be": ([group(tasks=1, **{KIND: 2})], {"n1": {KIND: 1}, "n2": {KIND: 1}}, ["would have 2 NVIDIA-GPU"]),
    "two kinds at once": ([group(tasks=1, **{KIND: 1, OTHER: 1})], {"n1": {KIND: 2, OTHER: 1}}, []),
    "of a global service": ([group(nodes=["n1", "n2"])], {"n1": GONE}, ["1 task would have no 1 NVIDIA-GPU on its node"]),
    "0 of a named kind that is removed": (
        [group(tasks=1, **{KIND: 0})],
        {"n1": GONE, "n2": GONE},
        ["train (1 task): no node that it may run on would have NVIDIA-GPU"],
    ),
    "0 of a named kind, and too few are left": ([group(tasks=3, **{KIND: 0})], {"n1": GONE}, ["3 NVIDIA-GPU are reserved, and 2 would be left"]),
    "0 of a named kind, and one is left": ([group(tasks=1, **{KIND: 0})], {"n1": GONE, "n2": {KIND: 1}}, []),
    "0 of a removed kind, by a global service": ([group(nodes=["n1"], **{KIND: 0})], {"n1": GONE}, ["1 task would have no NVIDIA-GPU on its node"]),
    "a service that had no place before": ([group(tasks=1, FPGA=1)], {"n1": GONE, "n2": GONE}, []),
    "a service that waited before": ([group(tasks=9)], {}, []),
    "a service that waited before, and the node gets more": ([group(tasks=9)], {"n1": {KIND: 4}}, []),
    "another kind": ([group(SSD=1)], {"n1": GONE, "n2": GONE}, []),
    "no reservations": ([], {"n1": GONE, "n2": GONE}, []),
    "an unknown node": ([group()], {"n9": GONE}, []),
}


@pytest.mark.parametrize(("groups", "changes", "words"), LOSSES.values(), ids=LOSSES)
def test_lost_places_are_found(groups, changes, words):
    found = losses(fleet(*groups), changes)
    assert len(found) == len(words)
    assert all(text in loss.text for loss, text in zip(found, words, strict=True))


def test_joining_nodes_bring_resources():
    everywhere = {"n1": GONE, "n2": GONE}
    assert losses(fleet(group()), everywhere, [{KIND: 2}]) == []
    assert losses(fleet(group(able=["n1"])), everywhere, [{KIND: 2}])  # it is unknown whether the joining node will meet the constraint


@pytest.mark.parametrize("closed", [{"availability": "drain"}, {"state": "down"}])
def test_a_node_out_of_service_is_no_place(closed):
    known = dict(ledger(member("n1"), member("n2", **closed)), reservations=[group()])
    assert losses(known, {"n1": GONE})
    known["nodes"][1].update(state="ready", availability="pause", former_availability="active")  # a run has paused this node
    assert losses(known, {"n1": GONE}) == []


@pytest.mark.parametrize(
    ("gpus", "advertised", "expected"),
    [
        ([gpu(0), gpu(1)], RENAMED, {OTHER: 2}),
        ([gpu(0)], resources(0), {KIND: 2}),  # the policy did not cause the loss of this card
        ([gpu(0), gpu(2)], resources(0, 2), {KIND: 2}),  # one card was replaced by another card
        ([gpu(0)], resources(0, kind=OTHER), {OTHER: 1, KIND: 1}),
        ([], ["SSD=1"], {"SSD": 1}),  # without rules, GPUs are not read
        ([gpu(0), gpu(1)], ["VRAM=7", "SSD=a"], {"VRAM": 7, "SSD": 1}),
    ],
)
def test_a_node_will_have_these_resources(gpus, advertised, expected):
    assert decided_totals({"gpus": gpus, "advertised": advertised}, member("n1")) == expected


def test_a_failed_card_does_not_count_as_removed():
    answer = {"gpus": [gpu(0), gpu(1, "failed")], "advertised": resources(0), "left_out": [{"uuid": UUIDS[1], "reason": "lost"}]}
    assert decided_totals(answer, member("n1")) == {KIND: 2}


def test_a_mig_device_that_still_exists_counts_as_removed():
    cut = gpu(0, mig_devices=[{"uuid": "MIG-1"}])
    entry = {"MIG-1g": {"type": "named", "total": 2, "values": ["MIG-1", "MIG-2"], "free": []}}
    assert decided_totals({"gpus": [cut], "advertised": []}, member("n1", resources=entry)) == {"MIG-1g": 1}


def test_the_slots_of_a_lost_card_do_not_count_as_removed():
    values = [f"{one}.slot{number}" for one in UUIDS[:2] for number in (1, 2)]
    entry = {"SLOT": {"type": "named", "total": 4, "values": values, "free": []}}
    answer = {"gpus": [gpu(0)], "advertised": [f"SLOT={one}" for one in values[:2]]}
    assert decided_totals(answer, member("n1", resources=entry)) == {"SLOT": 4}
    assert decided_totals({**answer, "advertised": [f"SLOT={values[0]}"]}, member("n1", resources=entry)) == {"SLOT": 3}


def test_a_group_with_a_lost_card_does_not_count_as_removed():
    values = ["+".join(UUIDS[:2]), "GPU-x+GPU-y"]
    entry = {"PAIR": {"type": "named", "total": 2, "values": values, "free": []}}
    assert decided_totals({"gpus": [gpu(0)], "advertised": []}, member("n1", resources=entry)) == {"PAIR": 2}
    assert decided_totals({"gpus": [gpu(0), gpu(1)], "advertised": []}, member("n1", resources=entry)) == {"PAIR": 1}


# --- in a plan ------------------------------------------------------------------------------------------------------


def renamed(name="gpu-1", node="n1"):
    return host(name, node_id=node, restart_required=True, drift=["x"], resources=RENAMED, advertised=RENAMED, shown=resources(0, 1))


def planned(*hosts, groups, allowed=(), nodes=("n1", "n2")):
    known = swarm(*(member(node) for node in nodes))
    known.ledger["reservations"] = list(groups)
    steps = plan(list(hosts), known)
    return steps, check_reservations(list(hosts), steps, known, allowed)


def test_a_host_that_would_remove_the_kind_cannot_continue():
    hosts = [renamed(), renamed("n2", "n2")]
    steps, consent = planned(*hosts, groups=[group(), group("safe", SSD=1)])
    for one in hosts:
        assert "train (2 tasks): no node" in steps[one.name].error
        assert "provision_allow_pending: [train] (true for all)" in steps[one.name].error
        assert "safe" not in steps[one.name].error
        assert steps[one.name].groups == ["gpu_swarm_end"]
    assert consent == []


def test_with_limit_the_other_hosts_count_as_in_the_ledger():
    assert planned(renamed(), groups=[group()])[0]["gpu-1"].error is None
    assert planned(renamed(), groups=[group()], nodes=["n1"])[0]["gpu-1"].error


@pytest.mark.parametrize("allowed", [True, "true", ["train"], "train", "train, other"])
def test_with_consent_the_loss_is_reported_and_nothing_waits(allowed):
    steps, consent = planned(renamed(), groups=[group()], nodes=["n1"], allowed=allowed)
    assert steps["gpu-1"].error is None
    assert any(text.startswith("leaves no place for service train (2 tasks)") for text in steps["gpu-1"].impact)
    assert rooms_to_keep({"train": {}, "web": {}}, consent) == {"web": {}}


@pytest.mark.parametrize(("ignored", "left"), [(None, ["batch", "web"]), ([], ["batch", "web"]), (["batch", "none"], ["web"]), ("batch, web", [])])
def test_services_whose_pending_tasks_do_not_stop_a_roll(ignored, left):
    """If a service has no room at the start of the run, the run cannot take away its room."""
    before = rooms_to_keep({service: {"running": 1, "pending": 0} for service in ("batch", "web")}, [], ignored)
    assert list(before) == left
    pending = [{"service": service, "count": 1} for service in ("batch", "web")]
    assert newly_pending({"nodes": [], "pending": pending}, before) == [f"service {service} (1 task)" for service in left]


@pytest.mark.parametrize("allowed", [False, "", "false", [], ["other"], None])
def test_an_empty_list_is_no_consent(allowed):
    assert not consented("train", allowed)
    assert planned(renamed(), groups=[group()], nodes=["n1"], allowed=allowed)[0]["gpu-1"].error


def test_hosts_that_do_not_change_cause_no_loss():
    refused = renamed()
    refused.assessed["refused"] = [{"id": "shrink", "text": "less"}]
    assert planned(refused, groups=[group()], nodes=["n1"])[0]["gpu-1"].error == "less"
    same = host(advertised=resources(0, 1))
    assert planned(same, groups=[group()], nodes=["n1"])[0]["gpu-1"].error is None


# --- on the manager -------------------------------------------------------------------------------------------------


def test_the_ledger_reports_what_is_reserved():
    nodes = [swarm_api.node("n1", labels={"a": "b"}), swarm_api.node("n2", leader=True)]
    services = [swarm_api.service("s1", "train"), swarm_api.service("s2", "agent", mode="Global"), swarm_api.service("s3", "old")]
    services.append(swarm_api.service("s4", "sweep", mode="ReplicatedJob"))
    tasks = [
        swarm_api.task("t1", "n1", reserves={KIND: 1, "NanoCPUs": 5}, given=swarm_api.named(UUIDS[0])),
        swarm_api.pending("t2", reserves={KIND: 1, "NanoCPUs": 5}),
        swarm_api.task("t3", "n1", service="s2", reserves={"SSD": 1}, slot=None, constraints=["node.labels.a==b"]),
        swarm_api.task("t4", "n1", service="s2", reserves={"NanoCPUs": 5}),  # no generic resources
        swarm_api.task("t5", "n1", service="s3", reserves={KIND: 1}, state="complete", desired="shutdown"),
        swarm_api.task("t6", "n1", service="s3", reserves={KIND: 1}, state="running", desired="shutdown"),
        swarm_api.task("t7", "n1", service="s3", reserves={KIND: 1}, restart="none"),  # an ended task needs no place
        swarm_api.task("t8", "n1", service="s4", reserves={KIND: 1}, job=True, desired="complete"),
        swarm_api.pending("t9", service="s4", reserves={KIND: 1}, job=True, desired="complete"),
    ]
    message = swarm_ledger.ledger(Listed(nodes, tasks, services), "gpu-swarm.")["reservations"]
    assert message == [
        {"service": "agent", "tasks": 1, "wants": {"SSD": 1}, "able": ["n1"], "nodes": ["n1"]},
        {"service": "sweep", "tasks": 1, "wants": {KIND: 1}, "able": None, "nodes": None},
        {"service": "train", "tasks": 2, "wants": {KIND: 1}, "able": None, "nodes": None},
    ]
