# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values that keys of a stack file accept (pure). Equivalent values are converted, such as a number where Docker expects text.

The rules are those of cli/compose/schema/data/config_schema_v3.9.json and cli/compose/loader of docker/cli. As in Compose, empty means no value.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from decimal import Decimal
from ipaddress import ip_network
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from .fields import kind_of, mapping, pairs, text_of

# Converts a value for Docker, or raises an error. The string is the place for messages.
Shape = Callable[[Any, str], Any]
_YES, _NO = ("y", "yes", "true", "on"), ("n", "no", "false", "off")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_HOURS = {"d": 24, "w": 7 * 24}
_AMOUNT = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)")
_MAX_INT = 2**63 - 1
MILLISECOND = 10**6
_REFUSED = object()  # stands for a refused value
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmgtp])(?:i?b)?|b)?", re.IGNORECASE)
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_CPUS = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?")
# The minimum of swarmkit's manager/controlapi/service.go.
MIN_MEMORY, MIN_CPUS, NANO = 4 * 2**20, Decimal("0.001"), Decimal(10) ** 9


def invalid_value(value: Any, where: str, rule: str, remedy: str = "Write one.") -> GpuSwarmError:
    shown = repr(value) if isinstance(value, (str, int, float)) and len(repr(value)) <= 60 else kind_of(value)
    if value == "":
        shown = "empty (perhaps a variable that is not set)"
    return GpuSwarmError(f"{where} is {shown}, but must be {rule}. {remedy}")


# -- single values -------------------------------------------------------------------------------------------------------------


def text(value: Any, where: str) -> str:
    return str(text_of(value, where))


def texts(value: Any, where: str) -> list[str]:
    """Return a list without duplicates. A single string becomes a list with one item."""
    strings = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(_items(strings, where)))


def command(value: Any, where: str) -> str | list[str]:
    """Return the words of a command. Docker splits a string into words like a shell. In a list, numbers become text."""
    result = text_or_list(value, where)
    if isinstance(result, list):
        return result
    try:
        shlex.split(result, comments=True)
    except ValueError as problem:
        raise GpuSwarmError(
            f"{where} cannot be split into words: a quote is not closed, or it ends with a backslash. Close the quote, or write a list."
        ) from problem
    return result


def text_or_list(value: Any, where: str) -> str | list[str]:
    """Return a string or a list."""
    return _items(value, where) if isinstance(value, list) else text(value, where)


def _items(items: list[Any], where: str) -> list[str]:
    errors = Errors()
    result = [errors.collect(_item, item, f"{where}[{number}]") for number, item in enumerate(items)]
    errors.refuse()
    return result


def _item(value: Any, where: str) -> str:
    if value is None:
        raise GpuSwarmError(f"{where} is empty, but must be text. Remove it, or put it in quotes.")
    return text(value, where)


def flag(value: Any, where: str) -> bool:
    if isinstance(value, str) and value.lower() in _YES + _NO:
        return value.lower() in _YES
    if not isinstance(value, bool):
        raise invalid_value(value, where, "true or false")
    return value


def whole(minimum: int = 0) -> Shape:
    """Return a whole number of ``minimum`` or more."""

    def check(value: Any, where: str) -> int:
        number: Any = int(value) if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,19}", value) else value
        if isinstance(number, bool) or not isinstance(number, int) or not minimum <= number <= _MAX_INT:
            raise invalid_value(value, where, f"a whole number of {minimum} or more")
        return number

    return check


def file_mode(value: Any, where: str) -> int:
    """Return the mode of a file. As in Compose, a string is octal. Docker would read '0440' as the number 440."""
    if isinstance(value, str) and re.fullmatch(r"(?:0o)?[0-7]{1,5}", value):
        return int(value.removeprefix("0o"), 8)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 0o7777:
        raise invalid_value(value, where, "the mode of a file", "Write it as 0440.")
    return value


def ratio(value: Any, where: str) -> float:
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise invalid_value(value, where, "a number from 0 to 1", "Write 0.25 for a quarter of the tasks.")
    return number


def one_of(*choices: str) -> Shape:
    def check(value: Any, where: str) -> str:
        choice = text(value, where).lower()
        if choice not in choices:
            raise invalid_value(value, where, " or ".join(filter(None, [", ".join(choices[:-1]), choices[-1]])))
        return choice

    return check


def duration(minimum: int | None = 0) -> Shape:
    """Return a duration in Go's format. Days and weeks, which Compose allows, become hours. ``minimum`` is in nanoseconds; 0 is always allowed."""

    def check(value: Any, where: str) -> str:
        duration_text: Any = "0s" if value in (0, "0") and not isinstance(value, bool) else value
        digits = duration_text.lstrip("+-") if isinstance(duration_text, str) else ""
        parts = _AMOUNT.findall(digits)
        if not parts or "".join(number + unit for number, unit in parts) != digits:
            raise invalid_value(value, where, "a duration with its unit", "Write it as 90s, 1m30s or 2h.")
        result = "".join(f"{Decimal(number) * _HOURS[unit]:f}h" if unit in _HOURS else number + unit for number, unit in parts)
        absolute: Decimal = sum((Decimal(number) * _UNITS[unit] for number, unit in _AMOUNT.findall(result)), Decimal(0))
        nanoseconds = -absolute if duration_text.startswith("-") else absolute
        if absolute > _MAX_INT:
            raise invalid_value(value, where, "at most 2562047h")
        if minimum is not None and nanoseconds and nanoseconds < max(minimum, 1):
            raise invalid_value(value, where, "0, or 1ms or longer" if minimum else "0 or longer")
        return f"-{result}" if duration_text.startswith("-") else result

    return check


def size(value: Any, where: str) -> int:
    """Return a size in bytes. As in Docker, 1 KB is 1024 bytes."""
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise invalid_value(value, where, "a size", "Write it as 8gb, or in bytes.")
    return int(Decimal(match.group(1)) * _BYTES[(match.group(2) or "").lower()])


def memory(value: Any, where: str) -> str:
    amount = size(value, where)
    if 0 < amount < MIN_MEMORY:
        remedy = f"Without a unit this is in bytes: write {value}g if you mean gigabytes." if str(value).strip().isdecimal() else "Write more."
        raise invalid_value(value, where, "4m or more, the minimum of swarm", remedy)
    return str(value).strip()


def cpus(value: Any, where: str) -> str:
    cpu_text = text(value, where).strip()
    if not _CPUS.fullmatch(cpu_text):
        raise invalid_value(value, where, "a number of CPUs", "Write it as '0.5'.")
    number = Decimal(cpu_text)
    if number * NANO != (number * NANO).to_integral_value():
        raise invalid_value(value, where, "a number with at most 9 decimals", "Write fewer.")
    if 0 < number < MIN_CPUS:
        raise invalid_value(value, where, "0.001 or more, the minimum of swarm", "Write 0.5 for half a CPU.")
    return cpu_text


def subnet(value: Any, where: str) -> str:
    """Return the subnet without host bits. Docker before 25.0 reads 10.1.2.3/24 as 10.1.2.0/24. Later versions refuse it."""
    address = text(value, where)
    try:
        network = ip_network(address, strict=False)
    except ValueError as problem:
        raise invalid_value(address, where, "a subnet", "Write it as 10.20.0.0/24.") from problem
    if "/" not in address:
        raise invalid_value(address, where, "a subnet with its length", "Write it as 10.20.0.0/24.")
    return str(network)


def name_values(value: Any, where: str) -> Any:
    """Return a mapping of text, or a list of NAME=value."""
    return {key: item or "" for key, item in pairs(value, where).items()}


def hosts(value: Any, where: str) -> list[str]:
    """Return a list of host:address. In a mapping, the key is the host. A host with several addresses gets several entries."""
    errors = Errors()
    if isinstance(value, dict):
        entries = [(key, address) for key, item in value.items() for address in (item if isinstance(item, list) else [item])]
        entries_of_hosts = [f"{key}={errors.collect(_item, address, f'{where}.{key}')}" for key, address in entries]
    else:
        entries_of_hosts = texts(value, where)
    incomplete = [entry for entry in entries_of_hosts if not re.search(r"[=:]", entry)]
    errors.add(*(invalid_value(entry, where, "host:address", "Docker would ignore it. Write both.").message for entry in incomplete))
    errors.refuse()
    split = [re.split("[=:]", entry, maxsplit=1) for entry in entries_of_hosts]
    return list(dict.fromkeys(f"{host}:{address.removeprefix('[').removesuffix(']')}" for host, address in split))


def ulimits(value: Any, where: str) -> dict[str, Any]:
    return _of_each(_ulimit, mapping(value, where), where)


def _ulimit(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        return whole(-1)(value, where)
    if value.keys() != {"soft", "hard"}:
        raise GpuSwarmError(f"{where} must have both soft and hard, and nothing else. Write both, or one number.")
    return _of_each(whole(-1), value, where)


def _of_each(shape: Shape, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    errors = Errors()
    result = {key: errors.collect(shape, item, f"{where}.{key}") for key, item in values.items()}
    errors.refuse()
    return result


# -- lists and mappings ----------------------------------------------------------------------------------------------------------


def each(shape: Shape, stand_in: Callable[[str], Any] = lambda _where: _REFUSED) -> Shape:
    """Return a list of values of this shape. ``stand_in(place)`` replaces a refused value, so that other values keep their numbers in later checks.
    """

    def check(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise GpuSwarmError(f"{where} is {kind_of(value)}, but must be a list. Begin each entry with '- '.")
        errors = Errors()
        result = [errors.collect(shape, item, f"{where}[{number}]", instead=stand_in(f"{where}[{number}]")) for number, item in enumerate(value)]
        errors.refuse(None if _REFUSED in result else result)
        return result

    return check


def keys(shapes: Mapping[str, Shape]) -> Shape:
    """Return a mapping whose values have these shapes. Keys without a shape are checked elsewhere."""

    def check(value: Any, where: str) -> dict[str, Any]:
        present = {key: item for key, item in mapping(value, where).items() if item is not None}
        errors = Errors()
        converted = {
            key: errors.collect(shapes[key], item, f"{where}.{key}", instead=_REFUSED) if key in shapes else item for key, item in present.items()
        }
        valid = {key: item for key, item in converted.items() if item is not _REFUSED}
        errors.refuse(valid)
        return valid

    return check


_UPDATE: dict[str, Shape] = {
    "parallelism": whole(),
    "delay": duration(),
    "monitor": duration(),
    "max_failure_ratio": ratio,
    "order": one_of("stop-first", "start-first"),
}
DEPLOY = keys(
    {
        "endpoint_mode": one_of("vip", "dnsrr"),
        "labels": name_values,
        "mode": one_of("replicated", "global", "replicated-job", "global-job"),
        "placement": keys({"max_replicas_per_node": whole(), "preferences": each(keys({"spread": text}))}),
        "replicas": whole(),
        "resources": keys({"limits": keys({"cpus": cpus, "memory": memory}), "reservations": keys({"cpus": cpus, "memory": memory})}),
        "restart_policy": keys(
            {"condition": one_of("none", "on-failure", "any"), "delay": duration(), "max_attempts": whole(), "window": duration()}
        ),
        "rollback_config": keys({**_UPDATE, "failure_action": one_of("pause", "continue")}),
        "update_config": keys({**_UPDATE, "failure_action": one_of("pause", "continue", "rollback")}),
    }
)
_DURATION = duration(MILLISECOND)
_FILE_REFERENCE = keys({"source": text, "target": text, "uid": text, "gid": text, "mode": file_mode})
_MOUNT = keys(
    {
        "type": text,
        "source": text,
        "target": text,
        "read_only": flag,
        "consistency": text,
        "bind": keys({"propagation": one_of("private", "rprivate", "shared", "rshared", "slave", "rslave")}),
        "volume": keys({"nocopy": flag}),
    }
)


def _either(value: Any, where: str, of_mapping: Shape) -> Any:
    return of_mapping(value, where) if isinstance(value, dict) else _item(value, where)


def no_mount(where: str) -> dict[str, Any]:
    """Return a valid mount that replaces a refused mount."""
    return {"type": "tmpfs", "target": f"/{where}"}


SERVICE: dict[str, Shape] = {
    "cap_add": texts,
    "cap_drop": texts,
    "command": command,
    "configs": each(lambda value, where: _either(value, where, _FILE_REFERENCE)),
    "credential_spec": keys({"config": text, "file": text, "registry": text}),
    "deploy": DEPLOY,
    "dns": texts,
    "dns_search": texts,
    "entrypoint": command,
    "extra_hosts": hosts,
    "healthcheck": keys(
        {"disable": flag, "interval": _DURATION, "retries": whole(), "start_period": _DURATION, "test": text_or_list, "timeout": _DURATION}
    ),
    "hostname": text,
    "image": text,
    "init": flag,
    "isolation": text,
    "logging": keys({"driver": text, "options": name_values}),
    "read_only": flag,
    "secrets": each(lambda value, where: _either(value, where, _FILE_REFERENCE)),
    "stdin_open": flag,
    "stop_grace_period": duration(None),
    "stop_signal": text,
    "sysctls": name_values,
    "tty": flag,
    "ulimits": ulimits,
    "user": text,
    "volumes": each(lambda value, where: _either(value, where, _MOUNT), no_mount),
    "working_dir": text,
}
NETWORK = keys({"attachable": flag, "driver": text, "driver_opts": name_values, "internal": flag, "labels": name_values, "name": text})
SUBNET = keys({"subnet": subnet})
VOLUME = keys({"driver": text, "driver_opts": name_values, "labels": name_values, "name": text})
CONFIG_OR_SECRET = keys({"driver": text, "driver_opts": name_values, "labels": name_values, "name": text, "template_driver": one_of("golang")})


def service(definition: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the service with all values converted for Docker."""
    return dict(keys(SERVICE)(definition, where))
