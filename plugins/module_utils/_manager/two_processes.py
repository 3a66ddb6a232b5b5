# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two processes of gpu-swarm-manager. The first process only pauses nodes. The second process does everything else.

Each process has its own memory limit. If memory runs out, the kernel ends the second process first.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from typing import Any, Callable, Mapping, Sequence

from .._health.label import PAUSED_PERCENT
from .._metrics.keeper import Keeper
from .._node.manager_state import DIRECTORIES, JOBS, PAGE, PAUSE, RECORD, SHARED, TEMPLATE
from .._program.installed import SETTINGS
from .._program.lifetime import notify, publish, say
from .._queue.admitter import Admitter
from .._record.recorder import Recorder
from .directories import Directories
from .fleet_view import FleetView
from .leader_claims import LeaderClaims
from .page_file import PageFile
from .pausing import STATUS, Pausing
from .readings import Observer, Readings
from .removal_of_jobs import RemovalOfJobs
from .rounds import Nodes, Rounds
from .second import RESTART_SERVICE, Second
from .snapshot import Snapshot

SECOND = "second"
# The memory limits in MiB. The metrics of 20,000 tasks take 400.
FIRST_MIB, SECOND_MIB = 256, 768
_UMASK = 0o027  # files of the record are for their group, and for nobody else
SILENT_S = 180  # without a sign of life for this time, the kernel ends the second process (SIGALRM)


def main() -> None:
    home = os.path.dirname(os.path.abspath(sys.argv[0]))  # a link to the code of the running service
    with open(os.path.join(home, SETTINGS), encoding="utf-8") as stream:
        settings = {**json.load(stream), "home": home}
    os.umask(_UMASK)
    if sys.argv[1:] == [SECOND]:
        _limit_memory(SECOND_MIB)
        _be_ended_first()
        _run_second(settings, lambda: signal.alarm(SILENT_S))
    elif settings.get(PAUSE):
        _limit_memory(FIRST_MIB)
        _run_first(settings)
    else:
        _limit_memory(SECOND_MIB)
        publish(STATUS, {"pid": os.getpid(), "handled": {}})
        _run_second(settings, _tell_systemd)
    # The journal already has all lines. A normal exit would abort if a thread holds the lock of stdout.
    os._exit(0)


def _run_first(settings: Mapping[str, Any]) -> None:
    pausing = Pausing(settings[PAUSE]["limit"])
    rounds = Rounds(settings["docker_socket"], pausing, _tell_systemd)
    pausing.publish()
    Second([sys.executable, "-I", sys.argv[0], SECOND]).start()
    rounds.run()


def _run_second(settings: Mapping[str, Any], alive: Callable[[], object]) -> None:
    alive()
    admitter = Admitter(say)
    parts = _parts(settings, admitter)

    def act(manager: Any, nodes: Nodes) -> float | None:
        leads, waits = leads_swarm(manager.node_id, nodes), []
        for part in parts:
            waits.append(part(manager, nodes, leads))
            alive()
        return min((wait for wait in waits if wait is not None), default=None)

    Rounds(settings["docker_socket"], act, alive, listen=lambda manager: admitter.services.follow(manager.events("node", "service"))).run()


def _parts(settings: Mapping[str, Any], admitter: Admitter) -> list[Callable[..., float | None]]:
    """Return the parts in their order. A part returns the seconds until the next round must begin, or None without such a limit."""
    paths = [(settings.get(part) or {}).get(name) or "" for part, name in DIRECTORIES.items()]
    parts: list[Callable[..., float | None]] = [Directories([*paths, *_shared(settings).values()], _restart_service)]
    if settings.get(PAUSE):
        metrics = Keeper(settings[PAUSE]["metrics_directory"], say)
        parts += [LeaderClaims(say), metrics.remove_former]
    parts += [admitter, Readings(observers(settings), say)]
    if settings.get(JOBS):
        parts.append(RemovalOfJobs({**settings[JOBS], "docker_socket": settings["docker_socket"]}))
    return parts


def observers(settings: Mapping[str, Any]) -> list[Observer]:
    """Return the observers of each reading. The page comes last, because it shows the record."""
    shared, view = _shared(settings), FleetView((settings.get(PAUSE) or {}).get("limit", PAUSED_PERCENT))
    found = []
    if settings.get(PAUSE):
        metrics = Keeper(settings[PAUSE]["metrics_directory"], say)
        found.append(Observer("the metrics", metrics.observe, metrics.is_needed))
    if RECORD in shared:
        found.append(Observer("the status for people on this manager", Snapshot(shared[RECORD], view).observe))
        found.append(Observer("the record of allocations and events", Recorder(shared[RECORD]).observe))
    if PAGE in shared:
        template = os.path.join(settings["home"], TEMPLATE)
        page = PageFile(shared[PAGE], template, shared.get(RECORD, ""), view, settings[PAGE]["grafana_url"])
        found.append(Observer("the page", page.observe))
    return found


def _shared(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the directories of the parts that write below the state directory."""
    state_dir = os.path.dirname(settings["home"])
    return {part: os.path.join(state_dir, name) for part, name in SHARED.items() if part in settings}


def leads_swarm(node_id: str, nodes: Sequence[Mapping[str, Any]]) -> bool:
    return any(node["ID"] == node_id and (node.get("ManagerStatus") or {}).get("Leader") for node in nodes)


def _restart_service() -> None:
    os._exit(RESTART_SERVICE)


def _tell_systemd() -> None:
    notify("WATCHDOG=1")


def _limit_memory(mebibytes: int) -> None:
    """Set the soft limit only. The second process inherits the limits of the first process and raises its own soft limit."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = mebibytes << 20
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _be_ended_first() -> None:
    """If memory runs out, have the kernel end this process before the one that pauses nodes."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as stream:
        stream.write("500")
