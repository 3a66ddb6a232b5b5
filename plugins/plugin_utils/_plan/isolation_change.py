# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation level of the hosts of a run (pure): the wanted level, which hosts have another one, and what changing it takes.

Private to this collection: no stability is promised to others.
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


def by_default(swarm: Swarm) -> str | None:
    """The level that a run of provision sets if nobody has set one. None if earlier runs have made nodes advertise GPUs without a level: an upgrade
    changes nothing."""
    if swarm.error or of_swarm(swarm.ledger).get("label"):
        return None
    if not swarm.nodes:
        return RESERVED
    provisioned = any(owned_labels.bound_to(node["labels"], LABEL_PREFIX) and has_gpus(node) for node in swarm.nodes.values())
    return None if provisioned else AUDIT


def level_of(setting: str | None, ledger: Mapping[str, Any] | None) -> str:
    """The wanted level of the nodes: of the setting, else of the swarm, else off."""
    shown = of_swarm(ledger)
    level = setting or str(shown.get("level") or OFF)
    if level == isolation.UNKNOWN:
        raise GpuSwarmError(
            f"The label {isolation.LABEL} of the swarm is {shown.get('label')!r}, which is no level of isolation. Set gpu_swarm_isolation to "
            f"{', '.join(LEVELS[:-1])} or {LEVELS[-1]}, which writes it anew. Nothing was changed."
        )
    return level


def of_swarm(ledger: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The swarm's label, as the ledger has it."""
    return ((ledger or {}).get("swarm") or {}).get("isolation") or {}


def wanted(host: Host, level: str) -> str:
    """The wanted level of this host, '' if it has no GPUs."""
    return level if host.gpu and (host.assessed or {}).get("gpus") else ""


def current(answer: Mapping[str, Any] | None) -> str:
    """The level of a node by its answer; off if an operator's file turns its guard off."""
    report = (answer or {}).get("isolation")
    return OFF if not report or report.get("turned_off") else guard_state.level_of(report)


def reached(assessed: Mapping[str, Any], applied: Mapping[str, Any], level: str) -> str:
    """The level of a host at the end of a run that should bring it to ``level``: by what gpu_node found, and by what it did."""
    turned_off = ((applied or assessed).get("isolation") or {}).get("turned_off")
    done = bool(applied) and not applied.get("failed") and not applied.get("unreachable")
    return (OFF if turned_off else level) if done else current(assessed)


def is_to_change(host: Host) -> bool:
    """Whether the guard has another level, or is missing."""
    report = (host.assessed or {}).get("isolation")
    return bool(host.isolation) and (guard_state.level_of(report) or OFF) != host.isolation


def is_foreseen(host: Host) -> bool:
    """Whether the host was assessed with this level. It is assessed before the swarm's label is known."""
    return (host.assessed or {}).get("isolation_level") == host.isolation


def takes_restart(host: Host) -> bool:
    """Whether the change of the level takes a restart: the guard is installed or removed, the assessment did not know that, and a reload of dockerd
    would lose options."""
    assessed = host.assessed or {}
    comes_or_goes = (assessed.get("isolation") is None) == (host.isolation != OFF or _is_mapped(host))
    engine = assessed.get("engine") or {}
    return is_to_change(host) and not is_foreseen(host) and comes_or_goes and bool(engine.get("running") and engine.get("lost_at_reload"))


def in_words(host: Host) -> list[str]:
    """The change of the level, unless the host's drift already says so."""
    now = guard_state.level_of((host.assessed or {}).get("isolation")) or OFF
    return [f"isolation {now} → {host.isolation}"] if is_to_change(host) and not is_foreseen(host) else []


def clash(host: Host) -> str | None:
    """Why a level of this host alone is refused, or None."""
    own = host.settings.get("gpu_node_isolation")
    if not (host.isolation and own) or own == host.isolation:
        return None
    return (
        f"gpu_node_isolation is {own!r} here, and the level of the swarm is {host.isolation!r}. There is one for all nodes: set gpu_swarm_isolation "
        "in group_vars/all.yml, and leave gpu_node_isolation out."
    )


def _is_mapped(host: Host) -> bool:
    """Whether it will advertise slots or groups, which need the guard at any level."""
    values = [entry.partition("=")[2] for entry in (host.assessed or {}).get("resources") or ()]
    return any(value.startswith(("GPU-", "MIG-")) and devices_of(value) != [value] for value in values)
