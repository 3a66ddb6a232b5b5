# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu_node with state absent restores the original files. It keeps later edits of a person, and removes the collection's parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import BY_A_PERSON, Loud
from .fleet import CONFIG_TOML, DAEMON_JSON, Fleet, wait_until
from .swarm import KIND, member, shown


@pytest.mark.rare
def test_absent_restores_the_former_state(fleet: Fleet, inventory: Path, first: Loud) -> None:
    """g1's files are unchanged. g2's files were edited."""
    manager, same, edited = fleet["m1"], fleet["g1"], fleet["g2"]
    original_toml = fleet["x1"].read(CONFIG_TOML) or b""  # x1 has the same packages, and was never provisioned
    for node in (same, edited):
        manager.docker("node", "update", "--availability", "drain", member(fleet, node.name)["ID"])
    daemon_json, config_toml = (edited.read(path) or b"" for path in (DAEMON_JSON, CONFIG_TOML))
    edited.write(DAEMON_JSON, daemon_json.replace(b"{", b'{"debug": true, ', 1))
    edited.write(CONFIG_TOML, config_toml + b"# by a person\n")

    run = fleet.module("g1,g2", "fleet.gpu_swarm.gpu_node", {"state": "absent"})
    assert run.rc == 0, run.output
    assert same.read(DAEMON_JSON) == BY_A_PERSON
    assert same.read(CONFIG_TOML) == original_toml
    assert re.sub(rb"\s", b"", edited.read(DAEMON_JSON) or b"") == b'{"debug":true}'
    assert edited.read(CONFIG_TOML) == original_toml + b"# by a person\n"
    for node in (same, edited):
        wait_until("the manager to show it", lambda name=node.name: shown(fleet, name) == {})
        assert node.swarm()["LocalNodeState"] == "active"

    again = fleet.module("g1,g2", "fleet.gpu_swarm.gpu_node", {"state": "absent"})
    assert [again.results(name)[0]["changed"] for name in ("g1", "g2")] == [False, False]

    for node in (same, edited):
        manager.docker("node", "update", "--availability", "active", member(fleet, node.name)["ID"])
    run = fleet.playbook(inventory)
    assert run.rc == 0, run.output
    assert shown(fleet, "g1") == {KIND: sorted(same.gpus())}
    assert shown(fleet, "g2") == {KIND: sorted(edited.gpus())}
