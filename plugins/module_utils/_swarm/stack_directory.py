# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the files of a stack on the machine that deploys it, while 'docker stack deploy' reads them.

The files contain secrets. So this code writes them to memory (tmpfs) if possible, and only this user can read them. If a run is killed, the next run
removes its files.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import stat
import tempfile
import time
import zipfile
from typing import Iterator

from .._errors import GpuSwarmError

FOLDER = "gpu-swarm-stacks"
# After this time (seconds), this code removes files of other stacks as abandoned. No deployment takes so long.
ABANDONED_S = 3600


def parent_directory() -> str:
    """Return the parent directory of all stacks.

    Only root's directory is in memory, because systemd removes the files of other users from memory when they log out.
    """
    user = os.geteuid()
    return os.path.join("/run", FOLDER) if user == 0 else os.path.join(tempfile.gettempdir(), "%s-%d" % (FOLDER, user))


def unpack(parent: str, stack: str, swarm: str, archive: str) -> str:
    """Unpack the zip file, which is in base64, and return the new directory. ``swarm`` distinguishes the swarms to which one machine deploys."""
    _make_private(parent)
    path = _path(parent, stack, swarm)
    remove(parent, stack, swarm)
    try:
        os.mkdir(path, 0o700)
        _unpack(base64.b64decode(archive), path)
    except OSError as exc:
        shutil.rmtree(path, ignore_errors=True)
        raise GpuSwarmError("The files of the stack cannot be written to %s: %s. Make room there." % (path, exc.strerror or exc)) from exc
    return path


def remove(parent: str, stack: str, swarm: str) -> list[str]:
    """Remove the files of this stack and abandoned files of other stacks. Return the names of the removed directories."""
    removed = []
    for path in _directories(parent):
        if path == _path(parent, stack, swarm) or time.time() - os.lstat(path).st_mtime > ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)
            removed.append(os.path.basename(path))
    return sorted(removed)


def _directories(parent: str) -> Iterator[str]:
    if os.path.isdir(parent) and os.lstat(parent).st_uid == os.geteuid():
        yield from (os.path.join(parent, name) for name in sorted(os.listdir(parent)))


def _path(parent: str, stack: str, swarm: str) -> str:
    return os.path.join(parent, "%s-%s" % (stack, hashlib.sha256(swarm.encode("utf-8")).hexdigest()[:8]))


def _make_private(directory: str) -> None:
    """Create the directory. If it exists, check that nobody else can read or write it."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        status = os.lstat(directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise GpuSwarmError(
                "%s is not a directory that only this user can access, and secrets would be written there. Remove it." % directory
            ) from None
    except OSError as exc:
        raise GpuSwarmError("%s cannot be created: %s. Fix that." % (directory, exc.strerror or exc)) from exc


def _unpack(data: bytes, path: str) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            target = os.path.join(path, *[part for part in name.split("/") if part not in ("", ".", "..")])
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(archive.read(name))
