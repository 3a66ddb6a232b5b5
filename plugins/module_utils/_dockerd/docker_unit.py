# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The systemd unit of the Docker daemon: how it is started, how far a start has come, and why one failed.

Private to this collection: no stability is promised to others.
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

# run(argv) runs a command and returns (rc, stdout, stderr); run(argv, limit_s) raises TimedOut after so many seconds.
Run = Callable[..., Tuple[int, str, str]]

PROPERTIES = (
    "LoadState,ActiveState,SubState,Job,NRestarts,MainPID,ActiveEnterTimestampMonotonic,"
    "FragmentPath,DropInPaths,EnvironmentFiles,NeedDaemonReload"
)
# A unit whose files contradict themselves, as a drop-in that adds an ExecStart, is one all the same.
LOADED = ("loaded", "bad-setting", "error")
# What is not below it belongs to packages, or is gone at the next boot.
ADMINISTRATORS = "/etc/"
DROP_INS = ADMINISTRATORS + "systemd/system/%s.d/*.conf"


class EngineError(GpuSwarmError):
    """The daemon did not do what was requested."""


class Unit:
    """A unit by its name. ``run(argv)`` runs a command and returns ``(rc, stdout, stderr)``; see ``Run``."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self._run = run
        self._acted_at: int | None = None
        # How often systemd had started it by itself when it was last acted on; None where that is to be read after a start that succeeded.
        self._restarts: int | None = 0
        self._was_restarted = False

    def inspect(self) -> dict[str, Any]:
        """What systemd reports about it now; {} where there is no such unit, or no systemd."""
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
            # Not those of its files, which can have been edited since its start.
            "flags": running_flags(_number(shown.get("MainPID"))),
            "files": unit_files(self.name, shown, [value for name, value in lines if name == "EnvironmentFiles"]),
            "needs_reload": shown.get("NeedDaemonReload") == "yes",
        }

    def restart(self, reread: bool, limit_s: float) -> None:
        """Has systemd start the daemon anew, and waits for that, but not for longer: its unit may know no limit to it.

        Where the unit's files have changed, they are read anew before, unless that is not to be.
        """
        before = self.inspect()
        # Only with a restart: containers that run on can lose their GPUs by it (NVIDIA/nvidia-container-toolkit#48).
        if reread and before.get("needs_reload"):
            self._run(["systemctl", "daemon-reload"])
        # A refused configuration can use up the unit's start limit, which would bar the way back too. This sets NRestarts to 0 as well.
        self._restarts = 0 if self._clear_starts() else before.get("restarts", 0)
        self._was_restarted = True
        with contextlib.suppress(TimedOut):  # what systemd still does is in pending()
            # One of systemd's own attempts may have begun in between, 0.1 s after a start that failed: it became this one, and is counted.
            if self._act(["systemctl", "restart", self.name], "did not start", limit_s, before.get("started_at")):
                self._restarts = None

    def settled(self) -> None:
        """The daemon is as wanted: a restart by this counts no more for the unit's start limit, so systemd still repairs a crash soon after."""
        if self._was_restarted:
            with contextlib.suppress(TimedOut):  # the daemon runs: a failure here is no reason to undo the change
                self._clear_starts()
        self._was_restarted = False

    def _clear_starts(self) -> bool:
        """Reset systemd's count of starts, which the start limit goes by (unit_reset_failed of its unit.c). Return whether that worked."""
        rc, dummy, dummy = self._run(["systemctl", "reset-failed", self.name])
        return bool(rc == 0)

    def reload(self) -> None:
        """SIGHUP: enough for default-runtime and runtimes, never for node-generic-resources (moby daemon/reload.go)."""
        self._restarts = self.inspect().get("restarts", 0)
        self._act(["systemctl", "kill", "--kill-who=main", "--signal=SIGHUP", self.name], "did not take SIGHUP")

    def _act(self, argv: Sequence[str], failed: str, limit_s: float = COMMAND_LIMIT_S, started_at: str | None = None) -> bool:
        """Whether it is done; False where systemd may be at it still. ``started_at`` is when it was started before, where that is to be another
        time by this."""
        self._acted_at = int(time.time())
        rc, out, err = self._run(argv, limit_s)
        if rc == 0:
            return True
        now = self.inspect()
        # Of a start that failed, the journal says more. systemctl also fails where systemd itself is started anew meanwhile.
        started = started_at is not None and now.get("started_at") != started_at
        if not (self.pending(now) or started):
            raise EngineError("%s %s: %s" % (self.name, failed, (err or out).strip()))
        return False

    def pending(self, now: Mapping[str, Any]) -> str | None:
        """What systemd still does, in words, or None, by what inspect() returned; raises EngineError as soon as a start has failed.

        While a restart is pending the old process can still answer, and a failed unit that systemd tries again and
        again seems to be starting for moments.
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
        """dockerd's own last error when it did not start, from the journal."""
        argv = ["journalctl", "--unit", self.name, "--output", "cat", "--no-pager"]
        # Not both: with --since, journalctl of Debian 12 (systemd 252) shows the first lines, and it is the last one that says why.
        argv += ["--lines", "40"] if self._acted_at is None else ["--since", "@%d" % self._acted_at]
        try:
            if self._acted_at is not None:  # systemd reports a start that failed before its last lines are there
                self._run(["journalctl", "--sync"])
            rc, out, dummy = self._run(argv)
        except TimedOut:  # what went wrong is reported without it
            return ""
        return reason_from_journal(out) if rc == 0 else ""


def reason_from_journal(text: str) -> str:
    """The line of the log with the reason why dockerd ended; '' if there is none."""
    cause = re.compile(r"failed to (start|load|create)|unable to configure|unknown flag|invalid|conflict|fatal", re.I)
    lines = [line.strip() for line in text.splitlines() if cause.search(line)]
    # Not what systemd says of it: "docker.service: Failed with …", "Failed to start docker.service - Docker …".
    lines = [line for line in lines if not re.match(r"\S+\.service: |Failed to start ", line)]
    return mask(lines[-1])[:600] if lines else ""


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def running_flags(pid: int) -> list[str]:
    """The words after the program's name of a process; [] where there is none."""
    if not pid:
        return []
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            return [part.decode("utf-8", "replace") for part in stream.read().split(b"\0")[1:] if part]
    except OSError:
        return []


def unit_files(unit: str, shown: Mapping[str, str], environment: Sequence[str]) -> list[tuple[str, str, bool]]:
    """[(path, kind, whether it is the administrator's)] of the files that say how the unit is started, as systemd reads them.

    Drop-ins that were written after the last daemon-reload count too: the next one puts them in force.
    """
    drop_ins = {os.path.basename(path): path for path in _paths(shown.get("DropInPaths", ""))}
    for path in glob.glob(DROP_INS % glob.escape(unit)):
        drop_ins[os.path.basename(path)] = path
    files = [(path, UNIT) for path in _paths(shown.get("FragmentPath", ""))]
    files += [(drop_ins[name], DROP_IN) for name in sorted(drop_ins)]
    # "/etc/default/docker (ignore_errors=yes)", or "/etc/docker/*.env (ignore_errors=no)": systemd reads all files that fit, in the order of glob(3)
    named = [re.sub(r" \(ignore_errors=\w+\)$", "", one) for one in environment if one]
    files += [(path, ENVIRONMENT) for one in named for path in (sorted(glob.glob(one)) or [one])]
    return [(path, kind, path.startswith(ADMINISTRATORS)) for path, kind in files]


def _paths(text: str) -> list[str]:
    return [part.replace("\\x20", " ") for part in text.split()]
