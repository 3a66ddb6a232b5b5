# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Applies a decision to one node, either completely or not at all.

A run may be killed at any point. It works in this order: refuse → validate → journal → files → daemon → record → remove the journal. If a journal
exists, the next run reads the state before the change from the journal.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Iterable, Mapping, Protocol, Sequence

from .. import _files
from .._dockerd import containers as container_list
from .._dockerd.engine import Engine, Healthy
from .._errors import GpuSwarmError
from .._files import Move
from . import loaded
from .decision import Decision
from .journal import Record, State, entry_after_write
from .observation import Observation
from .running import find_mismatch


class Target(Protocol):
    """The parts of a node that this file uses."""

    params: Mapping[str, Any]
    engine: Engine
    state: State
    valid: bytes | None  # the daemon.json that dockerd has accepted in this call
    move: Move
    facts: dict[str, Any]


def apply(node: Target, observed: Observation, decision: Decision) -> dict[str, Any]:
    """Carry out the decision, and return whether the daemon was restarted or reloaded. The caller holds the node's lock.

    If anything fails, restore the node and raise GpuSwarmError.
    """
    action = decision.action if node.params["restart"] == "if_needed" else None
    refuse(node, observed, decision, action)
    node.state.remove_unfinished_files()
    for current in observed.files:
        _files.remove_leftovers(current.path)
    validate(node, decision)
    path, record = node.params["daemon_config"], _record_after(node, observed, decision)
    was_loaded = loaded.is_loaded(loaded.loaded_notes(observed.record.get(path), node.state.directory), observed.daemon, observed.engine)
    engine = (_change(node, observed, decision, action, record) if decision.writes or action else None) or observed.engine
    if path in record and (action or (was_loaded and path in decision.writes and node.params["restart"] == "if_needed")):
        record[path] = loaded.with_loaded_note(record[path], decision.writes.get(path, observed.daemon.data), engine)
    if record != node.state.record():
        node.state.write_record(record)
    node.state.close_journal()
    node.state.remove_useless_backups(record)
    backups = {path: entry["backup"] for path, entry in sorted(record.items()) if entry.get("backup")}
    return {"restarted": action == "restart", "reloaded": action == "reload", "backups": backups}


def refuse(node: Target, observed: Observation, decision: Decision, action: str | None) -> None:
    """Raise GpuSwarmError if the change must not begin."""
    if decision.refused:
        raise GpuSwarmError(" ".join(item["text"] for item in decision.refused), refused=decision.refused)
    if decision.writes and "toolkit" in observed.missing and node.params["state"] == "present":
        raise GpuSwarmError(
            "the NVIDIA Container Toolkit is not installed (no %s). Install it first, for instance with the role "
            "fleet.gpu_swarm.nvidia_container_toolkit." % node.params["runtime_config"],
            missing=observed.missing,
        )
    if node.params["restart"] == "if_needed" and observed.engine is None and decision.changed:
        raise GpuSwarmError(
            "Docker Engine is not installed: no %s, and nothing listens on %s. Install Docker Engine, or use "
            "'restart: never' to edit the files only." % (node.params["docker_unit"], node.params["docker_socket"]),
            missing=observed.missing,
        )
    if action == "restart" and observed.containers and node.params["when_busy"] == "refuse":
        raise GpuSwarmError(_busy(observed.containers, node.params["drain_timeout"]), busy=observed.containers)


def _busy(containers: Sequence[Mapping[str, Any]], drain_timeout_s: float) -> str:
    names = [item["service"] or item["name"] for item in containers]
    remedy = "Let them finish or drain the node"
    if drain_timeout_s and any(item["service"] for item in containers):
        remedy = container_list.not_drained(drain_timeout_s)
    problem = "the daemon must be restarted, which would stop %d running container(s): %s" % (len(names), ", ".join(names[:10]))
    return "%s. %s, then run this again; or allow it with 'when_busy: restart' (role: gpu_node_when_busy)." % (problem, remedy)


def validate(node: Target, decision: Decision) -> None:
    """Let dockerd validate the new daemon.json before it is written, if dockerd can. The same bytes are validated only once."""
    data = decision.writes.get(node.params["daemon_config"])
    if data is None or data == node.valid:
        return
    candidate = node.state.candidate
    _files.write(candidate, data, node.move, 0o600)
    try:
        refusal = node.engine.validate(candidate)
    finally:
        _files.remove(candidate)
    if refusal:
        raise GpuSwarmError(
            "%s: dockerd would not start with this file and this collection's settings: %s. Nothing was changed. "
            "Correct the file and run this again."
            % (node.params["daemon_config"], refusal.replace(candidate, node.params["daemon_config"]))
        )
    node.valid = data


def _change(node: Target, observed: Observation, decision: Decision, action: str | None, record: Record) -> dict[str, Any] | None:
    """Write the files, and restart or reload the daemon. Return the facts that the daemon shows afterwards; None if no action was needed."""
    # The journal contains only these files, because no other file changes.
    touched = [current for current in observed.files if current.path in decision.inserted or current.path in observed.record]
    before = [node.state.starting_point(current) for current in touched]
    try:
        node.state.open_journal(before, {current.path: _intended_change(current, decision, record) for current in touched})
        node.state.write_backups(record)
    except OSError as problem:
        raise GpuSwarmError(
            "%s: the journal of the change cannot be written: %s. Nothing was changed. Free some space and run this "
            "again." % (node.state.directory, problem)
        ) from problem
    touched_daemon = False
    try:
        for path, data in decision.writes.items():
            _write_or_remove(path, data, node.move, observed.record.get(path))
        if action == "restart":
            _refuse_new_containers(node, observed)
        if action:
            touched_daemon = True
            return _act_on_daemon(node, action, lambda view: find_mismatch(decision.running, view), decision.reload_units)
    except SystemExit:
        # atomic_move of ansible-core before 2.19 reports errors itself and exits.
        _undo(node, before, observed.engine if touched_daemon else None, action, decision.reload_units_on_undo)
        raise
    except Exception as problem:
        restored, outcome = _undo(node, before, observed.engine if touched_daemon else None, action, decision.reload_units_on_undo)
        details = dict(getattr(problem, "details", {}), restored=restored)
        raise GpuSwarmError("%s. %s" % (str(problem).strip().rstrip("."), outcome), **details) from problem
    return None


def _refuse_new_containers(node: Target, observed: Observation) -> None:
    """Raise GpuSwarmError if containers run that must not be stopped. Reading GPUs and writing files takes time, so someone may have started
    a container since the node was inspected."""
    if node.params["when_busy"] != "refuse" or not observed.engine["running"]:
        return
    node.facts["containers"] = containers = node.engine.containers()
    if containers:
        raise GpuSwarmError(_busy(containers, node.params["drain_timeout"]), busy=containers, came=containers)


def _write_or_remove(path: str, data: bytes | None, move: Move, entry: Mapping[str, Any] | None) -> None:
    """Write or remove a file. ``entry`` is the file's record. If the file was removed earlier and is now restored, it gets its former mode and
    owner."""
    if data is None:
        _files.remove(path)
    else:
        original = _files.Snapshot.from_json(entry["original"]) if entry else _files.Snapshot(path)
        _files.write(path, data, move, original.mode, original.owner)


def _act_on_daemon(node: Target, action: str, healthy: Healthy, reload_units: bool = True) -> dict[str, Any]:
    began, timeout_s = time.monotonic(), node.params["timeout"]
    if action == "restart":
        node.engine.restart(reload_units, timeout_s)
    else:
        node.engine.reload()
    return node.engine.wait(healthy, timeout_s, began)


def _undo(
    node: Target, before: Iterable[_files.Snapshot], engine: Mapping[str, Any] | None, action: str | None, reload_units: bool
) -> tuple[bool, str]:
    """Restore the files and the state of the daemon. Return whether everything was restored, and a sentence about the outcome."""
    try:
        for snapshot in before:
            _files.restore(snapshot, node.move)
    except Exception as problem:
        return False, "The files could not be restored: %s. Their contents are in %s. Fix the problem and run this again to restore them." % (
            problem,
            node.state.directory,
        )
    outcome = "The files were restored"
    if engine and engine["running"]:
        try:
            # Repeat the same action: after a failed reload, a restart would stop containers. systemd does not reload units
            # that dockerd was never started with, because dockerd might not start with them.
            _act_on_daemon(node, action, lambda view: None, reload_units and not engine["needs_reload"])
            outcome += " and %s runs with them again" % node.engine.unit
        except GpuSwarmError as problem:
            # The next run finds the journal. This message names both causes.
            return False, "%s, but %s does not run with them yet: %s. Check 'journalctl -u %s' and run this again." % (
                outcome, node.engine.unit, str(problem).rstrip("."), node.engine.unit,
            )  # fmt: skip
    node.state.close_journal()
    node.state.remove_useless_backups(node.state.record())
    return True, outcome + ". Fix the cause and run this again."


def _record_after(node: Target, observed: Observation, decision: Decision) -> Record:
    """Return the record after the change. For each file that this collection changed, it contains the original and the written content."""
    record = dict(observed.record)
    for current in observed.files:
        path = current.path
        if path in decision.released:
            record.pop(path, None)
        elif path in decision.writes:
            earlier, backup = observed.record.get(path), node.state.backup_path(path)
            record[path] = loaded.without_loaded_note(entry_after_write(current, decision.inserted[path], decision.writes[path], earlier, backup))
    return record


def _intended_change(current: _files.Snapshot, decision: Decision, record: Record) -> tuple[bytes | None, Mapping[str, Any] | None]:
    """Return a file's new content, and the file's record in case this run is killed right after writing the file.

    A restored file gets the record of a file that was written unchanged, because the daemon may not have been started with this file yet.
    """
    data = decision.writes.get(current.path, current.data)
    if current.path not in decision.released:
        return data, record.get(current.path)
    restored = _files.Snapshot(current.path, data, current.mode, current.uid, current.gid)
    return data, entry_after_write(restored, decision.inserted[current.path], data, None)
