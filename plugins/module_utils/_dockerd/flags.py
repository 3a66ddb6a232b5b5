# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves options from dockerd's command line into daemon.json, and back (pure).

dockerd refuses to start when an option stands both as a flag and in daemon.json. Recipes put them into a drop-in that
replaces the whole ExecStart, or into a variable that ExecStart expands.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
import re
from typing import Any, Container, Iterable, Mapping, NamedTuple, Sequence

from .._config.daemon_json import RUNTIME, RUNTIME_PATH
from .._errors import ConfigError
from . import environment_text, unit_text

# As in the units of the packages. Not unix:///run/docker.sock, though that is the same socket: a dockerd that opened it
# itself has unlinked the one of docker.socket, and after a restart with fd:// nobody would reach it.
_DEFAULTS = (("-H", "fd://"), ("--host", "fd://"), ("--containerd", "/run/containerd/containerd.sock"))
_HOST = ("-H", "--host")
# A misprint in a recipe that is often copied. dockerd knows no such protocol.
_MISPRINT, _MEANT = "fdd://", "fd://"
_RESOURCES = ("--node-generic-resource", "--node-generic-resources")
_DEFAULT_RUNTIME = "--default-runtime"
_ADD_RUNTIME = "--add-runtime"
_SERVICE, _EXEC, _ENVIRONMENT = "Service", "ExecStart", "Environment"
# As a word of its own it becomes the words of its value; the other form stays one word, and may be within one.
_VARIABLE = re.compile(r"\$([^{$].*)\Z", re.DOTALL)
_WITHIN = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# What may stand before the program in ExecStart; with a colon, variables stay as they are.
_PREFIXES, _AS_IT_IS = "@-:+!|", ":"

UNIT, DROP_IN, ENVIRONMENT = "unit", "drop-in", "environment"


class UnitFile(NamedTuple):
    """A file that decides how dockerd is started: its kind, and whether this collection may edit it."""

    path: str
    kind: str
    content: bytes | None
    editable: bool
    comments_go_on: bool = False  # in an environment file, see environment_text


class Flag(NamedTuple):
    """An option with its value, and its words in the command line."""

    name: str
    value: str | None
    words: Sequence[unit_text.Word]

    @property
    def text(self) -> str:
        return self.name if self.value is None else "%s=%s" % (self.name, self.value)

    @property
    def arguments(self) -> list[str]:
        return [word.text for word in self.words]


class Taken(NamedTuple):
    """The new files ({path: new bytes, None to remove it}), and what was taken out of them.

    ``words``: {path: [{"variable": name, or None for ExecStart, "words": […]}]}, to be restored later. ``resources``:
    entries for node-generic-resources. ``command``: what systemd will then start. ``notes``: sentences.
    """

    files: dict
    words: dict
    resources: Sequence[str]
    command: Sequence[str]
    notes: Sequence[str]


def take(files: Sequence[UnitFile]) -> Taken:
    """Take this collection's options out of the files. ``files`` are in the order in which systemd reads them."""
    texts = {one.path: decoded(one) for one in files if one.content is not None}
    edited, words, resources = dict(texts), {}, []
    notes: list[str] = []
    used = _variables_used(files, texts)
    for one in files:
        if not one.editable or one.path not in texts:
            continue
        text = _corrected(texts[one.path], one, notes)
        edited[one.path], taken = _without_managed(text, one, used)
        if taken:
            words[one.path] = [{"variable": variable, "words": [flag.text for flag in found]} for variable, found in taken]
            found = [flag for dummy_variable, some in taken for flag in some]
            resources += [flag.value or "" for flag in found if flag.name in _RESOURCES]
            options = ", ".join(dict.fromkeys(flag.text for flag in found))
            notes.append("%s: dockerd was started with %s there; daemon.json has that setting now." % (one.path, options))
    for one in files:
        if one.path in words and one.kind == DROP_IN and _is_redundant(one, files, edited):
            del edited[one.path]
            notes.append("%s: it contained nothing else, and was removed." % one.path)
    changed = {path: edited[path].encode("utf-8") if path in edited else None for path in texts if edited.get(path) != texts[path]}
    return Taken(changed, words, resources, command(files, edited), notes)


def kind_of(path: str) -> str:
    return {".conf": DROP_IN, ".service": UNIT}.get(os.path.splitext(path)[1], ENVIRONMENT)


def started_with(files: Sequence[UnitFile], contents: Mapping[str, bytes | None]) -> list[str]:
    """Return what systemd starts once the files have ``contents`` ({path: bytes, or None for no file})."""
    there = {one.path: one for one in files}
    for path, content in contents.items():
        there[path] = there.get(path, UnitFile(path, kind_of(path), None, True))._replace(content=content)
    known = [one for one in there.values() if one.content is not None]
    order = (UNIT, DROP_IN, ENVIRONMENT)
    known.sort(key=lambda one: (order.index(one.kind), os.path.basename(one.path)))
    return command(known, {one.path: decoded(one) for one in known})


def restore(content: bytes | None, kind: str, taken: Iterable[Mapping[str, Any]]) -> tuple[bytes, list[str]]:
    """Return (the file with its former words, the words for which there is no place any more)."""
    text, unplaced = (content or b"").decode("utf-8", "replace"), []
    for part in taken:
        lines = _lines(text, UnitFile("", kind, None, True))
        fitting = [line for line in lines if line.variable_name == part["variable"] and (line.words or line.variable)]
        if not fitting:
            unplaced += part["words"]
            continue
        line = fitting[-1]
        added = [one for one in dict.fromkeys(part["words"]) if one not in [flag.text for flag in flags(line.words)]]
        if added:
            text = unit_text.append(text, line.words, added) if line.words else unit_text.fill(text, line.variable, added)
    return text.encode("utf-8"), unplaced


def command(files: Sequence[UnitFile], texts: Mapping[str, str]) -> list[str]:
    """The program and the words that systemd would start with these texts of the files, variables in their place."""
    argv, variables = unit_command(files, texts)
    for one in files:
        if one.kind == ENVIRONMENT and one.path in texts:  # read when dockerd is started, after all others
            variables.update((line.variable.name, line.variable.value) for line in _lines(texts[one.path], one) if line.variable)
    if argv and _AS_IT_IS in _prefix(argv[0]):
        return argv
    return [part for word in argv for part in _expanded(word, variables)]


def unit_command(files: Sequence[UnitFile], texts: Mapping[str, str]) -> tuple[list[str], dict[str, unit_text.Value]]:
    """Return the words of ExecStart in the units, unchanged, and the variables of Environment."""
    argv: list[str] = []
    variables: dict[str, unit_text.Value] = {}
    for one in files:
        for line in _lines(texts[one.path], one) if one.path in texts and one.kind != ENVIRONMENT else []:
            if line.variable:
                variables[line.variable.name] = line.variable.value
            elif line.clears_variables:
                variables.clear()
            else:
                argv = [word.text for word in line.words]  # an empty ExecStart clears the former one
    return argv, variables


def program_words(argv: Sequence[str]) -> list[str]:
    """Return the program's name and arguments, without systemd's own prefixes."""
    if not argv:
        return []
    prefix = _prefix(argv[0])
    return list(argv[1:]) if "@" in prefix else [argv[0][len(prefix) :], *argv[1:]]


def used_variables(argv: Sequence[str]) -> list[str]:
    """Return the names of the variables that systemd replaces in these words of ExecStart."""
    if argv and _AS_IT_IS in _prefix(argv[0]):
        return []
    whole = [found.group(1) for found in map(_VARIABLE.match, argv) if found]
    return list(dict.fromkeys([*whole, *(name for word in argv for name in _WITHIN.findall(word) if name)]))


def command_file(files: Sequence[UnitFile], texts: Mapping[str, str]) -> str:
    """Return the file whose ExecStart counts, or else the unit itself."""
    units = [one for one in files if one.path in texts and one.kind != ENVIRONMENT]
    found = [one.path for one in units if any(line.is_command for line in _lines(texts[one.path], one))]
    return (found or [files[0].path])[-1]


def variable_file(files: Sequence[UnitFile], texts: Mapping[str, str], name: str) -> str:
    """Return the file whose Environment sets this variable, or else the file whose ExecStart counts."""
    units = [one for one in files if one.path in texts and one.kind != ENVIRONMENT]
    found = [one.path for one in units if any(line.variable_name == name for line in _lines(texts[one.path], one))]
    return found[-1] if found else command_file(files, texts)


def flags(words: Sequence[unit_text.Word]) -> list[Flag]:
    """Return the options in a command line, whether the value is in the same word or in the next."""
    found, here = [], 0
    while here < len(words):
        name, equals, value = words[here].text.partition("=")
        takes_next = not equals and name in (_DEFAULT_RUNTIME, _ADD_RUNTIME, "--containerd", *_RESOURCES, *_HOST) and here + 1 < len(words)
        if name.startswith("-"):
            found.append(Flag(name, value if equals else words[here + 1].text if takes_next else None, words[here : here + 1 + takes_next]))
        here += 1 + takes_next
    return found


def flags_of(argv: Sequence[str]) -> list[Flag]:
    """The same of plain words."""
    return flags([unit_text.Word(0, 0, word) for word in argv])


def resources_in(taken: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the entries for node-generic-resources in words that were taken out."""
    found = [flag for part in taken for flag in flags_of(part["words"])]
    return [flag.value or "" for flag in found if flag.name in _RESOURCES]


def adds_runtime(argv: Sequence[str]) -> bool:
    """Return whether a runtime named nvidia is added, with any program."""
    return any(flag.name == _ADD_RUNTIME and (flag.value or "").startswith(RUNTIME + "=") for flag in flags_of(argv))


def is_dockerd(argv: Sequence[str]) -> bool:
    """Return whether systemd starts dockerd itself, not a script that does."""
    return bool(argv) and _program(argv) == "dockerd"


def is_managed(flag: Flag) -> bool:
    if flag.name == _ADD_RUNTIME:
        name, dummy, path = (flag.value or "").partition("=")
        return name == RUNTIME and os.path.basename(path) == os.path.basename(RUNTIME_PATH)
    return flag.name == _DEFAULT_RUNTIME or flag.name in _RESOURCES


# -- reading ---------------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """A command line, or a variable with the words of its value."""

    words: Sequence[unit_text.Word]
    variable: unit_text.Variable | None = None
    clears_variables: bool = False

    @property
    def is_command(self) -> bool:
        return self.variable is None and not self.clears_variables

    @property
    def variable_name(self) -> str | None:
        return self.variable.name if self.variable else None


def _lines(text: str, one: UnitFile) -> list[_Line]:
    """Return the lines that decide how dockerd is started, if the file has this text."""
    if one.kind == ENVIRONMENT:
        return [_variable_line(variable) for variable in environment_text.variables(text, one.comments_go_on)]
    found = []
    for setting in unit_text.settings(text):
        if (setting.section, setting.name) == (_SERVICE, _EXEC):
            found.append(_Line(unit_text.words(setting)))
        elif (setting.section, setting.name) == (_SERVICE, _ENVIRONMENT):
            found += [_variable_line(variable) for variable in unit_text.variables(text, setting)]
            found += [] if setting.value.text else [_Line((), clears_variables=True)]
    return found


def _variable_line(variable: unit_text.Variable) -> _Line:
    return _Line(unit_text.words_of(variable), variable)


def decoded(one: UnitFile) -> str:
    """Return the file's text; raises ConfigError if it is no UTF-8."""
    try:
        return one.content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("%s: it is not UTF-8 text (byte %d). Fix the file, and run this again." % (one.path, error.start)) from error


def _expanded(word: str, variables: Mapping[str, unit_text.Value]) -> list[str]:
    """Return the words that a word of ExecStart becomes. An unset variable within a word stays, because systemd's own environment may set it."""
    whole = _VARIABLE.match(word)
    if whole:
        name = whole.group(1)
        return [part.text for part in unit_text.words_of(unit_text.Variable(name, variables[name], 0, False))] if name in variables else []

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        return "$" if name is None else variables[name].text if name in variables else found.group()

    return [_WITHIN.sub(value, word)]


# -- taking out ------------------------------------------------------------------------------------------------------


def _corrected(text: str, one: UnitFile, notes: list[str]) -> str:
    """Return the text without the misprint that keeps dockerd from starting."""
    for line in reversed(_lines(text, one)):
        for flag in reversed(flags(line.words)):
            if flag.name in _HOST and flag.value == _MISPRINT:
                word = flag.words[-1]
                text = text[: word.start] + text[word.start : word.end].replace(_MISPRINT, _MEANT) + text[word.end :]
                note = "%s: -H %s is a misprint of %s, with which dockerd never starts." % (one.path, _MISPRINT, _MEANT)
                notes += [note] if note not in notes else []
    return text


def _variables_used(files: Sequence[UnitFile], texts: Mapping[str, str]) -> set[str]:
    """Return the names of the variables in any ExecStart, also in one that another file overrides now."""
    lines = [line for one in files if one.path in texts and one.kind != ENVIRONMENT for line in _lines(texts[one.path], one) if not line.variable]
    found = [_VARIABLE.match(word.text) for line in lines for word in line.words]
    return {name.group(1) for name in found if name}


def _without_managed(text: str, one: UnitFile, used: Container[str]) -> tuple[str, list[tuple[str | None, list[Flag]]]]:
    """Return (the text, [(variable or None, the flags that were taken out)])."""
    taken: list[tuple[str | None, list[Flag]]] = []
    for line in reversed(_lines(text, one)):
        if line.variable and line.variable.name not in used:
            continue
        mine = [flag for flag in flags(line.words) if is_managed(flag) and not _is_opaque(text, flag)]
        if mine:
            text = unit_text.remove(text, line.words, [word for flag in mine for word in flag.words])
            taken.insert(0, (line.variable_name, mine))
    return text, taken


def _is_opaque(text: str, flag: Flag) -> bool:
    """Return whether only systemd or a shell can compute this value."""
    raw = "".join(text[word.start : word.end] for word in flag.words)
    return "$" in raw or "\\" in raw or "%" in raw


def _is_redundant(one: UnitFile, files: Sequence[UnitFile], edited: Mapping[str, str]) -> bool:
    """Return whether dockerd would start the same without this drop-in."""
    settings = unit_text.settings(edited[one.path])
    if any((setting.section, setting.name) != (_SERVICE, _EXEC) for setting in settings):
        return False
    rest = {path: text for path, text in edited.items() if path != one.path}
    without = command(files, rest)
    return bool(without) and _meaning(command(files, edited)) == _meaning(without)


def _meaning(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program and its options without those that are defaults."""
    options = [(flag.name, flag.value) for flag in flags_of(argv[1:])]
    return _program(argv) if argv else "", sorted(str(one) for one in options if one not in _DEFAULTS)


def _program(argv: Sequence[str]) -> str:
    return os.path.basename(argv[0][len(_prefix(argv[0])) :])


def _prefix(word: str) -> str:
    return word[: len(word) - len(word.lstrip(_PREFIXES))]
