# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, B, named, node, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._verify import guard_verdict
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._verify.probe_results import Outcome

C = "GPU-5fa2e7a4-8888-4c53-9d1f-0c9a7d1e2f32"
WITHOUT = "without a reservation, a task is refused"
MORE = "with variables that request more than it reserved, a task is refused"
# The form of the error that swarm gets from containerd's shim.
REFUSED = (
    "starting container failed: failed to create task for container: failed to create shim task: OCI runtime create failed: gpu-swarm: "
    "the service gpu-swarm-verify-1f2e-2 is refused on this node (isolation: reserved): it sets DOCKER_RESOURCE_NVIDIA-GPU=all itself, "
    "and it has no reservation. Remove the variable: swarm sets it from --generic-resource: unknown"
)
BROKEN = "starting container failed: gpu-swarm: the guard of this node's GPUs does not run (python3 -IS /x), so the container does not start."
OTHER_WORDS = "starting container failed: gpu-swarm: in other words (refusal: %s): unknown"
NO_SMI = 'starting container failed: exec: "nvidia-smi": executable file not found in $PATH: unknown'


def check(probe):
    made = {"node": "n1", "hostname": "gpu-1", "probe": probe, "level": "reserved", "variables": ["NVIDIA_VISIBLE_DEVICES"], "others": 3}
    kind = {"kind": "NVIDIA-GPU", "count": 1} if probe == "beside" else {"kind": None, "count": 0}
    return dict(made, **kind, reserved=[], seen=[], state="planned", verdict="", image={"name": "cuda:1", "reference": "cuda:1", "from": "there"})


def ended(*given, state="complete", error=None):
    return task("t9", given=named(*given), state=state, desired="shutdown", service="probe", error=error)


def judged(probe, made, log="", unread=None, record=None):
    found = guard_verdict.with_verdict(Outcome(check(probe), made, log, unread), 30, record)
    return found["state"], found["verdict"]


def smi(*uuids):
    return "".join("GPU 0: Tesla T4 (UUID: %s)\n" % uuid for uuid in uuids)


@pytest.mark.parametrize(
    ("probe", "made", "log", "verdict"),
    [
        ("unreserved", ended(state="failed", error=REFUSED), "", WITHOUT),
        ("unreserved", ended(state="rejected", error=REFUSED), "", WITHOUT),
        ("unreserved", ended(state="failed", error=OTHER_WORDS % "unreserved"), "", WITHOUT),
        ("unreserved", ended(state="failed", error=NO_SMI), "", "without a reservation, a task sees no GPU"),
        ("unreserved", ended(), "No devices were found\n", "without a reservation, a task sees no GPU"),
        ("beside", ended(A, state="failed", error=REFUSED), "", MORE),
        ("beside", ended(A), smi(A), "with variables that request more than it reserved, a task sees only the reserved GPU"),
    ],
)
def test_a_guard_may_hold(probe, made, log, verdict):
    assert judged(probe, made, log) == ("passed", verdict)


@pytest.mark.parametrize(
    ("probe", "made", "log", "words"),
    [
        ("unreserved", ended(), smi(A, B, C), "without a reservation, a task sees GPUs that are not allocated to it, %s and 2 more" % A),
        ("unreserved", ended(state="failed", error="task: non-zero exit (1)"), smi(A), "sees GPUs that are not allocated to it, %s, although" % A),
        ("beside", ended(A), smi(A, B), "more than it reserved, a task sees GPUs that are not allocated to it, %s, although" % B),
        ("beside", ended(A), smi(B), "not allocated to it, %s, although isolation is reserved on this node. Run fleet.gpu_swarm.provision" % B),
    ],
)
def test_a_leak_is_a_failure(probe, made, log, words):
    state, verdict = judged(probe, made, log)
    assert (state, verdict.startswith("NOT ISOLATED: ")) == ("failed", True)
    assert words in verdict


@pytest.mark.parametrize("probe", ["unreserved", "beside"])
@pytest.mark.parametrize(
    ("made", "log", "unread", "words"),
    [
        (ended(A, state="failed", error=BROKEN), "", None, "the guard of this node's GPUs does not run (python3 -IS /x), so"),
        (ended(A, state="failed", error=OTHER_WORDS % "broken"), "", None, "in other words"),
        (ended(A, state="failed", error=OTHER_WORDS % "no-record"), "", None, "in other words"),
        (ended(A), "", None, "the task printed nothing"),
        (ended(A), "", "the node hangs", "the node hangs"),
        (None, "", None, "swarm created no task within 30 s"),
        (ended(A, state="preparing"), "", None, "still pulling the image cuda:1"),
        (ended(A, state="failed", error="task: non-zero exit (7)"), "", None, "Try the command by hand"),
    ],
)
def test_an_unclear_result_is_no_proof(probe, made, log, unread, words):
    state, verdict = judged(probe, made, log, unread)
    assert (state, words in verdict) == ("failed", True), verdict


def test_a_task_that_lacks_its_gpu_proves_nothing():
    assert judged("beside", ended(A, state="failed", error=NO_SMI))[0] == "failed"


@pytest.mark.parametrize("probe", ["unreserved", "beside"])
def test_a_task_without_a_place_is_no_failure(probe):
    record = ledger(Listed([node(resources=named(A))], [task("t1", given=named(A))], []), "gpu-swarm.")["nodes"][0]
    state, words = judged(probe, task("t9", node_id=None, state="pending", error="no suitable node (x)"), record=record)
    expected = {"unreserved": "swarm places no task there: no suitable node (x)", "beside": "nothing free to test with: it was allocated meanwhile"}
    assert (state, words) == ("untested", expected[probe])
