# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the data about a node's GPUs and CPU from its labels, or from its own report (pure).

The prefix of the labels is a setting. A run records in another label which labels it has set, so this code reads the prefix from that record.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping

from .._health.label import LEFT_OUT, WARNING
from .._health.verdict import FAILED
from .._policy.labels import Options
from .._swarm.owned_labels import PREFIX, recorded

# Each node with labels about its GPUs has both of these labels. A user's own labels may have one of these endings, but not both.
COUNT, HEALTHY = "count", "healthy"
MODEL = "model"
# Each node with labels about its CPU has this label.
CPU_NAME = "microarchitecture"
DEFAULT = Options()


def prefixes(labels: Mapping[str, str], own: Collection[str] | None = None) -> set[str]:
    """Return the prefix of the node's labels about its GPUs as a set. The set is empty if the node has no such labels.

    ``own`` are the keys that this collection has set. By default they are read from the record in the node's labels.
    """
    keys = _own_keys(labels, own)
    return {prefix for prefix in _prefixes_before(HEALTHY, keys) if prefix + COUNT in keys}


def prefix_of(labels: Mapping[str, str], own: Collection[str] | None = None) -> str:
    """Return the prefix of the labels about GPUs. Without a record, return the default prefix, because somebody may have set the labels by hand."""
    return min(prefixes(labels, own), default=DEFAULT.prefix)


def about_gpus(labels: Mapping[str, str], own: Collection[str] | None = None) -> dict[str, str]:
    """Return the labels about a node's GPUs, without the prefix."""
    return _strip_prefix(prefix_of(labels, own), labels)


def about_cpu(labels: Mapping[str, str], own: Collection[str] | None = None) -> dict[str, str]:
    """Return the labels about a node's CPU, without the prefix."""
    return _strip_prefix(min(_prefixes_before(CPU_NAME, _own_keys(labels, own)), default=DEFAULT.cpu_prefix), labels)


def is_labelled(labels: Mapping[str, str]) -> bool:
    """Return whether a node's labels say how many GPUs it has."""
    return DEFAULT.prefix + COUNT in labels or bool(prefixes(labels))


def reported_model(record: Mapping[str, Any]) -> str | None:
    """Return the model of a node's GPUs that its watcher reports. The watcher reports the model only if the node has no labels about GPUs."""
    return (record.get("health") or {}).get(MODEL)


def model_of(record: Mapping[str, Any]) -> str:
    """Return the model of the node's GPUs; '' if the model is unknown. ``record`` is the node's record in the ledger."""
    return about_gpus(record["labels"]).get(MODEL) or reported_model(record) or ""


def is_excluded(record: Mapping[str, Any]) -> bool:
    """Return whether a GPU of the node is excluded because it has failed, according to the last run or to the watcher."""
    labels, health = record["labels"], record["health"]
    if LEFT_OUT in labels or about_gpus(labels).get(HEALTHY) == "false":
        return True
    by_report = reported_model(record) and not is_labelled(labels)
    return bool(by_report) and (health["state"], health["reason"]) == (WARNING, FAILED)  # an advertised card would be a fault, not a warning


def _own_keys(labels: Mapping[str, str], own: Collection[str] | None) -> Collection[str]:
    return recorded(labels, PREFIX).intersection(labels) if own is None else own


def _prefixes_before(ending: str, keys: Iterable[str]) -> set[str]:
    return {key[: -len(ending)] for key in keys if key.endswith(ending)} - {""}


def _strip_prefix(prefix: str, labels: Mapping[str, str]) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in labels.items() if key.startswith(prefix)}
