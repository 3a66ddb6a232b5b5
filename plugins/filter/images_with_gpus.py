# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: images_with_gpus
short_description: Returns the images of services that reserve GPUs (internal)
version_added: 0.3.0
description:
  - Takes the path of a Compose file and returns the images of services that reserve GPUs. Nodes then read what these images require of the driver.
  - Returns nothing for an invalid file, because M(fleet.gpu_swarm.swarm_stack) reports its errors.
options:
  _input:
    description: The path of the Compose file, on the machine that runs Ansible.
    type: path
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Read the requirements of images on the nodes
  fleet.gpu_swarm.image_requirements:
    images: "{{ 'compose.yml' | fleet.gpu_swarm.images_with_gpus }}"
"""

RETURN = r"""
_value:
  description: The names of the images.
  type: list
  elements: str
"""

import os

from ..module_utils._errors import GpuSwarmError


def _images_with_gpus(compose):
    # Imported here, because ansible-core loads all filters of a collection in every run.
    from ..plugin_utils._stack.deploy_preconditions import images_with_gpus
    from ..plugin_utils._stack.folder import Folder
    from ..plugin_utils._stack.translate import translate

    folder = Folder(str(compose))
    try:
        return images_with_gpus(translate(folder.text(), folder.name, folder.read, dict(os.environ), offered=None))
    except GpuSwarmError:
        return []


class FilterModule:
    def filters(self):
        return {"images_with_gpus": _images_with_gpus}
