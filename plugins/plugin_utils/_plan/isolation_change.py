# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the isolation level of the hosts of a run with the wanted level, and says what the change requires (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._gpu.record import devices_of
from ...module_utils._isolation_levels import AUDIT, LEVELS, OFF, RESERVED
from ...module_utils._ledger.unreserved import has_gpus
from ...module_utils._node import guard_state
from ...module_utils._swarm import isolation, owned_labels
from .._fleet.identity import LABEL_PREFIX
from .._fleet.model import Host, Swarm


def default_level(swarm: Swarm) -> str | None:
    """Return the level that a run of provision sets if nobody has set a level.

    None if earlier runs have made nodes advertise GPUs without a level, because an upgrade must not change the level.
    """
    if swarm.error or swarm_label(swarm.ledger).get("label"):
        return None
    if not swarm.nodes:
        return RESERVED
    provisioned = any(owned_labels.bound_to(node["labels"], LABEL_PREFIX) and has_gpus(node) for node in swarm.nodes.values())
    return None if provisioned else AUDIT


def level_of(setting: str | None, ledger: Mapping[str, Any] | None) -> str:
    """Return the wanted level of the nodes: the level in the settings, else the level of the swarm, else off."""
    shown = swarm_label(ledger)
    level = setting or str(shown.get("level") or OFF)
    if level == isolation.UNKNOWN:
        raise GpuSwarmError(
            f"The label {isolation.LABEL} of the swarm is {shown.get('label')!r}, which is not an isolation level. Set gpu_swarm_isolation to "
            f"{', '.join(LEVELS[:-1])} or {LEVELS[-1]}, which overwrites the label. Nothing was changed."
        )
    return level


def swarm_label(ledger: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the swarm's isolation label, from the ledger."""
    return ((ledger or {}).get("swarm") or {}).get("isolation") or {}


def wanted_level(host: Host, level: str) -> str:
    """Return the wanted level of this host; '' if the host has no GPUs."""
    return level if host.gpu and (host.assessed or {}).get("gpus") else ""


def current_level(answer: Mapping[str, Any] | None) -> str:
    """Return the level of a node according to its answer. The level is off if an operator's file turns the guard off."""
    report = (answer or {}).get("isolation")
    return OFF if not report or report.get("turned_off") else guard_state.level_of(report)


def level_at_end(assessed: Mapping[str, Any], applied: Mapping[str, Any], level: str) -> str:
    """Return the level of a host at the end of a run that should set ``level``. ``assessed`` is what gpu_node found, ``applied`` is what gpu_node
    did.
    """
    turned_off = ((applied or assessed).get("isolation") or {}).get("turned_off")
    done = bool(applied) and not applied.get("failed") and not applied.get("unreachable")
    return (OFF if turned_off else level) if done else current_level(assessed)


def level_differs(host: Host) -> bool:
    """Return whether the guard has another level, or the node has no guard."""
    report = (host.assessed or {}).get("isolation")
    return bool(host.isolation) and (guard_state.level_of(report) or OFF) != host.isolation


def was_assessed_for_level(host: Host) -> bool:
    """Return whether the host was assessed with this level. The host is assessed before the run knows the swarm's label."""
    return (host.assessed or {}).get("isolation_level") == host.isolation


def needs_restart(host: Host) -> bool:
    """Return whether the change of the level needs a restart of dockerd. It does if the guard is installed or removed, the assessment did not know
    this, and a reload of dockerd would lose options.
    """
    assessed = host.assessed or {}
    guard_changes = (assessed.get("isolation") is None) == (host.isolation != OFF or _is_mapped(host))
    engine = assessed.get("engine") or {}
    return level_differs(host) and not was_assessed_for_level(host) and guard_changes and bool(engine.get("running") and engine.get("lost_at_reload"))


def describe_change(host: Host) -> list[str]:
    """Return the change of the level as text, unless the host's drift already describes it."""
    current_level = guard_state.level_of((host.assessed or {}).get("isolation")) or OFF
    return [f"isolation {current_level} → {host.isolation}"] if level_differs(host) and not was_assessed_for_level(host) else []


def clash_error(host: Host) -> str | None:
    """Return the error for a host whose setting differs from the level of the swarm, or None."""
    host_level = host.settings.get("gpu_node_isolation")
    if not (host.isolation and host_level) or host_level == host.isolation:
        return None
    return (
        f"gpu_node_isolation is {host_level!r} here, and the level of the swarm is {host.isolation!r}. All nodes have the same level: set "
        "gpu_swarm_isolation in group_vars/all.yml, and remove gpu_node_isolation."
    )


def _is_mapped(host: Host) -> bool:
    """Return whether the host will advertise slots or groups, which need the guard at any level."""
    values = [entry.partition("=")[2] for entry in (host.assessed or {}).get("resources") or ()]
    return any(value.startswith(("GPU-", "MIG-")) and devices_of(value) != [value] for value in values)
