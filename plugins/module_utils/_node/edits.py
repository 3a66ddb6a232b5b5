# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides how a node's files change (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from .._compat import checks
from .._config import daemon_json, daemon_problems, runtime_toml
from .._dockerd import flags as dockerd_flags
from .._errors import GpuSwarmError
from .._files import Snapshot
from .._policy import generic_resources
from . import restore
from .case import Case
from .guard_runtime import without_guard
from .journal import INSERTED
from .observation import Observation
from .restore import Edit

# The mode of NVIDIA's runtime in which every toolkit reads swarm-resource.
_LEGACY = "legacy"


def edits_of(case: Case) -> dict[str, Edit]:
    """Return {path: edit} in the order to write them, so that an option is never both a flag and in daemon.json."""
    state, seen = case.params["state"], case.seen
    if state == "absent":
        return {one.path: restore.restored(one, seen.record[one.path]) for one in seen.files if one.path in seen.record}
    if state == "present" and (case.advertisement["owned_kinds"] or seen.record):
        return dict(_put_in(case), **restore.left_behind(seen))
    return {}


def _put_in(case: Case) -> Iterator[tuple[str, Edit]]:
    """Yield (path, edit) of all files, with this collection's settings and with options moved from dockerd's command line."""
    params, seen, taken = case.params, case.seen, case.taken
    _check_coming(case)
    path = params["daemon_config"]
    problems = _problems(case, daemon_json.parse(seen.daemon.data, path), path)
    if problems:
        raise GpuSwarmError(" ".join(problems))
    for unit, content in taken.files.items():
        before = seen.record.get(unit, {}).get(INSERTED, {})
        words = before.get("taken", []) + taken.words.get(unit, [])
        yield unit, Edit(content, [], {"taken": words, "in_force": before.get("in_force", _runs_with(seen, words))})
    yield path, _in_daemon_json(case, path)
    if seen.runtime.existed:
        yield params["runtime_config"], _in_runtime_config(case)
    elif seen.toolkit_version:
        raise GpuSwarmError(
            "%s: it does not exist, though the NVIDIA Container Toolkit %s is installed. Make it with "
            "'nvidia-ctk config --in-place', or install the package nvidia-container-toolkit-base again."
            % (params["runtime_config"], seen.toolkit_version)
        )


def _in_daemon_json(case: Case, path: str) -> Edit:
    seen, advertisement = case.seen, case.advertisement
    earlier = seen.record.get(path, {}).get(INSERTED, {})
    inserted: dict[str, Any] = {"resources": advertisement["resources"], "kinds": advertisement["owned_kinds"]}
    moved = list(dict.fromkeys([*earlier.get("moved", []), *case.coming]))
    if moved:
        inserted["moved"] = moved
    if advertisement["memory_kinds"]:
        # An amount of memory does not show which GPUs it belongs to.
        inserted["gpus"] = [one["uuid"] for one in advertisement["advertised"] if one["uuid"]]
    if advertisement["map"]:
        inserted["map"] = advertisement["map"]
    # Options that were moved before and are gone now were removed by the user.
    want = daemon_json.Want(inserted["resources"], inserted["kinds"], earlier.get("resources", ()), moved=case.coming)
    daemon = daemon_json.edit(without_guard(seen.daemon.data, path, earlier), path, want)
    return Edit(daemon.content, [*case.taken.notes, *daemon.notes], inserted)


def _in_runtime_config(case: Case) -> Edit:
    seen, line, mode = case.seen, case.advertisement["swarm_resource"], _mode(case)
    want = runtime_toml.Want(line, mode)
    named = {"swarm_resource": line, "mode": mode} if mode else {"swarm_resource": line}
    entry = seen.record.get(case.params["runtime_config"])
    if entry and entry["written"] == seen.runtime.sha256 and entry[INSERTED] == named and runtime_toml.is_as_wanted(seen.runtime.data, want):
        return Edit(seen.runtime.data, [], named)  # valid since this collection wrote it: no need to load a parser
    runtime = runtime_toml.edit(seen.runtime.data, case.params["runtime_config"], want)
    return Edit(runtime.content, runtime.notes, named)


def _runs_with(seen: Observation, taken: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the running daemon was started with these words. A recipe may have changed the unit without a restart."""
    running = [flag.text for flag in dockerd_flags.flags_of(seen.engine["flags"])] if seen.engine["running"] else []
    return bool(running) and all(word in running for part in taken for word in part["words"])


def coming(seen: Observation, path: str, taken: dockerd_flags.Taken) -> list[str]:
    """Return the resources that move from flags into daemon.json now. If a run was killed before it wrote that file, only the record
    has them."""
    entry = seen.record.get(path)
    written = entry and Snapshot.from_json(entry["original"]).sha256 != seen.daemon.sha256
    kept = [] if written else [part for one in seen.own for part in seen.record.get(one.path, {}).get(INSERTED, {}).get("taken", [])]
    return list(dict.fromkeys([*dockerd_flags.resources_in(kept), *taken.resources]))


def _check_coming(case: Case) -> None:
    """Raise GpuSwarmError if a flag has an invalid resource."""
    try:
        generic_resources.parse(case.coming)
    except generic_resources.ResourceError as error:
        raise GpuSwarmError(
            "%s: dockerd has an invalid resource in --node-generic-resource: %s Correct it there, and run this again."
            % (", ".join(case.taken.words), error)
        ) from error


def _mode(case: Case) -> str | None:
    """Return the mode to write: the one that this toolkit needs, or the former one once it is not needed any more. Otherwise None."""
    if any(finding.id == checks.LEGACY_MODE for finding in case.findings):
        return _LEGACY
    if not _is_replaced(case.params, case.seen):
        return None
    return chosen_mode(case.params, case.seen) or runtime_toml.DEFAULT_MODE


def chosen_mode(params: Mapping[str, Any], seen: Observation) -> str | None:
    """Return the mode that the user chose: the former one if this collection replaced it. None if the file has none."""
    data = Snapshot.from_json(seen.record[params["runtime_config"]]["original"]).data if _is_replaced(params, seen) else seen.runtime.data
    return runtime_toml.read_lines(data)["mode"]


def _is_replaced(params: Mapping[str, Any], seen: Observation) -> bool:
    """Return whether this collection replaced the mode in the file, and its own is still there."""
    entry = seen.record.get(params["runtime_config"])
    return bool(entry) and entry[INSERTED].get("mode") == _LEGACY and runtime_toml.read_lines(seen.runtime.data)["mode"] == _LEGACY


def _problems(case: Case, doc: Mapping[str, Any], path: str) -> list[str]:
    """Return why the daemon would not start with the file: with its present flags, and with those of its next start."""
    seen, taken = case.seen, case.taken
    found = daemon_problems.find_problems(doc, path) + ([seen.misread] if seen.misread else [])
    if seen.engine:
        flags = taken.command[1:] if taken.command else seen.engine["unit_flags"]
        found += [text for text in _of_flags(doc, path, flags) if text not in found]
        running = [text for text in _of_flags(doc, path, _of_next_start(seen.engine["flags"], taken)) if text not in found]
        if running:
            found += [*running, "The daemon runs with that; where it was taken out already, restart the daemon."]
    return found


def _of_next_start(flags: Sequence[str], taken: dockerd_flags.Taken) -> Sequence[str]:
    """Return the flags of the next start: without options that only the running process has. If a script starts dockerd, it may add them
    again, so all flags count."""
    if not dockerd_flags.is_dockerd(taken.command):
        return flags
    return [word for flag in dockerd_flags.flags_of(flags) if not dockerd_flags.is_managed(flag) for word in flag.arguments]


def _of_flags(doc: Mapping[str, Any], path: str, flags: Sequence[str]) -> list[str]:
    return daemon_problems.find_problems(doc, path, flags) + _other_config(path, flags)


def _other_config(path: str, flags: Sequence[str]) -> list[str]:
    """Return an error if a flag lets dockerd read another file than the one to be edited."""
    for here, word in enumerate(flags):
        name, equals, value = word.partition("=")
        if name == "--config-file":
            read = value if equals else (flags[here + 1:] or [""])[0]
            if read and read != path:
                return ["dockerd reads %s, not %s: set daemon_config (role: gpu_node_daemon_config) to that file." % (read, path)]
    return []
