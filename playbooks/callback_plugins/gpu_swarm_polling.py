# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Has Ansible wait without spending CPU while a playbook of this collection runs.

While hosts are at work, ansible-playbook looks a thousand times a second whether one of them is done, and each time at each of its processes: the
more forks it has, the more of a core that takes. Two hundred times a second is soon enough for tasks that take a second.

With fewer forks than hosts it looks for a process that has ended thousands of times a second, for as long as others are to be started, which is
most of a run over many hosts. There is no setting for that, and plugins of strategy that are not Ansible's own are deprecated. So the strategy's
method that starts a process waits first, with the kernel's means, for one to end.
"""

from __future__ import annotations

import functools
from multiprocessing import connection

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible.plugins.strategy import StrategyBase

DOCUMENTATION = r"""
name: gpu_swarm_polling
type: aggregate
short_description: Waits for hosts without spending CPU
description:
  - Has ansible-playbook look for results of its tasks every 5 ms, where C(internal_poll_interval) of its configuration is shorter.
  - Has it sleep until one of its forks is free, where it has fewer of them than hosts. It would look at all of them every 0.1 ms.
"""

INTERVAL_S = 0.005
# How long before each process is checked, if none was seen to end: a process that a task left behind can hide that.
CHECK_AGAIN_S = 0.1


def await_free_fork(workers):
    """Returns when one of the processes has ended, or none was started in its place. C(workers) is a list of multiprocessing.Process or None."""
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
    CALLBACK_NAME = "gpu_swarm_polling"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        constants.DEFAULT_INTERNAL_POLL_INTERVAL = max(INTERVAL_S, constants.DEFAULT_INTERNAL_POLL_INTERVAL)
        StrategyBase._queue_task = awaiting_first(StrategyBase._queue_task)
