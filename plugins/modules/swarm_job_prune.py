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
  - Removes services that are replicated or global jobs and that are finished. Nothing of them runs or waits, and as many tasks are
    complete as there were to complete. Any other service stays, with the reason.
  - That is checked in the same call, directly before the removal.
  - While another run changes the swarm (M(fleet.gpu_swarm.swarm_lease)), nothing is removed.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.docker_client
options:
  services:
    description: The jobs, by their names.
    type: list
    elements: str
    required: true
  holder:
    description: Whose lease of the swarm is this run's own. By default that of the run of Ansible that this task is part of.
    type: str
seealso:
  - module: fleet.gpu_swarm.swarm_gpu_info
"""

EXAMPLES = r"""
- name: A leader before 29.6.0 would run these again at the next update of their node
  fleet.gpu_swarm.swarm_job_prune:
    services: "{{ ledger.finished_jobs | selectattr('clash') | map(attribute='service') | unique }}"
  delegate_to: manager-1
  run_once: true
"""

RETURN = r"""
removed:
  description: The jobs that are there no more, whoever removed them.
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

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
from ..module_utils._errors import GpuSwarmError
from ..module_utils._ledger.jobs import unfinished
from ..module_utils._swarm.lease import refuse_another
from ..module_utils._swarm.manager import connect
from ..module_utils._swarm.options import CONNECTION_OPTIONS

AFTER = "Run this again when it is through."


def run(params, check_mode):
    """The module's result."""
    manager = connect(params)
    cluster, clock = manager.cluster()
    refuse_another(cluster["Spec"], clock, params["holder"], "No job was removed", AFTER)
    there = {service["ID"]: service for service in manager.services() if service["Spec"]["Name"] in params["services"]}
    tasks: dict[str, list] = {service_id: [] for service_id in there}
    for task in manager.tasks() if there else ():
        if task.get("ServiceID") in tasks:
            tasks[task["ServiceID"]].append(task)
    reasons = {service_id: unfinished(service, tasks[service_id]) for service_id, service in there.items()}
    finished = [service_id for service_id, reason in reasons.items() if reason is None]
    for service_id in finished if not check_mode else ():
        manager.remove_service(service_id)
    kept = [{"service": there[service_id]["Spec"]["Name"], "reason": reason} for service_id, reason in reasons.items() if reason]
    stays = [one["service"] for one in kept]
    return {"changed": bool(finished), "removed": [name for name in params["services"] if name not in stays], "kept": kept}


def main():
    module = AnsibleModule(
        argument_spec=dict(
            CONNECTION_OPTIONS,
            services=dict(type="list", elements="str", required=True),
            holder=dict(type="str"),
        ),
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
