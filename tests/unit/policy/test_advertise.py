# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from gpu_records import discrete, gpu, named, t4, uuid

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import advertise
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.advertise import PolicyError, check_rules, decide, find_drift

# --- deciding -------------------------------------------------------------------------------------------------------


def test_by_default_every_gpu_is_advertised_by_its_full_uuid():
    assert decide([gpu(1), gpu(0)]) == {
        "resources": [f"NVIDIA-GPU={uuid(0)}", f"NVIDIA-GPU={uuid(1)}"],
        "kinds": ["NVIDIA-GPU"],
        "gpu_kinds": ["NVIDIA-GPU"],
        "owned_kinds": ["NVIDIA-GPU"],
        "swarm_resource": "DOCKER_RESOURCE_NVIDIA-GPU",
        "advertised": [{"index": i, "uuid": uuid(i), "name": "NVIDIA H100 80GB HBM3", "devices": []} for i in (0, 1)],
        "left_out": [],
        "unselected": [],
        "not_wanted": [],
        "forgotten": [],
        "rules": 1,
        "idle_rules": [],
        "memory_kinds": [],
        "memory_mib": 0,
        "map": {},
        "card_mib": {},
        "warnings": [],
    }


@pytest.mark.parametrize("gpus", [[], [gpu(0, health={"state": "failed", "reasons": ["GPU is lost"]})]])
def test_there_may_be_nothing_to_advertise(gpus):
    decided = decide(gpus)
    assert (decided["resources"], decided["kinds"], decided["swarm_resource"]) == ([], [], "")
    assert decided["owned_kinds"] == ["NVIDIA-GPU"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"health": {"state": "failed", "reasons": ["GPU is lost", "no UUID"]}, "uuid": None}, "GPU is lost; no UUID"),
        ({"health": {"state": "failed", "reasons": []}}, "it failed"),
        ({"uuid": None}, "UUID could not be read"),
        ({"uuid": "GPU-c143e771"}, "'GPU-c143e771' is not a full GPU UUID"),
        ({"mig": {"mode": "enabled", "pending": "enabled"}}, "MIG mode"),
        ({"uuid": uuid(0)}, "same UUID"),
    ],
)
def test_a_gpu_that_cannot_be_advertised_is_named(changes, reason):
    decided = decide([gpu(0), gpu(1, **changes)])
    assert decided["resources"] == [f"NVIDIA-GPU={uuid(0)}"]
    (left,) = decided["left_out"]
    assert (left["index"], left["name"]) == (1, "NVIDIA H100 80GB HBM3")
    assert reason in left["reason"]


@pytest.mark.parametrize("health", [{"state": "warning", "reasons": ["a page retirement is pending"]}, None])
def test_only_a_failed_gpu_is_excluded(health):
    assert len(decide([gpu(0, health=health)])["resources"]) == 1


def test_first_rule_that_selects_a_gpu_owns_it():
    rules = [
        {"as": "none", "select": {"index": 0}},
        {"as": "gpu", "kind": "SMALL", "select": {"model": "*T4*"}},
        {"as": "gpu", "kind": "GPU", "select": {"index": [0, 1, 2]}},
    ]
    decided = decide([gpu(0), t4(1), gpu(2), gpu(3)], rules)
    assert decided["resources"] == [f"SMALL={uuid(1)}", f"GPU={uuid(2)}"]
    assert decided["swarm_resource"] == "DOCKER_RESOURCE_SMALL,DOCKER_RESOURCE_GPU"
    assert [(one["index"], one["reason"]) for one in decided["unselected"]] == [
        (0, "left to the host by a rule"),
        (3, "no rule selects it"),
    ]


@pytest.mark.parametrize(
    ("select", "indexes"),
    [
        (None, [0, 1, 2]),
        ({}, [0, 1, 2]),
        ({"uuid": uuid(1)}, [1]),
        ({"uuid": uuid(10)}, []),
        ({"uuid": [uuid(0), uuid(2)]}, [0, 2]),
        ({"pci_bus_id": "00000000:C1:00.0"}, [1]),
        ({"pci_bus_id": ["0000:c1:00.0", "c2:00.0"]}, [1, 2]),
        ({"index": 0}, [0]),
        ({"index": ["0", 2]}, [0, 2]),
        ({"model": "*T4*"}, [2]),
        ({"model": ["Tesla T4", "nothing"]}, [2]),
        ({"model": "NVIDIA-H100-*"}, [0, 1]),
        ({"min_memory_mib": 40000}, [0]),
        ({"min_memory_mib": "15360"}, [0, 2]),
        ({"model": "*H100*", "index": [1, 2]}, [1]),
    ],
)
def test_rules_select_gpus(select, indexes):
    gpus = [gpu(0), gpu(1, memory_mib=None), t4(2)]
    decided = decide(gpus, [{"as": "gpu", "kind": "GPU", "select": select}])
    assert decided["resources"] == [f"GPU={uuid(index)}" for index in indexes]


# --- checking the rules ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["NVIDIA-GPU", "gpu", "org.qnib.gpu", "nvidia.com/gpu", "GPU_1", "a"])
def test_valid_kinds_are_accepted(kind):
    rules = [{"as": "gpu", "kind": kind}]
    check_rules(rules)
    assert decide([gpu(0)], rules)["resources"] == [f"{kind}={uuid(0)}"]


@pytest.mark.parametrize("kind", ["", "A=B", "A B", "A,B", "A\tB", "A\n", "Ä", "A\x7f", '"A"', "A'B", "A\\B", None, 7, ["A"]])
def test_invalid_kinds_are_refused(kind):
    with pytest.raises(PolicyError, match=r"advertise\[1\]\.kind.*NVIDIA-GPU"):
        check_rules([{"as": "gpu"}, {"as": "gpu", "kind": kind}])


def test_kinds_that_share_a_variable_are_refused():
    with pytest.raises(PolicyError, match="'GPU' and 'gpu'.*DOCKER_RESOURCE_GPU"):
        check_rules([{"as": "gpu", "kind": "GPU"}, {"as": "gpu", "kind": "gpu"}])
    with pytest.raises(PolicyError, match="'nvidia-gpu'"):
        check_rules([{"as": "gpu", "kind": "nvidia-gpu"}, {"as": "gpu"}])
    check_rules([{"as": "gpu", "kind": "GPU", "select": {"index": 0}}, {"as": "gpu", "kind": "GPU"}])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"as": "gpu"}, "is not a list of rules"),
        ("gpu", "is not a list of rules"),
        (["gpu"], r"advertise\[0\]: 'gpu' is not a rule"),
        ([{"kind": "GPU"}], r"advertise\[0\].as: None is not known; use one of: gpu, model, vram, slots, group, mig, none"),
        ([{"as": "shares"}], r"'shares' is not known; use one of: gpu, model, vram, slots, group, mig, none"),
        ([{"as": "gpu", "kinds": {}}], "does not know kinds; use only: as, select, kind"),
        ([{"as": "none", "kind": "GPU"}], "as=none does not know kind"),
        ([{"as": "gpu", "select": "all"}], r"select: 'all' is not a mapping"),
        ([{"as": "gpu", "select": {"modle": "x"}}], r"select: 'modle' is not known; use one of: uuid, pci_bus_id"),
        ([{"as": "gpu", "select": {"uuid": "GPU-c143e771"}}], "select.uuid: 'GPU-c143e771' is not a full GPU UUID"),
        ([{"as": "gpu", "select": {"pci_bus_id": "193"}}], "pci_bus_id: '193' is not a PCI address"),
        ([{"as": "gpu", "select": {"index": True}}], "index: True is not a number"),
        ([{"as": "gpu", "select": {"index": -1}}], "index: -1 is not a number"),
        ([{"as": "gpu", "select": {"index": []}}], r"index: \[\] is not a number"),
        ([{"as": "gpu", "select": {"model": ""}}], "model: '' is not a model"),
        ([{"as": "gpu", "select": {"min_memory_mib": [1, 2]}}], r"min_memory_mib: \[1, 2\] is not a number of MiB"),
    ],
)
def test_impossible_rules_are_refused(rules, message):
    with pytest.raises(PolicyError, match=message):
        check_rules(rules)


def test_decide_checks_the_rules():
    with pytest.raises(PolicyError):
        decide([], [{"as": "?"}])


# --- comparing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (named("NVIDIA-GPU", uuid(0), uuid(1)), []),
        (named("NVIDIA-GPU", uuid(1), uuid(0)) + discrete("SSD", 1) + named("FPGA", "x"), []),
        (None, [f"2 GPUs not advertised as NVIDIA-GPU: {uuid(0)}, {uuid(1)}"]),
        (named("NVIDIA-GPU", uuid(0)), [f"1 GPU not advertised as NVIDIA-GPU: {uuid(1)}"]),
        (named("NVIDIA-GPU", uuid(0), uuid(1), uuid(9)), [f"{uuid(9)} is gone, but advertised as NVIDIA-GPU"]),
        (named("NVIDIA-GPU", uuid(0), uuid(1), uuid(1)), [f"{uuid(1)} is advertised 2 times as NVIDIA-GPU"]),
        (
            named("NVIDIA-GPU", uuid(0), uuid(1), uuid(2)),
            [f"{uuid(2)} is advertised as NVIDIA-GPU but should not be: GPU is lost"],
        ),
        (
            named("NVIDIA-GPU", uuid(0), "GPU-00000001"),
            [
                f"GPU-00000001 is advertised as NVIDIA-GPU, a shortened UUID of {uuid(1)}",
                f"1 GPU not advertised as NVIDIA-GPU: {uuid(1)}",
            ],
        ),
        (
            discrete("NVIDIA-GPU", 2),
            [
                "NVIDIA-GPU is the number 2, but must be a list of GPUs",
                f"2 GPUs not advertised as NVIDIA-GPU: {uuid(0)}, {uuid(1)}",
            ],
        ),
        (
            named("NVIDIA-GPU", uuid(0), uuid(1)) + named("nvidia-gpu", uuid(9)),
            [f"{uuid(9)} is gone, but advertised as nvidia-gpu"],
        ),
    ],
)
def test_drift_is_found(running, expected):
    decided = decide([gpu(0), gpu(1), gpu(2, health={"state": "failed", "reasons": ["GPU is lost"]})])
    assert find_drift(decided, running) == expected


def test_drift_names_the_kind_that_a_gpu_should_have():
    rules = [{"as": "gpu", "kind": "A", "select": {"index": 0}}, {"as": "gpu", "kind": "B"}]
    found = find_drift(decide([gpu(0)], rules), named("B", uuid(0)))
    assert found == [
        f"1 GPU not advertised as A: {uuid(0)}",
        f"{uuid(0)} is advertised as B but should not be: the rules advertise it as A",
    ]


@pytest.mark.parametrize(
    ("running", "listed", "expected"),
    [
        (discrete("SSD", 1), ["SSD=1"], []),
        (named("FPGA", "b", "a"), ["FPGA=a", "FPGA=b"], []),
        (discrete("SSD", 1), ["SSD=2"], ["SSD is 1 in the running daemon, 2 in its configuration"]),
        (None, ["SSD=2"], ["SSD is absent in the running daemon, 2 in its configuration"]),
        # These entries are left over from earlier rules. Their kind no longer belongs to us, and the file no longer contains the entries.
        (named("GPU", uuid(0)), [], [f"GPU is {uuid(0)} in the running daemon, absent in its configuration"]),
    ],
)
def test_drift_of_other_kinds_is_found(running, listed, expected):
    assert find_drift(decide([], [{"as": "none"}]), running, listed) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("DOCKER_RESOURCE_NVIDIA-GPU", []),
        ("DOCKER_RESOURCE_GPU", ["swarm-resource lists DOCKER_RESOURCE_GPU, kinds are NVIDIA-GPU"]),
        (None, ["swarm-resource is not set, kinds are NVIDIA-GPU"]),
    ],
)
def test_drift_of_the_swarm_resource_line_is_found(line, expected):
    assert advertise.swarm_resource_drift(decide([gpu(0)]), line) == expected


def test_drift_of_the_swarm_resource_line_with_nothing_advertised():
    nothing = decide([])
    assert advertise.swarm_resource_drift(nothing, None) == []
    assert advertise.swarm_resource_drift(nothing, "X") == ["swarm-resource lists X, kinds are none"]
