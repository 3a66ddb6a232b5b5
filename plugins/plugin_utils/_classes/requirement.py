# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requirements under ``x-gpu`` (pure), and whether a node meets them.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from ...module_utils._gpu.record import label_safe
from . import cpus
from .nodes import Facts, Value
from .versions import bounds, has_only_lower_limits, meets, shown

MEMORY, CAPABILITY, CUDA, MODEL, CPU = "memory_min", "compute_capability", "cuda", "model", "cpu"
FIELDS = (MEMORY, CAPABILITY, CUDA, MODEL, CPU)
# field -> canonical value: memory in MiB, the others as text.
Requirement = dict[str, Any]

_MODEL = re.compile(r"[A-Za-z0-9 ._*?-]{1,100}")
# YAML reads 8.10 without quotes as 8.1.
_BOUNDS = "Write it with a sign, in quotes: '>=8.0', or '>=8.0,<9.0'."


def parse(x_gpu: Mapping[str, Any], where: str) -> Requirement:
    """Check the requirements and convert them to their canonical form."""
    result: Requirement = {}
    errors = Errors()
    for field in FIELDS:
        value = x_gpu.get(field)
        if value is not None and value != "":
            result[field] = errors.collect(_PARSERS[field], value, f"{where}.{field}")
    errors.refuse()
    return result


def _memory(value: Any, where: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdecimal() or not 1000 <= int(text) <= 10_000_000:
        raise GpuSwarmError(f"{where} is {_shown(value)}, but must be a number of MiB. For cards of 40 GB write 40000.")
    return int(text)


def _bounds(value: Any, where: str) -> str:
    text = str(value).replace(" ", "")
    if len(text) > 60 or isinstance(value, (bool, dict, list)) or not bounds(text):
        raise GpuSwarmError(f"{where} is {_shown(value)}. {_BOUNDS}")
    return text


def _model(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _MODEL.fullmatch(value):
        raise GpuSwarmError(f"{where} is {_shown(value)}. Write a model as 'nvidia-smi -L' shows it, or a pattern such as '*H100*'.")
    # nvidia-smi prints names with blanks.
    return re.sub(r"\s+", "-", value.strip())


def _cpu(value: Any, where: str) -> str:
    name = cpus.canonical(value) if isinstance(value, str) else ""
    problem = cpus.problem(name) if name else f"is {_shown(value)}. Write a name, such as x86-64-v3 or skylake_avx512"
    if problem:
        raise GpuSwarmError(f"{where} {problem}.")
    return name


_PARSERS: dict[str, Callable[[Any, str], Any]] = {MEMORY: _memory, CAPABILITY: _bounds, CUDA: _bounds, MODEL: _model, CPU: _cpu}


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (str, int, float)) and len(repr(value)) < 60 else "something else"


def canonical(requirement: Mapping[str, Any]) -> Requirement:
    """Return the requirements in the form for comparisons and names, with the model in lower case. Messages show a model as the user wrote it."""
    return {field: value.lower() if field == MODEL else value for field, value in requirement.items()}


def unmet(requirement: Requirement, node: Facts) -> list[str]:
    """Describe the requirements that a node does not meet; [] if the node meets all requirements."""
    return [reason for field in FIELDS if field in requirement and (reason := _MISSES[field](requirement[field], node))]


def _misses_memory(wanted: int, node: Facts) -> str | None:
    memory = node.memory_gb
    if memory and memory.version[0] * 1024 >= wanted:
        return None
    return f"has {value_of(MEMORY, node)}, not {wanted} MiB"


def _misses_capability(wanted: str, node: Facts) -> str | None:
    return None if _has(wanted, node.compute_capability) else f"has compute capability {value_of(CAPABILITY, node)}, not {wanted}"


def _misses_cuda(wanted: str, node: Facts) -> str | None:
    return None if _has(wanted, node.cuda) else f"has a driver for CUDA {value_of(CUDA, node)}, not {wanted}"


def _has(wanted: str, value: Value | None) -> bool:
    return value is not None and (value.exact or has_only_lower_limits(wanted)) and meets(wanted, value.version)


def _misses_model(wanted: str, node: Facts) -> str | None:
    return None if node.model and matches(wanted, node.model) else f"has {value_of(MODEL, node)}, not {wanted}"


def matches(pattern: str, model: str) -> bool:
    """Return whether the model matches the pattern. Case does not matter, as in swarm's constraints."""
    return fnmatchcase(label_safe(model).lower(), pattern.lower())


def _misses_cpu(wanted: str, node: Facts) -> str | None:
    return None if any(cpus.runs(cpu, wanted) for cpu in node.cpus) else f"has the CPU {value_of(CPU, node)}, which does not run {wanted}"


_MISSES: dict[str, Callable[[Any, Facts], str | None]] = {
    MEMORY: _misses_memory,
    CAPABILITY: _misses_capability,
    CUDA: _misses_cuda,
    MODEL: _misses_model,
    CPU: _misses_cpu,
}


def value_of(field: str, node: Facts) -> str:
    """Describe the value of a field on a node."""
    if field == MEMORY:
        memory = node.memory_gb
        return f"{memory.version[0]} GB{'' if memory.exact else ' or more'}" if memory else "unknown memory"
    if field in (CAPABILITY, CUDA):
        value = node.compute_capability if field == CAPABILITY else node.cuda
        return f"{shown(value.version)}{'' if value.exact else ' or more'}" if value else "unknown"
    if field == MODEL:
        return node.model or "several models"
    return node.cpus[0] if node.cpus else "unknown"
