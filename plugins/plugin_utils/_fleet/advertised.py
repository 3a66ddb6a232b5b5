# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether a host can advertise its configured address, and whether a member of the swarm advertises the right address (pure).

If Docker cannot resolve the address when a node joins, Docker advertises another address. A member keeps the address with which it joined.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._machine.addresses import DOCKER_INTERFACES, advertised_address
from ...module_utils._printable import printable

SETTING = "swarm_member_advertise_addr"
_MAX_NAMED = 5  # how many hosts the warning names


def unresolved_error(setting: str, swarm: Mapping[str, Any]) -> str | None:
    """Return why a host cannot advertise the configured address when it joins; None if it can. ``swarm`` is the host's answer about its swarm."""
    if not setting or not swarm.get("addresses"):
        return None
    try:
        advertised_address(setting, swarm["addresses"])
    except ValueError as reason:
        return printable(
            f"swarm_member_advertise_addr is {setting}, but {reason}. Docker would ignore the setting and advertise another address. "
            f"This machine has {_list_addresses(swarm['addresses'])}. Set swarm_member_advertise_addr to one of these addresses, or to an interface "
            "with one address. Or leave the setting empty."
        )
    return None


def difference(setting: str, swarm: Mapping[str, Any]) -> str | None:
    """Return why the address that a member advertises is wrong; None if the address is right. The text does not name the host.

    The machine must have the advertised address. If an address is configured, the member must advertise this address.
    """
    current, interfaces = str(swarm.get("addr") or ""), swarm.get("addresses")
    if swarm.get("state") != "active" or not current or not interfaces:
        return None
    if not setting:
        missing = not _is_loopback(current) and not any(_same(current, address) for addresses in interfaces.values() for address in addresses)
        return printable(f"advertises {current}, and the machine has {_list_addresses(interfaces)}") if missing else None
    try:
        wanted = advertised_address(setting, interfaces)
    except ValueError as reason:
        return printable(f"advertises {current}, and {SETTING} is {setting}, but {reason}")
    if _same(wanted, current):
        return None
    return printable(f"advertises {current}, and {SETTING} is {setting}{'' if wanted in setting else f' ({wanted})'}")


def warnings(differences: Mapping[str, str | None]) -> list[str]:
    """Return one warning about all hosts with a wrong address; [] without such hosts. ``differences`` has the result of difference() by host."""
    texts = [f"{host} {text}" for host, text in differences.items() if text]
    if not texts:
        return []
    more = f"; and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    text = (
        f"{'; '.join(texts[:_MAX_NAMED])}{more}. A member keeps the address that it had when it joined. To change the address, let the member leave "
        "and join again (run deprovision, then provision, both with --limit HOST). Or correct swarm_member_advertise_addr."
    )
    return [text]


def _list_addresses(interfaces: Mapping[str, Iterable[str]]) -> str:
    own_interfaces = {name: addresses for name, addresses in interfaces.items() if not DOCKER_INTERFACES.fullmatch(name)}
    return ", ".join(f"{address} ({name})" for name, addresses in (own_interfaces or interfaces).items() for address in addresses)


def _same(left: str, right: str) -> bool:
    try:
        return ipaddress.ip_address(left) == ipaddress.ip_address(right)
    except ValueError:
        return left == right


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
