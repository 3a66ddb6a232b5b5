# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Handles text that swarm would expand as Go templates (pure): environment, hostname, mounts, and the volumes of mounts.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...module_utils._errors import Errors
from ...module_utils._swarm.go_templates import WRITE, is_meant_for_swarm, literal, only_fields
from .fields import Notes


def escape_environment(variables: dict[str, str], where: str, notes: Notes) -> dict[str, str]:
    """Escape the variables, so that the container sees each value unchanged."""
    errors = Errors()
    for name, value in variables.items():
        if is_meant_for_swarm(value):
            errors.add(f"{where}.{name} has one of swarm's fields inside another template. {WRITE}.")
        elif not only_fields(value):
            notes.add(f"{where}.{name}: swarm would expand its '{{{{' as a template. It is escaped, so that the container sees it unchanged")
    errors.refuse()
    return {name: literal(value) for name, value in variables.items()}


def refuse_in_service(service: dict[str, Any], where: str) -> None:
    """Refuse templates in hostname and mounts. Braces cannot be escaped in these keys, because neither key may contain braces."""
    _refuse([(service.get(key), f"{where}.{key}") for key in ("hostname", "volumes")])


def refuse_in_volume(volume: dict[str, Any], where: str) -> None:
    """Refuse templates in a volume, because its options and labels become part of each of its mounts."""
    _refuse([(value, f"{where}.{key}") for key, value in volume.items()])


def _refuse(values: list[tuple[Any, str]]) -> None:
    """Refuse templates. ``values`` are pairs of a value and its place for messages."""
    places = [place for value, where in values for place, text in _texts(value, where) if not only_fields(text)]
    errors = Errors()
    errors.add(*(f"{place} has '{{{{', which swarm would expand as a template. {WRITE}, or remove it." for place in places))
    errors.refuse()


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{where}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{where}[{number}]")
    elif isinstance(value, str):
        yield where, value
