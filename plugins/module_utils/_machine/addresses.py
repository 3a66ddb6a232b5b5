# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the addresses of this machine. Finds the address that Docker advertises for a setting. Finds out whether Docker can choose an address without
a setting.

``docker swarm init`` without an address takes the machine's only address, and fails if the machine has several addresses
(moby daemon/cluster/listen_addr_linux.go). A join needs no address, because the manager sees the source address of the connection. So a join ignores
an address that cannot be resolved (daemon/cluster/swarm.go, Join).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import array
import fcntl
import ipaddress
import os
import re
import socket
import struct
from typing import Iterable, Mapping, NamedTuple, Sequence

SYS = "/sys/class/net"
IF_INET6 = "/proc/net/if_inet6"
# Interfaces that Docker creates. Docker recognises them by their subnets.
DOCKER_INTERFACES = re.compile(r"docker0|docker_gwbridge|br-[0-9a-f]{12}|veth[0-9a-f]{7}")
SIOCGIFCONF = 0x8912
IFREQ_SIZE = 40 if struct.calcsize("P") == 8 else 32
NAME, ADDRESS = 16, slice(20, 24)
FLAG_UP = 1


class Interface(NamedTuple):
    """A network interface."""

    name: str
    device: bool  # whether the interface is a network card, physical or of a virtual machine
    addresses: list[str]


def ambiguous_addresses() -> list[str]:
    """Return the addresses that Docker cannot choose between, as ``10.0.0.5 (eth0)``. The list is empty if Docker can choose."""
    addresses: dict[str, list[str]] = {}
    for name, address in _read_ipv4() + parse_inet6(_read(IF_INET6)):
        if _is_up(name):
            addresses.setdefault(name, []).append(address)
    return find_ambiguous([Interface(name, os.path.exists(os.path.join(SYS, name, "device")), addresses[name]) for name in sorted(addresses)])


def addresses_by_interface() -> dict[str, list[str]]:
    """Return the addresses of each interface that other machines may reach. The loopback and interfaces of containers are skipped."""
    by_name: dict[str, list[str]] = {}
    for name, address in _read_ipv4() + parse_inet6(_read(IF_INET6)):
        by_name.setdefault(name, []).append(address)
    return {name: addresses for name, addresses in sorted(by_name.items()) if any(map(_is_global, addresses))}


def advertised_address(setting: str, interfaces: Mapping[str, Sequence[str]]) -> str:
    """Return the address that Docker advertises for ``setting``: an address or an interface, with or without a port.

    Raises ValueError, with the reason, if Docker would refuse the setting (moby daemon/cluster/listen_addr.go, resolveAdvertiseAddr).
    """
    head, colon, port = setting.rpartition(":")
    name = head.strip("[]") if colon and port.isdigit() and (":" not in head or head.endswith("]")) else setting
    if name in interfaces:
        return _single_address(name, interfaces[name])
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        raise ValueError("this machine has no interface %s with an address" % name) from None
    if address.is_unspecified:
        raise ValueError("%s is not the address of one machine" % name)
    return str(address)


def _single_address(name: str, addresses: Sequence[str]) -> str:
    """Return the address of an interface, with IPv4 before IPv6. Link-local addresses are included. Raises ValueError if the interface has two
    addresses of one family."""
    v4, v6 = ([text for text in addresses if ipaddress.ip_address(text).version == version] for version in (4, 6))
    for same_family in (v4, v6):
        if len(same_family) > 1:
            raise ValueError("interface %s has several addresses: %s" % (name, ", ".join(same_family)))
    return (v4 + v6)[0]


def find_ambiguous(interfaces: Iterable[Interface]) -> list[str]:
    """Return the addresses of ``interfaces`` that Docker cannot choose between.

    The result has addresses of virtual interfaces only if no network card has an address, for example in a container.
    """
    others = [interface for interface in interfaces if interface.name != "lo"]
    reachable = [interface._replace(addresses=[text for text in interface.addresses if _is_global(text)]) for interface in others]
    reachable = [interface for interface in reachable if interface.addresses]
    devices = [interface for interface in reachable if interface.device]
    devices = devices or [interface for interface in reachable if not DOCKER_INTERFACES.fullmatch(interface.name)]
    if len(devices) < 2 and not any(_has_several_of_a_family(interface.addresses) for interface in devices):
        return []
    return ["%s (%s)" % (address, interface.name) for interface in devices for address in interface.addresses]


def _has_several_of_a_family(addresses: Iterable[str]) -> bool:
    """Return whether two of these addresses are of one family. One IPv4 and one IPv6 address are not ambiguous, because Docker uses the IPv4
    address."""
    families = [ipaddress.ip_address(text).version for text in addresses]
    return len(families) > len(set(families))


def _is_global(text: str) -> bool:
    address = ipaddress.ip_address(text)
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def parse_inet6(text: str) -> list[tuple[str, str]]:
    """Return ``(interface, address)`` for each line of /proc/net/if_inet6."""
    lines = [line.split() for line in text.splitlines()]
    return [(line[5], str(ipaddress.IPv6Address(int(line[0], 16)))) for line in lines if len(line) == 6]


def parse_ifconf(data: bytes) -> list[tuple[str, str]]:
    """Return ``(interface, address)`` for each entry of SIOCGIFCONF. An alias such as ``eth0:1`` is returned as ``eth0``."""
    entries = [data[at : at + IFREQ_SIZE] for at in range(0, len(data), IFREQ_SIZE)]
    return [(entry[:NAME].split(b"\0")[0].decode().partition(":")[0], socket.inet_ntoa(entry[ADDRESS])) for entry in entries]


def _read_ipv4() -> list[tuple[str, str]]:
    """Read IPv4 addresses from the kernel. Starting a program such as ip would take longer than all other reads of the network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        capacity = 64
        while True:
            buffer = array.array("B", bytes(capacity * IFREQ_SIZE))
            request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
            used = struct.unpack("iP", fcntl.ioctl(sock.fileno(), SIOCGIFCONF, request))[0]
            if used < len(buffer):
                return parse_ifconf(buffer.tobytes()[:used])
            capacity *= 2


def _is_up(name: str) -> bool:
    text = _read(os.path.join(SYS, name, "flags")).strip()
    return bool(int(text, 16) & FLAG_UP) if text else True


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""
