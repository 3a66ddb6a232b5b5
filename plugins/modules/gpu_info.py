#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Reads the NVIDIA GPUs of a node
version_added: 0.1.0
description:
  - Reads every GPU of the node through NVML. NVML is NVIDIA's management library, and is part of the driver. The module changes nothing.
  - Every number is read from the driver. A value that a card or a driver does not support is null.
  - If a GPU fails, the module still returns all GPUs. The failed GPU has RV(gpus[].health.state=failed), the reason from NVML, and the values that
    could be read.
  - If the node does not have the Python binding of NVML, the controller sends its own copy for this task. The module installs nothing on the node.
    The node needs no network access.
options:
  library_path:
    description:
      - A directory or zip file on the node to load C(pynvml) from, if the node's own Python does not have it.
      - If not given, the module tries the libraries that M(fleet.gpu_swarm.gpu_node) keeps on the node. If they are missing, the controller sends its
        copy.
    type: path
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.info_module
  - fleet.gpu_swarm.nvml
requirements:
  - The NVIDIA driver on the node.
  - The Python package C(nvidia-ml-py) on the controller or on the node.
seealso:
  - module: fleet.gpu_swarm.gpu_node
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Read the GPUs
  fleet.gpu_swarm.gpu_info:
  register: node

- name: Show the GPUs
  ansible.builtin.debug:
    msg: "{{ item.index }} {{ item.name }} {{ item.memory_mib }} MiB {{ item.uuid }}"
  loop: "{{ node.gpus }}"
  loop_control:
    label: "{{ item.index }}"

- name: Stop if a GPU has failed
  ansible.builtin.assert:
    that: node.gpus | selectattr('health.state', 'eq', 'failed') | length == 0
    fail_msg: "{{ node.gpus | map(attribute='health') | map(attribute='reasons') | flatten }}"

- name: Read the GPUs with an NVML library in another directory
  fleet.gpu_swarm.gpu_info:
    nvml_path: /opt/nvidia/lib/libnvidia-ml.so.1
"""

RETURN = r"""
driver_version:
  description: The NVIDIA driver's version.
  returned: success
  type: str
  sample: 580.95.05
nvml_version:
  description: The version of the NVML library.
  returned: success
  type: str
  sample: 13.580.95.05
cuda_version:
  description: The newest CUDA version that the driver supports. Null if the driver has no CUDA library.
  returned: success
  type: str
  sample: "13.0"
missing:
  description: Contains V(nvml_binding) if C(pynvml) was not found.
  returned: failure
  type: list
  elements: str
  sample: [nvml_binding]
gpus:
  description:
    - The GPUs in NVML's order. Empty if the driver finds none.
    - Every GPU has all keys. A value that could not be read, or that the card does not have, is null.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: The number of the GPU in NVML's order, as C(nvidia-smi) shows it. The number may change with a reboot.
      type: int
      sample: 0
    uuid:
      description: The full UUID.
      type: str
      sample: GPU-4363a5f3-b2a5-5106-b98c-ba8bda503bb6
    name:
      description: The product name.
      type: str
      sample: NVIDIA H100 80GB HBM3
    model:
      description: The product name in the form that node labels use.
      type: str
      sample: NVIDIA-H100-80GB-HBM3
    memory_mib:
      description: The total memory of the GPU, in MiB. Null for GPUs that share the machine's memory.
      type: int
      sample: 81559
    compute_capability:
      description: The CUDA compute capability.
      type: str
      sample: "9.0"
    architecture:
      description: The architecture's name in lower case.
      type: str
      sample: hopper
    pci_bus_id:
      description: The PCI address.
      type: str
      sample: "00000000:C1:00.0"
    serial:
      description: The serial number, as printed on the card. Null for cards without one, such as most desktop cards.
      type: str
      version_added: 0.3.0
    minor_number:
      description: The N of C(/dev/nvidiaN).
      type: int
      sample: 0
    numa_node:
      description: The nearest NUMA node of the machine.
      type: int
      sample: 0
    mig:
      description: Whether the card is divided into MIG devices.
      type: dict
      contains:
        mode:
          description: V(enabled), V(disabled), or null for a card without MIG.
          type: str
          sample: disabled
        pending:
          description: The mode after the next reset of the GPU.
          type: str
          sample: disabled
    mig_devices:
      description: The MIG devices of a card whose RV(gpus[].mig.mode) is V(enabled).
      type: list
      elements: dict
      contains:
        uuid:
          description: The full UUID of the MIG device.
          type: str
          sample: MIG-0d0607e3-55be-57d5-8487-5223cd420c1c
        profile:
          description: The profile of the MIG device.
          type: str
          sample: 3g.40gb
        memory_mib:
          description: The memory of the MIG device, in MiB.
          type: int
          sample: 40192
        gpu_instance_id:
          description: The GPU instance that the MIG device belongs to.
          type: int
          sample: 2
        compute_instance_id:
          description: The compute instance within the GPU instance.
          type: int
          sample: 0
    health:
      description: Whether the GPU works, with its error counters.
      type: dict
      contains:
        state:
          description:
            - V(ok) for a GPU without problems.
            - V(warning) for a GPU that works but needs attention, such as a reset.
            - V(failed) for a GPU that no task must use.
          type: str
          sample: ok
        reasons:
          description: Why the state is not V(ok).
          type: list
          elements: str
          sample: [GPU is lost]
        ecc_mode:
          description: Whether ECC is enabled for the memory of the GPU.
          type: bool
          sample: true
        ecc_errors_uncorrected:
          description: Uncorrected memory errors since the driver was loaded.
          type: int
          sample: 0
        ecc_errors_corrected:
          description: Corrected memory errors since the driver was loaded.
          type: int
          sample: 0
        remapped_rows:
          description: Memory rows that were replaced by spare ones. Null before the Ampere architecture.
          type: dict
          contains:
            correctable:
              description: Rows that were remapped because of correctable errors.
              type: int
              sample: 0
            uncorrectable:
              description: Rows that were remapped because of uncorrectable errors.
              type: int
              sample: 0
            pending:
              description: Whether a row will be remapped at the next reset.
              type: bool
              sample: false
            failure:
              description: Whether a remapping failed, so that the card must be replaced.
              type: bool
              sample: false
        recovery_action:
          description:
            - The action that the driver requires before the GPU can be used again. V(none) means that no action is required. V(unknown) means that
              this collection does not know the action. Null if the driver does not report an action.
          type: str
          sample: none
          version_added: 0.3.0
        retired_pages:
          description: Memory pages that are no longer used. Null from the Ampere architecture on.
          type: dict
          contains:
            single_bit:
              description: Pages that were retired because of repeated correctable errors.
              type: int
              sample: 0
            double_bit:
              description: Pages that were retired because of an uncorrectable error.
              type: int
              sample: 0
            pending:
              description: Whether a page will be retired at the next reboot.
              type: bool
              sample: false
    links:
      description: The connections of the GPU.
      type: dict
      contains:
        nvlink_active:
          description: The number of NVLinks that are up. Null for a card without NVLink.
          type: int
          sample: 18
        nvlink_total:
          description: The number of NVLinks that the card has.
          type: int
          sample: 18
        nvlink_peers:
          description: The number of NVLinks to each other GPU, by UUID. V(0) means that they are connected through NVSwitches.
          type: dict
          sample: {GPU-7020a5d0-4fbf-5b4d-ae4c-8cd10e1f7e89: 0}
          version_added: 0.3.0
        topology:
          description:
            - The kind of connection to each other GPU, by UUID.
            - V(internal) means that both GPUs are on the same board. V(single) means one PCIe switch, and V(multiple) means several PCIe switches.
              V(hostbridge) means one host bridge, V(node) means one NUMA node, and V(system) means the link between sockets.
          type: dict
          sample: {GPU-7020a5d0-4fbf-5b4d-ae4c-8cd10e1f7e89: node}
    power:
      description: The power settings of the GPU.
      type: dict
      contains:
        limit_w:
          description: The power limit, in W.
          type: float
          sample: 700.0
        persistence_mode:
          description: Whether the driver keeps the GPU initialised while no process uses it.
          type: bool
          sample: true
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._errors import GpuSwarmError
from ..module_utils._gpu.nvml import read_within
from ..module_utils._libraries import LIBRARIES, write_received


def main():
    module = AnsibleModule(
        argument_spec={
            "nvml_path": {"type": "path"},
            "nvml_timeout": {"type": "int", "default": 60},
            "library_path": {"type": "path"},
            "libraries": LIBRARIES,
        },
        supports_check_mode=True,
    )
    library_path = module.params["library_path"] or write_received(module.params["libraries"], module.tmpdir)
    try:
        result = read_within(module.params["nvml_timeout"], module.params["nvml_path"], library_path)
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
