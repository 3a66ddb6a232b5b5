# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of a stack that swarm would expand as Go templates (pure): environment, hostname, mounts, and the volumes that mounts make.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...module_utils._errors import Errors
from ...module_utils._swarm.go_templates import WRITE, is_meant_for_swarm, literal, only_fields
from .fields import Notes


def environment(found: dict[str, str], where: str, notes: Notes) -> dict[str, str]:
    """The variables, each with the value that the container is to see."""
    errors = Errors()
    for name, value in found.items():
        if is_meant_for_swarm(value):
            errors.add(f"{where}.{name} has one of swarm's fields within another template. {WRITE}.")
        elif not only_fields(value):
            notes.add(f"{where}.{name}: swarm would expand its '{{{{' as a template. It is written so that the container sees it as it stands")
    errors.refuse()
    return {name: literal(value) for name, value in found.items()}


def refuse_in_service(service: dict[str, Any], where: str) -> None:
    """Refuses templates in its hostname and mounts: neither can have braces in it otherwise."""
    _refuse([(service.get(key), f"{where}.{key}") for key in ("hostname", "volumes")])


def refuse_in_volume(volume: dict[str, Any], where: str) -> None:
    """Refuses templates in a volume, whose options and labels each mount of it carries."""
    _refuse([(value, f"{where}.{key}") for key, value in volume.items()])


def _refuse(values: list[tuple[Any, str]]) -> None:
    """``values`` each with where it stands."""
    wrong = [place for found, where in values for place, text in _texts(found, where) if not only_fields(text)]
    errors = Errors()
    errors.add(*(f"{place} has '{{{{', which swarm would expand as a template of its own. {WRITE}, or take it out." for place in wrong))
    errors.refuse()


def _texts(found: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(found, dict):
        for key, value in found.items():
            yield from _texts(value, f"{where}.{key}")
    elif isinstance(found, list):
        for number, value in enumerate(found):
            yield from _texts(value, f"{where}[{number}]")
    elif isinstance(found, str):
        yield where, found
