# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches the code for the messages that pages quote, and for the errors that it can raise."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.pages import rooms

ROOT = Path(__file__).resolve().parents[1]
GAP = "…"
# Messages of Docker are in no file of this collection.
DOCKERS = "Messages of Docker's scheduler"
CODE = ("playbooks/**/*.yml", "playbooks/**/*.py", "roles/**/*.yml")


def quoted(text: str) -> Iterator[tuple[str, str]]:
    """Return (heading, message) for each message in the first column of a table."""
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| `"):
            yield from ((heading, message) for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]))


def has_parts(pattern: str, text: str) -> bool:
    """Return whether a text has the fixed parts of a message, in their order."""
    start = 0
    for part in pattern.split(GAP):
        start = text.find(part.strip(), start)
        if start < 0:
            return False
        start += len(part.strip())
    return True


def code() -> dict[str, str]:
    """Return the texts of all files that can show messages to users, by path. Code that no plugin imports shows none."""
    paths = [*sorted(rooms.reached()), *(path for pattern in CODE for path in sorted(ROOT.glob(pattern)))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


@functools.cache
def printed_texts() -> frozenset[str]:
    """Return every text that the code may print, with gaps for inserted values."""
    found: list[str] = []
    for path, text in code().items():
        found += strings(text) if path.endswith(".py") else [re.sub(r"\s+", " ", re.sub(r"\{\{.*?\}\}", GAP, text, flags=re.DOTALL))]
        if path.endswith(".yml"):  # texts inside templates
            found.append(re.sub(r"\s+", " ", text.replace("' ~ '", "").replace("'", "")))
    return frozenset(found)


def strings(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield re.sub(r"%[sdr]|\{\w*\}", GAP, node.value)


def unknown(messages: Iterable[str]) -> list[str]:
    """Return the messages that the code never prints."""
    texts = printed_texts()
    return [message for message in messages if not any(has_parts(message, text) for text in texts if _longest(message) in text)]


@functools.cache
def _longest(pattern: str) -> str:
    """Return the longest fixed part of a message. Few texts contain it, so most are ruled out quickly."""
    return max((part.strip() for part in pattern.split(GAP)), key=len)


# --- errors ---------------------------------------------------------------------------------------------------------------

ANSIBLES = {"AnsibleActionFail", "AnsibleError", "AnsibleFilterError"}
FAILING_TASKS = {"ansible.builtin.assert": "fail_msg", "ansible.builtin.fail": "msg"}


class Error(NamedTuple):
    path: str
    message: str


def errors_in(sources: Mapping[str, str]) -> Iterator[Error]:
    """Return the errors that these files raise, with gaps for inserted values.

    An error of inserted values only, such as the message of another error, is not returned.
    """
    trees = {path: ast.parse(text) for path, text in sources.items() if path.endswith(".py")}
    constants = _constants(trees.values())
    exceptions = _exceptions(trees.values())
    found = [
        Error(path, message)
        for path, tree in trees.items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for argument in _arguments_with_text(call, exceptions)
        for message in _messages(argument, constants)
    ]
    found += [Error(path, message) for path, text in sources.items() if path not in trees for message in _messages_of_tasks(yaml.safe_load(text))]
    return (error for error in found if _has_words(error.message))


def without_row(errors: Iterable[Error], rows: Iterable[str]) -> list[Error]:
    """Return the errors that no row explains. A row of one word explains only the errors that begin with it and a colon."""
    rows = list(rows)
    patterns = [row for row in rows if _has_words(row)]
    prefixes = tuple(row[: -len(GAP)] for row in rows if row.endswith(f": {GAP}") and not row.startswith(GAP))
    return [
        error
        for error in errors
        if not error.message.startswith(prefixes) and not any(has_parts(row, error.message) for row in patterns if _longest(row) in error.message)
    ]


def _has_words(message: str) -> bool:
    return " " in message.replace(GAP, "").strip()


def _exceptions(trees: Iterable[ast.Module]) -> set[str]:
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = {"GpuSwarmError", *ANSIBLES}
    while more := {node.name for node in classes if found & {ast.unparse(base) for base in node.bases}} - found:
        found |= more
    return found


def _constants(trees: Iterable[ast.Module]) -> dict[str, list[ast.expr]]:
    """Return the values that files assign to a name outside of functions."""
    found: dict[str, list[ast.expr]] = {}
    for node in (node for tree in trees for node in tree.body if isinstance(node, ast.Assign)):
        for name in (target.id for target in node.targets if isinstance(target, ast.Name)):
            found.setdefault(name, []).append(node.value)
    return found


def _arguments_with_text(call: ast.Call, exceptions: set[str]) -> list[ast.expr]:
    name = ast.unparse(call.func)
    if name.rpartition(".")[2] in exceptions:
        return call.args[:1]
    if name.endswith(".fail_json"):
        return [keyword.value for keyword in call.keywords if keyword.arg == "msg"]
    return call.args if name.endswith("errors.add") else []


def _messages(node: ast.expr, constants: Mapping[str, list[ast.expr]]) -> list[str]:
    """Return the texts that an expression can have: several if it chooses between them."""
    if isinstance(node, ast.IfExp):
        return _messages(node.body, constants) + _messages(node.orelse, constants)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [first + second for first in _messages(node.left, constants) for second in _messages(node.right, constants)]
    if isinstance(node, ast.BinOp):  # "…" % value
        return _messages(node.left, constants)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _messages(node.func.value, constants)
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return [text for value in constants.get(name, []) for text in _messages(value, {})] or [GAP]
    return list(strings(ast.unparse(node)))[:1] if isinstance(node, (ast.Constant, ast.JoinedStr)) else [GAP]


def _messages_of_tasks(node: object) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _messages_of_tasks(item)
    elif isinstance(node, dict):
        yield from (re.sub(r"\{\{.*?\}\}", GAP, node[key][text], flags=re.DOTALL) for key, text in FAILING_TASKS.items() if key in node)
        for item in node.values():
            yield from _messages_of_tasks(item)
