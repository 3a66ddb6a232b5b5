#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_requirements
short_description: Reads which driver the images on a node require (internal)
version_added: 0.3.0
description:
  - Reads which of these images a node has, and which driver these images require.
  - Also reads whether the container toolkit of the node refuses a task whose image requires another driver.
  - M(fleet.gpu_swarm.swarm_stack) uses this module.
options:
  images:
    description: The names of the images.
    type: list
    elements: str
    required: true
  docker_socket:
    description: The daemon's local socket.
    type: path
    default: /var/run/docker.sock
  docker_unit:
    description: The daemon's systemd unit.
    type: str
    default: docker.service
  runtime_config:
    description: The NVIDIA Container Toolkit's configuration file.
    type: path
    default: /etc/nvidia-container-runtime/config.toml
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.info_module
  - fleet.gpu_swarm.internal
seealso:
  - module: fleet.gpu_swarm.swarm_stack
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Read the requirements of the images on the node
  fleet.gpu_swarm.image_requirements:
    images: [nvcr.io/nvidia/pytorch:25.10-py3]
"""

RETURN = r"""
images:
  description: For each image that the node has, the variables that say what the image requires of the driver.
  returned: success
  type: dict
  sample: {"nvcr.io/nvidia/pytorch:25.10-py3": {NVIDIA_REQUIRE_CUDA: cuda>=9.0}}
enforces:
  description: Whether the toolkit refuses a task whose image requires another driver. Null if this is unknown.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._config import runtime_toml
from ..module_utils._dockerd.engine import SBIN, Engine
from ..module_utils._errors import GpuSwarmError
from ..module_utils._files import Snapshot
from ..module_utils._machine import toolkit


def run(params, run_command):
    engine = Engine(params["docker_socket"], params["docker_unit"], run_command)
    requirements = {image: engine.required_by(image) for image in params["images"]}
    config = Snapshot.take(params["runtime_config"]).data
    return {
        "changed": False,
        "images": {image: variables for image, variables in requirements.items() if variables is not None},
        "enforces": runtime_toml.enforces_requirements(config, toolkit.read_version(run_command, SBIN)),
    }


def main():
    module = AnsibleModule(
        argument_spec=dict(
            images=dict(type="list", elements="str", required=True),
            docker_socket=dict(type="path", default="/var/run/docker.sock"),
            docker_unit=dict(type="str", default="docker.service"),
            runtime_config=dict(type="path", default="/etc/nvidia-container-runtime/config.toml"),
        ),
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.run_command)
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
