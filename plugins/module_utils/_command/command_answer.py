# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answer of a command, the places of its data, and its connection to this machine's dockerd.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple

from .._errors import GpuSwarmError
from .written_files import CARDS, RECORD

if TYPE_CHECKING:
    from .._swarm.manager import Manager

# Exit statuses.
DONE, UNREADABLE, WRONG, WAITING, INTERRUPTED = 0, 1, 2, 75, 130
ANSWER_S = 60  # how long the manager may take to answer (seconds)


class Places(NamedTuple):
    """The paths of the data, and the address of dockerd."""

    record: str = RECORD
    cards: str = CARDS
    docker_host: str = "unix:///var/run/docker.sock"


class Answer(NamedTuple):
    """The answer of a command: ``data`` for programs (--json), and ``text(width)``, which returns the text for people."""

    data: Mapping[str, Any]
    text: Callable[[int | None], str]
    status: int = DONE


def connect(places: Places) -> Manager:
    """Return the manager of this machine. Raises GpuSwarmError with one sentence that says what to do."""
    # imported here, because most commands only read files
    from .._swarm.manager import BY_SOCKET
    from .._swarm.manager import connect as connect_with

    try:
        return connect_with(dict(BY_SOCKET, docker_host=places.docker_host, timeout=ANSWER_S))
    except GpuSwarmError as problem:
        raise _without_options(problem, places.docker_host) from problem


def _without_options(problem: GpuSwarmError, host: str) -> GpuSwarmError:
    """Return the error without the names of a module's options."""
    words = getattr(problem.__cause__, "words", None)
    if words is None:
        return problem
    if "ermission denied" in words:
        return GpuSwarmError("You may not use Docker at %s. Become root, or a member of the group docker." % host)
    return GpuSwarmError("Docker does not answer at %s: %s. Start it with 'systemctl start docker'." % (host, words))
