# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run says at its very end, below Ansible's recap: how it went, a table, and the command to type next.

An action says it as the last thing of its playbook, and the callback gpu_swarm_last_words prints it after the recap. A role of this
collection may also run in a playbook of yours, where this callback is not loaded: then the action prints it at once.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from ansible.utils.display import Display

from ...module_utils._printable import printable, printable_lines
from . import terminal
from .fold import paragraphs

KEY = "gpu_swarm_last_words"
DONE, WAITING, FAILED = "done", "waiting", "failed"
COLOURS = {DONE: "green", WAITING: "yellow", FAILED: "red"}
# How many failed hosts the last words name with the reason.
NAMED = 3


class LastWords(NamedTuple):
    """``line`` is the outcome in one line, ``text`` a table or more lines, ``command`` what to type next; each may be ''. ``hosts`` are those that
    it speaks of: if one of them failed, these words say so."""

    verdict: str
    line: str
    text: str = ""
    command: str = ""
    hosts: Sequence[str] = ()


class Collector:
    """Where last words are collected. The callback sets ``active`` before Ansible forks the processes in which actions run."""

    active = False


def say(result: MutableMapping[str, Any], words: LastWords) -> None:
    """Leave the words in the result of an action for the callback; without the callback, print them at once."""
    if Collector.active:
        result[KEY] = words._asdict()
    else:
        show(words)


def said_in(result: Mapping[str, Any]) -> list[LastWords]:
    """The last words in a task's result, or in the results of its loop."""
    return [LastWords(**one[KEY]) for one in (result, *_items(result)) if isinstance(one.get(KEY), Mapping)]


def show(words: LastWords) -> None:
    """Print the words: the line in the colour of its verdict, then the table, then the command, which is for copying and so is not folded."""
    display = Display()
    line = paragraphs(words.line.splitlines(), terminal.width(display.columns))
    for part, colour in ((line, COLOURS[words.verdict]), (words.text, None), (words.command, None)):
        if part:
            display.display(f"\n{part}", color=colour)
    display.display("")


def of_failures(failed: Mapping[str, str], unreachable: Mapping[str, str], ended_early: bool) -> LastWords | None:
    """The words of failures that no action spoke of; None if there are none. Both are the reasons by host name."""
    parts = [f"{name} failed: {why}" for name, why in failed.items()] + [f"{name} cannot be reached: {why}" for name, why in unreachable.items()]
    if not parts:
        return None
    more = [f"and {len(parts) - NAMED} more hosts"] if len(parts) > NAMED else []
    return LastWords(FAILED, ("The run ended early. " if ended_early else "") + "\n".join([*map(printable_lines, parts[:NAMED]), *more]))


def verdict_of(waiting: Collection[str], wrong: Collection[str]) -> str:
    """The verdict of a run by the names of what waits and of what is wrong."""
    return FAILED if wrong else WAITING if waiting else DONE


def worst(verdicts: Iterable[str]) -> str:
    """The verdict of a run of several playbooks."""
    return max(verdicts, key=[DONE, WAITING, FAILED].index, default=DONE)


def reason(result: Mapping[str, Any]) -> str:
    """Why a task failed, from its result."""
    parts: Sequence[Mapping[str, Any]] = [one for one in _items(result) if one.get("failed") or one.get("unreachable")] or [result]
    return printable(str(parts[0].get("msg") or "no reason given").removeprefix("Task failed: ").strip())


def _items(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in result.get("results") or () if isinstance(one, Mapping)] if isinstance(result.get("results"), list) else []
