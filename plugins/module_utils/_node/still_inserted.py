# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether a file still contains what this collection wrote into it (pure).

The watcher reports missing parts as drift, because the next run of ``provision`` would write them again. Other keys, another order and other
whitespace are not drift. A missing health label is not drift either, because the watcher itself writes the label again.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._config import daemon_json
from .._errors import GpuSwarmError
from .guard_runtime import FORMER_PROGRAM, names_guard, without_guard


def is_still_inserted(content: bytes | None, path: str, inserted: Mapping[str, Any]) -> bool:
    """Return whether the file still contains the settings that the record calls ``inserted``. False if the file cannot be parsed."""
    try:
        return _in_daemon_json(content, path, inserted) if "resources" in inserted else _in_runtime_config(content, inserted)
    except GpuSwarmError:
        return False


def _in_daemon_json(content: bytes | None, path: str, inserted: Mapping[str, Any]) -> bool:
    plain = without_guard(content, path, inserted)
    want = daemon_json.Want(inserted["resources"], inserted["kinds"], inserted["resources"])
    return daemon_json.edit(plain, path, want).content == plain and (FORMER_PROGRAM not in inserted or names_guard(content))


def _in_runtime_config(content: bytes | None, inserted: Mapping[str, Any]) -> bool:
    from .._config import runtime_toml  # imported here, because the watcher needs it only if someone has edited config.toml

    return runtime_toml.is_as_wanted(content, runtime_toml.Want(inserted["swarm_resource"], inserted.get("mode")))
