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
  - Removes one-shot services that are over. Nothing of them runs or waits, and as many tasks are complete as there were to complete. Any other
    service stays, with the reason.
  - By default these are the jobs that M(fleet.gpu_swarm.swarm_job) has submitted. Others are removed only where O(services) or O(labels) chooses
    them, and only if they are replicated or global jobs, or replicated services whose restart condition is C(none).
  - What their tasks have printed is saved on the manager before. A service stays whose log cannot be saved.
  - That it is over is checked directly before the removal, for which a label of the service is updated by its version first, so that
    whoever read the service before cannot run it again unnoticed. A replicated or global job is read twice instead, as any update runs it again.
  - While another run changes the swarm (M(fleet.gpu_swarm.swarm_lease)), nothing is removed.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.docker_client
options:
  services:
    description: The services, by their names, whatever their age. An empty list chooses none.
    type: list
    elements: str
  labels:
    description: Services with one of these labels, V(KEY) or V(KEY=VALUE). An empty list chooses none.
    type: list
    elements: str
  older_than:
    description: Those that ended so long ago, such as V(90s), V(30m), V(24h) or V(7d). V(0s) for all.
    type: str
    default: 24h
  keep_last:
    description: So many of each name stay, those that ended last. The jobs of an array have one name.
    type: int
    default: 0
  failed:
    description: Whether those that did not complete are removed too. One of swarm's own jobs stays in any case.
    type: bool
    default: false
  log_directory:
    description: Where on the manager the logs are saved, one file for each task, for root to read.
    type: path
    default: /var/lib/gpu-swarm/jobs
  log_limit_mib:
    description: A log that has more is not saved, and its service stays. V(0) for no limit.
    type: int
    default: 1024
  holder:
    description: Whose lease of the swarm is this run's own. By default that of the run of Ansible that this task is part of.
    type: str
seealso:
  - module: fleet.gpu_swarm.swarm_job
  - module: fleet.gpu_swarm.swarm_gpu_info
"""

EXAMPLES = r"""
- name: Jobs that ended a week ago, but for the last one of each name
  fleet.gpu_swarm.swarm_job_prune:
    older_than: 7d
    keep_last: 1
  delegate_to: manager-1
  run_once: true

- name: A leader before 29.6.0 would run these again at the next update of their node
  fleet.gpu_swarm.swarm_job_prune:
    services: "{{ ledger.finished_jobs | selectattr('clash') | map(attribute='service') | unique }}"
  delegate_to: manager-1
  run_once: true
"""

RETURN = r"""
removed:
  description: The jobs that no longer exist, including those that somebody else removed.
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
      description: Why it is no finished job.
      type: str
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
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


def everywhere(problem):
    """Return whether each manager would fail like this."""
    return {"wrong": isinstance(problem, AnotherRun) or not isinstance(problem, SwarmError)}


def main():
    manager_module.main(run, OPTIONS, on_failure=everywhere)


if __name__ == "__main__":
    main()
