# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generic resources as swarmkit reads them: a list of ``KIND=value`` and the form in which ``GET /info`` shows them.

Between the two stands one plain dict, kind -> list of values (named) or int (discrete).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from .._errors import GpuSwarmError
from .._mask import mask

ENV_PREFIX = "DOCKER_RESOURCE_"
# In the guard's map, where the value of a kind would stand that is an amount.
AMOUNT = ""

# Go's strconv.ParseInt(value, 10, 64): no blanks, no underscores.
_INT = re.compile(r"[+-]?[0-9]+")
_INT64 = 2**63


class ResourceError(GpuSwarmError):
    """An entry that dockerd would refuse to start with. The message names no file; the caller knows it."""


def split(entry: str) -> tuple[str, str]:
    """``"KIND=value"`` -> (kind, value), by swarmkit's rule: exactly one ``=``, blanks around either are dropped."""
    parts = entry.split("=")
    if len(parts) != 2:
        raise ResourceError(f"{shorten(entry)} is not of the form KIND=value with exactly one '='.")
    return parts[0].strip(), parts[1].strip()


def env_name(kind: str) -> str:
    """The variable in which a task finds what it was given of this kind."""
    return ENV_PREFIX + kind.upper()


def parse(entries: Iterable[str]) -> dict[str, Any]:
    """A list of ``KIND=value`` -> dict, in the order of the kinds' first appearance.

    A kind with one value that is an integer is discrete; several values must all be names; a value that stands twice
    counts twice. (swarmkit api/genericresource/parse.go)
    """
    values: dict[str, list[str]] = {}
    for entry in entries:
        kind, value = split(entry)
        values.setdefault(kind, []).append(value)
    return {kind: _typed(kind, found) for kind, found in values.items()}


def _typed(kind: str, values: list[str]) -> int | list[str]:
    numbers = [value for value in values if _is_int64(value)]
    if not numbers:
        return values
    if len(values) > 1:
        raise ResourceError(
            f"the kind {kind} mixes a number ({numbers[0]}) with other values; a kind is either one number"
            " or a list of names."
        )
    if int(values[0]) < 0:
        raise ResourceError(f"{kind}={values[0]} is negative.")
    return int(values[0])


def _is_int64(value: str) -> bool:
    return bool(_INT.fullmatch(value)) and -_INT64 <= int(value) < _INT64


def entries(resources: Mapping[str, Any]) -> list[str]:
    """The dict back as a list of ``KIND=value``."""
    listed: list[str] = []
    for kind, value in resources.items():
        listed.extend(f"{kind}={one}" for one in (value if isinstance(value, list) else [value]))
    return listed


def from_info(generic_resources: Sequence[Any] | None) -> dict[str, Any]:
    """``GenericResources`` of ``GET /info`` (or of a node's description; null when there are none) -> dict."""
    resources: dict = {}
    for item in generic_resources or []:
        named, discrete = item.get("NamedResourceSpec"), item.get("DiscreteResourceSpec")
        if named:
            resources.setdefault(named["Kind"], []).append(named["Value"])
        elif discrete:
            resources[discrete["Kind"]] = int(discrete.get("Value", 0))
    return resources


def to_info(resources: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The dict in the form of ``GET /info``."""
    return [
        {"NamedResourceSpec": {"Kind": kind, "Value": one}}
        if isinstance(value, list)
        else {"DiscreteResourceSpec": {"Kind": kind, "Value": one}}
        for kind, value in resources.items()
        for one in (value if isinstance(value, list) else [value])
    ]


def shorten(value: Any, width: int = 60) -> str:
    """A value as it may stand in a message."""
    text = mask(repr(value))  # before it is cut: half a URL is not recognised
    return text if len(text) <= width else text[: width - 1] + "…"
