# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/operate/alerts.md has the severity and the remedy of each alert, and the rules link to it. docs/reference/metrics.md has all reasons."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue import queue_view, reasons

ROOT = Path(__file__).parents[3]
RULES = yaml.safe_load((ROOT / "docs/examples/alerts/gpu-swarm.rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
PAGE = (ROOT / "docs/operate/alerts.md").read_text(encoding="utf-8")


def test_each_alert_is_on_the_page_with_its_severity_and_a_remedy():
    rows = re.findall(r"(?m)^\| `(GpuSwarm\w+)` \| (\w+) \| (.+?) \| (.+?) \|$", PAGE)
    assert [(name, severity) for name, severity, _when, _what in rows] == [
        (rule["alert"], rule["labels"]["severity"]) for rule in RULES if "alert" in rule
    ]
    assert all(len(what) > 20 for _name, _severity, _when, what in rows)


def test_each_alert_says_what_it_is_about_and_why_that_matters():
    assert [rule["alert"] for rule in RULES if "alert" in rule and set(rule["annotations"]) != {"summary", "description"}] == []


def test_each_reason_for_which_work_of_a_queue_waits_is_on_the_page_of_metrics():
    codes = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str) and re.fullmatch("[a-z]+(-[a-z]+)*", value)}
    text = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"(?m)^\| `reason` \| .* Of work that waits in a queue: (.*)\. \[", text)
    assert set(re.findall("`(.+?)`", row)) == codes | {queue_view.MAY_START, queue_view.TAKEN_BACK, queue_view.NOT_SERVED}
