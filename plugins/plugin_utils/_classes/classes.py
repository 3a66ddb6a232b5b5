# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Classes of nodes (pure): labels for properties that no other label shows.

Constraints of swarm only compare labels for equality. So a pattern, a minimum version or the choice of an image needs a separate label. A label of
the service defines the class. A run of provision reads from this label which nodes belong to the class. The class exists as long as its services.
Private to this collection; it may change without notice.
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

# The keys of class labels begin with this text, after the prefix of GPU labels.
CLASS = "class."
LABEL_VALUE = "true"
# The definition of a class: its requirements, and for images also the list of images and the position of the image that the class is for.
Meaning = dict[str, Any]
WANTS, IMAGES, PLACE = "wants", "images", "image"
# The digest is part of the key, because a service must not be able to set a label of the operator, such as zone.class.secure.
_KEY = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*?class\.)[A-Za-z0-9_.-]{0,71}-[0-9a-f]{8}")
_MAX_CHARACTERS = 60_000
MAX_CLASSES = 2000


def key_of(meaning: Meaning, name: str, prefix: str) -> str:
    """Return the label key of a class. Equal definitions have equal keys. ``name`` makes the key readable, ``prefix`` is the prefix of GPU labels."""
    digest = hashlib.sha256(_text(meaning).encode("utf-8")).hexdigest()[:8]
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:48]
    return f"{prefix}{CLASS}{readable}-{digest}"


def class_of_requirement(wants: Requirement, prefix: str) -> tuple[str, Meaning]:
    wanted = requirement.canonical(wants)
    return key_of({WANTS: wanted}, "-".join(f"{field}-{value}" for field, value in wanted.items()), prefix), {WANTS: wanted}


def class_of_image(wants: Requirement, matrix: Sequence[Mapping[str, Any]], place: int, prefix: str) -> tuple[str, Meaning]:
    """Return the class of the nodes on which this image is the best one."""
    meaning = {WANTS: requirement.canonical(wants), IMAGES: [images.criterion(entry) for entry in matrix], PLACE: place}
    return key_of(meaning, "image-" + slug(matrix[place]), prefix), meaning


def slug(entry: Mapping[str, Any]) -> str:
    """Return a short name for the requirements of an image."""
    properties = images.criterion(entry)
    prefixes = {"cuda": "cuda", "compute_capability": "cc", "memory_min": "mem"}
    shown = ("cuda", "compute_capability", "cpu", "memory_min", "model")
    parts = [prefixes.get(key, "") + str(value) for key, value in properties.items() if key in shown]
    return re.sub(r"[^a-z0-9_]+", "-", "-".join(parts).lower()).strip("-_") or "any"


def _text(meaning: Any) -> str:
    return json.dumps(meaning, sort_keys=True, separators=(",", ":"))


def is_in(meaning: Meaning, node: Facts) -> bool:
    """Return whether a node belongs to the class."""
    if node.gpus is None or requirement.unmet(meaning[WANTS], node):
        return False
    return IMAGES not in meaning or images.choose(meaning[IMAGES], node).best == [meaning[PLACE]]


def labels(node_facts: Facts, classes: Mapping[str, Meaning | None], now: Mapping[str, str]) -> dict[str, str]:
    """Return the class labels that a node must have. ``now`` are the node's current labels. A class that this version does not understand keeps its
    labels. A class keeps the key from its service, even if the prefix of the node's labels has changed.
    """
    return {key: LABEL_VALUE for key, meaning in classes.items() if (key in now if meaning is None else is_in(meaning, node_facts))}


def is_key(key: str) -> bool:
    """Return whether a label with this key may be the label of a class."""
    return bool(_KEY.fullmatch(key)) and not key.startswith(RESERVED)


def class_prefix_of(key: str) -> str:
    """Return the prefix of all class keys with the same GPU prefix as this key; '' if this key is not a class key."""
    match = _KEY.fullmatch(key)
    return match.group(1) if match else ""


# -- the label of a service --------------------------------------------------------------------------------------------


def to_label(classes: Mapping[str, Meaning]) -> str:
    """Write the classes as the value of a service's label."""
    return _text(classes)


def read_classes(texts: Iterable[str]) -> dict[str, Meaning | None]:
    """Read the classes from labels of services. A class that cannot be understood is None, for example a class for a CPU without archspec here."""
    meanings: dict[str, Meaning | None] = {}
    for text in texts:
        try:
            definitions = json.loads(text) if len(text) <= _MAX_CHARACTERS else {}
            meanings.update({key: _checked(meaning) for key, meaning in definitions.items() if is_key(key)})
        except (AttributeError, RecursionError, TypeError, ValueError):
            continue
    return {key: meaning if number < MAX_CLASSES else None for number, (key, meaning) in enumerate(meanings.items())}


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
