# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, B, discrete, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._verify import probe_results

C = "GPU-5fa2e7a4-8888-4c53-9d1f-0c9a7d1e2f32"
CARD = "GPU-66eee2ba-3d74-58b2-809c-3b9aae9a088d"
MIG1, MIG2 = "MIG-5c89852c-d268-5000-8000-000000000004", "MIG-5c89852c-d268-5000-8000-000000000005"
OLD_MIG = "MIG-%s/2/0" % CARD
GOOD = "sees the GPUs allocated to it and no others"
NO_GLIBC = "the image cuda:1 has no glibc, which the command needs"
RUNTIME = "does not name DOCKER_RESOURCE_NVIDIA-GPU, or is not applied. Run fleet.gpu_swarm.provision for this node"


def smi(*uuids):
    """Print like nvidia-smi -L."""
    lines = []
    for uuid in uuids:
        lines.append("  MIG 1g.10gb     Device  0: (UUID: %s)" % uuid if uuid.startswith("MIG") else "GPU 0: Tesla T4 (UUID: %s)" % uuid)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("log", "seen"),
    [
        (smi(), []),
        (smi(A), [A]),
        (smi(A, B), [A, B]),
        (smi(A, A), [A]),
        (smi(CARD, MIG1), [MIG1]),
        (smi(A, CARD, MIG1, MIG2, B), [A, MIG1, MIG2, B]),
        (smi(CARD, OLD_MIG), [OLD_MIG]),
        ("index, uuid\n0, %s\n1, %s\n" % (A, B), [A, B]),
        ("GPU-c143e771 is shortened", []),
    ],
)
def test_the_list_of_a_task_is_read(log, seen):
    assert probe_results.seen_in(log) == seen


def check(gpus=1, kind="NVIDIA-GPU", others=3):
    made = {"node": "n1", "hostname": "gpu-1", "probe": "allocated", "level": None, "variables": [], "kind": kind, "count": gpus, "others": others}
    image = {"name": "cuda:1", "reference": "cuda:1", "from": "named"}
    return dict(made, reserved=[], seen=[], state="planned", verdict="", image=image)


def done(*given, state="complete", err="", message="finished", **other):
    made = task("t9", given=named(*given), state=state, desired="shutdown", service="probe", **other)
    made["Status"].update({"Message": message, **({"Err": err} if err else {})})
    return made


def judged(made, log="", gpus=1, unread=None, record=None):
    found = probe_results.with_verdict(probe_results.Outcome(check(gpus), made, log, unread), timeout_s=30, node=record)
    return found["state"], found["verdict"]


def test_a_task_may_see_its_allocation():
    found = probe_results.with_verdict(probe_results.Outcome(check(2), done(A, B), smi(B, A), None), timeout_s=30)
    assert found == dict(check(2), reserved=[A, B], seen=[B, A], state="passed", verdict=GOOD)


def test_a_group_shows_as_its_cards():
    assert judged(done(f"{A}+{B}"), smi(A, B)) == ("passed", GOOD)
    assert "does not see %s" % B in judged(done(f"{A}+{B}"), smi(A))[1]
    assert "NOT ISOLATED: 2 allocated, but the task sees 3" in judged(done(f"{A}+{B}"), smi(A, B, f"{B[:-1]}f"))[1]


def test_a_slot_that_two_tasks_had_in_turn_is_tested_once():
    def had(*slots, state="passed", node="n1"):
        return dict(check(kind="NVIDIA-SLOT"), node=node, reserved=list(slots), state=state, verdict=GOOD)

    given = [had(A + ".slot1"), had(A + ".slot1"), had(A + ".slot2"), had(A + ".slot1", node="n2"), had(A + ".slot2", state="failed"), had(A), had(A)]
    found = probe_results.untested_if_repeated(given)
    assert [one["state"] for one in found] == ["passed", "untested", "passed", "passed", "failed", "passed", "passed"]
    assert "another slot was not tested. Run this again" in found[1]["verdict"]
    assert [one for one in found if one["state"] != "untested"] == [*given[:1], *given[2:]]


@pytest.mark.parametrize(
    ("given", "log", "state", "words"),
    [
        (301, smi(A), "passed", GOOD),
        (301, smi(A, B), "failed", "1 allocated, but the task sees 2, also %s. The guard of this node's GPUs does not tie VRAM-C1 to its card" % B),
        (301, smi(B), "failed", "NOT ISOLATED: the task sees %s instead of %s, which is allocated to it. The guard" % (B, A)),
        (301, "No devices were found\n", "failed", "sees no GPU. The guard of this node's GPUs does not tie"),
        (5, smi(A), "failed", "swarm allocated 5 of 301 VRAM-C1 to the task."),
    ],
)
def test_memory_shows_as_its_card(given, log, state, words):
    made = dict(done(), GenericResources=discrete(given, "VRAM-C1"))
    planned = dict(check(301, kind="VRAM-C1"), probe="memory", reserved=[A])
    found = probe_results.with_verdict(probe_results.Outcome(planned, made, log, None), timeout_s=1)
    assert (found["state"], found["reserved"]) == (state, [A])
    assert words in found["verdict"]


def test_memory_that_was_allocated_meanwhile_is_not_tested():
    pending = done(state="pending", err="no suitable node (insufficient resources on 1 node)")
    planned = dict(check(301, kind="VRAM-C1"), probe="memory", reserved=[A])
    (left,) = ledger(Listed([node("n1", resources=discrete(300, "VRAM-C1"))], [], [service()]), "gpu-swarm.")["nodes"]
    found = probe_results.with_verdict(probe_results.Outcome(planned, pending, "", None), 1, left)
    assert found["verdict"] == "nothing free to test with: it was allocated meanwhile"


def test_a_slot_shows_as_its_card():
    assert judged(done(A + ".slot2"), smi(A)) == ("passed", GOOD)
    assert judged(done(A + ".slot1", A + ".slot2"), smi(A), gpus=2) == ("passed", GOOD)
    assert "NOT ISOLATED: 1 allocated, but the task sees 2, also %s." % B in judged(done(A + ".slot2"), smi(A, B))[1]


def test_a_mig_device_shows_under_its_card():
    made = dict(done(), GenericResources=named(MIG1, kind="MIG-1g.10gb"))
    assert probe_results.with_verdict(probe_results.Outcome(check(kind="MIG-1g.10gb"), made, smi(CARD, MIG1), None), timeout_s=1)["verdict"] == GOOD


@pytest.mark.parametrize(
    ("made", "log", "gpus", "words"),
    [
        (done(A), smi(A, B), 1, "NOT ISOLATED: 1 allocated, but the task sees 2, also %s. dockerd's default runtime" % B),
        (done(A), smi(B, A, C), 1, "also %s and 1 more. " % B),
        (done(A), smi(A, B), 1, RUNTIME),
        (done(A), smi(B), 1, "NOT ISOLATED: the task sees %s instead of %s, which is allocated to it." % (B, A)),
        (done(A), "No devices were found\n", 1, "sees no GPU. dockerd's default runtime"),
        (done(A), "", 1, "the task printed nothing. Give a command"),
        (done(A, B), smi(A), 2, "does not see %s, which is allocated to it. Run" % B),
        (done(A), smi(A), 2, "swarm allocated 1 of 2 NVIDIA-GPU to the task."),
        (done(), smi(A), 1, "swarm allocated 0 of 1 NVIDIA-GPU to the task."),
        (None, "", 1, "swarm created no task within 30 s."),
        (done(state="rejected", err="No such image: cuda:1"), "", 1, "No such image: cuda:1. Name an image that the node has or can pull"),
        (done(state="rejected", err="assigned node no longer meets constraints"), "", 1, "ended as rejected: assigned node no"),
        (done(A, state="failed", err="task: non-zero exit (3)"), "one\noops\n", 1, "non-zero exit (3); the last line of its log: oops. Try"),
        (done(A, state="failed", err='exec: "nvidia-smi": executable file not found in $PATH'), "", 1, "added nothing to the task. dockerd's"),
        (done(A, state="failed", err="task: non-zero exit (1)"), "exec /usr/bin/nvidia-smi: no such file or directory\n", 1, NO_GLIBC),
        (done(A, state="failed", err="x"), "standard_init_linux.go:228: exec user process caused: no such file or directory\n", 1, NO_GLIBC),
        (done(A, state="failed", err="x"), "sh: can't open 'y': no such file or directory\n", 1, "Try the command by hand"),
        (done(A, state="shutdown"), "", 1, "ended as shutdown: finished. Try"),
        (done(A, state="preparing"), "", 1, "still pulling the image cuda:1 after 30 s. Raise verify_timeout"),
        (done(A, state="running"), smi(A), 1, "the command did not end within 30 s."),
        (done(A, state="starting", message="starting"), "", 1, "still starting after 30 s (starting). Check"),
        (done(state="pending", err="no suitable node (x)"), "", 1, "although the ledger shows 0 NVIDIA-GPU free: no suitable node (x)."),
    ],
)
def test_a_failure_is_reported_with_its_remedy(made, log, gpus, words):
    state, verdict = judged(made, log, gpus)
    assert state == "failed"
    assert words in verdict


def test_an_unnamed_image_without_glibc_proves_nothing_about_the_node():
    image = {"name": "app:7", "reference": "sha256:" + 64 * "0", "from": "there"}
    made = done(A, state="failed", err="task: non-zero exit (1)")
    log = "exec /usr/bin/nvidia-smi: no such file or directory"
    found = probe_results.with_verdict(probe_results.Outcome(dict(check(), image=image), made, log, None), timeout_s=30)
    assert found["state"] == "untested"
    assert found["verdict"].startswith("the image app:7 has no glibc")


def test_a_log_that_cannot_be_read_is_no_proof():
    assert judged(done(A), unread="the node hangs") == ("failed", "the node hangs")


def record(*free, held=(), availability="active"):
    given = [task("t1", given=named(*held), service="s1")] if held else []
    found = ledger(Listed([node(resources=named(*free, *held), availability=availability)], given, [service()]), "gpu-swarm.")
    return found["nodes"][0]


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (record(held=[A]), "untested"),
        (record(A), "failed"),
        (record(A, availability="drain"), "untested"),
    ],
)
def test_gpus_that_were_allocated_meanwhile_are_no_failure(now, state):
    found, words = judged(done(state="pending", err="no suitable node (insufficient resources on 1 node)"), record=now)
    assert found == state
    assert ("allocated meanwhile" in words) == (state == "untested")


def test_a_gpu_with_two_holders_is_a_failure():
    state, words = judged(done(A), smi(A), record=record(B, held=[A]))
    assert state == "failed"
    assert words.startswith("swarm allocated %s, which service train already has. docs/fix/known-issues.md says how to end this" % A)


def test_a_gpu_may_be_free_again_meanwhile():
    assert judged(done(A), smi(A), record=record(A, held=[B])) == ("passed", GOOD)


def entry(total, held, free, typ="named"):
    return {"type": typ, "total": total, "values": None, "free": free, "held": held}


def by(value, name="train"):
    return {"value": value, "service": name, "name": name + ".1"}


TWICE = [{"node": "n1", "kind": "NVIDIA-GPU", "value": A, "holders": [by(A), by(A, "sweep")]}]


@pytest.mark.parametrize(
    ("resources", "twice", "problems"),
    [
        ({"NVIDIA-GPU": entry(2, [by(A)], [B])}, [], []),
        ({"VRAM": entry(8000, [{"amount": 3000, "service": "train"}], 5000, "discrete")}, [], []),
        ({"NVIDIA-GPU": entry(1, [by(A), by(A, "sweep")], [])}, [], ["1 NVIDIA-GPU in all, but 2 allocated (to sweep, train) and 0 free"]),
        ({"NVIDIA-GPU": entry(1, [by(A), by(A, "sweep")], [])}, TWICE, ["NVIDIA-GPU %s is allocated to train.1 and sweep.1" % A]),
        ({"NVIDIA-GPU": entry(1, [], [A])}, [dict(TWICE[0], node="n2")], []),
        ({"NVIDIA-GPU": entry(0, [by(A)], [])}, [], ["0 NVIDIA-GPU in all, but 1 allocated (to train) and 0 free"]),
    ],
)
def test_a_ledger_adds_up_or_does_not(resources, twice, problems):
    assert probe_results.ledger_problems({"id": "n1", "resources": resources}, twice) == problems
