# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Converts a ledger into the metrics file (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Collection, Iterator, Mapping

from .._health import allocation_findings
from .._isolation_levels import AUDIT, OFF
from .._ledger.isolation_state import is_recent, level_of
from .._ledger.unreserved import has_gpus
from .._tasks.tasks import epoch
from .._textfile import exposition
from .._textfile.exposition import Sample
from . import metric_names
from .node_metrics import of_nodes
from .owner_labels import owner_labels
from .queue_metrics import of_queues
from .service_metrics import of_services

# The runs that record their end.
ALL_RUNS, CHANGING_RUNS = "all", "changing"
# The outcomes of a host in a run, as in the run's table.
OUTCOMES = ("done", "waiting", "untouched", "failed")


def rendered(ledger: Mapping[str, Any], now: float, source: str) -> str:
    """Return the content of the file, for the result of _ledger.read.read_ledger. ``now`` is the manager's time in seconds since 1970."""
    return exposition.text(samples(ledger, now, source), metric_names.METRICS)


def samples(ledger: Mapping[str, Any], now: float, source: str) -> Iterator[Sample]:
    yield Sample(metric_names.SNAPSHOT, (), now)
    yield _info(ledger, source)
    owners = owner_labels(ledger)
    yield from of_nodes(ledger, now, owners)
    yield from of_services(ledger, now, owners)
    yield from of_queues(ledger.get("queue"))
    yield from _isolation(ledger, ledger["swarm"].get("isolation"), now)
    yield from _allocation_findings(ledger.get("allocation_findings") or ())
    yield from _lease(ledger["swarm"].get("lease"), now)
    yield from _last_run(ledger["swarm"].get("last_run"))


def _info(ledger: Mapping[str, Any], source: str) -> Sample:
    leader: Mapping[str, Any] = next((record for record in ledger["nodes"] if record["leader"]), {})
    labels = (ledger["swarm"]["id"], leader.get("hostname", ""), leader.get("engine_version") or "", source)
    return Sample(metric_names.INFO, labels, 1)


def _isolation(ledger: Mapping[str, Any], shown: Mapping[str, Any] | None, now: float) -> Iterator[Sample]:
    if shown is None:
        return
    yield Sample(metric_names.ISOLATION, (shown["level"],), 1)
    for record in ledger["nodes"]:
        level = level_of(record["id"], shown)
        if has_gpus(record) and (level, shown["level"]) != (OFF, OFF):
            yield Sample(metric_names.NODE_ISOLATION, (record["hostname"], record["id"], level), 1)
    if shown["level"] == AUDIT:
        yield Sample(metric_names.ISOLATION_FOUND, (), sum(1 for count in shown["found"] if is_recent(count, now)))
    read = epoch(shown["read"])
    if read is not None:
        yield Sample(metric_names.ISOLATION_READ, (), read)


def _allocation_findings(findings: Collection[Mapping[str, Any]]) -> Iterator[Sample]:
    for name in allocation_findings.NAMES:
        yield Sample(metric_names.ALLOCATION_FINDINGS, (name,), sum(1 for finding in findings if finding["name"] == name))
    since: dict[tuple[str, ...], float] = {}
    for finding in findings:
        labels = tuple(str(finding[key] or "") for key in ("card", "hostname", "node", "name", "service"))
        since[labels] = min(since.get(labels, float("inf")), epoch(finding["since"]) or 0)
    for labels, started in since.items():
        yield Sample(metric_names.GPU_ALLOCATION_FINDING, labels, 1)
        yield Sample(metric_names.GPU_ALLOCATION_FINDING_SINCE, labels, started)


def _lease(lease: Mapping[str, Any] | None, now: float) -> Iterator[Sample]:
    """Yield the metrics of a lease that is in force. The holder is not a label, because each run would add a value. The ledger shows the holder."""
    expires_in = (lease or {}).get("expires_in")
    if lease is None or (expires_in is not None and expires_in <= 0):
        return
    since = epoch(lease["since"])
    if since is not None:
        yield Sample(metric_names.LEASE_SINCE, (), since)
    if expires_in is not None:
        yield Sample(metric_names.LEASE_UNTIL, (), now + expires_in)


def _last_run(run: Mapping[str, Any] | None) -> Iterator[Sample]:
    ended = epoch((run or {}).get("ended"))
    if run is None or ended is None:
        return
    yield Sample(metric_names.RUN_END, (ALL_RUNS if run["always"] else CHANGING_RUNS,), ended)
    for outcome in OUTCOMES:
        yield Sample(metric_names.RUN_HOSTS, (outcome,), run["hosts"].get(outcome, 0))
