# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds what a task reserved, and the devices of these resources (pure).

A value that the node advertises is a device, or stands for devices by the node's map; an amount of a kind stands for the cards behind the kind.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import namedtuple

from . import bundle

TYPE_CHECKING = False  # typing is not loaded: that would take a fifth of the time that all of this takes
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Sequence

VARIABLE = "DOCKER_RESOURCE_"
# Key in the map for a kind that is an amount and so has no values.
AMOUNT = ""


# One resource that a task reserved. value: its name, or AMOUNT. devices: what the task sees for it, none if the node does not advertise it. mib: its
# part of their memory, None for whole devices or if unknown. together: whether all values of this kind must be on one device.
Part = namedtuple("Part", ["kind", "value", "devices", "mib", "together"], defaults=[None, False])


def parts(settings: Any, container: Any) -> tuple[Part, ...]:
    """Return each resource once, in swarm's order. ``settings`` and ``container`` are the records of admission."""
    if container.task is not None:
        named = [(kind, value) for kind, value in container.task.named if is_of_gpus(settings, kind)]
        amounts: Sequence[tuple[str, int]] = container.task.amounts
    elif container.unread:
        # dockerd appends the scheduler's variables to the service's. An image's variable only counts if there is no other.
        named = [(_kind(settings, name), word) for name in settings.listed for word in bundle.last(container.entries, name)]
        amounts = list(_amounts(settings, container.entries))
    else:
        named, amounts = [], []
    found = [_named(settings, kind, value) for kind, value in dict.fromkeys(named)]
    return tuple(found + [_amount(settings, kind, mib) for kind, mib in amounts if mib and AMOUNT in settings.map.get(kind, {})])


def is_of_gpus(settings: Any, kind: str) -> bool:
    return kind in settings.kinds or variable(kind) in settings.listed


def variable(kind: str) -> str:
    """Return the variable in which a task finds its resources of a kind."""
    return VARIABLE + kind.upper()


def _kind(settings: Any, name: str) -> str:
    return next((kind for kind in settings.kinds if variable(kind) == name), "")


def _amounts(settings: Any, entries: Sequence[str]) -> Iterator[tuple[str, int]]:
    for kind, values in settings.map.items():
        found = bundle.last(entries, variable(kind)) if AMOUNT in values else []
        # Swarm writes no longer number, so a longer one is forged and ignored.
        if len(found) == 1 and bundle.is_number(found[0]) and len(found[0]) <= bundle.LONGEST:
            yield kind, int(found[0])


def _named(settings: Any, kind: str, value: str) -> Part:
    known: Mapping[str, Any] | None = settings.map.get(kind, {}).get(value)
    if known is not None and value != AMOUNT:
        return Part(kind, value, tuple(known["devices"]), known.get("mib"), bool(known.get("together")))
    return Part(kind, value, (value,) if value in settings.devices else ())


def _amount(settings: Any, kind: str, mib: int) -> Part:
    return Part(kind, AMOUNT, tuple(settings.map[kind][AMOUNT]["devices"]), mib)
