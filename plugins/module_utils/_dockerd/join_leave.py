# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creates, joins and leaves a swarm over the API of this machine's daemon (POST /swarm/init, /swarm/join, /swarm/leave).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Mapping

from .docker_unit import EngineError
from .engine import Engine, Unavailable

POLL_S = 0.2
# After 20 s, dockerd answers with status 503 and these words. dockerd continues in the background (moby, daemon/cluster: swarmConnectTimeout,
# errSwarmJoinTimeoutReached). A node that is already in a swarm gets the same status.
REQUEST_S = 60
STILL_JOINING = "Timeout was reached"
# The states in which a failed join can leave a node (moby, daemon/cluster: LocalNodeState).
UNFINISHED = ("error", "pending")

Swarm = Mapping[str, Any]


def initialise(engine: Engine, request: Mapping[str, Any], timeout_s: float) -> Swarm:
    """Create a swarm and wait until this node is its manager. Raises EngineError."""
    _begin(engine, "/swarm/init", request)
    return await_member(engine, True, timeout_s)


def join(engine: Engine, request: Mapping[str, Any], manager: bool, timeout_s: float) -> Swarm:
    """Join, and wait until this node is a working ``manager`` or worker. If the node does not work in time, undo the membership.

    Raises EngineError. ``swarm`` in its details is the node's membership after the failure.
    """
    try:
        _begin(engine, "/swarm/join", request)
        return await_member(engine, manager, timeout_s)
    except EngineError as problem:
        problem.details["swarm"] = _undo_join(engine)
        raise


def leave(engine: Engine, force: bool) -> Swarm:
    """Leave the swarm. A worker leaves without force. If the node is a manager after all, dockerd then refuses."""
    engine.post("/swarm/leave?force=%s" % ("true" if force else "false"), timeout=REQUEST_S)
    return engine.swarm()


def _begin(engine: Engine, path: str, request: Mapping[str, Any]) -> None:
    try:
        engine.post(path, request, REQUEST_S)
    except Unavailable as problem:
        if STILL_JOINING not in problem.message:
            raise


def await_member(engine: Engine, manager: bool, timeout_s: float) -> Swarm:
    """Wait until this node's membership works, and return it. Raises EngineError after ``timeout_s`` seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        swarm = _membership(engine)
        if swarm["state"] == "active" and swarm["control_available"] == manager:
            return swarm
        if time.monotonic() >= deadline:
            reason = str(swarm["error"] or "").strip().rstrip(".")
            raise EngineError(
                "it did not become a working %s within %d s: its swarm state is %s%s"
                % ("manager" if manager else "worker", timeout_s, swarm["state"], " (%s)" % reason if reason else "")
            )
        time.sleep(POLL_S)


def _membership(engine: Engine) -> Swarm:
    """Return the membership. If the daemon does not answer in time, use its error as the reason."""
    try:
        return engine.swarm()
    except EngineError as problem:
        return {"state": "unknown", "control_available": False, "error": problem.message}


def _undo_join(engine: Engine) -> Swarm:
    """Undo a failed join, and return the membership afterwards. The node was in no swarm before the join."""
    swarm = _membership(engine)
    if swarm["state"] not in UNFINISHED:
        return swarm
    with contextlib.suppress(EngineError):  # the next run finds the unfinished membership and leaves the swarm
        return leave(engine, True)
    return _membership(engine)
