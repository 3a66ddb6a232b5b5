# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether Docker accepts an image name (pure). A name may have a registry, a tag and a digest. Only the tag may have capital letters
(distribution/reference).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    r"(?:%s/)?%s(?:/%s)*(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?" % (_HOST, _PART, _PART)
)
_ID = re.compile(r"[0-9a-f]{64}")


def is_image_name(text: str) -> bool:
    return bool(_REFERENCE.fullmatch(text)) and not _ID.fullmatch(text)


def with_tag(image: str) -> str:
    """Return the image with its tag. Every 'docker service update' adds a missing tag, and the changed image would replace the tasks."""
    return image if "@" in image or ":" in image.rpartition("/")[2] else "%s:latest" % image


def with_digest(image: str, digest: str) -> str:
    """Return the reference that Docker itself writes into a service when it has looked up the image."""
    return "%s@%s" % (with_tag(image), digest)
