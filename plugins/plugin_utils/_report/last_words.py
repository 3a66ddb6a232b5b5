# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last words of a run, below Ansible's recap: how the run went, a table, and the command to type next.

The last task of a playbook runs an action that puts the last words into its result. The callback gpu_swarm_last_words prints them after the recap. If
a role of this collection runs in a playbook of the user, this callback is not loaded. Then the action prints the last words itself.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ansible.utils.display import Display

from ...module_utils._printable import printable_lines
from . import terminal

KEY = "gpu_swarm_last_words"
# The actions that have last words. In any other result, last words come from a node or a manager, and are ignored.
ACTIONS = ("provision_plan", "report", "swarm_job", "swarm_stack")
DONE, WAITING, FAILED = "done", "waiting", "failed"
FAILS, UNREACHABLE = "failed", "cannot be reached"
COLOURS = {DONE: "green", WAITING: "yellow", FAILED: "red"}
# Ansible's whole message about a command that failed, until release 2.20, and since 2.21.
COMMAND_FAILED = ("non-zero return code", "The command exited with a non-zero return code.")
# The last words contain the reasons of at most this many failures, but the names of all hosts.
REASONS = 10


class LastWords(NamedTuple):
    """The last words of one action. ``line`` is the outcome in one line, ``text`` a table or more lines, ``command`` the command to type next. Each
    of them may be ''. If the verdict is FAILED, these words explain what went wrong on ``hosts``. The callback adds the failures of other hosts.
    """

    verdict: str
    line: str
    text: str = ""
    command: str = ""
    hosts: Sequence[str] = ()


class Collector:
    """The state that the callbacks of a run share. gpu_swarm_last_words sets ``active`` before Ansible forks the processes of actions."""

    active = False
    words: ClassVar[list[LastWords]] = []
    # The hosts whose failure the stdout callback has printed already, each with the reason.
    printed: ClassVar[dict[str, str]] = {}


def explained() -> set[str]:
    """Return the hosts whose failure is explained by the last words so far."""
    return {host for words in Collector.words if words.verdict == FAILED for host in words.hosts}


def say(result: MutableMapping[str, Any], words: LastWords) -> None:
    """Put the words into the result of an action. Without the callback, print them now."""
    if Collector.active:
        # Ansible prints this part of a result with -vvv only.
        result["invocation"] = {**_invocation(result), KEY: words._asdict()}
    else:
        show(words)


def words_in(result: Mapping[str, Any]) -> list[LastWords]:
    """Return the last words in a task's result, or in the results of its loop."""
    words = [_invocation(part).get(KEY) for part in (result, *_items(result))]
    return [LastWords(**fields) for fields in words if isinstance(fields, Mapping)]


def without_words(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a result without last words."""
    invocation = {key: value for key, value in _invocation(result).items() if key != KEY}
    return {**result, "invocation": invocation} if "invocation" in result else dict(result)


def _invocation(result: Mapping[str, Any]) -> Mapping[str, Any]:
    invocation = result.get("invocation")
    return invocation if isinstance(invocation, Mapping) else {}


def show(words: LastWords) -> None:
    """Print the line in the colour of its verdict, then the table, then the command. The command is for copying, so it is not folded."""
    display = Display()
    line = terminal.fit(words.line, display.columns)
    parts = [(part, colour) for part, colour in ((line, COLOURS[words.verdict]), (words.text, None), (words.command, None)) if part]
    for part, colour in parts:
        display.display(f"\n{part}", color=colour)
    if parts:
        display.display("")


def failure_line(host: str, what: str, why: str, printed: Mapping[str, str]) -> str:
    """Return the line of one failure. ``what`` is FAILS or UNREACHABLE. A reason in ``printed`` (by host) is not repeated."""
    earlier_host = next((name for name, reason in printed.items() if reason == why and name != host), None)
    return f"{host} {what} for the same reason as {earlier_host}." if earlier_host else f"{host} {what}: {why}"


def words_about_failures(
    failed: Mapping[str, str], unreachable: Mapping[str, str], ended_early: bool, printed: Collection[str] = ()
) -> LastWords | None:
    """Return the last words about failures that no action explained, or None. ``failed`` and ``unreachable`` are reasons by host. If a host is in
    ``printed``, its reason is already on the screen.
    """
    parts = []
    for what, reasons in ((FAILS, failed), (UNREACHABLE, unreachable)):
        printed_names = [name for name in reasons if name in printed]
        unprinted = {name: why for name, why in reasons.items() if name not in printed}
        parts += [(names, f"{', '.join(names)} {what}: {why}") for why, names in _by_reason(unprinted).items()]
        parts += [(printed_names, f"{', '.join(printed_names)} {what}, see above.")] if printed_names else []
    if not parts:
        return None
    unnamed = [name for names, _line in parts[REASONS:] for name in names]
    more = [f"Failed for other reasons: {', '.join(unnamed)}"] if unnamed else []
    return LastWords(FAILED, ("The run ended early. " if ended_early else "") + "\n".join([*(line for _names, line in parts[:REASONS]), *more]))


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    names_by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names_by_reason.setdefault(why, []).append(name)
    return names_by_reason


def verdict_of(waiting: Collection[str], failed: Collection[str]) -> str:
    """Return the verdict of a run, from the names of waiting and of failed hosts or services."""
    return FAILED if failed else WAITING if waiting else DONE


def worst(verdicts: Iterable[str]) -> str:
    """Return the verdict of a run of several playbooks."""
    return max(verdicts, key=[DONE, WAITING, FAILED].index, default=DONE)


def reason(result: Mapping[str, Any]) -> str:
    """Return why a task failed, from its result. Further lines are indented, so that they cannot be taken for other lines of the run."""
    parts: Sequence[Mapping[str, Any]] = [item for item in _items(result) if item.get("failed") or item.get("unreachable")] or [result]
    why = next((str(parts[0][key]) for key in ("msg", "reason", "censored") if parts[0].get(key)), "no reason given")
    if why in COMMAND_FAILED:
        why = f"{why.rstrip('.')}: {parts[0].get('stderr') or parts[0].get('stdout') or 'it printed nothing'}"
    return "\n  ".join(printable_lines(why).removeprefix("Task failed: ").strip().split("\n"))


def _items(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item for item in result.get("results") or () if isinstance(item, Mapping)] if isinstance(result.get("results"), list) else []
