# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides the example of docs/operate/queues.md, and compares the decisions with the page."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from queued import NOW, gpu_node, held, runs, state_of, work

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admit import admit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues

PAGE = Path(__file__).resolve().parents[3] / "docs/operate/queues.md"
HOUR = 3600.0
RUNS = [  # node, GPUs, when the time limit ends, queue
    ("g1", 8, 6, "research"),
    ("g2", 4, 5, "research"),
    ("g2", 2, 4, "batch"),
    ("g3", 4, 2, "batch"),
]
WAITS = [  # name, GPUs, time limit, queue, from the oldest to the youngest
    ("night-1", 1, 1, "nightly"),
    ("night-2", 1, 8, "nightly"),
    ("eval", 8, 24, "batch"),
    ("tune", 2, 24, "research"),
]


def shown(number, decision):
    text = "starts on %s" % decision.node if decision.node else re.sub(r"1970-\S+", "14:00", decision.reason.text).replace("host-", "")
    return "%d. `%s`: %s" % (number, decision.work.name, text)


def test_the_page_shows_what_is_decided():
    page = PAGE.read_text(encoding="utf-8")
    setting = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])["gpu_swarm_queues"]
    tasks = [held(node, gpus, "%s-%s" % (queue, node)) for node, gpus, _ends, queue in RUNS]
    running = [runs(node, gpus, NOW + ends * HOUR, queue=queue) for node, gpus, ends, queue in RUNS]
    waiting = [work(name, gpus, queue, since, limit * HOUR) for since, (name, gpus, limit, queue) in enumerate(WAITS)]
    found = admit(state_of([gpu_node(name) for name in ("g1", "g2", "g3")], tasks), check_queues(setting), waiting, running, NOW)
    assert [line for line in page.splitlines() if re.match(r"\d\. `", line)] == [shown(*one) for one in enumerate(found, 1)]
