# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the labels that describe a node's GPUs (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._gpu.record import Gpu, common_value, label_safe
from . import generic_resources
from .selection import in_mig_mode

# The name, after the prefix, of the label that marks dedicated nodes. Services without a reservation should avoid these nodes.
DEDICATED = "dedicated"
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)?")
# The characters that a placement constraint allows (alphaNumeric in swarmkit's manager/constraint/constraint.go). The length leaves room for the
# longest key of a class.
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
# The collection keeps its own records of a node under keys with these prefixes.
RESERVED = ("gpu-swarm", "fleet.gpu-swarm")
WANTED = "letters, digits, '.', '-' and '_', at most 60, that begin with a letter or digit and not with gpu-swarm or fleet.gpu-swarm; or empty"


class Options(NamedTuple):
    """Settings of the labels. If the prefix is empty, nodes get no labels. Each threshold that the node meets becomes a label."""

    prefix: str = "gpu."
    cpu_prefix: str = "cpu."
    memory: Sequence = (16, 24, 40, 80)
    compute_capability: Sequence = ("7.0", "8.0", "9.0")
    cuda: Sequence = ("12.0", "12.4", "13.0")


def is_prefix(value: Any) -> bool:
    """Return whether this is a valid prefix of label keys. The empty prefix is valid and means that nodes get no labels."""
    return value == "" or bool(isinstance(value, str) and _PREFIX.fullmatch(value) and not value.startswith(RESERVED))


def options_of(params: Mapping[str, Any]) -> Options:
    """Return the label options of the module gpu_node. Raises GpuSwarmError if an option is invalid."""
    values = {name: params.get("label_" + name) for name in Options._fields}
    options = Options(**{name: value for name, value in values.items() if value is not None})
    for name in ("prefix", "cpu_prefix"):
        value = getattr(options, name)
        if not is_prefix(value):
            raise GpuSwarmError(
                "label_%s (gpu_node_label_%s): %s cannot begin the key of a label that a constraint names. Write %s. Nothing was changed."
                % (name, name, generic_resources.shorten(value), WANTED)
            )
    for name, pattern, example in (
        ("memory", re.compile("[1-9][0-9]*"), "a number of whole GB, such as 40"),
        ("compute_capability", _VERSION, "a version, such as '8.0'"),
        ("cuda", _VERSION, "a version, such as '12.4'"),
    ):
        bad = [item for item in getattr(options, name) if not pattern.fullmatch(str(item))]
        if bad:
            raise GpuSwarmError("label_%s: %s is not %s." % (name, generic_resources.shorten(bad[0]), example))
    return options


def node_labels(
    gpus: Sequence[Gpu], driver: str | None = None, cuda: str | None = None, failed: bool = False, options: Options | None = None
) -> dict[str, str]:
    """Return the labels of a node that advertises ``gpus``; empty without GPUs.

    ``failed``: the node has another GPU that should be advertised but cannot be.
    """
    options = options or Options()
    if not gpus or not options.prefix:
        return {}
    sizes = [size_gb(gpu.get("memory_mib")) for gpu in gpus]
    labels = {
        "count": len(gpus),
        "model": common_value(gpu.get("model") for gpu in gpus),
        "architecture": common_value(gpu.get("architecture") for gpu in gpus),
        "memory": common_value(sizes),
        "compute_capability": common_value(gpu.get("compute_capability") for gpu in gpus),
        "driver": driver,
        "driver_major": driver and driver.split(".")[0],
        "cuda": cuda,
        "cuda_major": cuda and cuda.split(".")[0],
        "mig": common_value(_true_or_false(in_mig_mode(gpu)) for gpu in gpus),
        "nvlink": common_value(_true_or_false((gpu.get("links") or {}).get("nvlink_active")) for gpu in gpus),  # 0 for links that are down
        "healthy": _true_or_false(not failed),
    }
    labels.update(_thresholds("mem_ge_", options.memory, sizes, int))
    labels.update(_thresholds("cc_ge_", options.compute_capability, [gpu.get("compute_capability") for gpu in gpus], _version))
    labels.update(_thresholds("cuda_ge_", options.cuda, [cuda], _version))
    return {options.prefix + key: label_safe(str(value)) for key, value in labels.items() if value is not None}


def size_gb(total_mib: int | None) -> int | None:
    """Return the nominal size of a card in GB: 15360 MiB -> 16, 81559 MiB -> 80. None if the size is unknown.

    The total that NVML reports is lower: on many cards ECC uses a sixteenth, and drivers reserve some memory. Cards are sold in multiples of 4 GB. So
    a total slightly below a multiple of 4 GB becomes this multiple. Any other total is rounded up.
    """
    if total_mib is None:
        return None
    step = -(-total_mib // 4096) * 4
    share = total_mib / 1024 / step
    as_sold = any(least <= share <= most for least, most in ((0.92, 0.945), (0.985, 1)))
    return step if as_sold else -(-total_mib // 1024)


def _thresholds(name: str, wanted: Iterable[Any], values: Sequence[Any], parse: Callable[[Any], Any]) -> dict[str, str | None]:
    """Return a label for each threshold that all values meet. Constraints can only test for equality, so each threshold needs its own label."""
    if None in values:
        return {}
    least = min(parse(value) for value in values)
    return {name + str(threshold).replace(".", "_"): _true_or_false(True) for threshold in wanted if parse(threshold) <= least}


def _version(text: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in (str(text).split(".") + ["0"])[:2])


def _true_or_false(value: Any) -> str | None:
    """Return "true" or "false". Return None if the card does not support the feature, because "false" means that the feature is off."""
    return None if value is None else "true" if value else "false"
