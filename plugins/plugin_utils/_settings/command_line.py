# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The short names that a playbook takes with -e, and names that nearly are one (pure).

They are words of everyday language, such as state and plan, and users have variables of their own on the command line. So a name counts as
misspelt only if it is one edit away, is one of the names that people try for a setting, and is used neither by the inventory nor at import_playbook.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .declaration import Setting
from .validation import is_template

# Of Ansible, of this collection, of AWX and of its former name.
OTHERS = ("_", "ansible_", "awx_", "tower_")
# Words that are one edit away from a short name, and that users have for ends of their own.
WORDS = frozenset(("chat", "hat", "lan", "slack", "slate", "stage", "stock", "that", "tier", "time", "times"))


class CommandLine(NamedTuple):
    """The variables that were given with -e, and by each short name the setting that it stands for."""

    variables: Mapping[str, Any] = {}
    short: Mapping[str, str] = {}

    def given(self) -> dict[str, str]:
        """Of the short names those that are on the command line."""
        return {name: of for name, of in self.short.items() if name in self.variables}


def misspelt(line: CommandLine, settings: Mapping[str, Setting], written: Collection[Mapping[str, Any]]) -> Iterator[str]:
    """Errors for variables that nearly have a short name. ``written`` are the variables of each host and of the play, with their templates."""
    tried = _tried(line.short, settings)
    for name in sorted(name for name in line.variables.keys() - line.short.keys() - settings.keys() if isinstance(name, str)):
        meant = None if name.startswith(OTHERS) or name in WORDS else _meant(name, line.short, tried)
        if meant and not _is_used(name, written):
            yield f"{name} is no variable of this playbook. Did you mean {meant}? A variable of your own needs another name."


def _meant(name: str, short: Iterable[str], tried: Mapping[str, str]) -> str | None:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return tried.get(name.lower()) or next((one for one in short if _is_near(plain, one.replace("_", ""))), None)


def _tried(short: Mapping[str, str], settings: Mapping[str, Setting]) -> dict[str, str]:
    """What people try for a setting, with the short name: its end, such as stack_name for gpu_stack_name, and plan_file for plan."""
    found = {}
    for name, of in short.items():
        words = of.split("_")
        found.update({"_".join(words[at:]): name for at in range(1, len(words) - 1)})
        found.update({f"{name}_file": name} if settings[of].type == "path" else {})
    return found


def _is_near(one: str, other: str) -> bool:
    """Whether one letter more, less or another, or two that changed places, make one of the other."""
    if one == other or one in _shorter(other) or other in _shorter(one):
        return True
    differ = [at for at in range(len(one)) if one[at] != other[at]] if len(one) == len(other) else []
    swapped = len(differ) == 2 and differ[0] + 1 == differ[1] and one[differ[0]] + one[differ[1]] == other[differ[1]] + other[differ[0]]
    return len(differ) == 1 or swapped


def _shorter(word: str) -> set[str]:
    return {word[:at] + word[at + 1 :] for at in range(len(word))}


def _is_used(name: str, written: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a template of the inventory names it, or one at import_playbook."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(template) for variables in written for template in _templates(variables))


def _templates(value: Any) -> Iterator[str]:
    if is_template(value):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _templates(one)
