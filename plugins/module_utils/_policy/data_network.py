# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels of a node with the interface and the address that the members of a gang use to reach each other on the host's network (pure).

The setting chooses the interface. The node's answer only says which addresses its interfaces have, so each text is checked before it becomes a label.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Iterable, Mapping, Sequence

from .._errors import GpuSwarmError
from .._machine.addresses import DOCKER_INTERFACES
from .._printable import shortened
from .generic_resources import shorten

PREFIX = "gpu-swarm.data-"
ADVERTISED = "advertised"  # the setting that stands for the interface with the advertised address
ADDRESS, INTERFACE = PREFIX + "address", PREFIX + "interface"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}")  # a name of the kernel has at most 15 characters


def check(setting: Any) -> None:
    """Raise GpuSwarmError if the setting is neither empty, the name of an interface, nor an address."""
    if setting not in (None, "") and not is_valid(setting):
        raise GpuSwarmError("data_interface is %s, but must be an interface or one of its addresses. Write it as ib0 or 10.0.0.5." % shorten(setting))


def is_valid(setting: Any) -> bool:
    return isinstance(setting, str) and bool(_NAME.fullmatch(setting) or _address(setting))


def labels(setting: str, advertised: str, interfaces: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the labels; {} if no interface is chosen, or if the chosen one has no address.

    ``setting`` is an interface, an address, or ``advertised``: the interface with the address that the node advertises in its swarm, or the only
    one that is not Docker's. If an interface is chosen, its first IPv4 address counts, else its first IPv6 address.
    """
    usable = {name: _usable(addresses) for name, addresses in interfaces.items() if _NAME.fullmatch(name)}
    wanted = advertised if setting == ADVERTISED else setting
    if wanted in usable:
        name, addresses = wanted, usable[wanted]
    elif _address(wanted):
        name, addresses = next(((name, [_address(wanted)]) for name in sorted(usable) if _address(wanted) in usable[name]), ("", []))
    elif setting != ADVERTISED:
        return {}
    else:
        own = sorted(name for name, found in usable.items() if found and not DOCKER_INTERFACES.fullmatch(name))
        name, addresses = (own[0], usable[own[0]]) if len(own) == 1 else ("", [])
    return {ADDRESS: addresses[0], INTERFACE: name} if addresses else {}


def by_address(interfaces: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Return the labels for each address that the node may advertise when it joins its swarm."""
    found = {address: labels(address, "", interfaces) for addresses in interfaces.values() for address in _usable(addresses)}
    return {address: of_address for address, of_address in found.items() if of_address}


def missing(setting: str, interfaces: Mapping[str, Sequence[str]]) -> str:
    """Return the end of a sentence about a setting that names no address of the machine."""
    found = ["%s (%s)" % (", ".join(usable), name) for name, addresses in sorted(interfaces.items()) if (usable := _usable(addresses))]
    text = "its data interface is %s, and the machine has neither such an address nor such an interface with an address. It has %s."
    return text % (shorten(setting), shortened(found, "; ") or "none")


def _usable(addresses: Iterable[str]) -> list[str]:
    """Return the addresses that another machine can reach, IPv4 first, in the order of the kernel."""
    found = [address for address in map(_address, addresses) if address]
    return sorted(found, key=lambda address: ":" in address)


def _address(text: str) -> str:
    """Return the address in its usual form; '' if the text is none, or if no other machine could reach it."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    unusable = address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local
    return "" if unusable else str(address)
