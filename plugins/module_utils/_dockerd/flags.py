# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves options from dockerd's command line into daemon.json, and back (pure).

dockerd refuses to start if an option is both a flag and in daemon.json. Many guides put such flags into a drop-in that replaces the whole ExecStart,
or into a variable that ExecStart expands.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import re
from typing import Any, Container, Iterable, Mapping, NamedTuple, Sequence

from .._config.daemon_json import RUNTIME, RUNTIME_PATH
from .._errors import ConfigError
from . import environment_text, unit_text

# The values in the units of Docker's packages. unix:///run/docker.sock is the same socket, but not a default. If dockerd itself opened this socket,
# dockerd has unlinked the socket of docker.socket. After a restart with fd://, nobody could reach dockerd.
_DEFAULTS = (("-H", "fd://"), ("--host", "fd://"), ("--containerd", "/run/containerd/containerd.sock"))
_HOST = ("-H", "--host")
# A typing error in a guide that people often copy: dockerd knows no such protocol.
_MISPRINT, _CORRECTED = "fdd://", "fd://"
_RESOURCES = ("--node-generic-resource", "--node-generic-resources")
_DEFAULT_RUNTIME = "--default-runtime"
_ADD_RUNTIME = "--add-runtime"
_SERVICE, _EXEC, _ENVIRONMENT = "Service", "ExecStart", "Environment"
# If $NAME is a whole word, systemd replaces it by the words of the variable's value. ${NAME} may be a part of a word, and its value is not split.
_VARIABLE = re.compile(r"\$([^{$].*)\Z", re.DOTALL)
_WITHIN = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# Characters before the program in ExecStart. With a colon, systemd does not expand variables.
_PREFIXES, _WITHOUT_EXPANSION = "@-:+!|", ":"

UNIT, DROP_IN, ENVIRONMENT = "unit", "drop-in", "environment"


class UnitFile(NamedTuple):
    """A file that decides how dockerd is started: its kind, and whether this collection may edit it."""

    path: str
    kind: str
    content: bytes | None
    editable: bool
    comments_continue: bool = False  # only for an environment file, see environment_text


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


class RemovedFlags(NamedTuple):
    """The new files ({path: new bytes, or None to remove the file}), and the flags that were removed from them.

    ``words``: {path: [{"variable": name, or None for ExecStart, "words": […]}]}, to restore the flags later. ``resources``:
    entries for node-generic-resources. ``command``: the command that systemd starts with the new files. ``notes``: sentences for the user.
    """

    files: dict
    words: dict
    resources: Sequence[str]
    command: Sequence[str]
    notes: Sequence[str]


def remove_managed(files: Sequence[UnitFile]) -> RemovedFlags:
    """Remove this collection's options from the files. ``files`` are in the order in which systemd reads them."""
    texts = {file.path: decode(file) for file in files if file.content is not None}
    edited, words, resources = dict(texts), {}, []
    notes: list[str] = []
    variable_names = _names_of_variables(files, texts)
    for file in files:
        if not file.editable or file.path not in texts:
            continue
        text = _without_misprint(texts[file.path], file, notes)
        edited[file.path], removed_flags = _without_managed(text, file, variable_names)
        if removed_flags:
            words[file.path] = [{"variable": variable, "words": [flag.text for flag in taken_flags]} for variable, taken_flags in removed_flags]
            taken_flags = [flag for dummy_variable, removed in removed_flags for flag in removed]
            resources += [flag.value or "" for flag in taken_flags if flag.name in _RESOURCES]
            options = ", ".join(dict.fromkeys(flag.text for flag in taken_flags))
            notes.append("%s: %s moved from here to daemon.json." % (file.path, options))
    for file in files:
        if file.path in words and file.kind == DROP_IN and _is_redundant(file, files, edited):
            del edited[file.path]
            notes.append("%s was removed, because it contained nothing else." % file.path)
    changed = {path: edited[path].encode("utf-8") if path in edited else None for path in texts if edited.get(path) != texts[path]}
    return RemovedFlags(changed, words, resources, command(files, edited), notes)


def kind_of(path: str) -> str:
    return {".conf": DROP_IN, ".service": UNIT}.get(os.path.splitext(path)[1], ENVIRONMENT)


def started_with(files: Sequence[UnitFile], contents: Mapping[str, bytes | None]) -> list[str]:
    """Return the command that systemd starts if the files have ``contents`` ({path: bytes, or None for no file})."""
    by_path = {file.path: file for file in files}
    for path, content in contents.items():
        by_path[path] = by_path.get(path, UnitFile(path, kind_of(path), None, True))._replace(content=content)
    existing = [file for file in by_path.values() if file.content is not None]
    order = (UNIT, DROP_IN, ENVIRONMENT)
    existing.sort(key=lambda file: (order.index(file.kind), os.path.basename(file.path)))
    return command(existing, {file.path: decode(file) for file in existing})


def restore(content: bytes | None, kind: str, removed: Iterable[Mapping[str, Any]]) -> tuple[bytes, list[str]]:
    """Put removed words back. Return the file, and the words that cannot be put back into the file."""
    text, unplaced = (content or b"").decode("utf-8", "replace"), []
    for part in removed:
        lines = _lines(text, UnitFile("", kind, None, True))
        fitting = [line for line in lines if line.variable_name == part["variable"] and (line.words or line.variable)]
        if not fitting:
            unplaced += part["words"]
            continue
        line = fitting[-1]
        added = [word for word in dict.fromkeys(part["words"]) if word not in [flag.text for flag in flags(line.words)]]
        if added:
            text = unit_text.append(text, line.words, added) if line.words else unit_text.fill(text, line.variable, added)
    return text.encode("utf-8"), unplaced


def command(files: Sequence[UnitFile], texts: Mapping[str, str]) -> list[str]:
    """Return the program and the arguments that systemd would start if the files had these texts. Variables are expanded."""
    argv, variables = unit_command(files, texts)
    for file in files:
        if file.kind == ENVIRONMENT and file.path in texts:  # systemd reads these last, when it starts dockerd
            variables.update((line.variable.name, line.variable.value) for line in _lines(texts[file.path], file) if line.variable)
    if argv and _WITHOUT_EXPANSION in _prefix(argv[0]):
        return argv
    return [part for word in argv for part in _expand(word, variables)]


def unit_command(files: Sequence[UnitFile], texts: Mapping[str, str]) -> tuple[list[str], dict[str, unit_text.Value]]:
    """Return the words of ExecStart in the units, unchanged, and the variables of Environment."""
    argv: list[str] = []
    variables: dict[str, unit_text.Value] = {}
    for file in files:
        for line in _lines(texts[file.path], file) if file.path in texts and file.kind != ENVIRONMENT else []:
            if line.variable:
                variables[line.variable.name] = line.variable.value
            elif line.clears_variables:
                variables.clear()
            else:
                argv = [word.text for word in line.words]  # an empty ExecStart clears the former commands
    return argv, variables


def program_words(argv: Sequence[str]) -> list[str]:
    """Return the program and its arguments, without systemd's own prefixes."""
    if not argv:
        return []
    prefix = _prefix(argv[0])
    return list(argv[1:]) if "@" in prefix else [argv[0][len(prefix) :], *argv[1:]]


def used_variables(argv: Sequence[str]) -> list[str]:
    """Return the names of variables that systemd expands in these words of ExecStart."""
    if argv and _WITHOUT_EXPANSION in _prefix(argv[0]):
        return []
    whole = [match.group(1) for match in map(_VARIABLE.match, argv) if match]
    return list(dict.fromkeys([*whole, *(name for word in argv for name in _WITHIN.findall(word) if name)]))


def command_file(files: Sequence[UnitFile], texts: Mapping[str, str]) -> str:
    """Return the file with the ExecStart that systemd uses, or else the unit itself."""
    units = [file for file in files if file.path in texts and file.kind != ENVIRONMENT]
    paths = [file.path for file in units if any(line.is_command for line in _lines(texts[file.path], file))]
    return (paths or [files[0].path])[-1]


def variable_file(files: Sequence[UnitFile], texts: Mapping[str, str], name: str) -> str:
    """Return the file that sets this variable in Environment, or else the file with the ExecStart that systemd uses."""
    units = [file for file in files if file.path in texts and file.kind != ENVIRONMENT]
    paths = [file.path for file in units if any(line.variable_name == name for line in _lines(texts[file.path], file))]
    return paths[-1] if paths else command_file(files, texts)


def flags(words: Sequence[unit_text.Word]) -> list[Flag]:
    """Return the options in a command line. The value of an option may be in the same word or in the next word."""
    options, position = [], 0
    while position < len(words):
        name, equals, value = words[position].text.partition("=")
        takes_next = not equals and name in (_DEFAULT_RUNTIME, _ADD_RUNTIME, "--containerd", *_RESOURCES, *_HOST) and position + 1 < len(words)
        if name.startswith("-"):
            flag_value = value if equals else words[position + 1].text if takes_next else None
            options.append(Flag(name, flag_value, words[position : position + 1 + takes_next]))
        position += 1 + takes_next
    return options


def flags_of(argv: Sequence[str]) -> list[Flag]:
    """Return the options in plain words."""
    return flags([unit_text.Word(0, 0, word) for word in argv])


def resources_in(removed: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the entries for node-generic-resources in words that were removed."""
    options = [flag for part in removed for flag in flags_of(part["words"])]
    return [flag.value or "" for flag in options if flag.name in _RESOURCES]


def adds_runtime(argv: Sequence[str]) -> bool:
    """Return whether these flags add a runtime named nvidia, whatever its program is."""
    return any(flag.name == _ADD_RUNTIME and (flag.value or "").startswith(RUNTIME + "=") for flag in flags_of(argv))


def is_dockerd(argv: Sequence[str]) -> bool:
    """Return whether systemd starts dockerd itself, not a script that starts it."""
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


def _lines(text: str, file: UnitFile) -> list[_Line]:
    """Return the lines that decide how dockerd is started, if the file has this text."""
    if file.kind == ENVIRONMENT:
        return [_variable_line(variable) for variable in environment_text.variables(text, file.comments_continue)]
    lines = []
    for setting in unit_text.settings(text):
        if (setting.section, setting.name) == (_SERVICE, _EXEC):
            lines.append(_Line(unit_text.words(setting)))
        elif (setting.section, setting.name) == (_SERVICE, _ENVIRONMENT):
            lines += [_variable_line(variable) for variable in unit_text.variables(text, setting)]
            lines += [] if setting.value.text else [_Line((), clears_variables=True)]
    return lines


def _variable_line(variable: unit_text.Variable) -> _Line:
    return _Line(unit_text.words_of(variable), variable)


def decode(file: UnitFile) -> str:
    """Return the file's text. Raises ConfigError if it is not UTF-8."""
    try:
        return file.content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("%s is not UTF-8 text (byte %d). Fix the file, and run this again." % (file.path, error.start)) from error


def _expand(word: str, variables: Mapping[str, unit_text.Value]) -> list[str]:
    """Return the words that a word of ExecStart becomes. An unset variable within a word is not expanded, because systemd's own environment may set
    it."""
    whole = _VARIABLE.match(word)
    if whole:
        name = whole.group(1)
        return [part.text for part in unit_text.words_of(unit_text.Variable(name, variables[name], 0, False))] if name in variables else []

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else variables[name].text if name in variables else match.group()

    return [_WITHIN.sub(value, word)]


# -- removal ------------------------------------------------------------------------------------------------------


def _without_misprint(text: str, file: UnitFile, notes: list[str]) -> str:
    """Return the text without the typing error that keeps dockerd from starting."""
    for line in reversed(_lines(text, file)):
        for flag in reversed(flags(line.words)):
            if flag.name in _HOST and flag.value == _MISPRINT:
                word = flag.words[-1]
                text = text[: word.start] + text[word.start : word.end].replace(_MISPRINT, _CORRECTED) + text[word.end :]
                note = "%s: -H %s is a misprint of %s. dockerd never starts with it." % (file.path, _MISPRINT, _CORRECTED)
                notes += [note] if note not in notes else []
    return text


def _names_of_variables(files: Sequence[UnitFile], texts: Mapping[str, str]) -> set[str]:
    """Return the names of variables in every ExecStart, even if another file overrides the ExecStart now."""
    units = [file for file in files if file.path in texts and file.kind != ENVIRONMENT]
    lines = [line for file in units for line in _lines(texts[file.path], file) if not line.variable]
    matches = [_VARIABLE.match(word.text) for line in lines for word in line.words]
    return {name.group(1) for name in matches if name}


def _without_managed(text: str, file: UnitFile, used: Container[str]) -> tuple[str, list[tuple[str | None, list[Flag]]]]:
    """Return the text without this collection's flags, and [(variable or None, removed flags)]."""
    removed: list[tuple[str | None, list[Flag]]] = []
    for line in reversed(_lines(text, file)):
        if line.variable and line.variable.name not in used:
            continue
        managed = [flag for flag in flags(line.words) if is_managed(flag) and not _is_opaque(text, flag)]
        if managed:
            text = unit_text.remove(text, line.words, [word for flag in managed for word in flag.words])
            removed.insert(0, (line.variable_name, managed))
    return text, removed


def _is_opaque(text: str, flag: Flag) -> bool:
    """Return whether only systemd or a shell can compute this value."""
    raw = "".join(text[word.start : word.end] for word in flag.words)
    return "$" in raw or "\\" in raw or "%" in raw


def _is_redundant(file: UnitFile, files: Sequence[UnitFile], edited: Mapping[str, str]) -> bool:
    """Return whether dockerd would start with the same command without this drop-in."""
    settings = unit_text.settings(edited[file.path])
    if any((setting.section, setting.name) != (_SERVICE, _EXEC) for setting in settings):
        return False
    others = {path: text for path, text in edited.items() if path != file.path}
    without = command(files, others)
    return bool(without) and _effective_command(command(files, edited)) == _effective_command(without)


def _effective_command(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program and its options, without options that are defaults."""
    options = [(flag.name, flag.value) for flag in flags_of(argv[1:])]
    return _program(argv) if argv else "", sorted(str(option) for option in options if option not in _DEFAULTS)


def _program(argv: Sequence[str]) -> str:
    return os.path.basename(argv[0][len(_prefix(argv[0])) :])


def _prefix(word: str) -> str:
    return word[: len(word) - len(word.lstrip(_PREFIXES))]
