# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: memory_fraction
short_description: Returns the fraction of a card's memory that a framework may allocate within a share
version_added: 0.3.0
description:
  - "The fraction is (share - overhead) / memory of the card, rounded down to six digits. The overhead is the memory that CUDA uses for each
    process, besides the memory that the framework allocates."
  - All numbers must be whole numbers of MiB. The share and the card must be at least 1, and the overhead at least 0. The share must not be larger
    than the card, and must be larger than the overhead.
  - If the node has the guard, a task with a slot or a share of V(VRAM) has the same number in its variable E(GPU_MEMORY_FRACTION)
    (docs/run/sharing.md). Use this filter for services that are made for one model of card, and for clusters without the guard.
options:
  _input:
    description: The share, in MiB.
    type: int
    required: true
  card:
    description: The memory of the card or MIG device, in MiB, as RV(fleet.gpu_swarm.gpu_info#module:gpus[].memory_mib) returns it.
    type: int
    required: true
  overhead:
    description: The memory that CUDA uses for each process, in MiB. The guard uses C(gpu_node_cuda_overhead_mib).
    type: int
    default: 300
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: A service with 4000 MiB of a Tesla T4 (15360 MiB)
  ansible.builtin.debug:
    msg: "{{ 4000 | fleet.gpu_swarm.memory_fraction(card=15360) }}" # 0.240885
"""

RETURN = r"""
_value:
  description: The fraction, above 0 and at most 1.
  type: float
"""

from ansible.errors import AnsibleFilterError

from ..module_utils._guard.share import decimal, millionths


def _memory_fraction(share, card, overhead=300):
    share, card, overhead = (_mib(*argument) for argument in (("the share", share, 1), ("card", card, 1), ("overhead", overhead, 0)))
    if share > card:
        raise AnsibleFilterError(f"memory_fraction: the share is {share} MiB, but the card has only {card} MiB. Give both in MiB")
    fraction = millionths(share, card, overhead)
    if fraction <= 0:
        raise AnsibleFilterError(
            f"memory_fraction: nothing is left of a share of {share} MiB, because CUDA takes {overhead} MiB (overhead). Use a larger share"
        )
    return float(decimal(fraction))


def _mib(name, value, minimum):
    try:
        number = int(str(value))
    except ValueError:
        number = None
    if number is None or number < minimum:
        raise AnsibleFilterError(f"memory_fraction: {name} is {value!r}. Give a whole number of MiB, at least {minimum}")
    return number


class FilterModule:
    def filters(self):
        return {"memory_fraction": _memory_fraction}
