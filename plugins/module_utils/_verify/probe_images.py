# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the image for the test of each node (pure): the user's image, an image that the node has, or else an image that a few nodes pull.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._dockerd.local_images import ID
from .._errors import GpuSwarmError
from .._policy.quantity import count_of
from .._swarm.image_name import is_image_name
from .plan import ALL, NO_GPUS, PLANNED, UNTESTED, Check, Choose

# The image to pull if the user names no image and the node has no suitable image.
PULLED = "nvidia/cuda:13.0.0-base-ubuntu24.04"
# The source of an image.
NAMED, ON_NODE, PULL = "named", "there", "pull"
NO_IMAGE = "it has no image to test with, and only verify_pulls (%s) nodes pull one. Set verify_image, or raise verify_pulls"


def refuse_name(image: str | None) -> None:
    """Raise an error for a name that no manager would accept."""
    if image and not is_image_name(image) and not ID.fullmatch(image):
        raise GpuSwarmError(
            "verify_image is %r, which is not a valid image name. Write it as name:tag, in lower case, such as %s." % (image, PULLED)
        )


def assign_images(
    checks: Sequence[Check], image: str | None, on_nodes: Mapping[str, Iterable[Mapping[str, Any]]], pulls: Any, choose: Choose
) -> list[Check]:
    """Return the checks. Each planned check gets an ``image``. A check without an image becomes untested.

    ``image`` is the user's image, or empty. ``on_nodes`` are the images that each node has, by node (from _images.candidates). ``pulls`` is how many
    nodes may pull an image. ``choose(list, k)`` picks these nodes.
    """
    planned = list(dict.fromkeys(check["node"] for check in checks if check["state"] == PLANNED))
    if image:
        images = {node: _image(image, image, NAMED) for node in planned}
    else:
        images = {node: best for node in planned for best in [_best(on_nodes.get(node))] if best}
        lacking = [node for node in planned if node not in images]
        images.update((node, _image(PULLED, PULLED, PULL)) for node in choose(lacking, _size(pulls, len(lacking))))
    return [check if check["state"] != PLANNED else _with_image(check, images.get(check["node"]), pulls) for check in checks]


def _with_image(check: Check, image: dict[str, str] | None, pulls: Any) -> Check:
    if image is None:
        return dict(check, state=UNTESTED, verdict=NO_IMAGE % pulls, image=None, **NO_GPUS)
    return dict(check, image=image)


def _best(images: Iterable[Mapping[str, Any]] | None) -> dict[str, str] | None:
    """Return the id of the best image.

    With a name instead of an id, a node queries the registry even if it has the image (moby daemon/cluster/executor/container/adapter.go).
    """
    for candidate in images or []:
        if ID.fullmatch(str(candidate.get("id"))):
            return _image(candidate["id"], candidate.get("name") or candidate["id"], ON_NODE)
    return None


def _image(reference: str, name: str, source: str) -> dict[str, str]:
    return {"reference": reference, "name": name, "from": source}


def _size(pulls: Any, total: int) -> int:
    size = total if str(pulls).strip().lower() == ALL else 0 if str(pulls).strip() == "0" else count_of(pulls, total)
    if size is None:
        raise GpuSwarmError("pulls: %r is not a number of nodes. Give a number such as 3, a percentage such as 10%%, or 'all'." % pulls)
    return min(size, total)
