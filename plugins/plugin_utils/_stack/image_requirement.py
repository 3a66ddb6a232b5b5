# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an image requires of the driver, NVIDIA_REQUIRE_*, compared with the nodes on which its service fits (pure).

Which variables count: GetRequirements in nvidia-container-toolkit's internal/config/image/cuda_image.go. All those that begin so, but for
JETPACK; CUDA_VERSION without NVIDIA_REQUIRE_CUDA stands for cuda>=MAJOR.MINOR; NVIDIA_DISABLE_REQUIRE turns all of it off.
How one is read: dsl_evaluate in libnvidia-container's src/cli/dsl.c. Blanks mean OR, commas AND; cuda, driver and arch are versions, brand is text.
Who checks it: the toolkit in its legacy mode. In the modes with CDI, which 1.19 and later have by default, nobody does (nvidia-container-toolkit
issue 1470): the task starts, and fails where the driver cannot do it.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple

from ...module_utils._ledger.node_labels import DEFAULT, about_gpus

PREFIX, CUDA, DISABLED, LEGACY = "NVIDIA_REQUIRE_", "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION"
# Before, the toolkit is in legacy mode: of itself up to 1.17, and by gpu_node with 1.18, which needs it for the GPUs that swarm allocates.
CHECKS_NO_MORE = "1.19"
JETPACK = "NVIDIA_REQUIRE_JETPACK"
# By whether the toolkit enforces a requirement, what becomes of a task that does not meet it.
NOTES: dict[bool | None, str] = {
    False: "the toolkit there does not check that, so its tasks start, and may fail later",
    None: "it is not known whether the toolkit there checks that, and starts its tasks; those that it starts may fail later",
}
# strconv.ParseBool of Go.
TRUE = ("1", "t", "T", "TRUE", "true", "True")
_ATOM = re.compile(r"(?P<name>[^<>=!]+)(?P<sign>=|!=|<=|>=|<|>)(?P<value>[^<>=!].*)")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_COMPARED: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class Machine(NamedTuple):
    """What is known of a node; None for what is not. ``enforces``: its toolkit refuses what does not meet a requirement. ``variables`` are those of
    a task there, of its image as well."""

    hostname: str
    facts: Mapping[str, str | None]  # cuda, driver, arch, brand
    enforces: bool | None
    variables: Mapping[str, str]
    prefix: str = DEFAULT.prefix  # of the labels about its GPUs


def facts_of(labels: Mapping[str, str]) -> dict[str, str | None]:
    """Of a node with these labels."""
    own = about_gpus(labels)
    found = {name: own.get(key) for name, key in (("cuda", "cuda"), ("driver", "driver"), ("arch", "compute_capability"))}
    return {name: value if value and _VERSION.fullmatch(value) else None for name, value in found.items()}


def in_legacy_mode(version: str) -> bool | None:
    """Whether provision leaves a toolkit of this version in the mode that enforces requirements; None where it is no version."""
    return _order(version, CHECKS_NO_MORE) < 0 if _VERSION.fullmatch(version) else None


def requirements(variables: Mapping[str, str]) -> list[str]:
    """Those of a task with these variables, each of which has to be met."""
    if variables.get(DISABLED) in TRUE:
        return []
    found = [value for name, value in sorted(variables.items()) if name.startswith(PREFIX) and not name.startswith(JETPACK) and value]
    version = re.match(r"v?([0-9]+)(?:\.([0-9]+))?", variables.get(LEGACY, ""))
    if version and not variables.get(CUDA):
        found.append(f"cuda>={version.group(1)}.{version.group(2) or '0'}")
    return found


def is_met(requirement: str, facts: Mapping[str, str | None]) -> bool | None:
    """Whether such a node meets it; None where that is not known."""
    answers = [_all(alternative, facts) for alternative in requirement.split(" ") if alternative]
    return _or(answers) if answers else True


def _all(alternative: str, facts: Mapping[str, str | None]) -> bool | None:
    answers = [_atom(atom, facts) for atom in alternative.split(",") if atom]
    return False if False in answers else None if None in answers else True


def _or(answers: Iterable[bool | None]) -> bool | None:
    found = list(answers)
    return True if True in found else None if None in found else False


def _atom(text: str, facts: Mapping[str, str | None]) -> bool | None:
    found = _ATOM.fullmatch(text)
    if found is None:
        return None
    name, sign, value = found.group("name").lower(), found.group("sign"), found.group("value")
    known = facts.get(name)
    if known is None:
        return None
    if name == "brand":
        same = known.lower() == value.lower()
        return {"=": same, "!=": not same}.get(sign)
    if not _VERSION.fullmatch(known) or not _VERSION.fullmatch(value):
        return None
    return _COMPARED[sign](_order(known, value))


def _order(one: str, other: str) -> int:
    """Less than, equal to or more than 0, as the first version is; what one of them lacks counts as 0."""
    pairs = zip_longest(map(int, one.split(".")), map(int, other.split(".")), fillvalue=0)
    return next((left - right for left, right in pairs if left != right), 0)


def judged(service: str, image: str, machines: Iterable[Machine]) -> tuple[str | None, list[str]]:
    """(why it is not deployed, what is to be said of it): an error where a toolkit refuses the image, and a note where it starts all the same."""
    unmet = [(one, need) for one in machines for need in requirements(one.variables) if is_met(need, one.facts) is False]
    by_kind = {kind: [pair for pair in unmet if pair[0].enforces is kind] for kind in (True, False, None)}
    if by_kind[True]:
        return (
            f"{_what(service, image, by_kind[True])}; the toolkit there, in legacy mode, starts no such task, even where CUDA's minor-version "
            f"compatibility would do. Keep it off those nodes with a constraint such as node.labels.{by_kind[True][0][0].prefix}cuda_ge_12_4==true, "
            f"or set {DISABLED}: '1' in its environment."
        ), []
    return None, [f"{_what(service, image, by_kind[kind])}; {said}. A constraint keeps them off" for kind, said in NOTES.items() if by_kind[kind]]


def _what(service: str, image: str, unmet: list[tuple[Machine, str]]) -> str:
    """The first of these requirements, and the nodes that do not meet it."""
    machine, need = unmet[0]
    names = sorted({one.hostname for one, other in unmet if other == need})
    has = ", ".join(f"{name} {value}" for name, value in machine.facts.items() if value and re.search(rf"(?i)\b{name}\b", need))
    have = "has" if len(names) == 1 else "have"
    return f"{service}: its image {image} requires {_shortened(need)}, and {_shortened(', '.join(names))} {have} {has}"


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
