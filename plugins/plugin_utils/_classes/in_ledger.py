# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the classes of nodes in a ledger, from the labels of its services (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._ledger.node_labels import prefix_of
from . import classes
from .nodes import facts


def with_classes(wanted: Mapping[str, str], unknown: Iterable[str], node_id: str | None, ledger: Mapping[str, Any] | None) -> dict[str, str]:
    """Add class labels to the labels ``wanted`` of a node. Labels with a prefix in ``unknown`` could not be read on the node. For these, use the
    values in the ledger."""
    needed = _read(tuple((ledger or {}).get("classes") or ()))
    if not wanted or not needed:
        return dict(wanted)
    node = next((node for node in (ledger or {}).get("nodes") or [] if node["id"] == node_id), None)
    current_labels = (node or {}).get("labels") or {}
    unread_labels = {key: value for key, value in current_labels.items() if key.startswith(tuple(unknown))}
    labels = {**unread_labels, **wanted}
    return {**wanted, **classes.labels(facts(labels, labels), needed, current_labels)}


@functools.lru_cache(maxsize=8)
def _read(texts: tuple[str, ...]) -> dict[str, Any]:
    """Read the classes. The result is cached, because all hosts have the same classes."""
    return classes.read_classes(texts)


def prefixes_to_keep(wanted: Mapping[str, str], ledger: Mapping[str, Any] | None) -> list[str]:
    """Return the prefixes of labels that must stay unchanged on a GPU node because the ledger has no classes."""
    if ledger is None or "classes" in ledger or not facts(wanted, wanted).gpus:
        return []
    return sorted({prefix_of(wanted, wanted) + classes.CLASS, *map(classes.class_prefix_of, wanted)} - {""})
