# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes this checkout importable as ansible_collections.fleet.gpu_swarm, in any folder.

``ansible-test`` does this itself. For plain ``python -m pytest tests/unit``, this module adds two namespace packages and the collection's
package with the checkout's root. A program that a test starts imports this module first, from ``SUPPORT``.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

SUPPORT = str(Path(__file__).resolve().parent)
ROOT = Path(__file__).resolve().parents[3]


def _package(name: str, path: list[str]) -> None:
    module = types.ModuleType(name)
    module.__path__ = path
    sys.modules[name] = module


if importlib.util.find_spec("ansible_collections") is None:
    _package("ansible_collections", [])
if importlib.util.find_spec("ansible_collections.fleet") is None:
    _package("ansible_collections.fleet", [])
    _package("ansible_collections.fleet.gpu_swarm", [str(ROOT)])
