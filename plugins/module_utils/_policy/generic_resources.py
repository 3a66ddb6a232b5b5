# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Converts generic resources between the list of ``KIND=value`` in daemon.json and the answer of ``GET /info``, in the same way as swarmkit.

The common form is a dict: kind -> list of values (named) or int (discrete).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from .._errors import GpuSwarmError
from .._mask import mask

ENV_PREFIX = "DOCKER_RESOURCE_"
# In the guard's map, this is the key for a kind that is an amount, because an amount has no named values.
AMOUNT = ""

# Go's strconv.ParseInt(value, 10, 64): no blanks, no underscores.
_INT = re.compile(r"[+-]?[0-9]+")
_INT64 = 2**63


class ResourceError(GpuSwarmError):
    """An entry that keeps dockerd from starting. The caller adds the file to the message."""


def split_entry(entry: str) -> tuple[str, str]:
    """Split ``"KIND=value"`` as swarmkit does: exactly one ``=``; blanks around kind and value are removed."""
    parts = entry.split("=")
    if len(parts) != 2:
        raise ResourceError(f"{shorten(entry)} is not of the form KIND=value with exactly one '='.")
    return parts[0].strip(), parts[1].strip()


def variable_name(kind: str) -> str:
    """Return the environment variable in which a task finds its values of this kind."""
    return ENV_PREFIX + kind.upper()


def parse(entries: Iterable[str]) -> dict[str, Any]:
    """Parse a list of ``KIND=value`` into a dict, in the order of the kinds' first appearance.

    A kind with a single integer is discrete. Several values must all be names. A repeated value is listed twice (swarmkit
    api/genericresource/parse.go).
    """
    values: dict[str, list[str]] = {}
    for entry in entries:
        kind, value = split_entry(entry)
        values.setdefault(kind, []).append(value)
    return {kind: _typed(kind, texts) for kind, texts in values.items()}


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


def to_entries(resources: Mapping[str, Any]) -> list[str]:
    """Return the dict as a list of ``KIND=value``."""
    listed: list[str] = []
    for kind, value in resources.items():
        listed.extend(f"{kind}={item}" for item in (value if isinstance(value, list) else [value]))
    return listed


def from_info(items: Sequence[Any] | None) -> dict[str, Any]:
    """Return the dict for ``GenericResources`` of ``GET /info`` or of a node's description. Docker sends null if a node has no generic resources."""
    resources: dict = {}
    for item in items or []:
        named_spec, discrete_spec = item.get("NamedResourceSpec"), item.get("DiscreteResourceSpec")
        if named_spec:
            resources.setdefault(named_spec["Kind"], []).append(named_spec["Value"])
        elif discrete_spec:
            resources[discrete_spec["Kind"]] = int(discrete_spec.get("Value", 0))
    return resources


def to_info(resources: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the dict in the format of ``GET /info``."""
    return [
        {"NamedResourceSpec": {"Kind": kind, "Value": item}}
        if isinstance(value, list)
        else {"DiscreteResourceSpec": {"Kind": kind, "Value": item}}
        for kind, value in resources.items()
        for item in (value if isinstance(value, list) else [value])
    ]


def shorten(value: Any, width: int = 60) -> str:
    """Return a value for a message: short, and with secrets masked."""
    text = mask(repr(value))  # mask first, because the mask would not recognise a URL that was cut
    return text if len(text) <= width else text[: width - 1] + "…"
