# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replaces variables in a Compose file and reads files such as ``.env``, by the rules of Docker Compose (pure).

https://docs.docker.com/reference/compose-file/interpolation/ and
https://docs.docker.com/compose/how-tos/environment-variables/variable-interpolation/
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r":?[-?+]")
# A name alone, or a name and its sign.
_BEGIN = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*(?:(?P<sign>[=:])[ \t]*|\Z)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "'": "'"}
# Keys whose values are converted after a variable was replaced. Compose and 'docker stack' convert the same.
NUMBERS = frozenset(
    [
        "replicas",
        "parallelism",
        "max_attempts",
        "max_replicas_per_node",
        "value",
        "count",
        "retries",
        "target",
        "published",
        "size",
        "soft",
        "hard",
        "nofile",
        "nproc",
        "pids",
    ]
)
SWITCHES = frozenset(["disable", "init", "privileged", "read_only", "stdin_open", "tty", "external", "internal", "attachable", "nocopy", "required"])
# Values under these keys are never converted.
TEXTS = frozenset(["environment", "labels", "args", "driver_opts", "options", "sysctls"])
_LACKING = object()


class Variables:
    """The values of variables. ``unset`` collects the names of those that are used without a value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.unset: list[str] = []

    def substitute(self, text: str, where: str) -> str:
        """Return the text with its variables replaced."""
        found: list[str] = []
        at = 0
        while True:
            dollar = text.find("$", at)
            if dollar < 0:
                return "".join([*found, text[at:]])
            found.append(text[at:dollar])
            value, at = self._one(text, dollar + 1, where)
            found.append(value)

    def _one(self, text: str, at: int, where: str) -> tuple[str, int]:
        """Return the value of the variable after a dollar sign, and the position behind it."""
        if text[at : at + 1] == "$":
            return "$", at + 1
        braced = text[at : at + 1] == "{"
        name = _NAME.match(text, at + braced)
        if name is None and not braced:  # a lone dollar sign stays, as in Compose: the end of a regular expression, or $(date) of a shell
            return "$", at
        if name is None:
            raise _invalid(text, where)
        if not braced:
            return self._plain(name.group()), name.end()
        end = _closing(text, at + 1)
        if end is None:
            raise _invalid(text, where)
        return self._braced(name.group(), text[name.end() : end], where, text), end + 1

    def _plain(self, name: str) -> str:
        if name not in self.values and name not in self.unset:
            self.unset.append(name)
        return self.values.get(name, "")

    def _braced(self, name: str, rest: str, where: str, text: str) -> str:
        if not rest:
            return self._plain(name)
        operator = _OPERATOR.match(rest)
        if operator is None:
            raise _invalid(text, where)
        # With a colon, an empty value counts as not set.
        is_set = bool(self.values.get(name)) if operator.group().startswith(":") else name in self.values
        kind = operator.group()[-1]
        if kind == "+":
            return self.substitute(rest[operator.end() :], where) if is_set else ""
        if is_set:
            return self.values[name]
        other = rest[operator.end() :]
        if kind == "?":  # variables in the message are not replaced, because their values may be secret
            raise GpuSwarmError(f"{where}: the variable {name} is required: {other or 'it is not set'}. Set it in .env, or in the environment.")
        return self.substitute(other, where)


def _closing(text: str, at: int) -> int | None:
    """The position of the brace that closes the one before ``at``, or None."""
    depth = 1
    while at < len(text):
        if text.startswith("${", at):
            depth, at = depth + 1, at + 1
        elif text[at] == "}":
            depth -= 1
            if not depth:
                return at
        at += 1
    return None


def _invalid(text: str, where: str) -> GpuSwarmError:
    return GpuSwarmError(f"{where}: there is a '${{' without a valid variable after it. Write ${{NAME}}, or $${{ for a literal '${{'.")


def replace_variables(value: Any, variables: Variables, name: str, path: tuple[str, ...] = ()) -> Any:
    """Replace variables in the values of a document. Keys stay unchanged. If a required variable is missing, its key is dropped and reported."""
    errors = Errors()
    if isinstance(value, dict):
        result = {key: errors.collect(replace_variables, item, variables, name, (*path, key), instead=_LACKING) for key, item in value.items()}
        errors.refuse(right := {key: item for key, item in result.items() if item is not _LACKING})
        return right
    if isinstance(value, list):
        items = [errors.collect(replace_variables, item, variables, name, path, instead=_LACKING) for item in value]
        errors.refuse(None if _LACKING in items else items)  # a shorter list would change the numbers of its items
        return items
    if not isinstance(value, str):
        return value
    where = f"{name}: {'.'.join(path)}"
    return convert_value(variables.substitute(value, where), path, where)


def convert_value(text: str, path: tuple[str, ...], where: str) -> Any:
    """Convert text after its variables were replaced to the type that belongs at this place."""
    if TEXTS.intersection(path):
        return text
    if SWITCHES.intersection(path[-1:]) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if NUMBERS.intersection(path[-1:]) and re.fullmatch(r"[-+]?[0-9]{1,19}", text):
        return int(text)
    return text


def read_variables(text: str, name: str, known: Mapping[str, str], raw: bool = False) -> dict[str, str | None]:
    """Read a file such as ``.env`` or ``env_file``. A name without a value gets None. ``known`` are variables from before."""
    found: dict[str, str | None] = {}
    at, text, errors = 0, text.replace("\r\n", "\n").lstrip("\ufeff") + "\n", Errors()
    while at < len(text):
        end = text.index("\n", at)
        line = text[at:end].strip()
        if not line or line.startswith("#"):
            at = end + 1
            continue
        where = f"{name}, line {text.count(chr(10), 0, at) + 1}"
        begin = _BEGIN.match(text, at, end)
        if begin is None:
            errors.add(f"{where} is not of the form NAME=value. Correct it, or make it a comment with '#'.")
        if begin is None or not begin.group("sign"):
            found.update({begin.group("name"): None} if begin else {})
            at = end + 1
            continue
        before = {**{key: value for key, value in found.items() if value is not None}, **known}
        found[begin.group("name")], at = errors.collect(
            _value, text, begin.end(), end, where, None if raw else Variables(before), instead=(None, end + 1)
        )
    errors.refuse(found)
    return found


def _value(text: str, begin: int, end: int, where: str, variables: Variables | None) -> tuple[str, int]:
    """Return the value and the start of the next line. If ``variables`` is None, the line is used unchanged."""
    if variables is None:
        return text[begin:end], end + 1
    quote = text[begin : begin + 1]
    if quote not in ("'", '"'):
        return variables.substitute(re.split(r"(?:^|\s)#", text[begin:end], maxsplit=1)[0].strip(), where), end + 1
    close = re.compile(r"(?:\\.|[^\\%s])*" % quote, re.DOTALL).match(text, begin + 1)
    if close is None or text[close.end() : close.end() + 1] != quote:
        raise GpuSwarmError(f"{where}: the quote at the start of the value is not closed. Close it.")
    inner = close.group()
    value = inner.replace("\\'", "'") if quote == "'" else variables.substitute(_unescaped(inner), where)
    return value, text.index("\n", close.end()) + 1


def _unescaped(text: str) -> str:
    """Replace escapes in double quotes. An escaped dollar sign stays a dollar sign."""
    return re.sub(r"\\(.)", lambda found: "$$" if found.group(1) == "$" else _ESCAPES.get(found.group(1), found.group()), text, flags=re.DOTALL)
