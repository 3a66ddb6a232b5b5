# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import socket

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import addresses as machine_addresses
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.addresses import (
    Interface,
    advertised_address,
    find_ambiguous,
    parse_ifconf,
    parse_inet6,
)

LO = Interface("lo", False, ["127.0.0.1", "::1"])
ETH0 = Interface("eth0", True, ["10.0.0.5", "fd00::5", "fe80::1"])
DOCKER0 = Interface("docker0", False, ["172.17.0.1"])


@pytest.mark.parametrize(
    ("interfaces", "expected"),
    [
        ([LO, ETH0, DOCKER0], []),
        ([LO, Interface("eth0", True, ["fd00::5"])], []),
        ([LO, ETH0, Interface("bond0", False, ["10.1.0.5"]), Interface("wg0", False, ["10.2.0.5"])], []),
        ([LO, ETH0, Interface("eth1", True, ["fe80::2"])], []),
        ([LO, ETH0, Interface("eth1", True, ["10.1.0.5"])], ["10.0.0.5 (eth0)", "fd00::5 (eth0)", "10.1.0.5 (eth1)"]),
        ([LO, Interface("eth0", True, ["10.0.0.5", "10.0.0.6"])], ["10.0.0.5 (eth0)", "10.0.0.6 (eth0)"]),
        # a container has only interfaces without a device
        ([LO, Interface("eth0", False, ["10.0.0.5"]), DOCKER0, Interface("br-0123456789ab", False, ["172.18.0.1"])], []),
        ([LO, Interface("eth0", False, ["10.0.0.5"]), Interface("eth1", False, ["10.1.0.5"])], ["10.0.0.5 (eth0)", "10.1.0.5 (eth1)"]),
        ([LO], []),
        ([], []),
    ],
)
def test_docker_cannot_choose_between_several_addresses(interfaces, expected):
    assert find_ambiguous(interfaces) == expected


HERE = {"eth0": ["10.0.0.5", "fd00::5"], "eth1": ["10.1.0.5", "10.1.0.6"], "eth2": ["fd00::7", "fe80::7"], "eth3": ["fd00::9"]}


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("eth0", "10.0.0.5"),  # IPv4 is preferred to IPv6
        ("eth0:2377", "10.0.0.5"),
        ("eth3", "fd00::9"),
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5:2400", "10.0.0.5"),
        ("203.0.113.9", "203.0.113.9"),  # an address in front of NAT, which no interface has
        ("fd00:0::5", "fd00::5"),
        ("[fd00::5]:2377", "fd00::5"),
    ],
)
def test_docker_advertises_this_address(setting, address):
    assert advertised_address(setting, HERE) == address


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("eth9", "this machine has no interface eth9 with an address"),
        ("eth9:2377", "this machine has no interface eth9 with an address"),
        ("node-1.example.org", "no interface node-1.example.org with an address"),
        ("10.0.0", "no interface 10.0.0 with an address"),
        ("10.0.0.5/24", "no interface 10.0.0.5/24 with an address"),
        ("[fd00::5]", "no interface [fd00::5] with an address"),  # Docker accepts brackets only with a port
        ("eth1", "interface eth1 has several addresses: 10.1.0.5, 10.1.0.6"),
        ("eth2", "interface eth2 has several addresses: fd00::7, fe80::7"),
        ("0.0.0.0", "0.0.0.0 is not the address of one machine"),
    ],
)
def test_addresses_that_docker_cannot_advertise_are_refused(setting, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        advertised_address(setting, HERE)


def test_the_addresses_of_interfaces_that_others_may_reach(monkeypatch):
    listed = [("lo", "127.0.0.1"), ("eth0", "10.0.0.5"), ("docker0", "172.17.0.1")]
    monkeypatch.setattr(machine_addresses, "_read_ipv4", lambda: listed)
    monkeypatch.setattr(machine_addresses, "parse_inet6", lambda text: [("eth0", "fe80::1"), ("veth0123456", "fe80::2")])
    assert machine_addresses.addresses_by_interface() == {"docker0": ["172.17.0.1"], "eth0": ["10.0.0.5", "fe80::1"]}


def test_addresses_are_read_from_the_kernel():
    def entry(name, address):
        return (name.ljust(16, b"\0") + b"\x02\0\0\0" + socket.inet_aton(address)).ljust(machine_addresses.IFREQ_SIZE, b"\0")

    assert parse_ifconf(entry(b"lo", "127.0.0.1") + entry(b"eth0:1", "10.0.0.6")) == [("lo", "127.0.0.1"), ("eth0", "10.0.0.6")]
    assert parse_inet6("fd000000000000000000000000000005 02 40 00 80     eth0\n\n") == [("eth0", "fd00::5")]


def test_the_addresses_of_this_machine_are_read():
    addresses = dict(machine_addresses._read_ipv4())
    assert addresses.get("lo", "127.0.0.1") == "127.0.0.1"
    assert isinstance(machine_addresses.ambiguous_addresses(), list)
