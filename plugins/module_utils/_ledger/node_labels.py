# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the managers know of a node's GPUs and CPU (pure): by its labels, whatever their prefix, else by the node's own report.

A run records in a label of the node which labels it has set. So the swarm itself says which prefix they have, and no reader needs the setting.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping

from .._health.label import LEFT_OUT, WARNING
from .._health.verdict import FAILED
from .._policy.labels import Options
from .._swarm.owned_labels import PREFIX, recorded

# Each node with labels about its GPUs has both of these. A label of the operator's that ends alike has no such other one beside it.
COUNT, BESIDE = "count", "healthy"
MODEL = "model"
# Each node with labels about its CPU has this.
CPU_NAME = "microarchitecture"
DEFAULT = Options()


def prefixes(labels: Mapping[str, str], own: Collection[str] | None = None) -> set[str]:
    """What the keys of a node's labels about its GPUs begin with: one prefix, or none without such labels. ``own`` are the keys that this collection
    sets; by default those that it has recorded in the labels."""
    found = _own(labels, own)
    return {prefix for prefix in _before(BESIDE, found) if prefix + COUNT in found}


def prefix_of(labels: Mapping[str, str], own: Collection[str] | None = None) -> str:
    """The prefix of the labels about GPUs; the default where nothing is recorded, since somebody may have set them by hand."""
    return min(prefixes(labels, own), default=DEFAULT.prefix)


def about_gpus(labels: Mapping[str, str], own: Collection[str] | None = None) -> dict[str, str]:
    """The labels about a node's GPUs, without the prefix."""
    return _without(prefix_of(labels, own), labels)


def about_cpu(labels: Mapping[str, str], own: Collection[str] | None = None) -> dict[str, str]:
    """The labels about a node's CPU, without the prefix."""
    return _without(min(_before(CPU_NAME, _own(labels, own)), default=DEFAULT.cpu_prefix), labels)


def is_labelled(labels: Mapping[str, str]) -> bool:
    """Whether a node's labels say how many GPUs it has."""
    return DEFAULT.prefix + COUNT in labels or bool(prefixes(labels))


def reported_model(record: Mapping[str, Any]) -> str | None:
    """The model of a node's GPUs by its watcher, which reports it where the node is to have no labels about them."""
    return (record.get("health") or {}).get(MODEL)


def model_of(record: Mapping[str, Any]) -> str:
    """The model of the GPUs of a node of the ledger; '' where nobody says."""
    return about_gpus(record["labels"]).get(MODEL) or reported_model(record) or ""


def is_excluded(record: Mapping[str, Any]) -> bool:
    """Whether a GPU of the node is not advertised because it has failed: as the last run found it, else as the watcher reports it."""
    labels, health = record["labels"], record["health"]
    if LEFT_OUT in labels or about_gpus(labels).get(BESIDE) == "false":
        return True
    by_report = reported_model(record) and not is_labelled(labels)
    return bool(by_report) and (health["state"], health["reason"]) == (WARNING, FAILED)  # a card that is advertised would be a fault


def _own(labels: Mapping[str, str], own: Collection[str] | None) -> Collection[str]:
    return recorded(labels, PREFIX).intersection(labels) if own is None else own


def _before(last: str, keys: Iterable[str]) -> set[str]:
    return {key[: -len(last)] for key in keys if key.endswith(last)} - {""}


def _without(prefix: str, labels: Mapping[str, str]) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in labels.items() if key.startswith(prefix)}
