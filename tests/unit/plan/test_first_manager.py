# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest
from fleet_lab import host

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import END, Swarm
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.first_manager import check_first_manager
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import plan

FOUND = {"live": [], "init_on": "m1", "error": None}
CHOICE = ["10.0.0.5 (eth0)", "10.1.0.5 (eth1)"]


def inactive(name, undecided):
    return host(name, manager=True, swarm={"state": "inactive", "node_id": None, "control_available": False, "undecided": undecided})


def test_nothing_starts_before_the_first_node_knows_its_address():
    hosts = [inactive("m1", CHOICE), inactive("g1", CHOICE)]
    found = check_first_manager(FOUND, hosts)
    assert found["error"].startswith(
        "There is no swarm yet, and Docker on its first manager m1 cannot choose the address to advertise: "
        "10.0.0.5 (eth0), 10.1.0.5 (eth1). Set swarm_member_advertise_addr of m1 to"
    )
    steps = plan(hosts, Swarm(found))
    assert {name: (step.error, step.groups) for name, step in steps.items()} == {name: (found["error"], [END]) for name in ("m1", "g1")}


@pytest.mark.parametrize(
    ("found", "first"),
    [
        (FOUND, inactive("m1", [])),
        (FOUND, inactive("m1", None)),
        (FOUND, replace(inactive("m1", CHOICE), advertise_addr="eth0")),
        (FOUND, replace(inactive("m1", CHOICE), assessed=None)),
        ({"live": ["m1"], "init_on": None, "error": None}, inactive("m1", CHOICE)),
        ({"live": [], "init_on": "elsewhere", "error": None}, inactive("m1", CHOICE)),
    ],
)
def test_other_hosts_may_start(found, first):
    assert check_first_manager(found, [first, inactive("g1", CHOICE)]) == found
