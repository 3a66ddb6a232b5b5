# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets and restores this collection's keys for GPUs in daemon.json. Every other byte stays unchanged.

All functions take and return bytes. None means that the file does not exist.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import codecs
import json
import os
from typing import Any, Mapping, NamedTuple, NoReturn, Sequence

from .._errors import TOO_DEEP, ConfigError
from .._policy import generic_resources
from . import json_text

DEFAULT_RUNTIME = "default-runtime"
RUNTIMES = "runtimes"
RESOURCES = "node-generic-resources"
# dockerd has a flag with this name. So dockerd accepts the name as a key, but ignores the key.
SINGULAR = "node-generic-resource"

RUNTIME = "nvidia"
RUNTIME_PATH = "nvidia-container-runtime"

# dockerd reads these byte order marks (moby daemon/config, since 23.0). Without a byte order mark, dockerd expects UTF-8.
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class Want(NamedTuple):
    """The wanted content of daemon.json.

    The policy owns all entries of ``kinds``. The policy also owns the entries in ``written``, because an earlier run wrote these entries. If
    ``runtime_path`` is None, the runtime stays unchanged. ``moved`` are the user's entries that were flags of dockerd before.
    """

    resources: Sequence[str]
    kinds: Sequence[str]
    written: Sequence[str] = ()
    runtime_path: str | None = RUNTIME_PATH
    moved: Sequence[str] = ()


class Edited(NamedTuple):
    """The new content, and notes about changes for the user."""

    content: bytes | None
    notes: list[str]


class _File(NamedTuple):
    bom: bytes
    encoding: str
    text: str
    doc: dict

    def encode(self, text: str) -> bytes:
        return self.bom + text.encode(self.encoding)


# --- reading --------------------------------------------------------------------------------------------------------


def parse(content: bytes | None, path: str) -> dict[str, Any]:
    """Return the document that dockerd reads. An empty file is an empty object."""
    return decode_file(content, path).doc


def decode_file(content: bytes | None, path: str) -> _File:
    content = content or b""
    bom, encoding = next(((bom, name) for bom, name in _BOMS if content.startswith(bom)), (b"", "utf-8"))
    try:
        text = content[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: it is not {encoding} text (byte {len(bom) + error.start}); dockerd would refuse it. Fix the file, and run this again."
        ) from error
    if not text.strip(" \t\r\n"):
        return _File(bom, encoding, text, {})
    return _File(bom, encoding, text, _loads(text, path))


def _loads(text: str, path: str) -> dict[str, Any]:
    try:
        doc = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: it is not JSON: {_reason(error)}. Fix the file, and run this again.") from error
    if isinstance(doc, dict):
        return doc
    raise ConfigError(f"{path}: it contains {describe_type(doc)}, but dockerd expects an object ({{…}}). Fix the file, and run this again.")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return str(error)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def describe_type(value: Any) -> str:
    names = {list: "a list", dict: "an object", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _decode_checked(content: bytes | None, path: str) -> _File:
    """Return the file's text. Raises ConfigError if this collection's keys cannot be set in the file."""
    file = decode_file(content, path)
    if file.doc:
        box = json_text.scan(file.text)
        _refuse_repeated_keys(box, (DEFAULT_RUNTIME, RUNTIMES, RESOURCES, SINGULAR), path, "")
        _check_types(file.doc, path)
        runtimes = box.find(RUNTIMES)
        if runtimes:
            inner = json_text.scan(file.text, runtimes.value_at)
            _refuse_repeated_keys(inner, (RUNTIME,), path, RUNTIMES + ".")
            entry = inner.find(RUNTIME)
            if entry:
                box = json_text.scan(file.text, entry.value_at)
                _refuse_repeated_keys(box, ("path", "runtimeType"), path, f"{RUNTIMES}.{RUNTIME}.", any_case=True)
    return file


def _refuse_repeated_keys(box: json_text.Container, keys: Sequence[str], path: str, prefix: str, any_case: bool = False) -> None:
    """Raise ConfigError if a key is repeated. ``any_case``: dockerd ignores the case of these keys, and of all keys below
    a runtime's name."""
    for key in keys:
        spellings = [item.key for item in box.items if item.key == key or (any_case and str(item.key).lower() == key.lower())]
        if len(spellings) > 1:
            raise ConfigError(
                f"{path}: {prefix}{key} occurs more than once, and dockerd uses the last. Keep one of them, and run this again."
            )
        if spellings and spellings[0] != key:
            raise ConfigError(f"{path}: dockerd reads {prefix}{spellings[0]} as {prefix}{key}. Write it as {key}, and run this again.")


def _check_types(doc: Mapping[str, Any], path: str) -> None:
    def refuse(key: str, value: Any, wanted: str) -> NoReturn:
        raise ConfigError(
            f"{path}: {key} is {describe_type(value)} ({generic_resources.shorten(value)}), but dockerd expects {wanted}."
            " Fix the file, and run this again."
        )

    if not isinstance(doc.get(DEFAULT_RUNTIME, ""), str):
        refuse(DEFAULT_RUNTIME, doc[DEFAULT_RUNTIME], "a string")
    runtimes = doc.get(RUNTIMES, {})
    if not isinstance(runtimes, dict):
        refuse(RUNTIMES, runtimes, "an object")
    entry = runtimes.get(RUNTIME, {})
    if not isinstance(entry, dict):
        refuse(f"{RUNTIMES}.{RUNTIME}", entry, "an object")
    if not isinstance(entry.get("path", ""), str):
        refuse(f"{RUNTIMES}.{RUNTIME}.path", entry["path"], "a string")
    listed = doc.get(RESOURCES, [])
    if not isinstance(listed, list):
        refuse(RESOURCES, listed, 'a list such as ["SSD=1"]')
    for element in listed:
        if not isinstance(element, str):
            refuse(f"an entry of {RESOURCES}", element, 'a string such as "SSD=1"')


# --- editing --------------------------------------------------------------------------------------------------------


def edit(content: bytes | None, path: str, want: Want) -> Edited:
    """Return the file with the wanted values of this collection's keys. A second edit changes nothing."""
    file = _decode_checked(content, path)
    notes: list[str] = []
    text = file.text if file.text.strip() else "{}\n"
    if want.runtime_path is not None:
        text = _edit_runtime(text, want, path, notes)
    text = _add_moved(text, want)
    text = _edit_resources(text, RESOURCES, want, path, notes)
    if SINGULAR in file.doc:
        notes.append(f"{path}: dockerd ignores the key {SINGULAR}. This node's resources are now in {RESOURCES}.")
        text = _edit_singular(text, want)
    _check_resources(json_text.scan(text).find(RESOURCES), path)
    return Edited(content if text == file.text else file.encode(text), notes)


def set_at_path(text: str, keys: Sequence[str], value: Any) -> str:
    """Return the text with ``value`` at the key path ``keys``. The objects on the path must exist."""
    box = json_text.scan(text)
    style = json_text.style_of(text, box)
    for key in keys[:-1]:
        box = json_text.scan(text, box.find(key).value_at)
        style = json_text.style_within(text, box, style)
    return json_text.set_member(json_text.Place(text, box, style, len(keys)), keys[-1], style.render(value, len(keys)))


def _edit_runtime(text: str, want: Want, path: str, notes: list[str]) -> str:
    doc = json.loads(text)
    default = doc.get(DEFAULT_RUNTIME)
    if default != RUNTIME:
        if default:
            notes.append(f"{path}: {DEFAULT_RUNTIME} was {generic_resources.shorten(default)}.")
        text = set_at_path(text, [DEFAULT_RUNTIME], RUNTIME)
    entry = doc.get(RUNTIMES, {}).get(RUNTIME)
    if RUNTIMES not in doc:
        return set_at_path(text, [RUNTIMES], {RUNTIME: {"path": want.runtime_path}})
    if entry is None:
        return set_at_path(text, [RUNTIMES, RUNTIME], {"path": want.runtime_path})
    if not entry.get("path") and "runtimeType" not in entry:
        return set_at_path(text, [RUNTIMES, RUNTIME, "path"], want.runtime_path)
    if os.path.basename(entry.get("path", "")) != os.path.basename(want.runtime_path):
        notes.append(f"{path}: {RUNTIMES}.{RUNTIME} is {generic_resources.shorten(entry)}; it was not changed.")
    return text


def _is_owned(entry: str, want: Want) -> bool:
    kind = entry.split("=", 1)[0].strip().upper()
    return kind in {owned_kind.upper() for owned_kind in want.kinds} or entry in want.written or entry in want.resources


def _owned_entries(value: Any, want: Want) -> list[str]:
    """Return the entries in a key's value that the policy owns. The value can have any type if dockerd ignores the key."""
    listed = value if isinstance(value, list) else []
    return [entry for entry in listed if isinstance(entry, str) and _is_owned(entry, want)]


def _add_moved(text: str, want: Want) -> str:
    """Append the user's entries that were flags before. Entries of kinds that the policy decides are dropped."""
    item = json_text.scan(text).find(RESOURCES)
    present = item.value if item else []
    added = [resource for resource in dict.fromkeys(want.moved) if resource not in present and not _is_owned(resource, want)]
    if not added:
        return text
    return replace_entries(text, item, [], added) if item else set_at_path(text, [RESOURCES], added)


def _edit_resources(text: str, key: str, want: Want, path: str, notes: list[str]) -> str:
    box = json_text.scan(text)
    item = box.find(key)
    if item is None:
        return set_at_path(text, [key], list(want.resources)) if want.resources else text
    owned = _owned_entries(item.value, want)
    for entry in owned:
        if entry not in want.resources and entry not in want.written:
            notes.append(f"{path}: {key} listed {generic_resources.shorten(entry)}, which the policy decides.")
    return replace_entries(text, item, owned, want.resources)


def _edit_singular(text: str, want: Want) -> str:
    box = json_text.scan(text)
    item = box.find(SINGULAR)
    owned = _owned_entries(item.value, want)
    if owned and len(owned) == len(item.value):
        return json_text.remove_member(text, box, SINGULAR)
    return replace_entries(text, item, owned, ()) if owned else text


def replace_entries(text: str, item: json_text.Item, owned: Sequence[str], resources: Sequence[str]) -> str:
    """Return the text with ``resources`` in place of the entries ``owned``. The other entries of the list keep their order and bytes."""
    box = json_text.scan(text, item.value_at)
    style = json_text.style_of(text, json_text.scan(text))
    raws = [None if element.value in owned else text[element.value_at : element.end] for element in box.items]
    at = raws.index(None) if None in raws else len(raws)
    added = [json.dumps(entry, ensure_ascii=False) for entry in resources]
    raws = [raw for raw in raws[:at] if raw] + added + [raw for raw in raws[at:] if raw]
    if [json.loads(raw) for raw in raws] == item.value:
        return text
    return text[: item.value_at] + json_text.format_list(json_text.Place(text, box, style, 2), raws) + text[item.end :]


def _check_resources(item: json_text.Item | None, path: str) -> None:
    try:
        generic_resources.parse(item.value if item else [])
    except generic_resources.ResourceError as error:
        raise ConfigError(
            f"{path}: dockerd would not start with this {RESOURCES}: {error} Fix the file, and run this again."
        ) from error


# --- restoring ------------------------------------------------------------------------------------------------------


def undo_edit(content: bytes | None, path: str, original: bytes | None, want: Want) -> bytes | None:
    """Return the file without the changes of ``edit(original, path, want)``, with the former values of its keys.

    If someone else has changed these keys since, keep these changes. Return None if the file did not exist before and is not needed.
    """
    if content is None or content == edit(original, path, want).content:
        return original if content is not None else None
    file, former = _decode_checked(content, path), _decode_checked(original, path)
    text = file.text if file.doc else "{}"
    text = _restore_resources(text, former, want)
    if want.runtime_path is not None:
        text = _restore_runtime(text, former, want)
    if not json.loads(text) and not former.doc:
        return original
    return content if text == file.text else file.encode(text)


def restore_member(text: str, key: str, former: _File) -> str:
    """Return the text with the member's former bytes, or without the member if it did not exist."""
    box = json_text.scan(text)
    item = json_text.scan(former.text).find(key) if former.doc else None
    if item is None:
        return json_text.remove_member(text, box, key) if box.find(key) else text
    raw = former.text[item.value_at : item.end]
    return json_text.set_member(json_text.Place(text, box, json_text.style_of(text, box), 1), key, raw)


def _restore_runtime(text: str, former: _File, want: Want) -> str:
    doc = json.loads(text)
    if doc.get(DEFAULT_RUNTIME) == RUNTIME:
        text = restore_member(text, DEFAULT_RUNTIME, former)
    runtimes, entry = doc.get(RUNTIMES, {}), doc.get(RUNTIMES, {}).get(RUNTIME)
    before = former.doc.get(RUNTIMES, {})
    edited = dict(before.get(RUNTIME, {}), path=want.runtime_path)
    if entry != edited or before.get(RUNTIME) == edited:
        return text
    if {key: value for key, value in runtimes.items() if key != RUNTIME} == {
        key: value for key, value in before.items() if key != RUNTIME
    }:
        return restore_member(text, RUNTIMES, former)
    if RUNTIME in before:
        return set_at_path(text, [RUNTIMES, RUNTIME], before[RUNTIME])
    inner = json_text.scan(text, json_text.scan(text).find(RUNTIMES).value_at)
    return json_text.remove_member(text, inner, RUNTIME)


def _restore_resources(text: str, former: _File, want: Want) -> str:
    singular = former.doc.get(SINGULAR)
    if _owned_entries(singular, want):
        kept = [entry for entry in singular if entry not in _owned_entries(singular, want)]
        if json.loads(text).get(SINGULAR, []) == kept:
            text = restore_member(text, SINGULAR, former)
    item = json_text.scan(text).find(RESOURCES)
    if item is None:
        return text
    before = former.doc.get(RESOURCES, [])
    moved_here = [entry for entry in want.moved if entry not in before]
    owned, formerly_owned = [entry for entry in item.value if entry in want.resources or entry in moved_here], _owned_entries(before, want)
    if [entry for entry in item.value if entry not in owned] == [entry for entry in before if entry not in formerly_owned]:
        return restore_member(text, RESOURCES, former)
    # If someone has already restored an entry by hand, do not list the entry twice.
    return replace_entries(text, item, owned, [entry for entry in formerly_owned if entry in owned or entry not in item.value])
