# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions, and what is wanted of one (pure): ``>=8.0``, or several with commas between, all of which have to hold.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

Version = tuple[int, ...]

_OPERATORS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt, "=": operator.eq}
_ONE = re.compile(r"(>=|<=|==|=|>|<)\s*([0-9]{1,5}(?:\.[0-9]{1,5})?)")
_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,4}")


class Bound(NamedTuple):
    sign: str
    version: Version


def version(text: str) -> Version | None:
    """None for what is none. 12 and 12.0 are the same."""
    if not _VERSION.fullmatch(text):
        return None
    parts = tuple(int(part) for part in text.split("."))
    return parts if len(parts) > 1 else (*parts, 0)


def bounds(text: str) -> list[Bound] | None:
    """None for what cannot be read."""
    found = [_ONE.fullmatch(part.strip()) for part in text.split(",")]
    return [_bound(*one.groups()) for one in found if one] if all(found) else None


def _bound(sign: str, text: str) -> Bound:
    return Bound("==" if sign == "=" else sign, version(text) or (0, 0))


def meets(wanted: str, found: Version) -> bool:
    return all(_OPERATORS[bound.sign](found, bound.version) for bound in bounds(wanted) or [])


def least(wanted: str) -> Version:
    """The least version that is meant; (0, 0) without one."""
    return max([bound.version for bound in bounds(wanted) or [] if bound.sign in (">=", ">", "==")], default=(0, 0))


def is_least(wanted: str) -> bool:
    """Whether it says no more than a least version, so that who has more than is known meets it too."""
    return all(bound.sign in (">=", ">") for bound in bounds(wanted) or [])


def shown(found: Version) -> str:
    return ".".join(map(str, found))
