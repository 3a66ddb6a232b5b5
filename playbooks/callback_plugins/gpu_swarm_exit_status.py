# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exit status of a run after which some nodes only wait for work to end: 75, "try again later" (EX_TEMPFAIL of sysexits.h).

And of one in which a host went wrong on which nothing was to be done, so that no task of its own could fail: 2, as for any host
that failed. Ansible knows no status between success and failure. It loads callbacks that lie beside a playbook by themselves, has what a
play left with set_stats for them, and calls them after the recap is printed.
"""

from __future__ import annotations

import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: gpu_swarm_exit_status
type: aggregate
short_description: Exit status 75 where nodes wait
description:
  - Ends ansible-playbook with exit status 75 where nothing failed and some nodes wait for work to end.
  - Ends it with exit status 2 where no task failed and some hosts are not as they should be all the same.
"""

FAILED_HOSTS = 2  # Ansible's own


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpu_swarm_exit_status"
    CALLBACK_NEEDS_ENABLED = False

    def v2_playbook_on_stats(self, stats):
        left = stats.custom.get("_run", {})
        if stats.failures or stats.dark:
            return  # Ansible has a status for that
        if left.get("gpu_swarm_not_ready"):
            raise SystemExit(FAILED_HOSTS)
        if left.get("gpu_swarm_waiting"):
            raise SystemExit(os.EX_TEMPFAIL)
