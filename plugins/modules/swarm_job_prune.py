#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_job_prune
short_description: Removes finished jobs of a swarm
version_added: 0.2.0
description:
  - Removes one-shot services that are over. A service is over if none of its tasks runs or waits, and all required tasks are complete. RV(kept)
    lists the other services, each with the reason.
  - By default, the module removes the jobs of M(fleet.gpu_swarm.swarm_job) and the work of queues, services with the label C(gpu-swarm.queue). It
    removes other services only if O(services) or O(labels) selects them. They must be replicated or global jobs, or replicated services whose restart
    condition is C(none).
  - The work of a queue is over if its label C(gpu-swarm.queue-state) says so. Work that waits, that was admitted, or that is held always stays.
  - The module first saves the output of the tasks on the manager. If a log cannot be saved, its service stays.
  - Just before the removal, the module updates a label of the service and checks again that the service is over. The update names the version of the
    service, so the module notices if someone has restarted the service. The module reads a replicated or global job twice instead, because any
    update would run this job again.
  - While another run changes the swarm (M(fleet.gpu_swarm.swarm_lease)), nothing is removed.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.docker_client
options:
  services:
    description: The names of services to remove, whatever their age. An empty list selects no service.
    type: list
    elements: str
  labels:
    description: Selects services with one of these labels, V(KEY) or V(KEY=VALUE). An empty list selects no service.
    type: list
    elements: str
  older_than:
    description: The minimum time since the end of a job, such as V(90s), V(30m), V(24h) or V(7d). V(0s) means jobs of any age.
    type: str
    default: 24h
  keep_last:
    description: How many of the latest jobs of each name stay. All jobs of an array have the same name.
    type: int
    default: 0
  failed:
    description: Whether failed jobs are removed too. A replicated or global job that failed always stays, because swarm may retry it.
    type: bool
    default: false
  log_directory:
    description: The directory on the manager for logs, with one file per task. Only root can read these files.
    type: path
    default: /var/lib/gpu-swarm/jobs
  log_limit_mib:
    description: The maximum size of a log, in MiB. If a log is larger, it is not saved, and its service stays. V(0) means no limit.
    type: int
    default: 1024
  holder:
    description: The holder of this run's own lease of the swarm. The default is the run of Ansible that executes this task.
    type: str
seealso:
  - module: fleet.gpu_swarm.swarm_job
  - module: fleet.gpu_swarm.swarm_gpu_info
"""

EXAMPLES = r"""
- name: Remove jobs that ended a week ago, except the last one of each name
  fleet.gpu_swarm.swarm_job_prune:
    older_than: 7d
    keep_last: 1
  delegate_to: manager-1
  run_once: true

- name: Remove jobs that a leader before 29.6.0 would run again at the next update of their node
  fleet.gpu_swarm.swarm_job_prune:
    services: "{{ ledger.finished_jobs | selectattr('clash') | map(attribute='service') | unique }}"
  delegate_to: manager-1
  run_once: true
"""

RETURN = r"""
removed:
  description: The jobs that no longer exist, including jobs that somebody else removed.
  returned: success
  type: list
  elements: str
  sample: [sweep]
kept:
  description: The services that were not removed, each with the reason.
  returned: success
  type: list
  elements: dict
  contains:
    service:
      description: The service's name.
      type: str
    reason:
      description: Why the service was kept.
      type: str
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._jobs import logs
from ..module_utils._jobs.prune import check_settings, module_result, prune
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.lease import AnotherRun
from ..module_utils._swarm.manager import SwarmError, connect

OPTIONS = dict(
    services=dict(type="list", elements="str"),
    labels=dict(type="list", elements="str"),
    older_than=dict(type="str", default="24h"),
    keep_last=dict(type="int", default=0),
    failed=dict(type="bool", default=False),
    log_directory=dict(type="path", default=logs.DIRECTORY),
    log_limit_mib=dict(type="int", default=logs.LIMIT_MIB),
    holder=dict(type="str"),
)


def run(params, check_mode):
    """Return the module's result."""
    check_settings(params)
    return module_result(prune(connect(params), params, check_mode))


def failure_fields(problem):
    """Return ``wrong``: whether any other manager would fail in the same way."""
    return {"wrong": isinstance(problem, AnotherRun) or not isinstance(problem, SwarmError)}


def main():
    manager_module.main(run, OPTIONS, on_failure=failure_fields)


if __name__ == "__main__":
    main()
