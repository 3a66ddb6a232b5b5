# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pulls the images of gangs on their nodes before the gangs are admitted, so that all members start at about the same time.

Each pull is a service on one node, as before a deployment. A round only looks at the pulls and never waits for them. If a node cannot pull an
image that another node could pull, the gang avoids that node for a while. If no node could pull the image, the members start anyway: their services
may have a login for the registry. If they have none, their own error says so.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Tuple

from .._deployment import pull_run
from .._deployment.pulls import FAILED, NODE_GONE, PULLED
from .._errors import GpuSwarmError
from .._swarm.manager import Manager
from .._swarm.owned_labels import PULL
from .._tasks.tasks import is_pull

STACK = "gpu-swarm-gangs"  # in the label of these pulls, where other pulls have the name of their stack
LONGEST_S = 1800.0  # a pull that takes longer counts as failed

# The id of a node, and an image.
Pair = Tuple[str, str]


class Pull(NamedTuple):
    """A member's image that its node pulls before the gang is admitted."""

    service_id: str
    node: str
    image: str

    @property
    def pair(self) -> Pair:
        return self.node, self.image


def image_of(service: Mapping[str, Any]) -> str:
    return str((service["Spec"]["TaskTemplate"].get("ContainerSpec") or {}).get("Image") or "")


def being_pulled(services: Iterable[Mapping[str, Any]]) -> set[Pair]:
    """Return which nodes pull which images now. ``services`` are all services of the swarm."""
    pulls = [service for service in services if is_pull(service) and service["Spec"]["Labels"][PULL] == STACK]
    constraints = [(service["Spec"]["TaskTemplate"].get("Placement") or {}).get("Constraints") or [""] for service in pulls]
    return {(constraint[0].partition("==")[2], image_of(service)) for service, constraint in zip(pulls, constraints)}


class GangPulls:
    """Remembers which pulls have ended, until no gang waits for a pull. A new process pulls all images again, which is quick."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended: dict[Pair, tuple[str, str]] = {}  # PULLED or FAILED, and why
        self._since: dict[Pair, float] = {}
        self._may_run = True  # a former process may have left pulls

    def has(self, node: str, image: str) -> bool:
        return self._ended.get((node, image), ("", ""))[0] == PULLED

    def go_on(self, manager: Manager, wanted: Sequence[Pull]) -> list[tuple[Pull, str]]:
        """Start the wanted pulls, and remove pulls that have ended or are no longer wanted. Never wait.

        Return the pulls that failed although another node could pull the image, each with the reason.
        """
        if not wanted and not self._may_run:
            return []
        now = self._clock()
        self._since = {pull.pair: self._since.get(pull.pair, now) for pull in wanted}
        late = [pair for pair, since in self._since.items() if now - since >= LONGEST_S]
        self._ended.update((pair, (FAILED, "it was not pulled within %d minutes" % (LONGEST_S / 60))) for pair in late if pair not in self._ended)
        running = [{"node": pull.node, "image": pull.image} for pull in wanted if pull.pair not in self._ended]
        self._may_run = True
        try:
            states = pull_run.step(manager, STACK, running, None)
            self._may_run = bool(wanted)
        except GpuSwarmError as problem:  # for example, a login of this machine cannot be read
            states = [dict(one, state=FAILED, reason=problem.message) for one in running]
        self._ended.update(((one["node"], one["image"]), (one["state"], one["reason"])) for one in states if one["state"] in (PULLED, FAILED))
        if not wanted:
            self._ended.clear()
        return [failure for image in sorted({pull.image for pull in wanted}) for failure in self._failures(image, wanted)]

    def _failures(self, image: str, wanted: Sequence[Pull]) -> list[tuple[Pull, str]]:
        pulls = [pull for pull in wanted if pull.image == image]
        if any(pull.pair not in self._ended for pull in pulls):
            return []
        gone = [pull.pair for pull in pulls if self._ended[pull.pair] == (FAILED, NODE_GONE)]
        for pair in gone:  # swarm's filters already exclude the node; it pulls again when it is back
            del self._ended[pair]
        pulls = [pull for pull in pulls if pull.pair not in gone]
        if not any(state == PULLED for (_node, other), (state, _why) in self._ended.items() if other == image):
            self._ended.update((pull.pair, (PULLED, "")) for pull in pulls)
        failed = [(pull, self._ended[pull.pair][1]) for pull in pulls if self._ended[pull.pair][0] == FAILED]
        for pull, _why in failed:
            self._ended.pop(pull.pair, None)
        return failed
