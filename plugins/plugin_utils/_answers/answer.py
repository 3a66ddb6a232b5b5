# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks a node's answer before it is used (pure). Somebody who controls a node can answer anything.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ...module_utils._policy import generic_resources, offered_devices
from ...module_utils._printable import printable, printable_lines

# Keys in a task's result on which Ansible acts (plugins/strategy and executor/task_executor of ansible-core). None of our modules returns them.
# Variables would do the most harm: in a call for all hosts, the variables of the first host would apply to all.
ANSIBLE_KEYS = frozenset(
    ("ansible_facts", "ansible_stats", "add_host", "add_group", "results", "unreachable", "skipped", "failed_when_result", "ansible_job_id")
)
# Texts that may have several lines. Every other text is a name or a sentence.
MULTILINE_KEYS = frozenset(("msg", "diff", "exception", "stdout", "stderr", "module_stdout", "module_stderr"))
# The controller sets these keys to the path of Python on the node.
DISCOVERED = ("discovered_interpreter_", "ansible_discovered_interpreter_")

# JSON allows numbers that no record of a machine contains: numbers that are larger than any counter, or not finite.
MAX_NUMBER = 2**63
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){2}")

Validator = Callable[[Any], bool]


class Absent:
    """Stands for a missing field."""


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and is_number(value)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < MAX_NUMBER


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def is_version(value: Any) -> bool:
    return isinstance(value, str) and bool(VERSION.fullmatch(value))


def is_resources(value: Any) -> bool:
    """Return whether these are entries of KIND=value that dockerd would accept."""
    try:
        return is_texts(value) and _are_resources(generic_resources.parse(value))
    except (generic_resources.ResourceError, ValueError):
        return False


def is_info(value: Any) -> bool:
    """Return whether these are the resources as dockerd shows them."""
    try:
        return _are_resources(generic_resources.from_info(value))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return False


def _are_resources(resources: Mapping[Any, Any]) -> bool:
    return all(is_text(kind) and (is_count(value) or is_texts(value)) for kind, value in resources.items())


def nullable(is_valid: Validator) -> Validator:
    return lambda value: value is None or is_valid(value)


def optional(is_valid: Validator) -> Validator:
    """Return whether an optional field is valid. The field may be missing or null."""
    return lambda value: value is None or value is Absent or is_valid(value)


def record(fields: Mapping[str, Validator]) -> Validator:
    return lambda value: isinstance(value, dict) and all(is_valid(value.get(key, Absent)) for key, is_valid in fields.items())


def records(fields: Mapping[str, Validator]) -> Validator:
    is_valid = record(fields)
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


def is_memory(value: Any) -> bool:
    """Return whether this is a guard's record of its kinds that count memory."""
    return isinstance(value, dict) and all(map(record({"devices": is_texts, "mib": is_count}), value.values()))


def is_devices(value: Any) -> bool:
    """Return whether these are paths of devices by the name under which services may have them."""
    return isinstance(value, dict) and len(value) <= offered_devices.MOST and all(map(is_texts, value.values()))


def is_addresses(value: Any) -> bool:
    """Return whether these are IP addresses by interface."""
    if not isinstance(value, dict):
        return False
    try:
        valid = [is_texts(addresses) and addresses and list(map(ipaddress.ip_address, addresses)) for addresses in value.values()]
        return all(valid)
    except ValueError:
        return False


CONTAINERS = records({
    "name": is_text, "service": nullable(is_text), "task": nullable(is_text), "age": optional(is_count), "swarm_networks": optional(is_texts),
})  # fmt: skip
CPU = {
    "machine": is_text, "vendor": nullable(is_text), "implementer": nullable(is_text), "part": nullable(is_text), "model": nullable(is_text),
    "features": is_texts,
}  # fmt: skip
# The fields of a GPU that a run reads for all hosts at once.
GPU: dict[str, Validator] = {
    "index": is_count, "uuid": nullable(is_text), "model": nullable(is_text), "memory_mib": nullable(is_number),
    "mig_devices": optional(records({"uuid": nullable(is_text)})),
}  # fmt: skip
# The parts of gpu_node's answer that a run reads for all hosts at once, so that one malformed answer could end the run for all hosts.
PARTS: dict[str, Validator] = {
    "msg": is_text,
    "gpus": records(GPU),
    "left_out": records({
        "index": is_count, "uuid": nullable(is_text), "name": nullable(is_text), "reason": is_text, "last_known": optional(is_bool),
        **dict.fromkeys(("pci_bus_id", "slot", "serial"), optional(nullable(is_text))),
    }),
    "resources": is_resources,
    "advertised": is_resources,
    "labels": lambda value: isinstance(value, dict),  # each item is checked separately, see _node_labels
    "labels_unknown": is_texts,
    "devices": optional(is_devices),
    "cpu": lambda value: value is None or isinstance(value, dict),
    "missing": is_texts,
    "drift": is_texts,
    "adopted": is_texts,
    "refused": records({"id": is_text, "text": is_text}),
    "restart_required": is_bool,
    "restarted": is_bool,
    "runtime_stays": is_bool,
    "kept": is_bool,
    "health": nullable(record({
        "label": optional(is_text), "blocked": optional(is_text), "reasons": optional(is_texts), "report": optional(is_text),
        "shown": optional(is_text),
        "allocation_findings": optional(lambda value: isinstance(value, list)),  # each item is checked separately, see _health/allocation_findings
    })),
    "watcher_missing": is_bool,
    "isolation": nullable(record({
        "level": nullable(is_text), "turned_off": is_bool,
        "found": lambda value: isinstance(value, dict),  # each item is checked separately, see _plan/isolation_label
        "memory": optional(is_memory),
    })),
    "isolation_level": nullable(is_text),
    "fault": nullable(is_text),
    "cuda": nullable(is_text),
    "react": nullable(record({
        "version": is_text, "command": optional(is_text), "settings": lambda value: isinstance(value, dict), "running": is_bool,
    })),
    "toolkit_version": nullable(is_version),
    "toolkit_held": is_texts,
    "toolkit_files": is_texts,
    "engine": nullable(record({"running": optional(is_bool), "generic_resources": optional(is_info), "lost_at_reload": optional(is_texts)})),
    "swarm": record({
        "state": is_text, "id": optional(is_text), "node_id": optional(is_text), "addr": optional(is_text), "error": optional(is_text),
        "control_available": optional(is_bool),
        "managers": optional(is_texts), "manager_ids": optional(is_texts), "half_joined": optional(is_bool), "undecided": optional(is_texts),
        "addresses": optional(is_addresses),
    }),
    "containers": CONTAINERS,
    "came": CONTAINERS,
    "busy": CONTAINERS,
    "images": records({"id": is_text, "name": is_text, "cuda": is_bool}),
    "warnings": lambda value: isinstance(value, (list, tuple)),
}  # fmt: skip
# The required fields, unless the module failed.
REQUIRED = (
    "gpus", "left_out", "resources", "advertised", "labels", "missing", "drift", "refused", "restart_required", "toolkit_version", "engine",
    "swarm", "containers",
)  # fmt: skip


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a module without keys on which Ansible would act, and with printable texts."""
    facts = answer.get("ansible_facts")
    discovered = {key: value for key, value in facts.items() if str(key).startswith(DISCOVERED)} if isinstance(facts, Mapping) else {}
    fields_left = {key: value for key, value in answer.items() if key not in ANSIBLE_KEYS}
    return shown({**fields_left, "ansible_facts": discovered} if discovered else fields_left)


def shown(value: Any, lines: bool = False) -> Any:
    """Return the value as plain data with only printable texts, also in keys. Since 2.19, ansible-core keeps warnings and errors in dataclasses."""
    if isinstance(value, str):
        return printable_lines(value) if lines else printable(value)
    if isinstance(value, Mapping):
        return {shown(key): shown(item, lines or key in MULTILINE_KEYS) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [shown(item, lines) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: shown(getattr(value, field.name), lines=True) for field in fields(value) if field.init})
    return value


def form_error(answer: Mapping[str, Any]) -> str | None:
    """Describe the first part of gpu_node's answer that does not have the right form. None if the whole answer is well-formed."""
    missing = [] if answer.get("failed") else [key for key in REQUIRED if key not in answer]
    if missing:
        return f"{missing[0]} is missing"
    invalid = [key for key, is_valid in PARTS.items() if key in answer and not is_valid(answer[key])]
    return f"{invalid[0]} does not have the right form" if invalid else None


def for_plan(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a well-formed answer without the fields that a plan does not read. With eight GPUs, these fields are most of the answer, and Ansible
    copies the whole result several times, in one process for all hosts."""
    gpus = [{key: value for key, value in gpu.items() if key in GPU} for gpu in answer.get("gpus") or ()]
    other_fields = {key: value for key, value in answer.items() if key != "invocation"}
    return {**other_fields, "gpus": gpus} if "gpus" in answer else other_fields


def is_cpu(item: Any) -> bool:
    return record(CPU)(item)
