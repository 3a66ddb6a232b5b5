#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: toolkit_files
short_description: Records and restores files that a node had before NVIDIA's repository and packages came (internal)
version_added: 0.3.0
description:
  - Files that come with the NVIDIA Container Toolkit and belong to no package are the definition of the repository, its key, other definitions
    that were edited, and C(config.toml).
  - A role records them in C(/var/lib/gpu-swarm/toolkit-files.json) before it first writes them. So the record also covers a run that failed.
  - A file that somebody has edited since, or that another definition uses, is left alone and reported.
options:
  state:
    description:
      - With V(kept), the files are recorded as they are. With V(written), what a run wrote there is recorded.
      - With V(restored), each recorded file gets its former content, or is removed if it did not exist. A definition of this collection that is not
        recorded, its key, and dangling links to services of the packages are removed too.
    type: str
    choices: [kept, written, restored]
    required: true
  paths:
    description: The files, for V(kept) and V(written).
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
stays:
  description: The files that were left alone, each with the reason.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
from ..module_utils._errors import GpuSwarmError
from ..module_utils._libraries import STATE_DIR
from ..module_utils._machine.toolkit_files import ToolkitFiles


def converge(module):
    files = ToolkitFiles(STATE_DIR)
    if module.params["state"] == "restored":
        return files.restore(module.check_mode, module.atomic_move)
    record = files.record_originals if module.params["state"] == "kept" else files.record_written
    record(module.params["paths"], module.check_mode, module.atomic_move)
    return False, []  # the record is this collection's own file, so nothing of the user's has changed


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["kept", "written", "restored"], "required": True},
            "paths": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        changed, stays = converge(module)
    except GpuSwarmError as problem:
        module.fail_json(msg=problem.message)
    except (OSError, ValueError) as problem:
        module.fail_json(msg=f"The files of the NVIDIA Container Toolkit cannot be kept or restored: {problem}. Fix that and run this again.")
    if stays:
        module.warn(f"These files stay: {'; '.join(stays)}. Remove them if nobody needs them.")
    module.exit_json(changed=changed, stays=stays)


if __name__ == "__main__":
    main()
