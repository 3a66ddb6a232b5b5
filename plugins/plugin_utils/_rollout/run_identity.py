# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The name of this run of Ansible, and whether another run on this machine still exists.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import getpass
import hashlib
import multiprocessing
import os
import re
import socket
import uuid
from pathlib import Path
from typing import Any

PROC = Path("/proc")
# user@controller pid 1234 (run MACHINE.START)
HOLDER = re.compile(r".* pid (\d{1,9}) \(run ([0-9a-f]{8})\.(\d+)\)")
NO_START = "-"


def this_run(proc: Path = PROC) -> str:
    """Return the name of this run. All tasks of the run have the same name, and no other run has it."""
    parent = multiprocessing.parent_process()  # Ansible runs each task in its own process
    pid = (parent and parent.pid) or os.getpid()
    machine = _machine(proc) or hashlib.sha256(str(uuid.getnode()).encode()).hexdigest()[:8]
    return f"{_user()}@{socket.gethostname()} pid {pid} (run {machine}.{_start(pid, proc) or NO_START})"


def has_ended(holder: str, proc: Path = PROC) -> bool:
    """Return whether this holder was a process of this machine that has ended. If a process cannot be identified, assume that it runs."""
    match = HOLDER.fullmatch(holder)
    if not match or match[2] != _machine(proc):
        return False
    pid = int(match[1])
    return not _exists(pid) or _start(pid, proc) not in (None, match[3])


def left_lease(ledger: Any) -> str:
    """Return the holder of a lease that was never released, although its run has ended or its time seems to be over. '' without such a lease."""
    lease = ((ledger or {}).get("swarm") or {}).get("lease")
    if not lease:
        return ""
    expired = lease["expires_in"] is not None and lease["expires_in"] <= 0
    return lease["holder"] if expired or has_ended(lease["holder"]) else ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # in containers a user need not have a name


def _exists(pid: int) -> bool:
    """Return whether a process exists. Do not look for its folder in /proc, because the folder may be hidden from other users (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's process
    return True


def _machine(proc: Path) -> str | None:
    """Return an id of this boot of the machine and of the PID namespace. Host names are not enough, because containers may share a name."""
    try:
        parts = [(proc / "sys/kernel/random/boot_id").read_text().strip(), os.readlink(proc / "self/ns/pid")]
    except OSError:
        return None  # not Linux
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:8]


def _start(pid: int, proc: Path) -> str | None:
    """Return when a process started, in ticks since the boot. A process id alone does not identify a process, because ids are used again. '' for a
    zombie, None if the time cannot be read.
    """
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    # proc(5), from the third field on. The second one, a name in brackets, may contain spaces.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
