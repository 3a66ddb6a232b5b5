# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates the published ports of a Compose service for a stack, and lists the ports in the form of swarm (pure).

The rules are those of nat.ParsePortSpec of docker/go-connections. Docker checks the long form less than the short form. In the long form, it reads an
unknown mode as ingress and an unknown protocol as tcp. It also accepts numbers above 65535, and then the tasks of the service wait forever.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError
from . import keys
from .fields import Notes, kind_of, refuse_unknown

HOST, INGRESS = "host", "ingress"
PROTOCOLS = ("tcp", "udp", "sctp")
MAX_PORT = 65535
_SHORT = re.compile(r"(?:(?P<published>\d{1,5})?(?:-(?P<until>\d{1,5}))?:)?(?P<target>\d{1,5})(?:-(?P<last>\d{1,5}))?(?:/(?P<protocol>[A-Za-z]*))?")


class Port(NamedTuple):
    """A published port. If ``published`` is 0, swarm chooses the number."""

    published: int
    protocol: str
    mode: str
    target: int

    @property
    def label(self) -> str:
        return f"{self.published}/{self.protocol}"


def translate_ports(ports: Any, where: str, notes: Notes) -> list[Any]:
    if not isinstance(ports, list):
        raise GpuSwarmError(f"{where} is {kind_of(ports)}, but must be a list. Begin each port with '- '.")
    errors = Errors()
    # Refused ports are replaced, not removed, so that other ports keep their numbers.
    result = [errors.collect(_port, item, f"{where}[{number}]", notes, instead={"target": 1, "mode": HOST}) for number, item in enumerate(ports)]
    errors.refuse(result)
    return result


def _port(item: Any, where: str, notes: Notes) -> Any:
    if isinstance(item, (int, str)) and not isinstance(item, bool):
        text = str(item).strip()
        if text.count(":") > 1:
            address, published, target = text.rsplit(":", 2)
            _refuse_address(where, address)
            text = f"{published}:{target}"
        _parse_short_form(text, where)
        return text
    if not isinstance(item, dict):
        raise GpuSwarmError(f"{where} is {kind_of(item)}. Write it as published:target, or as a mapping.")
    errors = Errors()
    if item.get("host_ip"):
        errors.collect(_refuse_address, where, str(item["host_ip"]))
    for key in ("name", "app_protocol"):
        if key in item:
            notes.ignored(where, key, "nothing: it only describes the port")
    accepted = keys.PORT | {"host_ip", "name", "app_protocol"}
    errors.collect(refuse_unknown, item, accepted, where, "A port supports target, published, protocol and mode.")
    entry = {key: value for key, value in item.items() if key in keys.PORT and value not in (None, "")}
    result = errors.collect(_convert_long_form, entry, where, notes)
    errors.refuse()
    return result


def _convert_long_form(result: dict[str, Any], where: str, notes: Notes) -> dict[str, Any]:
    errors = Errors()
    for key in ("target", "published"):
        if key == "target" or key in result:
            result[key] = errors.collect(_number, result.get(key), int(key == "target"), f"{where}.{key}")
    if "protocol" in result:
        result["protocol"] = str(result["protocol"]).lower()
        if result["protocol"] not in PROTOCOLS:
            errors.add(f"{where}.protocol is {result['protocol']!r}, but must be tcp, udp or sctp. Write one of them.")
    errors.refuse()
    if "mode" in result:
        mode = str(result["mode"]).lower()
        if mode not in (HOST, INGRESS):
            notes.add(
                f"{where}.mode is {mode}, which does not exist. Docker reads it as ingress, so ingress is used. Write host for a port on each node"
            )
        result["mode"] = mode if mode == HOST else INGRESS
    return result


def _number(value: Any, minimum: int, where: str) -> int:
    text = str(value)
    if not text.isdecimal() or not minimum <= int(text) <= MAX_PORT:
        raise GpuSwarmError(f"{where} is {value!r}. Write one number up to {MAX_PORT}, and a separate entry for each further port.")
    return int(text)


def _refuse_address(where: str, address: str) -> None:
    """Refuse a port on a single address, because a swarm would publish the port on all addresses."""
    if address.strip("[]") not in ("0.0.0.0", "::", ""):
        raise GpuSwarmError(
            f"{where} is published only on {address}, but swarm publishes a port on all addresses of the nodes. Remove the address if others may "
            "reach the port. Otherwise remove the port: services in one network reach each other without it."
        )


def _parse_short_form(text: str, where: str) -> list[Port]:
    match = _SHORT.fullmatch(text)
    protocol = (match.group("protocol") or "tcp").lower() if match else ""
    if match is None or protocol not in PROTOCOLS or (match.group("until") and not match.group("published")):
        raise GpuSwarmError(f"{where} is {text!r}. Write it as published:target, such as 8080:80, with /udp or /sctp after it if it is not tcp.")
    first, last = int(match.group("target")), int(match.group("last") or match.group("target"))
    begin = int(match.group("published") or 0)
    end = int(match.group("until") or begin)
    if not 0 < first <= last <= MAX_PORT or not begin <= end <= MAX_PORT:
        raise GpuSwarmError(f"{where} is {text!r}, but a port is a number from 1 to {MAX_PORT}, and a range starts with the lower one. Correct it.")
    count = last - first
    if count and begin and end - begin != count:
        raise GpuSwarmError(f"{where} is {text!r}: its two ranges differ in length. Write the same number of ports on both sides.")
    if count:
        return [Port(begin + step if begin else 0, protocol, INGRESS, first + step) for step in range(count + 1)]
    return [Port(number, protocol, INGRESS, first) for number in range(begin, end + 1)]


def expanded(service: Mapping[str, Any], where: str = "") -> list[Port]:
    """List each port that the service of a stack publishes."""
    result: list[Port] = []
    for item in service.get("ports") or []:
        if isinstance(item, dict):
            result.append(Port(item.get("published") or 0, item.get("protocol") or "tcp", item.get("mode") or INGRESS, item["target"]))
        else:
            result += _parse_short_form(item, where)
    return result
