# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment
from jinja2.nativetypes import NativeEnvironment

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


TIMED_OUT = {"failed": True, "msg": "Task failed: Timed out after 900 second(s).", "timedout": {"period": 900}}
TIMED_OUT_BEFORE_2_18 = {"failed": True, "msg": "The dnf action failed to execute in the expected time frame (900) and was terminated"}


@pytest.mark.parametrize("register", ["refreshed", "finished", "install"])
@pytest.mark.parametrize(
    ("result", "late"),
    [(TIMED_OUT, True), (TIMED_OUT_BEFORE_2_18, True), ({"rc": 0}, False), ({"rc": 1, "msg": "non-zero return code"}, False)],
)
def test_whether_the_package_manager_may_still_be_at_it(register, result, late):
    settings = yaml.safe_load(VARS.read_text())
    jinja = NativeEnvironment(autoescape=False)
    jinja.tests["search"] = lambda text, pattern: re.search(pattern, text) is not None
    registered = {f"__nvidia_container_toolkit_{register}": result}
    tries = jinja.from_string(settings["_nvidia_container_toolkit_tries"]).render(registered)
    assert jinja.from_string(settings["_nvidia_container_toolkit_late"]).render(_nvidia_container_toolkit_tries=tries) is late
