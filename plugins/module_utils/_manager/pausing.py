# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pauses nodes that report a fault. A pause that fails is tried again in a later round.

The process may be killed at any point, because a pause with its labels is one versioned update, and all other data is read again.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Mapping, Sequence

from .._node_spec.updates import plan_one
from .._program.lifetime import notify, publish, say
from .._swarm.lease import format_time
from .._swarm.manager import Manager, OutOfSequence, SwarmError
from .._swarm.owned_labels import PREFIX
from .decide import RETURNED, Memory, decide
from .rounds import AGAIN_S

STATUS = "/run/gpu-swarm-manager/status.json"


class Pausing:
    """Called in each round of one manager. ``limit`` is the percentage of GPU nodes that may be paused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._memory = Memory(handled=_read_handled())
        self._alarms: dict[str, str] = {}
        self._refused: dict[str, str] = {}  # by node id, the last logged reason why the node could not be paused
        self._published: object = None
        self._write_failure = ""

    def __call__(self, manager: Manager, nodes: Sequence[Mapping[str, Any]]) -> float | None:
        decision, self._memory = decide(nodes, manager.node_id, self._limit, self._memory, time.monotonic())
        done = [self._pause(manager, node, fault) for node, fault in decision.pause]
        self._alarm(nodes, decision.alarms)
        self.publish()
        if not all(done):
            return AGAIN_S
        return None if decision.turn_s is None else max(AGAIN_S, decision.turn_s)

    def _pause(self, manager: Manager, node: Mapping[str, Any], fault: str) -> bool:
        """Pause a node. Return False if somebody else changed the node meanwhile and the caller must try again at once."""
        want = {
            "id": node["ID"],
            "labels": None,
            "availability": "pause",
            "remember": True,
            "paused_for": fault,
            "now": format_time(int(time.time())),
        }
        change = plan_one(node, want, PREFIX)
        notify("WATCHDOG=1")
        try:
            manager.update_node(change["id"], change["version"], change["after"])
        except OutOfSequence:
            return False
        except SwarmError as problem:
            message = "node %s reports '%s' and could not be paused: %s" % (_name(node), fault, problem.message)
            if self._refused.get(node["ID"]) != message:
                say(message)
            self._refused[node["ID"]] = message
            return True
        self._refused.pop(node["ID"], None)
        say("node %s is paused: it reports '%s'" % (_name(node), fault))
        return True

    # -- reports -----------------------------------------------------------------------------------------

    def _alarm(self, nodes: Sequence[Mapping[str, Any]], alarms: Mapping[str, str]) -> None:
        """Log each alarm once, and again only if its text changes."""
        for node in nodes:
            node_id = node["ID"]
            if node_id in alarms and alarms[node_id] != self._alarms.get(node_id):
                alarm = "" if alarms[node_id] == RETURNED else "ALARM: "
                say("%snode %s reports '%s' and stays in service: %s" % (alarm, _name(node), self._memory.reported[node_id][0], alarms[node_id]))
        self._alarms = dict(alarms)

    def publish(self) -> None:
        """Write the status, for assessments of this machine and for the next start of this service."""
        status = {"pid": os.getpid(), "handled": dict(self._memory.handled)}
        if status == self._published:
            return
        failure_before, self._write_failure = self._write_failure, publish(STATUS, status)
        if not self._write_failure:
            self._published = status
        elif self._write_failure != failure_before:
            say("the status of this service cannot be written, but it still pauses nodes: %s" % self._write_failure)


def _read_handled() -> dict[str, str]:
    try:
        with open(STATUS, encoding="utf-8") as stream:
            return {str(key): str(value) for key, value in json.load(stream)["handled"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _name(node: Mapping[str, Any]) -> str:
    return "%s (%s)" % (node.get("Description", {}).get("Hostname", ""), node["ID"])
