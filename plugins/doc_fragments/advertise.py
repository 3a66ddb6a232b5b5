# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What a node advertises: the rules about GPUs, other resources, and consent."""

    DOCUMENTATION = r"""
options:
  advertise:
    description:
      - The policy, as a list of rules. A GPU belongs to the first rule that selects it, so no GPU is advertised twice.
      - With an empty list, nothing is advertised and NVML is not read. If the node advertised GPUs before, this needs your consent
        (O(allow_shrink)).
    type: list
    elements: dict
    default:
      - as: gpu
        kind: NVIDIA-GPU
    suboptions:
      as:
        description:
          - With V(gpu), whole GPUs. Each GPU is one named resource of O(advertise[].kind). Its value is the full UUID.
          - With V(model), whole GPUs, a kind per model. The kind comes from O(advertise[].kinds), or from the model's name,
            such as C(NVIDIA-H100-80GB-HBM3).
          - With V(vram), memory in MiB, minus O(advertise[].reserve_mib). If the rule selects one GPU of the node, the kind is
            O(advertise[].kind). If the rule selects several GPUs, each GPU has its own kind with the number of its PCI bus, such as C(VRAM-C1), or
            C(VRAM-00-1E) if the device number is not 0.
          - With V(slots), slots of a card. Several tasks share the card. Each slot is one named resource of O(advertise[].kind). A task sees the card
            of its slot. In MIG mode, each MIG device has slots. NVIDIA's runtime does not know slots, so a guard translates slots to cards at each
            level of O(isolation).
          - With V(group), neighbouring GPUs as one unit. Each unit has O(advertise[].size) GPUs and is one named resource of
            O(advertise[].kind). A task sees all GPUs of its group. If GPUs are left over, they are not advertised, and you get a warning. A group
            is kept while its GPUs are healthy neighbours, so a failed GPU does not change other groups. NVIDIA's runtime does not know groups, so a
            guard translates groups to cards at each level of O(isolation).
          - With V(mig), MIG devices, a kind per profile, such as C(MIG-1g.10gb). Each device is one named resource.
            The rule applies only to cards in MIG mode. The next rules apply to other cards. Without such a rule, a card in MIG mode is excluded.
          - With V(none), left to the host. These GPUs are not advertised.
        type: str
        choices: [gpu, model, vram, slots, group, mig, none]
        required: true
      kind:
        description:
          - The resource kind, or the prefix of the kinds.
          - The default is V(NVIDIA-GPU) with O(advertise[].as=gpu), V(VRAM) with O(advertise[].as=vram), V(NVIDIA-SLOT) with
            O(advertise[].as=slots), V(NVIDIA-GROUP) with O(advertise[].as=group) and V(MIG) with O(advertise[].as=mig).
          - Use printable ASCII characters, but no blanks, C(=), commas or quotes.
        type: str
      kinds:
        description: With O(advertise[].as=model), a dictionary from shell patterns for the model's name to resource kinds. The first matching
          pattern applies.
        type: dict
      reserve_mib:
        description:
          - With O(advertise[].as=vram), how many MiB of each GPU are not advertised.
          - With O(advertise[].as=slots), how many MiB of each card are not divided among its slots.
        type: int
      slots:
        description: With O(advertise[].as=slots), how many slots each card has, from 1 to 100. The card's memory is divided among its slots.
        type: int
        version_added: 0.3.0
      slot_mib:
        description:
          - With O(advertise[].as=slots), the MiB of each slot. A card has as many slots as fit into its memory, minus O(advertise[].reserve_mib).
            So one kind means the same amount of memory on all models of a fleet.
          - Use either this or O(advertise[].slots).
        type: int
        version_added: 0.3.0
      slots_together:
        description:
          - With O(advertise[].as=slots), whether a task with slots of several cards is refused. By default, such a task starts, sees all these
            cards, and is counted in RV(isolation). With O(isolation=off), no task is refused or counted.
        type: bool
        version_added: 0.3.0
      size:
        description: With O(advertise[].as=group), how many GPUs are one unit, 2 or more. V(group) requires this option.
        type: int
        version_added: 0.3.0
      by:
        description:
          - With O(advertise[].as=group), which GPUs are neighbours. All GPUs of a group are neighbours of each other and of the same model.
          - With V(nvlink), the default, neighbours are connected by NVLink, directly or by NVSwitches. GPUs with the most links are grouped first,
            then the nearest on PCIe.
          - With V(pcie), neighbours are on the same socket. The nearest on PCIe are grouped first.
        type: str
        choices: [nvlink, pcie]
        version_added: 0.3.0
      sum:
        description:
          - With O(advertise[].as=vram), advertise the sum of the memory of all GPUs of the node.
          - Swarm then accepts tasks that fit on no single GPU, so you get a warning.
        type: bool
      system_memory:
        description:
          - With O(advertise[].as=vram), advertise the system's memory for a GPU without its own memory (unified memory).
          - Without this option, V(vram) is an error for such a GPU. You can advertise the whole GPU with O(advertise[].as=gpu).
        type: bool
      select:
        description:
          - The GPUs of the rule. A GPU must match every key. Without this option, the rule applies to all GPUs.
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
            description: NVML indices. The index of a card may change when another card fails. A PCI address or UUID does not change.
            type: list
            elements: int
          model:
            description: Shell patterns for the model's name, such as V(*H100*).
            type: list
            elements: str
          min_memory_mib:
            description: The minimum total memory, in MiB.
            type: int
  extra_resources:
    description:
      - Your own generic resources besides GPUs, as C(KIND=value), with an amount or a name as value.
      - Entries of other kinds in C(node-generic-resources) are kept. This option replaces all entries of the kinds that it lists, no matter who
        wrote these entries.
    type: list
    elements: str
    default: []
  expect:
    description:
      - The minimum number of GPUs and MIG devices that this node must advertise. If it has fewer, the module fails.
      - This option is also your consent to advertise less than before, down to this number.
    type: int
  allow_shrink:
    description:
      - Whether the node may advertise less than its daemon shows now, or less than the module wrote before.
      - If a GPU or MIG device is lost, or no rule selects it any more, you must consent with this option or O(expect). Otherwise the module fails
        before it writes anything.
      - You need not consent if a rule with V(none) of O(advertise[].as) selects the GPU.
    type: bool
    default: false
  accept_risks:
    description:
      - The names of known issues that cause a warning instead of an error.
      - C(docs/fix/known-issues.md) describes these issues.
    type: list
    elements: str
    choices:
      - kind-gpu-line-is-dropped
      - mode-ignores-swarm-resource
      - config-toml-refused
      - variables-not-accepted
      - no-cgroups
      - capabilities-not-supported
      - toolkit-starts-no-container
      - discrete-tasks-rejected
    default: []
"""
