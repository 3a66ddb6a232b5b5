# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is to be done on one node (pure): what was seen and the options in, a decision out.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import namedtuple

from . import _adoption, _advertise, _daemon_json, _gates, _resources, _restore, _runtime_toml, _shrink
from ._errors import GpuSwarmError
from ._files import Snapshot
from ._labels import node_labels, options_of
from ._restore import Edit

# dockerd's own default, where daemon.json names none.
PLAIN_RUNTIME = "runc"
# The mode of the NVIDIA runtime that takes swarm-resource from every toolkit.
_LEGACY = "legacy"

Decision = namedtuple(
    "Decision",
    # writes: {path: new bytes, or None to remove the file}; ours: {path: what we put in, for the record};
    # released: paths that hold nothing of ours any more; act: restart | reload | None; running: what the daemon
    # must show afterwards; refused: [{id, text}], why this must not be carried out; adopted: what of somebody's settings
    # is taken over, in sentences, which are among the warnings too; runtime_stays: whether Docker keeps a runtime nvidia of
    # somebody's where ours is taken out; reread: whether systemd may read the units anew, and
    # reread_back: whether it may where all is put back.
    "advertisement writes ours released act restart changed drift running diff warnings refused adopted runtime_stays reread reread_back",
)

Running = namedtuple("Running", "resources default_runtime")


def decide(params, seen):
    """The decision for a node; raises GpuSwarmError for what only the user can mend."""
    rules, extra = _without_nulls(params["advertise"]), params.get("extra_resources") or []
    if params["state"] != "present":
        rules, extra = [], []
    present = bool(rules or extra)
    taken = _adoption.take(seen.units)
    coming = _coming(seen, params["daemon_config"], taken)
    found = _present(params, seen, coming) if present else {}
    advertisement = _advertise.decide(seen.gpus, rules, extra, found, seen.system_memory_mib)
    advertisement["labels"] = _labels(params, seen, advertisement)
    findings = _gates.check(_facts(seen, advertisement), params.get("accept_risks") or []) if present else []
    if params["state"] == "absent":
        edits = {one.path: _restore.restored(one, seen.record[one.path]) for one in seen.files if one.path in seen.record}
    elif params["state"] == "present" and (advertisement["owned_kinds"] or seen.record):
        edits = dict(_put_in(params, seen, advertisement, findings, taken, _checked(coming, taken)), **_restore.left_behind(seen))
    else:
        edits = {}
    return _decision(params, seen, advertisement, edits, findings)


def _decision(params, seen, advertisement, edits, findings):
    now = {item.path: item for item in seen.files}
    # In the order of the edits: at no moment does an option stand both as a flag and in daemon.json.
    snapshots = [now[path] for path in edits]
    writes = {item.path: edits[item.path].content for item in snapshots if edits[item.path].content != item.data}
    running, act = None, None
    if edits and seen.engine:
        path = _configured_by(params, seen, edits)
        daemon = edits[path].content if path in edits else seen.daemon.data
        running = running_wanted(_daemon_json.parse(daemon, path), _flags_then(seen, edits))
        act = "restart" if _starts_otherwise(seen, edits, writes) else action_for(running, seen.engine, params["state"])
    adopted = [note for edit in edits.values() for note in edit.notes]
    shrunk = _shrunk(params, seen, advertisement) if params["state"] == "present" else []
    drift = _drift(params, seen, advertisement, edits, writes, act) + [item["text"] for item in shrunk]
    acting = params["restart"] == "if_needed" and act is not None
    return Decision(
        advertisement=advertisement,
        writes=writes,
        ours={path: edit.ours for path, edit in edits.items()},
        released=list(edits) if params["state"] == "absent" else [one.path for one in seen.left],
        act=act,
        restart=act == "restart",
        changed=bool(writes) or acting or seen.unfinished,
        drift=drift,
        running=running,
        diff=[_diff(item, writes[item.path]) for item in snapshots if item.path in writes],
        warnings=adopted
        + _left_out(advertisement)
        + advertisement["warnings"]
        + _gates.told(findings),
        refused=shrunk + _gates.refused(findings),
        adopted=adopted,
        runtime_stays=params["state"] == "absent" and _runtime_stays(params, seen, edits),
        reread=not _not_in_force(seen, edits),
        reread_back=all(edits[path].ours.get("in_force", True) for path in edits),
    )


def _configured_by(params, seen, edits):
    """The daemon.json that dockerd reads: that of the options, else the one that made it what it is."""
    known = [path for path in edits if _restore.is_daemon(seen.record.get(path))]
    path = params["daemon_config"]
    return path if path in edits or not known else known[-1]


def _runtime_stays(params, seen, edits):
    path = _configured_by(params, seen, edits)
    doc = _daemon_json.parse(edits[path].content if path in edits else seen.daemon.data, path)
    return _daemon_json.RUNTIME in doc.get(_daemon_json.RUNTIMES, {}) or _adoption.adds_runtime(_flags_then(seen, edits))


def _not_in_force(seen, edits):
    """The files that are given back, and with which dockerd had never been started. At best it does not need them, at worst
    it does not start with them: that is for whoever wrote them."""
    back = [path for path in (one.path for one in seen.own) if path in edits and edits[path].content is not None]
    return [path for path in back if not edits[path].ours.get("in_force", True)]


def _starts_otherwise(seen, edits, writes):
    """Whether dockerd must be proven to start: as it is told to by its unit now, which it was not when it was started."""
    own = {one.path for one in seen.own}
    units, ours_once = own & set(writes) - set(_not_in_force(seen, edits)), own & set(seen.record)
    old_flags = seen.engine["running"] and any(_adoption.is_ours(flag) for flag in _adoption.flags_of(seen.engine["flags"]))
    return bool(units or old_flags or (ours_once and seen.engine["needs_reload"]))


# -- what is thought of it -------------------------------------------------------------------------------------------


def _present(params, seen, coming):
    """What the node has now, in its files and in its daemon; what cannot be read as resources is told by others."""
    listed = _daemon_json.parse(seen.daemon.data, params["daemon_config"]).get(_daemon_json.RESOURCES)
    found = {}
    for entries in (listed if isinstance(listed, list) else [], coming):
        try:
            found.update(_resources.parse(entries))
        except (AttributeError, _resources.ResourceError):
            continue
    found.update(_resources.from_info(seen.engine["generic_resources"] if seen.engine else None))
    return found


def _facts(seen, advertisement):
    decided = _resources.parse(advertisement["resources"])
    return _gates.Facts(
        engine=seen.engine and seen.engine.get("version"),
        toolkit=seen.toolkit_version,
        gpu_kinds=advertisement["gpu_kinds"],
        discrete_kinds=[kind for kind, value in decided.items() if isinstance(value, int)],
        memory_kinds=[kind for kind in advertisement["memory_kinds"] if kind in decided],
    )


def _shrunk(params, seen, advertisement):
    """[{id, text}] where this would be less than before and nobody consented."""
    entries = [seen.record.get(params["daemon_config"])] + [seen.record.get(one.path) for one in seen.left]
    record = next((entry["ours"] for entry in entries if _restore.is_daemon(entry)), {})
    running = seen.engine["generic_resources"] if seen.engine else None
    earlier = _shrink.before(running, record, advertisement["owned_kinds"])
    text = _shrink.shrink(advertisement, earlier, params.get("expect"), params.get("allow_shrink"))
    return [{"id": _shrink.ID, "text": text}] if text else []


def _labels(params, seen, advertisement):
    given = {one["index"] for one in advertisement["handed_out"]}
    gpus = [gpu for gpu in seen.gpus if gpu["index"] in given]
    failed = any(one["index"] not in given for one in advertisement["left_out"])
    return node_labels(gpus, seen.driver_version, seen.cuda_version, failed, options_of(params))


# -- the files -------------------------------------------------------------------------------------------------------

def _put_in(params, seen, advertisement, findings, taken, coming):
    """(path, edit) of all files, with ours put in and what dockerd was given as flags moved."""
    path = params["daemon_config"]
    problems = _problems(_daemon_json.parse(seen.daemon.data, path), path, seen, taken)
    if problems:
        raise GpuSwarmError(" ".join(problems))
    for unit, content in taken.files.items():
        before = seen.record.get(unit, {}).get("ours", {})
        words = before.get("taken", []) + taken.words.get(unit, [])
        yield unit, Edit(content, [], {"taken": words, "in_force": before.get("in_force", _runs_with(seen, words))})
    earlier = seen.record.get(path, {}).get("ours", {})
    ours = {"resources": advertisement["resources"], "kinds": advertisement["owned_kinds"]}
    moved = list(dict.fromkeys([*earlier.get("moved", []), *coming]))
    if moved:
        ours["moved"] = moved
    if advertisement["memory_kinds"]:
        # An amount of memory does not tell whose it is.
        ours["gpus"] = [one["uuid"] for one in advertisement["handed_out"] if one["uuid"]]
    # What was moved before and is gone now, somebody took out.
    want = _daemon_json.Want(ours["resources"], ours["kinds"], earlier.get("resources", ()), moved=coming)
    daemon = _daemon_json.edit(seen.daemon.data, path, want)
    yield path, Edit(daemon.content, [*taken.notes, *daemon.notes], ours)
    if seen.runtime.existed:
        line, mode = advertisement["swarm_resource"], _mode(params, seen, findings)
        runtime = _runtime_toml.edit(seen.runtime.data, params["runtime_config"], _runtime_toml.Want(line, mode))
        named = {"swarm_resource": line, "mode": mode} if mode else {"swarm_resource": line}
        yield params["runtime_config"], Edit(runtime.content, runtime.notes, named)
    elif seen.toolkit_version:
        raise GpuSwarmError(
            "%s: it does not exist, though the NVIDIA Container Toolkit %s is installed. Make it with "
            "'nvidia-ctk config --in-place', or install the package nvidia-container-toolkit-base again."
            % (params["runtime_config"], seen.toolkit_version)
        )


def _runs_with(seen, taken):
    """Whether the running daemon was started with these words: a recipe can end with 'start' of a daemon that runs already."""
    running = [flag.text for flag in _adoption.flags_of(seen.engine["flags"])] if seen.engine["running"] else []
    return bool(running) and all(word in running for part in taken for word in part["words"])


def _coming(seen, path, taken):
    """The resources that move from flags into daemon.json now. Those of a run that was killed before it wrote that file stand
    nowhere but in the record."""
    entry = seen.record.get(path)
    written = entry and Snapshot.from_json(entry["original"]).sha256 != seen.daemon.sha256
    kept = [] if written else [part for one in seen.own for part in seen.record.get(one.path, {}).get("ours", {}).get("taken", [])]
    return list(dict.fromkeys([*_adoption.resources_in(kept), *taken.resources]))


def _checked(coming, taken):
    """The same; raises GpuSwarmError for one that is no resource."""
    try:
        _resources.parse(coming)
    except _resources.ResourceError as error:
        raise GpuSwarmError(
            "%s: dockerd is given a resource that is none by --node-generic-resource: %s Correct it there, then run again."
            % (", ".join(taken.words), error)
        ) from error
    return coming


def _mode(params, seen, findings):
    """The runtime's mode where a toolkit needs one, its former one where our mode is needed no more, else None."""
    if any(finding.id == _gates.LEGACY_MODE for finding in findings):
        return _LEGACY
    entry = seen.record.get(params["runtime_config"])
    if entry is None or entry["ours"].get("mode") != _LEGACY or _runtime_toml.get(seen.runtime.data)["mode"] != _LEGACY:
        return None
    return _runtime_toml.get(Snapshot.from_json(entry["original"]).data)["mode"] or _runtime_toml.DEFAULT_MODE


def _problems(doc, path, seen, taken):
    """What keeps the daemon from starting with the file, by the flags that it runs with and those of its next start."""
    told = _daemon_json.problems(doc, path)
    if seen.engine:
        flags = taken.command[1:] if taken.command else seen.engine["unit_flags"]
        told += [text for text in _of_flags(doc, path, flags) if text not in told]
        running = [text for text in _of_flags(doc, path, _of_next_start(seen.engine["flags"], taken)) if text not in told]
        if running:
            told += [*running, "The daemon runs with that; where it was taken out already, restart the daemon."]
    return told


def _of_next_start(flags, taken):
    """Without those of our options that dockerd runs with and its unit does not say any more: they end with the process. A
    script around dockerd may well add them again."""
    if not _adoption.is_dockerd(taken.command):
        return flags
    return [word for flag in _adoption.flags_of(flags) if not _adoption.is_ours(flag) for word in flag.said]


def _of_flags(doc, path, flags):
    return _daemon_json.problems(doc, path, flags) + _other_config(path, flags)


def _other_config(path, flags):
    """dockerd told by a flag to read another file than the one that we are to edit."""
    for here, word in enumerate(flags):
        name, equals, value = word.partition("=")
        if name == "--config-file":
            read = value if equals else (flags[here + 1:] or [""])[0]
            if read and read != path:
                return ["dockerd reads %s, not %s: set daemon_config (role: gpu_node_daemon_config) to that file." % (read, path)]
    return []


# -- the daemon ------------------------------------------------------------------------------------------------------


def running_wanted(doc, flags=()):
    """What a daemon shows that was started with this daemon.json, and with flags that were put back."""
    given = _daemon_json.conflicting_flags(flags)
    listed = [flag.value for flag in given if flag.key == _daemon_json.RESOURCES]
    runtimes = [flag.value for flag in given if flag.key == _daemon_json.DEFAULT_RUNTIME]
    resources = _resources.parse([*(doc.get(_daemon_json.RESOURCES) or []), *listed])
    runtime = doc.get(_daemon_json.DEFAULT_RUNTIME) or (runtimes or [PLAIN_RUNTIME])[-1]
    return Running(sorted(_resources.entries(resources)), runtime)


def _flags_then(seen, edits):
    """The words with which systemd starts dockerd after the change."""
    contents = {one.path: edits[one.path].content for one in seen.own if one.path in edits}
    return _adoption.started_with(seen.units, {**contents, **dict.fromkeys(_not_in_force(seen, edits))})[1:]


def running_now(engine):
    """The same of the daemon that runs."""
    resources = _resources.from_info(engine["generic_resources"])
    return Running(sorted(_resources.entries(resources)), engine["default_runtime"])


def action_for(wanted, engine, state):
    """restart | reload | None: the least that makes the daemon show what is wanted.

    node-generic-resources is read once at start; default-runtime is taken by SIGHUP, but only where the file sets it
    (moby daemon/reload.go), so that its removal needs a restart.
    """
    now = running_now(engine) if engine["running"] else None
    if now is None or now.resources != wanted.resources:
        return "restart"
    if now.default_runtime != wanted.default_runtime:
        return "restart" if state == "absent" else "reload"
    return None


def daemon_complaint(decision, engine):
    """What the running daemon does not show of the decision, in words; None when all is well."""
    now = running_now(engine)
    if now.resources != decision.running.resources:
        return "it shows %s where %s was decided" % (_short(now.resources), _short(decision.running.resources))
    if now.default_runtime != decision.running.default_runtime:
        return "its default runtime is %s" % now.default_runtime
    return None


def _short(resources):
    return ", ".join(resources) or "no generic resources"


# -- words -----------------------------------------------------------------------------------------------------------


def _drift(params, seen, advertisement, edits, writes, act):
    """Each difference in words; [] exactly when there is nothing to do."""
    told = []
    running = seen.engine and seen.engine["running"]
    if params["state"] == "absent":
        told = ["%s still holds what was put there" % path for path in writes]
    elif edits:
        left = [one.path for one in seen.left if one.path in writes]
        after = _daemon_json.parse(edits[params["daemon_config"]].content, params["daemon_config"])
        told = _advertise.drift(advertisement, _shown(params, seen), after.get(_daemon_json.RESOURCES) or [])
        line = _runtime_toml.get(seen.runtime.data)["swarm_resource"] if seen.runtime.existed else None
        told += _advertise.swarm_resource_drift(advertisement, line)
        told += ["%s still holds what was put there, and is named by no option any more" % path for path in left]
        if running and act == "reload":
            told.append("the default runtime is %s, not nvidia" % seen.engine["default_runtime"])
    if seen.engine and not running and edits:
        told.append("dockerd is not running")
    if act and not told:
        told.append("dockerd was started before its files were changed")
    if writes and not told:
        told = ["%s differs from what was decided" % path for path in writes]
    if seen.unfinished and not told:
        told.append("a run that was killed has left its notes")
    return told


def _shown(params, seen):
    """What the node advertises now: what the running daemon says, or what one would that was started with the file."""
    if seen.engine and seen.engine["running"]:
        return seen.engine["generic_resources"]
    doc = _daemon_json.parse(seen.daemon.data, params["daemon_config"])
    return _resources.to_info(_resources.parse(doc.get(_daemon_json.RESOURCES) or []))


def _left_out(advertisement):
    return [
        "GPU %s (%s, %s) is not advertised: %s" % (item["index"], item["name"], item["uuid"], item["reason"])
        for item in advertisement["left_out"]
    ]


def _diff(snapshot, after):
    return {
        "before": _text(snapshot.data),
        "after": _text(after),
        "before_header": snapshot.path,
        "after_header": snapshot.path,
    }


def _text(data):
    return "" if data is None else data.decode("utf-8", "replace")


def _without_nulls(value):
    """The rules without the options that were left unset, which Ansible hands over as nulls."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item) for item in value]
    return value
