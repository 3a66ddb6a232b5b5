# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Properties of all decisions of random days: fleets, queues, arrivals and ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_day import FOR_GOOD, Run, a_day
from queued import GPU, state_of

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admit import admit

days = st.integers(0, 2**32).map(a_day)


@given(days)
def test_never_more_than_there_is(day):
    def watch(run, decisions):
        by_node, _by_queue, _by_owner = run.used(decisions)
        for place in run.state.places:
            assert by_node[place.node["ID"]] <= place.free[GPU]

    Run(day, watch).go()


@given(days)
def test_caps_hold(day):
    def watch(run, decisions):
        _by_node, by_queue, by_owner = run.used(decisions)
        for name, queue in day.queues.items():
            assert by_queue[name] <= queue.most.get(GPU, by_queue[name])
        for (name, _owner), gpus in by_owner.items():
            assert gpus <= day.queues[name].per_owner.get(GPU, gpus)

    Run(day, watch).go()


@given(days)
def test_gangs_start_whole_on_different_nodes_or_not_at_all(day):
    models = {node["ID"]: node["Spec"]["Labels"]["gpu.model"] for node in day.nodes}

    def watch(run, decisions):
        for gang, nodes in run.gangs(decisions):
            assert set(nodes) == {None} or (None not in nodes and len(set(nodes)) == len(nodes))
            assert nodes == [None] * len(nodes) or not gang.same_model or len({models[node] for node in nodes}) == 1

    Run(day, watch).go()


@given(days)
def test_nothing_delays_the_head(day):
    promised = {}

    def watch(run, decisions):
        waits = {one.work.service_id: one for one in decisions if not one.node}
        for name, time in promised.items():
            if name in waits:
                assert run.now < time, (name, waits[name].reason)
        heads = [one for one in decisions if one.keeps]
        assert len({(one.work.gang.name if one.work.gang else one.work.service_id) for one in heads}) <= 1
        for one in heads:
            assert one.reason.code == "next"
            before = promised.get(one.work.service_id)
            assert before is None or (one.starts_by is not None and one.starts_by <= before)
            if one.starts_by is not None:
                promised[one.work.service_id] = one.starts_by

    Run(day, watch).go()


@given(days)
def test_what_fits_an_empty_fleet_starts_in_the_end(day):
    last = {}
    day = day._replace(tasks=[])  # work that is not queued and never ends

    def watch(_run, decisions):
        last.clear()
        last.update({one.work.service_id: one for one in decisions})

    left = Run(day, watch).go()
    assert {last[one.service_id].reason.code for one in left} <= FOR_GOOD
    alone = admit(state_of(day.nodes, day.tasks), day.queues, [one for one in left if not one.gang], [], 0.0)
    assert not [one for one in alone if one.node]


def shuffled(mapping, chance):
    items = list(mapping.items())
    chance.shuffle(items)
    return dict(items)


@given(days, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_of_lists_and_dictionaries_changes_nothing(day, chance):
    def watch(run, decisions):
        waiting = [one._replace(demand=one.demand._replace(wants=shuffled(one.demand.wants, chance))) for one in run.waiting]
        running, nodes, tasks = list(run.running), list(day.nodes), list(day.tasks)
        for one in (waiting, running, nodes, tasks):
            chance.shuffle(one)
        assert admit(state_of(nodes, tasks), shuffled(day.queues, chance), waiting, running, run.now) == decisions

    Run(day, watch).go()


@pytest.mark.parametrize("seed", range(5))
def test_the_random_days_have_heads_backfilled_work_and_gangs(seed):
    """Without these, the properties would prove nothing."""
    found = {"next": 0, "backfilled": 0, "gangs": 0, "kept-for-next": 0, "cap": 0}

    def watch(_run, decisions):
        kept = False
        for one in decisions:
            found["backfilled"] += bool(kept and one.node)
            found["gangs"] += bool(one.work.gang and one.node)
            if one.reason and one.reason.code in found:
                found[one.reason.code] += 1
            kept = kept or bool(one.keeps)

    chance = random.Random(seed)
    for _number in range(100):
        Run(a_day(chance.random()), watch).go()
    assert min(found.values()) > 20, found
