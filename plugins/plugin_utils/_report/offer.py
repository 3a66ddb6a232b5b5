# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node offers as a table shows it (pure): what the manager shows, what of it is free, and what was decided instead.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._ledger.unreserved import GPU_VALUES
from ...module_utils._policy import generic_resources
from .table import NOTHING


def advertised(answer: Mapping[str, Any], node: Mapping[str, Any] | None) -> str:
    """``4 NVIDIA-GPU``, and where something else was decided ``4 NVIDIA-GPU (decided: 8)``.

    ``answer`` is the host's latest answer of gpu_node, ``node`` its entry in the manager's ledger. For a host in no swarm, the
    resources of its own daemon are shown.
    """
    shown = _running(answer) if node is None else _shown(node)
    text = _in_words(shown) or NOTHING
    differs = _differs(answer, shown)
    return text if differs is None else f"{text} (decided: {_decided(differs, shown)})"


def free(node: Mapping[str, Any] | None) -> str:
    """What the manager can still allocate there. GPUs and MiB have no sum: several kinds are listed one by one."""
    resources = (node or {}).get("resources") or {}
    counts = _counts({kind: entry["free"] for kind, entry in resources.items() if entry["total"]})
    return str(*counts.values()) if len(counts) == 1 else _in_words(counts) or NOTHING


def _shown(node: Mapping[str, Any]) -> dict[str, Any]:
    """The ledger also lists a kind that only tasks have allocated; the node offers none of it."""
    resources = node["resources"]
    return {kind: entry["values"] if entry["type"] == "named" else entry["total"] for kind, entry in resources.items() if entry["total"]}


def _running(answer: Mapping[str, Any]) -> dict[str, Any]:
    if answer.get("restarted"):  # the answer has the engine as it was before the restart
        return generic_resources.parse(answer["resources"])
    return generic_resources.from_info((answer.get("engine") or {}).get("generic_resources"))


def _differs(answer: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """The decided kinds that are not shown as decided; None where all is as decided, or nothing could be."""
    if answer.get("failed") or "resources" not in answer:
        return None
    wanted = generic_resources.parse(answer["resources"])
    differs = {kind: values for kind, values in wanted.items() if _comparable(values) != _comparable(shown.get(kind))}
    # Kinds of others stay. GPUs under another kind than decided are drift, which the node's own assessment found too.
    left = bool(answer.get("drift")) and any(kind not in wanted and _of_gpus(values) for kind, values in shown.items())
    return differs or (wanted if left else None)


def _of_gpus(values: Any) -> bool:
    return isinstance(values, list) and all(value.upper().startswith(GPU_VALUES) for value in values)


def _decided(differs: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    if [*differs] == [*shown] and len(shown) == 1 and _counts(differs) != _counts(shown):
        return str(*_counts(differs).values())
    return ", ".join(_one_decided(kind, values, shown.get(kind)) for kind, values in differs.items()) or "none"


def _one_decided(kind: str, values: Any, shown: Any) -> str:
    # As many, and not the same: a card was replaced.
    replaced = isinstance(values, list) and isinstance(shown, list) and len(values) == len(shown) and sorted(values) != sorted(shown)
    return f"other {kind}" if replaced else _in_words({kind: values})


def _comparable(values: Any) -> Any:
    return sorted(values) if isinstance(values, list) else values


def _counts(resources: Mapping[str, Any]) -> dict[str, int]:
    return {kind: len(values) if isinstance(values, list) else values for kind, values in resources.items()}


def _in_words(resources: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in _counts(resources).items())
