# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.join_failure import explain_failure

JOINS = {"state": "joined", "manager": "m1", "role": "worker", "managers": ["192.0.2.1:2377", "192.0.2.2:2377"], "port_timeout": 5}
TRIED = {"msg": "invalid join token.", "reachable": ["192.0.2.1:2377"]}
CASES = {
    "no manager can be reached": (
        JOINS,
        {"msg": "no manager can be reached", "swarm": {"state": "inactive"}, "reachable": []},
        ["w1 cannot reach a manager of the swarm: nothing answered at 192.0.2.1:2377, 192.0.2.2:2377 within 5 s.", "Open TCP port 2377",
         "The node is unchanged."],
    ),
    "refused": (
        JOINS,
        {**TRIED, "swarm": {"state": "inactive"}},
        ["w1 could not join the swarm of m1 as worker: invalid join token. See", "192.0.2.1:2377 belongs to another swarm",
         "The node is in no swarm, as before."],
    ),
    "the host is in a swarm": (JOINS, {**TRIED, "swarm": {"state": "active"}}, ["The node is a member, but not yet a working one."]),
    "the swarm state is error": (JOINS, {**TRIED, "swarm": {"state": "error"}}, ["The swarm's state there is error: run this again."]),
    "unreachable": (JOINS, {"msg": "w1 cannot be reached: timed out"}, ["w1 could not join the swarm of m1 as worker: w1 cannot be reached: timed"]),
    "no swarm could be initialised": (
        {"state": "initialised"},
        {"msg": "could not choose an IP address."},
        ["w1 could not initialise a swarm: could not choose an IP address. On a node with", "(now left to Docker)"],
    ),
    "the address does not work": ({"state": "initialised", "advertise_addr": "eth7"}, {"msg": "x"}, ["(now eth7)"]),
    "it cannot leave": ({"state": "left"}, {"msg": "You are the last manager"}, ["w1 could not leave its swarm: You are the last manager. Run"]),
    "no reason is known": ({"state": "left"}, {}, ["no reason given"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_message_says_why_a_host_is_no_member(case):
    args, answer, words = CASES[case]
    text = explain_failure(answer, "w1", args)
    assert [one for one in words if one not in text] == []
