# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What files, daemon and drift of a node are decided by: a plain record.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from .._compat.checks import Finding
from .._dockerd.flags import Taken
from .observation import Observation


class Case(NamedTuple):
    """One node and what it is to advertise: what files, daemon and drift are decided by."""

    params: Mapping[str, Any]  # the options of the module gpu_node
    seen: Observation
    taken: Taken  # the options that dockerd is started with by hand, and the units without them
    coming: list[str]  # the resources that move from flags into daemon.json
    advertisement: dict[str, Any]  # as of advertise.decide, with the labels
    findings: Sequence[Finding]  # the known issues that the node has
