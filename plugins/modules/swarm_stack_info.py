#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_stack_info
short_description: Where the services of a stack fit, and how far they are (internal)
version_added: 0.3.0
description:
  - Reads a stack for M(fleet.gpu_swarm.swarm_stack), which calls it. It reads the swarm, and with O(keep) notes there what was deployed and
    removes what no service of the stack uses any more of the configs and secrets that are named by their content.
options:
  stack:
    description: The name of the stack.
    type: str
    required: true
  services:
    description: Specifications of services as Docker's API has them, which are compared with the nodes as if they were deployed.
    type: list
    elements: dict
    default: []
  labels:
    description:
      - By the ids of nodes labels that they are to get before the stack is deployed. O(services) are compared with the nodes as if they had them.
    type: dict
    default: {}
    version_added: 0.3.0
  images:
    description: The images of the services, of which is read what they require of the driver, where the manager has them.
    type: list
    elements: str
    default: []
  query:
    description: Images by which their registry is queried whether it lets them be read, each with the name of that registry.
    type: dict
    default: {}
  logins:
    description:
      - By registry a C(username) and a C(password), as JSON in base64. An empty mapping is no login at all.
      - Without, the logins count that the user of this task has on the manager.
    type: str
  networks:
    description: The names of networks that the stack would make.
    type: list
    elements: str
    default: []
  external:
    description: The names of C(configs), C(networks) and C(secrets) that have to be there already.
    type: dict
    default: {}
    version_added: 0.3.0
  compared:
    description:
      - What else the stack needs of the swarm. C(networks) has the C(driver) and C(subnets) of each new network by its name. C(attached) has the
        names of external networks. C(contents) has, for C(configs) and C(secrets), digests of those with a name of their own.
      - Without it nothing is compared. With it RV(there) is read as well.
    type: dict
    version_added: 0.3.0
  stack_file:
    description: The text of the stack file. C(docker stack config) checks it, unless this text was deployed last.
    type: str
    version_added: 0.3.0
  remove:
    description: The objects to remove, which a failed deployment has made, as lists of ids by kind.
    type: dict
    default: {}
    version_added: 0.3.0
  prune:
    description: Whether the services of the stack end that are not among O(services).
    type: bool
    default: false
  keep:
    description:
      - The text of the stack file that was deployed, which is kept in a config of the swarm. The next run shows what has changed since.
      - Empty to keep none.
    type: str
  prefix:
    description: What the keys of M(fleet.gpu_swarm.swarm_nodes)'s own records begin with.
    type: str
    default: gpu-swarm.
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
  - fleet.gpu_swarm.docker_client
seealso:
  - module: fleet.gpu_swarm.swarm_stack
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: How far is it?
  fleet.gpu_swarm.swarm_stack_info:
    stack: train
"""

RETURN = r"""
nodes:
  description: As of M(fleet.gpu_swarm.swarm_gpu_info), and so are C(kinds) and the others.
  returned: success
  type: list
  elements: dict
preflight:
  description:
    - Each of O(services), as M(fleet.gpu_swarm.swarm_explain) explains it, beside the others.
    - C(rivals) are others of O(services) that may take its room, depending on which of them swarm places first.
    - C(stays) is whether all of its tasks are there already, and stay.
  returned: success
  type: list
  elements: dict
pending_now:
  description: Those services of the stack that have fewer tasks than they are to have, explained likewise.
  returned: success
  type: list
  elements: dict
progress:
  description: How far each service of the stack is.
  returned: success
  type: list
  elements: dict
ending:
  description:
    - What tasks of removed services of the stack still have allocated, each with C(hostname), C(kind), C(amount), and under C(state) the state of
      the node.
  returned: success
  type: list
  elements: dict
taken:
  description: Names of O(services) that services outside of the stack have.
  returned: success
  type: list
  elements: str
networks_taken:
  description: Those of O(networks) that are there already and are not of the stack.
  returned: success
  type: list
  elements: str
not_there:
  description: Those of O(external) that the swarm does not have, each after the word config, network or secret.
  returned: success
  type: list
  elements: str
clashes:
  description: What the managers would refuse in the stack because of what the swarm has, in words.
  returned: success
  type: list
  elements: str
unread:
  description: Why C(docker stack config) refuses O(stack_file); empty if it does not, or if this Docker does not have it.
  returned: success
  type: str
there:
  description: The objects of the stack that the swarm has, as names by kind and id; empty without O(compared).
  returned: success
  type: dict
images:
  description: By image those of its variables by which NVIDIA's toolkit decides whether it starts it.
  returned: success
  type: dict
refused:
  description: The images that their registry refuses, each with C(image) and C(said).
  returned: success
  type: list
  elements: dict
kept:
  description: The lines of the stack file that was deployed last, null where none was kept.
  returned: success
  type: list
  elements: str
absent:
  description: What this machine's Python lacks for M(community.docker.docker_stack).
  returned: success
  type: list
  elements: str
"""

import base64
import importlib.util
import json

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
from ..module_utils._deployment import stack
from ..module_utils._deployment.clashes import There, Wanted, clashes
from ..module_utils._deployment.preflight import preflight
from ..module_utils._dockerd.local_images import required
from ..module_utils._errors import GpuSwarmError
from ..module_utils._ledger.ledger import ledger
from ..module_utils._ledger.listed import Listed
from ..module_utils._swarm import stack_file, stack_objects, stack_reader, stack_versions
from ..module_utils._swarm.manager import connect
from ..module_utils._swarm.manager_options import CONNECTION_OPTIONS, unprotected
from ..module_utils._swarm.registry import judged
from ..module_utils._tasks.tasks import epoch, still_allocated

# What community.docker.docker_stack imports.
NEEDED = ("jsondiff", "yaml")


def run(params, check_mode):
    manager, name = connect(params), params["stack"]
    if params["remove"] and not check_mode:
        stack_objects.remove(manager, params["remove"])
    tasks, services = list(manager.tasks()), manager.services()
    listed = Listed(manager.nodes(), tasks, services, epoch(manager.time))
    own = stack.of_stack(name, services)
    labelled = listed._replace(nodes=stack.with_labels(listed.nodes, params["labels"]))
    found = preflight(name, params["services"], labelled, params["prefix"], params["prune"])
    explained = ledger(listed, params["prefix"], [service["ID"] for service in own])["explained"] if own else []
    kept = stack_file.kept(manager, name)
    changed = params["keep"] is not None and params["keep"] != (kept or "")
    if changed and not check_mode:
        stack_file.keep(manager, name, params["keep"])
    networks = manager.networks() if params["compared"] or params["networks"] or params["external"].get("networks") else []
    unused = [] if params["keep"] is None or check_mode else stack_versions.remove_unused(manager, name)
    return {
        "changed": changed or bool(unused or params["remove"]),
        "nodes": found["nodes"],
        "kinds": found["kinds"],
        "preflight": found["explained"],
        "pending_now": [one for one in explained if one["needed"] or one["without_tasks"]],
        "progress": stack.progress(own, tasks),
        "ending": still_allocated(stack.tasks_of(name, tasks), services, listed.nodes),
        "taken": stack.taken(name, [spec["Name"] for spec in params["services"]], services),
        "networks_taken": stack.networks_taken(name, params["networks"], networks),
        "not_there": stack.not_there(params["external"], {**manager.names(), "networks": stack.of_swarm(networks)}) if params["external"] else [],
        "clashes": _clashes(manager, params, listed, networks),
        "unread": stack_reader.refusal(params["stack_file"]) if params["stack_file"] not in (None, kept) else "",
        "there": stack_objects.listed(manager, name) if params["compared"] is not None else {},
        "images": {image: required(manager.image_environment(image)) for image in params["images"]},
        "refused": _refused(manager, params["query"], params["logins"]),
        "kept": None if kept is None else kept.split("\n"),
        "absent": [one for one in NEEDED if importlib.util.find_spec(one) is None],
    }


def _clashes(manager, params, listed, networks):
    compared = params["compared"]
    if compared is None:
        return []
    contents = compared.get("contents") or {}
    wanted = Wanted(params["stack"], params["services"], params["prune"], compared.get("networks") or {}, compared.get("attached") or [], contents)
    configs = manager.configs_labelled() if "configs" in contents else []
    secrets = manager.secrets_labelled() if "secrets" in contents else []
    return clashes(wanted, There(listed.nodes, listed.services, networks, configs, secrets, manager.node_id))


def _refused(manager, images, packed):
    logins = json.loads(base64.b64decode(packed)) if packed else None
    refused, silent = [], set()  # one that does not answer is queried once: that can take half a minute
    for image, registry in images.items():
        if registry not in silent:
            said, answers = judged(manager.registry_says(image, None if logins is None else logins.get(registry, {})))
            refused += [{"image": image, "said": said}] if said else []
            silent.update([] if answers else [registry])
    return refused


def main():
    module = AnsibleModule(
        argument_spec=dict(
            CONNECTION_OPTIONS,
            stack=dict(type="str", required=True),
            services=dict(type="list", elements="dict", default=[]),
            labels=dict(type="dict", default={}),
            images=dict(type="list", elements="str", default=[]),
            query=dict(type="dict", default={}),
            logins=dict(type="str", no_log=True),
            networks=dict(type="list", elements="str", default=[]),
            external=dict(type="dict", default={}),
            compared=dict(type="dict"),
            stack_file=dict(type="str", no_log=True),
            remove=dict(type="dict", default={}),
            prune=dict(type="bool", default=False),
            keep=dict(type="str", no_log=True),
            prefix=dict(type="str", default="gpu-swarm."),
        ),
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    for text in unprotected(module.params):
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
