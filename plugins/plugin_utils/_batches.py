# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which batches the nodes that carry work are changed (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..module_utils._errors import GpuSwarmError
from ..module_utils._share import count_of

# After the canary, when the user says nothing.
SHARE = "10%"


def batches(models: dict[str, str], setting: Any = None) -> list[list[str]]:
    """The hosts in their order, in batches. ``models`` tells the GPUs of each host, by its name.

    ``setting`` is ``provision_batch``: a number, a percentage, or a list of these of which the last one goes on, as for
    Ansible's ``serial``. Without it the first batch is one host of each model, the others a tenth of the fleet.
    """
    names = list(models)
    if setting in (None, ""):
        canary = [name for here, name in enumerate(names) if models[name] not in [models[one] for one in names[:here]]]
        rest = [name for name in names if name not in canary]
        return [batch for batch in [canary, *_cut(rest, [_size(SHARE, len(names))])] if batch]
    sizes = setting if isinstance(setting, (list, tuple)) else [setting]
    return _cut(names, [_size(one, len(names)) for one in sizes])


def _cut(names: list[str], sizes: Sequence[int]) -> list[list[str]]:
    cut: list[list[str]] = []
    at = 0
    while at < len(names):
        size = sizes[min(len(cut), len(sizes) - 1)]
        cut.append(names[at : at + size])
        at += size
    return cut


def _size(one: Any, total: int) -> int:
    size = count_of(one, total)
    if size is None:
        raise GpuSwarmError(f"provision_batch: {one!r} is no size of a batch. Give a number such as 2, a share such as 25%, or a list of these.")
    return size
