# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which queues a run keeps in the swarm's label, and says what changes (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._printable import printable
from ...module_utils._queue.queues import LABEL, SETTING, check_queues, to_label
from ...module_utils._swarm import owned_labels
from .._fleet.identity import LABEL_PREFIX
from .._fleet.model import Host
from . import managers_service

# The queues in the form of the setting, without the defaults.
Queues = Mapping[str, Any]


def wanted_queues(setting: Any) -> Queues | None:
    """Return the queues of the setting; None if the swarm's queues stay as they are. Raises GpuSwarmError for an invalid setting.

    A number is a valid name, because JSON turns it into text. The check of settings before the run contacts hosts does the same.
    """
    return None if setting is None else json.loads(to_label(check_queues(json.loads(json.dumps(setting)))))


def initial_labels(wanted: Queues | None) -> dict[str, str]:
    """Return the labels of a new swarm."""
    return {LABEL: to_label(check_queues(wanted))} if wanted else {}


def update(wanted: Queues | None, ledger: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the option ``queues`` of swarm_lease; {} if the queues do not change, or if the ledger has no swarm."""
    if wanted is None or not (ledger or {}).get("nodes") or wanted == _shown(ledger):
        return {}
    return {"queues": wanted}


def update_after_removal(ledger: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option at the end of a deprovision. The queues are removed with the last node that this collection manages."""
    is_used = any(owned_labels.bound_to(node["labels"], LABEL_PREFIX) for node in ledger.get("nodes") or [])
    return {} if is_used else {"queues": {}}


def describe_change(change: Mapping[str, Any], ledger: Mapping[str, Any] | None) -> str:
    """Return what changes, for the impact of the run; '' if nothing does."""
    if "queues" not in change:
        return ""
    after, before = change["queues"], _shown(ledger)
    before = before if isinstance(before, dict) else {}
    parts = [f"{name} is new ({_options(after[name])})" for name in after if name not in before]
    changed = [name for name in after if before.get(name, after[name]) != after[name]]
    parts += [f"{name} changes from {_options(before[name])} to {_options(after[name])}" for name in changed]
    parts += [f"{name} is removed, and its work waits" for name in before if name not in after]
    return printable(f"The queues of the swarm change: {'; '.join(parts)}.") if parts else "The label of the swarm with its queues is written again."


def check_service(wanted: Queues | None, ledger: Mapping[str, Any] | None, hosts: Iterable[Host], managers: Collection[str]) -> None:
    """Raise GpuSwarmError if the swarm has queues and no manager will have the service that starts their work.

    ``managers`` are the names of all managers of the inventory. If the run leaves out a manager, this checks nothing, because that manager may have
    the service.
    """
    found = [host for host in hosts if host.manager]
    if not (_shown(ledger) if wanted is None else wanted) or not found or {*managers} - {host.name for host in found}:
        return
    if not any(managers_service.has_service(host) for host in found):
        raise GpuSwarmError(
            f"{SETTING}: the swarm has queues, but no manager would have the service gpu-swarm-manager, which starts their work. Set "
            f"gpu_swarm_record to true, or {SETTING} to {{}}, which removes the queues. Nothing was changed."
        )


def _shown(ledger: Mapping[str, Any] | None) -> Any:
    """Return the content of the swarm's label; {} without the label, and the text of a label that is no JSON."""
    text = ((ledger or {}).get("swarm") or {}).get("queues") or "{}"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _options(options: Any) -> str:
    words = [f"{option}: {value}" for option, value in options.items()] if isinstance(options, dict) else [str(options)]
    return ", ".join(words) or "with the defaults"
