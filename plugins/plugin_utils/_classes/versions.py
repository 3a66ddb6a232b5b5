# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions and their bounds (pure), such as ``>=8.0`` or ``>=8.0,<9.0``. All bounds must hold.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

Version = tuple[int, ...]

_OPERATORS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt, "=": operator.eq}
_BOUND = re.compile(r"(>=|<=|==|=|>|<)\s*([0-9]{1,5}(?:\.[0-9]{1,5})?)")
_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,4}")


class Bound(NamedTuple):
    sign: str
    version: Version


def version(text: str) -> Version | None:
    """Parse a version, or return None. 12 and 12.0 are equal."""
    if not _VERSION.fullmatch(text):
        return None
    parts = tuple(int(part) for part in text.split("."))
    return parts if len(parts) > 1 else (*parts, 0)


def bounds(text: str) -> list[Bound] | None:
    """Parse bounds, or return None."""
    matches = [_BOUND.fullmatch(part.strip()) for part in text.split(",")]
    return [_bound(*match.groups()) for match in matches if match] if all(matches) else None


def _bound(sign: str, text: str) -> Bound:
    return Bound("==" if sign == "=" else sign, version(text) or (0, 0))


def meets(wanted: str, version_found: Version) -> bool:
    return all(_OPERATORS[bound.sign](version_found, bound.version) for bound in bounds(wanted) or [])


def lower_limit(wanted: str) -> Version:
    """Return the lower limit of the bounds; (0, 0) if they have no lower limit."""
    return max([bound.version for bound in bounds(wanted) or [] if bound.sign in (">=", ">", "==")], default=(0, 0))


def has_only_lower_limits(wanted: str) -> bool:
    """Return whether the bounds only set a lower limit. If so, a node whose real version is higher than the known version also meets the bounds."""
    return all(bound.sign in (">=", ">") for bound in bounds(wanted) or [])


def shown(version_parts: Version) -> str:
    """Write the version as text."""
    return ".".join(map(str, version_parts))
