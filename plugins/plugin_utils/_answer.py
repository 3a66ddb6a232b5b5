# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node has answered, before anything is made of it (pure): whoever controls a node can answer anything.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ..module_utils import _resources
from ..module_utils._printable import printable, printable_lines

# What Ansible acts on wherever it stands in the result of a task (plugins/strategy and executor/task_executor of ansible-core), and
# none of our modules returns. Variables of the run above all: those of the first host hold for a call that is made once for all.
ACTED_ON = frozenset(
    ("ansible_facts", "ansible_stats", "add_host", "add_group", "results", "unreachable", "skipped", "failed_when_result", "ansible_job_id")
)
# Texts of several lines; everything else that is text is a name or a sentence.
LINES = frozenset(("msg", "diff", "exception", "stdout", "stderr", "module_stdout", "module_stderr"))
# Put there by the controller: where it found Python on the node.
DISCOVERED = ("discovered_interpreter_", "ansible_discovered_interpreter_")

NONE = type(None)
ID, TEXT, LIST = (str, NONE), str, object()  # a list of texts, or none
CONTAINER = {"name": TEXT, "service": ID, "task": ID, "age": (int, NONE), "swarm_networks": LIST}
# The parts of gpu_node's answer that a run reads of all hosts at once, so that a single one could end it for all.
LISTS: dict[str, dict[str, Any]] = {
    "gpus": {"name": (str, NONE), "memory_mib": (int, float, NONE)},
    "left_out": {"reason": TEXT},
    "refused": {"id": TEXT, "text": TEXT},
    "images": {"id": TEXT, "name": TEXT, "cuda": bool},
    "containers": CONTAINER,
    "came": CONTAINER,
}
SWARM = {
    "state": TEXT, "node_id": ID, "control_available": (bool, NONE), "error": ID, "managers": LIST, "half_joined": (bool, NONE),
    "undecided": (list, NONE),
}  # fmt: skip
CPU = {"machine": TEXT, "vendor": ID, "implementer": ID, "part": ID, "model": ID, "features": LIST}
WORDS = ("resources", "advertised", "missing", "drift", "adopted", "toolkit_held", "labels_unknown")
ALWAYS = ("gpus", "resources", "labels", "missing", "drift", "restart_required", "containers", "swarm")


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of a module without what Ansible would act on, its text as it may go to a terminal."""
    facts = answer.get("ansible_facts")
    found = {key: value for key, value in facts.items() if str(key).startswith(DISCOVERED)} if isinstance(facts, Mapping) else {}
    kept = {key: value for key, value in answer.items() if key not in ACTED_ON}
    return shown({**kept, "ansible_facts": found} if found else kept)


def shown(value: Any, lines: bool = False) -> Any:
    """Plain data with all its text printable, keys as well. ansible-core keeps warnings and errors in dataclasses as of 2.19."""
    if isinstance(value, str):
        return printable_lines(value) if lines else printable(value)
    if isinstance(value, Mapping):
        return {shown(key): shown(item, lines or key in LINES) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [shown(item, lines) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: shown(getattr(value, one.name), lines=True) for one in fields(value) if one.init})
    return value


def malformed(answer: Mapping[str, Any]) -> str | None:
    """The part of an answer of gpu_node that is not what this module answers, or None."""
    lacking = [] if answer.get("failed") else [key for key in ALWAYS if key not in answer]
    if lacking:
        return f"{lacking[0]} is not there"
    wrong = [key for key in answer if not _is_right(key, answer[key])]
    return f"{wrong[0]} is not what it should be" if wrong else None


def _is_right(key: str, value: Any) -> bool:
    if key in LISTS:
        return isinstance(value, list) and all(has(item, LISTS[key]) for item in value)
    if key in WORDS:
        return value is not None and _fits(value, LIST) and (key not in ("resources", "advertised") or _parses(value))
    if key == "swarm":
        return has(value, SWARM)
    if key == "engine":
        return value is None or (isinstance(value, dict) and _is_info(value.get("generic_resources")))
    known: dict[str, Any] = {"labels": dict, "toolkit_version": (str, NONE), "cpu": (dict, NONE), "msg": str}
    known.update(dict.fromkeys(("restart_required", "runtime_stays"), bool))
    return isinstance(value, known.get(key, object))


def is_cpu(item: Any) -> bool:
    return has(item, CPU) and item.get("features") is not None


def has(item: Any, fields: Mapping[str, Any]) -> bool:
    """Whether this is a dictionary of which these fields have these types; what may be null may be left out."""
    return isinstance(item, dict) and all(_fits(item.get(key), kind) for key, kind in fields.items())


def _fits(value: Any, kind: Any) -> bool:
    if kind is LIST:
        return value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value))
    return isinstance(value, kind)


def _parses(resources: list[str]) -> bool:
    try:
        _resources.parse(resources)
    except (_resources.ResourceError, ValueError):
        return False
    return True


def _is_info(resources: Any) -> bool:
    try:
        _resources.from_info(resources)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
    return True
