# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares dockerd's unit as systemd has loaded it with what this collection reads in its files.

``systemctl show`` loses quotes, so this queries the bus, which gives each word by itself. Private to this collection: no stability is promised to
others.
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
from .flags import ENVIRONMENT, UnitFile, command_file, decoded, program_words, unit_command, used_variables, variable_file

_NAME = "org.freedesktop.systemd1"
_SPECIFIER = re.compile(r"%(.)", re.DOTALL)


class Loaded(NamedTuple):
    """The words of ExecStart without their variables' values, and what Environment sets."""

    argv: Sequence[str]
    environment: Mapping[str, str]


def read(listed: Iterable[tuple[str, str, bool]], run: Run) -> list[UnitFile]:
    """Return the files that decide how dockerd is started. ``listed`` is the result of docker_unit.unit_files."""
    return by_release([UnitFile(path, kind, Snapshot.take(path).data, editable) for path, kind, editable in listed], run)


def by_release(files: Sequence[UnitFile], run: Run) -> list[UnitFile]:
    """Return the files, marked with how the node's release of systemd reads comments in environment files."""
    texts = {one.path: decoded(one) for one in files if one.kind == ENVIRONMENT and one.content is not None}
    if not any(map(environment_text.depends_on_release, texts.values())):
        return list(files)
    release = re.match(r"[0-9]+", _of_systemd(run, "Version"))
    go_on = release is not None and int(release.group()) < environment_text.COMMENTS_END
    return [one._replace(comments_go_on=go_on) if one.kind == ENVIRONMENT else one for one in files]


def misread(files: Sequence[UnitFile], engine: Mapping[str, Any], run: Run) -> str | None:
    """Why it is not known how dockerd is started, in a sentence: systemd has read the same files differently. systemd is only queried if an
    administrator has written one of the files."""
    if engine["needs_reload"] or not any(one.editable and one.kind != ENVIRONMENT for one in files):
        return None
    loaded = _loaded(engine["unit"], run)
    found = difference(files, loaded) if loaded else None
    if not found or not _are_older(files, run):
        return None
    path, setting = found  # pylint: disable=unpacking-non-sequence  # a pair by now
    return (
        "%s: systemd read %s differently from this collection, so it is not known how dockerd is started. Write it in one line, if possible without "
        "quotes and backslashes, and run 'systemctl daemon-reload' in a maintenance window. Then run this again." % (path, setting)
    )


def difference(files: Sequence[UnitFile], loaded: Loaded) -> tuple[str, str] | None:
    """(the file, the setting) in which both differ. Of the variables only those count that ExecStart passes on: systemd drops a proxy's with a wrong
    specifier, such as %40, and dockerd starts all the same."""
    texts = {one.path: decoded(one) for one in files if one.content is not None}
    argv, variables = unit_command(files, texts)
    words = program_words(argv)
    if len(words) != len(loaded.argv) or not all(map(_is_same, words, loaded.argv)):
        return command_file(files, texts), "ExecStart"
    for name in used_variables(argv):
        read, has = variables.get(name), loaded.environment.get(name)
        if (read is None) != (has is None) or (read is not None and has is not None and not _is_same(read.text, has)):
            return variable_file(files, texts, name), "the variable %s of Environment" % name
    return None


def _is_same(word: str, loaded: str) -> bool:
    """Return whether systemd can have read the word as this. A specifier can become any text."""
    parts = _SPECIFIER.split(word)
    pattern = "".join(("%" if part == "%" else ".*") if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return re.compile(pattern, re.DOTALL).fullmatch(loaded) is not None


def _loaded(unit: str | None, run: Run) -> Loaded | None:
    """None if systemd does not say it (busctl without --json), or if the unit does not have exactly one command."""
    if not unit:
        return None
    path = "/org/freedesktop/systemd1/unit/" + re.sub(r"[^A-Za-z0-9]|^[0-9]", lambda found: "_%02x" % ord(found.group()), unit)
    argv = ["busctl", "--json=short", "get-property", _NAME, path, _NAME + ".Service", "ExecStart", "Environment"]
    with contextlib.suppress(GpuSwarmError, OSError, ValueError, LookupError, TypeError):
        rc, out, dummy = run(argv)
        command, environment = [json.loads(line)["data"] for line in out.splitlines()]
        if rc == 0 and len(command) == 1:
            return Loaded(command[0][1], dict(entry.split("=", 1) for entry in environment))
    return None


def _are_older(files: Sequence[UnitFile], run: Run) -> bool:
    """Return whether systemd has loaded the units since their last change. Environment files do not count: they are read at each start."""
    read_at = _of_systemd(run, "UnitsLoadTimestamp", "--timestamp=unix")
    if not re.fullmatch(r"@[0-9]+", read_at):
        return False
    with contextlib.suppress(OSError):
        return all(os.stat(one.path).st_ctime < int(read_at[1:]) for one in files if one.kind != ENVIRONMENT)
    return False


def _of_systemd(run: Run, name: str, *options: str) -> str:
    """Return one of systemd's own properties; "" if it does not know an option, such as --timestamp before 247."""
    rc, out, dummy = run(["systemctl", "show", *options, "--property", name])
    return dict(line.partition("=")[::2] for line in out.splitlines()).get(name, "") if rc == 0 else ""
