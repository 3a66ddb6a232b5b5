# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts tests from the logs and reports of the tools."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from .model import Count

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# A line of the section that `molecule --report` prints at the end: "swarm > converge: Executed: Successful".
MOLECULE_ACTION = re.compile(r"^\s*(?P<scenario>[\w-]+) [➜>] (?P<action>\w+): Executed: (?P<state>.+?)\s*$")
# An action for which the scenario has no playbook is no test.
MOLECULE_NO_TEST = ("Missing", "Disabled")


def junit(report: Path) -> Count:
    """Count a skipped test as not passed, and report it."""
    if not report.exists():
        return Count()
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    total = Count()
    for suite in suites:
        bad = sum(int(suite.get(key, 0)) for key in ("failures", "errors", "skipped"))
        total += Count(int(suite.get("tests", 0)) - bad, bad)
    return total


def molecule(text: str) -> Count:
    total = Count()
    report = text[text.rfind("DETAILS") :] if "DETAILS" in text else ""
    for line in ANSI.sub("", report).splitlines():
        found = MOLECULE_ACTION.match(line)
        if not found or found["state"].startswith(MOLECULE_NO_TEST):
            continue
        good = found["state"].startswith("Successful")
        total += Count(int(good), int(not good))
    return total
