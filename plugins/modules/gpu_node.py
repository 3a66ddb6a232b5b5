#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node
short_description: Makes a Docker node advertise its NVIDIA GPUs to the swarm
version_added: 0.1.0
description:
  - Reads the node's GPUs through NVML, decides what the node advertises, and merges that into C(daemon.json)
    (C(default-runtime), C(runtimes.nvidia), C(node-generic-resources)) and into the NVIDIA Container Toolkit's
    C(config.toml) (C(swarm-resource), derived from the kinds so that it can never name a wrong variable).
    Everything else in both files stays as it is, byte for byte.
  - One call is one transaction under a lock on the node. It validates, notes what it is about to do, writes, restarts
    the daemon if that is needed, waits until the daemon shows what was decided, or puts everything back.
  - Whether a restart is needed is judged by what the running daemon says, not by the files. C(node-generic-resources)
    is read once at the daemon's start; C(runtimes) alone is taken by a reload.
  - In check mode it is the assessment of a node. It changes nothing and answers in one call all that a run needs to know.
options:
  state:
    description:
      - With V(present), the node advertises what O(advertise) decides.
      - With V(absent), what this module wrote is taken back. A file that nobody edited since gets its original bytes
        back. Of a file that somebody edited, only our keys are taken out and their former values put back.
    type: str
    choices: [present, absent]
    default: present
  restart:
    description:
      - With V(if_needed), the daemon is restarted or reloaded if what it runs with differs from what was decided.
      - With V(never), only the files are edited. This also works where no engine runs, such as in image building.
    type: str
    choices: [never, if_needed]
    default: if_needed
  when_busy:
    description:
      - What to do when a restart is needed while containers run on this node. A restart stops all of them.
      - With V(refuse), the module fails before it writes anything, and names the containers.
      - With V(restart), the containers are stopped.
    type: str
    choices: [refuse, restart]
    default: refuse
  advertise:
    description:
      - The policy, as a list of rules. A GPU belongs to the first rule that selects it, so no GPU can stand in two kinds.
      - With an empty list, nothing is advertised and NVML is not read at all.
    type: list
    elements: dict
    default:
      - as: gpu
        kind: NVIDIA-GPU
    suboptions:
      as:
        description:
          - With V(gpu), each selected GPU is one named resource of O(advertise[].kind), its value the full UUID.
          - With V(none), the selected GPUs are left to the host.
        type: str
        choices: [gpu, none]
        required: true
      kind:
        description:
          - The generic resource's kind, such as V(NVIDIA-GPU). Required with O(advertise[].as=gpu).
          - ASCII letters, digits, dots, dashes and underscores.
        type: str
      select:
        description:
          - Which GPUs the rule is for. A GPU must match every key that is given. Without it, the rule is for all.
        type: dict
        suboptions:
          uuid:
            description: Full UUIDs.
            type: list
            elements: str
          pci_bus_id:
            description: PCI addresses, such as V(00000000:C1:00.0).
            type: list
            elements: str
          index:
            description: NVML indices. An index moves when a card dies; a PCI address or UUID does not.
            type: list
            elements: int
          model:
            description: Shell patterns for the model's name, such as V(*H100*).
            type: list
            elements: str
          min_memory_mib:
            description: The least total memory, in MiB.
            type: int
  daemon_config:
    description: The daemon's configuration file. A symbolic link is followed and stays one.
    type: path
    default: /etc/docker/daemon.json
  runtime_config:
    description: The NVIDIA Container Toolkit's configuration file.
    type: path
    default: /etc/nvidia-container-runtime/config.toml
  nvml_path:
    description: The file C(libnvidia-ml.so.1) or its directory, where the dynamic linker does not find it by itself.
    type: path
  library_path:
    description:
      - A directory or zip file from which to load C(pynvml) and C(tomli) where the node does not have them.
      - The action plugin of this module sets it by itself, with copies from the controller.
    type: path
  docker_socket:
    description:
      - The daemon's local socket. Where the daemon listens on another one, as C(hosts) in C(daemon.json) or C(-H) in its
        unit say, give that.
    type: path
    default: /var/run/docker.sock
  docker_unit:
    description: The daemon's systemd unit.
    type: str
    default: docker.service
  state_dir:
    description: Where the original files and the record of what was taken over are kept, mode 0700.
    type: path
    default: /var/lib/gpu-swarm
  timeout:
    description: How long to wait for a restart of the daemon, and for another run on the same node, in seconds.
    type: int
    default: 120
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    platforms: linux
requirements:
  - systemd
  - The NVIDIA driver's C(libnvidia-ml.so.1)
notes:
  - The node needs no Python packages. The action plugin carries C(pynvml) from the controller's C(nvidia-ml-py).
seealso:
  - module: fleet.gpu_swarm.gpu_info
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Advertise every GPU of this node as NVIDIA-GPU
  fleet.gpu_swarm.gpu_node:

- name: See what a run would change, and which containers a restart would stop
  fleet.gpu_swarm.gpu_node:
  check_mode: true
  diff: true
  register: assessment

- name: Leave one card to the host
  fleet.gpu_swarm.gpu_node:
    advertise:
      - as: none
        select:
          pci_bus_id: ["00000000:C1:00.0"]
      - as: gpu
        kind: NVIDIA-GPU

- name: Prepare a machine image, where no engine runs
  fleet.gpu_swarm.gpu_node:
    restart: never

- name: Give the node back as it was
  fleet.gpu_swarm.gpu_node:
    state: absent
"""

RETURN = r"""
gpus:
  description: The node's GPUs, as M(fleet.gpu_swarm.gpu_info) returns them.
  returned: success
  type: list
  elements: dict
driver_version:
  description: The NVIDIA driver's version.
  returned: when NVML was read
  type: str
  sample: 580.65.06
cuda_version:
  description: The newest CUDA version that the driver supports.
  returned: when NVML was read
  type: str
  sample: "13.0"
resources:
  description: What this node is to advertise of ours, as C(KIND=value).
  returned: success
  type: list
  elements: str
  sample: ["NVIDIA-GPU=GPU-5ec2f1f4-9c1c-5d0a-8b4e-0c1a7f3e2d11"]
kinds:
  description: The kinds of RV(resources).
  returned: success
  type: list
  elements: str
  sample: [NVIDIA-GPU]
swarm_resource:
  description: The C(swarm-resource) line of C(config.toml) that belongs to RV(kinds).
  returned: success
  type: str
  sample: DOCKER_RESOURCE_NVIDIA-GPU
labels:
  description: Node labels that are true of this node, to be set by M(fleet.gpu_swarm.swarm_nodes) on a manager.
  returned: success
  type: dict
  sample: {"gpu.count": "8", "gpu.model": "NVIDIA-H100-80GB-HBM3"}
left_out:
  description: GPUs that are not advertised, each with C(index), C(uuid), C(name) and the C(reason).
  returned: success
  type: list
  elements: dict
missing:
  description:
    - What the node lacks. V(nvml_binding), V(toml_parser), V(toolkit), V(engine), V(docker_sdk).
    - In check mode this is information. When applying, what is needed for the change is an error.
  returned: success, and with an error for want of one of these
  type: list
  elements: str
drift:
  description: Each difference between the node and what was decided, in words.
  returned: success
  type: list
  elements: str
  sample: ["8 GPUs not advertised"]
restart_required:
  description: Whether the daemon must be started anew for it to advertise what was decided.
  returned: success
  type: bool
restarted:
  description: Whether the daemon was started anew.
  returned: success
  type: bool
reloaded:
  description: Whether the daemon was told to reload its configuration.
  returned: success
  type: bool
toolkit_version:
  description: The version of the NVIDIA Container Toolkit, or null where it is not installed.
  returned: success
  type: str
  sample: 1.20.0
engine:
  description:
    - The Docker daemon, with C(running), C(version), C(api_version), C(unit), C(socket), C(flavour), C(root_dir),
      C(default_runtime), C(runtimes), C(generic_resources), C(live_restore) and C(started_at), as it was found.
    - Null where Docker Engine is not installed.
  returned: always, also with an error, unless the daemon itself could not be asked
  type: dict
swarm:
  description:
    - The node's own view of its membership, with C(state), C(node_id), C(addr), C(control_available), C(error),
      C(managers) and C(half_joined).
    - The C(state) is V(inactive), V(pending), V(active), V(error), V(locked), or V(unknown) where the daemon is not
      running. A node whose membership is V(unknown) may be a member of a swarm, even a manager.
  returned: always, also with an error, unless the daemon itself could not be asked
  type: dict
containers:
  description: The running containers, each with C(id), C(name), C(image), C(service) and C(task). A restart stops them.
  returned: always, also with an error, unless the daemon itself could not be asked
  type: list
  elements: dict
"""

import errno

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import GpuSwarmError
from ..module_utils._node import Node


def run(module, argv):
    """``(rc, stdout, stderr)`` of a command; one that is not there, as in a container without systemd, is no end."""
    try:
        return module.run_command(argv, handle_exceptions=False)
    except OSError as problem:
        return 127, "", "%s: %s" % (argv[0], problem.strerror)


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "restart": {"type": "str", "choices": ["never", "if_needed"], "default": "if_needed"},
            "when_busy": {"type": "str", "choices": ["refuse", "restart"], "default": "refuse"},
            "advertise": {
                "type": "list",
                "elements": "dict",
                "default": [{"as": "gpu", "kind": "NVIDIA-GPU"}],
                "options": {
                    "as": {"type": "str", "choices": ["gpu", "none"], "required": True},
                    "kind": {"type": "str"},
                    "select": {
                        "type": "dict",
                        "options": {
                            "uuid": {"type": "list", "elements": "str"},
                            "pci_bus_id": {"type": "list", "elements": "str"},
                            "index": {"type": "list", "elements": "int"},
                            "model": {"type": "list", "elements": "str"},
                            "min_memory_mib": {"type": "int"},
                        },
                    },
                },
            },
            "daemon_config": {"type": "path", "default": "/etc/docker/daemon.json"},
            "runtime_config": {"type": "path", "default": "/etc/nvidia-container-runtime/config.toml"},
            "nvml_path": {"type": "path"},
            "library_path": {"type": "path"},
            "docker_socket": {"type": "path", "default": "/var/run/docker.sock"},
            "docker_unit": {"type": "str", "default": "docker.service"},
            "state_dir": {"type": "path", "default": "/var/lib/gpu-swarm"},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    node = Node(module.params, run=lambda argv: run(module, argv), move=module.atomic_move, diff=module._diff)
    try:
        result = node.assess() if module.check_mode else node.converge()
    except GpuSwarmError as problem:
        module.fail_json(msg=problem.message, **dict(node.told, **problem.details))
    except OSError as problem:
        remedy = "Add 'become: true'" if problem.errno in (errno.EACCES, errno.EPERM) else "Mend that"
        module.fail_json(msg="%s: %s. %s, and run this again." % (problem.filename, problem.strerror, remedy), **node.told)
    for text in result.pop("warnings"):
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
