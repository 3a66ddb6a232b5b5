#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_members
short_description: Reads the nodes, join tokens and contents of a swarm, and removes a node from its list (internal)
version_added: 0.2.0
description:
  - Reads the manager's list of nodes, and returns the part that identifies each node. With O(tokens=true), the module also reads the join tokens.
    With O(contents=true), it also reads the names of everything that would be lost with the swarm.
  - With O(remove), the module first removes a node that has left the swarm from the list.
  - For general use, there is M(community.docker.docker_swarm_info).
notes:
  - Use C(no_log) with O(tokens=true). Anyone with a token can add a machine to the swarm.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.docker_client
  - fleet.gpu_swarm.internal
attributes:
  check_mode:
    support: full
  idempotent:
    support: full
options:
  tokens:
    description: Whether to return the join tokens. No callback shows a result that contains them.
    type: bool
    default: false
  contents:
    description: Whether to return the names of the services, secrets and configs. Nothing else about them leaves the manager.
    type: bool
    default: false
  remove:
    description:
      - The ID of a node to remove from the list. The module removes the node by force, because a manager notices only after a while that a node has
        left.
      - If the node is not in the list, nothing changes. In check mode, nothing changes either.
    type: str
    version_added: 0.3.0
seealso:
  - module: fleet.gpu_swarm.swarm_tokens
  - module: community.docker.docker_swarm_info
"""

EXAMPLES = r"""
- name: Read the nodes of the swarm
  fleet.gpu_swarm.swarm_members:
  delegate_to: manager-1
  run_once: true
  register: members
"""

RETURN = r"""
nodes:
  description:
    - The nodes in the format of Docker's API, with C(ID), C(Spec), C(Status), C(ManagerStatus) and C(Description.Hostname).
    - If a node reports the health of its GPUs, C(Description.Engine.Labels) contains the label with this report.
  returned: success
  type: list
  elements: dict
  sample:
    - ID: i9pbrl1zyudukjfaj1z6lvqpf
      Spec:
        Role: manager
        Availability: active
        Labels: {}
      Status:
        State: ready
        Addr: 192.0.2.5
      ManagerStatus:
        Leader: true
        Reachability: reachable
        Addr: 192.0.2.5:2377
      Description:
        Hostname: manager-1
join_tokens:
  description: The join tokens, C(Worker) and C(Manager).
  returned: with O(tokens=true)
  type: dict
contents:
  description: Lists of names, under the keys C(services), C(secrets) and C(configs).
  returned: with O(contents=true)
  type: dict
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._health import label
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.manager import connect

# The description is left out, because it lists everything that the node's engine can do.
SHOWN_PARTS = ("ID", "Spec", "Status", "ManagerStatus")

OPTIONS = dict(
    tokens=dict(type="bool", default=False, no_log=False),
    contents=dict(type="bool", default=False),
    remove=dict(type="str"),
)


def run(params, check_mode):
    """Return the module's result."""
    manager = connect(params)
    removed = bool(params["remove"]) and not check_mode and manager.remove_node(params["remove"])
    result = {"changed": removed, "nodes": [_short(node) for node in manager.nodes()]}
    if params["tokens"]:
        result["join_tokens"] = manager.join_tokens()
    if params["contents"]:
        result["contents"] = manager.names()
    return result


def _short(node):
    description = node.get("Description") or {}
    labels = (description.get("Engine") or {}).get("Labels") or {}
    reports = {"Engine": {"Labels": {label.KEY: labels[label.KEY]}}} if label.KEY in labels else {}
    parts = {part: node[part] for part in SHOWN_PARTS if part in node}
    return dict(parts, Description=dict({"Hostname": description.get("Hostname", "")}, **reports))


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
