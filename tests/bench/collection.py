# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes this checkout importable as the collection ansible_collections.fleet.gpu_swarm, in any folder."""

from __future__ import annotations

import importlib
import runpy
import sys
from types import ModuleType

from tests.lab.lab import CHECKOUT


def module(name: str) -> ModuleType:
    """Return a module of the collection by its path in plugins/, such as ``module_utils._gpu.nvml``."""
    if "ansible_collections.fleet" not in sys.modules:
        runpy.run_path(str(CHECKOUT / "tests" / "unit" / "support" / "checkout.py"))
    return importlib.import_module(f"ansible_collections.fleet.gpu_swarm.plugins.{name}")
