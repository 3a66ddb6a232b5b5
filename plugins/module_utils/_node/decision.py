# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides what to do on one node (pure): from an observation and the options to a decision.

Private to this collection: no stability is promised to others.
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
from .case import Case
from .journal import INSERTED
from .observation import Observation
from .restore import Edit
from .running import Running
from .watcher_state import NOTED, concerns, is_wanted

if TYPE_CHECKING:
    from .guard_decision import GuardWanted


class Decision(NamedTuple):
    """What to do on a node, and why."""

    advertisement: dict[str, Any]  # from advertise.decide, with the labels
    writes: dict[str, bytes | None]  # by path, in the order to write them: new bytes, or None to remove the file
    inserted: dict[str, dict[str, Any]]  # by path, what this collection inserts, for the record
    released: list[str]  # the paths that will contain no change of this collection
    act: str | None  # what the daemon needs: restart | reload
    restart: bool  # whether it must restart
    changed: bool  # whether it changes anything on the node
    drift: list[str]  # each difference between the node and the decision, in words
    running: Running | None  # what the daemon must show afterwards; None if it is left alone
    diff: list[dict[str, str]]  # of each written file, in Ansible's form
    warnings: list[str]  # what the user should know; nothing of it prevents the change
    refused: list[dict[str, str]]  # {id, text} of each reason why this must not be done
    adopted: list[str]  # sentences about settings of the user that are taken over; also among the warnings
    runtime_stays: bool  # whether Docker keeps the user's own runtime nvidia after this collection is removed
    reread: bool  # whether systemd may reload the units
    reread_on_undo: bool  # whether it may reload them when the change is undone
    guard: GuardWanted | None = None  # the guard to install
    guard_drift: Sequence[str] = ()  # how the installed guard differs from it


def decide(params: Mapping[str, Any], seen: Observation) -> Decision:
    """Return the decision for a node. Raises GpuSwarmError if only the user can fix a problem."""
    case = _case(params, seen)
    return _decision(case, file_edits.edits_of(case))


def _case(params: Mapping[str, Any], seen: Observation) -> Case:
    rules, extra = _without_nulls(params["advertise"]), params.get("extra_resources") or []
    if params["state"] != "present":
        rules, extra = [], []
    present = bool(rules or extra)
    taken = dockerd_flags.take(seen.units)
    coming = file_edits.coming(seen, params["daemon_config"], taken)
    found = _present(params, seen, coming) if present else {}
    advertisement = advertise.decide(seen.gpus, rules, extra, found, seen.system_memory_mib)
    advertisement.update(left_out=cards.with_identity(advertisement["left_out"], seen.gpus, seen.cards), cards=seen.cards)
    guard_need.check_slots(params, advertisement, seen)
    advertisement["labels"] = _labels(params, seen, advertisement)
    findings = checks.check(_facts(params, seen, advertisement), params.get("accept_risks") or []) if present else []
    return Case(params, seen, taken, coming, advertisement, findings)


def _decision(case: Case, edits: Mapping[str, Edit]) -> Decision:
    params, seen, advertisement = case.params, case.seen, case.advertisement
    guard = _guard(case, edits)
    edits, running, act = _daemon_wanted(case, guard.edits, guard.program)
    writes = _writes(seen, edits)
    now = {item.path: item for item in seen.files}
    services = [*seen.devices.drift, *seen.watcher.drift]
    adopted = [note for edit in edits.values() for note in edit.notes]
    shrunk = _shrunk(case) if params["state"] == "present" else []
    drift = node_drift.drift(case, edits, writes, act, guard.drift) + services + [item["text"] for item in shrunk]
    acting = params["restart"] == "if_needed" and act is not None
    return Decision(
        advertisement=advertisement,
        writes=writes,
        inserted={path: edit.inserted for path, edit in edits.items()},
        released=list(edits) if params["state"] == "absent" else [one.path for one in seen.left],
        act=act,
        restart=act == "restart",
        changed=bool(writes) or acting or seen.unfinished or bool(services) or bool(guard.own_drift),
        drift=drift,
        running=running,
        diff=[node_drift.diff(now[path], writes[path]) for path in writes],
        warnings=adopted
        + node_drift.left_out(advertisement)
        + advertisement["warnings"]
        + checks.warnings(case.findings)
        + _watcher_warnings(case, act)
        + list(guard.warnings),
        refused=shrunk + checks.refused(case.findings),
        adopted=adopted,
        runtime_stays=params["state"] == "absent" and _runtime_stays(case, edits),
        reread=not _not_in_force(seen, edits),
        reread_on_undo=all(edits[path].inserted.get("in_force", True) for path in edits),
        guard=guard.wanted,
        guard_drift=guard.own_drift,
    )


class _Guard(NamedTuple):
    """The part of a decision about the guard: the edits with it, and what else follows."""

    edits: Mapping[str, Edit]
    wanted: GuardWanted | None = None
    program: str | None = None  # of the daemon's runtime nvidia
    own_drift: Sequence[str] = ()  # of the guard's files
    drift: Sequence[str] = ()  # of the guard's files and of the daemon
    warnings: Sequence[str] = ()


def _guard(case: Case, edits: Mapping[str, Edit]) -> _Guard:
    if not guard_need.concerns(case.params, case.seen, case.advertisement):
        return _Guard(edits)
    from . import guard_decision

    with_guard, wanted = guard_decision.add_guard(case, edits)
    program, own = guard_decision.runtime_wanted(case, with_guard), guard_decision.drift(case, wanted)
    return _Guard(with_guard, wanted, program, own, own + guard_decision.running_drift(case, program), guard_decision.warnings(case, wanted))


def _daemon_wanted(case: Case, edits: Mapping[str, Edit], program: str | None) -> tuple[dict[str, Edit], Running | None, str | None]:
    """Return the edits with the health label, what the daemon then shows, and what it needs for that."""
    seen, path = case.seen, case.params["daemon_config"]
    if not edits or not seen.engine:
        return dict(edits), None, None
    running = running_daemon.running_wanted(_daemon_json_then(case, edits), _flags_then(seen, edits))
    starts_otherwise = _starts_otherwise(seen, edits, _writes(seen, edits))
    act = "restart" if starts_otherwise else running_daemon.action_for(running, seen.engine, case.params["state"])
    if guard_need.concerns(case.params, seen, case.advertisement):
        from . import guard_decision

        running, act = running._replace(program=program), guard_decision.act_for(case, edits, program, act)
    if not concerns(case.params, seen.record):
        return dict(edits), running, act
    from .label_decision import add_label

    with_label, act = add_label(case, edits, act)
    if is_wanted(case.params) and path in with_label:
        running = running._replace(label=with_label[path].inserted.get(NOTED))
    return with_label, running, act


def _watcher_warnings(case: Case, act: str | None) -> list[str]:
    if not is_wanted(case.params):
        return []
    from .label_decision import warnings

    return warnings(case, act)


def _writes(seen: Observation, edits: Mapping[str, Edit]) -> dict[str, bytes | None]:
    now = {item.path: item.data for item in seen.files}
    return {path: edit.content for path, edit in edits.items() if edit.content != now[path]}


def _daemon_json_then(case: Case, edits: Mapping[str, Edit]) -> dict[str, Any]:
    """Return what dockerd reads after the change: the file that the options name, or else the daemon.json on record."""
    known = [path for path in edits if restore.is_daemon(case.seen.record.get(path))]
    path = case.params["daemon_config"]
    if path not in edits and known:
        path = known[-1]
    return daemon_json.parse(edits[path].content if path in edits else case.seen.daemon.data, path)


def _runtime_stays(case: Case, edits: Mapping[str, Edit]) -> bool:
    runtimes = _daemon_json_then(case, edits).get(daemon_json.RUNTIMES, {})
    return daemon_json.RUNTIME in runtimes or dockerd_flags.adds_runtime(_flags_then(case.seen, edits))


def _flags_then(seen: Observation, edits: Mapping[str, Edit]) -> Sequence[str]:
    """Return the words with which systemd starts dockerd after the change."""
    contents = {one.path: edits[one.path].content for one in seen.own if one.path in edits}
    return dockerd_flags.started_with(seen.units, {**contents, **dict.fromkeys(_not_in_force(seen, edits))})[1:]


def _not_in_force(seen: Observation, edits: Mapping[str, Edit]) -> list[str]:
    """Return the restored files with which dockerd was never started. It may not start with them, so their author has to put them
    in force."""
    restored = [path for path in (one.path for one in seen.own) if path in edits and edits[path].content is not None]
    return [path for path in restored if not edits[path].inserted.get("in_force", True)]


def _starts_otherwise(seen: Observation, edits: Mapping[str, Edit], writes: Mapping[str, bytes | None]) -> bool:
    """Return whether dockerd must restart because its units have changed since it was started."""
    own = {one.path for one in seen.own}
    units, recorded = own & set(writes) - set(_not_in_force(seen, edits)), own & set(seen.record)
    old_flags = seen.engine["running"] and any(dockerd_flags.is_managed(flag) for flag in dockerd_flags.flags_of(seen.engine["flags"]))
    return bool(units or old_flags or (recorded and seen.engine["needs_reload"]))


# -- parts of the decision -------------------------------------------------------------------------------------------


def _present(params: Mapping[str, Any], seen: Observation, coming: Sequence[str]) -> dict[str, Any]:
    """Return the node's resources now, from its files and its daemon. Unreadable resources are reported elsewhere."""
    listed = daemon_json.parse(seen.daemon.data, params["daemon_config"]).get(daemon_json.RESOURCES)
    found = {}
    for entries in (listed if isinstance(listed, list) else [], coming):
        try:
            found.update(generic_resources.parse(entries))
        except (AttributeError, generic_resources.ResourceError):
            continue
    found.update(generic_resources.from_info(seen.engine["generic_resources"] if seen.engine else None))
    return found


def _facts(params: Mapping[str, Any], seen: Observation, advertisement: Mapping[str, Any]) -> checks.Facts:
    decided = generic_resources.parse(advertisement["resources"])
    enforced = params.get("isolation") in (RESERVED, EXCLUSIVE)
    by_card = enforced and guard_need.is_wanted(params, advertisement)  # reserved memory is tied to its card
    return checks.Facts(
        engine=seen.engine.get("version") if seen.engine else None,
        toolkit=seen.toolkit_version,
        gpu_kinds=advertisement["gpu_kinds"],
        discrete_kinds=[kind for kind, value in decided.items() if isinstance(value, int)],
        memory_kinds=[] if by_card else [kind for kind in advertisement["memory_kinds"] if kind in decided],
        gpus=bool(advertisement["advertised"]),
        values=_chosen(params, seen),
        file=params["runtime_config"],
        integrated=runtime_config.is_integrated([gpu.get("name") or "" for gpu in seen.gpus]),
        tried=seen.tried or "",
    )


def _chosen(params: Mapping[str, Any], seen: Observation) -> dict[str, Any]:
    """Return the values of config.toml, with the runtime's mode as the user chose it."""
    found, mode = runtime_toml.values(seen.runtime.data), file_edits.chosen_mode(params, seen)
    return {**found, runtime_config.MODE: mode} if mode is not None else {key: value for key, value in found.items() if key != runtime_config.MODE}


def _shrunk(case: Case) -> list[dict[str, str]]:
    """Return [{id, text}] if the node would advertise less than before and the user did not consent."""
    params, seen, advertisement = case.params, case.seen, case.advertisement
    entries = [seen.record.get(params["daemon_config"])] + [seen.record.get(one.path) for one in seen.left]
    record: Mapping[str, Any] = next((entry[INSERTED] for entry in entries if restore.is_daemon(entry)), {})
    running = seen.engine["generic_resources"] if seen.engine else None
    earlier = shrink.advertised_before(running, record, advertisement["owned_kinds"])
    text = shrink.shrink_refusal(advertisement, earlier, params.get("expect"), params.get("allow_shrink"), params.get("on_loss") == SHRINK)
    return [{"id": shrink.ID, "text": text}] if text else []


def _labels(params: Mapping[str, Any], seen: Observation, advertisement: Mapping[str, Any]) -> dict[str, str]:
    given = {one["index"] for one in advertisement["advertised"]}
    gpus = [gpu for gpu in seen.gpus if gpu["index"] in given]
    failed = any(one["index"] not in given for one in advertisement["left_out"])
    return node_labels(gpus, seen.driver_version, seen.cuda_version, failed, options_of(params))


def _without_nulls(value: Any) -> Any:
    """Return the rules without unset options, which Ansible passes as nulls."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item) for item in value]
    return value
