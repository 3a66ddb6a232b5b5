# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that systemd has read the files of dockerd's unit as this collection reads them.

``systemctl show`` loses quotes. So this code queries systemd's bus, which returns the words one by one.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._files import Snapshot
from . import environment_text
from .docker_unit import Run
from .flags import ENVIRONMENT, UnitFile, command_file, decode, program_words, unit_command, used_variables, variable_file

_NAME = "org.freedesktop.systemd1"
_SPECIFIER = re.compile(r"%(.)", re.DOTALL)


class Loaded(NamedTuple):
    """The words of ExecStart before variables are expanded, and the variables of Environment."""

    argv: Sequence[str]
    environment: Mapping[str, str]


def read(listed: Iterable[tuple[str, str, bool]], run: Run) -> list[UnitFile]:
    """Return the files that decide how dockerd is started. ``listed`` is the result of docker_unit.unit_files."""
    return mark_comment_syntax([UnitFile(path, kind, Snapshot.take(path).data, editable) for path, kind, editable in listed], run)


def mark_comment_syntax(files: Sequence[UnitFile], run: Run) -> list[UnitFile]:
    """Return the files. If needed, mark in environment files how the node's systemd reads comments."""
    texts = {file.path: decode(file) for file in files if file.kind == ENVIRONMENT and file.content is not None}
    if not any(map(environment_text.depends_on_release, texts.values())):
        return list(files)
    release = re.match(r"[0-9]+", _of_systemd(run, "Version"))
    comments_continue = release is not None and int(release.group()) < environment_text.COMMENTS_END
    return [file._replace(comments_continue=comments_continue) if file.kind == ENVIRONMENT else file for file in files]


def find_misread(files: Sequence[UnitFile], engine: Mapping[str, Any], run: Run) -> str | None:
    """Return a sentence if systemd has read the files differently, or None. Query systemd only if an administrator has written one of the files."""
    if engine["needs_reload"] or not any(file.editable and file.kind != ENVIRONMENT for file in files):
        return None
    loaded = _loaded(engine["unit"], run)
    mismatch = find_difference(files, loaded) if loaded else None
    if not mismatch or not _are_older(files, run):
        return None
    path, setting = mismatch  # pylint: disable=unpacking-non-sequence
    return (
        "%s: systemd read %s differently from this collection, so it is not known how dockerd is started. Write it in one line, if possible without "
        "quotes and backslashes, and run 'systemctl daemon-reload' in a maintenance window. Then run this again." % (path, setting)
    )


def find_difference(files: Sequence[UnitFile], loaded: Loaded) -> tuple[str, str] | None:
    """Return the file and the setting that systemd has read differently, or None. Compare only variables in ExecStart. If another variable has an
    invalid specifier, such as %40 in a proxy's URL, systemd ignores the variable and starts dockerd anyway."""
    texts = {file.path: decode(file) for file in files if file.content is not None}
    argv, variables = unit_command(files, texts)
    words = program_words(argv)
    if len(words) != len(loaded.argv) or not all(map(_is_same, words, loaded.argv)):
        return command_file(files, texts), "ExecStart"
    for name in used_variables(argv):
        in_file, loaded_value = variables.get(name), loaded.environment.get(name)
        if (in_file is None) != (loaded_value is None) or (in_file and loaded_value is not None and not _is_same(in_file.text, loaded_value)):
            return variable_file(files, texts, name), "the variable %s of Environment" % name
    return None


def _is_same(word: str, loaded: str) -> bool:
    """Return whether systemd may have read ``word`` as ``loaded``. systemd can replace a specifier by any text."""
    parts = _SPECIFIER.split(word)
    pattern = "".join(("%" if part == "%" else ".*") if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return re.compile(pattern, re.DOTALL).fullmatch(loaded) is not None


def _loaded(unit: str | None, run: Run) -> Loaded | None:
    """Return the loaded unit. None if busctl does not know --json, or if the unit has no command or several commands."""
    if not unit:
        return None
    path = "/org/freedesktop/systemd1/unit/" + re.sub(r"[^A-Za-z0-9]|^[0-9]", lambda match: "_%02x" % ord(match.group()), unit)
    argv = ["busctl", "--json=short", "get-property", _NAME, path, _NAME + ".Service", "ExecStart", "Environment"]
    with contextlib.suppress(GpuSwarmError, OSError, ValueError, LookupError, TypeError):
        rc, out, dummy = run(argv)
        command, environment = [json.loads(line)["data"] for line in out.splitlines()]
        if rc == 0 and len(command) == 1:
            return Loaded(command[0][1], dict(entry.split("=", 1) for entry in environment))
    return None


def _are_older(files: Sequence[UnitFile], run: Run) -> bool:
    """Return whether systemd has loaded the units since their last change. Ignore environment files, because systemd reads them at each start."""
    read_at = _of_systemd(run, "UnitsLoadTimestamp", "--timestamp=unix")
    if not re.fullmatch(r"@[0-9]+", read_at):
        return False
    with contextlib.suppress(OSError):
        return all(os.stat(file.path).st_ctime < int(read_at[1:]) for file in files if file.kind != ENVIRONMENT)
    return False


def _of_systemd(run: Run, name: str, *options: str) -> str:
    """Return one of systemd's own properties; "" if systemctl does not know an option, such as --timestamp before 247."""
    rc, out, dummy = run(["systemctl", "show", *options, "--property", name])
    return dict(line.partition("=")[::2] for line in out.splitlines()).get(name, "") if rc == 0 else ""
