# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of a swarm in every state of nodes, GPUs and services."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families
from queue_fleet import queue, swarm
from queued import queued
from swarm_api import RECORDED_AT, A, B, discrete, named, node, pending, recorded, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY, LEFT_OUT
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._metrics import (
    bounds,
    metric_names,
    node_metrics,
    owner_labels,
    queue_metrics,
    service_metrics,
)
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._metrics.samples import rendered
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.read_queue import queue_in
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

NOW = epoch("2026-11-20T13:00:00Z")
FOR = "gpu-swarm.paused-for"
GPU = "NVIDIA-GPU"
MARK = "gpu-swarm.former-availability"
PAUSED = {MARK: "active", "gpu-swarm.paused-since": "2026-11-20T11:00:00Z"}


def file_of(nodes=(), tasks=(), services=(), lease=None, last_run=None, isolation=None, now=NOW, allocation_findings=(), owners=None):
    values = ledger(Listed(list(nodes), list(tasks), list(services), now), "gpu-swarm.", ["*"])
    values["swarm"] = {"id": "c1", "lease": lease, "last_run": last_run, "isolation": isolation}
    values["allocation_findings"] = allocation_findings
    values["owners"] = owners or {}
    return rendered(values, now, "status")


def read(*args, **options):
    """Return the values that Prometheus reads, by metric and labels. The labels of the node are omitted."""
    families = text_string_to_metric_families(file_of(*args, **options))
    samples = [sample for family in families for sample in family.samples]
    values = {(one.name.partition("gpu_swarm_")[2], *_labels(one.labels)): one.value for one in samples}
    assert len(values) == len(samples)
    return values


def _labels(labels):
    return (value for name, value in sorted(labels.items()) if name not in ("node", "node_id"))


def reports(one, text):
    one["Description"]["Engine"]["Labels"] = {KEY: text}
    return one


# -- nodes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "state", "by", "since"),
    [
        (node(), "ready", "", None),
        (node(availability="pause"), "paused", "hand", None),
        (dict(node(availability="pause"), UpdatedAt="2026-11-20T12:30:00.5Z"), "paused", "hand", NOW - 1800),
        (dict(node(availability="pause", labels=PAUSED), UpdatedAt="2026-11-20T12:30:00Z"), "paused", "run", NOW - 7200),
        (node(availability="pause", labels={**PAUSED, MARK: "active/drain"}), "paused", "hand", None),
        (node(availability="drain", labels={MARK: "active/drain"}), "drained", "run", None),
        (node(availability="drain"), "drained", "hand", None),
        (dict(node(availability="pause", State="down"), UpdatedAt="2026-11-20T12:59:00Z"), "down", "", NOW - 60),
        (node(State="unknown"), "unknown", "", None),
    ],
)  # fmt: skip
def test_the_state_of_a_node_has_its_cause_and_its_time(one, state, by, since):
    values = read([one])
    assert values["node_state", by, state] == 1
    assert values["nodes", by, state] == 1
    assert values.get(("node_closed_since_timestamp_seconds", by, state)) == (pytest.approx(since, abs=1) if since else None)


def test_a_state_without_nodes_has_the_value_0():
    values = read([])
    assert [values["nodes", by, state] for state, by in node_metrics.ALWAYS] == [0] * len(node_metrics.ALWAYS)
    assert (values["pending_services",], values["unreserved_services",], values["resources_allocated_twice",]) == (0, 0, 0)


def test_nodes_of_one_name_are_two():
    text = file_of([node("n1"), dict(node("n2", State="down"), Description=node("n1")["Description"])])
    assert 'gpu_swarm_node_state{node="host-n1",node_id="n1",state="ready",by=""} 1' in text
    assert 'gpu_swarm_node_state{node="host-n1",node_id="n2",state="down",by=""} 1' in text


@pytest.mark.parametrize(
    ("text", "health", "drift"),
    [
        (None, None, None),
        ("ok", "ok", 0),
        (f"warning {A} reason=degraded drift=1f2e3d4c", "warning", 1),
        ("unwatched", "unwatched", 0),
        ("%%", "unknown", 0),
    ],
)
def test_what_a_watcher_reports(text, health, drift):
    values = read([reports(node(), text) if text else node()])
    assert [key[1] for key in values if key[0] == "node_health"] == ([health] if health else [])
    assert values.get(("node_drift",)) == drift
    assert not [key for key in values if key[0].startswith("gpu_fault")]


# -- what is advertised ----------------------------------------------------------------------------------------------


def amounts(values, kind=GPU):
    """Return advertised, allocated, free, schedulable and faulty."""
    return tuple(values[f"node_resources_{what}", kind] for what in ("advertised", "allocated", "free", "schedulable", "faulty"))


@pytest.mark.parametrize(
    ("options", "health", "held", "expected"),
    [
        ({}, None, [], (2, 0, 2, 2, 0)),
        ({}, None, [A], (2, 1, 1, 1, 0)),
        ({"availability": "pause"}, None, [A], (2, 1, 1, 0, 0)),
        ({"State": "down"}, None, [], (2, 0, 2, 0, 0)),
        ({}, f"fault {A} reason=lost", [], (2, 0, 2, 1, 1)),
        ({}, f"fault {A} reason=lost", [A], (2, 1, 1, 1, 1)),
        ({}, f"fault {A} xid=79 cards=9", [], (2, 0, 2, 1, 2)),
        ({}, "fault reason=driver", [A], (2, 1, 1, 0, 2)),
        ({}, "fault GPU-00000000-0000-0000-0000-000000000000 reason=lost", [], (2, 0, 2, 2, 0)),
        ({}, f"warning {A} reason=degraded", [], (2, 0, 2, 2, 0)),
    ],
)
def test_how_many_of_a_kind(options, health, held, expected):
    one = node(resources=named(A, B), **options)
    tasks = [task(f"t{number}", given=named(value)) for number, value in enumerate(held)]
    assert amounts(read([reports(one, health) if health else one], tasks, [service()])) == expected


def test_all_slots_of_a_faulty_card_are_faulty():
    one = node(resources=named(f"{A}.slot1", f"{A}.slot2", f"{B}.slot1"))
    tasks = [task("t0", given=named(f"{A}.slot1"))]
    assert amounts(read([reports(one, f"fault {A} reason=lost")], tasks, [service()])) == (3, 1, 2, 1, 2)


def test_a_group_with_a_faulty_card_is_faulty():
    one = node(resources=named(f"{A}+{B}", "GPU-c+GPU-d"))
    tasks = [task("t0", given=named(f"{A}+{B}"))]
    assert amounts(read([reports(one, f"fault {B} reason=lost")], tasks, [service()])) == (2, 1, 1, 1, 1)


def test_an_amount_and_what_is_no_longer_advertised():
    values = read([node(resources=discrete(16000))], [task("t1", given=[*discrete(6000), *named(A)])], [service()])
    assert amounts(values, "VRAM") == (16000, 6000, 10000, 10000, 0)
    assert amounts(values) == (0, 1, 0, 0, 0)
    assert values["service_resources_allocated", "VRAM", "train"] == 6000
    assert values["gpu_allocated", A, GPU, "", "train"] == 1


def test_the_number_of_kinds_of_a_node_is_limited():
    kinds = [item for number in range(2 * node_metrics.MOST_KINDS) for item in discrete(number + 1, f"K{number}")]
    values = read([node(resources=kinds)])
    shown = {key[1] for key in values if key[0] == "node_resources_advertised"}
    assert len(shown) == node_metrics.MOST_KINDS + 1
    assert values["node_resources_advertised", bounds.OTHERS] == sum(range(node_metrics.MOST_KINDS + 1))


def test_a_card_that_is_unfit_for_work():
    values = read([reports(node(resources=named(A)), f"fault {A} reason=lost xid=79 since=1795341600")])
    assert values["gpu_fault", A, "yes", "", "lost", "", "", "79"] == 1
    assert values["gpu_fault_since_timestamp_seconds", A] == 1795341600
    assert read([reports(node(), "fault reason=mismatch")])["gpu_fault", "", "yes", "", "mismatch", "", "", ""] == 1


def test_a_card_excluded_without_consent_has_its_location():
    """The card is shown once, although the watcher reports it too. For several cards of a node, only their number may be known."""
    place = "pci=00000000:C1:00.0 slot=12 serial=1322"
    left = {LEFT_OUT: f"fault {A} reason=lost {place}; fault {B} reason=failed; fault reason=lost gpu=5; fault reason=lost gpu=6"}
    values = read([reports(node(labels=left), f"fault {B} reason=reset serial=1323")])
    assert {key: value for key, value in values.items() if key[0] == "gpu_fault"} == {
        ("gpu_fault", A, "no", "00000000:C1:00.0", "lost", "1322", "12", ""): 1,
        ("gpu_fault", "", "no", "", "lost", "", "", ""): 1,
        ("gpu_fault", B, "yes", "", "reset", "1323", "", ""): 1,
    }
    assert ("gpu_fault", B, "no", "", "failed", "", "", "") in read([reports(node(labels=left), "warning reason=failed")])


@pytest.mark.parametrize(
    ("options", "is_unfit"),
    [
        ({"labels": {FOR: f"fault {A} reason=lost since=100"}}, False),  # a run returned it and found no fault
        ({"labels": {FOR: f"fault {A} reason=lost"}}, False),
        ({"labels": {FOR: f"fault {A} reason=lost since=99"}}, True),  # the card is lost again
        ({"labels": {FOR: "fault reason=hang since=100"}}, True),
        ({"labels": {FOR: f"fault {A} reason=lost since=100"}, "availability": "pause"}, True),
        ({"labels": {FOR: f"fault {A} reason=lost since=100", "gpu-swarm.former-availability": "active/pause"}}, True),  # returned by hand
    ],
)
def test_a_card_that_a_run_found_healthy_is_no_fault_while_its_report_waits(options, is_unfit):
    values = read([reports(node(resources=named(A, B), **options), f"fault {A} reason=lost since=100")])
    assert [key for key in values if key[0].startswith("gpu_fault")] == (
        [("gpu_fault", A, "yes", "", "lost", "", "", ""), ("gpu_fault_since_timestamp_seconds", A)] if is_unfit else []
    )
    assert values["node_resources_faulty", GPU] == int(is_unfit)


def test_a_card_that_is_allocated_twice():
    values = read([node(resources=named(A))], [task("t1", given=named(A)), task("t2", given=named(A), slot=2)], [service()])
    assert values["resources_allocated_twice",] == 1
    assert values["gpu_allocated_twice", A, GPU] == 2


def test_slots_follow_their_card():
    first, second, other = f"{A}.slot1", f"{A}.slot2", f"{B}.slot1"
    tasks = [
        task("t1", given=named(first, second)),
        task("t2", given=named(first, other), slot=2),
        task("t3", given=named(first, second), slot=3),
    ]
    values = read([node(resources=named(first, second, other))], tasks, [service()])
    assert [key for key in values if key[0] == "gpu_allocated"] == [("gpu_allocated", card, GPU, "", "train") for card in (A, B)]
    assert values["resources_allocated_twice",] == 2
    assert {key: value for key, value in values.items() if key[0] == "gpu_allocated_twice"} == {("gpu_allocated_twice", A, GPU): 3}


def test_a_group_counts_for_each_of_its_cards():
    tasks = [task("t1", given=named(f"{A}+{B}")), task("t2", given=named(f"{A}+{B}"), slot=2)]
    values = read([node(resources=named(f"{A}+{B}"))], tasks, [service()])
    assert [key for key in values if key[0] == "gpu_allocated"] == [("gpu_allocated", card, GPU, "", "train") for card in (A, B)]
    twice = {("gpu_allocated_twice", card, GPU): 2 for card in (A, B)}
    assert {key: value for key, value in values.items() if key[0] == "gpu_allocated_twice"} == twice


def free_in(found):
    return [key for key in found if key[0] == "gpu_free"]


def test_a_gpu_that_no_task_has_is_free():
    slots = (f"{A}.slot1", f"{A}.slot2", f"{B}.slot1", f"{B}.slot2")
    assert free_in(read([node(resources=named(A, B))], [task("t1", given=named(A))], [service()])) == [("gpu_free", B, GPU)]
    # A card is not free if one of its slots is allocated.
    assert free_in(read([node(resources=named(*slots))], [task("t1", given=named(slots[0]))], [service()])) == [("gpu_free", B, GPU)]
    assert free_in(read([node(resources=named(f"{A}+{B}"))])) == [("gpu_free", card, GPU) for card in (A, B)]
    # Resources that are not GPUs have no cards. Resources with an amount have no cards either.
    assert free_in(read([node(resources=named("disk1", kind="SSD") + discrete(8000, kind="VRAM"))])) == []


# -- services --------------------------------------------------------------------------------------------------------


def test_a_service_that_is_pending():
    big = {"NVIDIA-GPU": 8}
    tasks = [
        pending("t1", big, service="s1", since="2026-11-20T12:30:00Z"),
        pending("t2", big, service="s1", since="2026-11-20T12:00:00Z", error="another reason"),
        pending("t3", {GPU: 1}, service="s2", since="2026-11-20T12:59:00Z"),
    ]
    values = read([node(resources=named(A, B))], tasks, [service("s1", "huge", reserves=big), service("s2", "small", reserves={GPU: 1})])
    assert values["pending_services",] == 2
    assert (values["pending_tasks", "huge"], values["pending_since_timestamp_seconds", "huge"]) == (2, NOW - 3600)
    assert (values["pending_reserved", GPU, "huge"], values["pending_possible", "huge"]) == (8, 0)
    assert (values["pending_tasks", "small"], values["pending_possible", "small"]) == (1, 1)


def test_some_services_are_named_and_all_others_are_one():
    number = service_metrics.MOST_SERVICES + 10
    tasks = [pending(f"t{one}", {GPU: 1}, service=f"s{one}", since=f"2026-11-20T12:{one:02d}:00Z"[:20]) for one in range(60)]
    values = read([], tasks, [service(f"s{one}", f"job-{one}") for one in range(number)])
    shown = {key[1]: value for key, value in values.items() if key[0] == "pending_tasks"}
    assert len(shown) == service_metrics.MOST_SERVICES + 1
    assert shown[bounds.OTHERS] == 10  # the ten newest services
    assert {"job-0", "job-49"} <= set(shown)
    assert values["pending_since_timestamp_seconds", bounds.OTHERS] == NOW - 10 * 60
    assert not [key for key in values if key[0] == "pending_reserved" and bounds.OTHERS in key]


def test_an_array_of_jobs_is_one_service():
    tasks = [task(f"t{one}", f"n{one}", given=named(f"GPU-{one}"), slot=one, job=True) for one in range(200)]
    text = file_of([node(f"n{one}") for one in range(200)], tasks, [service(mode="ReplicatedJob")])
    assert [line for line in text.splitlines() if line.startswith("gpu_swarm_service_")] == [
        'gpu_swarm_service_resources_allocated{service="train",kind="NVIDIA-GPU"} 200'
    ]


def allocated_to(owners, count, given):
    """Return what is allocated to each owner. Service number N has N + 1 GPUs if ``given`` is true, or else one."""
    services = [service(f"s{one}", f"job-{one}") for one in range(count)]
    cards = [[f"GPU-{one}-{card}" for card in range(one + 1 if given else 1)] for one in range(count)]
    tasks = [task(f"t{one}", service=f"s{one}", given=named(*cards[one])) for one in range(count)]
    return read([node()], tasks, services, owners=owners)


def test_the_owner_of_a_service_has_its_resources():
    values = allocated_to({"job-1": "alice", "job-2": "bob", "job-3": "alice", "gone": "carol"}, 4, True)
    shown = {key[2]: value for key, value in values.items() if key[0] == "owner_resources_allocated"}
    assert shown == {"": 1, "alice": 6, "bob": 3}
    assert values["gpu_allocated", "GPU-1-0", GPU, "alice", "job-1"] == 1
    assert values["gpu_allocated", "GPU-0-0", GPU, "", "job-0"] == 1


def test_many_owners_are_some_owners_and_all_others():
    count = owner_labels.MOST_OWNERS + 5
    values = allocated_to({f"job-{one}": f"owner {one}" for one in range(1, count)}, count, True)
    shown = {key[2]: value for key, value in values.items() if key[0] == "owner_resources_allocated"}
    assert len(shown) == owner_labels.MOST_OWNERS + 2
    assert shown[bounds.OTHERS] == sum(one + 1 for one in range(1, 5))  # the four smallest
    assert shown[""] == 1
    assert values["gpu_allocated", "GPU-1-0", GPU, bounds.OTHERS, "job-1"] == 1


def test_owners_whose_shown_names_are_equal_are_added():
    long = "x" * 500
    values = allocated_to({"job-0": long + "1", "job-1": long + "2", "job-2": '"}\n'}, 3, False)
    shown = {key[2]: value for key, value in values.items() if key[0] == "owner_resources_allocated"}
    assert shown == {"x" * 128: 2, '"}\n': 1}


def test_a_service_that_sees_gpus():
    peek = service("s2", "peek", env=["NVIDIA_VISIBLE_DEVICES=all"])
    share = service("s3", "share", env=["NVIDIA_VISIBLE_DEVICES=0"], reserves={"VRAM": 1})
    values = read([node(resources=named(A))], [task("t2", service="s2"), task("t3", service="s3")], [peek, share])
    assert values["unreserved_services",] == 1
    assert [key[1] for key in values if key[0] == "service_unreserved"] == ["peek"]


# -- the swarm -------------------------------------------------------------------------------------------------------


def test_the_leader_and_the_time():
    values = read([node("n1", leader=True, engine="29.6.1")])
    assert values["snapshot_timestamp_seconds",] == NOW
    assert values["info", "host-n1", "29.6.1", "status", "c1"] == 1


@pytest.mark.parametrize(
    ("lease", "since", "until"),
    [
        (None, None, None),
        ({"holder": "alice", "since": "2026-11-20T12:00:00Z", "expires_in": 60}, NOW - 3600, NOW + 60),
        ({"holder": "alice", "since": "2026-11-20T12:00:00Z", "expires_in": 0}, None, None),
        ({"holder": "a label of somebody else", "since": None, "expires_in": None}, None, None),
    ],
)
def test_a_run_that_has_the_lease(lease, since, until):
    values = read([], lease=lease)
    assert (values.get(("run_lease_since_timestamp_seconds",)), values.get(("run_lease_until_timestamp_seconds",))) == (since, until)


@pytest.mark.parametrize(("always", "runs"), [(True, "all"), (False, "changing")])
def test_the_last_run(always, runs):
    values = read(last_run={"ended": "2026-11-20T12:00:00Z", "hosts": {"done": 7, "failed": 1, "else": 2}, "always": always})
    assert values["run_end_timestamp_seconds", runs] == NOW - 3600
    hosts = {key[1]: value for key, value in values.items() if key[0] == "run_hosts"}
    assert hosts == {"done": 7, "waiting": 0, "untouched": 0, "failed": 1}


def test_every_metric_has_its_labels_in_each_line_and_a_help_text():
    whole = file_of(recorded("nodes"), recorded("tasks"), recorded("services"), now=epoch(RECORDED_AT))
    by_name = {metric.name: metric for metric in metric_names.METRICS}
    assert len(by_name) == len(metric_names.METRICS)
    families = list(text_string_to_metric_families(whole))
    assert len(families) > 15
    for family in families:
        assert {tuple(sample.labels) for sample in family.samples} == {by_name[family.name].labels}
        assert (family.type, family.documentation) == ("gauge", by_name[family.name].help)
    assert [metric.name for metric in metric_names.METRICS if not metric.help.endswith(".")] == []


def test_isolation_has_metrics():
    shown = {"level": "audit", "nodes": {"n1": "audit"}, "read": "2026-11-20T12:00:00Z", "found": []}
    shown["found"] = [{"service": "a", "last": "2026-11-20T12:00:00Z"}, {"service": "long ago", "last": "2026-11-12T12:00:00Z"}]
    fleet = [node("n1", resources=named(A)), node("n2", resources=named(B)), node("m1", leader=True)]
    text = file_of(fleet, isolation=shown)
    assert [line for line in text.splitlines() if line.startswith(("gpu_swarm_isolation", "gpu_swarm_node_isolation"))] == [
        'gpu_swarm_isolation{level="audit"} 1',
        'gpu_swarm_node_isolation{node="host-n1",node_id="n1",level="audit"} 1',
        'gpu_swarm_node_isolation{node="host-n2",node_id="n2",level="off"} 1',
        "gpu_swarm_isolation_found_services 1",
        "gpu_swarm_isolation_read_timestamp_seconds %d" % (NOW - 3600),
    ]
    off = file_of(fleet, isolation={"level": "off", "nodes": {}, "read": None, "found": []})
    assert [line for line in off.splitlines() if "isolation" in line and not line.startswith("#")] == ['gpu_swarm_isolation{level="off"} 1']


def test_differences_of_processes_and_reservations_have_metrics():
    values = {"hostname": "host-n1", "node": "n1", "card": A, "since": "2026-11-20T12:00:00Z", "service": None}
    earlier = {**values, "name": "outside", "since": "2026-11-20T11:00:00Z"}
    differing = [{**values, "name": "outside"}, earlier, {**values, "name": "idle", "service": "train"}]
    of_card = f'{{UUID="{A}",node="host-n1",node_id="n1",finding='
    idle, outside = of_card + '"idle",service="train"}', of_card + '"outside",service=""}'
    names = ("gpu_swarm_allocation_findings", "gpu_swarm_gpu_allocation_finding")
    assert [line for line in file_of(allocation_findings=differing).splitlines() if line.startswith(names)] == [
        'gpu_swarm_allocation_findings{finding="idle"} 1',
        'gpu_swarm_allocation_findings{finding="no-load"} 0',
        'gpu_swarm_allocation_findings{finding="not-held"} 0',
        'gpu_swarm_allocation_findings{finding="outside"} 2',
        'gpu_swarm_allocation_findings{finding="seen-by-another"} 0',
        'gpu_swarm_allocation_findings{finding="used-by-another"} 0',
        f"gpu_swarm_gpu_allocation_finding{idle} 1",
        f"gpu_swarm_gpu_allocation_finding{outside} 1",
        f"gpu_swarm_gpu_allocation_finding_since_timestamp_seconds{idle} {NOW - 3600:.0f}",
        f"gpu_swarm_gpu_allocation_finding_since_timestamp_seconds{outside} {NOW - 7200:.0f}",
    ]


# -- queues ------------------------------------------------------------------------------------------------------------


def queue_values(view):
    values = ledger(swarm(), "gpu-swarm.", ["*"])
    values.update(swarm={"id": "c1"}, allocation_findings=(), owners={}, queue=view)
    families = text_string_to_metric_families(rendered(values, NOW, "status"))
    samples = [sample for family in families for sample in family.samples if "queue" in sample.name or sample.name == "gpu_swarm_pending_services"]
    return {(one.name.partition("gpu_swarm_")[2], *(one.labels[name] for name in sorted(one.labels, reverse=True))): one.value for one in samples}


def test_queues_have_their_work_their_reasons_and_what_they_use():
    values = queue_values(queue())
    assert {key: value for key, value in values.items() if value} == {
        ("queue_work", "waiting", "nightly"): 1,
        ("queue_work", "refused", "nightly"): 1,
        ("queue_work", "held", "nightly"): 1,
        ("queue_work", "waiting", "research"): 4,
        ("queue_work", "running", "research"): 1,
        ("queue_work", "waiting", "(no such queue)"): 1,
        ("queue_waiting", "fits-nowhere", "nightly"): 1,
        ("queue_waiting", "next", "research"): 1,
        ("queue_waiting", "cap", "research"): 3,
        ("queue_waiting", "no-queue", "(no such queue)"): 1,
        ("queue_waiting_since_timestamp_seconds", "nightly"): epoch("2026-11-20T12:00:00Z"),
        ("queue_waiting_since_timestamp_seconds", "research"): epoch("2026-11-20T12:00:00Z"),
        ("queue_waiting_since_timestamp_seconds", "(no such queue)"): epoch("2026-11-20T12:00:00Z"),
        ("queue_nodes_kept", "research"): 1,
        ("queue_resources_used", "research", GPU): 8,
        ("queue_resources_max", "research", GPU): 12,
        ("queue_share", "research"): pytest.approx(0.1667),
    }
    assert (values["pending_services",], values["queues_closed",], values["queue_share", "nightly"]) == (0, 0, 0)


def test_queues_that_admit_nothing_are_closed():
    assert queue_values({**queue(), "problem": "the swarm keeps no ended tasks"})["queues_closed",] == 1


@pytest.mark.parametrize("view", [None, {"queues": [], "work": [], "problem": ""}])
def test_a_swarm_without_queues_has_no_metrics_of_queues(view):
    assert set(queue_values(view)) <= {("pending_services",), ("queues_closed",)}
    assert (("queues_closed",) in queue_values(view)) == (view is not None)


def test_queues_have_few_kinds_however_many_are_reserved():
    view = queue()
    view["queues"][1]["used"] = {f"KIND-{number:02d}": 100 - number for number in range(50)}
    used = {key[2]: value for key, value in queue_values(view).items() if key[:2] == ("queue_resources_used", "research")}
    assert len(used) == queue_metrics.MOST_KINDS + 2
    assert (used[GPU], used["KIND-00"], used["(others)"]) == (0, 100, sum(100 - number for number in range(20, 50)))


def test_services_cannot_add_queues_to_the_metrics():
    view = queue_in(Listed([node()], [], [queued(f"s{number}", queue=f"q{number}") for number in range(300)], NOW), {}, NOW)
    assert {key[-1] for key in queue_values(view) if key[0] == "queue_work"} == {"(no such queue)"}
