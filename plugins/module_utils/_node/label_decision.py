# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health label in daemon.json, as a change of the node puts it in or takes it out (pure).

What it says is the watcher's to write, and when. Only a restart that is due anyway takes along what it has to say, or a first ``ok``; a reload takes
out the drift that is repaired.
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
from .watcher_seen import NOTED, is_wanted


def labelled(case: Case, edits: Mapping[str, Edit], act: str | None) -> tuple[dict[str, Edit], str | None]:
    """The edits with the label in or out, and what the daemon then needs. ``act`` is what it needs without."""
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
        # Where a run was killed, dockerd may not show it.
        return {**edits, path: edit}, act or (None if shown(engine) is not None or case.seen.watcher.blocked else "reload")
    if was_put_in:
        original = Snapshot.from_json(entry["original"]).data
        edit = edit._replace(content=engine_labels.undo_label(edit.content, path, KEY, original))
    return {**edits, path: edit}, act


def _for_what_is_repaired(case: Case, edits: Mapping[str, Edit]) -> str | None:
    """``reload`` where this repairs files whose drift the label reports, and the watcher would wait until no task runs here to say that."""
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
        return format_label(parse_label(there)._replace(drift=None))  # the files are as they were written by then
    if act != "restart":
        return there
    uuids = advertised_uuids(edit.inserted)
    return format_label(parse_label(_after_restart(case, uuids, there))._replace(model=model_of(case.params, case.seen.gpus, uuids)))


def _after_restart(case: Case, uuids: Sequence[str], there: str) -> str:
    """The files are as they were written by then, and the cards those that are there now: what the watcher has of others is over."""
    newest = format_label(parse_label(str((case.seen.watcher.status or {}).get("label") or there)).of_cards)
    found = of_node(case.seen.gpus, uuids, case.seen.watcher.errors, case.seen.cards)
    if found:
        return newest if is_like_fault(newest, found) else found
    return OK if parse_label(newest).state == FAULT else newest


def _can_be_shown(case: Case, edit: Edit, act: str | None) -> bool:
    """Not where dockerd could never take another value: one that stays the same would be no report. And none is put there for a reload, which
    is an update of the node: that is for the watcher, at its time."""
    seen = case.seen
    if not seen.engine or engine_labels.blocking_flags(seen.engine["flags"] or seen.engine["unit_flags"]):
        return False
    there = engine_labels.read_label(edit.content, case.params["daemon_config"], KEY) is not None
    return there or act == "restart"


def warnings(case: Case, act: str | None) -> list[str]:
    """What whoever runs this is to know of the watcher, in sentences."""
    return _standing(case) + _not_reported(case, act)


def _standing(case: Case) -> list[str]:
    """The fault that the watcher has of this node, in a sentence: of an error that the driver logged NVML may show nothing."""
    value = str((case.seen.watcher.status or {}).get("label") or "")
    if parse_label(value).state != FAULT:
        return []
    return ["the watcher of this node's GPUs reports '%s'. See docs/HEALTH.md for what that means, and 'journalctl -u gpu-swarm-health'." % value]


def _not_reported(case: Case, act: str | None) -> list[str]:
    """Why the managers see nothing of this node's GPUs, or nothing new, in a sentence."""
    if act == "restart" or not is_wanted(case.params) or not case.seen.watcher.blocked:
        return []
    return [
        "faults of GPUs cannot be reported to the swarm's managers: %s. Have dockerd take %s as it is in a maintenance window, or set health: "
        "false (role: gpu_node_health)." % (case.seen.watcher.blocked, case.params["daemon_config"])
    ]
