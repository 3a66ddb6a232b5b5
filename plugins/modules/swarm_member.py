#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_member
short_description: Makes this machine a member of a swarm, and waits until it is a working one (internal)
version_added: 0.3.0
description:
  - Initialises a swarm here, joins one, or leaves the one that this machine is in, over the API of its own Docker daemon.
  - A join first tries the ports of the managers. One that does not come to a working member is undone.
  - For everyone, there is M(community.docker.docker_swarm).
notes:
  - Whoever has a join token can join a machine to the swarm. No callback shows the result that has them, and no connection what it sends.
options:
  state:
    description:
      - V(initialised) makes a swarm, V(joined) joins one. Where this machine is a member of a swarm already, whichever that is, nothing is done
        but to wait until it is one in O(role).
      - V(left) leaves it. Where this machine is in none, nothing is done.
    type: str
    choices: [initialised, joined, left]
    required: true
  role:
    description: What this machine is to be in the swarm that it joins.
    type: str
    choices: [manager, worker]
    default: worker
  manager:
    description: The inventory name of the manager of that swarm, for messages.
    type: str
  managers:
    description:
      - Where managers listen, one of which has to be reached. Nodes as C(docker node inspect) shows them, or addresses such as V(10.0.0.1) or
        V([fd00::1]:2377). Required with O(state=joined).
    type: list
    elements: raw
  join_token:
    description: The token with which it joins. Required with O(state=joined).
    type: str
  port_timeout:
    description: How long a manager may take to answer, in seconds.
    type: int
    default: 5
  timeout:
    description: How long it may take to become a working member, in seconds.
    type: int
    default: 60
  advertise_addr:
    description: The address or interface that this node advertises to the others. Without it, Docker picks one.
    type: str
  listen_addr:
    description: Where a manager listens for other managers and for joins.
    type: str
    default: 0.0.0.0:2377
  data_path_addr:
    description: The address or interface for the traffic of overlay networks.
    type: str
  default_addr_pool:
    description: The networks out of which overlay networks get their addresses. Only for O(state=initialised).
    type: list
    elements: str
  subnet_size:
    description: The size of each of these. Only with O(default_addr_pool).
    type: int
    default: 24
  labels:
    description: The labels of the swarm. Only for O(state=initialised).
    type: dict
  force:
    description: Whether it leaves also as a manager, or where a join never got through. Only for O(state=left).
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
  register: made

- name: Join it
  fleet.gpu_swarm.swarm_member:
    state: joined
    managers: [10.0.0.1]
    join_token: "{{ made.join_tokens.Worker }}"
"""

RETURN = r"""
swarm:
  description: The machine's own view of its membership, with C(state), C(node_id), C(addr), C(control_available), C(error), C(managers) and
    C(manager_ids).
  returned: success, and where a join failed
  type: dict
reachable:
  description: Those of the managers' addresses that could be reached.
  returned: with O(state=joined), where it was tried
  type: list
  elements: str
join_tokens:
  description: The join tokens of the swarm, C(Worker) and C(Manager).
  returned: with O(state=initialised), where it was made now and could be read
  type: dict
"""

import contextlib

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
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
    """The module's result. Raises GpuSwarmError."""
    swarm = engine.swarm()
    at_it = (swarm["state"] == "inactive") if params["state"] == LEFT else (swarm["state"] == "active")
    if check_mode or (at_it and params["state"] != JOINED):
        return {"changed": not at_it, "swarm": swarm}
    if params["state"] == LEFT:
        return {"changed": True, "swarm": join_leave.leave(engine, params["force"])}
    if params["state"] == INITIALISED:
        swarm = join_leave.initialise(engine, _initialised(params), params["timeout"])
        return dict({"changed": True, "swarm": swarm}, **_tokens(engine))
    if at_it:
        return {"changed": False, "swarm": join_leave.await_member(engine, params["role"] == "manager", params["timeout"])}
    return _join(engine, params, swarm)


def _tokens(engine):
    """Not those of a manager that has no leader at this very moment: they can be read later (swarm_members)."""
    with contextlib.suppress(EngineError):
        cluster = engine.get("/swarm")
        return {"join_tokens": cluster["JoinTokens"]} if cluster else {}
    return {}


def _join(engine, params, swarm):
    if swarm["state"] != "inactive":  # somebody else's by now, which a join that fails must not undo
        raise GpuSwarmError("its swarm is in state %s, and it was in none when this run began" % swarm["state"], swarm=swarm)
    found = find_reachable(params["managers"], params["port_timeout"])
    if not found:
        raise GpuSwarmError("no manager can be reached", swarm=swarm, reachable=[])
    request = dict(_listening(params), JoinToken=params["join_token"], RemoteAddrs=found)
    try:
        swarm = join_leave.join(engine, request, params["role"] == "manager", params["timeout"])
    except GpuSwarmError as problem:
        problem.details["reachable"] = found
        raise
    return {"changed": True, "swarm": swarm, "reachable": found}


def _listening(params):
    """What a node that is made a member says of itself, as the API takes it; what is not set is left to Docker."""
    return {"ListenAddr": params["listen_addr"], "AdvertiseAddr": params["advertise_addr"] or "", "DataPathAddr": params["data_path_addr"] or ""}


def _initialised(params):
    pool = params["default_addr_pool"] or []
    return dict(
        _listening(params),
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
