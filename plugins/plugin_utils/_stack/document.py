# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Compose file as plain data (pure): read as Docker Compose reads it, by YAML 1.2's rules.

By those of 1.1, which PyYAML has, ``22:22`` under ``ports`` is a number, and ``on`` is true.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ...module_utils._errors import TOO_DEEP, Errors, GpuSwarmError, SeveralErrors
from ...module_utils._mask import name_alone

# With its anchors written out. The stack files that people write have some hundred.
MOST_VALUES = 100_000
_PLAIN_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_PLAIN_INT = re.compile(r"[-+]?(?:0o?[0-7]+|0x[0-9a-fA-F]+|0|[1-9][0-9]*)")
_PLAIN_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_MERGE = "tag:yaml.org,2002:merge"
_RESOLVED = ("bool", "int", "float", "timestamp")
# What PyYAML raises for a value that is not what its tag says; the error has the value and no place.
_OF_A_TAG = (ValueError, KeyError, AttributeError)
_NO_VALUE = "a value is not of the type that its tag (!!name) or its form says, such as a date of a 13th month. If it is text, put it in quotes"
# Instead of words of PyYAML that have text of the file in them.
_REASONS = {
    "found undefined alias": "an alias (*name) stands there, and nothing has that anchor (&name). If it is text, put it in quotes",
    "could not determine a constructor": "a tag (!name) stands there, and no tags are read. Take it out, or if it is text, put it in quotes",
    "found undefined tag handle": "a tag (!name!) stands there, and no tags are read. Take it out, or if it is text, put it in quotes",
    "but found another document": "a second document (---) begins there, and only one is read. Take one of them out",
}


class _Merging(yaml.SafeLoader):
    """Counts what merge keys (``<<``) add: PyYAML copies it for each alias and each level."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._left = MOST_VALUES
        self._merged: dict[int, Any] = {}

    def flatten_mapping(self, node: Any) -> None:
        if id(node) not in self._merged:  # else an anchor, once more
            self._merged[id(node)] = node
            self._merge(node)
            super().flatten_mapping(node)

    def _merge(self, node: Any) -> None:
        """Keep each key once. The mapping's own value wins over merged ones."""
        own = [pair for pair in node.value if pair[0].tag != _MERGE]
        found: dict[Any, Any] = {}
        for source in [one for key, value in node.value if key.tag == _MERGE for one in reversed(self._sources(node, value))]:
            self.flatten_mapping(source)
            self._count(len(source.value), node)
            found.update((_identity(key), (key, item)) for key, item in source.value)
        if len(own) < len(node.value):
            node.value = list({**found, **{_identity(key): (key, item) for key, item in own}}.values())

    def _sources(self, node: Any, value: Any) -> list[Any]:
        found = value.value if isinstance(value, yaml.SequenceNode) else [value]
        if not all(isinstance(one, yaml.MappingNode) for one in found):
            raise yaml.constructor.ConstructorError(None, None, "a merge key (<<) takes mappings alone", node.start_mark)
        return list(found)

    def _count(self, number: int, node: Any) -> None:
        self._left -= number
        if self._left < 0:
            raise yaml.constructor.ConstructorError(None, None, f"merge keys (<<) add more than {MOST_VALUES} values", node.start_mark)


def _identity(key: Any) -> Any:
    return (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)


class _Loader(_Merging):
    """Without the types of YAML 1.1, and with each key once."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.twice: list[str] = []

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Note keys that are written twice. Merge keys add theirs later."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _value in node.value:
            name, mark = key.value if isinstance(key.value, str) else repr(key.value), key.start_mark
            if name in seen and key.tag != _MERGE:
                self.twice.append(f"line {mark.line + 1}, column {mark.column + 1}: the key {name_alone(name)} stands there twice")
            seen.add(name)
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in found if tag.rpartition(":")[2] not in _RESOLVED]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _whole(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    digits = text.lstrip("+-")
    octal = digits.startswith("0") and len(digits) > 1 and digits[1] in "01234567"
    number = int("0o" + digits[1:] if octal else digits, 0)
    return -number if text.startswith("-") else number


def _number(loader: Any, node: Any) -> float:
    return float(loader.construct_scalar(node))


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(rf"^(?:{_PLAIN_BOOL.pattern})$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(rf"^(?:{_PLAIN_INT.pattern})$"), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(rf"^(?:{_PLAIN_FLOAT.pattern})$"), list("-+0123456789."))
_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def load(text: str, name: str) -> dict[str, Any]:
    """The file ``name`` with this text."""
    errors = Errors()
    found = errors.of(bounded, text, name, _Loader)
    if not isinstance(found, dict):
        errors.refuse()
        raise GpuSwarmError(f"{name} is no Compose file: it has to be a mapping with the key services.")
    errors.refuse(found)
    return found


def bounded(text: str, name: str, loader: type[yaml.SafeLoader] = _Merging) -> Any:
    """What the text is, by YAML 1.1's rules without another loader. Aliases are written out, so that nothing in it is shared."""
    try:
        reader = loader(text)
        found = reader.get_single_data()
    except (yaml.YAMLError, *_OF_A_TAG, RecursionError, TypeError) as problem:
        raise GpuSwarmError(f"{name} is no YAML that can be read: {_reason(problem)}. Fix it there.") from problem
    made, twice = _Copy(name).of(found, ()), getattr(reader, "twice", [])
    if twice:
        raise SeveralErrors([f"{name} is no YAML that can be read: {one}. Fix it there." for one in twice], made)
    return made


def _reason(problem: Exception) -> str:
    """In one line, without the text that stands there or around it: there may be a secret in that."""
    mark = getattr(problem, "problem_mark", None)
    words = str(getattr(problem, "problem", None) or problem)
    what = next((reason for begin, reason in _REASONS.items() if words.startswith(begin)), words)
    what = " ".join((TOO_DEEP if isinstance(problem, RecursionError) else _NO_VALUE if isinstance(problem, _OF_A_TAG) else what).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else what


class _Copy:
    """Counts what it copies: a few aliases of aliases can stand for more than fits into any memory."""

    def __init__(self, name: str) -> None:
        self._name, self._left = name, MOST_VALUES

    def of(self, value: Any, above: tuple[int, ...], path: str = "") -> Any:
        self._left -= 1
        if self._left < 0:
            raise GpuSwarmError(f"{self._name} has more than {MOST_VALUES} values with its aliases written out. Use fewer of them.")
        if id(value) in above:
            raise GpuSwarmError(f"{self._name}: {path} contains itself: an alias (*name) stands within what its anchor (&name) is at. Take it out.")
        above = (*above, id(value))
        if isinstance(value, dict):
            wrong = next((key for key in value if not isinstance(key, (str, int, float))), None)
            if wrong is not None:
                raise GpuSwarmError(f"{self._name}: {path or 'the file'} has the key {wrong!r}, which is no text. Put it in quotes.")
            return {_key(key): self.of(item, above, f"{path}.{key}".lstrip(".")) for key, item in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.of(item, above, f"{path}[{number}]") for number, item in enumerate(value)]
        if isinstance(value, bytes):
            raise GpuSwarmError(f"{self._name}: {path} is binary data, of which such a file has none. Write text.")
        return value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def in_order(messages: Iterable[str], document: Mapping[str, Any], name: str) -> list[str]:
    """Errors of the file ``name``, each of which begins with its place, in the order of these places. One without a place stays behind its
    predecessor."""
    placed: list[tuple[tuple[int, ...], str]] = []
    for message in messages:
        place = _place(message.removeprefix(f"{name}: "), document) if message.startswith(f"{name}: ") else None
        placed.append((place if place is not None else placed[-1][0] if placed else (), message))
    return [message for _place, message in sorted(placed, key=lambda one: one[0])]


def _place(text: str, found: Any) -> tuple[int, ...]:
    """Where the path stands with which the text begins: for each level its number among the others."""
    places: list[int] = []
    while True:
        if isinstance(found, Mapping):
            keys = [key for key in found if text.startswith(key) and not re.match(r"[\w-]", text[len(key) :])]
            if not keys:
                return tuple(places)
            key: Any = max(keys, key=len)
            places.append(list(found).index(key))
            text = text[len(key) :]
        elif isinstance(found, list) and (number := re.match(r"\[([0-9]+)\]", text)) and int(number.group(1)) < len(found):
            key = int(number.group(1))
            places.append(key)
            text = text[number.end() :]
        else:
            return tuple(places)
        found, text = found[key], text.removeprefix(".")
