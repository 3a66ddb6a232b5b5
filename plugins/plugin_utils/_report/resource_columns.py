# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The columns *advertised* and *free* of the table (pure): what the manager shows, and the decision if it differs.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._ledger.unreserved import GPU_VALUES
from ...module_utils._policy import generic_resources
from ...module_utils._view.table import NOTHING


def advertised(answer: Mapping[str, Any], node: Mapping[str, Any] | None) -> str:
    """Return for example ``4 NVIDIA-GPU``, or ``4 NVIDIA-GPU (decided: 8)`` if the decision differs.

    ``answer`` is the host's latest answer of gpu_node, ``node`` its entry in the manager's ledger. For a host outside a swarm, the
    resources of its own daemon are shown.
    """
    shown = _running_resources(answer) if node is None else _offered(node)
    text = _describe(shown) or NOTHING
    differs = _differing_kinds(answer, shown)
    return text if differs is None else f"{text} (decided: {_describe_decided(differs, shown)})"


def free(node: Mapping[str, Any] | None) -> str:
    """Return the resources that the manager can still allocate on the node. List several kinds one by one, because GPUs and MiB cannot be added."""
    resources = (node or {}).get("resources") or {}
    counts = _counts({kind: entry["free"] for kind, entry in resources.items() if entry["total"]})
    return str(*counts.values()) if len(counts) == 1 else _describe(counts) or NOTHING


def _offered(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources that the node offers. The ledger also lists kinds that only tasks still have. Skip these kinds."""
    resources = node["resources"]
    return {kind: entry["values"] if entry["type"] == "named" else entry["total"] for kind, entry in resources.items() if entry["total"]}


def _running_resources(answer: Mapping[str, Any]) -> dict[str, Any]:
    if answer.get("restarted"):  # the answer shows the engine before the restart
        return generic_resources.parse(answer["resources"])
    return generic_resources.from_info((answer.get("engine") or {}).get("generic_resources"))


def _differing_kinds(answer: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the decided kinds that the manager shows differently. None if all kinds are as decided, or if nothing was decided."""
    if answer.get("failed") or "resources" not in answer:
        return None
    wanted = generic_resources.parse(answer["resources"])
    differs = {kind: values for kind, values in wanted.items() if _comparable(values) != _comparable(shown.get(kind))}
    # Ignore kinds that others configured. GPUs under a kind that was not decided are drift, which the assessment of the node also found.
    gpus_of_other_kind = bool(answer.get("drift")) and any(kind not in wanted and _are_gpus(values) for kind, values in shown.items())
    return differs or (wanted if gpus_of_other_kind else None)


def _are_gpus(values: Any) -> bool:
    return isinstance(values, list) and all(value.upper().startswith(GPU_VALUES) for value in values)


def _describe_decided(differs: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    if [*differs] == [*shown] and len(shown) == 1 and _counts(differs) != _counts(shown):
        return str(*_counts(differs).values())
    return ", ".join(_describe_decided_kind(kind, values, shown.get(kind)) for kind, values in differs.items()) or "none"


def _describe_decided_kind(kind: str, values: Any, shown: Any) -> str:
    # The same number but other GPUs: a card was replaced.
    replaced = isinstance(values, list) and isinstance(shown, list) and len(values) == len(shown) and sorted(values) != sorted(shown)
    return f"other {kind}" if replaced else _describe({kind: values})


def _comparable(values: Any) -> Any:
    return sorted(values) if isinstance(values, list) else values


def _counts(resources: Mapping[str, Any]) -> dict[str, int]:
    return {kind: len(values) if isinstance(values, list) else values for kind, values in resources.items()}


def _describe(resources: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in _counts(resources).items())
