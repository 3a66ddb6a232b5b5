# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.advertised import difference, unresolved_error, warnings
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.membership import Candidate, membership

HERE = {"eth0": ["10.0.0.5", "fe80::1"], "eth1": ["10.1.0.5"], "docker0": ["172.17.0.1"]}


def swarm(state="active", addr="10.0.0.5", **more):
    return {"state": state, "node_id": "n1", "addr": addr, "addresses": HERE, **more}


@pytest.mark.parametrize(
    ("state", "action"),
    [
        ({"state": "inactive"}, "join"),
        ({"state": "error", "half_joined": True}, "recover"),
        ({"state": "active"}, "move"),  # a worker of another swarm
    ],
)
@pytest.mark.parametrize(("setting", "words"), [("eth9", "this machine has no interface eth9"), ("eth1", None), ("", None)])
def test_a_host_joins_only_with_an_address_that_docker_accepts(state, action, setting, words):
    found = membership(Candidate({"swarm": swarm(**state)}, move=True, advertise_addr=setting), [])
    assert found["action"] == action
    if words is None:
        assert found["error"] is None
    else:
        assert f"swarm_member_advertise_addr is {setting}, but {words}" in found["error"]
        assert "This machine has 10.0.0.5 (eth0), fe80::1 (eth0), 10.1.0.5 (eth1). Set" in found["error"]


@pytest.mark.parametrize("addresses", [None, {}])
def test_a_host_with_unknown_addresses_has_no_warning(addresses):
    assert unresolved_error("eth9", swarm(addresses=addresses)) is None
    assert difference("eth9", swarm(addresses=addresses)) is None


DIFFERENCES = {
    "as set": ("eth0", swarm(), None),
    "as set, with a port": ("10.0.0.5:2377", swarm(), None),
    "as set, behind NAT": ("203.0.113.9", swarm(addr="203.0.113.9"), None),
    "the same, written in another way": ("fd00:0::5", swarm(addr="fd00::5"), None),
    "another interface": ("eth1", swarm(), "advertises 10.0.0.5, and swarm_member_advertise_addr is eth1 (10.1.0.5)"),
    "another address": ("10.9.0.1", swarm(), "advertises 10.0.0.5, and swarm_member_advertise_addr is 10.9.0.1"),
    "the interface has a new address": (
        "eth0", swarm(addr="10.0.0.4"), "advertises 10.0.0.4, and swarm_member_advertise_addr is eth0 (10.0.0.5)"
    ),
    "a missing interface": (
        "eth9", swarm(), "advertises 10.0.0.5, and swarm_member_advertise_addr is eth9, but this machine has no interface eth9 with an address"
    ),
    "not set, and the machine has the address": ("", swarm(addr="172.17.0.1"), None),
    "not set, and the machine lost the address": (
        "", swarm(addr="10.0.0.4"), "advertises 10.0.0.4, and the machine has 10.0.0.5 (eth0), fe80::1 (eth0), 10.1.0.5 (eth1)"
    ),
    "not set, a swarm of one machine": ("", swarm(addr="127.0.0.1"), None),
    "no address": ("", swarm(addr="no\x1b[2J"), "advertises no\\x1b[2J, and the machine has 10.0.0.5 (eth0), fe80::1 (eth0), 10.1.0.5 (eth1)"),
    "no member": ("eth9", swarm(state="inactive"), None),
    "a member without an advertised address": ("eth1", swarm(addr=None), None),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERENCES)
def test_another_advertised_address_is_a_warning(case):
    setting, found, text = DIFFERENCES[case]
    assert difference(setting, found) == text


def test_all_hosts_are_in_one_warning():
    assert warnings({"g1": None, "g2": None}) == []
    (text,) = warnings({"g0": None} | {f"g{number}": "advertises 10.0.0.5" for number in range(1, 9)})
    assert text.startswith("g1 advertises 10.0.0.5; g2 advertises")
    (five,) = warnings({f"g{number}": "advertises 10.0.0.5" for number in range(5)})
    assert "g4 advertises 10.0.0.5. A member keeps" in five
    assert "g5 advertises 10.0.0.5; and 3 more. A member keeps the address that it had when it joined. To change the address, let" in text
