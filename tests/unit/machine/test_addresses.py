# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import addresses as machine_addresses
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.addresses import Interface, choose, parse_ifconf, parse_inet6

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
        # a container: there are no devices
        ([LO, Interface("eth0", False, ["10.0.0.5"]), DOCKER0, Interface("br-0123456789ab", False, ["172.18.0.1"])], []),
        ([LO, Interface("eth0", False, ["10.0.0.5"]), Interface("eth1", False, ["10.1.0.5"])], ["10.0.0.5 (eth0)", "10.1.0.5 (eth1)"]),
        ([LO], []),
        ([], []),
    ],
)
def test_where_docker_could_not_choose(interfaces, expected):
    assert choose(interfaces) == expected


def test_what_the_kernel_lists():
    def entry(name, address):
        return (name.ljust(16, b"\0") + b"\x02\0\0\0" + socket.inet_aton(address)).ljust(machine_addresses.IFREQ, b"\0")

    assert parse_ifconf(entry(b"lo", "127.0.0.1") + entry(b"eth0:1", "10.0.0.6")) == [("lo", "127.0.0.1"), ("eth0", "10.0.0.6")]
    assert parse_inet6("fd000000000000000000000000000005 02 40 00 80     eth0\n\n") == [("eth0", "fd00::5")]


def test_this_machine():
    addresses = dict(machine_addresses._ipv4())
    assert addresses.get("lo", "127.0.0.1") == "127.0.0.1"
    assert isinstance(machine_addresses.undecided(), list)
