# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of a manager, each with its remedy (pure): the daemon does not answer, is not a manager, or refuses a request.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._errors import GpuSwarmError


class SwarmError(GpuSwarmError):
    """The swarm cannot be read or changed through this daemon."""


class Refused(SwarmError):
    """The manager refuses the request. Any other manager of the swarm would refuse the request too."""


class NotFound(Refused):
    """The swarm has no such object."""


class OutOfSequence(SwarmError):
    """Someone else updated the object after this code read it. The caller must read the object again and decide again."""


def unreachable(where: str, words: str) -> SwarmError:
    if "Permission" in words:
        remedy = "This user may not use it: run the task with become."
    else:
        remedy = "Start it (systemctl start docker), or fix docker_host and the TLS options."
    return SwarmError("The Docker daemon at %s does not answer: %s. %s" % (where, words, remedy), swarm_state="unreachable")


def refuse_unless_manager(info: Mapping[str, Any], where: str) -> None:
    """Raise SwarmError if the daemon is not a working manager, according to its own /info.

    This check shows the user the cause before a call fails. /info, unlike /swarm, contains no join tokens.
    """
    swarm = info.get("Swarm") or {}
    state = swarm.get("LocalNodeState") or "inactive"
    error = " (%s)" % swarm["Error"] if swarm.get("Error") else ""
    if state == "active" and not swarm.get("ControlAvailable"):
        state = "worker"
    elif state == "active" and not (swarm.get("Cluster") or {}).get("ID"):
        state = "no_quorum"
    if state == "active":
        return
    known = ", ".join(sorted(peer["Addr"] for peer in swarm.get("RemoteManagers") or []))
    text = NOT_A_MANAGER.get(state, NOT_A_MANAGER["error"])
    raise SwarmError(text.format(where=where, state=state, error=error, known=known or "none known here"), swarm_state=state)


NOT_A_MANAGER = {
    "inactive": "The Docker daemon at {where} is in no swarm. Initialise or join one first, or run this on a manager.",
    "pending": "The Docker daemon at {where} is still joining its swarm{error}. Run this again when it has joined, or on another manager: {known}.",
    "locked": "The swarm on {where} is locked{error}. Unlock it there with 'docker swarm unlock' and its unlock key.",
    "worker": "The Docker daemon at {where} is a worker, but only a manager can answer. Run this on a manager: {known}.",
    "no_quorum": "The swarm on {where} has no quorum{error}. Start managers until more than half of them answer; managers: {known}.",
    "lost_leader": "The swarm on {where} has just lost its leader{error}. It has no quorum unless another manager takes over: start managers"
    " until more than half of them answer, and run this again; managers: {known}.",
    "error": "The Docker daemon at {where} is in swarm state '{state}'{error}. Read its log (journalctl -u docker)."
    " Meanwhile, run this on another manager: {known}.",
}


def missing_leader(words: str) -> str | None:
    """Return the key of NOT_A_MANAGER that matches this error message, or None."""
    if "lost leader status" in words:
        return "lost_leader"
    return "no_quorum" if "does not have a leader" in words or "deadlineexceeded" in words.lower().replace(" ", "") else None
