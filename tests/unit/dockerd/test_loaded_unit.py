# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os

import pytest
from node_lab import VENDOR_UNIT

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import loaded_unit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.flags import DROP_IN, ENVIRONMENT, UNIT, UnitFile
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.loaded_unit import Loaded, find_difference

VENDOR, DROPPED = "/lib/systemd/system/docker.service", "/etc/systemd/system/docker.service.d/a.conf"


def files(drop_in):
    return [UnitFile(VENDOR, UNIT, VENDOR_UNIT.encode(), False), UnitFile(DROPPED, DROP_IN, drop_in.encode(), True)]


def exec_start(words):
    return "[Service]\nExecStart=\nExecStart=%s\n" % words


USES, USED = exec_start("/x $A"), ["/x", "$A"]
DIFFERENCES = {
    "the same": (exec_start("/x -a 'b c'"), Loaded(["/x", "-a", "b c"], {}), None),
    "variables are not replaced yet": (exec_start("/x $A ${B}"), Loaded(["/x", "$A", "${B}"], {}), None),
    "prefixes of the program are ignored": (exec_start("-+/x -a"), Loaded(["/x", "-a"], {}), None),
    "another name for the process": (exec_start("@/x y -a"), Loaded(["y", "-a"], {}), None),
    "a specifier": (exec_start("/x --label=%H-%%"), Loaded(["/x", "--label=n1-%"], {}), None),
    "another word": (exec_start("/x -a"), Loaded(["/x", "-b"], {}), (DROPPED, "ExecStart")),
    "one more word": (exec_start("/x -a"), Loaded(["/x", "-a", "-b"], {}), (DROPPED, "ExecStart")),
    "the drop-in has no ExecStart": (
        "[Service]\nTasksMax=9\n",
        Loaded(["/usr/sbin/dockerd"], {}),
        (VENDOR, "ExecStart"),
    ),
    "a variable": (USES + "Environment=A=b\n", Loaded(USED, {"A": "b"}), None),
    "another value of a variable": (USES + "Environment=A=b\n", Loaded(USED, {"A": "c"}), (DROPPED, "the variable A of Environment")),
    "a variable that no file sets": (USES, Loaded(USED, {"A": "c"}), (DROPPED, "the variable A of Environment")),
    "a variable that is not loaded": (USES + "Environment=A=b\n", Loaded(USED, {}), (DROPPED, "the variable A of Environment")),
    "inside a word": (exec_start("/x -${A}") + "Environment=A=b\n", Loaded(["/x", "-${A}"], {}), (DROPPED, "the variable A of Environment")),
    "a variable that ExecStart does not use": (
        exec_start("/x $B") + "Environment=HTTP_PROXY=http://u:p%40ss@proxy B=b\n", Loaded(["/x", "$B"], {"B": "b"}), None,
    ),
    "after a colon, no variable is replaced": (exec_start(":/x $A") + "Environment=A=b\n", Loaded(["/x", "$A"], {}), None),
}


@pytest.mark.parametrize(("drop_in", "loaded", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_differences_are_found(drop_in, loaded, expected):
    assert find_difference(files(drop_in), loaded) == expected


class Systemd:
    """Answers like busctl and systemctl, and records all commands."""

    def __init__(self, argv=("/x",), read_at="@4000000000", version="257.13-1", bus_rc=0):
        self.argv, self.read_at, self.version, self.bus_rc, self.ran = argv, read_at, version, bus_rc, []

    def __call__(self, argv, limit_s=120):
        self.ran.append(argv)
        if argv[0] == "busctl":
            command = [self.argv[0], list(self.argv), False, 0, 0, 0, 0, 0, 0, 0]
            lines = [{"type": "a(sasbttttuii)", "data": [command]}, {"type": "as", "data": []}]
            return self.bus_rc, "".join(json.dumps(one) + "\n" for one in lines), ""
        if "--timestamp=unix" in argv and self.version[:3] < "247":
            return 1, "", "systemctl: unrecognized option '--timestamp=unix'"
        return 0, {"Version": f"Version={self.version}\n", "UnitsLoadTimestamp": f"UnitsLoadTimestamp={self.read_at}\n"}[argv[-1]], ""


ENGINE = {"unit": "docker.service", "needs_reload": False}


@pytest.fixture
def there(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text(exec_start("/x -a"))
    return [UnitFile(str(path), DROP_IN, path.read_bytes(), True)]


def test_a_unit_that_systemd_read_differently_is_named(there):
    systemd = Systemd()
    assert loaded_unit.find_misread(there, ENGINE, systemd).startswith(f"{there[0].path}: systemd read ExecStart differently from this collection")
    assert "/org/freedesktop/systemd1/unit/docker_2eservice" in systemd.ran[0]


def test_no_value_of_a_unit_is_shown(there):
    assert "S3cret" not in loaded_unit.find_misread([there[0]._replace(content=exec_start("/x --proxy=S3cret").encode())], ENGINE, Systemd())


@pytest.mark.parametrize(
    "systemd",
    [Systemd(["/x", "-a"]), Systemd(read_at="@0"), Systemd(read_at="n/a"), Systemd(version="245"), Systemd(bus_rc=1)],
    ids=["the same", "edited later", "an old systemd that does not say when", "systemd reports no load time", "busctl without --json"],
)
def test_a_unit_that_cannot_be_compared_counts_as_equal(there, systemd):
    assert loaded_unit.find_misread(there, ENGINE, systemd) is None


def test_a_removed_file_counts_as_changed(there):
    os.unlink(there[0].path)
    assert loaded_unit.find_misread(there, ENGINE, Systemd()) is None


@pytest.mark.parametrize("engine", [dict(ENGINE, needs_reload=True), dict(ENGINE, unit=None)])
def test_systemd_is_not_queried_about_files_that_it_has_not_read(there, engine):
    systemd = Systemd()
    assert loaded_unit.find_misread(there, engine, systemd) is None
    assert systemd.ran == []


def test_systemd_is_not_queried_about_a_package_s_unit(there):
    systemd = Systemd()
    packaged = [there[0]._replace(editable=False), UnitFile("/etc/default/docker", ENVIRONMENT, b"A=b\n", True)]
    assert loaded_unit.find_misread(packaged, ENGINE, systemd) is None
    assert systemd.ran == []


AMBIGUOUS = b"# formerly \\\nDOCKER_OPTS=--debug\n"


@pytest.mark.parametrize(
    ("content", "version", "go_on"),
    [
        (AMBIGUOUS, "245.4-4ubuntu3.24", True),
        (AMBIGUOUS, "252.39-1~deb12u2", True),
        (AMBIGUOUS, "254", False),
        (AMBIGUOUS, "257.13-1~deb13u1", False),
        (AMBIGUOUS, "", False),
    ],
)
def test_the_end_of_a_comment_depends_on_the_release(content, version, go_on):
    (found,) = loaded_unit.mark_comment_syntax([UnitFile("/etc/default/docker", ENVIRONMENT, content, True)], Systemd(version=version))
    assert found.comments_continue is go_on


def test_the_release_is_queried_only_if_it_matters():
    systemd = Systemd()
    loaded_unit.mark_comment_syntax([UnitFile("/etc/default/docker", ENVIRONMENT, b"# C:\\x\nA=b\\\n\n", True), *files("# x \\\n")], systemd)
    assert systemd.ran == []
