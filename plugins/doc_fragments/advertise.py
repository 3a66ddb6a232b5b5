# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What a node offers the swarm: the rules about GPUs, and what stands beside and against them."""

    DOCUMENTATION = r"""
options:
  advertise:
    description:
      - The policy, as a list of rules. A GPU belongs to the first rule that selects it, so no GPU can stand in two kinds.
      - With an empty list, nothing is advertised and NVML is not read at all. On a node that advertised GPUs until now, that
        takes consent like any other loss (O(allow_shrink)).
    type: list
    elements: dict
    default:
      - as: gpu
        kind: NVIDIA-GPU
    suboptions:
      as:
        description:
          - With V(gpu), whole GPUs. Each is one named resource of O(advertise[].kind), its value the full UUID.
          - With V(model), whole GPUs, a kind per model. The kind is that of O(advertise[].kinds), else made of the model's name,
            such as C(NVIDIA-H100-80GB-HBM3).
          - With V(vram), memory in MiB, less O(advertise[].reserve_mib). Where the rule owns one GPU of
            the node, the kind is O(advertise[].kind). Where it owns several, each GPU is a kind of its own, named by its PCI
            bus, such as C(VRAM-C1), or C(VRAM-00-1E) where the device on the bus is not 0.
          - With V(slots), slots of a card. Tasks share the card, each is one named resource of O(advertise[].kind), and a task sees the card that
            its slot is of. Of a card in MIG mode, each of its MIG devices has slots as a card has. A guard finds it, at each level of
            O(isolation), since NVIDIA's runtime knows no slot.
          - With V(group), neighbouring GPUs as one unit, O(advertise[].size) of them each. Each group is one named resource of O(advertise[].kind),
            and a task sees all GPUs of its group. A GPU that is left over is not advertised, which is a warning. Groups that the node advertises stay
            as they are while their GPUs are fit and neighbours, so that one that fails changes no other group. A guard finds them, at each
            level of O(isolation), since NVIDIA's runtime knows no group.
          - With V(mig), MIG devices, a kind per profile, such as C(MIG-1g.10gb). Each is one named resource. The rule is for
            cards in MIG mode only, the others go on to the next rule. Without such a rule, a card in MIG mode is excluded.
          - With V(none), left to the host.
        type: str
        choices: [gpu, model, vram, slots, group, mig, none]
        required: true
      kind:
        description:
          - The generic resource's kind, or what the kinds begin with.
          - The default is V(NVIDIA-GPU) with O(advertise[].as=gpu), V(VRAM) with O(advertise[].as=vram), V(NVIDIA-SLOT) with
            O(advertise[].as=slots), V(NVIDIA-GROUP) with O(advertise[].as=group) and V(MIG) with O(advertise[].as=mig).
          - Printable ASCII characters without blanks, C(=), commas and quotes.
        type: str
      kinds:
        description: With O(advertise[].as=model), kinds by shell patterns for the model's name. The first pattern that fits counts.
        type: dict
      reserve_mib:
        description:
          - With O(advertise[].as=vram), the MiB of each GPU that are not advertised.
          - With O(advertise[].as=slots), those of which no slot has a share.
        type: int
      slots:
        description: With O(advertise[].as=slots), how many slots each card has, from 1 to 100. Each has its share of the card's memory.
        type: int
        version_added: 0.3.0
      slot_mib:
        description:
          - With O(advertise[].as=slots), the MiB of each slot. A card has as many as fit into its memory, less O(advertise[].reserve_mib).
            So one kind of a fleet of many models stands for a GPU with so much to spare.
          - Such a rule takes either this or O(advertise[].slots).
        type: int
        version_added: 0.3.0
      slots_together:
        description:
          - With O(advertise[].as=slots), whether a task is refused to which swarm gave slots of several cards. By default it starts, sees them all,
            and RV(isolation) counts it. With O(isolation=off) none is refused or counted.
        type: bool
        version_added: 0.3.0
      size:
        description: With O(advertise[].as=group), how many GPUs are one unit, from 2 on. Such a rule takes it.
        type: int
        version_added: 0.3.0
      by:
        description:
          - With O(advertise[].as=group), which GPUs are neighbours. Each GPU of a group is one of each other, and all are of one model.
          - With V(nvlink), which is the default, those that reach each other over NVLink, directly or by NVSwitches. Those with the most links from
            one to the other go first, then those that are the nearest on PCIe.
          - With V(pcie), those of one socket, the nearest on PCIe first.
        type: str
        choices: [nvlink, pcie]
        version_added: 0.3.0
      sum:
        description:
          - With O(advertise[].as=vram), advertise one sum over the GPUs of the node.
          - Swarm then accepts tasks that fit on no single GPU. It is a warning too.
        type: bool
      system_memory:
        description:
          - With O(advertise[].as=vram), advertise the system's memory for a GPU that has none of its own (unified memory).
          - Without it, such a GPU is an error here. It can be advertised whole with O(advertise[].as=gpu).
        type: bool
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
            description: NVML indices. An index moves when a card fails; a PCI address or UUID does not.
            type: list
            elements: int
          model:
            description: Shell patterns for the model's name, such as V(*H100*).
            type: list
            elements: str
          min_memory_mib:
            description: The least total memory, in MiB.
            type: int
  extra_resources:
    description:
      - Generic resources of yours besides GPUs, as C(KIND=value), with an amount or a name as value.
      - What others wrote into C(node-generic-resources) stays. A kind that is listed here is owned by this option, whoever wrote it before.
    type: list
    elements: str
    default: []
  expect:
    description:
      - How many GPUs and MIG devices this node is to advertise at least. With fewer, the module fails.
      - It is also the consent to advertise less than before, down to this number.
    type: int
  allow_shrink:
    description:
      - Whether the node may advertise less than its daemon shows now, or than was written before. Without consent by this
        option or O(expect), a GPU or MIG device that is lost, or that no rule selects any more, makes the module fail before it
        writes anything.
      - What a rule leaves to the host (V(none) of O(advertise[].as)) is no loss.
    type: bool
    default: false
  accept_risks:
    description:
      - Known issues, by their names, that are warnings and not refused.
      - C(docs/TRAPS.md) lists all of them, with what goes wrong.
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
