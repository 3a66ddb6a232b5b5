# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests how the installed guard reads the file with a node's tasks. Swarm's agent writes this file.

The guard reads the file while the agent writes it, or after the file was replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .fleet import Node

# The reader ends after it has seen this many commits. The agent commits at each step of a task.
COMMITS = 25
_READ = """
import glob, json, os, sys, time

home, data_root, task, commits = sys.argv[1:]
sys.path.insert(0, glob.glob(home + "/code-*")[0])
from gpu_swarm._guard import bolt, engine_record

handle = os.open(os.path.join(data_root, "swarm/worker/tasks.db"), os.O_RDONLY)
answers, problems, seen, reads, end = set(), [], set(), 0, time.monotonic() + 60
while len(seen) < int(commits) and time.monotonic() < end:
    seen.add(bolt._newest(handle).transaction)
    try:
        found = engine_record.task(data_root, task)
        answers.add((found.named, found.environment))
    except (bolt.BoltError, AttributeError) as problem:
        problems.append(repr(problem))
    reads += 1
print(json.dumps({"answers": sorted(answers), "problems": problems, "commits": len(seen), "reads": reads}))
"""


def read_under_writes(node: Node, home: str, task: str) -> dict[str, Any]:
    """Read a task with the guard's reader again and again. Return the answers, and the number of commits that it saw."""
    root = node.docker("info", "--format", "{{.DockerRootDir}}")
    return json.loads(node.run("python3", "-ISc", _READ, home, root, task, str(COMMITS)))


@contextmanager
def unreadable(node: Node) -> Iterator[None]:
    """Replace the file for all processes except dockerd. dockerd keeps the original file open."""
    path = node.docker("info", "--format", "{{.DockerRootDir}}") + "/swarm/worker/tasks.db"
    node.run("sh", "-c", 'echo "no database" >/run/no-database; mount --bind /run/no-database "$1"', "-", path)
    try:
        yield
    finally:
        node.run("umount", path)
