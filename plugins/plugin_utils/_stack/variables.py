# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replaces variables in a Compose file and reads files such as ``.env``, by the rules of Docker Compose (pure).

https://docs.docker.com/reference/compose-file/interpolation/ and
https://docs.docker.com/compose/how-tos/environment-variables/variable-interpolation/
Private to this collection; it may change without notice.
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
# Keys whose values are converted after variables are replaced. Compose and 'docker stack' convert the same keys.
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
_MISSING = object()


class Variables:
    """The values of variables. ``unset`` collects the names of variables that are used but have no value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.unset: list[str] = []

    def substitute(self, text: str, where: str) -> str:
        """Return the text with its variables replaced."""
        parts: list[str] = []
        position = 0
        while True:
            dollar = text.find("$", position)
            if dollar < 0:
                return "".join([*parts, text[position:]])
            parts.append(text[position:dollar])
            value, position = self._read_variable(text, dollar + 1, where)
            parts.append(value)

    def _read_variable(self, text: str, position: int, where: str) -> tuple[str, int]:
        """Return the value of the variable after a dollar sign, and the position after the variable."""
        if text[position : position + 1] == "$":
            return "$", position + 1
        braced = text[position : position + 1] == "{"
        name = _NAME.match(text, position + braced)
        if name is None and not braced:  # a lone dollar sign stays, as in Compose: the end of a regular expression, or $(date) of a shell
            return "$", position
        if name is None:
            raise _invalid(text, where)
        if not braced:
            return self._value_of(name.group()), name.end()
        end = _closing(text, position + 1)
        if end is None:
            raise _invalid(text, where)
        return self._evaluate(name.group(), text[name.end() : end], where, text), end + 1

    def _value_of(self, name: str) -> str:
        if name not in self.values and name not in self.unset:
            self.unset.append(name)
        return self.values.get(name, "")

    def _evaluate(self, name: str, operation: str, where: str, text: str) -> str:
        if not operation:
            return self._value_of(name)
        operator = _OPERATOR.match(operation)
        if operator is None:
            raise _invalid(text, where)
        # With a colon, an empty value has the same effect as no value.
        is_set = bool(self.values.get(name)) if operator.group().startswith(":") else name in self.values
        kind = operator.group()[-1]
        if kind == "+":
            return self.substitute(operation[operator.end() :], where) if is_set else ""
        if is_set:
            return self.values[name]
        alternative = operation[operator.end() :]
        if kind == "?":  # variables in the message are not replaced, because their values may be secret
            reason = alternative or "it is not set"
            raise GpuSwarmError(f"{where}: the variable {name} is required: {reason}. Set it in .env, or in the environment.")
        return self.substitute(alternative, where)


def _closing(text: str, position: int) -> int | None:
    """Return the position of the brace that closes the brace before ``position``, or None."""
    depth = 1
    while position < len(text):
        if text.startswith("${", position):
            depth, position = depth + 1, position + 1
        elif text[position] == "}":
            depth -= 1
            if not depth:
                return position
        position += 1
    return None


def _invalid(text: str, where: str) -> GpuSwarmError:
    return GpuSwarmError(f"{where}: there is a '${{' without a valid variable after it. Write ${{NAME}}, or $${{ for a literal '${{'.")


def replace_variables(value: Any, variables: Variables, name: str, path: tuple[str, ...] = ()) -> Any:
    """Replace variables in the values of a document. Keys do not change. If a required variable is missing, its key is dropped and reported."""
    errors = Errors()
    if isinstance(value, dict):
        result = {key: errors.collect(replace_variables, item, variables, name, (*path, key), instead=_MISSING) for key, item in value.items()}
        errors.refuse(valid := {key: item for key, item in result.items() if item is not _MISSING})
        return valid
    if isinstance(value, list):
        items = [errors.collect(replace_variables, item, variables, name, path, instead=_MISSING) for item in value]
        errors.refuse(None if _MISSING in items else items)  # a shorter list would change the numbers of its items
        return items
    if not isinstance(value, str):
        return value
    where = f"{name}: {'.'.join(path)}"
    return convert_value(variables.substitute(value, where), path, where)


def convert_value(text: str, path: tuple[str, ...], where: str) -> Any:
    """Convert text to the type of its place, after its variables were replaced."""
    if TEXTS.intersection(path):
        return text
    if SWITCHES.intersection(path[-1:]) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if NUMBERS.intersection(path[-1:]) and re.fullmatch(r"[-+]?[0-9]{1,19}", text):
        return int(text)
    return text


def read_variables(text: str, name: str, outer: Mapping[str, str], raw: bool = False) -> dict[str, str | None]:
    """Read a file such as ``.env`` or ``env_file``. A name without a value gets None. Values may use variables of ``outer`` and of lines above."""
    variables: dict[str, str | None] = {}
    position, text, errors = 0, text.replace("\r\n", "\n").lstrip("\ufeff") + "\n", Errors()
    while position < len(text):
        end = text.index("\n", position)
        line = text[position:end].strip()
        if not line or line.startswith("#"):
            position = end + 1
            continue
        where = f"{name}, line {text.count(chr(10), 0, position) + 1}"
        begin = _BEGIN.match(text, position, end)
        if begin is None:
            errors.add(f"{where} is not of the form NAME=value. Correct it, or make it a comment with '#'.")
        if begin is None or not begin.group("sign"):
            variables.update({begin.group("name"): None} if begin else {})
            position = end + 1
            continue
        before = {**{key: value for key, value in variables.items() if value is not None}, **outer}
        variables[begin.group("name")], position = errors.collect(
            _value, text, begin.end(), end, where, None if raw else Variables(before), instead=(None, end + 1)
        )
    errors.refuse(variables)
    return variables


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
    return re.sub(r"\\(.)", lambda match: "$$" if match.group(1) == "$" else _ESCAPES.get(match.group(1), match.group()), text, flags=re.DOTALL)
