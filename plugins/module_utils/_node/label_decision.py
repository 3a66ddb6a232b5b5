# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides the health label in daemon.json when a run changes the node (pure).

The watcher decides the text of the label and the time to write it. A run sets the label only with a restart that is due anyway,
or with a reload that repairs drift.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from .._config import engine_labels
from .._files import Snapshot
from .._health.label import FAULT, KEY, OK, format_label, is_like_fault, parse_label
from .._health.verdict import advertised_uuids
from .channel import shown_label
from .decision_inputs import DecisionInputs
from .fault import fault_from_gpus, label_model
from .journal import INSERTED
from .restore import Edit
from .watcher_state import LABEL_KEY, is_wanted


def add_label(inputs: DecisionInputs, edits: Mapping[str, Edit], action: str | None) -> tuple[dict[str, Edit], str | None]:
    """Return the edits with the label added or removed, and the action that the daemon needs. ``action`` is the daemon's action without the label."""
    path, engine = inputs.params["daemon_config"], inputs.observed.engine
    if path not in edits or inputs.params["state"] != "present":
        return dict(edits), action
    edit, entry = edits[path], inputs.observed.record.get(path) or {}
    was_inserted = LABEL_KEY in entry.get(INSERTED, {})
    if inputs.params["restart"] == "never":
        return {**edits, path: _with_label_on_record(edit) if was_inserted else edit}, action
    if is_wanted(inputs.params) and _can_be_shown(inputs, edit, action):
        action = action or _reload_for_repair(inputs, edits)
        edit = _with_label_on_record(edit)._replace(content=engine_labels.set_label(edit.content, path, KEY, _label_value(inputs, edit, action)))
        # If an earlier run was killed, dockerd may not show the label yet, so reload dockerd.
        return {**edits, path: edit}, action or (None if shown_label(engine) is not None or inputs.observed.watcher.blocked else "reload")
    if was_inserted:
        original = Snapshot.from_json(entry["original"]).data
        edit = edit._replace(content=engine_labels.undo_label(edit.content, path, KEY, original))
    return {**edits, path: edit}, action


def _reload_for_repair(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> str | None:
    """Return ``reload`` if the run repairs drift that the label reports. The watcher itself would report the repair only when no task runs here."""
    contents = {file.path: file.data for file in inputs.observed.files}
    repairs = any(edit.content != contents.get(path) for path, edit in edits.items())
    watcher_waits = inputs.params.get("health_now") and _has_tasks(inputs)
    return "reload" if repairs and watcher_waits and _reported_drift(inputs) and not inputs.observed.watcher.blocked else None


def _reported_drift(inputs: DecisionInputs) -> str | None:
    label = shown_label(inputs.observed.engine or {})
    return parse_label(label).drift if label else None


def _has_tasks(inputs: DecisionInputs) -> bool:
    return any(container["service"] for container in inputs.observed.containers)


def _with_label_on_record(edit: Edit) -> Edit:
    return edit._replace(inserted={**edit.inserted, LABEL_KEY: KEY})


def _label_value(inputs: DecisionInputs, edit: Edit, action: str | None) -> str:
    label = engine_labels.read_label(edit.content, inputs.params["daemon_config"], KEY) or OK
    if action == "reload" and (inputs.params.get("health_now") or not _has_tasks(inputs)):
        return format_label(parse_label(label)._replace(drift=None))  # the run repairs the files first
    if action != "restart":
        return label
    uuids = advertised_uuids(edit.inserted)
    model = label_model(inputs.params, inputs.observed.gpus, uuids)
    return format_label(parse_label(_label_after_restart(inputs, uuids, label))._replace(model=model))


def _label_after_restart(inputs: DecisionInputs, uuids: Sequence[str], label: str) -> str:
    """Return the label after the restart. The run has repaired the files by then, so the label reports only the state of the cards."""
    newest = format_label(parse_label(str((inputs.observed.watcher.status or {}).get("label") or label)).of_cards)
    fault = fault_from_gpus(inputs.observed.gpus, uuids, inputs.observed.watcher.errors, inputs.observed.cards)
    if fault:
        return newest if is_like_fault(newest, fault) else fault
    return OK if parse_label(newest).state == FAULT else newest


def _can_be_shown(inputs: DecisionInputs, edit: Edit, action: str | None) -> bool:
    """Return whether this run may write the label.

    It may not if a flag of dockerd prevents later changes of the label. It may write the first label only with a restart of dockerd. A reload would
    update the node in the swarm, and only the watcher knows when such an update is safe.
    """
    observed = inputs.observed
    if not observed.engine or engine_labels.blocking_flags(observed.engine["flags"] or observed.engine["unit_flags"]):
        return False
    has_label = engine_labels.read_label(edit.content, inputs.params["daemon_config"], KEY) is not None
    return has_label or action == "restart"


def watcher_warnings(inputs: DecisionInputs, action: str | None) -> list[str]:
    """Return sentences about the watcher for the user."""
    return _fault_warnings(inputs) + _blocked_warnings(inputs, action)


def _fault_warnings(inputs: DecisionInputs) -> list[str]:
    """Return a sentence about the fault that the watcher reports, because NVML may not show an error that the driver logged."""
    value = str((inputs.observed.watcher.status or {}).get("label") or "")
    if parse_label(value).state != FAULT:
        return []
    text = "the watcher of this node's GPUs reports '%s'. docs/reference/watcher.md explains it; 'journalctl -u gpu-swarm-health' has more."
    return [text % value]


def _blocked_warnings(inputs: DecisionInputs, action: str | None) -> list[str]:
    """Return a sentence that says why the managers get no new reports about this node's GPUs."""
    if action == "restart" or not is_wanted(inputs.params) or not inputs.observed.watcher.blocked:
        return []
    return [
        "faults of GPUs cannot be reported to the swarm's managers: %s. Restart dockerd in a maintenance window, so that it loads %s, or set "
        "health: false (role: gpu_node_health)." % (inputs.observed.watcher.blocked, inputs.params["daemon_config"])
    ]
