#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_member
short_description: Makes this machine a working member of a swarm, or makes it leave (internal)
version_added: 0.3.0
description:
  - Initialises a swarm on this machine, joins a swarm, or leaves the current one, with the API of the local Docker daemon.
  - Before a join, the module tests the ports of the managers. If the machine does not become a working member, the module undoes the join.
  - For general use, there is M(community.docker.docker_swarm).
notes:
  - Anyone with a join token can add a machine to the swarm. So no callback shows a result with tokens, and the verbose output of a
    connection does not show tokens.
options:
  state:
    description:
      - V(initialised) creates a swarm. If this machine is already in a swarm, nothing changes.
      - V(joined) joins a swarm. If this machine is already in a swarm, the module only waits until the machine works there as O(role).
      - V(left) leaves the swarm. If the machine is in no swarm, nothing changes.
    type: str
    choices: [initialised, joined, left]
    required: true
  role:
    description: The wanted role of this machine. Used with O(state=joined).
    type: str
    choices: [manager, worker]
    default: worker
  manager:
    description: The inventory name of a manager of the swarm, for messages.
    type: str
  managers:
    description:
      - The managers, as nodes in the format of C(docker node inspect), or as addresses such as V(10.0.0.1) or V([fd00::1]:2377). At least one of them
        must be reachable. Required with O(state=joined).
    type: list
    elements: raw
  join_token:
    description: The join token. Required with O(state=joined).
    type: str
  port_timeout:
    description: How long a manager may take to answer, in seconds.
    type: int
    default: 5
  timeout:
    description: How long the machine may take to become a working member, in seconds.
    type: int
    default: 60
  advertise_addr:
    description: The address or interface that this node advertises to the other nodes. If it is not set, Docker chooses an address.
    type: str
  listen_addr:
    description: The address on which a manager listens for other managers and for joins.
    type: str
    default: 0.0.0.0:2377
  data_path_addr:
    description: The address or interface for the traffic of overlay networks.
    type: str
  default_addr_pool:
    description: The address pools for overlay networks. Only for O(state=initialised).
    type: list
    elements: str
  subnet_size:
    description: The prefix length of each network from O(default_addr_pool). Ignored without O(default_addr_pool).
    type: int
    default: 24
  labels:
    description: The labels of the swarm. Only for O(state=initialised).
    type: dict
  force:
    description: Whether to leave even if the machine is a manager, or if its join never succeeded. Only for O(state=left).
    type: bool
    default: false
  docker_socket:
    description: The Docker daemon's socket.
    type: path
    default: /var/run/docker.sock
  docker_unit:
    description: The daemon's systemd unit, for messages.
    type: str
    default: docker.service
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
seealso:
  - module: community.docker.docker_swarm
"""

EXAMPLES = r"""
- name: Initialise a swarm
  fleet.gpu_swarm.swarm_member:
    state: initialised
    advertise_addr: eth1
  register: initialised

- name: Join the swarm
  fleet.gpu_swarm.swarm_member:
    state: joined
    managers: [10.0.0.1]
    join_token: "{{ initialised.join_tokens.Worker }}"
"""

RETURN = r"""
swarm:
  description: The machine's own view of its membership, with C(state), C(node_id), C(addr), C(control_available), C(error), C(managers) and
    C(manager_ids).
  returned: success, and after a failed join
  type: dict
reachable:
  description: The reachable addresses of managers.
  returned: with O(state=joined), if a join was tried
  type: list
  elements: str
join_tokens:
  description: The join tokens of the swarm, C(Worker) and C(Manager).
  returned: with O(state=initialised), if this call created the swarm and could read them
  type: dict
"""

import contextlib

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._bounded import run
from ..module_utils._dockerd import join_leave
from ..module_utils._dockerd.docker_unit import EngineError
from ..module_utils._dockerd.engine import Engine
from ..module_utils._errors import GpuSwarmError
from ..module_utils._machine.reachable_ports import find_reachable

JOINED = "joined"
INITIALISED = "initialised"
LEFT = "left"


def result(engine, params, check_mode):
    """Return the module's result. Raises GpuSwarmError."""
    swarm = engine.swarm()
    is_in_state = (swarm["state"] == "inactive") if params["state"] == LEFT else (swarm["state"] == "active")
    if check_mode or (is_in_state and params["state"] != JOINED):
        return {"changed": not is_in_state, "swarm": swarm}
    if params["state"] == LEFT:
        return {"changed": True, "swarm": join_leave.leave(engine, params["force"])}
    if params["state"] == INITIALISED:
        swarm = join_leave.initialise(engine, _initialise_request(params), params["timeout"])
        return dict({"changed": True, "swarm": swarm}, **_tokens(engine))
    if is_in_state:
        return {"changed": False, "swarm": join_leave.await_member(engine, params["role"] == "manager", params["timeout"])}
    return _join(engine, params, swarm)


def _tokens(engine):
    """Return the join tokens, or {} if the manager has no leader at the moment. swarm_members can read them later."""
    with contextlib.suppress(EngineError):
        cluster = engine.get("/swarm")
        return {"join_tokens": cluster["JoinTokens"]} if cluster else {}
    return {}


def _join(engine, params, swarm):
    if swarm["state"] != "inactive":  # someone else has changed its membership since; a failed join must not undo that
        raise GpuSwarmError("its swarm state is now %s, but the host was in no swarm when this run began" % swarm["state"], swarm=swarm)
    reachable = find_reachable(params["managers"], params["port_timeout"])
    if not reachable:
        raise GpuSwarmError("no manager can be reached", swarm=swarm, reachable=[])
    request = dict(_addresses(params), JoinToken=params["join_token"], RemoteAddrs=reachable)
    try:
        swarm = join_leave.join(engine, request, params["role"] == "manager", params["timeout"])
    except GpuSwarmError as problem:
        problem.details["reachable"] = reachable
        raise
    return {"changed": True, "swarm": swarm, "reachable": reachable}


def _addresses(params):
    """Return the addresses of the node for the API. Docker chooses those that are not set."""
    return {"ListenAddr": params["listen_addr"], "AdvertiseAddr": params["advertise_addr"] or "", "DataPathAddr": params["data_path_addr"] or ""}


def _initialise_request(params):
    pool = params["default_addr_pool"] or []
    return dict(
        _addresses(params),
        **({"DefaultAddrPool": pool, "SubnetSize": params["subnet_size"]} if pool else {}),
        Spec={"Labels": {name: str(value) for name, value in (params["labels"] or {}).items()}},
    )


def main():
    module = AnsibleModule(
        argument_spec=dict(
            state=dict(type="str", choices=[INITIALISED, JOINED, LEFT], required=True),
            role=dict(type="str", choices=["manager", "worker"], default="worker"),
            manager=dict(type="str"),
            managers=dict(type="list", elements="raw"),
            join_token=dict(type="str", no_log=True),
            port_timeout=dict(type="int", default=5),
            timeout=dict(type="int", default=60),
            advertise_addr=dict(type="str"),
            listen_addr=dict(type="str", default="0.0.0.0:2377"),
            data_path_addr=dict(type="str"),
            default_addr_pool=dict(type="list", elements="str"),
            subnet_size=dict(type="int", default=24),
            labels=dict(type="dict"),
            force=dict(type="bool", default=False),
            docker_socket=dict(type="path", default="/var/run/docker.sock"),
            docker_unit=dict(type="str", default="docker.service"),
        ),
        required_if=[("state", JOINED, ["managers", "join_token"])],
        supports_check_mode=True,
    )
    engine = Engine(module.params["docker_socket"], module.params["docker_unit"], run)
    try:
        module.exit_json(**result(engine, module.params, module.check_mode))
    except GpuSwarmError as problem:
        module.fail_json(msg=problem.message, **problem.details)


if __name__ == "__main__":
    main()
