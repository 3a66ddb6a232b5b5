# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jinja2 import Environment

VARS = Path(__file__).parents[2] / "roles" / "nvidia_container_toolkit" / "vars" / "main.yml"


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ({}, ""),
        ({"nvidia_container_toolkit_hold": None}, ""),
        ({"nvidia_container_toolkit_hold": ""}, ""),
        ({"nvidia_container_toolkit_hold": True}, "True"),
        ({"nvidia_container_toolkit_hold": False}, "False"),  # lets the packages go, which is not the same as not set
        ({"nvidia_container_toolkit_hold": "false"}, "false"),
    ],
)
def test_whether_the_inventory_speaks_of_holding_the_toolkit(setting, wanted):
    text = yaml.safe_load(VARS.read_text())["_nvidia_container_toolkit_hold_wanted"]
    assert Environment(autoescape=False).from_string(text).render(setting) == wanted
