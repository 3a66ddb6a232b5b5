# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which CPUs run what was built for one (pure): by the ancestors of micro-architectures that archspec knows.

https://archspec.readthedocs.io has the names; those of levels, such as x86-64-v3, are of the psABI of x86-64.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import difflib
import re

try:
    from archspec.cpu import TARGETS

    ANCESTORS = {name: frozenset(one.name for one in target.ancestors) for name, target in TARGETS.items()}
except ImportError:  # optional on the controller
    ANCESTORS = {}

_PSABI = re.compile(r"x86[-_]64(?:[-_]v([1-4]))?")
LEVELS = ("x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4")


def canonical(name: str) -> str:
    """As archspec has it: x86-64-v3, as the psABI has it, is x86_64_v3."""
    found = _PSABI.fullmatch(name.strip().lower())
    return LEVELS[int(found.group(1) or 1) - 1] if found else name.strip().lower()


def problem(name: str) -> str | None:
    """Why a name, in its canonical form, is none; None where it is one."""
    if name in LEVELS or name in ANCESTORS:
        return None
    if not ANCESTORS:
        return f"is {name!r}, and this machine has no archspec, which knows it. Install that ('pip install archspec'), or write a level: x86-64-v3"
    near = difflib.get_close_matches(name, ANCESTORS, 3)
    there = f" Near to it: {', '.join(near)}." if near else ""
    return f"is {name!r}, which archspec does not know.{there} Write a name of archspec's, or a level, such as x86-64-v3"


def runs(node: str, wanted: str) -> bool:
    """Whether a CPU of the kind ``node`` runs what was built for ``wanted``."""
    if node in LEVELS and wanted in LEVELS:
        return LEVELS.index(wanted) <= LEVELS.index(node)
    return node == wanted or wanted in ANCESTORS.get(node, ())
