# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks with archspec which CPUs run software that was built for another CPU (pure).

The names come from https://archspec.readthedocs.io. Levels such as x86-64-v3 come from the psABI of x86-64.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import difflib
import re

try:
    from archspec.cpu import TARGETS

    ANCESTORS = {name: frozenset(ancestor.name for ancestor in target.ancestors) for name, target in TARGETS.items()}
except ImportError:  # optional on the controller
    ANCESTORS = {}

_PSABI = re.compile(r"x86[-_]64(?:[-_]v([1-4]))?")
LEVELS = ("x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4")


def canonical(name: str) -> str:
    """Convert a name to the form of archspec: the psABI's x86-64-v3 becomes x86_64_v3."""
    match = _PSABI.fullmatch(name.strip().lower())
    return LEVELS[int(match.group(1) or 1) - 1] if match else name.strip().lower()


def problem(name: str) -> str | None:
    """Return why this CPU is unknown, or None if it is known. ``name`` is in canonical form."""
    if name in LEVELS or name in ANCESTORS:
        return None
    if not ANCESTORS:
        return f"is {name!r}, but archspec is not installed here. Run 'pip install archspec', or write a level such as x86-64-v3"
    similar_names = difflib.get_close_matches(name, ANCESTORS, 3)
    similar = f" Similar names: {', '.join(similar_names)}." if similar_names else ""
    return f"is {name!r}, which archspec does not know.{similar} Write a name that archspec knows, or a level such as x86-64-v3"


def runs(node: str, wanted: str) -> bool:
    """Return whether the CPU ``node`` runs software that was built for ``wanted``."""
    if node in LEVELS and wanted in LEVELS:
        return LEVELS.index(wanted) <= LEVELS.index(node)
    return node == wanted or wanted in ANCESTORS.get(node, ())
