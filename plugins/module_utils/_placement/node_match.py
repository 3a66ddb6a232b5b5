# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Matches placement constraints and platforms of services with nodes, as swarmkit does (pure).

swarmkit manager/constraint/constraint.go, manager/scheduler/filter.go
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Callable, Iterable, Mapping

NODE_LABEL = "node.labels."
ENGINE_LABEL = "engine.labels."
# The form of a constraint that swarm accepts when a service is created.
_FORM = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_.-]+\s*[=!]=\s*(?=\S)[A-Za-z0-9:_\s.*()?+\[\]\\^$|/-]+", re.ASCII)
_SAME_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}

_FIELDS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "node.id": lambda node: node.get("ID"),
    "node.hostname": lambda node: node.get("Description", {}).get("Hostname"),
    "node.role": lambda node: node.get("Spec", {}).get("Role"),
    "node.platform.os": lambda node: node.get("Description", {}).get("Platform", {}).get("OS"),
    "node.platform.arch": lambda node: node.get("Description", {}).get("Platform", {}).get("Architecture"),
}


def is_constraint(text: str) -> bool:
    """Return whether swarm accepts this text as a placement constraint."""
    return _FORM.fullmatch(text) is not None


def is_met(constraint: str, node: Mapping[str, Any]) -> bool:
    """Return whether the API's node meets one constraint, such as ``node.labels.gpu.model==T4``."""
    if "==" not in constraint and "!=" not in constraint:
        return True  # the scheduler ignores a constraint that it cannot parse
    key, equal, wanted = _parse(constraint)
    if key.lower() == "node.ip":
        is_same = _same_address(wanted, node.get("Status", {}).get("Addr"))
        return is_same is not None and is_same == equal
    value = _value(key, node)
    # Values are not case-sensitive. A missing value is treated as empty.
    return value is not None and (value.lower() == wanted.lower()) == equal


def is_on_node_label(constraint: str) -> bool:
    return constraint.strip()[: len(NODE_LABEL)].lower() == NODE_LABEL


def runs_on(platforms: Iterable[Mapping[str, Any]], node: Mapping[str, Any]) -> bool:
    """Return whether the node has one of these platforms. An image without platforms runs anywhere."""
    platform = node.get("Description", {}).get("Platform")
    return not platforms or (platform is not None and any(_fits(wanted, platform) for wanted in platforms))


def _parse(constraint: str) -> tuple[str, bool, str]:
    """Return (key, whether the operator is ``==``, value)."""
    operator = "==" if "==" in constraint else "!="
    key, dummy_operator, value = constraint.partition(operator)
    return key.strip(), operator == "==", value.strip()


def _value(key: str, node: Mapping[str, Any]) -> str | None:
    """Return the key's value on this node; None for a key that swarm does not know. No node meets a constraint with such a key."""
    name = key.lower()
    if name in _FIELDS:
        return _FIELDS[name](node) or ""
    # The key of the label itself is case-sensitive.
    if name.startswith(NODE_LABEL):
        return (node.get("Spec", {}).get("Labels") or {}).get(key[len(NODE_LABEL) :], "")
    if name.startswith(ENGINE_LABEL):
        return (node.get("Description", {}).get("Engine", {}).get("Labels") or {}).get(key[len(ENGINE_LABEL) :], "")
    return None


def _same_address(wanted: str, address: Any) -> bool | None:
    """Return whether the address equals the wanted address or is in the wanted network; None if either text is invalid."""
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(wanted, strict=False)
    except (ValueError, TypeError):
        return None


def _fits(wanted: Mapping[str, Any], platform: Mapping[str, Any]) -> bool:
    architecture, system = _architecture(wanted), wanted.get("OS")
    return architecture in ("", _architecture(platform)) and system in (None, "", platform.get("OS"))


def _architecture(platform: Mapping[str, Any]) -> str:
    name = platform.get("Architecture") or ""
    return _SAME_ARCHITECTURE.get(name, name)
