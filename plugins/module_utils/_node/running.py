# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the running daemon with the wanted settings (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._config import daemon_json, daemon_problems
from .._policy import generic_resources

# dockerd's default if daemon.json names no runtime.
PLAIN_RUNTIME = "runc"


class Running(NamedTuple):
    """The values of this collection's options in a running daemon."""

    resources: list[str]  # KIND=value, sorted
    default_runtime: str | None
    label: str | None = None  # the key of a label that the daemon must have; its value does not matter
    program: str | None = None  # the program of the runtime nvidia, if this program is or was a guard


def running_wanted(doc: Mapping[str, Any], flags: Sequence[str] = ()) -> Running:
    """Return the settings that a daemon shows after a start with this daemon.json and these restored flags."""
    parsed_flags = daemon_problems.conflicting_flags(flags)
    listed = [flag.value for flag in parsed_flags if flag.key == daemon_json.RESOURCES]
    runtimes = [flag.value for flag in parsed_flags if flag.key == daemon_json.DEFAULT_RUNTIME]
    resources = generic_resources.parse([*(doc.get(daemon_json.RESOURCES) or []), *listed])
    runtime = doc.get(daemon_json.DEFAULT_RUNTIME) or (runtimes or [PLAIN_RUNTIME])[-1]
    return Running(sorted(generic_resources.to_entries(resources)), runtime)


def running_now(engine: Mapping[str, Any]) -> Running:
    """Return the settings that the running daemon shows."""
    resources = generic_resources.from_info(engine["generic_resources"])
    return Running(sorted(generic_resources.to_entries(resources)), engine["default_runtime"])


def action_for(wanted: Running, engine: Mapping[str, Any], state: str) -> str | None:
    """Return the least action that makes the daemon show the wanted settings: ``restart``, ``reload`` or None.

    dockerd reads node-generic-resources only when it starts. dockerd reloads default-runtime on SIGHUP, but only if the file sets this key
    (moby daemon/reload.go). So removing default-runtime needs a restart.
    """
    now = running_now(engine) if engine["running"] else None
    if now is None or now.resources != wanted.resources:
        return "restart"
    if now.default_runtime != wanted.default_runtime:
        return "restart" if state == "absent" else "reload"
    return None


def find_mismatch(wanted: Running, engine: Mapping[str, Any]) -> str | None:
    """Return a sentence about the first difference between the running daemon and ``wanted``, or None."""
    now = running_now(engine)
    if now.resources != wanted.resources:
        return "it shows %s, not %s" % (_short(now.resources), _short(wanted.resources))
    if now.default_runtime != wanted.default_runtime:
        return "its default runtime is %s" % now.default_runtime
    program = ((engine.get("runtimes") or {}).get(daemon_json.RUNTIME) or {}).get("path")
    if wanted.program and program != wanted.program:
        return "its runtime nvidia is %s" % program
    if wanted.label and not any(entry.startswith(wanted.label + "=") for entry in engine.get("labels") or []):
        return "it does not show its label %s" % wanted.label
    return None


def _short(resources: Iterable[str]) -> str:
    return ", ".join(resources) or "no generic resources"
