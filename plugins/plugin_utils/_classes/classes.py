# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Classes of nodes (pure): a label for what no other label says, on the nodes of which it is true.

Constraints of swarm compare labels for equality and nothing else, so that a pattern, a least version or the best of several images becomes a label
of its own. What it means is kept with the services that need it, in a label of theirs: it ends with them, and a run of provision finds there
what has to be true of a new node.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._policy.labels import RESERVED
from . import images, requirement
from .nodes import Facts
from .requirement import Requirement

# What the keys of such labels begin with, behind the prefix of the labels about GPUs.
CLASS = "class."
TRUE = "true"
# {"x-gpu": …}, and with images these and the place of the one that it is the class of.
Meaning = dict[str, Any]
WANTS, IMAGES, PLACE = "wants", "images", "image"
# With the digest, since the prefix is anybody's: a service must not have a run set a label of the operator's, such as zone.class.secure.
_KEY = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*?class\.)[A-Za-z0-9_.-]{0,71}-[0-9a-f]{8}")
_MOST_CHARACTERS = 60_000
MOST = 2000


def key_of(meaning: Meaning, name: str, prefix: str) -> str:
    """The same for the same meaning. ``name`` is for those who read it, ``prefix`` that of the labels about GPUs."""
    digest = hashlib.sha256(_text(meaning).encode("utf-8")).hexdigest()[:8]
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:48]
    return f"{prefix}{CLASS}{readable}-{digest}"


def of_requirement(wants: Requirement, prefix: str) -> tuple[str, Meaning]:
    found = requirement.in_one_form(wants)
    return key_of({WANTS: found}, "-".join(f"{field}-{value}" for field, value in found.items()), prefix), {WANTS: found}


def of_image(wants: Requirement, matrix: Sequence[Mapping[str, Any]], place: int, prefix: str) -> tuple[str, Meaning]:
    """The nodes for which one image of a matrix is the best."""
    meaning = {WANTS: requirement.in_one_form(wants), IMAGES: [images.criterion(entry) for entry in matrix], PLACE: place}
    return key_of(meaning, "image-" + slug(matrix[place]), prefix), meaning


def slug(entry: Mapping[str, Any]) -> str:
    """What an image of a matrix requires, in a name."""
    found = images.criterion(entry)
    words = {"cuda": "cuda", "compute_capability": "cc", "memory_min": "mem"}
    parts = [words.get(key, "") + str(value) for key, value in found.items() if key in ("cuda", "compute_capability", "cpu", "memory_min", "model")]
    return re.sub(r"[^a-z0-9_]+", "-", "-".join(parts).lower()).strip("-_") or "any"


def _text(meaning: Any) -> str:
    return json.dumps(meaning, sort_keys=True, separators=(",", ":"))


def is_in(meaning: Meaning, node: Facts) -> bool:
    """Whether a node is of the class."""
    if node.gpus is None or requirement.missed(meaning[WANTS], node):
        return False
    return IMAGES not in meaning or images.choose(meaning[IMAGES], node).best == [meaning[PLACE]]


def labels(found: Facts, classes: Mapping[str, Meaning | None], now: Mapping[str, str]) -> dict[str, str]:
    """Those labels of classes that such a node is to have. ``now`` are the labels that it has: a class that nobody here understands stays as it is.
    A class has the key that its service names, also where the node's labels have another prefix by now."""
    return {key: TRUE for key, meaning in classes.items() if (key in now if meaning is None else is_in(meaning, found))}


def is_key(key: str) -> bool:
    return bool(_KEY.fullmatch(key)) and not key.startswith(RESERVED)


def begin_of(key: str) -> str:
    """What the keys of classes with this one's prefix begin with, '' for one that is no key of a class."""
    found = _KEY.fullmatch(key)
    return found.group(1) if found else ""


# -- the label of a service --------------------------------------------------------------------------------------------


def written(classes: Mapping[str, Meaning]) -> str:
    return _text(classes)


def read(texts: Iterable[str]) -> dict[str, Meaning | None]:
    """What services say of the classes that they need: None for one that cannot be understood, such as a CPU's on a machine without archspec."""
    found: dict[str, Meaning | None] = {}
    for text in texts:
        try:
            said = json.loads(text) if len(text) <= _MOST_CHARACTERS else {}
            found.update({key: _checked(meaning) for key, meaning in said.items() if is_key(key)})
        except (AttributeError, RecursionError, TypeError, ValueError):
            continue
    return {key: meaning if number < MOST else None for number, (key, meaning) in enumerate(found.items())}


def _checked(meaning: Any) -> Meaning | None:
    try:
        wants = requirement.parse(meaning[WANTS], "")
        if IMAGES not in meaning:
            return {WANTS: wants} if wants else None
        matrix = images.parse([{**entry, images.IMAGE: "-"} for entry in meaning[IMAGES]], "")
        place = meaning[PLACE]
    except (AttributeError, GpuSwarmError, KeyError, TypeError):
        return None
    if not isinstance(place, int) or not 0 <= place < len(matrix):
        return None
    return {WANTS: wants, IMAGES: [images.criterion(entry) for entry in matrix], PLACE: place}
