# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..plugin_utils._carry import CarryingAction
from ..plugin_utils._cpu import ArchspecMissing, cpu_labels


class ActionModule(CarryingAction):
    MODULE = "fleet.gpu_swarm.gpu_node"

    def finish(self, answer):
        return name_cpu(answer)


def name_cpu(answer):
    """The module's answer with the labels that the controller can tell and the node cannot."""
    if "labels" not in answer:
        return answer
    cpu = answer.pop("cpu", None)
    try:
        answer["labels"] = {**answer["labels"], **cpu_labels(cpu)}
    except ArchspecMissing as missing:
        answer["labels_unknown"] = [cpu["label_prefix"]]
        answer["warnings"] = [*(answer.get("warnings") or []), str(missing)]
    return answer
