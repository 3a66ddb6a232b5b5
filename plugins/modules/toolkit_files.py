#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: toolkit_files
short_description: Records and restores files that a node had before NVIDIA's repository and packages were added (internal)
version_added: 0.3.0
description:
  - The files are the definition of NVIDIA's repository, its key, other edited definitions, and C(config.toml). No package owns them, so no package
    manager restores them.
  - A role records the files in C(/var/lib/gpu-swarm/toolkit-files.json) before it writes them for the first time. So the record is complete even if
    the run fails later.
  - If someone has edited a file since, or if another definition uses it, the module leaves it alone and reports it.
options:
  state:
    description:
      - With V(recorded), the module records the original files. With V(written), it records the files that a run has written.
      - With V(restored), the module writes the former content of each recorded file. A file that did not exist before is removed. The module also
        removes this collection's definition and key if they are not recorded, and dangling links to services of the packages.
    type: str
    choices: [recorded, written, restored]
    required: true
  paths:
    description: The files. Used with V(recorded) and V(written).
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Restore the files of the node
  fleet.gpu_swarm.toolkit_files:
    state: restored
"""

RETURN = r"""
left_alone:
  description: The files that the module left alone, each with the reason.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._errors import GpuSwarmError
from ..module_utils._libraries import STATE_DIR
from ..module_utils._machine.toolkit_files import ToolkitFiles


def converge(module):
    files = ToolkitFiles(STATE_DIR)
    if module.params["state"] == "restored":
        return files.restore(module.check_mode, module.atomic_move)
    record = files.record_originals if module.params["state"] == "recorded" else files.record_written
    record(module.params["paths"], module.check_mode, module.atomic_move)
    return False, []  # no change for the user, because only this collection's own record has changed


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["recorded", "written", "restored"], "required": True},
            "paths": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        changed, left_alone = converge(module)
    except GpuSwarmError as problem:
        module.fail_json(msg=problem.message)
    except (OSError, ValueError) as problem:
        module.fail_json(msg=f"The files of the NVIDIA Container Toolkit cannot be recorded or restored: {problem}. Fix that and run this again.")
    if left_alone:
        module.warn(f"These files were not removed: {'; '.join(left_alone)}. Remove them if nobody needs them.")
    module.exit_json(changed=changed, left_alone=left_alone)


if __name__ == "__main__":
    main()
