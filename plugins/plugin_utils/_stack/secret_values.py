# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds values of a stack that may be secret (pure), and masks them in messages of Docker.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...module_utils._mask import mask, mask_values
from ...module_utils._secret_names import has_secret, is_name_of_secret, is_secret_word
from ...module_utils._swarm.go_templates import as_written
from .references import DEFAULT

# Keys with values under names that users choose.
_USER_NAMED = frozenset(["environment", "labels", "driver_opts", "options"])
# Keys with the words of a command.
_COMMANDS = frozenset(["command", "entrypoint", "test"])
# Phrases of Docker. They must be readable even if a secret value is one of their words.
_DOCKER_PHRASES = frozenset(
    f"failed to {verb} {what}" for verb in ("create", "update", "remove") for what in ("service", "network", "secret", "config")
)
_PORTS = re.compile(r"[0-9]{1,5}(?::[0-9]{1,5})*(?:/[a-z]+)?")


def secret_places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of values in a stack file that may be secret."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from secret_places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            is_secret = bool(_COMMANDS.intersection(path[-1:])) and is_secret_word(value, number)
            yield from [(*path, str(number))] if is_secret else secret_places(item, (*path, str(number)))
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        by_name = _USER_NAMED.intersection(path[:-1]) and is_name_of_secret(path[-1])
        if by_name or (isinstance(value, str) and has_secret(value)):
            yield path


def build_masker(document: Mapping[str, Any], files: Mapping[str, bytes], stack: str) -> Callable[[str], str]:
    """Return a function that masks the values of this stack in a message of Docker."""
    shown = _names(document, stack)
    candidates = {text for value in _values(document, document) for text in (value, as_written(value))}
    candidates |= {value.replace("$$", "$") for value in candidates} | {*_contents(document, files)}
    values = {value for value in candidates if value not in shown and not _PORTS.fullmatch(value) and not _is_host(value, shown)}
    return lambda text: mask(mask_values(text, values, {*shown, *_DOCKER_PHRASES}))


def _is_host(text: str, shown: set[str]) -> bool:
    """Return whether the text is a service with its port."""
    name, _colon, port = text.partition(":")
    return name in shown and bool(_PORTS.fullmatch(port))


def _values(value: Any, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield all values under names that users choose, and other values that may be secret."""
    places = {*_user_named(value), *secret_places(value)}
    for place in places:
        item: Any = document
        for key in place:
            item = item[int(key)] if isinstance(item, list) else item[key]
        yield str(item)


def _user_named(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _user_named(item, (*path, str(key)))
    elif value is not None and not isinstance(value, bool) and _USER_NAMED.intersection(path[:-1]):
        yield path


def _contents(document: Mapping[str, Any], files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the contents of the stack's secrets, and each of their lines."""
    for entry in (document.get("secrets") or {}).values():
        content = files.get(str(entry.get("file") or "").removeprefix("./"))
        text = content.decode("utf-8", "replace").strip() if content else ""
        yield from (text, *(line.strip() for line in text.splitlines()))


def _names(document: Mapping[str, Any], stack: str) -> set[str]:
    """Return names and images, because messages need to show them."""
    names = {stack, f"{stack}_{DEFAULT}"}
    for section in ("services", "networks", "volumes", "configs", "secrets"):
        for name, entry in (document.get(section) or {}).items():
            names |= {name, f"{stack}_{name}", *(str(entry[key]) for key in ("name", "image", "hostname") if entry and entry.get(key))}
    return names
