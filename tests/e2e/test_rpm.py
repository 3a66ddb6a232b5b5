# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The removal of nvidia-docker2 with the real rpm, in a separate root, because the lab's nodes are Debian's.

The package owns daemon.json, and rpm removes files that a package owns. rpm is killed at each of its steps.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.lab import CHECKOUT

PLAYBOOK = Path(__file__).with_name("rpm.yml")
PACKAGE, DEPENDENT = "nvidia-docker2", "nvidia-container-runtime"
DAEMON_JSON, PROGRAM, KILL_AT = "etc/docker/daemon.json", "usr/bin/nvidia-docker", "kill-at"
OF_THE_USER = '{"debug": true, "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}\n'
# A script of the package. It kills the rpm that runs the script.
SCRIPT = f'[ "$(cat /{KILL_AT})" != %s ] || kill -KILL $PPID'

SPEC = f"""
Name: {PACKAGE}
Version: 2.14.0
Release: 1
Summary: stand-in for tests
License: none
BuildArch: noarch
%description
Stand-in for tests.
%install
install -D -m 0644 /dev/null %{{buildroot}}/{DAEMON_JSON}
install -D -m 0755 /dev/null %{{buildroot}}/{PROGRAM}
%preun
{SCRIPT % "preun"}
%postun
{SCRIPT % "postun"}
%files
%config /{DAEMON_JSON}
/{PROGRAM}
%package -n {DEPENDENT}
Summary: stand-in for tests
Requires: {PACKAGE}
%description -n {DEPENDENT}
Stand-in for tests.
%preun -n {DEPENDENT}
{SCRIPT % "other"}
%files -n {DEPENDENT}
"""


def run(*command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], env={**os.environ, **env}, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Root:
    """A root file system for rpm, with a wrapper of rpm first in PATH."""

    path: Path
    bin: Path

    def rpm(self, *words: str | Path) -> str:
        done = run(self.bin / "rpm", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def installed(self) -> set[str]:
        return set(self.rpm("--query", "--all", "--queryformat", "%{NAME}\n").split())

    def removal(self, kill_at: str = "") -> subprocess.CompletedProcess[str]:
        (self.path / KILL_AT).write_text(kill_at)
        path = f"{self.bin}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        collections = str(CHECKOUT / "build" / "collections")
        return run("ansible-playbook", "--inventory", "localhost,", PLAYBOOK, PATH=path, ANSIBLE_COLLECTIONS_PATH=collections)


@pytest.fixture
def packages(tmp_path: Path) -> list[Path]:
    work = tmp_path / "rpmbuild"
    work.mkdir()
    (work / "package.spec").write_text(SPEC)
    done = run("rpmbuild", "-bb", "--define", f"_topdir {work}", "--define", f"_dbpath {work}/database", work / "package.spec")
    assert done.returncode == 0, done.stderr
    return sorted(work.glob("RPMS/noarch/*.rpm"))


@pytest.fixture
def root(tmp_path: Path, packages: list[Path]) -> Root:
    """Install the packages, and edit daemon.json as a person would."""
    machine = Root(tmp_path / "root", tmp_path / "bin")
    shell = machine.path / "bin/sh"
    shell.parent.mkdir(parents=True)
    shutil.copy2("/bin/busybox", shell)
    shell.with_name("cat").symlink_to("sh")
    machine.bin.mkdir()
    (machine.bin / "rpm").write_text(f'#!/bin/sh\nexec {shutil.which("rpm")} --root {machine.path} "$@"\n')
    (machine.bin / "rpm").chmod(0o755)
    (machine.path / KILL_AT).write_text("")
    machine.rpm("--install", "--nodeps", *packages)  # the database does not list /bin/sh
    assert machine.installed() == {PACKAGE, DEPENDENT}
    (machine.path / DAEMON_JSON).write_text(OF_THE_USER)
    return machine


def test_daemon_json_is_there_whenever_rpm_is_killed(root: Root) -> None:
    """The next run continues with the present state. At postun, rpm has removed the package's files, but still lists the package."""
    for killed, left in (("other", {PACKAGE, DEPENDENT}), ("preun", {PACKAGE}), ("postun", {PACKAGE}), ("", set())):
        role = root.removal(kill_at=killed)
        assert (role.returncode != 0) == bool(killed), role.stdout
        assert root.installed() == left
        assert (root.path / PROGRAM).exists() == (killed in ("other", "preun"))
        assert (root.path / DAEMON_JSON).read_text() == OF_THE_USER
        assert [path.name for path in (root.path / DAEMON_JSON).parent.iterdir()] == ["daemon.json"]
    assert "changed=0" in root.removal().stdout
