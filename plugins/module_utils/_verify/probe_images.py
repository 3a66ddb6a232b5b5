# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the image with which to test each node (pure): the user's image, else one that the node has, else one that a few nodes pull.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._dockerd.local_images import ID
from .._errors import GpuSwarmError
from .._policy.quantity import count_of
from .._swarm.image_name import is_image_name
from .plan import ALL, NO_GPUS, PLANNED, UNTESTED, Check, Choose

# The image to pull if the user names none and the node has none.
PULLED = "nvidia/cuda:13.0.0-base-ubuntu24.04"
# The source of an image.
NAMED, THERE, PULL = "named", "there", "pull"
NO_IMAGE = "it has no image to test with, and no more nodes than verify_pulls (%s) pull one. Name an image (verify_image), or raise verify_pulls"


def refuse_name(image: str | None) -> None:
    """Raise an error for a name that no manager would accept."""
    if image and not is_image_name(image) and not ID.fullmatch(image):
        raise GpuSwarmError(
            "verify_image is %r, which is not a valid image name. Write it as name:tag, in small letters, such as %s." % (image, PULLED)
        )


def assigned(
    checks: Sequence[Check], image: str | None, there: Mapping[str, Iterable[Mapping[str, Any]]], pulls: Any, choose: Choose
) -> list[Check]:
    """Return the checks. Each planned one gets an ``image``, or becomes untested if there is none.

    ``image`` is the user's, or empty. ``there`` are by node the images that it has (from _images.candidates). ``pulls``: how many nodes may pull an
    image. ``choose(list, k)`` picks them.
    """
    planned = list(dict.fromkeys(check["node"] for check in checks if check["state"] == PLANNED))
    if image:
        images = {node: _image(image, image, NAMED) for node in planned}
    else:
        images = {node: found for node in planned for found in [_best(there.get(node))] if found}
        lacking = [node for node in planned if node not in images]
        images.update((node, _image(PULLED, PULLED, PULL)) for node in choose(lacking, _size(pulls, len(lacking))))
    return [check if check["state"] != PLANNED else _with(check, images.get(check["node"]), pulls) for check in checks]


def _with(check: Check, image: dict[str, str] | None, pulls: Any) -> Check:
    if image is None:
        return dict(check, state=UNTESTED, verdict=NO_IMAGE % pulls, image=None, **NO_GPUS)
    return dict(check, image=image)


def _best(images: Iterable[Mapping[str, Any]] | None) -> dict[str, str] | None:
    """Return the best image, referenced by its id. For a name, a node queries the registry even if it has the image
    (moby daemon/cluster/executor/container/adapter.go)."""
    for one in images or []:
        if ID.fullmatch(str(one.get("id"))):
            return _image(one["id"], one.get("name") or one["id"], THERE)
    return None


def _image(reference: str, name: str, source: str) -> dict[str, str]:
    return {"reference": reference, "name": name, "from": source}


def _size(pulls: Any, total: int) -> int:
    size = total if str(pulls).strip().lower() == ALL else 0 if str(pulls).strip() == "0" else count_of(pulls, total)
    if size is None:
        raise GpuSwarmError("pulls: %r is no number of nodes. Give a number such as 3, a percentage such as 10%%, or 'all'." % pulls)
    return min(size, total)
