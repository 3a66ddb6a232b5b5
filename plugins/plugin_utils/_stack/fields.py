# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads values of a Compose file and collects notes for the user (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors
from ...module_utils._mask import mask_value_in_key

# The remedy for an unknown key.
FIX = "Correct it or remove it."
_REFUSED = object()  # stands for a refused value
# Reads a file beside the Compose file. Returns None if it does not exist.
Reader = Callable[[str], "bytes | None"]


class Notes:
    """Notes about keys that are ignored or changed, in the order in which they were found."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def ignored(self, where: str, key: str, instead: str) -> None:
        self.texts.append(f"{where}.{key} has no effect on Swarm and is ignored; instead: {instead}")

    def add(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Return ``value`` as a mapping. An empty value becomes {}. Any other value that is no mapping is an error."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise GpuSwarmError(f"{where} is {kind_of(value)}, but must be a mapping. Write 'key: value' under it.")
    return value


def texts(value: Any, where: str) -> list[str]:
    """Return a list of strings. A single string becomes a list with one item."""
    strings = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise GpuSwarmError(f"{where} is {kind_of(value)}, but must be a list of strings. Begin each with '- '.")
    return strings


def kind_of(value: Any) -> str:
    """Describe the type of a value. The value itself is not shown, because it may be a secret."""
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "empty" if value is None else names.get(type(value), "something else")


def refuse_unknown(value: Collection[str], known: Collection[str], where: str, remedy: str = FIX) -> None:
    """Refuse all keys that are not in ``known``."""
    unknown = [key for key in value if key not in known]
    if unknown:
        raise SeveralErrors([not_known(f"{where}.{mask_value_in_key(key)}", remedy) for key in unknown])


def not_known(place: str, remedy: str = FIX) -> str:
    return f"{place} is not known. {remedy}"


def pairs(value: Any, where: str) -> dict[str, str | None]:
    """Read a mapping or a list of NAME=value. A name without a value gets None."""
    if isinstance(value, list):
        split = [item.partition("=") for item in texts(value, where)]
        return {name: content if sign else None for name, sign, content in split}
    values, errors = mapping(value, where), Errors()
    converted = {key: errors.collect(text_of, item, f"{where}.{key}", instead=_REFUSED) for key, item in values.items()}
    valid = {key: item for key, item in converted.items() if item is not _REFUSED}
    errors.refuse(valid)
    return valid


def text_of(value: Any, where: str) -> str | None:
    if isinstance(value, (dict, list)):
        raise GpuSwarmError(f"{where} is {kind_of(value)}, but must be text. Put it in quotes.")
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
