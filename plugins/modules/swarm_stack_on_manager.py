#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_stack_on_manager
short_description: Reads, deploys and removes a stack on a manager (internal)
version_added: 0.3.0
description:
  - Executes the part of M(fleet.gpu_swarm.swarm_stack) that runs on a manager. The module deploys O(archive), removes the objects in O(remove),
    stores the stack file in O(keep), and reads the swarm.
  - Files of a stack contain secrets. The module writes them into a directory that only this user can read, in memory (F(/run)) where possible. It
    removes them when C(docker stack deploy) has read them. It also removes files of an earlier run that was killed.
options:
  stack:
    description: The name of the stack. Required, except with O(save).
    type: str
    default: ''
  services:
    description: Specifications of services, in the format of Docker's API. The module computes whether nodes have room for them.
    type: list
    elements: dict
    default: []
  labels:
    description:
      - Labels that nodes will get before the stack is deployed, by node ID. O(services) are checked as if the nodes already had them.
    type: dict
    default: {}
    version_added: 0.3.0
  images:
    description: Images of the services. For images that the manager has, the result contains their requirements for the driver.
    type: list
    elements: str
    default: []
  query:
    description: The names of registries by image. The module checks whether each registry allows to pull the image.
    type: dict
    default: {}
  logins:
    description:
      - A C(username) and a C(password) by registry, as JSON in base64. If the mapping is empty, no login is used.
      - Without this option, the logins of this task's user on the manager are used.
    type: str
  networks:
    description: The names of networks that the stack would create.
    type: list
    elements: str
    default: []
  external:
    description: The names of C(configs), C(networks) and C(secrets) that must exist already.
    type: dict
    default: {}
    version_added: 0.3.0
  compared:
    description:
      - Parts of the stack to check for conflicts with the swarm. C(networks) contains the C(driver) and C(subnets) of each new network, by its name.
        C(attached) contains the names of external networks. C(contents) contains digests of the C(configs) and C(secrets) with a fixed name.
      - Without this option, the module does not check for conflicts, and RV(objects) is empty.
    type: dict
    version_added: 0.3.0
  stack_file:
    description: The text of the stack file. C(docker stack config) checks this text, unless the same text was deployed last.
    type: str
    version_added: 0.3.0
  archive:
    description: A zip file with the stack file and the files that it names, in base64. The module deploys the stack before it reads the swarm.
    type: str
  with_registry_auth:
    description: Whether the nodes get the logins to registries when O(archive) is deployed.
    type: bool
    default: false
  remove:
    description: Objects to remove before the module reads the swarm, as lists of IDs by kind of object. Files of a killed run are removed too.
    type: dict
    version_added: 0.3.0
  prune:
    description:
      - Whether to remove services of the stack that are not in O(archive). The check of O(services) then also assumes that the other services of the
        stack are removed.
    type: bool
    default: false
  save:
    description: Whether to change nothing, and to return only RV(saved).
    type: bool
    default: false
    version_added: 0.4.0
  pull_for:
    description:
      - The images that nodes should pull before the update, by the names of their services. The module looks up the digests of the images, and
        returns in RV(pull_plan) which nodes should pull them.
      - The module also removes the pull services of an earlier run that was killed.
    type: dict
    version_added: 0.4.0
  pulls:
    description:
      - The pulls that have not ended, each with C(node) and C(image), as in RV(pull_plan). The module starts as many pulls as may run at the same
        time. It removes the service of each pull that has ended or is not in this list.
    type: list
    elements: dict
    version_added: 0.4.0
  keep:
    description:
      - The text of the deployed stack file. The module stores it in a config of the swarm, so that the next run can show what has changed since.
      - The module then removes versions of configs and secrets that no service of the stack uses any more.
      - If the text is empty, the stored text is removed.
    type: str
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
- name: Read the progress of a stack
  fleet.gpu_swarm.swarm_stack_on_manager:
    stack: train
"""

RETURN = r"""
nodes:
  description: As in M(fleet.gpu_swarm.swarm_gpu_info). The result also has C(kinds), as that module returns them.
  returned: success
  type: list
  elements: dict
preflight:
  description:
    - An explanation of each service in O(services), as in M(fleet.gpu_swarm.swarm_explain). It takes all other services into account.
    - C(rivals) lists other services in O(services) that may take the room of this service if swarm places them first.
    - C(keeps_tasks) is true if all tasks of this service already exist and stay.
    - C(overlaps) is true if the old tasks of this service continue until its new tasks run.
  returned: success
  type: list
  elements: dict
pending_now:
  description: Services of the stack with fewer tasks than they want, with the same explanations.
  returned: success
  type: list
  elements: dict
progress:
  description: The progress of each service of the stack.
  returned: success
  type: list
  elements: dict
ending:
  description:
    - Resources that are still allocated to tasks of removed services of the stack, each with C(hostname), C(kind), C(amount) and C(state), the state
      of the node.
  returned: success
  type: list
  elements: dict
taken:
  description: Names in O(services) that services outside the stack already have.
  returned: success
  type: list
  elements: str
networks_taken:
  description: Names of O(networks) that exist already and do not belong to the stack.
  returned: success
  type: list
  elements: str
missing_objects:
  description: Objects of O(external) that the swarm does not have, such as C(config NAME), C(network NAME) or C(secret NAME).
  returned: success
  type: list
  elements: str
clashes:
  description: Conflicts with existing objects of the swarm, because of which the managers would refuse the stack. Each is a text with the remedy.
  returned: success
  type: list
  elements: str
unread:
  description: Why C(docker stack config) refuses O(stack_file). Empty if it accepts the file, or if this release of Docker does not have the command.
  returned: success
  type: str
objects:
  description: The objects of the stack in the swarm, as names by kind of object and ID. Empty without O(compared).
  returned: success
  type: dict
images:
  description: For each image, the variables that say what it requires of the driver. Empty for images that the manager does not have.
  returned: success
  type: dict
refused:
  description: The images that their registry refuses, each with C(image) and C(said), the reason.
  returned: success
  type: list
  elements: dict
pull_plan:
  description:
    - C(images) has the image with its digest, by the image without a digest. C(unknown) has the reason why the module could not look up a digest, by
      the image.
    - C(pulls) has the C(node), C(hostname) and C(image) of each pull. C(there) has the images that some of these nodes already have.
  returned: with O(pull_for)
  type: dict
  version_added: 0.4.0
pulls:
  description: The C(node), C(image), C(state) and C(reason) of each pull in O(pulls). The state is V(queued), V(pulling), V(pulled) or V(failed).
  returned: with O(pulls)
  type: list
  elements: dict
  version_added: 0.4.0
kept:
  description: The lines of the stack file that was deployed last. Null if no file was stored.
  returned: success
  type: list
  elements: str
saved:
  description: The data of the swarm that the check of a deployment needs, to save in a file. It has no environments, no arguments and no contents.
  returned: with O(save)
  type: dict
  version_added: 0.4.0
incomplete:
  description: Whether the deployment or the removal failed, so that a part of it may have been done. C(msg) has the reason.
  returned: failure
  type: bool
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._deployment import pull_run, saved_ledger, swarm_answer
from ..module_utils._errors import GpuSwarmError
from ..module_utils._swarm import manager_module, stack_command, stack_directory, stack_file, stack_objects, stack_versions
from ..module_utils._swarm.manager import connect

OPTIONS = dict(
    stack=dict(type="str", default=""),
    services=dict(type="list", elements="dict", default=[]),
    labels=dict(type="dict", default={}),
    images=dict(type="list", elements="str", default=[]),
    query=dict(type="dict", default={}),
    logins=dict(type="str", no_log=True),
    networks=dict(type="list", elements="str", default=[]),
    external=dict(type="dict", default={}),
    compared=dict(type="dict"),
    stack_file=dict(type="str", no_log=True),
    remove=dict(type="dict"),
    archive=dict(type="str", no_log=True),
    with_registry_auth=dict(type="bool", default=False),
    prune=dict(type="bool", default=False),
    save=dict(type="bool", default=False),
    pull_for=dict(type="dict"),
    pulls=dict(type="list", elements="dict"),
    keep=dict(type="str", no_log=True),
)


def run(params, check_mode):
    manager = connect(params)
    if params["save"]:
        return dict(changed=False, saved=saved_ledger.save(manager))
    changed = False if check_mode else _change(manager, params)
    states = _pull(manager, params) if params["pulls"] is not None and not check_mode else []
    answer = dict(swarm_answer.read(manager, params), pulls=states)
    if params["pull_for"] is not None:
        answer["pull_plan"] = pull_run.plan(manager, params, answer["preflight"])
    if params["keep"] is not None:
        changed = _keep(manager, params, "\n".join(answer["kept"] or ()), check_mode) or changed
    return dict(answer, changed=changed)


def _change(manager, params):
    """Deploy the stack and remove objects. Return whether there was anything to do. After an error, a part may have been done."""
    location = stack_directory.parent_directory(), params["stack"], params["docker_host"]
    if params["archive"] or params["remove"] is not None or params["pull_for"] is not None:
        pull_run.sweep(manager, params["stack"])
    try:
        if params["archive"]:
            stack_command.deploy([stack_command.docker_path()], stack_directory.unpack(*location, params["archive"]), params)
        if params["remove"]:
            stack_objects.remove_objects(manager, params["remove"])
    except GpuSwarmError as exc:
        raise GpuSwarmError(exc.message, incomplete=True) from exc
    finally:
        if params["archive"] or params["remove"] is not None:
            stack_directory.remove(*location)
    return bool(params["archive"] or params["remove"])


def _pull(manager, params):
    return pull_run.step(manager, params["stack"], params["pulls"], params["logins"])


def _keep(manager, params, kept, check_mode):
    """Store the deployed stack file, and remove versions of configs and secrets that no service uses. Return whether anything changed."""
    changed = params["keep"] != kept
    if check_mode:
        return changed
    if changed:
        stack_file.store_text(manager, params["stack"], params["keep"])
    return bool(stack_versions.remove_unused(manager, params["stack"])) or changed


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
