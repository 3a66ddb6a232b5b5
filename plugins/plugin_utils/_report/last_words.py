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

from ...module_utils._printable import printable_lines
from . import terminal
from .fold import fold

KEY = "gpu_swarm_last_words"
# The actions that say last words. In the result of any other one, such words are a node's or a manager's, and nobody believes them.
SPEAKERS = ("provision_plan", "provision_report", "status_report", "swarm_job", "swarm_stack", "verify_report")
DONE, WAITING, FAILED = "done", "waiting", "failed"
COLOURS = {DONE: "green", WAITING: "yellow", FAILED: "red"}
# How many reasons of failures the last words name. The hosts are all named: where the output is quiet, nothing else names them.
REASONS = 10


class LastWords(NamedTuple):
    """``line`` is the outcome in one line, ``text`` a table or more lines, ``command`` what to type next; each may be ''. ``hosts`` are those of
    which these words say what went wrong, if the verdict is FAILED. The failure of any other host is named beside them."""

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
    line = _folded(printable_lines(words.line), terminal.width(display.columns))
    parts = [(part, colour) for part, colour in ((line, COLOURS[words.verdict]), (words.text, None), (words.command, None)) if part]
    for part, colour in parts:
        display.display(f"\n{part}", color=colour)
    if parts:
        display.display("")


def of_failures(failed: Mapping[str, str], unreachable: Mapping[str, str], ended_early: bool) -> LastWords | None:
    """The words of failures that no action spoke of; None if there are none. Both are the reasons by host name."""
    parts = [(names, f"{', '.join(names)} failed: {why}") for why, names in _by_reason(failed).items()]
    parts += [(names, f"{', '.join(names)} cannot be reached: {why}") for why, names in _by_reason(unreachable).items()]
    if not parts:
        return None
    others = [name for names, _line in parts[REASONS:] for name in names]
    more = [f"Failed for other reasons: {', '.join(others)}"] if others else []
    return LastWords(FAILED, ("The run ended early. " if ended_early else "") + "\n".join([*(line for _names, line in parts[:REASONS]), *more]))


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, why in reasons.items():
        found.setdefault(why, []).append(name)
    return found


def verdict_of(waiting: Collection[str], wrong: Collection[str]) -> str:
    """The verdict of a run by the names of what waits and of what is wrong."""
    return FAILED if wrong else WAITING if waiting else DONE


def worst(verdicts: Iterable[str]) -> str:
    """The verdict of a run of several playbooks."""
    return max(verdicts, key=[DONE, WAITING, FAILED].index, default=DONE)


def reason(result: Mapping[str, Any]) -> str:
    """Why a task failed, from its result. Further lines are indented, so that none of them passes for another line of the run."""
    parts: Sequence[Mapping[str, Any]] = [one for one in _items(result) if one.get("failed") or one.get("unreachable")] or [result]
    why = next((str(parts[0][key]) for key in ("msg", "reason", "censored") if parts[0].get(key)), "no reason given")
    if why == "non-zero return code":  # all that Ansible says of a command
        why = f"{why}: {parts[0].get('stderr') or parts[0].get('stdout') or 'it printed nothing'}"
    return "\n  ".join(printable_lines(why).removeprefix("Task failed: ").strip().split("\n"))


def _folded(text: str, width: int) -> str:
    """Each line with its own indentation."""
    lines = [(line.lstrip(" "), " " * (len(line) - len(line.lstrip(" ")))) for line in text.split("\n")]
    return "\n".join(folded for line, indent in lines for folded in fold(line, width, indent, f"{indent}  "))


def _items(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in result.get("results") or () if isinstance(one, Mapping)] if isinstance(result.get("results"), list) else []
