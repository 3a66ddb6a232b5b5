#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_job_timer
short_description: Installs the part of the service on a manager that removes finished jobs (internal)
version_added: 0.3.0
description:
  - Installs, updates or removes one part of C(gpu-swarm-manager.service). On the leading manager, this part removes finished jobs of this collection
    every hour, as M(fleet.gpu_swarm.swarm_job_prune) does.
  - When the last part of the service is removed, the service is removed too.
options:
  state:
    description: V(absent) stops and removes this part. Saved logs stay.
    type: str
    choices: [present, absent]
    default: present
  older_than:
    description: The minimum time since the end of a job, such as V(90s), V(30m), V(24h) or V(7d). V(0s) means jobs of any age.
    type: str
    default: 24h
  keep_last:
    description: How many of the latest jobs of each name stay. All jobs of an array have the same name.
    type: int
    default: 0
  failed:
    description: Whether failed jobs are removed too.
    type: bool
    default: false
  log_directory:
    description: The directory for logs.
    type: path
    default: /var/lib/gpu-swarm/jobs
  log_limit_mib:
    description: The maximum size of a log, in MiB. If a log is larger, it is not saved, and its service stays. V(0) means no limit.
    type: int
    default: 1024
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.machine
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Remove jobs a week after their end
  fleet.gpu_swarm.swarm_job_timer:
    older_than: 7d
"""

RETURN = r"""
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._bounded import run
from ..module_utils._errors import GpuSwarmError
from ..module_utils._jobs import logs
from ..module_utils._jobs.prune import check_settings
from ..module_utils._manager.parts import ManagerService
from ..module_utils._node.manager_state import JOBS
from ..module_utils._program.installer import Machine

SETTINGS = ("older_than", "keep_last", "failed", "log_directory", "log_limit_mib")


def main():
    module = AnsibleModule(
        argument_spec=dict(
            state=dict(type="str", choices=["present", "absent"], default="present"),
            older_than=dict(type="str", default="24h"),
            keep_last=dict(type="int", default=0),
            failed=dict(type="bool", default=False),
            log_directory=dict(type="path", default=logs.DIRECTORY),
            log_limit_mib=dict(type="int", default=logs.LIMIT_MIB),
            docker_socket=dict(type="path", default="/var/run/docker.sock"),
            state_dir=dict(type="path", default="/var/lib/gpu-swarm"),
        ),
        supports_check_mode=True,
    )
    params = module.params
    settings = {name: params[name] for name in SETTINGS} if params["state"] == "present" else None
    service = ManagerService(params["state_dir"], params["docker_socket"], Machine(run, module.atomic_move))
    try:
        check_settings(params)
        changed = service.converge({JOBS: settings}, module.check_mode)
    except GpuSwarmError as problem:
        module.fail_json(msg=problem.message)
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
