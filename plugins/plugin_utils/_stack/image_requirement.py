# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares what an image requires of the driver (NVIDIA_REQUIRE_*) with the nodes where its service fits (pure).

Variables: GetRequirements in nvidia-container-toolkit's internal/config/image/cuda_image.go. Every variable with this prefix is a requirement, except
JETPACK. CUDA_VERSION without NVIDIA_REQUIRE_CUDA means cuda>=MAJOR.MINOR. NVIDIA_DISABLE_REQUIRE disables the check.
Syntax: dsl_evaluate in libnvidia-container's src/cli/dsl.c. A blank means OR, a comma AND. cuda, driver and arch are versions, brand is text.
The toolkit checks requirements only in legacy mode. In the CDI modes, which are the default since 1.19, nobody checks them (nvidia-container-toolkit
issue 1470). If the driver is too old, the task starts and fails later.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from ...module_utils._gpu.driver_capabilities import VARIABLE as CAPABILITIES
from ...module_utils._gpu.driver_capabilities import includes_video
from ...module_utils._ledger.node_labels import DEFAULT, about_gpus

PREFIX, CUDA, DISABLED, LEGACY = "NVIDIA_REQUIRE_", "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION"
# Older toolkits use legacy mode: up to 1.17 by default, and 1.18 because gpu_node sets it for the GPUs that swarm allocates.
FIRST_WITHOUT_CHECK = "1.19"
JETPACK = "NVIDIA_REQUIRE_JETPACK"
# What happens to a task with unmet requirements. The key says whether the toolkit enforces requirements.
NOTES: dict[bool | None, str] = {
    False: "the toolkit there does not check that, so the tasks start but may fail later",
    None: "it is not known whether the toolkit there checks that, so the tasks may be refused or fail later",
}
# Words in the image or command of an encoder.
ENCODER = re.compile(r"ffmpeg|nvenc|nvdec|cuvid|jellyfin|\bplex", re.IGNORECASE)
# strconv.ParseBool of Go.
TRUE_VALUES = ("1", "t", "T", "TRUE", "true", "True")
_ATOM = re.compile(r"(?P<name>[^<>=!]+)(?P<sign>=|!=|<=|>=|<|>)(?P<value>[^<>=!].*)")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_COMPARISONS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class Machine(NamedTuple):
    """The facts of a node. Unknown facts are None. ``enforces`` says whether the node's toolkit refuses images with unmet requirements. ``variables``
    are the variables of a task on the node, including the variables of its image.
    """

    hostname: str
    facts: Mapping[str, str | None]  # cuda, driver, arch, brand
    enforces: bool | None
    variables: Mapping[str, str]
    prefix: str = DEFAULT.prefix  # of the labels about its GPUs


def facts_of(labels: Mapping[str, str]) -> dict[str, str | None]:
    """Read the facts of a node from its labels."""
    gpu_labels = about_gpus(labels)
    values = {name: gpu_labels.get(key) for name, key in (("cuda", "cuda"), ("driver", "driver"), ("arch", "compute_capability"))}
    return {name: value if value and _VERSION.fullmatch(value) else None for name, value in values.items()}


def in_legacy_mode(version: str) -> bool | None:
    """Return whether provision uses legacy mode, which enforces requirements, for this version of the toolkit. None if this is not a version."""
    return _compare_versions(version, FIRST_WITHOUT_CHECK) < 0 if _VERSION.fullmatch(version) else None


def requirements(variables: Mapping[str, str]) -> list[str]:
    """Return the requirements of a task with these variables. A node must meet all of them."""
    if variables.get(DISABLED) in TRUE_VALUES:
        return []
    required = [value for name, value in sorted(variables.items()) if name.startswith(PREFIX) and not name.startswith(JETPACK) and value]
    version = re.match(r"v?([0-9]+)(?:\.([0-9]+))?", variables.get(LEGACY, ""))
    if version and not variables.get(CUDA):
        required.append(f"cuda>={version.group(1)}.{version.group(2) or '0'}")
    return required


def is_met(requirement: str, facts: Mapping[str, str | None]) -> bool | None:
    """Return whether a node with these facts meets the requirement; None if unknown."""
    answers = [_is_alternative_met(alternative, facts) for alternative in requirement.split(" ") if alternative]
    return _any_met(answers) if answers else True


def _is_alternative_met(alternative: str, facts: Mapping[str, str | None]) -> bool | None:
    answers = [_is_atom_met(atom, facts) for atom in alternative.split(",") if atom]
    return False if False in answers else None if None in answers else True


def _any_met(answers: Iterable[bool | None]) -> bool | None:
    known_answers = list(answers)
    return True if True in known_answers else None if None in known_answers else False


def _is_atom_met(text: str, facts: Mapping[str, str | None]) -> bool | None:
    match = _ATOM.fullmatch(text)
    if match is None:
        return None
    name, sign, value = match.group("name").lower(), match.group("sign"), match.group("value")
    fact = facts.get(name)
    if fact is None:
        return None
    if name == "brand":
        same = fact.lower() == value.lower()
        return {"=": same, "!=": not same}.get(sign)
    if not _VERSION.fullmatch(fact) or not _VERSION.fullmatch(value):
        return None
    return _COMPARISONS[sign](_compare_versions(fact, value))


def _compare_versions(left_version: str, right_version: str) -> int:
    """Compare two versions. The result is below, equal to or above 0. A missing part is the same as 0."""
    pairs = zip_longest(map(int, left_version.split(".")), map(int, right_version.split(".")), fillvalue=0)
    return next((left - right for left, right in pairs if left != right), 0)


def check_image(service: str, image: str, machines: Iterable[Machine]) -> tuple[str | None, list[str]]:
    """Return (error, notes). The error says that a toolkit refuses the image. A note says that tasks of the image may start but fail."""
    unmet = [(machine, need) for machine in machines for need in requirements(machine.variables) if is_met(need, machine.facts) is False]
    by_enforcement = {enforced: [pair for pair in unmet if pair[0].enforces is enforced] for enforced in (True, False, None)}
    if by_enforcement[True]:
        return (
            f"{_describe(service, image, by_enforcement[True])}; the toolkit there, in legacy mode, refuses such tasks, even if CUDA's minor-version "
            f"compatibility would allow them. Keep the service off these nodes with a constraint such as "
            f"node.labels.{by_enforcement[True][0][0].prefix}cuda_ge_12_4==true, or set {DISABLED}: '1' in its environment."
        ), []
    return None, [
        f"{_describe(service, image, by_enforcement[enforced])}; {consequence}. To keep these tasks off those nodes, add a constraint"
        for enforced, consequence in NOTES.items()
        if by_enforcement[enforced]
    ]


def video_note(name: str, service: Mapping[str, Any], variables: Mapping[str, str]) -> str | None:
    """Return a note if the service looks like an encoder but gets no encoder from the driver. ``variables`` include those of the image, if known."""
    words = [word for key in ("image", "entrypoint", "command") for word in _words(service.get(key))]
    encoder = next((match.group() for match in map(ENCODER.search, words) if match), None)
    if encoder is None or includes_video(variables):
        return None
    value = variables.get(CAPABILITIES)
    lacks = f"its {CAPABILITIES} is {_shortened(value)}, without video" if value else f"neither it nor a known image sets {CAPABILITIES} with video"
    return f"{name} has {encoder} in its image or command, but {lacks}. A task may find no encoder. Write capabilities: [gpu, video] for its GPUs"


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else [str(value or "")]


def _describe(service: str, image: str, unmet: list[tuple[Machine, str]]) -> str:
    """Describe the first unmet requirement, and the nodes that do not meet it."""
    machine, need = unmet[0]
    names = sorted({unmet_machine.hostname for unmet_machine, other_need in unmet if other_need == need})
    has = ", ".join(f"{name} {value}" for name, value in machine.facts.items() if value and re.search(rf"(?i)\b{name}\b", need))
    have = "has" if len(names) == 1 else "have"
    return f"{service}: its image {image} requires {_shortened(need)}, and {_shortened(', '.join(names))} {have} {has}"


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
