# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which image of a matrix a node runs best (pure).

First what its driver runs in full, then by minor-version compatibility, then by forward compatibility; among those the one that requires most: the
newer CUDA, the higher compute capability, the younger CPU, more memory, a model. One that requires more of one and less of another is no
better, and then nobody has said which to take.
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

MOST = 32
IMAGE, NAME, PTX, FORWARD = "image", "name", "ptx", "forward_compat"
KEYS = (IMAGE, NAME, CUDA, CAPABILITY, CPU, MEMORY, MODEL, PTX, FORWARD)


class Choice(NamedTuple):
    """``best`` are the places of images in the matrix: one, none, or several of which none is better. ``why`` says for the others why not."""

    best: list[int]
    why: dict[int, str]


def parse(found: Any, where: str) -> list[dict[str, Any]]:
    """The matrix, checked, and each entry in one form."""
    if not isinstance(found, list) or not found or len(found) > MOST:
        raise GpuSwarmError(f"{where} has to be a list of 1 to {MOST} images. Begin each with '- image: …'.")
    errors = Errors()
    made = [errors.of(_entry, entry, f"{where}[{number}]") for number, entry in enumerate(found)]
    errors.refuse()
    criteria = [criterion(entry) for entry in made]
    for number, one in enumerate(criteria):
        if one in criteria[:number]:
            first = made[criteria.index(one)][IMAGE]
            raise GpuSwarmError(f"{where} is ambiguous: {first} and {made[number][IMAGE]} require the same. Take one of them out.")
    return made


def _entry(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise GpuSwarmError(f"{where} has to be a mapping. Write {{image: …, cuda: '12.4', compute_capability: '>=8.0'}}.")
    errors = Errors()
    for key in found:
        if key not in KEYS:
            errors.add(f"{where}.{key} is not known. It takes {', '.join(KEYS)}.")
    if not isinstance(found.get(IMAGE), str) or not found[IMAGE]:
        errors.add(f"{where} has no image. Write its name there.")
    wants = errors.of(requirement.parse, {key: value for key, value in found.items() if key != CUDA}, where, instead={})
    made = {IMAGE: found.get(IMAGE), **wants}
    if found.get(NAME) is not None:
        made[NAME] = found[NAME]
    if found.get(CUDA) is not None:
        made[CUDA] = errors.of(_cuda, found[CUDA], f"{where}.{CUDA}")
    if not isinstance(found.get(PTX, False), bool):
        errors.add(f"{where}.{PTX} has to be true or false. Write true where the image has PTX only.")
    if found.get(PTX):
        made[PTX] = True
    if found.get(FORWARD) is not None:
        made[FORWARD] = cuda_versions.branches(found[FORWARD])
        if made[FORWARD] is None:
            errors.add(f"{where}.{FORWARD} has to be a list of driver branches. Write those of NVIDIA's table, such as [535, 550].")
    errors.refuse()
    return made


def _cuda(value: Any, where: str) -> str:
    """Without what comes after the minor version, by which no driver goes."""
    found = version(str(value))
    if found is None:
        raise GpuSwarmError(f"{where} is {str(value)[:40]!r}. Write the CUDA version that the image was built with, such as '12.4'.")
    return shown(found[:2])


def criterion(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What decides where it runs: a new tag of an image changes nothing of that."""
    return requirement.in_one_form({key: value for key, value in sorted(entry.items()) if key not in (IMAGE, NAME)})


def choose(matrix: Sequence[Mapping[str, Any]], node: Facts) -> Choice:
    found = {number: _runs(entry, node) for number, entry in enumerate(matrix)}
    why = {number: reason for number, (how, reason) in found.items() if how is None}
    ways = {number: how for number, (how, _reason) in found.items() if how is not None}
    first = [number for number, how in ways.items() if how == min(ways.values())]
    best = [one for one in first if not any(_is_better(matrix[other], matrix[one]) for other in first)]
    return Choice(best, why)


def _runs(entry: Mapping[str, Any], node: Facts) -> tuple[int | None, str]:
    how, reason = cuda_versions.how(version(entry[CUDA]) if CUDA in entry else None, node, bool(entry.get(PTX)), entry.get(FORWARD) or ())
    # The CUDA of an image is a version, and no bound.
    lacks = requirement.missed({key: entry[key] for key in (MEMORY, CAPABILITY, MODEL, CPU) if key in entry}, node)
    return (None, "; ".join([f"it {one}" for one in lacks] or [reason])) if lacks or how is None else (how, "")


def _is_better(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether it requires more in something, and for no less in anything."""
    signs = [_version(one, other, CUDA), _capability(one, other), _cpu(one, other), _number(one, other), _model(one, other)]
    return min(signs) >= 0 and any(signs)


def _sign(one: Any, other: Any) -> int:
    return (one > other) - (one < other)


def _version(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> int:
    both: list[Version] = [version(entry.get(key, "0")) or (0, 0) for entry in (one, other)]
    return _sign(*both)


def _capability(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return _sign(*(least(entry.get(CAPABILITY, "")) if entry.get(CAPABILITY) else (0, 0) for entry in (one, other)))


def _cpu(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """-1 also for two of which neither runs what is built for the other."""
    this, that = one.get(CPU), other.get(CPU)
    return 0 if this == that else 1 if that is None or (this and cpus.runs(this, that)) else -1


def _number(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return _sign(one.get(MEMORY, 0), other.get(MEMORY, 0))


def _model(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """-1 also for two patterns: which of them means fewer models is not known."""
    this, that = (requirement.in_one_form(entry).get(MODEL) for entry in (one, other))
    return 0 if this == that else 1 if that is None else -1
