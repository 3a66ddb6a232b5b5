# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service on a manager: it reads the list of nodes whenever one of them was changed, and pauses those that report a fault. What it cannot do
now it does later.

It can be killed at any point: a pause with its marks is one versioned update, and everything else is read anew.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Mapping, Sequence

from .._node_spec.updates import plan_one
from .._program.lifetime import Lifetime, notify, publish, say
from .._swarm.lease import format_time
from .._swarm.manager import Manager, OutOfSequence, SwarmError, connect
from .._swarm.owned_labels import PREFIX
from .decide import RETURNED, Memory, decide
from .events import Bell

STATUS = "/run/gpu-swarm-react/status.json"
# How often it polls where no event comes: while the manager sends some, and while it does not.
LISTENING_S, POLL_S = 15, 5
AGAIN_S = 1  # where a node was changed meanwhile
SHARE = 0.05  # of the time that may go into polling, where nodes are changed all the time
ANSWER_S = 20  # how long a manager may take to answer
_CONNECTION = dict(tls=False, validate_certs=False, ca_path=None, client_cert=None, client_key=None, api_version="auto", timeout=ANSWER_S)

# What else goes by the nodes: called once a poll with the manager, its list of nodes, and whether it leads.
Observer = Callable[[Manager, Sequence[Mapping[str, Any]], bool], None]


class Service:
    """One manager's."""

    def __init__(self, settings: Mapping[str, Any], observers: Sequence[Observer] = (), connect: Callable[..., Manager] = connect) -> None:
        self._settings = settings
        self._observers = observers
        self._connect = connect
        self._manager: Manager | None = None
        self._memory = Memory(handled=_handled())
        self._alarms: dict[str, str] = {}
        self._refused: dict[str, str] = {}  # why a node could not be paused, as it was said last
        self._failure: str | None = None
        self._published: object = None
        self._unpublished = ""
        self._lifetime = Lifetime()
        self._bell = Bell(lambda: self._connected().node_events())

    def run(self) -> None:
        self._publish()
        self._lifetime.begin()
        self._bell.start()
        while not self._lifetime.over:
            self._bell.silence()
            began = time.monotonic()
            wait = self.poll()
            notify("WATCHDOG=1")
            earliest = began + rest_s(time.monotonic() - began)
            if self._lifetime.wait(wait, self._bell.handles()):
                self._lifetime.wait(earliest - time.monotonic())

    def poll(self) -> float:
        """Reads the nodes once, and acts on that. Returns in how many seconds at the latest it is called again."""
        try:
            manager = self._manager = self._manager or self._connected()
            nodes = manager.nodes()
        except SwarmError as problem:
            self._manager = None
            self._fail(problem.message)
            return POLL_S
        self._fail(None)
        decision, self._memory = decide(nodes, manager.node_id, self._settings["limit"], self._memory, time.monotonic())
        done = [self._pause(manager, node, fault) for node, fault in decision.pause]
        self._alarm(nodes, decision.alarms)
        self._publish()
        leads = any(node["ID"] == manager.node_id and (node.get("ManagerStatus") or {}).get("Leader") for node in nodes)
        for observe in self._observers:
            observe(manager, nodes, leads)
            notify("WATCHDOG=1")
        if not all(done):
            return AGAIN_S
        latest = LISTENING_S if self._bell.listens else POLL_S
        return latest if decision.turn_s is None else min(latest, max(AGAIN_S, decision.turn_s))

    def _connected(self) -> Manager:
        return self._connect(dict(_CONNECTION, docker_host="unix://" + self._settings["docker_socket"]))

    def _pause(self, manager: Manager, node: Mapping[str, Any], fault: str) -> bool:
        """Whether that is done, or not to be tried again at once."""
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
        """Each once, as long as it stands."""
        for node in nodes:
            node_id = node["ID"]
            if node_id in alarms and alarms[node_id] != self._alarms.get(node_id):
                alarm = "" if alarms[node_id] == RETURNED else "ALARM: "
                say("%snode %s reports '%s' and stays in service: %s" % (alarm, _name(node), self._memory.seen[node_id][0], alarms[node_id]))
        self._alarms = dict(alarms)

    def _fail(self, words: str | None) -> None:
        if words and words != self._failure:
            say("the nodes cannot be read now: %s" % words)
        if self._failure and not words:
            say("the nodes can be read again")
        self._failure = words

    def _publish(self) -> None:
        """For who assesses this machine, and for this service when it is started anew."""
        found = {"pid": os.getpid(), "handled": dict(self._memory.handled)}
        if found == self._published:
            return
        before, self._unpublished = self._unpublished, publish(STATUS, found)
        if not self._unpublished:
            self._published = found
        elif self._unpublished != before:
            say("the status of this service cannot be written, but it still pauses nodes: %s" % self._unpublished)


def rest_s(took_s: float) -> float:
    """From the beginning of one poll, which took so long, to that of the next, where changes come one after another."""
    return min(POLL_S, max(AGAIN_S, took_s / SHARE))


def _handled() -> dict[str, str]:
    try:
        with open(STATUS, encoding="utf-8") as stream:
            return {str(key): str(value) for key, value in json.load(stream)["handled"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _name(node: Mapping[str, Any]) -> str:
    return "%s (%s)" % (node.get("Description", {}).get("Hostname", ""), node["ID"])
