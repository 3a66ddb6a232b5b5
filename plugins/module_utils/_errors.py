# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one exception that domain code raises and a module's main() turns into fail_json.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ._printable import printable

# Why a text cannot be read that Python's parsers give up on.
TOO_DEEP = "it is nested too deeply"


class GpuSwarmError(Exception):
    """Something that the user must know.

    The message is the whole text for the user: it names the file and the value, says what is wrong with it, and ends
    with the remedy. ``details`` are extra return values for ``fail_json`` (plain data).
    """

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class ConfigError(GpuSwarmError):
    """A configuration file that cannot be taken as it is; nothing was changed."""


class SeveralErrors(GpuSwarmError):
    """The errors of one input, each a line with its own remedy. ``rest`` is the input without what is wrong, for further checks; None without one."""

    def __init__(self, messages: Sequence[str], rest: Any = None) -> None:
        super().__init__("\n".join(messages))
        self.messages = list(messages)
        self.rest = rest


class Errors:
    """Collects what independent checks of one input refuse, so that a run reports all of it at once."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def of(self, check: Callable[..., Any], *arguments: Any, instead: Any = None) -> Any:
        """What ``check`` returns. If it refuses something: the rest, and ``instead`` without one."""
        try:
            return check(*arguments)
        except GpuSwarmError as problem:
            self.add(*messages_of(problem))
            rest = getattr(problem, "rest", None)
            return instead if rest is None else rest

    def add(self, *messages: str) -> None:
        """Adds errors, each once."""
        self.messages += [one for one in messages if one not in self.messages]

    def refuse(self, rest: Any = None) -> None:
        """Raises the errors, if there are any."""
        if self.messages:
            raise SeveralErrors(self.messages, rest)


def messages_of(problem: GpuSwarmError) -> list[str]:
    """Each of its errors."""
    return problem.messages if isinstance(problem, SeveralErrors) else [problem.message]


class ErrorList(GpuSwarmError):
    """All errors of ``what`` as one text for a terminal, each on a line of its own. ``nothing`` is the sentence that nothing was changed, with which
    each of them may end."""

    def __init__(self, messages: Sequence[str], what: str, nothing: str, **details: Any) -> None:
        lines = [one[: -len(nothing)].rstrip() if one.endswith(nothing) and len(messages) > 1 else one for one in messages]
        header = ["%s has %d errors. %s" % (what, len(lines), nothing)] if len(lines) > 1 else []
        super().__init__("\n- ".join(map(printable, header + lines)), **details)
