# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The short names that a playbook accepts with -e, and misspelt short names (pure).

Short names are everyday words such as state and plan, and users also pass their own variables. So a name is misspelt only if it is one edit away from
a short name or from a likely guess, and if neither the inventory nor import_playbook uses the name.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .declaration import Setting
from .validation import is_template

# Prefixes of variables of this collection, of Ansible, and of AWX under both of its names.
OTHER_PREFIXES = ("_", "ansible_", "awx_", "tower_")
# Words that are one edit away from a short name, but that users use for their own variables.
USER_WORDS = frozenset(("chat", "hat", "lan", "slack", "slate", "stage", "stock", "that", "tier", "time", "times"))


class CommandLine(NamedTuple):
    """The variables passed with -e, and the setting for each short name of the playbook."""

    variables: Mapping[str, Any] = {}
    short: Mapping[str, str] = {}

    def used_short_names(self) -> dict[str, str]:
        """Return the short names on the command line, each with its setting."""
        return {name: setting_name for name, setting_name in self.short.items() if name in self.variables}


def misspelt_errors(line: CommandLine, settings: Mapping[str, Setting], written: Collection[Mapping[str, Any]]) -> Iterator[str]:
    """Yield an error for each misspelt short name. ``written`` has the variables of each host and of the play, before templates are evaluated."""
    guesses = _guesses(line.short, settings)
    for name in sorted(name for name in line.variables.keys() - line.short.keys() - settings.keys() if isinstance(name, str)):
        meant = None if name.startswith(OTHER_PREFIXES) or name in USER_WORDS else _intended(name, line.short, guesses)
        if meant and not _is_used(name, written):
            yield f"{name} is not a variable of this playbook. Did you mean {meant}? Rename it if it is a variable of your own."


def _intended(name: str, short: Iterable[str], guesses: Mapping[str, str]) -> str | None:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return guesses.get(name.lower()) or next((short_name for short_name in short if _is_near(plain, short_name.replace("_", ""))), None)


def _guesses(short: Mapping[str, str], settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return names that people might guess, each with the short name. A guess is the end of a setting, such as stack_name for gpu_stack_name, or
    plan_file for plan.
    """
    guesses = {}
    for name, setting_name in short.items():
        words = setting_name.split("_")
        guesses.update({"_".join(words[start:]): name for start in range(1, len(words) - 1)})
        guesses.update({f"{name}_file": name} if settings[setting_name].type == "path" else {})
    return guesses


def _is_near(left: str, right: str) -> bool:
    """Return whether the words differ by one added, missing or different letter, or by two swapped neighbours."""
    if left == right or left in _shorter(right) or right in _shorter(left):
        return True
    differ = [index for index in range(len(left)) if left[index] != right[index]] if len(left) == len(right) else []
    swapped = len(differ) == 2 and differ[0] + 1 == differ[1] and left[differ[0]] + left[differ[1]] == right[differ[1]] + right[differ[0]]
    return len(differ) == 1 or swapped


def _shorter(word: str) -> set[str]:
    return {word[:index] + word[index + 1 :] for index in range(len(word))}


def _is_used(name: str, written: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a template in the inventory or at import_playbook uses the variable."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(template) for variables in written for template in _templates(variables))


def _templates(value: Any) -> Iterator[str]:
    if is_template(value):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _templates(item)
