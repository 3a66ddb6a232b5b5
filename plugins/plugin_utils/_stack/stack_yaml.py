# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a stack document as YAML: for its file, and without secrets for display (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import yaml

from ...module_utils._mask import MASK, mask
from ...module_utils._printable import printable_lines
from . import secret_values

# Values that need no quotes, because YAML 1.1 and 1.2 both read them as text. The reserved words below need quotes.
_PLAIN = re.compile(r"[A-Za-z/.][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*")
_RESERVED_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, data: str) -> Any:
    plain = _PLAIN.fullmatch(data) and data.lower() not in _RESERVED_WORDS and not data.startswith(".")
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(document: dict[str, Any]) -> str:
    """Return the text of the stack file."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def to_display(document: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the text for a terminal, and the paths of the values that are masked in it."""
    places = {*secret_values.secret_places(document)}
    return printable_lines(mask(to_yaml(_masked(document, (), places)))), [".".join(place) for place in secret_values.secret_places(document)]


def _masked(value: Any, path: tuple[str, ...], places: Collection[tuple[str, ...]]) -> Any:
    if isinstance(value, dict):
        return {key: _masked(item, (*path, key), places) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, (*path, str(number)), places) for number, item in enumerate(value)]
    return MASK if path in places else value
