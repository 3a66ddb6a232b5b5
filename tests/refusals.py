# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the code refuses, in its own words: the message of each raise, each reason that a function returns, and what tasks fail with."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from .messages import GAP, ROOT, said

PLUGINS = ROOT / "plugins"
TASKS = ("playbooks/**/*.yml", "roles/**/*.yml")
TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
PLACES = re.compile(r"%%|%[-\d.]*[a-z]|\{\w*\}")
AS_IT_IS = {"mask", "printable", "printable_lines", "str"}  # what they return has the same words
DEPTH = 5  # helpers that call helpers
MOST = 64  # combinations of alternatives within one message
# What a person reads. Other exceptions are caught in the code, and their text stands within another message.
OWN = {"GpuSwarmError", "AnsibleActionFail", "AnsibleFilterError", "Refused"}
# Where a function returns the reason of a refusal, and not only raises it.
RETURNED = re.compile(
    r"module_utils/(_config|_dockerd|_jobs|_node|_node_spec|_policy|_react|_verify)/|plugin_utils/(_controller|_fleet|_plan|_rollout|_settings|_stack)/"
)
REASON = re.compile(r"blocker|refusal")  # such a function returns an empty text where nothing is refused

Function = ast.FunctionDef | None
Nodes = Iterable[tuple[Function, ast.AST]]


class Refusal(NamedTuple):
    where: str
    text: str


def of_plugins() -> list[Refusal]:
    """All of the collection."""
    trees = {str(path.relative_to(PLUGINS)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PLUGINS.rglob("*.py"))}
    own = _own(trees.values())
    return [one for name, tree in trees.items() for one in refusals(tree, name, own)]


def of_tasks() -> list[Refusal]:
    """What the tasks of playbooks and roles fail with."""
    found = []
    for path in (path for pattern in TASKS for path in sorted(ROOT.glob(pattern))):
        loaded = yaml.load(path.read_text(encoding="utf-8"), _Loader)
        found += [Refusal(str(path.relative_to(ROOT)), " ".join(TEMPLATE.sub(GAP, text).split())) for text in _failing(loaded)]
    return [one for one in found if _words(one.text)]


class _Loader(yaml.SafeLoader):
    """Of values with a tag, such as those of a vault, nothing is to be known."""


_Loader.add_multi_constructor("!", lambda _loader, _tag, _node: None)


def _failing(loaded: Any) -> Iterator[str]:
    if isinstance(loaded, list):
        yield from (text for one in loaded for text in _failing(one))
    elif isinstance(loaded, dict):
        for key, value in loaded.items():
            if key == "fail_msg":
                yield str(value)
            elif key == "ansible.builtin.fail":
                yield str(value["msg"])
            else:
                yield from _failing(value)


def refusals(tree: ast.Module, where: str, own: Iterable[str] = OWN) -> Iterator[Refusal]:
    """Those of one file, each once; what has no words of its own is passed on from elsewhere, and is not here."""
    nodes = list(_inside(tree))
    texts = _Texts(tree, nodes)
    found = {text: node.lineno for function, node in _raised(nodes, set(own)) for text in texts.of(_message(node.exc), function)}
    found.update({text: node.lineno for function, node in _failed(nodes) for text in texts.of(node, function)})
    if RETURNED.search(where):
        found.update({text: node.lineno for function, node in _returned(nodes) for text in texts.of(node.value, function) if _words(text) > 3})
    yield from (Refusal(f"{where}:{line}", " ".join(text.split())) for text, line in found.items() if _words(text))


def uncovered(found: Iterable[Refusal], rows: Iterable[str]) -> list[Refusal]:
    """Those that no row of the page quotes. A row of one or two words would quote too much by accident."""
    enough = [row for row in rows if _words(row) > 2]
    return [one for one in found if not any(said(row, one.text) for row in enough)]


def _words(text: str) -> int:
    return len(re.findall(r"[A-Za-z]{2,}", text))


def _own(trees: Iterable[ast.Module]) -> set[str]:
    """The collection's own errors: the first one, and every class that is made of it."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    own = set(OWN)
    while more := {name for name, of in bases.items() if of & own} - own:
        own |= more
    return own


def _inside(tree: ast.AST) -> Iterator[tuple[Function, ast.AST]]:
    """(the function that it stands in, node), for every node."""
    left: list[tuple[Function, ast.AST]] = [(None, tree)]
    while left:
        function, parent = left.pop()
        children = [(function, node) for node in ast.iter_child_nodes(parent)]
        yield from children
        left += [(node if isinstance(node, ast.FunctionDef) else function, node) for function, node in reversed(children)]


def _raised(nodes: Nodes, own: set[str]) -> Iterator[tuple[Function, ast.Raise]]:
    for function, node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = _name(node.exc)
            # A function makes the error; its text is looked up there.
            if name in own or not name.lstrip("_")[:1].isupper():
                yield function, node


def _returned(nodes: Nodes) -> Iterator[tuple[Function, ast.Return]]:
    for function, node in nodes:
        if isinstance(node, ast.Return) and node.value and function and function.returns:
            kind = ast.unparse(function.returns)
            if kind == "str | None" or (kind == "str" and REASON.search(function.name)):
                yield function, node


def _failed(nodes: Nodes) -> Iterator[tuple[Function, ast.expr]]:
    """The message of each ``fail_json(msg=…)`` and of each answer ``{"failed": True, "msg": …}`` or ``update(failed=True, msg=…)``."""
    for function, node in nodes:
        if isinstance(node, ast.Call):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            fails = _name(node) == "fail_json" or "failed" in given
        elif isinstance(node, ast.Dict):
            given = {str(key.value): value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}
            fails = "failed" in given
        else:
            continue
        if fails and "msg" in given:
            yield function, given["msg"]


def _message(error: ast.expr | None) -> ast.expr | None:
    """What the error says: of a class that is chosen first (``KINDS[status](text)``), its argument."""
    if isinstance(error, ast.Call) and not _name(error) and error.args:
        return error.args[0]
    return error


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


class _Texts:
    """Each text that an expression of one file may have, with gaps for what only a run knows."""

    def __init__(self, tree: ast.Module, nodes: Nodes) -> None:
        self._functions = {node.name: node for _function, node in nodes if isinstance(node, ast.FunctionDef)}
        self._constants = {
            target.id: node.value for node in tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)
        }

    def of(self, node: ast.expr | None, function: Function, depth: int = DEPTH) -> list[str]:
        if depth and node is not None:
            found = self._of(node, function, depth)
            if found is not None:
                return found[:MOST]
        return [GAP]

    def _of(self, node: ast.expr, function: Function, depth: int) -> list[str] | None:
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else None
        if isinstance(node, ast.JoinedStr):
            return self._joined([self.of(part, function, depth) for part in node.values])
        if isinstance(node, ast.FormattedValue):
            return self._constant(node.value, depth)
        if isinstance(node, ast.BinOp):
            return self._operation(node, function, depth)
        if isinstance(node, ast.IfExp):
            return self.of(node.body, function, depth) + self.of(node.orelse, function, depth)
        if isinstance(node, ast.BoolOp):
            return [text for value in node.values for text in self.of(value, function, depth)]
        if isinstance(node, ast.Name):
            return self._assigned(node, function, depth) or self._constant(node, depth)
        if isinstance(node, ast.Subscript):
            return self._chosen(node.value, depth)
        return self._called(node, function, depth) if isinstance(node, ast.Call) else None

    def _joined(self, parts: list[list[str]]) -> list[str]:
        return ["".join(chosen) for chosen in itertools.islice(itertools.product(*parts), MOST)]

    def _operation(self, node: ast.BinOp, function: Function, depth: int) -> list[str] | None:
        left = self.of(node.left, function, depth)
        if isinstance(node.op, ast.Mod):
            return [PLACES.sub(GAP, text) for text in left]
        return self._joined([left, self.of(node.right, function, depth)]) if isinstance(node.op, ast.Add) else None

    def _constant(self, node: ast.expr, depth: int) -> list[str] | None:
        value = self._constants.get(node.id) if isinstance(node, ast.Name) else None
        return self.of(value, None, depth - 1) if isinstance(value, ast.Constant | ast.JoinedStr | ast.BinOp) else None

    def _chosen(self, node: ast.expr, depth: int) -> list[str] | None:
        """Of a table of texts, each of them."""
        table = self._constants.get(node.id) if isinstance(node, ast.Name) else None
        return [text for value in table.values for text in self.of(value, None, depth - 1)] if isinstance(table, ast.Dict) else None

    def _assigned(self, name: ast.Name, function: Function, depth: int) -> list[str]:
        """What the function itself sets the name to, at each of its places."""
        return [
            text
            for node in (ast.walk(function) if function else ())
            if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) and target.id == name.id for target in node.targets)
            for text in self.of(node.value, function, depth - 1)
        ]

    def _called(self, call: ast.Call, function: Function, depth: int) -> list[str] | None:
        name = _name(call)
        if name == "format" and isinstance(call.func, ast.Attribute):
            return [PLACES.sub(GAP, text) for text in self.of(call.func.value, function, depth)]
        if name == "get" and isinstance(call.func, ast.Attribute):
            return self._chosen(call.func.value, depth)
        if name in self._functions:
            helper = self._functions[name]
            results = [node.value for node in ast.walk(helper) if isinstance(node, ast.Return)]
            return [text for value in results for text in self.of(value, helper, depth - 1)]
        through = name.lstrip("_")[:1].isupper() or name in AS_IT_IS
        return self.of(call.args[0], function, depth) if call.args and through else None
