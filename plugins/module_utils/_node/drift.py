# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Describes how a node differs from the decision, and how its files change (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._config import daemon_json, runtime_toml, shm_size
from .._files import Snapshot
from .._gpu.cards import describe_gpu
from .._policy import advertise, generic_resources
from .decision_inputs import DecisionInputs
from .journal import INSERTED, KILLED
from .loaded import LOADED
from .restore import Edit


def drift(
    inputs: DecisionInputs, edits: Mapping[str, Edit], writes: Mapping[str, bytes | None], action: str | None, guard: Sequence[str] = ()
) -> list[str]:
    """Return a sentence for each difference; [] only if nothing has to change."""
    params, observed = inputs.params, inputs.observed
    differences: list[str] = []
    running = observed.engine and observed.engine["running"]
    if params["state"] == "absent":
        differences = ["%s still contains changes of this collection" % path for path in writes]
    elif edits:
        former_files = [file.path for file in observed.former_files if file.path in writes]
        after = daemon_json.parse(edits[params["daemon_config"]].content, params["daemon_config"])
        differences = advertise.find_drift(inputs.advertisement, _shown(inputs), after.get(daemon_json.RESOURCES) or [])
        swarm_resource = runtime_toml.read_lines(observed.runtime.data)["swarm_resource"] if observed.runtime.existed else None
        differences += advertise.swarm_resource_drift(inputs.advertisement, swarm_resource)
        differences += ["%s still contains changes of this collection, but no option names this file any more" % path for path in former_files]
        if running and action == "reload" and observed.engine["default_runtime"] != daemon_json.RUNTIME:
            differences.append("the default runtime is %s, not nvidia" % observed.engine["default_runtime"])
        differences += shm_size_drift(inputs, edits)
    if observed.engine and not running and edits:
        differences.append("dockerd is not running")
    differences += guard
    if action and not differences:
        differences.append("dockerd was started before its files were changed")
    if writes and not differences:
        differences = ["%s differs from what was decided" % path for path in writes]
    if observed.unfinished and not differences:
        differences.append(KILLED)
    return differences


def shm_size_drift(inputs: DecisionInputs, edits: Mapping[str, Edit]) -> list[str]:
    """Return a sentence if dockerd must load another default-shm-size. No request shows its present value, so the files and the record decide.

    If the key is missing afterwards, a reload has no effect.
    """
    observed, path = inputs.observed, inputs.params["daemon_config"]
    before = shm_size.read_size(observed.daemon.data, path)
    after = shm_size.read_size(edits[path].content, path) if path in edits else before
    if after is None:
        return []
    if not shm_size.is_same(before, after):
        shown = "missing" if before is None else generic_resources.shorten(before)
        return ["%s is %s, not %s" % (shm_size.KEY, shown, generic_resources.shorten(after))]
    entry = observed.record.get(path) or {}
    inserted = entry.get(INSERTED, {})
    is_pending = inputs.params.get("default_shm_size") and inserted.get(shm_size.NOT_LOADED) and not entry.get(LOADED)
    if is_pending or observed.unfinished:  # a killed run may have written the present value, also the user's own value again
        return ["dockerd has perhaps not loaded its %s, %s" % (shm_size.KEY, generic_resources.shorten(after))]
    return []


def _shown(inputs: DecisionInputs) -> list[dict[str, Any]]:
    """Return the generic resources that the daemon reports. If the daemon does not run, return the resources that it would report after a start with
    daemon.json."""
    observed, path = inputs.observed, inputs.params["daemon_config"]
    if observed.engine and observed.engine["running"]:
        return observed.engine["generic_resources"]
    doc = daemon_json.parse(observed.daemon.data, path)
    return generic_resources.to_info(generic_resources.parse(doc.get(daemon_json.RESOURCES) or []))


def excluded_gpus(advertisement: Mapping[str, Any]) -> list[str]:
    return [
        "GPU %s is not advertised: %s" % (describe_gpu(item), item["reason"])
        for item in advertisement["left_out"]
    ]


def diff(snapshot: Snapshot, after: bytes | None) -> dict[str, str]:
    return {
        "before": _text(snapshot.data),
        "after": _text(after),
        "before_header": snapshot.path,
        "after_header": snapshot.path,
    }


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")
