# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets and restores this collection's two keys in config.toml of the NVIDIA container runtime. Every other byte stays unchanged.

``nvidia-ctk config --set`` cannot set these keys: it splits a list at its commas and rewrites the whole file.
All functions take and return bytes. None means that the file does not exist.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Callable, Dict, Mapping, NamedTuple

from .._errors import TOO_DEEP, ConfigError, GpuSwarmError
from .._policy import generic_resources
from . import toml_statements, toml_text
from .toml_statements import unquote

# A TOML parser: a function from a text to a document.
Loads = Callable[[str], Dict[str, Any]]

SWARM: tuple = ("swarm-resource",)
MODE: tuple = ("nvidia-container-runtime", "mode")
DISABLE_REQUIRE: tuple = ("disable-require",)
# The mode in the toolkit's own config.toml.
DEFAULT_MODE = "auto"
# Since this version, the mode auto uses CDI.
AUTO_IS_CDI = (1, 18)


class Want(NamedTuple):
    """What config.toml should contain.

    With an empty ``swarm_resource``, the file gets no active line. With ``mode`` None, the mode stays unchanged.
    """

    swarm_resource: str
    mode: str | None = None

    def values(self) -> dict[tuple[str, ...], str | None]:
        wanted: dict[tuple[str, ...], str | None] = {SWARM: self.swarm_resource or None}
        if self.mode is not None:
            wanted[MODE] = self.mode
        return wanted


class Edited(NamedTuple):
    """The new content, and notes about changes for the user."""

    content: bytes
    notes: list[str]


def toml_parser() -> Loads:
    """Return ``loads`` of the standard library (Python 3.11) or of tomli."""
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name).loads
        except ImportError:
            continue
    raise GpuSwarmError(
        "This node's Python cannot parse TOML: it is older than 3.11 and has no tomli. Install tomli on the controller, which copies it"
        " to the node, or on the node (Debian: python3-tomli).",
        missing=["toml_parser"],
    )


def read_lines(content: bytes | None) -> dict[str, str | None]:
    """Return ``{"swarm_resource": …, "mode": …}`` from the active lines. The value of a missing line is None. Needs no TOML library."""
    raw = raw_values(content)
    swarm, mode = (raw.get(name) for name in (SWARM, MODE))
    return {"swarm_resource": None if swarm is None else unquote(swarm), "mode": None if mode is None else unquote(mode)}


def raw_values(content: bytes | None) -> dict[tuple[str, ...], str]:
    """Return {the parts of a name: the raw value} of all keys, including keys in inline tables. Needs no TOML library.

    NVIDIA's decoder also accepts a name in capitals if the documented spelling is missing (keysToTry in go-toml 1.9, marshal.go).
    """
    text = (content or b"").decode("utf-8", "replace")
    raw_by_key: dict[tuple[str, ...], str] = {}
    for statement in toml_statements.keys(text):
        raw_by_key.setdefault(statement.name, text[statement.value_at : statement.value_end])
    for name in list(raw_by_key):
        raw_by_key.setdefault(tuple(part.lower() if part.isupper() else part for part in name), raw_by_key[name])
    return raw_by_key


def values(content: bytes | None) -> dict[str, Any]:
    """Return {dotted name: value} of all keys. A value is a text, a bool, a tuple of texts, or None for any other type. Needs no TOML library."""
    return {".".join(name): _typed(raw) for name, raw in raw_values(content).items()}


def _typed(raw: str) -> str | bool | tuple[str, ...] | None:
    if raw[:1] in ('"', "'"):
        return unquote(raw)
    if raw in ("true", "false"):
        return raw == "true"
    return tuple(map(unquote, toml_statements.strings_in(raw))) if raw.startswith("[") else None


def enforces_requirements(content: bytes | None, version: str | None) -> bool | None:
    """Return whether this toolkit refuses a task whose image requires another driver; None if its version is unknown.

    Only the legacy mode refuses. Needs no TOML library.
    """
    mode = read_lines(content)["mode"] or DEFAULT_MODE
    if version is None:
        return None
    before_cdi = tuple(int(part) for part in version.split(".")[:2]) < AUTO_IS_CDI
    return (before_cdi if mode == DEFAULT_MODE else mode == "legacy") and raw_values(content).get(DISABLE_REQUIRE) != "true"


def is_as_wanted(content: bytes | None, want: Want) -> bool:
    """Return whether the active lines have the wanted values. Needs no TOML library."""
    lines = read_lines(content)
    return lines["swarm_resource"] == (want.swarm_resource or None) and want.mode in (None, lines["mode"])


def _value(text: str, name: tuple[str, ...]) -> str | None:
    statements = toml_text.find(text, name)
    return unquote(text[statements[0].value_at : statements[0].value_end]) if statements else None


# --- editing --------------------------------------------------------------------------------------------------------


def edit(content: bytes | None, path: str, want: Want, loads: Loads | None = None) -> Edited:
    """Return the file with the wanted values of this collection's keys. A second edit changes nothing."""
    notes: list[str] = []
    loads = loads or toml_parser()
    original = _decode(content, path)
    text = _remove_useless_lines(original, path, notes)
    before = _parse(text if notes else original, path, loads)
    _check_capitals(before, path)
    for name, value in want.values().items():
        text = _set(text, name, value)
    _check_result(text, before, want, path, loads)
    return Edited(content if text == original else text.encode("utf-8"), notes)


def _decode(content: bytes | None, path: str) -> str:
    if content is None:
        raise ConfigError(
            f"{path}: it does not exist. Install the NVIDIA Container Toolkit, whose package creates this file, or set"
            " runtime_config to the right file."
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: it is not UTF-8 text (byte {error.start}). Fix the file, and run this again."
        ) from error


def _parse(text: str, path: str, loads: Loads) -> dict[str, Any]:
    try:
        return loads(text)
    except RecursionError:
        reason = TOO_DEEP
    except ValueError as error:
        reason = str(error)
    raise ConfigError(f"{path}: it is not TOML: {reason}. Fix the file, and run this again.")


def _check_capitals(doc: Mapping[str, Any], path: str) -> None:
    """Refuse this collection's keys in capitals. If the file has no such key or table in lower case, NVIDIA's tools read the spelling in capitals."""
    tables = [(doc, SWARM[0]), (doc, MODE[0]), (doc.get(MODE[0]), MODE[1])]
    for table, name in tables:
        if isinstance(table, dict) and name.upper() in table:
            raise ConfigError(
                f"{path}: it has {name.upper()}, which NVIDIA's tools read as {name}. Write it in lower case, and run this again."
            )


def _remove_useless_lines(text: str, path: str, notes: list[str]) -> str:
    """Return the text without useless lines of other tools: repeated lines, and lines in a table, where they have no effect."""
    active = toml_text.find(text, SWARM)
    misplaced = [statement for statement in toml_text.statements(text) if statement.kind == "key" and statement.name[1:][-1:] == SWARM]
    if len(active) > 1:
        notes.append(f"{path}: {SWARM[0]} occurred {len(active)} times at the top level; one line was kept.")
    for statement in misplaced:
        value = generic_resources.shorten(unquote(text[statement.value_at : statement.value_end]))
        notes.append(
            f"{path}: {SWARM[0]} = {value} was removed from the table [{'.'.join(statement.name[:-1])}], where it has no effect."
        )
    for statement in sorted(active[1:] + misplaced, reverse=True, key=lambda line: line.start):
        text = toml_text.remove_statement(text, statement)
    return text


def _set(text: str, name: tuple[str, ...], value: str | None) -> str:
    statements = toml_text.find(text, name)
    if value is None:
        return toml_text.remove_statement(text, statements[0]) if statements else text
    if statements and _value(text, name) == value:
        return text
    return toml_text.set_value(text, name, json.dumps(value, ensure_ascii=False))


def _check_result(text: str, before: Mapping[str, Any], want: Want, path: str, loads: Loads) -> None:
    """Check with a real parser that the text has the wanted values and that nothing else changed."""
    try:
        after = loads(text)
        is_right = all(_lookup(after, name) == value for name, value in want.values().items())
        if is_right and repr(_without(after, want)) == repr(_without(before, want)):
            return
        reason = "a parser reads the result differently"
    except ValueError as error:
        reason = str(error)
    names = " and ".join(".".join(name) for name in want.values())
    raise ConfigError(
        f"{path}: {names} cannot be set in this layout ({reason}). Write the table [{MODE[0]}] with a line for each key, and run this again."
    )


def _lookup(doc: Any, name: tuple[str, ...]) -> Any:
    for part in name:
        doc = doc.get(part) if isinstance(doc, dict) else None
    return doc


def _without(doc: Mapping[str, Any], want: Want) -> dict[str, Any]:
    """Return the document without this collection's keys, and without tables that become empty."""
    copy = {key: dict(value) if isinstance(value, dict) else value for key, value in doc.items()}
    for name in want.values():
        table = copy if len(name) == 1 else copy.get(name[0], {})
        if isinstance(table, dict):
            table.pop(name[-1], None)
        if len(name) > 1 and not table:
            copy.pop(name[0], None)
    return copy


# --- restoring ------------------------------------------------------------------------------------------------------


def undo_edit(content: bytes | None, path: str, original: bytes | None, want: Want, loads: Loads | None = None) -> bytes | None:
    """Return the file without the changes of ``edit(original, path, want)``, with the former values of its keys.

    If someone else has changed these keys since, keep these changes. If someone has edited the file, do not restore the useless lines that ``edit``
    removed, because a repeated line would make the file invalid.
    """
    if content is None or original is None:
        return content
    loads = loads or toml_parser()
    if content == edit(original, path, want, loads).content:
        return original
    text, former = _decode(content, path), _decode(original, path)
    _parse(text, path, loads)
    for name, value in want.values().items():
        if _value(text, name) == value:
            text = _restore(text, name, former)
    _parse(text, path, loads)
    return text.encode("utf-8")


def _restore(text: str, name: tuple[str, ...], former: str) -> str:
    line, former_line = (next(iter(toml_text.find(document, name)), None) for document in (text, former))
    if former_line and line:
        return toml_text.set_value(text, name, former[former_line.value_at : former_line.value_end])
    if former_line:
        return toml_text.insert(text, name, former[former_line.start : former_line.end].strip())
    return _without_line(text, line, name, former) if line else text


def _without_line(text: str, line: toml_text.Statement, name: tuple[str, ...], former: str) -> str:
    """Return the text without the added line. Also remove the line's table, if the table was added too and is empty now.

    An upgrade of NVIDIA's package rewrites the file. The upgrade writes the commented default of a key only if the key is not set. So this function
    restores the default.
    """
    default = toml_text.commented_default(former, name)
    if default and not toml_text.commented_default(text, name):
        added = text[line.start : line.end]
        return text[: line.start] + former[default.start : default.end].strip() + added[len(added.rstrip()) :] + text[line.end :]
    text = toml_text.remove_statement(text, line)
    header = toml_text.find(text, line.table, "table") if line.table else []
    if header and not toml_text.find(former, line.table, "table") and not _statements_in(text, line.table):
        text = toml_text.remove_statement(text, header[0])
    return text


def _statements_in(text: str, table: tuple[str, ...]) -> list[toml_text.Statement]:
    return [statement for statement in toml_text.statements(text) if statement.kind != "table" and statement.table == table]
