# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback that has ansible-playbook look for results less often. What somebody has set to be longer stays."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import pytest
from ansible import constants
from ansible.plugins.strategy import StrategyBase

CALLBACK = Path(__file__).resolve().parents[2] / "playbooks" / "callback_plugins" / "gpu_swarm_polling.py"


@pytest.mark.parametrize(("before", "after"), [(0.001, 0.005), (0.02, 0.02)])
def test_the_interval_is_no_shorter_than_this(monkeypatch, before, after):
    monkeypatch.setattr(constants, "DEFAULT_INTERNAL_POLL_INTERVAL", before)
    runpy.run_path(str(CALLBACK))["CallbackModule"]()
    assert after == constants.DEFAULT_INTERNAL_POLL_INTERVAL


def test_this_is_what_ansible_goes_by():
    assert "time.sleep(C.DEFAULT_INTERNAL_POLL_INTERVAL)" in inspect.getsource(StrategyBase)
