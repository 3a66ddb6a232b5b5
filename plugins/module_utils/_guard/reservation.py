# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the resources that a task reserved, and their devices (pure).

An advertised value is either a device, or a key in the node's map, which lists the devices of the value. For a kind that is an amount, the map lists
the cards of the kind.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import namedtuple

from . import bundle

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Sequence

VARIABLE = "DOCKER_RESOURCE_"
# Key in the map for a kind that is an amount. An amount has no named values.
AMOUNT = ""


# One resource that a task reserved. value: its name, or AMOUNT. devices: the devices that the task sees for this resource; empty if the node does not
# advertise the resource. mib: the part of the devices' memory, None for whole devices or if unknown. together: whether all values of this kind must
# be on one device.
Part = namedtuple("Part", ["kind", "value", "devices", "mib", "together"], defaults=[None, False])


def reserved_parts(settings: Any, container: Any) -> tuple[Part, ...]:
    """Return each resource once, in swarm's order. ``settings`` and ``container`` are the records of admission."""
    if container.task is not None:
        pairs = [(kind, value) for kind, value in container.task.named if is_gpu_kind(settings, kind)]
        amounts: Sequence[tuple[str, int]] = container.task.amounts
    elif container.unread:
        # dockerd appends the scheduler's variables to the service's variables. The guard reads an image's variable only if the service sets none.
        pairs = [(_kind_of_variable(settings, name), word) for name in settings.listed for word in bundle.last_requested(container.entries, name)]
        amounts = list(_amounts_in_variables(settings, container.entries))
    else:
        pairs, amounts = [], []
    named_parts = [_named_part(settings, kind, value) for kind, value in dict.fromkeys(pairs)]
    return tuple(named_parts + [_amount_part(settings, kind, mib) for kind, mib in amounts if mib and AMOUNT in settings.map.get(kind, {})])


def is_gpu_kind(settings: Any, kind: str) -> bool:
    return kind in settings.kinds or variable(kind) in settings.listed


def variable(kind: str) -> str:
    """Return the name of the variable that lists a task's resources of a kind."""
    return VARIABLE + kind.upper()


def _kind_of_variable(settings: Any, name: str) -> str:
    return next((kind for kind in settings.kinds if variable(kind) == name), "")


def _amounts_in_variables(settings: Any, entries: Sequence[str]) -> Iterator[tuple[str, int]]:
    for kind, values in settings.map.items():
        numbers = bundle.last_requested(entries, variable(kind)) if AMOUNT in values else []
        # Swarm never writes a longer number, so a longer number is forged and ignored.
        if len(numbers) == 1 and bundle.is_number(numbers[0]) and len(numbers[0]) <= bundle.MAX_DIGITS:
            yield kind, int(numbers[0])


def _named_part(settings: Any, kind: str, value: str) -> Part:
    entry: Mapping[str, Any] | None = settings.map.get(kind, {}).get(value)
    if entry is not None and value != AMOUNT:
        return Part(kind, value, tuple(entry["devices"]), entry.get("mib"), bool(entry.get("together")))
    return Part(kind, value, (value,) if value in settings.devices else ())


def _amount_part(settings: Any, kind: str, mib: int) -> Part:
    return Part(kind, AMOUNT, tuple(settings.map[kind][AMOUNT]["devices"]), mib)
