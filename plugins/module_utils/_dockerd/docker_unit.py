# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inspects and starts dockerd's systemd unit, and finds out why a start failed.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import time
from typing import Any, Callable, Mapping, Sequence, Tuple

from .._bounded import COMMAND_LIMIT_S, TimedOut
from .._errors import GpuSwarmError
from .._mask import mask
from .flags import DROP_IN, ENVIRONMENT, UNIT

# run(argv) runs a command and returns (rc, stdout, stderr). run(argv, limit_s) raises TimedOut after ``limit_s`` seconds.
Run = Callable[..., Tuple[int, str, str]]

PROPERTIES = (
    "LoadState,ActiveState,SubState,Job,NRestarts,MainPID,ActiveEnterTimestampMonotonic,"
    "FragmentPath,DropInPaths,EnvironmentFiles,NeedDaemonReload"
)
# In these states the unit exists. Its files may conflict, for example if a drop-in adds a second ExecStart.
LOADED = ("loaded", "bad-setting", "error")
# Files in other directories belong to packages, or disappear at the next boot.
ADMINISTRATORS = "/etc/"
DROP_INS = ADMINISTRATORS + "systemd/system/%s.d/*.conf"


class EngineError(GpuSwarmError):
    """The daemon did not do what was requested."""


class Unit:
    """dockerd's systemd unit, which is called ``name``. ``run`` runs a command (see ``Run``)."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self._run = run
        self._acted_at: int | None = None
        # How often systemd itself had restarted the unit before the last command of this object. If None, the next successful start sets this number.
        self._restarts: int | None = 0
        self._was_restarted = False

    def inspect(self) -> dict[str, Any]:
        """Return systemd's present report about the unit; {} if the unit is unknown or systemd does not run."""
        rc, out, dummy = self._run(["systemctl", "show", "--property", PROPERTIES, self.name])
        lines = [line.split("=", 1) for line in out.splitlines() if "=" in line]
        shown = dict(lines)
        if rc != 0 or shown.get("LoadState") not in LOADED:
            return {}
        return {
            "state": shown.get("ActiveState"),
            "step": shown.get("SubState"),
            "job": shown.get("Job") not in (None, "", "0"),
            "restarts": _number(shown.get("NRestarts")),
            "pid": _number(shown.get("MainPID")),
            "started_at": shown.get("ActiveEnterTimestampMonotonic"),
            # The flags come from the process, because someone may have edited the files since the start.
            "flags": running_flags(_number(shown.get("MainPID"))),
            "files": unit_files(self.name, shown, [value for name, value in lines if name == "EnvironmentFiles"]),
            "needs_reload": shown.get("NeedDaemonReload") == "yes",
        }

    def restart(self, reload_units: bool, limit_s: float) -> None:
        """Let systemd restart the daemon, and wait at most ``limit_s`` seconds, because the unit itself may have no time limit.

        If the unit's files have changed and ``reload_units`` is true, systemd reloads them first.
        """
        before = self.inspect()
        # Reload the units only before a restart: running containers can lose their GPUs after a daemon-reload (NVIDIA/nvidia-container-toolkit#48).
        if reload_units and before.get("needs_reload"):
            self._run(["systemctl", "daemon-reload"])
        # A refused configuration can use up the unit's start limit. Then dockerd could not start with the old configuration either. So reset the
        # limit now. This also resets NRestarts.
        self._restarts = 0 if self._clear_starts() else before.get("restarts", 0)
        self._was_restarted = True
        with contextlib.suppress(TimedOut):  # pending() reports the unfinished work of systemd
            # systemd itself may have retried 0.1 s after a failed start. In this case, this restart joined systemd's attempt, and NRestarts counts
            # the attempt.
            if self._act(["systemctl", "restart", self.name], "did not start", limit_s, before.get("started_at")):
                self._restarts = None

    def reset_start_limit(self) -> None:
        """Reset the start limit after the daemon has the wanted settings, so that systemd can restart it after a crash."""
        if self._was_restarted:
            with contextlib.suppress(TimedOut):  # the daemon runs, so a failure of this command must not undo the change
                self._clear_starts()
        self._was_restarted = False

    def _clear_starts(self) -> bool:
        """Reset the count of starts for the start limit (unit_reset_failed in systemd's unit.c). Return whether the command succeeded."""
        rc, dummy, dummy = self._run(["systemctl", "reset-failed", self.name])
        return bool(rc == 0)

    def reload(self) -> None:
        """Send SIGHUP. dockerd then reloads default-runtime and runtimes, but not node-generic-resources (moby daemon/reload.go)."""
        self._restarts = self.inspect().get("restarts", 0)
        self._act(["systemctl", "kill", "--kill-who=main", "--signal=SIGHUP", self.name], "did not take SIGHUP")

    def _act(self, argv: Sequence[str], failed: str, limit_s: float = COMMAND_LIMIT_S, started_at: str | None = None) -> bool:
        """Run a command of systemd. Return False if systemd may still be working on it. If the command starts the unit,
        ``started_at`` is the time of the former start."""
        self._acted_at = int(time.time())
        rc, out, err = self._run(argv, limit_s)
        if rc == 0:
            return True
        now = self.inspect()
        # If the start failed, pending() raises EngineError with the reason from the journal. systemctl also fails if systemd itself restarts the unit
        # meanwhile.
        started = started_at is not None and now.get("started_at") != started_at
        if not (self.pending(now) or started):
            raise EngineError("%s %s: %s" % (self.name, failed, (err or out).strip()))
        return False

    def pending(self, now: Mapping[str, Any]) -> str | None:
        """Return a sentence about systemd's unfinished work, or None. ``now`` is the result of inspect(). Raises EngineError after a start has
        failed.

        While a restart is pending, the old process can still answer. If systemd tries a failed unit again and again, the unit has the state of a
        starting unit for short moments.
        """
        if not now:
            return None
        if self._restarts is None:
            self._restarts = now["restarts"]
        gave_up = not now["job"] and (now["state"] == "failed" or now["step"] == "auto-restart")
        if gave_up or now["restarts"] > self._restarts:
            raise EngineError("%s did not start: %s" % (self.name, self.reason() or "the journal does not say why"))
        doing = "stopping" if now["state"] == "deactivating" else "starting"
        return "systemd is still %s it (%s)" % (doing, now["step"]) if now["job"] else None

    def reason(self) -> str:
        """Return why dockerd did not start, from the journal; '' if the reason is unknown."""
        argv = ["journalctl", "--unit", self.name, "--output", "cat", "--no-pager"]
        # Do not use --since: with this option, journalctl of Debian 12 (systemd 252) shows the first lines, but only the last line names the reason.
        argv += ["--lines", "40"] if self._acted_at is None else ["--since", "@%d" % self._acted_at]
        try:
            if self._acted_at is not None:  # systemd reports a failed start before dockerd's last lines are in the journal
                self._run(["journalctl", "--sync"])
            rc, out, dummy = self._run(argv)
        except TimedOut:  # report the failure without the reason
            return ""
        return reason_from_journal(out) if rc == 0 else ""


def reason_from_journal(text: str) -> str:
    """Return the line of the log with the reason why dockerd ended, or ''."""
    cause = re.compile(r"failed to (start|load|create)|unable to configure|unknown flag|invalid|conflict|fatal", re.I)
    lines = [line.strip() for line in text.splitlines() if cause.search(line)]
    # Ignore systemd's own lines: "docker.service: Failed with …", "Failed to start docker.service - Docker …".
    lines = [line for line in lines if not re.match(r"\S+\.service: |Failed to start ", line)]
    return mask(lines[-1])[:600] if lines else ""


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def running_flags(pid: int) -> list[str]:
    """Return the arguments of a process; [] if it does not run."""
    if not pid:
        return []
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            return [part.decode("utf-8", "replace") for part in stream.read().split(b"\0")[1:] if part]
    except OSError:
        return []


def unit_files(unit: str, shown: Mapping[str, str], environment: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return [(path, kind, whether it belongs to the administrator)] for the files that decide how the unit is started, in systemd's order.

    The list includes drop-ins that were written after the last daemon-reload, because the next daemon-reload loads them.
    """
    drop_ins = {os.path.basename(path): path for path in _paths(shown.get("DropInPaths", ""))}
    for path in glob.glob(DROP_INS % glob.escape(unit)):
        drop_ins[os.path.basename(path)] = path
    files = [(path, UNIT) for path in _paths(shown.get("FragmentPath", ""))]
    files += [(drop_ins[name], DROP_IN) for name in sorted(drop_ins)]
    # "/etc/default/docker (ignore_errors=yes)", or "/etc/docker/*.env (ignore_errors=no)": systemd reads all matching files, in the order of glob(3)
    patterns = [re.sub(r" \(ignore_errors=\w+\)$", "", pattern) for pattern in environment if pattern]
    files += [(path, ENVIRONMENT) for pattern in patterns for path in (sorted(glob.glob(pattern)) or [pattern])]
    return [(path, kind, path.startswith(ADMINISTRATORS)) for path, kind in files]


def _paths(text: str) -> list[str]:
    return [part.replace("\\x20", " ") for part in text.split()]
