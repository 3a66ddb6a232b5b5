# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides what to do on one node, from the observed state and the options (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from .._compat import checks, runtime_config
from .._config import daemon_json, runtime_toml
from .._dockerd import flags as dockerd_flags
from .._gpu import cards
from .._health.label import SHRINK
from .._isolation_levels import EXCLUSIVE, RESERVED
from .._policy import advertise, generic_resources, shrink
from .._policy.labels import node_labels, options_of
from . import drift as node_drift
from . import edits as file_edits
from . import guard_need, restore
from . import running as running_daemon
from .decision_inputs import DecisionInputs
from .journal import INSERTED
from .observation import Observation
from .restore import Edit
from .running import Running
from .watcher_state import LABEL_KEY, is_wanted, is_wanted_or_recorded

if TYPE_CHECKING:
    from .guard_decision import GuardWanted


class Decision(NamedTuple):
    """What a run does on a node, and why."""

    advertisement: dict[str, Any]  # the result of advertise.decide, with the labels
    writes: dict[str, bytes | None]  # {path: new bytes, or None to remove the file}, in the order to write them
    inserted: dict[str, dict[str, Any]]  # {path: the settings that this collection inserts}, for the record
    released: list[str]  # the files that will contain no change of this collection
    action: str | None  # restart or reload, if the daemon needs it
    restart: bool  # whether the daemon must restart
    changed: bool  # whether the decision changes anything on the node
    drift: list[str]  # a sentence for each difference between the node and the decision
    running: Running | None  # the settings that the daemon must show afterwards; None if the daemon is not changed
    diff: list[dict[str, str]]  # the diff of each written file, in Ansible's form
    warnings: list[str]  # warnings for the user; they do not prevent the change
    refused: list[dict[str, str]]  # {id, text} for each reason that forbids the change
    adopted: list[str]  # sentences about the user's settings that this collection takes over; these are warnings too
    runtime_stays: bool  # whether Docker keeps the user's own runtime nvidia after this collection is removed
    reload_units: bool  # whether systemd may reload the units
    reload_units_on_undo: bool  # whether systemd may reload the units when the change is undone
    guard: GuardWanted | None = None  # the guard to install
    guard_drift: Sequence[str] = ()  # how the installed guard differs from the wanted one


def decide(params: Mapping[str, Any], observed: Observation) -> Decision:
    """Return the decision for a node. Raises GpuSwarmError if only the user can fix a problem."""
    inputs = _inputs(params, observed)
    return _decision(inputs, file_edits.edits_of(inputs))


def _inputs(params: Mapping[str, Any], observed: Observation) -> DecisionInputs:
    rules, extra = _without_nulls(params["advertise"]), params.get("extra_resources") or []
    if params["state"] != "present":
        rules, extra = [], []
    present = bool(rules or extra)
    removed_flags = dockerd_flags.remove_managed(observed.units)
    from_flags = file_edits.resources_from_flags(observed, params["daemon_config"], removed_flags)
    current = _current_resources(params, observed, from_flags) if present else {}
    advertisement = advertise.decide(observed.gpus, rules, extra, current, observed.system_memory_mib)
    advertisement.update(left_out=cards.with_identity(advertisement["left_out"], observed.gpus, observed.cards), cards=observed.cards)
    guard_need.check_slots(params, advertisement, observed)
    advertisement["labels"] = _labels(params, observed, advertisement)
    findings = checks.check(_facts(params, observed, advertisement), params.get("accept_risks") or []) if present else []
    return DecisionInputs(params, observed, removed_flags, from_flags, advertisement, findings)


def _decision(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> Decision:
    params, observed, advertisement = inputs.params, inputs.observed, inputs.advertisement
    guard = _decide_guard(inputs, edits)
    edits, running, action = _decide_daemon(inputs, guard.edits, guard.program)
    writes = _changed_contents(observed, edits)
    snapshots = {item.path: item for item in observed.files}
    services = [*observed.devices.drift, *observed.watcher.drift]
    adopted = [note for edit in edits.values() for note in edit.notes]
    shrunk = _shrink_refusals(inputs) if params["state"] == "present" else []
    drift = node_drift.drift(inputs, edits, writes, action, guard.drift) + services + [item["text"] for item in shrunk]
    acting = params["restart"] == "if_needed" and action is not None
    return Decision(
        advertisement=advertisement,
        writes=writes,
        inserted={path: edit.inserted for path, edit in edits.items()},
        released=list(edits) if params["state"] == "absent" else [file.path for file in observed.former_files],
        action=action,
        restart=action == "restart",
        changed=bool(writes) or acting or observed.unfinished or bool(services) or bool(guard.own_drift),
        drift=drift,
        running=running,
        diff=[node_drift.diff(snapshots[path], writes[path]) for path in writes],
        warnings=adopted
        + node_drift.excluded_gpus(advertisement)
        + advertisement["warnings"]
        + checks.warnings(inputs.findings)
        + _watcher_warnings(inputs, action)
        + list(guard.warnings),
        refused=shrunk + checks.refused(inputs.findings),
        adopted=adopted,
        runtime_stays=params["state"] == "absent" and _runtime_stays(inputs, edits),
        reload_units=not _never_loaded(observed, edits),
        reload_units_on_undo=all(edits[path].inserted.get("in_force", True) for path in edits),
        guard=guard.wanted,
        guard_drift=guard.own_drift,
    )


class _Guard(NamedTuple):
    """The decision about the guard, and all edits with the guard added."""

    edits: Mapping[str, Edit]
    wanted: GuardWanted | None = None
    program: str | None = None  # the program of the daemon's runtime nvidia
    own_drift: Sequence[str] = ()  # how the guard's files differ
    drift: Sequence[str] = ()  # how the guard's files and the daemon differ
    warnings: Sequence[str] = ()


def _decide_guard(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> _Guard:
    if not guard_need.is_wanted_or_present(inputs.params, inputs.observed, inputs.advertisement):
        return _Guard(edits)
    from . import guard_decision

    with_guard, wanted = guard_decision.add_guard(inputs, edits)
    program, own_drift = guard_decision.wanted_program(inputs, with_guard), guard_decision.files_drift(inputs, wanted)
    drift, warnings = own_drift + guard_decision.running_drift(inputs, program), guard_decision.guard_warnings(inputs, wanted)
    return _Guard(with_guard, wanted, program, own_drift, drift, warnings)


def _decide_daemon(inputs: DecisionInputs, edits: Mapping[str, Edit], program: str | None) -> tuple[dict[str, Edit], Running | None, str | None]:
    """Return the edits with the health label, the settings that the daemon should show afterwards, and the restart or reload that it needs."""
    observed, path = inputs.observed, inputs.params["daemon_config"]
    if not edits or not observed.engine:
        return dict(edits), None, None
    running = running_daemon.running_wanted(_daemon_json_after(inputs, edits), _flags_after(observed, edits))
    start_changed = _is_start_changed(observed, edits, _changed_contents(observed, edits))
    action = "restart" if start_changed else running_daemon.action_for(running, observed.engine, inputs.params["state"])
    if guard_need.is_wanted_or_present(inputs.params, observed, inputs.advertisement):
        from . import guard_decision

        running, action = running._replace(program=program), guard_decision.action_for_program(inputs, edits, program, action)
    action = action or ("reload" if node_drift.shm_size_drift(inputs, edits) else None)
    if not is_wanted_or_recorded(inputs.params, observed.record):
        return dict(edits), running, action
    from .label_decision import add_label

    with_label, action = add_label(inputs, edits, action)
    if is_wanted(inputs.params) and path in with_label:
        running = running._replace(label=with_label[path].inserted.get(LABEL_KEY))
    return with_label, running, action


def _watcher_warnings(inputs: DecisionInputs, action: str | None) -> list[str]:
    if not is_wanted(inputs.params):
        return []
    from .label_decision import watcher_warnings

    return watcher_warnings(inputs, action)


def _changed_contents(observed: Observation, edits: Mapping[str, Edit]) -> dict[str, bytes | None]:
    contents = {file.path: file.data for file in observed.files}
    return {path: edit.content for path, edit in edits.items() if edit.content != contents[path]}


def _daemon_json_after(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> dict[str, Any]:
    """Return the daemon.json that dockerd reads after the change: the file that the options name, or else the file on record."""
    recorded = [path for path in edits if restore.is_daemon(inputs.observed.record.get(path))]
    path = inputs.params["daemon_config"]
    if path not in edits and recorded:
        path = recorded[-1]
    return daemon_json.parse(edits[path].content if path in edits else inputs.observed.daemon.data, path)


def _runtime_stays(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> bool:
    runtimes = _daemon_json_after(inputs, edits).get(daemon_json.RUNTIMES, {})
    return daemon_json.RUNTIME in runtimes or dockerd_flags.adds_runtime(_flags_after(inputs.observed, edits))


def _flags_after(observed: Observation, edits: Mapping[str, Edit]) -> Sequence[str]:
    """Return the command line with which systemd starts dockerd after the change."""
    contents = {unit.path: edits[unit.path].content for unit in observed.editable_units if unit.path in edits}
    return dockerd_flags.started_with(observed.units, {**contents, **dict.fromkeys(_never_loaded(observed, edits))})[1:]


def _never_loaded(observed: Observation, edits: Mapping[str, Edit]) -> list[str]:
    """Return the restored units that dockerd was never started with. dockerd might not start with these units, so the author of the units has to load
    them."""
    restored = [path for path in (unit.path for unit in observed.editable_units) if path in edits and edits[path].content is not None]
    return [path for path in restored if not edits[path].inserted.get("in_force", True)]


def _is_start_changed(observed: Observation, edits: Mapping[str, Edit], writes: Mapping[str, bytes | None]) -> bool:
    """Return whether dockerd must restart because its units have changed since dockerd was started."""
    unit_paths = {unit.path for unit in observed.editable_units}
    units, recorded = unit_paths & set(writes) - set(_never_loaded(observed, edits)), unit_paths & set(observed.record)
    old_flags = observed.engine["running"] and any(dockerd_flags.is_managed(flag) for flag in dockerd_flags.flags_of(observed.engine["flags"]))
    return bool(units or old_flags or (recorded and observed.engine["needs_reload"]))


# -- parts of the decision -------------------------------------------------------------------------------------------


def _current_resources(params: Mapping[str, Any], observed: Observation, from_flags: Sequence[str]) -> dict[str, Any]:
    """Return the node's present resources, from its files and its daemon. Other code reports invalid entries."""
    listed = daemon_json.parse(observed.daemon.data, params["daemon_config"]).get(daemon_json.RESOURCES)
    resources = {}
    for entries in (listed if isinstance(listed, list) else [], from_flags):
        try:
            resources.update(generic_resources.parse(entries))
        except (AttributeError, generic_resources.ResourceError):
            continue
    resources.update(generic_resources.from_info(observed.engine["generic_resources"] if observed.engine else None))
    return resources


def _facts(params: Mapping[str, Any], observed: Observation, advertisement: Mapping[str, Any]) -> checks.Facts:
    decided = generic_resources.parse(advertisement["resources"])
    enforced = params.get("isolation") in (RESERVED, EXCLUSIVE)
    by_card = enforced and guard_need.is_wanted(params, advertisement)  # only a guard makes a task use the memory of one particular card
    return checks.Facts(
        engine=observed.engine.get("version") if observed.engine else None,
        toolkit=observed.toolkit_version,
        gpu_kinds=advertisement["gpu_kinds"],
        discrete_kinds=[kind for kind, value in decided.items() if isinstance(value, int)],
        memory_kinds=[] if by_card else [kind for kind in advertisement["memory_kinds"] if kind in decided],
        gpus=bool(advertisement["advertised"]),
        values=_values_with_users_mode(params, observed),
        file=params["runtime_config"],
        integrated=runtime_config.is_integrated([gpu.get("name") or "" for gpu in observed.gpus]),
        toolkit_problem=observed.toolkit_problem or "",
    )


def _values_with_users_mode(params: Mapping[str, Any], observed: Observation) -> dict[str, Any]:
    """Return the values of config.toml, with the user's own mode."""
    values, mode = runtime_toml.values(observed.runtime.data), file_edits.chosen_mode(params, observed)
    return {**values, runtime_config.MODE: mode} if mode is not None else {key: value for key, value in values.items() if key != runtime_config.MODE}


def _shrink_refusals(inputs: DecisionInputs) -> list[dict[str, str]]:
    """Return [{id, text}] if the node would advertise less than before and the user did not consent."""
    params, observed, advertisement = inputs.params, inputs.observed, inputs.advertisement
    entries = [observed.record.get(params["daemon_config"])] + [observed.record.get(file.path) for file in observed.former_files]
    record: Mapping[str, Any] = next((entry[INSERTED] for entry in entries if restore.is_daemon(entry)), {})
    running = observed.engine["generic_resources"] if observed.engine else None
    earlier = shrink.advertised_before(running, record, advertisement["owned_kinds"])
    text = shrink.shrink_refusal(advertisement, earlier, params.get("expect"), params.get("allow_shrink"), params.get("on_loss") == SHRINK)
    return [{"id": shrink.ID, "text": text}] if text else []


def _labels(params: Mapping[str, Any], observed: Observation, advertisement: Mapping[str, Any]) -> dict[str, str]:
    advertised = {card["index"] for card in advertisement["advertised"]}
    gpus = [gpu for gpu in observed.gpus if gpu["index"] in advertised]
    failed = any(card["index"] not in advertised for card in advertisement["left_out"])
    return node_labels(gpus, observed.driver_version, observed.cuda_version, failed, options_of(params))


def _without_nulls(value: Any) -> Any:
    """Return the rules without unset options, which Ansible passes as nulls."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item) for item in value]
    return value
