# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, B, discrete, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._verify import guard_probes, plan

PREFIX = "gpu-swarm."
C = "GPU-5fa2e7a4-8888-4c53-9d1f-0c9a7d1e2f32"
MIG = "MIG-5c89852c-d268-5000-8000-000000000004"


def nodes(*api, tasks=()):
    return ledger(Listed(list(api), list(tasks), [service()]), PREFIX)["nodes"]


def first(names, count):
    return names[:count]


def checks(found, wanted=None, gpus="1", sample="all", choose=first, levels=None, memory=None):
    return plan.checks(found, wanted, plan.Extent(gpus, sample, choose), plan.Guarded(levels, memory))


def brief(found):
    return [(check["node"], check["kind"], check["state"], check["count"], check["others"], check["verdict"]) for check in found]


def test_a_check_for_each_node_and_kind_that_names_gpus():
    two = node("n1", resources=[*named(A, B), *discrete(8000), *named(MIG, kind="MIG-1g.10gb"), *named("fast", kind="SSD")])
    assert brief(checks(nodes(two, node("n2", resources=named(C)), node("n3")))) == [
        ("n1", "MIG-1g.10gb", "planned", 1, 2, ""),
        ("n1", "NVIDIA-GPU", "planned", 1, 2, ""),
        ("n2", "NVIDIA-GPU", "planned", 1, 0, ""),
    ]


@pytest.mark.parametrize(
    ("gpus", "allocated", "count"),
    [("1", [], 1), (1, [], 1), ("2", [], 2), ("8", [], 3), ("all", [], 3), (" All ", [], 3), ("all", [B], 2), ("3", [B], 2), ("1", [A, B], 1)],
)
def test_only_free_gpus_are_reserved(gpus, allocated, count):
    busy = [task("t1", given=named(*allocated))] if allocated else []
    (check,) = checks(nodes(node(resources=named(A, B, C)), tasks=busy), gpus=gpus)
    assert (check["state"], check["count"], check["others"]) == ("planned", count, 3 - count)


def test_groups_are_reserved_like_whole_gpus():
    groups = named(f"{A}+{B}", f"{C}+GPU-d", kind="NVIDIA-GROUP")
    assert brief(checks(nodes(node(resources=groups)), gpus="all")) == [("n1", "NVIDIA-GROUP", "planned", 2, 0, "")]


@pytest.mark.parametrize(("gpus", "tasks", "tested"), [("1", [], 1), ("2", [], 2), ("8", [], 3), ("all", [], 3), ("all", [f"{A}.slot2"], 2)])
def test_each_slot_has_its_own_task(gpus, tasks, tested):
    slots = named(f"{A}.slot1", f"{A}.slot2", f"{B}.slot1", kind="NVIDIA-SLOT")
    busy = [task("t1", given=named(*tasks, kind="NVIDIA-SLOT"))] if tasks else []
    found = brief(checks(nodes(node(resources=slots), tasks=busy), gpus=gpus))
    assert found == [("n1", "NVIDIA-SLOT", "planned", 1, 2, "")] * tested
    probes = checks(nodes(node(resources=slots), tasks=busy), gpus=gpus, levels={"n1": "reserved"})[tested:]
    assert [check["probe"] for check in probes] == ["unreserved", "beside"]


@pytest.mark.parametrize(
    ("one", "tasks", "state", "words"),
    [
        (node(resources=named(A)), [task("t1", given=named(A))], "untested", "nothing free to test with"),
        (node(resources=discrete(8000)), [], "untested", "no named GPUs"),
        (node(), [], "untested", "no named GPUs"),
        (node(resources=named(A), availability="pause"), [], "untested", "it takes no tasks (availability pause)"),
        (node(resources=named(A), availability="drain"), [], "untested", "it takes no tasks (availability drain)"),
        (node(resources=named(A), State="down"), [], "failed", "down according to the manager. Check its dockerd (journalctl -u docker)"),
        (node("other", resources=named(A)), [], "failed", "not in the swarm. Run fleet.gpu_swarm.provision for it"),
    ],
)
def test_an_impossible_test_has_its_reason(one, tasks, state, words):
    (check,) = checks(nodes(one, tasks=tasks), wanted=["n1"])
    assert (check["state"], check["verdict"], check["count"]) == (state, words, 0)


@pytest.mark.parametrize(
    ("sample", "chosen"),
    [("all", 4), ("100%", 4), ("1", 1), (3, 3), ("9", 4), ("50%", 2), ("1%", 1)],
)
def test_a_sample_uses_nodes_with_free_gpus(sample, chosen):
    fleet = [node("n%d" % number, resources=named("GPU-%08d-0000-0000-0000-000000000000" % number)) for number in range(5)]
    found = checks(nodes(*fleet, tasks=[task("t1", "n0", given=named("GPU-00000000-0000-0000-0000-000000000000"))]), sample=sample)
    assert [check["state"] for check in found] == ["untested"] + ["planned"] * chosen + ["untested"] * (4 - chosen)
    assert [check["verdict"] for check in found if check["node"] != "n0"] == [""] * chosen + ["not in the sample"] * (4 - chosen)


def test_an_empty_sample_has_no_checks():
    assert checks([], wanted=[]) == []


ALL_OF_IT = ["NVIDIA_VISIBLE_DEVICES", "DOCKER_RESOURCE_NVIDIA-GPU"]


def probes(found):
    keys = ("node", "probe", "level", "kind", "state", "count", "others", "variables")
    return [tuple(check[key] for key in keys) for check in found if check["probe"] != "allocated"]


@pytest.mark.parametrize("level", ["reserved", "exclusive"])
def test_a_guard_is_tested_without_a_reservation_and_beside_one(level):
    found = checks(nodes(node("n1", resources=named(A, B, C)), node("n2", resources=named(A))), levels={"n1": level})
    assert [check["probe"] for check in found] == ["allocated", "unreserved", "beside", "allocated"]
    assert probes(found) == [
        ("n1", "unreserved", level, None, "planned", 0, 3, ALL_OF_IT),
        ("n1", "beside", level, "NVIDIA-GPU", "planned", 1, 2, ALL_OF_IT),
    ]


BY_MEMORY = {"gpu.count": "1"}


@pytest.mark.parametrize("wanted", [None, ["n1"]])
def test_nodes_with_only_memory_are_tested_without_a_reservation(wanted):
    found = checks(nodes(node("n1", BY_MEMORY, resources=discrete(8000))), wanted, levels={"n1": "reserved"})
    assert [(check["probe"], check["state"], check["verdict"]) for check in found] == [
        ("allocated", "untested", "no named GPUs"),
        ("unreserved", "planned", ""),
    ]
    assert probes(found) == [("n1", "unreserved", "reserved", None, "planned", 0, 0, ["NVIDIA_VISIBLE_DEVICES"])]
    template = plan.service(dict(found[1], image={"reference": "cuda:1"}), "v-1", {}, ["nvidia-smi"])["TaskTemplate"]
    assert template["ContainerSpec"]["Env"][0] == "NVIDIA_VISIBLE_DEVICES=all"


@pytest.mark.parametrize(
    ("labels", "level", "more"),
    [({}, "reserved", {}), (BY_MEMORY, "audit", {}), (BY_MEMORY, None, {}), (BY_MEMORY, "reserved", {"availability": "drain"})],
)
def test_without_gpus_or_an_enforcing_guard_nothing_is_tested(labels, level, more):
    (check,) = checks(nodes(node("n1", labels, resources=discrete(8000), **more)), ["n1"], levels={"n1": level})
    assert check["state"] == "untested"


@pytest.mark.parametrize("level", ["off", "audit", None, "", "else"])
def test_without_enforcement_isolation_is_not_tested(level):
    assert probes(checks(nodes(node(resources=named(A, B))), levels={"n1": level})) == []


@pytest.mark.parametrize(
    ("gpus", "allocated", "found"),
    [
        ("1", [], ["unreserved", "beside"]),
        ("all", [], ["unreserved", "after the others"]),
        ("2", [B], ["unreserved", "after the others"]),
        ("1", [A, B], ["unreserved", "after the others"]),
        ("1", [A, B, C], ["unreserved"]),  # no GPU is free, but this check needs none
    ],
)
def test_a_check_beside_a_reservation_waits_for_free_gpus(gpus, allocated, found):
    busy = [task("t1", given=named(*allocated))] if allocated else []
    there = nodes(node(resources=named(A, B, C)), tasks=busy)
    made = checks(there, gpus=gpus, levels={"n1": "reserved"})
    (together, *after) = guard_probes.rounds([check for check in made if check["state"] == "planned"], there, 500)
    assert [one["probe"] for one in together if one["probe"] != "allocated"] + ["after the others" for (_check,) in after] == found


def test_many_checks_run_in_rounds_with_each_node_in_one_round():
    fleet = nodes(*(node("n%d" % number, resources=named(f"{A}.slot1", f"{B}.slot1", kind="NVIDIA-SLOT")) for number in range(3)))
    found = guard_probes.rounds(checks(fleet, gpus="auto"), fleet, 5)
    assert [[check["node"] for check in part] for part in found] == [["n0", "n0", "n1", "n1"], ["n2", "n2"]]
    assert [len(part) for part in guard_probes.rounds(checks(fleet, gpus="auto"), fleet, 1)] == [2, 2, 2]
    assert guard_probes.rounds([], fleet, 5) == []


@pytest.mark.parametrize("allocated", [0, 1])
def test_by_default_one_gpu_of_a_kind_and_each_free_slot_is_tested(allocated):
    slots = [f"{card}.slot{number}" for card in (A, B) for number in (1, 2)]
    busy = [task("t1", given=named(*slots[:allocated], kind="NVIDIA-SLOT"))] if allocated else []
    one = node(resources=[*named(C, C[:-1] + "3"), *named(*slots, kind="NVIDIA-SLOT")])
    found = brief(checks(nodes(one, tasks=busy), gpus="auto"))
    assert found == [("n1", "NVIDIA-GPU", "planned", 1, 5, "")] + [("n1", "NVIDIA-SLOT", "planned", 1, 5, "")] * (4 - allocated)


def test_slots_that_are_not_tested_by_default_are_named():
    slots = named(*(f"{A}.slot{number}" for number in range(70)), kind="NVIDIA-SLOT")
    found = brief(checks(nodes(node(resources=slots)), gpus="auto"))
    assert found[:-1] == [("n1", "NVIDIA-SLOT", "planned", 1, 69, "")] * 64
    assert found[-1] == ("n1", "NVIDIA-SLOT", "untested", 0, 0, "6 more slots; verify_gpus: all tests them too")
    assert len(checks(nodes(node(resources=slots)), gpus="all")) == 70


MEMORY = {"VRAM-C1": {"devices": [A], "mib": 301}, "VRAM-C2": {"devices": [B], "mib": 301}}


@pytest.mark.parametrize("level", ["reserved", "exclusive", "audit", None])
def test_a_task_reserves_the_least_memory_of_each_card_and_sees_the_card(level):
    one = node("n1", BY_MEMORY, resources=[*named(C), *discrete(8000, "VRAM-C1"), *discrete(8000, "VRAM-C2"), *discrete(5, "LICENSE")])
    found = [check for check in checks(nodes(one), levels={"n1": level}, memory={"n1": MEMORY}) if check["probe"] == "memory"]
    shown = [(check["kind"], check["count"], check["others"], check["reserved"], check["level"], check["state"]) for check in found]
    expected = [("VRAM-C1", 301, 2, [A], level, "planned"), ("VRAM-C2", 301, 2, [B], level, "planned")]
    assert shown == (expected if level in ("reserved", "exclusive") else [])


def test_memory_in_use_is_not_tested():
    busy = [task("t1", given=discrete(7900, "VRAM-C1"))]
    there = nodes(node("n1", BY_MEMORY, resources=discrete(8000, "VRAM-C1")), tasks=busy)
    found = [check for check in checks(there, levels={"n1": "reserved"}, memory={"n1": MEMORY}) if check["probe"] != "unreserved"]
    assert brief(found) == [("n1", "VRAM-C1", "untested", 0, 0, "nothing free to test with")]
    assert found[0]["reserved"] == []


def test_one_of_several_kinds_is_tested_beside_a_reservation_and_all_without():
    two = node(resources=[*named(A, kind="NVIDIA-A"), *named(B, C, kind="NVIDIA-B"), *discrete(8000)])
    (without, beside) = probes(checks(nodes(two), levels={"n1": "reserved"}))
    assert without[-1] == ["NVIDIA_VISIBLE_DEVICES", "DOCKER_RESOURCE_NVIDIA-A", "DOCKER_RESOURCE_NVIDIA-B"]
    assert (beside[3], beside[-1]) == ("NVIDIA-B", ["NVIDIA_VISIBLE_DEVICES", "DOCKER_RESOURCE_NVIDIA-B"])


@pytest.mark.parametrize("more", [{"availability": "pause"}, {"State": "down"}])
def test_on_a_node_that_takes_no_tasks_nothing_is_tested(more):
    assert probes(checks(nodes(node(resources=named(A), **more)), levels={"n1": "reserved"})) == []


def test_the_sample_counts_nodes_and_not_services():
    fleet = [node("n%d" % number, resources=named("GPU-%08d-0000-0000-0000-000000000000" % number)) for number in range(4)]
    found = checks(nodes(*fleet), sample="2", levels={"n%d" % number: "reserved" for number in range(4)})
    assert [one[0] for one in probes(found) if one[4] == "planned"] == ["n0", "n0", "n1", "n1"]
    assert {check["verdict"] for check in found if check["node"] in ("n2", "n3")} == {"not in the sample"}


@pytest.mark.parametrize("which", [0, 1])
def test_a_service_that_requests_more_than_it_reserves(which):
    check = [one for one in checks(nodes(node(resources=named(A, B))), levels={"n1": "reserved"}) if one["probe"] != "allocated"][which]
    template = plan.service(dict(check, image={"reference": "cuda:1"}), "v-1", {}, ["nvidia-smi"])["TaskTemplate"]
    assert template["ContainerSpec"]["Env"] == [*(name + "=all" for name in ALL_OF_IT), "NVIDIA_DRIVER_CAPABILITIES=utility"]
    assert template["Resources"]["Reservations"]["GenericResources"] == (discrete(1, "NVIDIA-GPU") if which else [])
    assert (template["Placement"], template["RestartPolicy"]) == ({"Constraints": ["node.id==n1"]}, {"Condition": "none"})


@pytest.mark.parametrize(("option", "value"), [(key, value) for key in ("gpus", "sample") for value in ("0", "-1", "many", "", "1.5", "0%")])
def test_a_value_that_is_no_number_is_refused(option, value):
    with pytest.raises(GpuSwarmError, match="^%s: '%s' is not a number of .*Give a number" % (option, value)):
        checks(nodes(node(resources=named(A))), **{option: value})


@pytest.mark.parametrize(("line", "words"), [("nvidia-smi -L", ["nvidia-smi", "-L"]), ("sh -c 'a b'", ["sh", "-c", "a b"])])
def test_a_command_line_is_parsed(line, words):
    assert plan.argv(line) == words


@pytest.mark.parametrize(("line", "expected"), [("", "it is empty"), ("sh 'a", "Close its quotes")])
def test_an_invalid_command_line_is_refused(line, expected):
    with pytest.raises(GpuSwarmError, match=expected):
        plan.argv(line)


@pytest.mark.parametrize(("others", "visible"), [(1, "all"), (0, "void")])
def test_a_service_reserves_gpus_and_requests_others_that_swarm_must_override(others, visible):
    check = dict(checks(nodes(node(resources=named(A, B))), gpus="2")[0], others=others, image={"reference": "cuda:1"})
    made = plan.service(check, "v-1", {"a": "b"}, ["nvidia-smi", "-L"])
    template = made.pop("TaskTemplate")
    assert made == {"Name": "v-1", "Labels": {"a": "b"}, "Mode": {"Replicated": {"Replicas": 1}}}
    assert template["Placement"] == {"Constraints": ["node.id==n1"]}
    assert template["RestartPolicy"] == {"Condition": "none"}
    assert template["LogDriver"] == {"Name": "json-file"}
    assert template["Resources"]["Reservations"]["GenericResources"] == [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": 2}}]
    container = template["ContainerSpec"]
    assert (container["Image"], container["Command"]) == ("cuda:1", ["nvidia-smi", "-L"])
    assert container["Env"] == ["NVIDIA_VISIBLE_DEVICES=%s" % visible, "NVIDIA_DRIVER_CAPABILITIES=utility"]


@pytest.mark.parametrize(("until", "found"), [("99", ["s1"]), ("100", []), ("101", []), ("", []), ("soon", []), (None, [])])
def test_expired_services_count_as_leftovers(until, found):
    one = service()
    one["Spec"]["Labels"] = {} if until is None else {"gpu-swarm.verify": "1", "gpu-swarm.verify-until": until}
    assert plan.abandoned_services([one], PREFIX, 100) == found


def test_slots_of_a_kind_share_a_service_and_other_checks_have_one_each():
    slots = named(f"{A}.slot1", f"{A}.slot2", kind="SLOT")
    fleet = nodes(*(node(name, resources=[*named(C), *slots, *named(f"{B}.slot1", kind="LARGE")]) for name in ("n1", "n2")))
    found = guard_probes.by_service(checks(fleet, gpus="auto", levels={"n1": "reserved"}))
    assert [(group[0]["node"], group[0]["probe"], group[0]["kind"], len(group)) for group in found] == [
        ("n1", "allocated", "LARGE", 1),
        ("n1", "allocated", "NVIDIA-GPU", 1),
        ("n1", "allocated", "SLOT", 2),
        ("n1", "unreserved", None, 1),
        ("n1", "beside", "LARGE", 1),
        ("n2", "allocated", "LARGE", 1),
        ("n2", "allocated", "NVIDIA-GPU", 1),
        ("n2", "allocated", "SLOT", 2),
    ]
