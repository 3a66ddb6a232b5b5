# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of the user's, read and put back whole: content, mode, owner; a symbolic link stays one.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import os
import stat
import tempfile

TEMPORARY = ".gpu-swarm."  # how the names of files begin that are to take the place of others
NEW_FILE_MODE = 0o644
NEW_DIRECTORY_MODE = 0o755


class Snapshot:
    """One file as it was at one moment: its bytes, or that it did not exist."""

    def __init__(self, path, data=None, mode=None, uid=None, gid=None):
        self.path = path
        self.data = data
        self.mode = mode
        self.uid = uid
        self.gid = gid

    @property
    def existed(self):
        return self.data is not None

    @property
    def sha256(self):
        return digest(self.data)

    @classmethod
    def take(cls, path):
        """Reads ``path`` (following links). Raises OSError other than 'not found'."""
        try:
            with open(path, "rb") as stream:
                data = stream.read()
                status = os.fstat(stream.fileno())
        except FileNotFoundError:
            return cls(path)
        return cls(path, data, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)

    def to_json(self):
        data = None if self.data is None else base64.b64encode(self.data).decode("ascii")
        return {"path": self.path, "data": data, "mode": self.mode, "uid": self.uid, "gid": self.gid}

    @classmethod
    def from_json(cls, item):
        data = None if item["data"] is None else base64.b64decode(item["data"])
        return cls(item["path"], data, item["mode"], item["uid"], item["gid"])


def digest(data):
    """sha256 of ``data`` in hex; None for a file that is not there."""
    return None if data is None else hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def naming(path):
    """A full disk is told with the file that it has no room for: the system names none."""
    try:
        yield
    except OSError as problem:
        problem.filename = path
        raise


def write(path, data, move, mode=None, uid=None, gid=None):
    """Puts ``data`` at ``path`` so that a reader sees the old bytes or the new ones, never a part.

    ``move(src, dest)`` is ``module.atomic_move``, which keeps mode, owner and SELinux context of a file that exists.
    ``mode``, ``uid`` and ``gid`` say how a file that does not exist yet is to be made.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, NEW_DIRECTORY_MODE)
    handle, temporary = tempfile.mkstemp(prefix=_temporary(path), dir=folder)
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(path):
            move(temporary, path)
        else:
            _create(temporary, path, mode, uid, gid)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    sync_directory(folder)


def _create(temporary, path, mode, uid, gid):
    # Not by atomic_move, which gives a new file the umask's mode, readable for all for a moment at least.
    os.chmod(temporary, NEW_FILE_MODE if mode is None else mode)
    if uid is not None and os.geteuid() == 0:
        os.chown(temporary, uid, gid)
    os.rename(temporary, path)


def _temporary(path):
    return "%s%s." % (TEMPORARY, os.path.basename(path))


def sweep(path):
    """Removes what a run that was killed left beside ``path``. Only for the holder of the node's lock."""
    path = os.path.realpath(path)
    for left in glob.glob(glob.escape(os.path.join(os.path.dirname(path), _temporary(path))) + "*"):
        os.unlink(left)


def remove(path):
    """Removes a file that we made; one that is gone already is fine."""
    path = os.path.realpath(path)
    if os.path.exists(path):
        os.unlink(path)
        sync_directory(os.path.dirname(path))


def put_back(snapshot, move):
    """Makes the file again what it was when the snapshot was taken."""
    if Snapshot.take(snapshot.path).to_json() == snapshot.to_json():
        return  # where the disk is full, what was never written need not be written back
    if snapshot.existed:
        write(snapshot.path, snapshot.data, move, snapshot.mode, snapshot.uid, snapshot.gid)
    else:
        remove(snapshot.path)


def sync_directory(folder):
    """Makes a rename in ``folder`` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
