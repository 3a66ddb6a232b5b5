# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.data_network import ADDRESS, ADVERTISED, INTERFACE, check, labels, missing

TWO = {"eth0": ["192.168.1.5"], "ib0": ["fd00::5", "10.0.0.5", "10.0.0.6"]}


@pytest.mark.parametrize(
    ("setting", "advertised", "interfaces", "found"),
    [
        ("ib0", "192.168.1.5", TWO, ("10.0.0.5", "ib0")),
        ("10.0.0.6", "192.168.1.5", TWO, ("10.0.0.6", "ib0")),
        ("fd00:0::5", "", TWO, ("fd00::5", "ib0")),
        (ADVERTISED, "192.168.1.5", TWO, ("192.168.1.5", "eth0")),
        (ADVERTISED, "10.0.0.6", TWO, ("10.0.0.6", "ib0")),
        (ADVERTISED, "203.0.113.9", TWO, None),  # behind NAT
        (ADVERTISED, "", TWO, None),
        (ADVERTISED, "", {"eth0": ["10.0.0.5"], "docker0": ["172.17.0.1"], "docker_gwbridge": ["172.18.0.1"]}, ("10.0.0.5", "eth0")),
        (ADVERTISED, "", {"docker0": ["172.17.0.1"]}, None),
        (ADVERTISED, "", {"eth0": ["fe80::1"], "eth1": ["10.0.0.5"]}, ("10.0.0.5", "eth1")),
        ("eth0", "", {"eth0": ["fe80::1", "fd00::1"]}, ("fd00::1", "eth0")),
        ("eth0", "10.0.0.5", {"eth0": ["fe80::1"], "eth1": ["10.0.0.5"]}, None),
        ("ib1", "192.168.1.5", TWO, None),
        ("10.9.9.9", "192.168.1.5", TWO, None),
        (ADVERTISED, "192.168.1.5", {}, None),
    ],
)
def test_the_setting_or_the_advertised_address_chooses_the_interface(setting, advertised, interfaces, found):
    assert labels(setting, advertised, interfaces) == ({ADDRESS: found[0], INTERFACE: found[1]} if found else {})


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::", "::1", "224.0.0.1", "169.254.1.1", "fe80::1", "10.0.0.5/24", "x", "{{ a }}", ""])
def test_an_answer_with_another_form_becomes_no_label(address):
    assert labels("ib0", "", {"ib0": [address]}) == {}
    assert labels(address, "", {"ib0": ["10.0.0.5"]}) == {}


@given(st.dictionaries(st.text(max_size=20), st.lists(st.text(max_size=20) | st.ip_addresses().map(str), max_size=3)), st.text(max_size=20))
def test_whatever_a_node_answers_the_labels_have_their_form(interfaces, text):
    for setting in (ADVERTISED, text, *interfaces):
        found = labels(setting, text, interfaces)
        assert set(found) in (set(), {ADDRESS, INTERFACE})
        assert all(len(value) <= 45 and value.isprintable() and not {" ", "/", "{"} & set(value) for value in found.values())


@pytest.mark.parametrize("setting", ["", None, "ib0", "enp1s0f0np0", "bond0.100", "10.0.0.5", "fd00::5"])
def test_a_setting_is_an_interface_or_an_address(setting):
    check(setting)


@pytest.mark.parametrize("setting", ["a b", "eth0:1", "an-interface-name", "10.0.0.0/8", "ib*", 5, ["ib0"], "127.0.0.1:80"])
def test_another_setting_is_refused(setting):
    with pytest.raises(GpuSwarmError, match=r"^data_interface is .* but must be an interface or one of its addresses"):
        check(setting)


def test_the_problem_names_what_the_machine_has():
    assert missing("ib1", {**TWO, "lo": ["127.0.0.1"]}) == (
        "its data interface is 'ib1', and the machine has neither such an address nor such an interface with an address. "
        "It has 192.168.1.5 (eth0); 10.0.0.5, 10.0.0.6, fd00::5 (ib0)."
    )
    assert missing("ib1", {}).endswith("It has none.")
