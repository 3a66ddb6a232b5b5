# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encrypted networks between Docker releases that do not understand each other."""

from __future__ import annotations

import pytest
from swarm_api import node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger import encrypted
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed


def on(one, name, option="encrypted", ingress=False):
    """Return a task on an overlay network in the form of 'docker inspect --type task'."""
    options = {option: "", "com.docker.network.driver.overlay.vxlanid_list": "4097"}
    spec = {"Name": name, "DriverConfiguration": {"Name": "overlay", "Options": {option: ""}}, "Ingress": ingress}
    return dict(one, NetworksAttachments=[{"Network": {"ID": f"id-of-{name}", "Spec": spec, "DriverState": {"Name": "overlay", "Options": options}}}])


def found(engines, tasks):
    """Return the findings of a swarm with nodes n1, n2 … of these releases. The first node is the leader."""
    nodes = [node(f"n{number}", engine=engine, leader=number == 1) for number, engine in enumerate(engines, 1)]
    return ledger(Listed(nodes, tasks, [service()]), "gpu-swarm.")["findings"]


def two(*where, **options):
    return [on(task(f"t{node_id}", node_id), "secure", **options) for node_id in where]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("29.2.1", "29.2.0"), ("29.7.2", "29.0.0"), ("28.5.2", "29.1.3"), ("28.3.0", "28.2.2"), ("28.2.1", "28.2.2"), ("26.1.5+dfsg1", "25.0.14"),
        ("25.0.15", "25.0.13"), ("25.0.12", "25.0.13"), ("20.10.24+dfsg1", "29.2.0"),
    ],
)  # fmt: skip
def test_encrypted_networks_between_incompatible_releases_are_reported(one, other):
    for engines in ((one, other), (other, one)):
        (finding,) = [item for item in found(engines, two("n1", "n2")) if item["id"] == encrypted.TRAP]
        names = {engine: f"host-n{number} ({engine})" for number, engine in enumerate(engines, 1)}
        assert f"Here: network secure between {names[other]} and {names[one]}. Upgrade Docker Engine" in finding["text"]


@pytest.mark.parametrize(
    ("engines", "tasks"),
    [
        (("29.2.0", "29.1.3"), two("n1", "n2")),
        (("29.2.1", "28.5.2"), two("n1", "n2")),
        (("29.2.1", "29.2.0"), two("n1")),
        (("29.2.1", "29.2.0"), two("n1", "n2", option="com.docker.network.driver.mtu")),
        (("29.2.1", "29.2.0"), [on(task("t1", "n1"), "one"), on(task("t2", "n2"), "two")]),
        (("29.2.1", "29.2.0"), [on(task("t1", "n1"), "secure"), on(task("t2", "n2", state="shutdown", desired="shutdown"), "secure")]),
        (("29.2.1", "29.2.0"), [on(task("t1", "n1"), "secure"), on(task("t2", None, state="pending"), "secure")]),
        (("29.2.1", "29.2.0"), [on(task("t1", "n1"), "secure"), on(task("t2", "gone"), "secure")]),
        (("29.2.1", "29.2.0"), [task("t1", "n1"), task("t2", "n2")]),
        (("29.2.1", None), two("n1", "n2")),
    ],
    ids=[
        "both affected", "neither affected", "one node", "not encrypted", "two networks", "one has ended", "one has no node",
        "one node is gone", "no network", "an unknown release",
    ],
)  # fmt: skip
def test_other_networks_are_not_reported(engines, tasks):
    assert [item["id"] for item in found(engines, tasks) if item["id"] == encrypted.TRAP] == []
