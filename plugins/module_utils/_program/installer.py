# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs, checks and removes a service of this collection: its code, its settings and its unit.

Every step is a rename or can be done twice. A mark exists until the program has been restarted. So the next run finishes the work of a killed run.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any, Mapping, NamedTuple

from .. import _files
from . import installed
from .code import Code
from .hardened import quoted
from .unit import Run, Unit

_SETTINGS_MODE = 0o600


class Machine(NamedTuple):
    """How to change a machine. ``root`` is the root of its files."""

    run: Run
    move: _files.Move
    root: str = "/"


class Service:
    """One service. ``home`` is the directory of its code and its settings. ``links`` are {name: target} of links in this directory. The unit names
    the links, so systemd need not read the unit again if a target changes."""

    def __init__(self, unit: Unit, home: str, code: Code, move: _files.Move, links: Mapping[str, str]) -> None:
        self._unit = unit
        self._home = home
        self._code = code
        self._move = move
        self._links = links

    def is_installed(self) -> bool:
        return self._unit.is_installed() or os.path.lexists(self._home)

    def is_current(self, settings: Mapping[str, Any], unit_text: bytes) -> bool:
        """Return whether code, settings and unit have the wanted content. Does not check whether the service runs."""
        if installed.is_changing(self._home):
            return False
        is_installed = self._unit.is_current(unit_text) and self._code.is_current(self._home) and self.settings() == settings
        return is_installed and all(self._target(name) == target for name, target in self._links.items())

    def _target(self, name: str) -> str:
        link = os.path.join(self._home, name)
        return os.readlink(link) if os.path.islink(link) else ""

    def settings(self) -> dict[str, Any] | None:
        return _files.read_mapping(os.path.join(self._home, installed.SETTINGS))

    def install(self, settings: Mapping[str, Any]) -> None:
        """Install the code and the settings for the next start."""
        _files.make_directory(os.path.dirname(self._home), 0o700)
        _files.make_directory(self._home, 0o700)
        _files.write_new_file(self._mark(), b"")
        self._code.make_current(self._home)
        for name, target in self._links.items():
            self._link(os.path.join(self._home, name), target)
        path, text = os.path.join(self._home, installed.SETTINGS), json.dumps(settings, indent=1, sort_keys=True) + "\n"
        _files.remove_leftovers(path)
        _files.write(path, text.encode("utf-8"), self._move, _SETTINGS_MODE)

    def _link(self, link: str, target: str) -> None:
        if target:
            _files.replace_link(link, target)
        elif os.path.lexists(link):
            os.unlink(link)
        for leftover in _files.unfinished_links(link):
            os.unlink(leftover)

    def start(self, unit_text: bytes) -> str | None:
        """Install the unit and restart it. Return why it did not start, or None."""
        failure = self._unit.start(unit_text)
        if failure is None:
            _files.remove(self._mark())
        return failure

    def stop(self) -> str | None:
        """Stop the service. Return why it still runs, or None."""
        return self._unit.stop()

    def remove(self) -> None:
        """Remove the unit, the code and the settings. The caller must stop the service first."""
        self._unit.remove()
        shutil.rmtree(self._home, ignore_errors=True)

    def _mark(self) -> str:
        return os.path.join(self._home, installed.CHANGING)

    def command(self) -> str:
        """Return the command that the unit starts."""
        return "%s -I %s" % (quoted(sys.executable), quoted(os.path.join(self._home, installed.CURRENT)))
