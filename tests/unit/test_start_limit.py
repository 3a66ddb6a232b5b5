# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No test on real nodes depends on earlier starts of dockerd within a minute. On a fast machine, earlier tests start dockerd more often."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists()) / "tests"
# After "kill -9", systemd starts dockerd. In Python, each word of a command is a separate string.
STARTS = re.compile(
    r"""systemctl[" ,]+(?:re)?start[^#]*\bdocker(?:\.service)?(?=[" ;&)]|$)"""
    r"""|kill\b(?! -(?:STOP|CONT))[^#]*(?:\bdocker\.service|docker\.pid|\bdockerd\b)"""
)
# Exceptions: Node.dockerd clears the count of starts first, and some tests test the limit itself.
APART = {"fleet.py", "test_faults.py"}


def starts(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if STARTS.search(line) and "reset-failed" not in line]


def test_these_commands_count_as_starts() -> None:
    for line in (
        'node.run("systemctl", "restart", "docker.service")',
        'node.run("systemctl", "start", "docker.socket", "docker.service")',
        'node.run("sh", "-c", "systemctl daemon-reload && systemctl restart docker")',
        '"dockerd": "kill -9 $(cat /run/docker.pid)",',
        'node.run("systemctl", "kill", "--signal", "KILL", "docker.service")',
    ):
        assert starts(line) == [line]
    for line in (
        'node.dockerd("restart")',
        'host.run("systemctl", "restart", "docker-registry")',
        'node.run("systemctl", "stop", "docker.socket", "docker.service")',
        '"dockerd": "systemctl reset-failed docker && kill -9 $(cat /run/docker.pid)",',
    ):
        assert starts(line) == []


def test_each_start_of_dockerd_in_a_test_clears_earlier_ones() -> None:
    paths = [path for folder in ("e2e", "chaos") for path in (TESTS / folder).rglob("*.py") if path.name not in APART]
    assert len(paths) > 50
    found = {path.name: starts(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: lines for name, lines in found.items() if lines} == {}
