# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides how a node's files change (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from .._compat import checks
from .._config import daemon_json, daemon_problems, runtime_toml, shm_size
from .._dockerd import flags as dockerd_flags
from .._errors import GpuSwarmError
from .._files import Snapshot
from .._policy import generic_resources
from . import restore
from .decision_inputs import DecisionInputs
from .guard_runtime import without_guard
from .journal import INSERTED
from .observation import Observation
from .restore import Edit

# The mode of NVIDIA's runtime in which every toolkit reads swarm-resource.
_LEGACY = "legacy"


def edits_of(inputs: DecisionInputs) -> dict[str, Edit]:
    """Return {path: edit} in the order of writing. With this order, an option is never both a flag and in daemon.json."""
    state, observed = inputs.params["state"], inputs.observed
    if state == "absent":
        recorded = [file for file in observed.files if file.path in observed.record]
        return {file.path: restore.restore_edit(file, observed.record[file.path]) for file in recorded}
    if state == "present" and (inputs.advertisement["owned_kinds"] or observed.record):
        return dict(_edits_with_settings(inputs), **restore.restore_former_files(observed))
    return {}


def _edits_with_settings(inputs: DecisionInputs) -> Iterator[tuple[str, Edit]]:
    """Yield (path, edit) of all files, with this collection's settings and with the options moved from dockerd's command line."""
    params, observed, removed_flags = inputs.params, inputs.observed, inputs.removed_flags
    _check_flags(inputs)
    path, size = params["daemon_config"], params.get("default_shm_size")
    doc = daemon_json.parse(observed.daemon.data, path)
    problems = _problems(inputs, {**doc, shm_size.KEY: size} if size else doc, path)
    if problems:
        raise GpuSwarmError(" ".join(problems))
    for unit, content in removed_flags.files.items():
        before = observed.record.get(unit, {}).get(INSERTED, {})
        words = before.get("taken", []) + removed_flags.words.get(unit, [])
        yield unit, Edit(content, [], {"taken": words, "in_force": before.get("in_force", _is_running_with(observed, words))})
    yield path, _edit_daemon_json(inputs, path)
    if observed.runtime.existed:
        yield params["runtime_config"], _edit_runtime_config(inputs)
    elif observed.toolkit_version:
        raise GpuSwarmError(
            "%s does not exist, though the NVIDIA Container Toolkit %s is installed. Create it with "
            "'nvidia-ctk config --in-place', or reinstall the package nvidia-container-toolkit-base."
            % (params["runtime_config"], observed.toolkit_version)
        )


def _edit_daemon_json(inputs: DecisionInputs, path: str) -> Edit:
    observed, advertisement = inputs.observed, inputs.advertisement
    earlier = observed.record.get(path, {}).get(INSERTED, {})
    inserted: dict[str, Any] = {"resources": advertisement["resources"], "kinds": advertisement["owned_kinds"]}
    moved = list(dict.fromkeys([*earlier.get("moved", []), *inputs.from_flags]))
    if moved:
        inserted["moved"] = moved
    if advertisement["memory_kinds"]:
        # An amount of memory does not name its GPUs.
        inserted["gpus"] = [gpu["uuid"] for gpu in advertisement["advertised"] if gpu["uuid"]]
    if advertisement["map"]:
        inserted["map"] = advertisement["map"]
    # If an option was moved before and is missing now, the user has removed it.
    want = daemon_json.Want(inserted["resources"], inserted["kinds"], earlier.get("resources", ()), moved=inputs.from_flags)
    daemon = daemon_json.edit(without_guard(observed.daemon.data, path, earlier), path, want)
    return _with_shm_size(inputs, path, Edit(daemon.content, [*inputs.removed_flags.notes, *daemon.notes], inserted))


def _with_shm_size(inputs: DecisionInputs, path: str, edit: Edit) -> Edit:
    """Return the edit with default-shm-size. Without this option, the key gets the user's value again."""
    size, recorded = inputs.params.get("default_shm_size"), inputs.observed.record.get(path, {}).get(INSERTED, {})
    shm_size.check_size(size)
    before, was_set = shm_size.read_size(edit.content, path), shm_size.ON_RECORD in recorded
    if size:
        content = shm_size.set_size(edit.content, path, size)
        if content == edit.content and not was_set:
            return edit  # the user's own value is the same
        is_users = before is not None and not shm_size.is_same(before, size) and not shm_size.is_recorded(before, recorded)
        notes = ["%s: %s was %s." % (path, shm_size.KEY, generic_resources.shorten(before))] if is_users else []
        inserted = {**edit.inserted, shm_size.ON_RECORD: [size], **shm_size.replaced_by(edit.content, path, recorded)}
        inserted.update({shm_size.NOT_LOADED: True} if inputs.params["restart"] == "never" else {})
        return edit._replace(content=content, notes=[*edit.notes, *notes], inserted=inserted)
    if not was_set:
        return edit
    content = shm_size.undo_size(edit.content, path, recorded)
    stays = content != edit.content and shm_size.read_size(content, path) is None
    notes = ["%s: %s is removed. dockerd uses %s until it restarts." % (path, shm_size.KEY, before)] if stays else []
    return edit._replace(content=content, notes=[*edit.notes, *notes])


def _edit_runtime_config(inputs: DecisionInputs) -> Edit:
    observed, line, mode = inputs.observed, inputs.advertisement["swarm_resource"], _mode_to_write(inputs)
    want = runtime_toml.Want(line, mode)
    inserted = {"swarm_resource": line, "mode": mode} if mode else {"swarm_resource": line}
    entry = observed.record.get(inputs.params["runtime_config"])
    is_unchanged = entry and entry["written"] == observed.runtime.sha256 and entry[INSERTED] == inserted
    if is_unchanged and runtime_toml.is_as_wanted(observed.runtime.data, want):
        return Edit(observed.runtime.data, [], inserted)  # this collection wrote the file and nobody has changed it, so no parser is needed
    runtime = runtime_toml.edit(observed.runtime.data, inputs.params["runtime_config"], want)
    return Edit(runtime.content, runtime.notes, inserted)


def _is_running_with(observed: Observation, removed_flags: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the running daemon was started with these arguments. Another tool may have changed the unit without a restart."""
    running = [flag.text for flag in dockerd_flags.flags_of(observed.engine["flags"])] if observed.engine["running"] else []
    return bool(running) and all(word in running for part in removed_flags for word in part["words"])


def resources_from_flags(observed: Observation, path: str, removed_flags: dockerd_flags.RemovedFlags) -> list[str]:
    """Return the resources that move from flags into daemon.json. If a run was killed before it wrote daemon.json, only the record contains them."""
    daemon_entry = observed.record.get(path)
    is_written = daemon_entry and Snapshot.from_json(daemon_entry["original"]).sha256 != observed.daemon.sha256
    inserted = [] if is_written else [observed.record.get(unit.path, {}).get(INSERTED, {}) for unit in observed.editable_units]
    recorded = [part for entry in inserted for part in entry.get("taken", [])]
    return list(dict.fromkeys([*dockerd_flags.resources_in(recorded), *removed_flags.resources]))


def _check_flags(inputs: DecisionInputs) -> None:
    """Raise GpuSwarmError if a flag has an invalid resource."""
    try:
        generic_resources.parse(inputs.from_flags)
    except generic_resources.ResourceError as error:
        raise GpuSwarmError(
            "%s: dockerd has an invalid resource, --node-generic-resource: %s Correct it there, and run this again."
            % (", ".join(inputs.removed_flags.words), error)
        ) from error


def _mode_to_write(inputs: DecisionInputs) -> str | None:
    """Return the mode that this toolkit needs. If this collection's mode is no longer needed, return the user's mode. Return None if the mode must
    not change."""
    if any(finding.id == checks.LEGACY_MODE for finding in inputs.findings):
        return _LEGACY
    if not _is_replaced(inputs.params, inputs.observed):
        return None
    return chosen_mode(inputs.params, inputs.observed) or runtime_toml.DEFAULT_MODE


def chosen_mode(params: Mapping[str, Any], observed: Observation) -> str | None:
    """Return the user's mode, even if this collection has replaced it. None if the user set no mode."""
    data = Snapshot.from_json(observed.record[params["runtime_config"]]["original"]).data if _is_replaced(params, observed) else observed.runtime.data
    return runtime_toml.read_lines(data)["mode"]


def _is_replaced(params: Mapping[str, Any], observed: Observation) -> bool:
    """Return whether the file still has the mode that this collection wrote into it."""
    entry = observed.record.get(params["runtime_config"])
    return bool(entry) and entry[INSERTED].get("mode") == _LEGACY and runtime_toml.read_lines(observed.runtime.data)["mode"] == _LEGACY


def _problems(inputs: DecisionInputs, doc: Mapping[str, Any], path: str) -> list[str]:
    """Return why the daemon would not start with the file, given its present flags and the flags of its next start."""
    observed, removed_flags = inputs.observed, inputs.removed_flags
    problems = daemon_problems.find_problems(doc, path) + ([observed.unit_problem] if observed.unit_problem else [])
    if observed.engine:
        flags = removed_flags.command[1:] if removed_flags.command else observed.engine["unit_flags"]
        problems += [text for text in _flag_problems(doc, path, flags) if text not in problems]
        running = [text for text in _flag_problems(doc, path, _flags_of_next_start(observed.engine["flags"], removed_flags)) if text not in problems]
        if running:
            problems += [*running, "The daemon was started with these flags. If you have removed them since, restart the daemon."]
    return problems


def _flags_of_next_start(flags: Sequence[str], removed_flags: dockerd_flags.RemovedFlags) -> Sequence[str]:
    """Return the flags of the next start: the present flags without this collection's options. If a script starts dockerd, return all present
    flags, because the script may add them again."""
    if not dockerd_flags.is_dockerd(removed_flags.command):
        return flags
    return [word for flag in dockerd_flags.flags_of(flags) if not dockerd_flags.is_managed(flag) for word in flag.arguments]


def _flag_problems(doc: Mapping[str, Any], path: str, flags: Sequence[str]) -> list[str]:
    return daemon_problems.find_problems(doc, path, flags) + _other_config(path, flags)


def _other_config(path: str, flags: Sequence[str]) -> list[str]:
    """Return an error if a flag makes dockerd read another file than ``path``."""
    for position, word in enumerate(flags):
        name, equals, value = word.partition("=")
        if name == "--config-file":
            config_file = value if equals else (flags[position + 1:] or [""])[0]
            if config_file and config_file != path:
                return ["dockerd reads %s, not %s: set daemon_config (role: gpu_node_daemon_config) to that file." % (config_file, path)]
    return []
