# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes with SSH: their image and their inventory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab import fleet, inventory, variants
from tests.lab.lab import Lab


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> fleet.Fleet:
    monkeypatch.setattr(inventory, "fingerprint", lambda _lab: "0123")
    return fleet.read(fleet.preset("small"), "mine", {"nodes": "2", "ssh": "true"})


def test_a_node_with_sshd_has_a_separate_image(made: fleet.Fleet) -> None:
    node = made.nodes[0]
    assert node.ssh
    assert variants.tag(node) != variants.tag(replace(node, ssh=False))
    assert not fleet.read(fleet.preset("small"), None, {}).nodes[0].ssh


def test_the_inventory_over_ssh_has_the_same_hosts_and_groups_and_checks_host_keys(made: fleet.Fleet) -> None:
    lab, addresses = Lab(Path("/nowhere")), {"n1": "198.18.0.2", "n2": "198.18.0.3"}
    plain, ssh = inventory.inventory(lab, made, addresses)["all"], inventory.over_ssh(lab, made, addresses)["all"]
    assert ssh["children"] == plain["children"]
    assert {name: host["ansible_host"] for name, host in ssh["hosts"].items()} == addresses
    assert (ssh["vars"]["ansible_connection"], ssh["vars"]["ansible_host_key_checking"]) == ("ssh", True)
    assert "ansible_become" not in ssh["vars"]
    assert set(plain["vars"]) - set(ssh["vars"]) == {"ansible_become", "ansible_docker_extra_args"}
