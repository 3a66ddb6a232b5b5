# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""If the installation of a service is killed, the next run notices that and finishes it."""

from __future__ import annotations

import os

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager import parts
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import code, installed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program.installer import Service
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program.unit import Unit

UNIT, SETTINGS = b"[Unit]\n", {"limit": 20}


class Killed(BaseException):
    pass


class Machine:
    """Fakes systemd and the rename of files. At the command or file ``dies_at`` the run is killed."""

    def __init__(self, root):
        self.root, self.home, self.dies_at, self.commands, self.rc = root, str(root / "state/program"), None, [], 0

    def run(self, argv):
        self.commands.append(argv[1])
        if argv[1] == self.dies_at:
            raise Killed
        return self.rc, "", "no reason"

    def move(self, source, target):
        if os.path.basename(target) == self.dies_at:
            raise Killed
        os.replace(source, target)

    def service(self):
        return Service(Unit("one.service", self.run, self.move, str(self.root)), self.home, parts.CODE, self.move, {})

    def install(self, dies_at=None):
        self.dies_at = dies_at
        service = self.service()
        service.install(SETTINGS)
        return service.start(UNIT)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize("dies_at", ["settings.json", "restart", "reset-failed"])
def test_a_service_that_still_runs_old_code_is_not_current(machine, monkeypatch, dies_at):
    """The files are new, but the process runs old code. Without a restart, it would run old code until the next boot."""
    machine.install()
    assert machine.service().is_current(SETTINGS, UNIT)
    monkeypatch.setattr(code, "START", code.START + "# newer\n")
    with pytest.raises(Killed):
        machine.install(dies_at)
    assert (machine.service().is_current(SETTINGS, UNIT), installed.version(machine.home)) == (False, "")
    machine.commands.clear()
    assert machine.install() is None
    assert machine.commands[-1] == "restart"
    assert (machine.service().is_current(SETTINGS, UNIT), installed.version(machine.home)) == (True, parts.CODE.name())
    assert sorted(os.listdir(machine.home)) == [parts.CODE.name(), "current", "settings.json"]


def test_a_service_that_did_not_start_is_not_current(machine):
    machine.rc = 1
    assert machine.install() == "no reason"
    assert not machine.service().is_current(SETTINGS, UNIT)
    machine.rc = 0
    assert machine.install() is None
    assert machine.service().is_current(SETTINGS, UNIT)


def test_leftovers_of_killed_runs_are_removed_by_the_next_one(machine):
    machine.install()
    kept = sorted(os.listdir(machine.home))
    os.symlink(parts.CODE.name(), os.path.join(machine.home, "current.4711"))
    os.mkdir(os.path.join(machine.home, ".new.killed"))
    (machine.root / "state/program/.gpu-swarm.settings.json.abc").write_text("{")
    machine.install()
    assert sorted(os.listdir(machine.home)) == kept
