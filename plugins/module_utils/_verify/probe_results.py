# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether a task saw exactly its allocated GPUs, and whether the ledger is consistent (pure). Returns texts with the remedy.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._gpu import record
from .._policy import generic_resources
from .._tasks.tasks import ENDED, assigned
from .guard_probes import ALLOCATED, MEMORY
from .plan import FAILED, PASSED, UNTESTED, Check
from .probe_images import ON_NODE

# Full UUIDs, and the names of MIG devices with drivers before 470.
DEVICE = re.compile(r"MIG-GPU-[0-9a-f-]{36}/\d+/\d+|(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The error for an image without the loader that a program needs (runc, libcontainer/standard_init_linux.go).
NO_LOADER = re.compile(r"exec (?:user process caused|/?[\w./-]+): no such file or directory")
NO_NODE = "no suitable node"
NO_GLIBC = (
    "the image %s has no glibc, which the command needs: the NVIDIA runtime adds nvidia-smi to a task, but not its libraries. "
    "Choose an image based on CUDA, Debian or Ubuntu, for example (verify_image)"
)
SILENT = "the task printed nothing. Give a command that lists the GPUs it sees (verify_command), such as 'nvidia-smi -L'"
SAME_SLOT = "swarm allocated the same slot to two tests, one after the other, so another slot was not tested. Run this again"
PROVISION = "Run fleet.gpu_swarm.provision for this node, with --check first to see what differs"


class Outcome(NamedTuple):
    """The outcome of a check."""

    check: Check
    task: Mapping[str, Any] | None  # the task of the API; None if swarm created no task
    log: str
    unread: str | None  # why the log could not be read; None without an error


def seen_in(log: str) -> list[str]:
    """Return the GPUs and MIG devices that a task listed.

    nvidia-smi lists MIG devices below the name of their card. Ignore this name, because the task does not see the whole card.
    """
    seen: dict[str, bool] = {}
    card = None
    for device in DEVICE.findall(log):
        if device.startswith("MIG-"):
            seen.pop(card, None)
        else:
            card = device
        seen[device] = True
    return list(seen)


def is_unplaced(task: Mapping[str, Any]) -> bool:
    """Return whether the scheduler reports that no node has room for a task."""
    return task["Status"]["State"] == "pending" and NO_NODE in task["Status"].get("Err", "")


def with_verdict(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None = None) -> Check:
    """Return the check with its verdict.

    ``node`` is the ledger's record of the node after the test, if the outcome must be compared with this record.
    """
    check, task, log, unread = outcome
    allocated = (assigned(task) if task else {}).get(check["kind"])
    # Swarm allocates only an amount of a memory kind. The node's record names the cards.
    reserved = check["reserved"] if check["probe"] == MEMORY else allocated or []
    seen = seen_in(log)
    state, verdict = failed_verdict(outcome, timeout_s, node) or (None, None)
    if state is None:
        problem = unread or _other_amount(check, allocated) or _holders(reserved, node) or _difference(check, reserved, seen, log)
        state, verdict = (FAILED, problem) if problem else (PASSED, "sees the GPUs allocated to it and no others")
    return dict(check, reserved=reserved, seen=seen, state=state, verdict=verdict)


def untested_if_repeated(checks: Iterable[Check]) -> list[Check]:
    """Return the checks. If an earlier check has tested the slot of a check, the later check becomes untested.

    If somebody else gets a slot during the test, a test task may get the slot of an ended task. Tasks that test the guard may have any slot.
    """
    result: list[Check] = []
    tested: set[tuple[str, str]] = set()
    for check in checks:
        slots = _slots(check) if check["state"] == PASSED and check["probe"] == ALLOCATED else set()
        result.append(dict(check, state=UNTESTED, verdict=SAME_SLOT) if slots and slots <= tested else check)
        tested |= slots
    return result


def _slots(check: Check) -> set[tuple[str, str]]:
    return {(check["node"], value) for value in check["reserved"] if record.is_slot(value)}


def failed_verdict(outcome: Outcome, timeout_s: int, node: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Return (state, verdict) if the task could not run its test; otherwise None."""
    check, task = outcome.check, outcome.task
    if task is None:
        return FAILED, "swarm created no task within %d s. Check the leader's log (journalctl -u docker)" % timeout_s
    status = task["Status"]
    if is_unplaced(task):
        return _unplaced(check, status["Err"], node)
    if status["State"] not in ENDED:
        return FAILED, _too_slow(status, check["image"]["name"], timeout_s)
    if status["State"] != "complete":
        return _broken(check, status, outcome.log)
    return None


def _unplaced(check: Check, error: str, node: Mapping[str, Any] | None) -> tuple[str, str]:
    free = (node or {}).get("resources", {}).get(check["kind"], {}).get("free") or 0
    free = free if isinstance(free, int) else len(free)
    if node and (free < check["count"] or node["availability"] != "active"):
        return UNTESTED, "nothing free to test with: it was allocated meanwhile"
    return FAILED, "swarm does not place the task, although the ledger shows %d %s free: %s. Check the leader's log (journalctl -u docker)" % (
        free, check["kind"], error,
    )  # fmt: skip


def _too_slow(status: Mapping[str, Any], image: str, timeout_s: int) -> str:
    if status["State"] == "preparing":
        return "still pulling the image %s after %d s. Raise verify_timeout, or copy the image to the node" % (image, timeout_s)
    if status["State"] == "running":
        return "the command did not end within %d s. Set verify_command to one that lists the GPUs and ends" % timeout_s
    error = status.get("Err") or status.get("Message") or "no reason given"
    return "the task was still %s after %d s (%s). Check the node's log (journalctl -u docker)" % (status["State"], timeout_s, error)


def _broken(check: Check, status: Mapping[str, Any], log: str) -> tuple[str, str]:
    error, image = status.get("Err") or status.get("Message") or "no reason given", check["image"]
    if "No such image" in error or "pull access denied" in error:
        return FAILED, "%s. Name an image that the node has or can pull (verify_image; now %s)" % (error, image["name"])
    if "executable file not found" in error:
        return FAILED, (
            "the command was not found in the task: the image lacks it, and the NVIDIA runtime added nothing to the task. %s" % _runtime_remedy(check)
        )  # fmt: skip
    if NO_LOADER.search(error) or NO_LOADER.search(log):
        # If the user did not choose the image, this proves nothing about the node.
        return UNTESTED if image["from"] == ON_NODE else FAILED, NO_GLIBC % image["name"]
    last_line = log.strip().splitlines()[-1:]
    return FAILED, "the task ended as %s: %s%s. Try the command by hand on the node" % (
        status["State"], error.rstrip("."), "; the last line of its log: %s" % last_line[0].strip() if last_line else "",
    )  # fmt: skip


def _holders(reserved: Iterable[str], node: Mapping[str, Any] | None) -> str | None:
    """Return a text about resources that are also allocated to other tasks."""
    allocated = {item.get("value"): item for entry in (node or {}).get("resources", {}).values() for item in entry["held"]}
    twice = [value for value in reserved if value in allocated]
    if not twice:
        return None
    return "swarm allocated %s, which service %s already has. docs/fix/known-issues.md says how to end this (new-leader-claims-again)" % (
        shorten_devices(twice), allocated[twice[0]]["service"],
    )  # fmt: skip


def _other_amount(check: Check, allocated: Any) -> str | None:
    """Return a text if swarm allocated another amount than reserved."""
    amount = allocated if isinstance(allocated, int) else len(allocated or ())
    if amount == check["count"]:
        return None
    return "swarm allocated %d of %d %s to the task. Check the leader's version of Docker Engine" % (amount, check["count"], check["kind"])


def _difference(check: Check, reserved: Sequence[str], seen: Sequence[str], log: str) -> str | None:
    devices = devices_of(reserved)
    more = [device for device in seen if device not in devices]
    unseen = [device for device in devices if device not in seen]
    if not seen and not log.strip():
        return SILENT
    if not seen:
        return "sees no GPU. %s" % _runtime_remedy(check)
    if more and not unseen:
        counts = (len(devices), len(seen), shorten_devices(more), _runtime_remedy(check))
        return "NOT ISOLATED: %d allocated, but the task sees %d, also %s. %s" % counts
    if more:
        differing = (shorten_devices(more), shorten_devices(unseen), _runtime_remedy(check))
        return "NOT ISOLATED: the task sees %s instead of %s, which is allocated to it. %s" % differing
    if unseen:
        return "does not see %s, which is allocated to it. %s" % (shorten_devices(unseen), PROVISION)
    return None


def devices_of(reserved: Iterable[str]) -> list[str]:
    """Return the GPUs and MIG devices that a task with these values must see."""
    return list(dict.fromkeys(device for value in reserved for device in record.devices_of(value)))


def _runtime_remedy(check: Check) -> str:
    """Return why a runtime does not apply swarm's allocation, and the remedy."""
    if check["probe"] == MEMORY:
        return "The guard of this node's GPUs does not tie %s to its card. %s" % (check["kind"], PROVISION)
    return (
        "dockerd's default runtime is not nvidia, or swarm-resource in the toolkit's config.toml does not name %s, or is not applied. %s"
        % (generic_resources.variable_name(check["kind"]), PROVISION)
    )  # fmt: skip


def shorten_devices(devices: Sequence[str]) -> str:
    return devices[0] + (" and %d more" % (len(devices) - 1) if len(devices) > 1 else "")


def ledger_problems(node: Mapping[str, Any], held_twice: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """Return texts about inconsistencies in a node's part of the ledger. ``held_twice`` is the ledger's list of that name."""
    twice = [one for one in held_twice if one["node"] == node["id"]]
    problems = ["%s %s is allocated to %s" % (one["kind"], one["value"], " and ".join(holder["name"] for holder in one["holders"])) for one in twice]
    for kind, entry in node["resources"].items():
        allocated = sum(item.get("amount", 1) for item in entry["held"])
        free = entry["free"] if entry["type"] == "discrete" else len(entry["free"])
        if entry["total"] != allocated + free and kind not in [one["kind"] for one in twice]:
            holders = ", ".join(sorted({item["service"] for item in entry["held"]})) or "nobody"
            problems.append("%d %s in all, but %d allocated (to %s) and %d free" % (entry["total"], kind, allocated, holders, free))
    return problems
