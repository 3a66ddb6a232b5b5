# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/examples/fleet, the folder that users copy, read by Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs/examples/fleet"
OTHERS = ("compose.yml", "job.yml", "requirements.yml")
INVENTORIES = sorted(path.name for path in FOLDER.glob("*.yml") if path.name not in OTHERS)


def variables(name, host, tmp_path):
    command = [Path(sys.executable).parent / "ansible-inventory", "-i", FOLDER / name, "--host", host]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "ANSIBLE_HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_cards_of_three_machines_have_a_kind_per_model(tmp_path):
    """The files in group_vars override the variables of a group in an inventory file."""
    first, *_others = variables("three_machines.yml", "a.example.org", tmp_path)["gpu_node_advertise"]
    assert first["as"] == "model"


@pytest.mark.parametrize("name", INVENTORIES)
def test_nothing_becomes_root_on_the_controller(name, tmp_path):
    """Variables of all hosts also apply to localhost, and bundle runs on localhost."""
    assert "ansible_become" not in variables(name, "localhost", tmp_path)
