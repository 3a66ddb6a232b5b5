# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a queue from its first arrival until nothing starts any more. The clock goes from one event to the next."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import NamedTuple

from queued import GPU, NOW, gang, gpu_node, held, state_of, work

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admit import admit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.usage import Running

# Reasons that no end of other work changes.
FOR_GOOD = {"no-queue", "gang", "larger-than-cap", "fits-nowhere", "nodes-closed"}


class Day(NamedTuple):
    nodes: list
    tasks: list  # of work that is not queued and never ends
    queues: dict
    arrivals: list  # (time, works that are submitted together, duration)


def a_day(seed):
    """Return a random day: small fleets, so that each round has little room."""
    chance = random.Random(seed)
    nodes = [gpu_node("n%d" % number, chance.choice([2, 4, 8]), model=chance.choice("ab")) for number in range(chance.randint(1, 4))]
    total = sum(one["Description"]["Resources"]["GenericResources"][0]["DiscreteResourceSpec"]["Value"] for one in nodes)
    tasks = [held(one["ID"], 1) for one in nodes if chance.random() < 0.2]
    queues = check_queues({"q%d" % number: _queue(chance, total) for number in range(chance.randint(1, 3))})
    arrivals, time = [], NOW
    for number in range(chance.randint(1, 16)):
        time += chance.choice([0, 0, 1, 5, 20])
        limit = chance.choice([None, 5.0, 10.0, 40.0])
        options = {"queue": chance.choice(sorted(queues)), "owner": chance.choice(["", "a", "b"]), "since": time, "limit": limit}
        name, gpus = "w%02d" % number, chance.choice([1, 1, 1, 2, 4, 8])
        several = chance.random() < 0.2
        works = gang(name, chance.randint(2, 3), gpus, chance.random() < 0.5, **options) if several else [work(name, gpus, **options)]
        arrivals.append((time, works, chance.uniform(1, limit or 60)))
    return Day(nodes, tasks, queues, arrivals)


def _queue(chance, total):
    queue = {"weight": chance.choice([1, 2, 3])}
    if chance.random() < 0.4:
        queue["max"] = {GPU: chance.randint(1, total)}
    if chance.random() < 0.4:
        queue["per_owner"] = {GPU: chance.randint(1, total)}
    return queue


class Run:
    """A run of a day. ``watch(run, decisions)`` is called after each round, before the admitted work is started."""

    def __init__(self, day, watch):
        self.day, self._watch = day, watch
        self.state = state_of(day.nodes, day.tasks)
        self.now = NOW
        self.waiting, self.running, self.ends = [], [], {}  # ends are the real ends, by service
        self.durations = {one.service_id: duration for _time, works, duration in day.arrivals for one in works}

    def go(self):
        """Return what still waits when nothing runs and nothing arrives any more."""
        arrivals = sorted(self.day.arrivals, key=lambda arrival: arrival[0])
        while arrivals or self.ends:
            self.now = min([*(time for time, _works, _duration in arrivals[:1]), *self.ends.values()])
            self.running = [one for one in self.running if self.ends[one.service_id] > self.now]
            self.ends = {one.service_id: self.ends[one.service_id] for one in self.running}
            while arrivals and arrivals[0][0] <= self.now:
                self.waiting += arrivals.pop(0)[1]
            self._round()
        return self.waiting

    def _round(self):
        decisions = admit(self.state, self.day.queues, self.waiting, self.running, self.now)
        self._watch(self, decisions)
        for one in decisions:
            if one.node:
                limit = one.work.time_limit_s
                ends = None if limit is None else self.now + limit
                self.running.append(Running(one.work.service_id, one.work.queue, one.work.owner, one.node, one.work.demand.wants, ends, False))
                self.ends[one.work.service_id] = self.now + self.durations[one.work.service_id]
        self.waiting = [one.work._replace(keeps=one.keeps) for one in decisions if not one.node]

    def started(self, decisions):
        return [(one.node, one.work) for one in decisions if one.node]

    def used(self, decisions):
        """Return the GPUs by node, by queue, and by (queue, owner), with what the decisions start."""
        by_node, by_queue, by_owner = Counter(), Counter(), Counter()
        rows = [(one.node, one.queue, one.owner, one.amounts[GPU]) for one in self.running]
        rows += [(node, one.queue, one.owner, one.amounts[GPU]) for node, one in self.started(decisions)]
        for node, queue, owner, gpus in rows:
            by_node[node] += gpus
            by_queue[queue] += gpus
            by_owner[queue, owner] += gpus
        return by_node, by_queue, by_owner

    def gangs(self, decisions):
        """Return each gang with the nodes of its members."""
        found = defaultdict(list)
        for one in decisions:
            if one.work.gang:
                found[one.work.gang._replace(rank=0)].append(one.node)
        return list(found.items())
