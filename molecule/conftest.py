# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepares the tests of every scenario: makes molecule/shared importable, and selects the lab's Docker daemon."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "shared"))


def pytest_configure(config: pytest.Config) -> None:
    inventory = Path(config.getoption("ansible_inventory"))
    for line in (inventory.parent / "env").read_text().splitlines():
        name, dummy, value = line.removeprefix("export ").partition("=")
        if name == "DOCKER_HOST":
            os.environ[name] = value
