# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exceptions of this collection. A module's main() turns them into fail_json.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ._printable import printable

# The message if one of Python's parsers raises RecursionError.
TOO_DEEP = "it is nested too deeply"


class GpuSwarmError(Exception):
    """An error for the user.

    The message says what is wrong, names the file and the value, and ends with the remedy. ``details`` are additional return values for
    ``fail_json`` (plain data).
    """

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class ConfigError(GpuSwarmError):
    """A configuration file has an error. Nothing was changed."""


class SeveralErrors(GpuSwarmError):
    """All errors of one input, one per line. ``rest`` is the valid part of the input, for further checks, or None."""

    def __init__(self, messages: Sequence[str], rest: Any = None) -> None:
        super().__init__("\n".join(messages))
        self.messages = list(messages)
        self.rest = rest


class Errors:
    """Collects the errors of independent checks, so that a run reports all of them at once."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def collect(self, check: Callable[..., Any], *arguments: Any, instead: Any = None) -> Any:
        """Return the result of ``check``.

        If ``check`` raises errors, collect them and return the valid part of the input, or ``instead`` without such a part.
        """
        try:
            return check(*arguments)
        except GpuSwarmError as problem:
            self.add(*messages_of(problem))
            rest = getattr(problem, "rest", None)
            return instead if rest is None else rest

    def add(self, *messages: str) -> None:
        """Add errors, each only once."""
        self.messages += [message for message in messages if message not in self.messages]

    def refuse(self, rest: Any = None) -> None:
        """Raise the collected errors. Do nothing without errors."""
        if self.messages:
            raise SeveralErrors(self.messages, rest)


def messages_of(problem: GpuSwarmError) -> list[str]:
    """Return the messages of an error as a list."""
    return problem.messages if isinstance(problem, SeveralErrors) else [problem.message]


class ErrorList(GpuSwarmError):
    """All errors of ``what`` as one text, one per line.

    ``nothing`` is the sentence "nothing was changed". The text has this sentence only once, in the first line, instead of after each error.
    """

    def __init__(self, messages: Sequence[str], what: str, nothing: str, **details: Any) -> None:
        several = len(messages) > 1
        lines = [line[: -len(nothing)].rstrip() if several and line.endswith(nothing) else line for line in messages]
        header = ["%s has %d errors. %s" % (what, len(lines), nothing)] if several else []
        super().__init__("\n- ".join(map(printable, header + lines)), **details)
