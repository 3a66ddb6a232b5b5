# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides about the guard's entry in daemon.json, its settings and its files (pure).

The guard replaces the program of the runtime nvidia. The guard has no runtime name of its own, because a container keeps the name of its runtime.
Private to this collection; it may change without notice.
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
from .decision_inputs import DecisionInputs
from .guard_need import is_on_record, is_wanted
from .guard_runtime import FORMER_PROGRAM, former_on_record, names_guard, runs_program
from .guard_state import OFFERED
from .restore import Edit

# Key in the settings: the text of config.toml at the time of the run. If config.toml has changed since the run, the guard itself parses it. So a
# different text alone is no drift.
_CONFIG_TEXT = "config"
NOT_INSTALLED = "the guard of the GPUs is not installed"


class GuardWanted(NamedTuple):
    """The guard to install on the node."""

    front: bytes
    settings: dict[str, Any]


def add_guard(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> tuple[dict[str, Edit], GuardWanted | None]:
    """Return the edits with the guard in daemon.json, and the files to install. If the node needs no guard, return the same edits and None."""
    path, observed = inputs.params["daemon_config"], inputs.observed
    must_stay = inputs.params["restart"] == "never" and inputs.params["state"] == "present" and is_on_record(inputs.params, observed)
    if path not in edits or not (is_wanted(inputs.params, inputs.advertisement) or must_stay):
        return dict(edits), None
    edit = edits[path]
    program = runtime_path.read_path(edit.content, path)
    if program is None:
        raise GpuSwarmError(
            "%s: runtimes.nvidia has no path, so the guard cannot call NVIDIA's runtime. Set the path, such as nvidia-container-runtime, or set "
            "isolation: off (gpu_swarm_isolation) and remove rules for slots and groups, and gpu_swarm_devices." % path
        )
    content = runtime_path.set_path(edit.content, path, observed.guard.program)
    changed = {**edits, path: edit._replace(content=content, inserted={**edit.inserted, FORMER_PROGRAM: program})}
    return changed, None if must_stay else _guard_files(inputs, edits, program)


def _guard_files(inputs: DecisionInputs, edits: Mapping[str, Edit], program: str) -> GuardWanted:
    params, advertisement = inputs.params, inputs.advertisement
    level = params["isolation"] or levels.OFF
    resources = generic_resources.parse(advertisement["resources"])
    values_by_kind = {kind: list(resources[kind]) for kind in advertisement["gpu_kinds"] if not isinstance(resources.get(kind, 0), int)}
    settings = {
        "level": level,
        "allow": list(params.get("isolation_allow") or []),
        "devices": sorted({value for kind, values in values_by_kind.items() for value in values if value not in advertisement["map"].get(kind, {})}),
        "kinds": sorted(values_by_kind),
        "listed": list(_listed_variables(inputs, edits)),
        "map": advertisement["map"],
        "card_mib": advertisement["card_mib"],
        "overhead_mib": params.get("cuda_overhead_mib") or 0,
        OFFERED: params.get("devices") or {},
        "data_root": _data_root(inputs),
        "runtime_config": params["runtime_config"],
        _CONFIG_TEXT: _config_after(inputs, edits),
    }
    observed = inputs.observed.guard
    # A task that reserves memory or a slot also requests a GPU, but NVIDIA's runtime does not know these variables.
    requests = (*_listed_variables(inputs, edits), *map(reservation.variable, sorted({*advertisement["map"], *values_by_kind})))
    node = front.Front(program, observed.home, observed.code, observed.python, requests, refuses=level not in levels.LENIENT)
    return GuardWanted(front.text(node).encode("utf-8"), settings)


def _data_root(inputs: DecisionInputs) -> str:
    engine, path = inputs.observed.engine, inputs.params["daemon_config"]
    return (engine or {}).get("root_dir") or daemon_json.parse(inputs.observed.daemon.data, path).get("data-root") or ROOT_DIR


def _listed_variables(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> tuple[str, ...]:
    """Return the variables that config.toml names: the variables that this collection writes, and the variables that the file already contains."""
    written = bundle.split_words(inputs.advertisement["swarm_resource"]) if inputs.params["runtime_config"] in edits else []
    return tuple(dict.fromkeys([*written, *toolkit_config.listed_variables(_config_after(inputs, edits))]))


def _config_after(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> str:
    """Return the text of config.toml after the change."""
    path = inputs.params["runtime_config"]
    content = edits[path].content if path in edits else inputs.observed.runtime.data
    return (content or b"").decode("utf-8", "replace")


# -- differences ----------------------------------------------------------------------------------------------------


def files_drift(inputs: DecisionInputs, wanted: GuardWanted | None) -> list[str]:
    """Return sentences about the differences between the guard's own files and the wanted files."""
    guard, params = inputs.observed.guard, inputs.params
    if wanted is None:
        removable = params["state"] == "absent" or (params["state"] == "present" and params["restart"] == "if_needed")
        is_named = names_guard(inputs.observed.daemon.data) or runs_program(inputs.observed.engine, guard.program)
        in_use = guard.link and (bool(inputs.observed.containers) or is_named)
        return ["the guard of the GPUs is still installed"] if guard.exists and removable and not in_use else []
    if not guard.exists or guard.front is None or not guard.settings:
        return [NOT_INSTALLED]
    if guard.settings.get("level") != wanted.settings["level"]:
        return ["isolation is %s, not %s" % (guard.settings.get("level"), wanted.settings["level"])]
    is_same = all(guard.settings.get(name) == value for name, value in wanted.settings.items() if name != _CONFIG_TEXT)
    is_same = is_same and guard.code_is_current and guard.front == wanted.front
    return [] if is_same else ["the guard of the GPUs is of another version, or has other settings"]


def wanted_program(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> str | None:
    """Return the program that dockerd should use for the runtime nvidia. None if the node neither has nor gets a guard."""
    path, observed = inputs.params["daemon_config"], inputs.observed
    former = former_on_record(observed.record.get(path))
    concerned = is_wanted(inputs.params, inputs.advertisement) or former is not None or runs_program(observed.engine, observed.guard.program)
    return runtime_path.read_path(edits[path].content, path) if concerned and path in edits else None


def action_for_program(inputs: DecisionInputs, edits: Mapping[str, Edit], wanted: str | None, action: str | None) -> str | None:
    """Return the restart or reload that makes the daemon use this program. ``action`` is the restart or reload that the daemon needs anyway."""
    engine, path = inputs.observed.engine, inputs.params["daemon_config"]
    if action or not engine or not engine["running"]:
        return action
    program = running_program(engine)
    if wanted is not None:
        return None if program == wanted else "restart" if engine_labels.blocking_flags(engine["flags"]) else "reload"
    # If a key is removed from daemon.json, dockerd uses the former value until it restarts.
    return "restart" if path in edits and program == inputs.observed.guard.program else None


def running_drift(inputs: DecisionInputs, wanted: str | None) -> list[str]:
    engine = inputs.observed.engine
    if wanted is None or not engine or not engine["running"] or running_program(engine) == wanted:
        return []
    flags = engine_labels.blocking_flags(engine["flags"])
    reason = ": dockerd has the flag %s, which a reload would ignore, so dockerd must be restarted" % ", ".join(flags) if flags else ""
    return ["the runtime nvidia is %s, not %s%s" % (running_program(engine) or "missing", wanted, reason)]


def running_program(engine: Mapping[str, Any]) -> str | None:
    """Return the program that the running daemon uses for its runtime nvidia."""
    return ((engine.get("runtimes") or {}).get(daemon_json.RUNTIME) or {}).get("path")


def guard_warnings(inputs: DecisionInputs, wanted: GuardWanted | None) -> list[str]:
    guard = inputs.observed.guard
    if wanted is None or not guard.turned_off:
        return []
    return ["a file turns off the guard of the GPUs on this node. To turn it on again: rm %s/%s" % (guard.home, PASS_THROUGH)]
