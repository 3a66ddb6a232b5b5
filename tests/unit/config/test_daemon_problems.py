# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import daemon_problems
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config.daemon_problems import Flag

PATH = "/etc/docker/daemon.json"


def test_conflicting_flags_are_found():
    argv = ["/usr/bin/dockerd", "-H", "fd://", "--default-runtime=nvidia", "--add-runtime", "nvidia=/x"]
    argv += ["--node-generic-resource", "gpu=GPU-a", "--node-generic-resource=VRAM=8000"]
    assert daemon_problems.conflicting_flags(argv) == [
        Flag("--default-runtime", "nvidia", "default-runtime"),
        Flag("--node-generic-resource", "gpu=GPU-a", "node-generic-resources"),
        Flag("--node-generic-resource", "VRAM=8000", "node-generic-resources"),
    ]
    assert daemon_problems.conflicting_flags(["dockerd", "-H", "fd://"]) == []


@pytest.mark.parametrize(
    ("doc", "argv", "words"),
    [
        ({}, [], []),
        ({"live-restore": False}, ["dockerd"], []),
        ({"live-restore": True}, [], ["live-restore is true"]),
        ({}, ["dockerd", "--live-restore"], ["--live-restore"]),
        ({"firewall-backend": "iptables"}, ["dockerd"], []),
        ({"firewall-backend": "nftables"}, ["dockerd"], [PATH + ": firewall-backend is nftables, so"]),
        ({}, ["dockerd", "--firewall-backend=nftables"], ["dockerd is started with --firewall-backend=nftables, so"]),
        ({}, ["dockerd", "--firewall-backend", "nftables"], ["dockerd is started with --firewall-backend=nftables, so"]),
        # As in dockerd's IsSwarmCompatible: without rules these work, and users may only want to try them.
        ({"firewall-backend": "nftables", "iptables": False}, [], []),
        ({"firewall-backend": "nftables", "iptables": True}, [], ["firewall-backend is nftables"]),
        ({"firewall-backend": "nftables"}, ["dockerd", "--iptables=false"], []),
        ({"firewall-backend": "nftables", "features": {"swarm-nftables": True}}, [], []),
        ({"firewall-backend": "nftables", "features": {"swarm-nftables": False}}, [], ["firewall-backend is nftables"]),
        ({"firewall-backend": "nftables", "features": "swarm-nftables"}, [], ["firewall-backend is nftables"]),
        ({"firewall-backend": "nftables"}, ["dockerd", "--feature", "swarm-nftables"], []),
        ({}, ["dockerd", "--default-runtime=x"], ["--default-runtime=x"]),
    ],
)
def test_settings_that_prevent_a_swarm_are_found(doc, argv, words):
    found = daemon_problems.find_problems(doc, PATH, argv)
    assert len(found) == len(words)
    assert all(word in sentence and "remove" in sentence.lower() for word, sentence in zip(words, found, strict=True))
