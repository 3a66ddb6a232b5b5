# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code of the service as Ansible sends it along with a module, which it does with what is imported, wherever that is.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any

from .._program import sources as program_sources

# What the service imports, and nothing else: so the controller knows what a manager should have. A test compares.
FILES = (
    "_compat/checks.py",
    "_compat/issues.py",
    "_compat/runtime_config.py",
    "_errors.py",
    "_gpu/cards.py",
    "_gpu/record.py",
    "_health/allocation_findings.py",
    "_health/label.py",
    "_health/verdict.py",
    "_ledger/allocation_report.py",
    "_ledger/claims.py",
    "_ledger/encrypted.py",
    "_ledger/findings.py",
    "_ledger/health.py",
    "_ledger/isolation_state.py",
    "_ledger/leader.py",
    "_ledger/ledger.py",
    "_ledger/listed.py",
    "_ledger/networks.py",
    "_ledger/node_labels.py",
    "_ledger/on_gpu_nodes.py",
    "_ledger/read.py",
    "_ledger/reservations.py",
    "_ledger/unreserved.py",
    "_mask.py",
    "_metrics/bounds.py",
    "_metrics/exposition.py",
    "_metrics/file.py",
    "_metrics/keeper.py",
    "_metrics/metric_names.py",
    "_metrics/node_metrics.py",
    "_metrics/samples.py",
    "_metrics/service_metrics.py",
    "_node_spec/updates.py",
    "_placement/availability.py",
    "_placement/census.py",
    "_placement/elsewhere.py",
    "_placement/explain.py",
    "_placement/node_match.py",
    "_placement/pending.py",
    "_placement/scheduler.py",
    "_placement/shortage.py",
    "_policy/generic_resources.py",
    "_policy/inventories.py",
    "_policy/labels.py",
    "_policy/selection.py",
    "_printable.py",
    "_program/lifetime.py",
    "_react/decide.py",
    "_react/events.py",
    "_react/leader_claims.py",
    "_react/run_service.py",
    "_react/service.py",
    "_swarm/failures.py",
    "_swarm/isolation.py",
    "_swarm/json_stream.py",
    "_swarm/lease.py",
    "_swarm/manager.py",
    "_swarm/owned_labels.py",
    "_tasks/class_labels.py",
    "_tasks/keep.py",
    "_tasks/restarts.py",
    "_tasks/takes_all.py",
    "_tasks/tasks.py",
)
START = "from %s._react.run_service import main\n\nmain()\n" % program_sources.PACKAGE


def load() -> Any:
    """Imports it, as its service will: what this machine's Python cannot run is not installed."""
    from . import run_service

    return run_service


def sources() -> dict[str, bytes]:
    """What is kept on a manager, by path."""
    return program_sources.program(FILES, START)


def version() -> str:
    return program_sources.version(sources())
