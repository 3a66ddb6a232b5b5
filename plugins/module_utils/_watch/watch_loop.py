# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's service: reads the GPUs through a child process, decides whether they have a fault, and reports the fault to the managers.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from typing import Any, Mapping, Sequence

from .._gpu.cards import match_records
from .._health import pace, verdict, xids
from .._health.label import FAULT, KEY, OK, Label, format_label, parse_label
from .._machine import driver, uvm
from .._node.card_record import CardRecord
from .._node.watcher_state import STATUS
from .._program.clock import Clock
from .._program.lifetime import Lifetime, notify, publish, say
from .allocation_check import AllocationCheck
from .card_readings import CardReadings
from .gpu_errors import Events, Log
from .reader import Reader
from .starts import Starts
from .toolkit_retry import Toolkit
from .written import Written, stamp

# After a boot, the driver may still be loading and MIG devices may still be created.
GRACE_S = verdict.GRACE_S
RENEW_S = 60  # how often the reading child is replaced during a fault (seconds)
# How long to wait after a label could not be written (seconds): for most labels, and for a fault.
RETRY_S, FAULT_RETRY_S = 60, 20
# How long to wait if a label has to wait until tasks end (seconds). Each try starts a process and takes a quarter of a second.
WAIT_S = 300
REPORT_LIMIT_S = 120


class Service:
    """The service of one node. ``home`` is its directory, ``root`` the machine's root directory."""

    def __init__(self, home: str, settings: Mapping[str, Any], root: str = "/", clock: Clock | None = None) -> None:
        self._home = home
        self._settings = settings
        self._root = root
        self._clock = clock or Clock()
        self._events, self._log = Events(home), Log(root)
        self._errors: list[xids.Event] = []  # errors since the last inspection
        self._reader = Reader(home, settings, _alive, self._clock)
        self._written = Written(home, settings)
        self._starts = Starts(home, settings)
        self._allocation_check = AllocationCheck(settings, self._reader.processes, self._clock)
        self._card_readings = CardReadings(settings, root, self._clock)
        self._toolkit = Toolkit(settings, self._clock)
        self._settled = pace.Settled()
        self._shown: Label | None = None
        self._wanted: Label | None = None
        self._file: object = None
        self._read_label()
        self._written_at: float | None = None  # the time of the last write
        self._tried = 0.0
        self._blocked: str | None = None
        self._waits: str | None = None
        self._gpus: list[dict[str, Any]] = []
        self._cards = CardRecord(os.path.dirname(home))
        self._card_records = self._cards.read()
        self._answered: set[str] = set()  # the cards and devices that have been read so far
        self._driver: object = None
        self._renewed = self._clock.monotonic()
        self._status: dict[str, Any] | None = None
        self._unpublished = self._unrecorded = ""
        self._lifetime = Lifetime(self._clock)
        self._lock: int | None = None

    def run(self) -> None:
        self._lock = lock_node(self._home)
        self._publish({"label": format_label(self._shown) if self._shown else None, "reasons": []})
        self._lifetime.begin()
        standing = self._events.standing()
        if standing:
            say(standing)
        while not self._lifetime.over:
            self.step()
        self.end()

    def step(self) -> None:
        """Inspect the node once, then wait until the next inspection is due."""
        self._inspect()
        _alive()
        self._rest()

    def end(self) -> None:
        self._reader.end()

    def _rest(self) -> None:
        """Wait until the next inspection is due or a card has a warning or a fault. Ignore errors of applications and other lines of the kernel's
        log, because the log may contain thousands of them."""
        end = self._clock.monotonic() + (pace.CONFIRM_S if self._reader.waits() else self._settled.wait_s)
        while not self._lifetime.over and self._clock.monotonic() < end:
            self._lifetime.wait(end - self._clock.monotonic(), self._log.handles() + self._reader.handles())
            errors = self._new_errors()
            self._errors += errors
            if any(map(self._counts, errors)):
                return

    def _counts(self, error: xids.Event) -> bool:
        return xids.severity(error, self._settings["health_faults"], self._settings["health_ignored"]) != OK

    def _new_errors(self) -> list[xids.Event]:
        """Return the new errors from the kernel's log and from NVML. The log comes first because it contains more details."""
        return [event for event in map(xids.parse_event, self._log.lines()) if event] + self._reader.events()

    # -- one inspection ----------------------------------------------------------------------------------------

    def _inspect(self) -> None:
        self._starts.look(self._written.read().loaded)
        self._renew()
        self._read_label()
        reading = self._read()
        waits = reading["error"] == verdict.SLOW
        if (waits or reading["error"] in verdict.NOT_LOADED) and self._uptime() < GRACE_S:
            return
        self._gpus = reading["gpus"] or self._gpus
        self._record_errors()
        if waits:
            if self._is_faulty():
                return  # keep the last verdict until NVML answers
            reading = {**reading, "gpus": self._gpus}
        else:
            self._write_activity(reading)
            self._compare(reading)
        written = self._written.read()
        reading = self._with_last_uuids(reading, written.expected)
        assessed = verdict.assess_health(reading, written.expected, self._events.read())
        self._answered |= verdict.answering_uuids(reading)
        if assessed.reason == verdict.LOST and assessed.card not in self._answered and self._uptime() < GRACE_S:
            return
        self._settled = pace.settle(self._settled, assessed, certain=reading["error"] == verdict.HANG and reading.get("slow", False))
        if self._settled.verdict:
            label = pace.wanted_label(self._settled.verdict, self._wanted or self._shown, written.drift, self._clock.time())
            self._wanted = label = verdict.with_card_place(label, self._card_records)._replace(model=self._model(written.expected))
            self._report(label)
            self._publish({"label": format_label(label), "blocked": self._blocked, "waits": self._waits, "reasons": _reasons(reading)})

    def _with_last_uuids(self, reading: dict[str, Any], expected: Sequence[str]) -> dict[str, Any]:
        """Return the reading with the last known UUIDs of cards that do not answer. Record where the other cards are, in case they fail later."""
        if not reading["gpus"]:
            return reading
        cards = [gpu["card"] for gpu in reading["gpus"]]
        self._card_records = self._cards.updated_with(cards, expected)
        self._cards.write(self._card_records)
        pairs = zip(reading["gpus"], match_records(cards, self._card_records))
        return {**reading, "gpus": [{**gpu, "last_uuid": card and card["uuid"]} for gpu, card in pairs]}

    def _model(self, expected: Sequence[str]) -> str | None:
        """Return the model to report. A card that cannot be read now keeps its model."""
        if not self._settings.get("model"):
            return None
        model = self._shown.model if self._shown else None
        is_whole = set(expected) <= verdict.answering_uuids({"gpus": self._gpus})
        return model if model and not is_whole else verdict.common_model(self._gpus, expected)

    def _write_activity(self, reading: Mapping[str, Any]) -> None:
        """Read and write what the cards are doing. While the cards cannot be read, the files list no cards."""
        activity = (self._reader.activity() if reading["error"] is None else None) or []
        self._allocation_check.note(activity)
        for failure in self._card_readings.write(activity):
            say(failure)

    def _compare(self, reading: Mapping[str, Any]) -> None:
        failure = self._allocation_check.compare(reading["error"] is None, self._written.read())
        if failure:
            say(failure)

    def _record_errors(self) -> None:
        errors, self._errors = self._errors + self._new_errors(), []
        for error in self._events.add(errors, self._gpus, self._settings):
            say("the driver reports XID %d of %s%s" % (error.xid, error.pci, ": " + error.text if error.text else ""))
        before, self._unrecorded = self._unrecorded, self._events.failure
        if self._unrecorded and self._unrecorded != before:
            say("errors of cards are lost when this service ends, because they cannot be written: %s" % self._unrecorded)

    def _is_faulty(self) -> bool:
        return self._settled.verdict is not None and self._settled.verdict.state == FAULT

    def _read(self) -> dict[str, Any]:
        mismatch = driver.find_mismatch(self._settings["nvml_path"])
        if mismatch:
            return {"error": verdict.MISMATCH, "text": mismatch, "gpus": []}
        reading = self._reader.read(patient=self._uptime() < GRACE_S)
        return reading if reading["error"] else {**reading, **self._problem_beyond_nvml(reading)}

    def _problem_beyond_nvml(self, reading: Mapping[str, Any]) -> dict[str, Any]:
        """Return the problem that keeps tasks from the GPUs although NVML answers. If a card is lost or has failed, the readings say more than the
        toolkit."""
        device, expected = uvm.read_uvm(self._root), self._written.expected
        problem = uvm.uvm_problem(device)
        if problem:
            return {"error": verdict.UVM, "text": problem}
        failed = any(gpu["state"] == "failed" for gpu in reading["gpus"]) or set(expected) - verdict.answering_uuids(reading)
        problem = self._toolkit.problem(expected) if device.needed and not failed else None
        return {"error": verdict.TOOLKIT, "text": problem} if problem else {}

    def _renew(self) -> None:
        """Start a new child after a change of the driver, and regularly during a fault: new clients may see that the fault is over."""
        now, signature = self._clock.monotonic(), driver.read_signature(self._settings["nvml_path"])
        is_due = self._is_faulty() and now - self._renewed > RENEW_S and not self._reader.waits()
        if signature != self._driver or is_due:
            self._reader.end()
            self._driver, self._renewed = signature, now

    def _uptime(self) -> float:
        with open(os.path.join(self._root, "proc/uptime"), encoding="ascii") as stream:
            return float(stream.read().split()[0])

    def _read_label(self) -> None:
        """Read the label that was reported last. A run may have written it."""
        path = self._settings["daemon_config"]
        now = stamp(path)
        if now != self._file:
            self._file, self._shown = now, _in_file(path)

    # -- reports --------------------------------------------------------------------------------------

    def _report(self, label: Label) -> None:
        now = self._clock.monotonic()
        if label == self._shown:
            self._blocked = self._waits = None
        if now - self._tried < self._patience(label):
            return
        if not pace.is_due(self._shown, label, None if self._written_at is None else now - self._written_at):
            return
        self._tried = now
        _alive()
        before, result = self._waits, self._write(format_label(label))
        self._blocked, self._waits = result.get("blocked"), result.get("waits")
        if self._blocked or self._waits:
            if self._blocked or self._waits != before:
                say("the managers do not see %r yet: %s" % (format_label(label), self._blocked or self._waits))
            return
        say("the managers see %r" % format_label(label))
        self._shown, self._written_at = label, now

    def _patience(self, label: Label) -> int:
        if self._blocked:
            return FAULT_RETRY_S if label.state == FAULT else RETRY_S
        return WAIT_S if self._waits and not pace.is_urgent(self._shown, label) else 0

    def _write(self, label: str) -> dict[str, Any]:
        try:
            command = [sys.executable, "-I", sys.argv[0], "label", label]
            # This code is a service of the node and has no AnsibleModule.
            completed = subprocess.run(  # pylint: disable=ansible-bad-function
                command, capture_output=True, timeout=REPORT_LIMIT_S, check=True
            )
            return json.loads(completed.stdout.decode("utf-8"))
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            return {"blocked": "%s %s" % (problem, (getattr(problem, "stderr", None) or b"").decode("utf-8", "replace")[-300:])}

    def _publish(self, status: Mapping[str, Any]) -> None:
        """Write the status for the next run on this node, if it has changed."""
        document = {"pid": os.getpid(), "blocked": None, "waits": None, "report": self._settings["health_report"], **status}
        document["tried"] = self._toolkit.last_trial
        if document == self._status:
            return
        before, self._unpublished = self._unpublished, publish(os.path.join(self._root, STATUS), document)
        if not self._unpublished:
            self._status = document
        elif self._unpublished != before:
            say("the status of this service cannot be written, but it still watches the GPUs: %s" % self._unpublished)


def lock_node(home: str) -> int:
    """Lock the node, so that only one watcher runs. The lock ends with this process. A second watcher would think that the first watcher's child
    hangs, and its report would pause the node."""
    lock = os.open(os.path.join(home, "watch.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SystemExit("another watcher of the GPUs already runs on this node: see 'systemctl status gpu-swarm-health'") from None
    return lock


def _reasons(reading: Mapping[str, Any]) -> list[str]:
    texts = [reading["text"]] if reading["text"] else []
    bad = [gpu for gpu in reading["gpus"] if gpu["state"] in ("failed", "warning")]
    names = [gpu["uuid"] or gpu.get("last_uuid") or gpu["pci"] or "GPU %s" % gpu["card"]["index"] for gpu in bad]
    return texts + ["%s: %s" % (name, reason) for name, gpu in zip(names, bad) for reason in gpu["reasons"]]


def _in_file(path: str) -> Label | None:
    """Return the label in daemon.json, which was reported last."""
    try:
        with open(path, encoding="utf-8-sig") as stream:
            entries = json.load(stream)["labels"]
        values = [entry.partition("=")[2] for entry in entries if entry.startswith(KEY + "=")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return parse_label(values[-1]) if values else None


def _alive() -> None:
    notify("WATCHDOG=1")
