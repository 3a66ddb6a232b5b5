# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inputs of the decision about one node: its options, its observed state, and the resources that it should advertise.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .._compat.checks import Finding
from .._dockerd.flags import RemovedFlags
from .observation import Observation


class DecisionInputs(NamedTuple):
    """The data that decides about the files, the daemon and the drift of one node."""

    params: Mapping[str, Any]  # the options of the module gpu_node
    observed: Observation
    removed_flags: RemovedFlags  # the options in the units that start dockerd, and the units without these options
    from_flags: list[str]  # the resources that move from flags into daemon.json
    advertisement: dict[str, Any]  # the result of advertise.decide, with the labels
    findings: Sequence[Finding]  # the known issues of this node
