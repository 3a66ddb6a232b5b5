# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's GPUs and CPU according to its labels, whatever their prefix, or to the node's own report (pure).

A run records in a label of the node which labels it has set. From that record a reader learns the prefix, so it does not need the setting.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping

from .._health.label import LEFT_OUT, WARNING
from .._health.verdict import FAILED
from .._policy.labels import Options
from .._swarm.owned_labels import PREFIX, recorded

# Each node with labels about its GPUs has both of these. An operator's label with the same ending has no second one beside it.
COUNT, BESIDE = "count", "healthy"
MODEL = "model"
# Each node with labels about its CPU has this one.
CPU_NAME = "microarchitecture"
DEFAULT = Options()


def prefixes(labels: Mapping[str, str], own: Collection[str] | None = None) -> set[str]:
    """Return the prefix of the node's labels about its GPUs, as a set that is empty if there are none.

    ``own`` are the keys that this collection sets, by default those that it has recorded in the labels.
    """
    found = _own(labels, own)
    return {prefix for prefix in _before(BESIDE, found) if prefix + COUNT in found}


def prefix_of(labels: Mapping[str, str], own: Collection[str] | None = None) -> str:
    """Return the prefix of the labels about GPUs. If none is recorded, it is the default one, since somebody may have set the labels by hand."""
    return min(prefixes(labels, own), default=DEFAULT.prefix)


def about_gpus(labels: Mapping[str, str], own: Collection[str] | None = None) -> dict[str, str]:
    """Return the labels about a node's GPUs, without the prefix."""
    return _without(prefix_of(labels, own), labels)


def about_cpu(labels: Mapping[str, str], own: Collection[str] | None = None) -> dict[str, str]:
    """Return the labels about a node's CPU, without the prefix."""
    return _without(min(_before(CPU_NAME, _own(labels, own)), default=DEFAULT.cpu_prefix), labels)


def is_labelled(labels: Mapping[str, str]) -> bool:
    """Return whether a node's labels say how many GPUs it has."""
    return DEFAULT.prefix + COUNT in labels or bool(prefixes(labels))


def reported_model(record: Mapping[str, Any]) -> str | None:
    """Return the model of a node's GPUs from its watcher, which reports it only if the node has no labels about GPUs."""
    return (record.get("health") or {}).get(MODEL)


def model_of(record: Mapping[str, Any]) -> str:
    """Return the model of the node's GPUs; '' if it is unknown. ``record`` is the ledger's."""
    return about_gpus(record["labels"]).get(MODEL) or reported_model(record) or ""


def is_excluded(record: Mapping[str, Any]) -> bool:
    """Return whether a GPU of the node is excluded because it has failed, according to the last run, or else to the watcher."""
    labels, health = record["labels"], record["health"]
    if LEFT_OUT in labels or about_gpus(labels).get(BESIDE) == "false":
        return True
    by_report = reported_model(record) and not is_labelled(labels)
    return bool(by_report) and (health["state"], health["reason"]) == (WARNING, FAILED)  # an advertised card would be a fault, not a warning


def _own(labels: Mapping[str, str], own: Collection[str] | None) -> Collection[str]:
    return recorded(labels, PREFIX).intersection(labels) if own is None else own


def _before(last: str, keys: Iterable[str]) -> set[str]:
    return {key[: -len(last)] for key in keys if key.endswith(last)} - {""}


def _without(prefix: str, labels: Mapping[str, str]) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in labels.items() if key.startswith(prefix)}
