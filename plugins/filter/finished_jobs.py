# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: finished_jobs
short_description: Tells which finished jobs the change of hosts would run again (internal)
version_added: 0.2.0
description:
  - Takes names of hosts, and tells which jobs have finished on them that the swarm's leader would run again at the next update of
    their nodes. Leaders before 29.6.0 do that where what a job was given is given out again, or is not advertised any more.
  - Hosts on which something went wrong do not count. The plan of the run says of each host whether finished jobs may be removed.
positional: variables, ledger
options:
  _input:
    description: The names of the hosts.
    type: list
    elements: str
    required: true
  remove:
    description: With V(true), the names of those that may be removed. With V(false), those that have to be waited for, in words.
    type: bool
    required: true
  updates_left:
    description: Whether only hosts count whose nodes, by O(ledger), are still to be labelled or returned to service.
    type: bool
    default: false
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.variables
  - fleet.gpu_swarm.internal.ledger
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Remove finished jobs that would run again
  fleet.gpu_swarm.swarm_job_prune:
    services: "{{ ansible_play_batch | fleet.gpu_swarm.finished_jobs(hostvars, ledger, remove=true) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The names of the jobs, or what has to be waited for, in words.
  type: list
  elements: str
  sample: [sweep]
"""

from ..plugin_utils._rollout.updates import finished_jobs


class FilterModule:
    def filters(self):
        return {"finished_jobs": finished_jobs}
