#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_stack_files
short_description: The files of a stack, while it is deployed (internal)
version_added: 0.3.0
description:
  - Puts the files of a stack where C(docker stack deploy) can read them, for M(fleet.gpu_swarm.swarm_stack), and removes them afterwards. They have
    secrets in them, and are in memory where the machine's F(/run) is, in a directory of this user's alone.
  - What an earlier run has left that was killed is removed as well.
options:
  state:
    description: Whether the files are to be there.
    type: str
    choices: [present, absent]
    default: present
  stack:
    description: The name of the stack.
    type: str
    required: true
  swarm:
    description: By what the swarm is reached, which distinguishes stacks of one name that one machine deploys to several swarms.
    type: str
    default: ""
  archive:
    description: A zip file with them, in base64. Required with O(state=present).
    type: str
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.swarm_stack
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Remove what a run has left that was killed
  fleet.gpu_swarm.swarm_stack_files:
    state: absent
    stack: train
"""

RETURN = r"""
directory:
  description: Where the files are.
  returned: with O(state=present)
  type: str
  sample: /run/gpu-swarm-stacks/train-e3b0c442
removed:
  description: The names of the directories that were removed.
  returned: with O(state=absent)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
from ..module_utils._errors import GpuSwarmError
from ..module_utils._swarm import stack_directory


def run(params, check_mode):
    folder, stack, swarm = stack_directory.home(), params["stack"], params["swarm"]
    if check_mode:
        return {"changed": params["state"] == "present"}
    if params["state"] == "absent":
        removed = stack_directory.clear(folder, stack, swarm)
        return {"changed": bool(removed), "removed": removed}
    return {"changed": True, "directory": stack_directory.carry(folder, stack, swarm, params["archive"])}


def main():
    module = AnsibleModule(
        argument_spec=dict(
            state=dict(type="str", choices=["present", "absent"], default="present"),
            stack=dict(type="str", required=True),
            swarm=dict(type="str", default="", no_log=False),
            archive=dict(type="str", no_log=True),
        ),
        required_if=[("state", "present", ["archive"])],
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
