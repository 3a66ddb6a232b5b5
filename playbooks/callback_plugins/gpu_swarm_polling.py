# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Has Ansible look for results less often while a playbook of this collection runs.

While hosts are at work, ansible-playbook looks a thousand times a second whether one of them is done, and each time at each of its processes: the
more forks it has, the more of a core that takes. Two hundred times a second is soon enough for tasks that take a second.
"""

from __future__ import annotations

from ansible import constants
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: gpu_swarm_polling
type: aggregate
short_description: Looks for results less often
description:
  - Has ansible-playbook look for results of its tasks every 5 ms, where C(internal_poll_interval) of its configuration is shorter.
"""

INTERVAL_S = 0.005


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpu_swarm_polling"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        constants.DEFAULT_INTERNAL_POLL_INTERVAL = max(INTERVAL_S, constants.DEFAULT_INTERNAL_POLL_INTERVAL)
