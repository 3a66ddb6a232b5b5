# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads, writes and restores whole files with content, mode and owner. Symbolic links stay links.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import json
import os
import stat
import tempfile
from typing import Any, Callable, Iterator, Mapping, Tuple

# move(src, dest) replaces a file atomically and keeps the mode, owner and SELinux context of an existing file.
Move = Callable[[str, str], Any]

# User id and group id.
Owner = Tuple[int, int]

TEMPORARY = ".gpu-swarm."  # temporary files, which later replace other files, begin with this prefix
NEW_FILE_MODE = 0o644
NEW_DIRECTORY_MODE = 0o755
_OTHERS_WRITE = 0o022


class Snapshot:
    """The state of one file: its bytes, mode and owner. A missing file has a snapshot too."""

    def __init__(self, path: str, data: bytes | None = None, mode: int | None = None, uid: int | None = None, gid: int | None = None) -> None:
        self.path = path
        self.data = data
        self.mode = mode
        self.uid = uid
        self.gid = gid

    @property
    def existed(self) -> bool:
        return self.data is not None

    @property
    def owner(self) -> Owner | None:
        return None if self.uid is None else (self.uid, self.gid)

    @property
    def sha256(self) -> str | None:
        return digest(self.data)

    @classmethod
    def take(cls, path: str) -> Snapshot:
        """Read ``path`` and follow links. A missing file is not an error. Other OSErrors are raised."""
        try:
            with open(path, "rb") as stream:
                data = stream.read()
                status = os.fstat(stream.fileno())
        except FileNotFoundError:
            return cls(path)
        return cls(path, data, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)

    def to_json(self) -> dict[str, Any]:
        data = None if self.data is None else base64.b64encode(self.data).decode("ascii")
        return {"path": self.path, "data": data, "mode": self.mode, "uid": self.uid, "gid": self.gid}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Snapshot:
        data = None if item["data"] is None else base64.b64decode(item["data"])
        return cls(item["path"], data, item["mode"], item["uid"], item["gid"])


def read_text(path: str) -> str:
    """Return the text of a file; "" if the file cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def digest(data: bytes | None) -> str | None:
    """Return the sha256 of ``data`` in hex; None for a missing file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Add ``path`` to each OSError: the system's error about a full disk names no file."""
    try:
        yield
    except OSError as problem:
        problem.filename = path
        raise


def write(path: str, data: bytes, move: Move, mode: int | None = None, owner: Owner | None = None) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old or the new content, never a part.

    ``move(src, dest)`` is ``module.atomic_move``. It keeps the mode, owner and SELinux context of an existing file. A new file gets ``mode`` and
    ``owner``.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    make_directory(folder)
    handle, temporary = tempfile.mkstemp(prefix=_temporary_prefix(path), dir=folder)
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(path):
            move(temporary, path)
        else:
            _create(temporary, path, mode, owner)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    sync_directory(folder)


def make_directory(path: str, mode: int = NEW_DIRECTORY_MODE) -> None:
    """Create a directory and its missing parents with this mode, whatever the umask is. Existing directories are not changed."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        wanted = mode if directory == missing[0] else NEW_DIRECTORY_MODE
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, wanted)
            os.chmod(directory, wanted)


def remove_others_write(path: str) -> None:
    """Remove the write permission of group and others."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & _OTHERS_WRITE:
        os.chmod(path, mode & ~_OTHERS_WRITE)


def write_new_file(path: str, data: bytes) -> None:
    """Write a new file of code into a directory that is not in use yet."""
    make_directory(os.path.dirname(path))
    with naming(path), open(path, "wb") as stream:
        os.fchmod(stream.fileno(), NEW_FILE_MODE)
        stream.write(data)


def _create(temporary: str, path: str, mode: int | None, owner: Owner | None) -> None:
    # Do not use atomic_move: it creates a new file with the umask's mode, so everyone could read the file for a moment.
    os.chmod(temporary, NEW_FILE_MODE if mode is None else mode)
    if owner is not None and os.geteuid() == 0:
        os.chown(temporary, *owner)
    os.rename(temporary, path)


def _temporary_prefix(path: str) -> str:
    return "%s%s." % (TEMPORARY, os.path.basename(path))


def remove_leftovers(path: str) -> None:
    """Remove temporary files of ``path`` that a killed run left behind. The caller must hold the node's lock."""
    for leftover in leftovers(path):
        os.unlink(leftover)


def leftovers(path: str) -> list[str]:
    """Return the temporary files of ``path`` that a killed run left behind."""
    path = os.path.realpath(path)
    return glob.glob(glob.escape(os.path.join(os.path.dirname(path), _temporary_prefix(path))) + "*")


def remove(path: str) -> None:
    """Remove a file that this collection created. A missing file is not an error."""
    path = os.path.realpath(path)
    if os.path.exists(path):
        os.unlink(path)
        sync_directory(os.path.dirname(path))


def restore(snapshot: Snapshot, move: Move) -> None:
    """Give the file the content, mode and owner of the snapshot."""
    if Snapshot.take(snapshot.path).to_json() == snapshot.to_json():
        return  # the file has these bytes already, and a write would fail on a full disk
    if snapshot.existed:
        write(snapshot.path, snapshot.data, move, snapshot.mode, snapshot.owner)
    else:
        remove(snapshot.path)


def sync_directory(folder: str) -> None:
    """Flush ``folder`` to the disk, so that a rename in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_mapping(path: str) -> dict[str, Any] | None:
    """Return the mapping in a JSON file; None if the file is missing or contains no mapping."""
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def replace_link(link: str, target: str) -> None:
    """Make ``link`` a symbolic link to ``target``. At every moment a reader finds the old link or the new link."""
    temporary = "%s.%d" % (link, os.getpid())
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.replace(temporary, link)


def unfinished_links(link: str) -> list[str]:
    """Return the links that a killed replace_link() left behind."""
    return glob.glob(glob.escape(link) + ".[0-9]*")
