# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes Ansible sleep until a fork is free while a playbook of this collection runs.

With fewer forks than hosts, ansible-playbook waits for a free fork during most of a run. It checks all of its processes every 0.1 ms. With 12 hosts
and 5 forks, these checks took a quarter more of the controller's CPU. Ansible has no setting that avoids the checks, and strategy plugins that are
not part of Ansible are deprecated. So this callback changes the method of Ansible's strategy that starts a process: the method first sleeps until a
fork is free.
"""

from __future__ import annotations

import functools
from multiprocessing import connection

from ansible.plugins.callback import CallbackBase
from ansible.plugins.strategy import StrategyBase

DOCUMENTATION = r"""
name: gpu_swarm_free_fork
type: aggregate
short_description: Sleeps until a fork is free
description:
  - With fewer forks than hosts, ansible-playbook sleeps until one of its forks is free. Without this callback, it checks all forks every 0.1 ms.
"""

# How long to sleep before each process is checked (seconds). A process that a task left behind can hide that a fork has ended.
CHECK_AGAIN_S = 0.1


def await_free_fork(workers):
    """Return when a fork is free. ``workers`` has a multiprocessing.Process for each fork, or None for an unused fork."""
    while workers and all(worker is not None and worker.is_alive() for worker in workers):
        connection.wait([worker.sentinel for worker in workers], timeout=CHECK_AGAIN_S)


def awaiting_first(queue_task):
    """Wraps StrategyBase._queue_task, which starts a process for a host's task (lib/ansible/plugins/strategy/__init__.py)."""

    @functools.wraps(queue_task)
    def wrapper(strategy, *args, **kwargs):
        await_free_fork(strategy._workers)
        return queue_task(strategy, *args, **kwargs)

    return wrapper


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpu_swarm_free_fork"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        StrategyBase._queue_task = awaiting_first(StrategyBase._queue_task)
