# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a file still says what this collection wrote into it, whoever has edited it since (pure).

This is the drift that a node's watcher reports between two runs: what the next run of ``provision`` writes anew, and nothing else. Another
key, another order or other blanks are none, nor is a health label that is gone: the watcher itself puts it back.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._config import daemon_json
from .._errors import GpuSwarmError
from .guard_runtime import BEFORE, is_named, unguarded


def is_kept(content: bytes | None, path: str, inserted: Mapping[str, Any]) -> bool:
    """``inserted`` is what the record of the file has as put in. A file that cannot be read as what it is has not kept it."""
    try:
        return _in_daemon_json(content, path, inserted) if "resources" in inserted else _in_runtime_config(content, inserted)
    except GpuSwarmError:
        return False


def _in_daemon_json(content: bytes | None, path: str, inserted: Mapping[str, Any]) -> bool:
    plain = unguarded(content, path, inserted)
    want = daemon_json.Want(inserted["resources"], inserted["kinds"], inserted["resources"])
    return daemon_json.edit(plain, path, want).content == plain and (BEFORE not in inserted or is_named(content))


def _in_runtime_config(content: bytes | None, inserted: Mapping[str, Any]) -> bool:
    from .._config import runtime_toml  # a node's watcher needs it only where somebody has edited that file

    return runtime_toml.is_as_wanted(content, runtime_toml.Want(inserted["swarm_resource"], inserted.get("mode")))
