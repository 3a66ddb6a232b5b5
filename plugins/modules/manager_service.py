#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: manager_service
short_description: Installs the service on a manager with the parts that a run selects (internal)
version_added: 0.3.0
description:
  - Installs, updates or removes parts of C(gpu-swarm-manager.service) with at most one restart. The service reads the list of nodes whenever a node
    changes.
  - When the last part of the service is removed, the service is removed too. The part that removes jobs belongs to
    M(fleet.gpu_swarm.swarm_job_timer) and is not changed here.
options:
  pause:
    description:
      - Whether the service pauses nodes that report a fault of their GPUs, and writes metrics.
      - With V(false), nodes that it paused stay paused until a run of this collection returns them to service.
    type: bool
    default: true
  limit:
    description:
      - The percentage of the GPU nodes that may be paused for a fault at the same time, from 1 to 100. The limit is always at least two nodes. If the
        swarm has only one or two GPU nodes, the limit is one node.
    type: int
    default: 20
  metrics_directory:
    description: The directory to which the leader writes metrics for Prometheus, if the directory exists. If empty, no metrics are written.
    type: str
    default: ''
  record:
    description: Whether the service records what it reads, in the directory C(record) of O(state_dir). With V(false), the existing record is kept.
    type: bool
    default: true
  page:
    description: Whether the service keeps a page of the fleet up to date in the directory C(page) of O(state_dir). With V(false) the page is removed.
    type: bool
    default: false
  page_template:
    description: The template of the page. The action plugin of the same name sets this option.
    type: str
    default: ''
  grafana_url:
    description: The address of Grafana, to which the page links. If empty, the page has no link.
    type: str
    default: ''
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.internal.machine
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Pause nodes with faults, and record nothing
  fleet.gpu_swarm.manager_service:
    limit: 20
    record: false
"""

RETURN = r"""
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._bounded import run
from ..module_utils._errors import GpuSwarmError
from ..module_utils._files import digest
from ..module_utils._manager.parts import ManagerService
from ..module_utils._node.manager_state import PAGE, PAUSE, RECORD
from ..module_utils._program.installer import Machine


def main():
    module = AnsibleModule(
        argument_spec=dict(
            pause=dict(type="bool", default=True),
            limit=dict(type="int", default=20),
            metrics_directory=dict(type="str", default=""),
            record=dict(type="bool", default=True),
            page=dict(type="bool", default=False),
            page_template=dict(type="str", default=""),
            grafana_url=dict(type="str", default=""),
            docker_socket=dict(type="path", default="/var/run/docker.sock"),
            state_dir=dict(type="path", default="/var/lib/gpu-swarm"),
        ),
        supports_check_mode=True,
    )
    params = module.params
    if not 1 <= params["limit"] <= 100:
        module.fail_json(msg="limit is %d, but must be from 1 to 100 (role: swarm_member_react_limit). Nothing was changed." % params["limit"])
    machine = Machine(run, module.atomic_move)
    service = ManagerService(params["state_dir"], params["docker_socket"], machine, params["page_template"])
    try:
        changed = service.converge(parts_of(params), module.check_mode)
    except GpuSwarmError as problem:
        module.fail_json(msg=problem.message)
    module.exit_json(changed=changed)


def parts_of(params):
    """Return the settings of each part, or None for a part that is removed."""
    return {
        PAUSE: {name: params[name] for name in ("limit", "metrics_directory")} if params["pause"] else None,
        RECORD: {} if params["record"] else None,
        PAGE: {"grafana_url": params["grafana_url"], "template": digest(params["page_template"].encode("utf-8"))} if params["page"] else None,
    }


if __name__ == "__main__":
    main()
