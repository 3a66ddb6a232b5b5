# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard's messages about refused containers. A run recognises them by a code, and messages of an older guard by their words."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import refusal
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.front import Front, text

SHIM = "starting container failed: failed to create shim task: OCI runtime create failed: %s: unknown"
OLD = "gpu-swarm: the service t is refused on this node (isolation: reserved): %s Its container is 0123456789ab"
# Messages of a guard before 0.3.0.
OLD_WORDS = [
    ("mount", OLD % "it has a mount at /var/run/nvidia-container-devices/all, by which NVIDIA's runtime would give it GPUs. Remove the mount."),
    ("forged", OLD % "it sets DOCKER_RESOURCE_NVIDIA-GPU=all itself, and it has no reservation. Remove the variable."),
    ("unreserved", OLD % "it sets NVIDIA_VISIBLE_DEVICES=all, and has no reservation. Reserve GPUs."),
    ("unknown-device", OLD % "it requests GPU-1, which this node does not advertise. Remove the variable."),
    ("two-cards", OLD % "swarm gave it slots of 2 cards (NVIDIA-SLOT: GPU-1, GPU-2). Reserve fewer slots."),
    ("too-small", OLD % "its share is 300 MiB, and CUDA takes 300 MiB of a card for itself. Reserve more."),
    ("held-twice", OLD % "task x of the service y (container 0123456789ab) still has GPU-1."),
    ("restored", "gpu-swarm: the container 0123456789ab is of a task with GPUs, which cannot be restored from a checkpoint (isolation: exclusive)"),
    ("no-record", "gpu-swarm: dockerd's record of the container cannot be read, so nobody knows whose it is: torn"),
    ("broken", "gpu-swarm: the guard of this node's GPUs failed, and so the container is not started: KeyError: 'x'. Run fleet.gpu_swarm.provision"),
    ("broken", "gpu-swarm: the guard of this node's GPUs does not run (python3 -IS /x), and so the container is not started. Run"),
]


@pytest.mark.parametrize(("code", "words"), OLD_WORDS)
def test_the_words_of_an_older_guard_are_understood(code, words):
    found = refusal.parse_refusal(SHIM % words)
    assert (found.code, found.whole) == (code, words + ": unknown")


def test_the_words_of_an_older_guard_have_each_code():
    later = {refusal.NOT_ALLOWED, refusal.NO_DEVICE, refusal.REMAPPED}
    assert {code for code, _words in OLD_WORDS} == set(refusal.CODES) - later


@pytest.mark.parametrize("code", [*refusal.CODES, "of-a-newer-guard"])
@pytest.mark.parametrize("words", ["in other words.", "it sets X=a (refusal: mount) itself.", "a\nb", 3000 * "x"])
def test_a_code_is_recognised_with_any_words(code, words):
    made = refusal.with_code(code, words)
    found = refusal.parse_refusal(SHIM % made)
    assert (found.code, found.whole) == (code, made + ": unknown")
    assert found.text == words[:2000].rstrip(".")


@pytest.mark.parametrize(("code", "words"), OLD_WORDS)
def test_an_older_run_understands_new_messages(code, words):
    """New messages differ only by the code at the end."""
    assert refusal.with_code(code, words[len("gpu-swarm: ") :]).startswith(words)


def test_messages_of_the_guard_keep_their_former_words():
    service = refusal.rules_message("t", "reserved", "it sets X.", "0123456789abcdef")
    assert service == "the service t is refused on this node (isolation: reserved): it sets X. Its container is 0123456789ab."
    said = [service, refusal.checkpoint_message("0123456789abcdef"), refusal.no_record_message("torn"), refusal.failure_message(KeyError("x"), "/f")]
    assert [refusal.parse_refusal("gpu-swarm: " + one).code for one in said] == ["forged", "restored", "no-record", "broken"]


def test_the_front_adds_the_code():
    line = next(one for one in text(Front("/r", "/h", "/c", "/p", ["X"])).splitlines() if one.startswith("words="))
    assert refusal.parse_refusal(line.strip('words="')).code == "broken"


@pytest.mark.parametrize(
    "error", ["", "task: non-zero exit (1)", "exec: gpu-swarm: not found", "gpu-swarm: no manager answers", "(refusal: forged)", "x (refusal: )"]
)
def test_any_other_error_is_no_refusal(error):
    assert refusal.parse_refusal(error) is None


def test_codes_are_unique_and_each_has_a_decision():
    assert len(set(refusal.CODES)) == len(refusal.CODES)
    assert set(refusal.CODES) > refusal.PERMANENT | refusal.UNDECIDED
    assert not refusal.PERMANENT & refusal.UNDECIDED
