# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides the health label in daemon.json when a run changes the node (pure).

The watcher decides what the label says and when to write it. A run only sets it together with a restart that is due anyway, and with a reload that
repairs drift.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from .._config import engine_labels
from .._files import Snapshot
from .._health.label import FAULT, KEY, OK, format_label, is_like_fault, parse_label
from .._health.verdict import advertised_uuids
from .case import Case
from .channel import shown
from .fault import model_of, of_node
from .journal import INSERTED
from .restore import Edit
from .watcher_state import NOTED, is_wanted


def add_label(case: Case, edits: Mapping[str, Edit], act: str | None) -> tuple[dict[str, Edit], str | None]:
    """Return the edits with the label added or removed, and what the daemon then needs. ``act`` is what it needs without the label."""
    path, engine = case.params["daemon_config"], case.seen.engine
    if path not in edits or case.params["state"] != "present":
        return dict(edits), act
    edit, entry = edits[path], case.seen.record.get(path) or {}
    was_put_in = NOTED in entry.get(INSERTED, {})
    if case.params["restart"] == "never":
        return {**edits, path: _noted(edit) if was_put_in else edit}, act
    if is_wanted(case.params) and _can_be_shown(case, edit, act):
        act = act or _for_what_is_repaired(case, edits)
        edit = _noted(edit)._replace(content=engine_labels.set_label(edit.content, path, KEY, _value(case, edit, act)))
        # If an earlier run was killed, dockerd may not show the label.
        return {**edits, path: edit}, act or (None if shown(engine) is not None or case.seen.watcher.blocked else "reload")
    if was_put_in:
        original = Snapshot.from_json(entry["original"]).data
        edit = edit._replace(content=engine_labels.undo_label(edit.content, path, KEY, original))
    return {**edits, path: edit}, act


def _for_what_is_repaired(case: Case, edits: Mapping[str, Edit]) -> str | None:
    """Return ``reload`` if this repairs drift that the label reports. The watcher would wait until no task runs here before it reports the repair."""
    written = {one.path: one.data for one in case.seen.files}
    repairs = any(edit.content != written.get(path) for path, edit in edits.items())
    waits = case.params.get("health_now") and _tasks(case)
    return "reload" if repairs and waits and _reported_drift(case) and not case.seen.watcher.blocked else None


def _reported_drift(case: Case) -> str | None:
    there = shown(case.seen.engine or {})
    return parse_label(there).drift if there else None


def _tasks(case: Case) -> bool:
    return any(one["service"] for one in case.seen.containers)


def _noted(edit: Edit) -> Edit:
    return edit._replace(inserted={**edit.inserted, NOTED: KEY})


def _value(case: Case, edit: Edit, act: str | None) -> str:
    there = engine_labels.read_label(edit.content, case.params["daemon_config"], KEY) or OK
    if act == "reload" and (case.params.get("health_now") or not _tasks(case)):
        return format_label(parse_label(there)._replace(drift=None))  # by then the files are repaired
    if act != "restart":
        return there
    uuids = advertised_uuids(edit.inserted)
    return format_label(parse_label(_after_restart(case, uuids, there))._replace(model=model_of(case.params, case.seen.gpus, uuids)))


def _after_restart(case: Case, uuids: Sequence[str], there: str) -> str:
    """Return the label after the restart. By then the files are repaired, so only the state of the present cards counts."""
    newest = format_label(parse_label(str((case.seen.watcher.status or {}).get("label") or there)).of_cards)
    found = of_node(case.seen.gpus, uuids, case.seen.watcher.errors, case.seen.cards)
    if found:
        return newest if is_like_fault(newest, found) else found
    return OK if parse_label(newest).state == FAULT else newest


def _can_be_shown(case: Case, edit: Edit, act: str | None) -> bool:
    """Return whether a run may write the label. Not if a flag keeps dockerd from loading later values. A first label needs a restart: a reload
    updates the node in the swarm, and the watcher decides when that is safe."""
    seen = case.seen
    if not seen.engine or engine_labels.blocking_flags(seen.engine["flags"] or seen.engine["unit_flags"]):
        return False
    there = engine_labels.read_label(edit.content, case.params["daemon_config"], KEY) is not None
    return there or act == "restart"


def warnings(case: Case, act: str | None) -> list[str]:
    """Return what the user should know about the watcher, in sentences."""
    return _standing(case) + _not_reported(case, act)


def _standing(case: Case) -> list[str]:
    """Return a sentence about the fault that the watcher reports. NVML may not show an error that the driver logged."""
    value = str((case.seen.watcher.status or {}).get("label") or "")
    if parse_label(value).state != FAULT:
        return []
    return [
        "the watcher of this node's GPUs reports '%s'. See docs/operate/health.md for what that means, and 'journalctl -u gpu-swarm-health'." % value
    ]


def _not_reported(case: Case, act: str | None) -> list[str]:
    """Return a sentence that says why the managers get no reports, or no new ones, about this node's GPUs."""
    if act == "restart" or not is_wanted(case.params) or not case.seen.watcher.blocked:
        return []
    return [
        "faults of GPUs cannot be reported to the swarm's managers: %s. Have dockerd take %s as it is in a maintenance window, or set health: "
        "false (role: gpu_node_health)." % (case.seen.watcher.blocked, case.params["daemon_config"])
    ]
