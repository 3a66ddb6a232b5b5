# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Describes how a node differs from the decision, and how its files change (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._config import daemon_json, runtime_toml
from .._files import Snapshot
from .._gpu.cards import describe_gpu
from .._policy import advertise, generic_resources
from .case import Case
from .journal import KILLED
from .restore import Edit


def drift(case: Case, edits: Mapping[str, Edit], writes: Mapping[str, bytes | None], act: str | None, guard: Sequence[str] = ()) -> list[str]:
    """Return each difference in words; [] only if there is nothing to do."""
    params, seen = case.params, case.seen
    found: list[str] = []
    running = seen.engine and seen.engine["running"]
    if params["state"] == "absent":
        found = ["%s still contains changes of this collection" % path for path in writes]
    elif edits:
        left = [one.path for one in seen.left if one.path in writes]
        after = daemon_json.parse(edits[params["daemon_config"]].content, params["daemon_config"])
        found = advertise.find_drift(case.advertisement, _shown(case), after.get(daemon_json.RESOURCES) or [])
        line = runtime_toml.read_lines(seen.runtime.data)["swarm_resource"] if seen.runtime.existed else None
        found += advertise.swarm_resource_drift(case.advertisement, line)
        found += ["%s still contains changes of this collection, and no option names it any more" % path for path in left]
        if running and act == "reload" and seen.engine["default_runtime"] != daemon_json.RUNTIME:
            found.append("the default runtime is %s, not nvidia" % seen.engine["default_runtime"])
    if seen.engine and not running and edits:
        found.append("dockerd is not running")
    found += guard
    if act and not found:
        found.append("dockerd was started before its files were changed")
    if writes and not found:
        found = ["%s differs from what was decided" % path for path in writes]
    if seen.unfinished and not found:
        found.append(KILLED)
    return found


def _shown(case: Case) -> list[dict[str, Any]]:
    """Return what the running daemon reports. If none runs, what it would report when started with the file."""
    seen, path = case.seen, case.params["daemon_config"]
    if seen.engine and seen.engine["running"]:
        return seen.engine["generic_resources"]
    doc = daemon_json.parse(seen.daemon.data, path)
    return generic_resources.to_info(generic_resources.parse(doc.get(daemon_json.RESOURCES) or []))


def left_out(advertisement: Mapping[str, Any]) -> list[str]:
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
