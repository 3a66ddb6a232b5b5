# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides what the guard needs: its entry in daemon.json, its settings and its files (pure).

The guard replaces the program of the runtime nvidia. It is no runtime with a name of its own, because a container remembers its runtime's name.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from .._config import daemon_json, engine_labels, runtime_path
from .._dockerd.engine import ROOT_DIR
from .._errors import GpuSwarmError
from .._guard import admission as levels
from .._guard import bundle, front, reservation, toolkit_config
from .._guard.call import PASS_THROUGH
from .._policy import generic_resources
from .case import Case
from .guard_need import is_there, is_wanted
from .guard_runtime import BEFORE, former_on_record, names_guard, runs_program
from .restore import Edit

# Among the settings: the text of config.toml as the run read it. The guard parses the file only if somebody has edited it since, so a difference
# in this alone is no drift.
_CONFIG = "config"
NOT_INSTALLED = "the guard of the GPUs is not installed"


class GuardWanted(NamedTuple):
    """What to install on the node."""

    front: bytes
    settings: dict[str, Any]


def add_guard(case: Case, edits: Mapping[str, Edit]) -> tuple[dict[str, Edit], GuardWanted | None]:
    """Return the edits with the guard in daemon.json, and what to install. The edits unchanged and None if the node needs no guard."""
    path, seen = case.params["daemon_config"], case.seen
    stays = case.params["restart"] == "never" and case.params["state"] == "present" and is_there(case.params, seen)
    if path not in edits or not (is_wanted(case.params, case.advertisement) or stays):
        return dict(edits), None
    edit = edits[path]
    program = runtime_path.read_path(edit.content, path)
    if program is None:
        raise GpuSwarmError(
            "%s: runtimes.nvidia names no program (path), so that nothing can guard it. Give it one, such as nvidia-container-runtime, or set "
            "isolation: off (gpu_swarm_isolation), without rules for slots or groups." % path
        )
    content = runtime_path.set_path(edit.content, path, seen.guard.program)
    changed = {**edits, path: edit._replace(content=content, inserted={**edit.inserted, BEFORE: program})}
    return changed, None if stays else _wanted(case, edits, program)


def _wanted(case: Case, edits: Mapping[str, Edit], program: str) -> GuardWanted:
    params, advertisement = case.params, case.advertisement
    level = params["isolation"] or levels.OFF
    resources = generic_resources.parse(advertisement["resources"])
    named = {kind: list(resources[kind]) for kind in advertisement["gpu_kinds"] if not isinstance(resources.get(kind, 0), int)}
    settings = {
        "level": level,
        "allow": list(params.get("isolation_allow") or []),
        "devices": sorted({one for kind, values in named.items() for one in values if one not in advertisement["map"].get(kind, {})}),
        "kinds": sorted(named),
        "listed": list(_listed(case, edits)),
        "map": advertisement["map"],
        "card_mib": advertisement["card_mib"],
        "overhead_mib": params.get("cuda_overhead_mib") or 0,
        "data_root": _data_root(case),
        "runtime_config": params["runtime_config"],
        _CONFIG: _config(case, edits),
    }
    seen = case.seen.guard
    # A task that reserved memory requests a GPU too, but NVIDIA's runtime does not know that.
    requests = (*_listed(case, edits), *map(reservation.variable, sorted({*advertisement["map"], *named})))
    node = front.Front(program, seen.home, seen.code, seen.python, requests, refuses=level not in levels.LENIENT)
    return GuardWanted(front.text(node).encode("utf-8"), settings)


def _data_root(case: Case) -> str:
    engine, path = case.seen.engine, case.params["daemon_config"]
    return (engine or {}).get("root_dir") or daemon_json.parse(case.seen.daemon.data, path).get("data-root") or ROOT_DIR


def _listed(case: Case, edits: Mapping[str, Edit]) -> tuple[str, ...]:
    """Return the variables that config.toml names: those that this collection writes into it, and those that the guard reads in it."""
    written = bundle.words(case.advertisement["swarm_resource"]) if case.params["runtime_config"] in edits else []
    return tuple(dict.fromkeys([*written, *toolkit_config.listed(_config(case, edits))]))


def _config(case: Case, edits: Mapping[str, Edit]) -> str:
    """Return the text of config.toml after the change."""
    path = case.params["runtime_config"]
    content = edits[path].content if path in edits else case.seen.runtime.data
    return (content or b"").decode("utf-8", "replace")


# -- what differs ----------------------------------------------------------------------------------------------------


def drift(case: Case, wanted: GuardWanted | None) -> list[str]:
    """Return how the guard's own files differ from the wanted ones, in words."""
    seen, params = case.seen.guard, case.params
    if wanted is None:
        removable = params["state"] == "absent" or (params["state"] == "present" and params["restart"] == "if_needed")
        in_use = seen.link and (bool(case.seen.containers) or names_guard(case.seen.daemon.data) or runs_program(case.seen.engine, seen.program))
        return ["the guard of the GPUs is still installed"] if seen.there and removable and not in_use else []
    if not seen.there or seen.front is None or not seen.settings:
        return [NOT_INSTALLED]
    if seen.settings.get("level") != wanted.settings["level"]:
        return ["isolation is %s, not %s" % (seen.settings.get("level"), wanted.settings["level"])]
    same = all(seen.settings.get(name) == value for name, value in wanted.settings.items() if name != _CONFIG)
    same = same and seen.code_is_current and seen.front == wanted.front
    return [] if same else ["the guard of the GPUs is of another version, or has other settings"]


def runtime_wanted(case: Case, edits: Mapping[str, Edit]) -> str | None:
    """Return the program that dockerd should use for the runtime nvidia. None if no guard is involved."""
    path, seen = case.params["daemon_config"], case.seen
    former = former_on_record(seen.record.get(path))
    concerned = is_wanted(case.params, case.advertisement) or former is not None or runs_program(seen.engine, seen.guard.program)
    return runtime_path.read_path(edits[path].content, path) if concerned and path in edits else None


def act_for(case: Case, edits: Mapping[str, Edit], wanted: str | None, act: str | None) -> str | None:
    """Return what the daemon needs so that it uses this program. ``act`` is what it needs anyway."""
    engine, path = case.seen.engine, case.params["daemon_config"]
    if act or not engine or not engine["running"]:
        return act
    now = program_of(engine)
    if wanted is not None:
        return None if now == wanted else "restart" if engine_labels.blocking_flags(engine["flags"]) else "reload"
    # If a key is removed, dockerd keeps its value until it restarts.
    return "restart" if path in edits and now == case.seen.guard.program else None


def running_drift(case: Case, wanted: str | None) -> list[str]:
    engine = case.seen.engine
    if wanted is None or not engine or not engine["running"] or program_of(engine) == wanted:
        return []
    flags = engine_labels.blocking_flags(engine["flags"])
    why = ": dockerd is started with %s, which a reload would not keep, so that this takes a restart" % ", ".join(flags) if flags else ""
    return ["the runtime nvidia is %s, not %s%s" % (program_of(engine) or "missing", wanted, why)]


def program_of(engine: Mapping[str, Any]) -> str | None:
    """Return the program that the running daemon uses for its runtime nvidia."""
    return ((engine.get("runtimes") or {}).get(daemon_json.RUNTIME) or {}).get("path")


def warnings(case: Case, wanted: GuardWanted | None) -> list[str]:
    seen = case.seen.guard
    if wanted is None or not seen.turned_off:
        return []
    return ["the guard of the GPUs is turned off on this node by a file; to turn it on again: rm %s/%s" % (seen.home, PASS_THROUGH)]
