# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of nodes and of the GPUs on them (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Collection, Iterator, Mapping

from .._gpu.record import devices_of
from .._health.label import FAULT, unaccepted_losses
from .._ledger.node_labels import model_of
from .._ledger.unreserved import is_of_gpus
from .._placement.availability import ACTIVE, DRAINED, PAUSED, closed_as
from .._tasks.tasks import epoch
from .._textfile.exposition import Sample
from . import metric_names
from .bounds import OTHERS, heaviest

READY = "ready"
BY_RUN, BY_FAULT, BY_HAND = "run", "fault", "hand"
_STATES = {ACTIVE: READY, PAUSED: "paused", DRAINED: "drained"}
# States that are written even with the value 0, so that panels and alerts find these states.
ALWAYS = ((READY, ""), ("paused", BY_RUN), ("paused", BY_FAULT), ("paused", BY_HAND), ("drained", BY_RUN), ("drained", BY_HAND), ("down", ""))
# More resource kinds than anybody needs. Without a limit, a hostile node could report any number of them.
MOST_KINDS = 50


def of_nodes(ledger: Mapping[str, Any], now: float, owners: Mapping[str, str]) -> Iterator[Sample]:
    """``owners`` are the values of the label ``owner`` by service."""
    records = ledger["nodes"]
    counts = Counter(state_of(record) for record in records)
    for key in sorted({*ALWAYS, *counts}):
        yield Sample(metric_names.NODES, key, counts[key])
    kinds = heaviest(((kind, float(sums["total"])) for kind, sums in ledger["kinds"].items()), MOST_KINDS)
    for record in records:
        yield from _node(record, now)
        yield from _resources(record, kinds)
        yield from _gpus(record, owners)
    yield from _allocated_twice(ledger["held_twice"])


def state_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return (the node's state, who paused or drained the node). The second value is '' for other states."""
    docker_state = closed_as(record)
    state = _STATES.get(docker_state, docker_state)
    if docker_state not in (PAUSED, DRAINED):
        return state, ""
    if record.get("paused_for"):
        return state, BY_FAULT
    return state, BY_RUN if record["set_by_run"] else BY_HAND


def _node_labels(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["hostname"], record["id"]


def _node(record: Mapping[str, Any], now: float) -> Iterator[Sample]:
    node, state = _node_labels(record), state_of(record)
    yield Sample(metric_names.NODE_INFO, (*node, record["role"] or "", model_of(record), record["engine_version"] or ""), 1)
    yield Sample(metric_names.NODE_STATE, (*node, *state), 1)
    if state[0] != READY:
        unchanged = record["unchanged_for"]
        since = epoch(record["set_at"]) or (None if unchanged is None else now - unchanged)
        if since is not None:
            yield Sample(metric_names.NODE_SINCE, (*node, *state), since)
    reported = record["health"]
    if reported:
        yield Sample(metric_names.NODE_HEALTH, (*node, reported["state"]), 1)
        yield Sample(metric_names.NODE_DRIFT, node, int(reported["drift"]))


# -- resources and cards ----------------------------------------------------------------------------------------------


def _resources(record: Mapping[str, Any], kinds: Collection[str]) -> Iterator[Sample]:
    takes_tasks = state_of(record)[0] == READY
    sums: dict[str, Counter[metric_names.Metric]] = {}
    for kind, entry in record["resources"].items():
        free = len(entry["free"]) if entry["type"] == "named" else entry["free"]
        amounts = sums.setdefault(kind if kind in kinds else OTHERS, Counter())
        amounts[metric_names.ADVERTISED] += entry["total"]
        amounts[metric_names.ALLOCATED] += sum(item.get("amount", 1) for item in entry["held"])
        amounts[metric_names.FREE] += free
        amounts[metric_names.FAULTY] += _faulty(record, entry)
        amounts[metric_names.SCHEDULABLE] += max(0, free - _faulty(record, entry, entry["free"])) if takes_tasks else 0
    for kind, amounts in sums.items():
        for metric in (metric_names.ADVERTISED, metric_names.ALLOCATED, metric_names.FREE, metric_names.SCHEDULABLE, metric_names.FAULTY):
            yield Sample(metric, (*_node_labels(record), kind), amounts[metric])


def _faulty(record: Mapping[str, Any], entry: Mapping[str, Any], among: Any = None) -> int:
    """Return how many resources of a kind the node reports as faulty. With ``among``, count only the resources in ``among``.

    A report names one card and the number of faulty cards. If the report names no card, the driver is faulty, and so are all cards.
    """
    reported = record["health"]
    if not _is_unfit(reported) or not is_of_gpus(entry):
        return 0
    values = entry["values"] if among is None else among
    if reported["card"] is None:
        return len(values)
    on_card = len([value for value in values if reported["card"] in devices_of(value)])  # more than one if the card has slots
    return on_card if among is not None or not on_card else max(on_card, min(reported["cards"], len(values)))


def _is_unfit(reported: Mapping[str, Any] | None) -> bool:
    """Return whether the watcher reports a fault and no run has returned the node to service since."""
    return bool(reported and reported["state"] == FAULT and not reported["returned"])


def _gpus(record: Mapping[str, Any], owners: Mapping[str, str]) -> Iterator[Sample]:
    node, reported = _node_labels(record), record["health"]
    for kind, entry in record["resources"].items():
        if entry["type"] == "named" and all(item["value"].startswith(("GPU-", "MIG-")) for item in entry["held"]):
            # Several slots of a card are one GPU. A group of GPUs is several GPUs.
            cards = ((card, item["service"] or "") for item in entry["held"] for card in devices_of(item["value"]))
            for card, service in dict.fromkeys(cards):
                yield Sample(metric_names.GPU_ALLOCATED, (card, *node, kind, service, owners[service]), 1)
        if is_of_gpus(entry):
            allocated = {card for item in entry["held"] for card in devices_of(item["value"])}
            for card in dict.fromkeys(card for value in entry["free"] for card in devices_of(value)):
                if card not in allocated:  # a card with a free slot may also have an allocated slot
                    yield Sample(metric_names.GPU_FREE, (card, *node, kind), 1)
    yield from dict.fromkeys(Sample(metric_names.GPU_FAULT, fault, 1) for fault in _faults(record))
    if _is_unfit(reported):
        since = epoch(reported["since"])
        if since is not None:
            yield Sample(metric_names.GPU_FAULT_SINCE, (reported["card"] or "", *node), since)


def _faults(record: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the labels of each card that cannot be used: the watcher reports the card, or a run excluded the card without consent."""
    node, reported = _node_labels(record), record["health"]
    has_fault = _is_unfit(reported)
    if has_fault:
        xid = "" if reported["xid"] is None else "%d" % reported["xid"]
        location = (reported["pci_bus_id"] or "", reported["slot"] or "", reported["serial"] or "")
        yield (reported["card"] or "", *node, reported["reason"] or "", xid, *location, metric_names.YES)
    for excluded in unaccepted_losses(record["labels"]):
        if not (has_fault and excluded.card and excluded.card == reported["card"]):
            place = (excluded.pci or "", excluded.slot or "", excluded.serial or "")
            yield (excluded.card or "", *node, excluded.reason or "", "", *place, metric_names.NO)


def _allocated_twice(held_twice: Collection[Mapping[str, Any]]) -> Iterator[Sample]:
    yield Sample(metric_names.TWICE, (), len(held_twice))
    most: Counter[tuple[str, ...]] = Counter()
    for resource in held_twice:
        for card in devices_of(resource["value"]):
            labels: tuple[str, ...] = (card, resource["hostname"], resource["node"], resource["kind"])
            most[labels] = max(most[labels], len(resource["holders"]))
    for labels, count in most.items():
        yield Sample(metric_names.GPU_TWICE, labels, count)
