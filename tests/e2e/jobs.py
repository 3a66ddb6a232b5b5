# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs of a fleet, and checks that they stay untouched."""

from __future__ import annotations

from .fleet import Node, wait_until

JOB, PRUNE, STATUS = "fleet.gpu_swarm.job", "fleet.gpu_swarm.prune_jobs", "fleet.gpu_swarm.status"
LABEL = "label=gpu-swarm.job"


def label_leaves_alone(manager: Node, names: list[str]) -> None:
    """Check that an update of a label does not touch ended tasks of these services. This leaves a service ``marker`` behind."""
    tasks = {name: manager.docker("service", "ps", "--quiet", name) for name in names}
    for name in names:
        manager.docker("service", "update", "--detach", "--quiet", "--label-add", "a=b", name)
    # Swarm has created all earlier tasks by now, because a service that was created later has its task.
    once = ("--restart-condition", "none", "lab/task", "true")
    manager.docker("service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", "marker", *once)
    wait_until("a task of another service", lambda: "Complete" in manager.docker("service", "ps", "marker"))
    assert {name: manager.docker("service", "ps", "--quiet", name) for name in names} == tasks
