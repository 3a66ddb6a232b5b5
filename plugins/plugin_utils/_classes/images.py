# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the best image of a list for a node (pure).

Images that the driver fully supports are first, then images that need minor-version compatibility, then images that need forward compatibility. Among
equal images, the image that requires most wins: a newer CUDA, a higher compute capability, a newer CPU, more memory, or a model. If one image
requires more in one property and less in another, neither is better, and the choice is ambiguous.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError
from . import cpus, cuda_versions, requirement
from .nodes import Facts
from .requirement import CAPABILITY, CPU, CUDA, MEMORY, MODEL
from .versions import Version, lower_limit, shown, version

MAX_IMAGES = 32
IMAGE, NAME, PTX, FORWARD = "image", "name", "ptx", "forward_compat"
KEYS = (IMAGE, NAME, CUDA, CAPABILITY, CPU, MEMORY, MODEL, PTX, FORWARD)


class Choice(NamedTuple):
    """``best`` has positions in the list: one, several equally good images, or none. ``why`` has a reason for each image that the node cannot run."""

    best: list[int]
    why: dict[int, str]


def parse(value: Any, where: str) -> list[dict[str, Any]]:
    """Check the list of images and convert each entry to its canonical form."""
    if not isinstance(value, list) or not value or len(value) > MAX_IMAGES:
        raise GpuSwarmError(f"{where} must be a list of 1 to {MAX_IMAGES} images. Begin each with '- image: …'.")
    errors = Errors()
    entries = [errors.collect(_entry, entry, f"{where}[{number}]") for number, entry in enumerate(value)]
    errors.refuse()
    criteria = [criterion(entry) for entry in entries]
    for number, properties in enumerate(criteria):
        if properties in criteria[:number]:
            first = entries[criteria.index(properties)][IMAGE]
            raise GpuSwarmError(f"{where} is ambiguous: {first} and {entries[number][IMAGE]} require the same. Remove one of them.")
    return entries


def _entry(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise GpuSwarmError(f"{where} must be a mapping. Write {{image: …, cuda: '12.4', compute_capability: '>=8.0'}}.")
    errors = Errors()
    for key in value:
        if key not in KEYS:
            errors.add(f"{where}.{key} is not known. An image supports {', '.join(KEYS)}.")
    if not isinstance(value.get(IMAGE), str) or not value[IMAGE]:
        errors.add(f"{where} has no image. Write its name under image.")
    wants = errors.collect(requirement.parse, {key: item for key, item in value.items() if key != CUDA}, where, instead={})
    entry = {IMAGE: value.get(IMAGE), **wants}
    if value.get(NAME) is not None:
        entry[NAME] = value[NAME]
    if value.get(CUDA) is not None:
        entry[CUDA] = errors.collect(_cuda, value[CUDA], f"{where}.{CUDA}")
    if not isinstance(value.get(PTX, False), bool):
        errors.add(f"{where}.{PTX} must be true or false. Write true if the image contains only PTX.")
    if value.get(PTX):
        entry[PTX] = True
    if value.get(FORWARD) is not None:
        entry[FORWARD] = cuda_versions.branches(value[FORWARD])
        if entry[FORWARD] is None:
            errors.add(f"{where}.{FORWARD} must be a list of driver branches. Write those of NVIDIA's table, such as [535, 550].")
    errors.refuse()
    return entry


def _cuda(value: Any, where: str) -> str:
    """Return the major and minor version. Drivers ignore the other parts."""
    parsed = version(str(value))
    if parsed is None:
        raise GpuSwarmError(f"{where} is {str(value)[:40]!r}. Write the CUDA version that the image was built with, such as '12.4'.")
    return shown(parsed[:2])


def criterion(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that decide where an image runs. The name and tag of the image do not matter."""
    return requirement.canonical({key: value for key, value in sorted(entry.items()) if key not in (IMAGE, NAME)})


def choose(matrix: Sequence[Mapping[str, Any]], node: Facts) -> Choice:
    """Choose the best image of the list for a node."""
    results = {number: _runs(entry, node) for number, entry in enumerate(matrix)}
    why = {number: reason for number, (how, reason) in results.items() if how is None}
    ways = {number: how for number, (how, _reason) in results.items() if how is not None}
    first = [number for number, how in ways.items() if how == min(ways.values())]
    best = [candidate for candidate in first if not any(_is_better(matrix[other], matrix[candidate]) for other in first)]
    return Choice(best, why)


def _runs(entry: Mapping[str, Any], node: Facts) -> tuple[int | None, str]:
    how, reason = cuda_versions.compatibility(version(entry[CUDA]) if CUDA in entry else None, node, bool(entry.get(PTX)), entry.get(FORWARD) or ())
    # The CUDA of an image is a version, not a bound, so it is checked above.
    unmet = requirement.unmet({key: entry[key] for key in (MEMORY, CAPABILITY, MODEL, CPU) if key in entry}, node)
    return (None, "; ".join([f"it {missing}" for missing in unmet] or [reason])) if unmet or how is None else (how, "")


def _is_better(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return whether ``left`` requires more in some property and less in none."""
    signs = [_version(left, right, CUDA), _capability(left, right), _cpu(left, right), _number(left, right), _model(left, right)]
    return min(signs) >= 0 and any(signs)


def _compare(left: Any, right: Any) -> int:
    return (left > right) - (left < right)


def _version(left: Mapping[str, Any], right: Mapping[str, Any], key: str) -> int:
    both: list[Version] = [version(entry.get(key, "0")) or (0, 0) for entry in (left, right)]
    return _compare(*both)


def _capability(left: Mapping[str, Any], right: Mapping[str, Any]) -> int:
    return _compare(*(lower_limit(entry.get(CAPABILITY, "")) if entry.get(CAPABILITY) else (0, 0) for entry in (left, right)))


def _cpu(left: Mapping[str, Any], right: Mapping[str, Any]) -> int:
    """Compare CPUs. The result is also -1 if neither CPU runs software for the other."""
    left_cpu, right_cpu = left.get(CPU), right.get(CPU)
    return 0 if left_cpu == right_cpu else 1 if right_cpu is None or (left_cpu and cpus.runs(left_cpu, right_cpu)) else -1


def _number(left: Mapping[str, Any], right: Mapping[str, Any]) -> int:
    return _compare(left.get(MEMORY, 0), right.get(MEMORY, 0))


def _model(left: Mapping[str, Any], right: Mapping[str, Any]) -> int:
    """Compare models. The result is also -1 for two patterns, because neither is known to be narrower."""
    left_model, right_model = (requirement.canonical(entry).get(MODEL) for entry in (left, right))
    return 0 if left_model == right_model else 1 if right_model is None else -1
