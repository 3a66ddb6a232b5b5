# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Follows the pulls before an update (pure, except for the clock): which have not ended, what to print, and whether the update may begin.

A node that could not pull does not stop the update. But if no node has an image, the update would only stop tasks that run.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...module_utils._deployment.pulls import AT_ONCE, FAILED, PULLED, PULLING, QUEUED
from ...module_utils._errors import ErrorList
from ...module_utils._printable import shortened
from .deploy_preconditions import image_of, with_gpus
from .deploy_verdict import NOTHING

NO_PULL = "To deploy without a pull, set gpu_stack_pull: false."


def images(document: Mapping[str, Any], stack: str) -> dict[str, str]:
    """Return the image of each service that reserves GPUs."""
    return {f"{stack}_{key}": image_of(service) for key, service in with_gpus(document).items()}


def with_digests(document: Mapping[str, Any], pinned: Mapping[str, str]) -> dict[str, Any]:
    """Return the document with the digests of these images. ``pinned`` has the reference with the digest by image."""
    services = {key: {**service, "image": pinned.get(image_of(service), service["image"])} for key, service in document["services"].items()}
    return {**document, "services": services}


def refuse_unknown(unknown: Mapping[str, str]) -> None:
    if unknown:
        errors = [
            f"The digest of the image {image} cannot be looked up: {reason.rstrip('.')}. Correct the image or the login. {NO_PULL} {NOTHING}"
            for image, reason in sorted(unknown.items())
        ]
        raise ErrorList(errors, "gpu_stack_pull", NOTHING)


class Pulls:
    """The pulls of one run. ``remaining`` are the pulls that have not ended. Each may take ``limit_s`` seconds from its start."""

    def __init__(self, plan: Mapping[str, Any], limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.remaining: list[dict[str, Any]] = list(plan["pulls"])
        self._limit_s, self._clock = limit_s, clock
        self._number, self._ended = len(self.remaining), 0
        self._on_a_node = set(plan["there"])
        self._started: dict[tuple[str, str], float] = {}
        self._failed: dict[str, list[str]] = {}

    def first_line(self) -> str:
        images = shortened(list(dict.fromkeys(_short(pull["image"]) for pull in self.remaining)))
        nodes = shortened(list(dict.fromkeys(pull["hostname"] for pull in self.remaining)))
        return f"{nodes}: pull {images} before the update, at most {AT_ONCE} at a time"

    def follow(self, states: Iterable[Mapping[str, Any]]) -> list[str]:
        """Take in the states that a manager returned, and return the lines to print."""
        by_pull = {(state["node"], state["image"]): state for state in states}
        lines, former, self.remaining = [], self.remaining, []
        for pull in former:
            key = pull["node"], pull["image"]
            state = by_pull.get(key, {"state": QUEUED, "reason": ""})
            late = key in self._started and self._clock() - self._started[key] >= self._limit_s
            if state["state"] == PULLED:
                self._on_a_node.add(pull["image"])
                lines.append(self._ended_line(pull, "has"))
            elif state["state"] == FAILED or late:
                limit = "" if state["state"] == FAILED else f"not pulled within {self._limit_s:g} s (gpu_stack_wait_timeout)"
                reason = ": ".join(text for text in (limit, state["reason"]) if text)
                self._failed.setdefault(pull["image"], []).append(f"{pull['hostname']}: {reason}")
                lines.append(f"note: {self._ended_line(pull, 'did not pull')}: {reason}")
            else:
                self.remaining.append(pull)
                if state["state"] == PULLING and key not in self._started:
                    self._started[key] = self._clock()
                    lines.append(f"{pull['hostname']}: pulls {_short(pull['image'])}")
        return lines

    def _ended_line(self, pull: Mapping[str, Any], verb: str) -> str:
        self._ended += 1
        return f"{pull['hostname']}: {verb} {_short(pull['image'])} ({self._ended} of {self._number})"

    def waiting(self) -> list[str]:
        return [pull["hostname"] for pull in self.remaining]

    def refuse_missing(self) -> None:
        """Raise an error if no node has one of the images."""
        missing = {image: reasons for image, reasons in self._failed.items() if image not in self._on_a_node}
        if missing:
            errors = [
                f"No node could pull the image {_short(image)}: {shortened(reasons, '; ')}. Fix that, and run this again. {NO_PULL} {NOTHING}"
                for image, reasons in sorted(missing.items())
            ]
            raise ErrorList(errors, "gpu_stack_pull", NOTHING)


def _short(image: str) -> str:
    """Return the image without its digest, which would fill a line. Keep the digest of an image that has no tag."""
    name, _at, digest = image.partition("@")
    return name if ":" in name.rpartition("/")[2] or not digest else image
