# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the variables about a task's share of a card (pure): its slots, its MiB, and the fraction of the card that a framework may take.

The fraction depends on the model of the card, so it is only known on the node where the task starts.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections import namedtuple

from . import bundle

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Mapping, Sequence

    from .reservation import Part

SLOTS, MEMORY, FRACTION = "GPU_SWARM_SLOTS", "MAX_CONTAINER_MEMORY", "GPU_MEMORY_FRACTION"
_MILLION = 10**6  # fractions have six decimals, so none is rounded to 0; frameworks interpret 0 as no limit
_DECIMAL = re.compile(r"(?:0?\.[0-9]+|[01](?:\.[0-9]*)?)")


# variables: {name: value} to set. beyond: a sentence, if the service sets more than it reserved. too_small: why no process can use a share this
# small.
Share = namedtuple("Share", ["variables", "beyond", "too_small"], defaults=["", ""])


def share(parts: Sequence[Part], own: Sequence[str], card_mib: Mapping[str, int], overhead_mib: int) -> Share:
    """Return the share of a task. ``own`` are the variables that the task's service sets. ``card_mib`` is the memory of the node's cards.
    ``overhead_mib`` is the memory that CUDA needs for each process, in addition to the memory that a framework allocates."""
    slots = [part.value for part in parts if is_slot(part)]
    variables = {SLOTS: ",".join(slots)} if slots else {}
    reserved, cards = _reserved_mib(parts), {device for part in parts for device in part.devices}
    if reserved is None or len(cards) != 1:
        return Share(variables)
    limit, beyond = _limit(_last_value(own, MEMORY), reserved)
    if limit <= overhead_mib:
        return Share(variables, ", ".join(beyond), "its share is %d MiB, and CUDA takes %d MiB of a card for itself." % (limit, overhead_mib))
    variables[MEMORY] = str(limit)
    total = card_mib.get(cards.pop())
    if total:
        fraction = millionths(limit, total, overhead_mib)
        own_fraction = _last_value(own, FRACTION)
        if not _DECIMAL.fullmatch(own_fraction):
            variables[FRACTION] = decimal(fraction)
        elif float(own_fraction) * _MILLION > fraction:
            beyond.append("it sets %s=%s, and its share is %s" % (FRACTION, own_fraction, decimal(fraction)))
    return Share(variables, ", ".join(beyond))


def _limit(wanted: str, reserved: int) -> tuple[int, list[str]]:
    """Return the limit in MiB, and sentences about variables that set more than the service reserved."""
    digits = wanted.lstrip("0")
    if not bundle.is_number(digits):  # 0 is no limit
        return reserved, []
    if len(digits) > bundle.MAX_DIGITS:
        return reserved, ["it sets %s to a number of %d digits, and reserved %d MiB" % (MEMORY, len(digits), reserved)]
    limit = int(digits)
    return limit, ["it sets %s=%d, and reserved %d MiB" % (MEMORY, limit, reserved)] if limit > reserved else []


def millionths(share_mib: int, card_mib: int, overhead_mib: int) -> int:
    """Return the millionths of a card that a framework may allocate, rounded down. CUDA's own memory must fit into the share too."""
    return min(_MILLION, (share_mib - overhead_mib) * _MILLION // card_mib)


def decimal(fraction: int) -> str:
    return "%d.%06d" % divmod(fraction, _MILLION)


def is_mapped(part: Part) -> bool:
    """Return whether this is a slot or a group of cards: a value that NVIDIA's runtime does not know as a device."""
    return bool(part.value) and bool(part.devices) and part.value not in part.devices


def is_slot(part: Part) -> bool:
    return is_mapped(part) and len(part.devices) == 1


def _reserved_mib(parts: Sequence[Part]) -> int | None:
    """Return the sum of the parts' MiB; None if one part is a whole device or its size is unknown."""
    return None if not parts or any(part.mib is None for part in parts) else sum(part.mib for part in parts)


def _last_value(entries: Sequence[str], name: str) -> str:
    values = [entry.partition("=")[2].strip() for entry in entries if bundle.name_of(entry) == name]
    return values[-1] if values else ""
