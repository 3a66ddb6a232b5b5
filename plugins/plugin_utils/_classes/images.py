# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the best image of a list for a node (pure).

Images that the driver fully supports come first, then those that need minor-version compatibility, then forward compatibility. Among equal ones the
image that requires most wins: newer CUDA, higher compute capability, newer CPU, more memory, a model. If one image requires more in one property and
less in another, neither is better, and the choice is ambiguous.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError
from . import cpus, cuda_versions, requirement
from .nodes import Facts
from .requirement import CAPABILITY, CPU, CUDA, MEMORY, MODEL
from .versions import Version, least, shown, version

MAX_IMAGES = 32
IMAGE, NAME, PTX, FORWARD = "image", "name", "ptx", "forward_compat"
KEYS = (IMAGE, NAME, CUDA, CAPABILITY, CPU, MEMORY, MODEL, PTX, FORWARD)


class Choice(NamedTuple):
    """``best`` has positions in the list: one, none, or several equally good ones. ``why`` has a reason for each image that the node cannot run."""

    best: list[int]
    why: dict[int, str]


def parse(found: Any, where: str) -> list[dict[str, Any]]:
    """Check the list of images and convert each entry to its canonical form."""
    if not isinstance(found, list) or not found or len(found) > MAX_IMAGES:
        raise GpuSwarmError(f"{where} must be a list of 1 to {MAX_IMAGES} images. Begin each with '- image: …'.")
    errors = Errors()
    made = [errors.collect(_entry, entry, f"{where}[{number}]") for number, entry in enumerate(found)]
    errors.refuse()
    criteria = [criterion(entry) for entry in made]
    for number, one in enumerate(criteria):
        if one in criteria[:number]:
            first = made[criteria.index(one)][IMAGE]
            raise GpuSwarmError(f"{where} is ambiguous: {first} and {made[number][IMAGE]} require the same. Remove one of them.")
    return made


def _entry(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise GpuSwarmError(f"{where} must be a mapping. Write {{image: …, cuda: '12.4', compute_capability: '>=8.0'}}.")
    errors = Errors()
    for key in found:
        if key not in KEYS:
            errors.add(f"{where}.{key} is not known. An image supports {', '.join(KEYS)}.")
    if not isinstance(found.get(IMAGE), str) or not found[IMAGE]:
        errors.add(f"{where} has no image. Write its name under image.")
    wants = errors.collect(requirement.parse, {key: value for key, value in found.items() if key != CUDA}, where, instead={})
    made = {IMAGE: found.get(IMAGE), **wants}
    if found.get(NAME) is not None:
        made[NAME] = found[NAME]
    if found.get(CUDA) is not None:
        made[CUDA] = errors.collect(_cuda, found[CUDA], f"{where}.{CUDA}")
    if not isinstance(found.get(PTX, False), bool):
        errors.add(f"{where}.{PTX} must be true or false. Write true if the image contains only PTX.")
    if found.get(PTX):
        made[PTX] = True
    if found.get(FORWARD) is not None:
        made[FORWARD] = cuda_versions.branches(found[FORWARD])
        if made[FORWARD] is None:
            errors.add(f"{where}.{FORWARD} must be a list of driver branches. Write those of NVIDIA's table, such as [535, 550].")
    errors.refuse()
    return made


def _cuda(value: Any, where: str) -> str:
    """Return major and minor version. Drivers ignore the rest."""
    found = version(str(value))
    if found is None:
        raise GpuSwarmError(f"{where} is {str(value)[:40]!r}. Write the CUDA version that the image was built with, such as '12.4'.")
    return shown(found[:2])


def criterion(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that decide where an image runs. The name and tag of the image do not matter."""
    return requirement.canonical({key: value for key, value in sorted(entry.items()) if key not in (IMAGE, NAME)})


def choose(matrix: Sequence[Mapping[str, Any]], node: Facts) -> Choice:
    found = {number: _runs(entry, node) for number, entry in enumerate(matrix)}
    why = {number: reason for number, (how, reason) in found.items() if how is None}
    ways = {number: how for number, (how, _reason) in found.items() if how is not None}
    first = [number for number, how in ways.items() if how == min(ways.values())]
    best = [one for one in first if not any(_is_better(matrix[other], matrix[one]) for other in first)]
    return Choice(best, why)


def _runs(entry: Mapping[str, Any], node: Facts) -> tuple[int | None, str]:
    how, reason = cuda_versions.how(version(entry[CUDA]) if CUDA in entry else None, node, bool(entry.get(PTX)), entry.get(FORWARD) or ())
    # The CUDA of an image is a version, not a bound, so it is checked above.
    lacks = requirement.unmet({key: entry[key] for key in (MEMORY, CAPABILITY, MODEL, CPU) if key in entry}, node)
    return (None, "; ".join([f"it {one}" for one in lacks] or [reason])) if lacks or how is None else (how, "")


def _is_better(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether ``one`` requires more in some property and less in none."""
    signs = [_version(one, other, CUDA), _capability(one, other), _cpu(one, other), _number(one, other), _model(one, other)]
    return min(signs) >= 0 and any(signs)


def _compare(one: Any, other: Any) -> int:
    return (one > other) - (one < other)


def _version(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> int:
    both: list[Version] = [version(entry.get(key, "0")) or (0, 0) for entry in (one, other)]
    return _compare(*both)


def _capability(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return _compare(*(least(entry.get(CAPABILITY, "")) if entry.get(CAPABILITY) else (0, 0) for entry in (one, other)))


def _cpu(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Compare CPUs. The result is -1 also if neither runs software for the other."""
    this, that = one.get(CPU), other.get(CPU)
    return 0 if this == that else 1 if that is None or (this and cpus.runs(this, that)) else -1


def _number(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return _compare(one.get(MEMORY, 0), other.get(MEMORY, 0))


def _model(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Compare models. The result is -1 also for two patterns, because neither is known to be narrower."""
    this, that = (requirement.canonical(entry).get(MODEL) for entry in (one, other))
    return 0 if this == that else 1 if that is None else -1
