# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Loads a Compose file as Docker Compose does, by the rules of YAML 1.2 (pure).

PyYAML follows YAML 1.1, where ``22:22`` under ``ports`` is a number and ``on`` is true.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ...module_utils._errors import TOO_DEEP, Errors, GpuSwarmError, SeveralErrors
from ...module_utils._mask import mask_value_in_key

# The limit after aliases are expanded. Real stack files have a few hundred values.
MAX_VALUES = 100_000
_PLAIN_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_PLAIN_INT = re.compile(r"[-+]?(?:0o?[0-7]+|0x[0-9a-fA-F]+|0|[1-9][0-9]*)")
_PLAIN_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_MERGE = "tag:yaml.org,2002:merge"
_RESOLVED = ("bool", "int", "float", "timestamp")
# The errors of PyYAML if a value does not match its tag. These errors show the value, but not its place.
_TAG_ERRORS = (ValueError, KeyError, AttributeError)
_TAG_MISMATCH = "a value does not match its tag (!!name) or its form, for example a date with month 13. If it is text, put it in quotes"
# Replacements for messages of PyYAML that show text of the file.
_REASONS = {
    "found undefined alias": "there is an alias (*name) without its anchor (&name). If it is text, put it in quotes",
    "could not determine a constructor": "there is a tag (!name), but tags are not supported. Remove it, or if it is text, put it in quotes",
    "found undefined tag handle": "there is a tag (!name!), but tags are not supported. Remove it, or if it is text, put it in quotes",
    "but found another document": "a second document (---) begins there, but only one is read. Remove one of them",
}


class _MergingLoader(yaml.SafeLoader):
    """A loader that limits how many values merge keys (``<<``) add, because PyYAML copies them for each alias and level."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._remaining = MAX_VALUES
        self._merged: dict[int, Any] = {}

    def flatten_mapping(self, node: Any) -> None:
        if id(node) not in self._merged:  # an anchored mapping is visited several times
            self._merged[id(node)] = node
            self._merge(node)
            super().flatten_mapping(node)

    def _merge(self, node: Any) -> None:
        """Merge the sources so that each key occurs once. If the mapping itself has a key, its value is used."""
        own = [pair for pair in node.value if pair[0].tag != _MERGE]
        merged: dict[Any, Any] = {}
        for source in [mapping for key, value in node.value if key.tag == _MERGE for mapping in reversed(self._sources(node, value))]:
            self.flatten_mapping(source)
            self._count(len(source.value), node)
            merged.update((_identity(key), (key, item)) for key, item in source.value)
        if len(own) < len(node.value):
            node.value = list({**merged, **{_identity(key): (key, item) for key, item in own}}.values())

    def _sources(self, node: Any, value: Any) -> list[Any]:
        sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
        if not all(isinstance(source, yaml.MappingNode) for source in sources):
            raise yaml.constructor.ConstructorError(None, None, "a merge key (<<) accepts only mappings", node.start_mark)
        return list(sources)

    def _count(self, added: int, node: Any) -> None:
        self._remaining -= added
        if self._remaining < 0:
            raise yaml.constructor.ConstructorError(None, None, f"merge keys (<<) add more than {MAX_VALUES} values", node.start_mark)


def _identity(key: Any) -> Any:
    return (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)


class _Loader(_MergingLoader):
    """A loader with the types of YAML 1.2 that notes duplicate keys."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Note duplicate keys. Merged keys are added later, so they are not duplicates."""
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _value in node.value:
            name, mark = key.value if isinstance(key.value, str) else repr(key.value), key.start_mark
            if name in names and key.tag != _MERGE:
                self.duplicates.append(f"line {mark.line + 1}, column {mark.column + 1}: the key {mask_value_in_key(name)} appears twice")
            names.add(name)
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag.rpartition(":")[2] not in _RESOLVED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _read_int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    digits = text.lstrip("+-")
    octal = digits.startswith("0") and len(digits) > 1 and digits[1] in "01234567"
    number = int("0o" + digits[1:] if octal else digits, 0)
    return -number if text.startswith("-") else number


def _read_float(loader: Any, node: Any) -> float:
    return float(loader.construct_scalar(node))


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(rf"^(?:{_PLAIN_BOOL.pattern})$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(rf"^(?:{_PLAIN_INT.pattern})$"), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(rf"^(?:{_PLAIN_FLOAT.pattern})$"), list("-+0123456789."))
_Loader.add_constructor("tag:yaml.org,2002:int", _read_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _read_float)


def load_compose(text: str, name: str) -> dict[str, Any]:
    """Load the text of the Compose file ``name``."""
    errors = Errors()
    document = errors.collect(load_yaml, text, name, _Loader)
    if not isinstance(document, dict):
        errors.refuse()
        raise GpuSwarmError(f"{name} is not a Compose file: it must be a mapping with the key services.")
    errors.refuse(document)
    return document


def load_yaml(text: str, name: str, loader: type[yaml.SafeLoader] = _MergingLoader) -> Any:
    """Load YAML with a limit on its size. Aliases are expanded into copies. By default the rules of YAML 1.1 apply."""
    try:
        reader = loader(text)
        document = reader.get_single_data()
    except (yaml.YAMLError, *_TAG_ERRORS, RecursionError, TypeError) as problem:
        raise GpuSwarmError(f"{name} is not readable YAML: {_reason(problem)}. Fix it there.") from problem
    result, duplicates = _Copy(name).of(document, ()), getattr(reader, "duplicates", [])
    if duplicates:
        raise SeveralErrors([f"{name} is not readable YAML: {duplicate}. Fix it there." for duplicate in duplicates], result)
    return result


def _reason(problem: Exception) -> str:
    """Describe the problem in one line, without text from the file, because the text may contain a secret."""
    mark = getattr(problem, "problem_mark", None)
    message = str(getattr(problem, "problem", None) or problem)
    what = next((reason for begin, reason in _REASONS.items() if message.startswith(begin)), message)
    what = " ".join((TOO_DEEP if isinstance(problem, RecursionError) else _TAG_MISMATCH if isinstance(problem, _TAG_ERRORS) else what).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else what


class _Copy:
    """Expands aliases by copying, and counts the copies. A few nested aliases can expand to more data than any memory holds."""

    def __init__(self, name: str) -> None:
        self._name, self._remaining = name, MAX_VALUES

    def of(self, value: Any, ancestors: tuple[int, ...], path: str = "") -> Any:
        self._remaining -= 1
        if self._remaining < 0:
            raise GpuSwarmError(f"{self._name} has more than {MAX_VALUES} values after its aliases are expanded. Use fewer aliases.")
        if id(value) in ancestors:
            raise GpuSwarmError(f"{self._name}: {path} contains itself: an alias (*name) is inside the value of its own anchor (&name). Remove it.")
        ancestors = (*ancestors, id(value))
        if isinstance(value, dict):
            bad_key = next((key for key in value if not isinstance(key, (str, int, float))), None)
            if bad_key is not None:
                raise GpuSwarmError(f"{self._name}: {path or 'the file'} has the key {bad_key!r}, which is not text. Put it in quotes.")
            return {_key(key): self.of(item, ancestors, f"{path}.{key}".lstrip(".")) for key, item in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.of(item, ancestors, f"{path}[{number}]") for number, item in enumerate(value)]
        if isinstance(value, bytes):
            raise GpuSwarmError(f"{self._name}: {path} is binary data, which is not supported. Write text.")
        return value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def sort_by_place(messages: Iterable[str], document: Mapping[str, Any], name: str) -> list[str]:
    """Sort errors of the file ``name`` by the place at the beginning of each error. An error without a place follows the error before it."""
    placed: list[tuple[tuple[int, ...], str]] = []
    for message in messages:
        place = _place(message.removeprefix(f"{name}: "), document) if message.startswith(f"{name}: ") else None
        placed.append((place if place is not None else placed[-1][0] if placed else (), message))
    return [message for _place, message in sorted(placed, key=lambda pair: pair[0])]


def _place(text: str, value: Any) -> tuple[int, ...]:
    """Return the position of the path at the start of ``text``. The position is, for each level, the number of the key among its neighbours."""
    places: list[int] = []
    while True:
        if isinstance(value, Mapping):
            keys = [key for key in value if text.startswith(key) and not re.match(r"[\w-]", text[len(key) :])]
            if not keys:
                return tuple(places)
            key: Any = max(keys, key=len)
            places.append(list(value).index(key))
            text = text[len(key) :]
        elif isinstance(value, list) and (number := re.match(r"\[([0-9]+)\]", text)) and int(number.group(1)) < len(value):
            key = int(number.group(1))
            places.append(key)
            text = text[number.end() :]
        else:
            return tuple(places)
        value, text = value[key], text.removeprefix(".")
