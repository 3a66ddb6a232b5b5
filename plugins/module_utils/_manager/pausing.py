# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pauses nodes that report a fault. What it cannot do now it does in a later round.

It can be killed at any point: a pause with its marks is one versioned update, and everything else is read anew.
Private to this collection: no stability is promised to others.
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
    """That of one manager: called in each round. ``limit`` is how many of a hundred GPU nodes may be paused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._memory = Memory(handled=_handled())
        self._alarms: dict[str, str] = {}
        self._refused: dict[str, str] = {}  # why a node could not be paused, as last logged
        self._published: object = None
        self._unpublished = ""

    def __call__(self, manager: Manager, nodes: Sequence[Mapping[str, Any]]) -> float | None:
        decision, self._memory = decide(nodes, manager.node_id, self._limit, self._memory, time.monotonic())
        done = [self._pause(manager, node, fault) for node, fault in decision.pause]
        self._alarm(nodes, decision.alarms)
        self.publish()
        if not all(done):
            return AGAIN_S
        return None if decision.turn_s is None else max(AGAIN_S, decision.turn_s)

    def _pause(self, manager: Manager, node: Mapping[str, Any], fault: str) -> bool:
        """Return whether that is done, or not to be tried again at once."""
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
            words = "node %s reports '%s' and could not be paused: %s" % (_name(node), fault, problem.message)
            if self._refused.get(node["ID"]) != words:
                say(words)
            self._refused[node["ID"]] = words
            return True
        self._refused.pop(node["ID"], None)
        say("node %s is paused: it reports '%s'" % (_name(node), fault))
        return True

    # -- what is shown -----------------------------------------------------------------------------------------

    def _alarm(self, nodes: Sequence[Mapping[str, Any]], alarms: Mapping[str, str]) -> None:
        """Return each once, as long as it stands."""
        for node in nodes:
            node_id = node["ID"]
            if node_id in alarms and alarms[node_id] != self._alarms.get(node_id):
                alarm = "" if alarms[node_id] == RETURNED else "ALARM: "
                say("%snode %s reports '%s' and stays in service: %s" % (alarm, _name(node), self._memory.seen[node_id][0], alarms[node_id]))
        self._alarms = dict(alarms)

    def publish(self) -> None:
        """For who assesses this machine, and for this service when it is started anew."""
        found = {"pid": os.getpid(), "handled": dict(self._memory.handled)}
        if found == self._published:
            return
        before, self._unpublished = self._unpublished, publish(STATUS, found)
        if not self._unpublished:
            self._published = found
        elif self._unpublished != before:
            say("the status of this service cannot be written, but it still pauses nodes: %s" % self._unpublished)


def _handled() -> dict[str, str]:
    try:
        with open(STATUS, encoding="utf-8") as stream:
            return {str(key): str(value) for key, value in json.load(stream)["handled"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _name(node: Mapping[str, Any]) -> str:
    return "%s (%s)" % (node.get("Description", {}).get("Hostname", ""), node["ID"])
