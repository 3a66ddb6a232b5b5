# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Provides this collection's pure Python libraries on a node.

A node may have no package index, or a system Python that refuses pip. So the controller sends missing libraries as a zip file in the module's
arguments (``libraries``). A call that may write installs the libraries in ``<state_dir>/lib/current`` and compiles them. Later calls find the
libraries there.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import zipfile
from typing import Mapping

from ._errors import GpuSwarmError
from ._files import make_directory, naming, replace_link

STATE_DIR = "/var/lib/gpu-swarm"
# The module option for the zip file. The zip file is not secret, but too long for a log.
LIBRARIES = {"type": "str", "no_log": True}


def add_to_path(library_path: str | None = None, state_dir: str = STATE_DIR, first: bool = False) -> None:
    """Add the libraries to Python's search path: after the node's own libraries, or before them if ``first`` is true.

    ``library_path`` is either a directory that the user chose, or a zip file that the controller sent. Python searches such a directory before the
    libraries that a run installed on the node, and such a zip file after them.
    """
    paths = [library_path, installed_path(state_dir)]
    if library_path and os.path.isfile(library_path):
        paths.reverse()
    paths = [path for path in paths if path and os.path.exists(path)]
    if first:
        sys.path[:] = paths + [path for path in sys.path if path not in paths]
    sys.path.extend(path for path in paths if path not in sys.path)
    for path in paths:
        # Invalidate the caches of these paths only. importlib.invalidate_caches() would make Python reread Ansible's archive once for each package in
        # it.
        sys.path_importer_cache.pop(path, None)


def write_received(text: str | None, directory: str) -> str | None:
    """Write the libraries from the controller to a zip file in ``directory``.

    Return its path, or None if the controller sent no libraries.
    """
    if not text:
        return None
    path = os.path.join(directory, "gpu_swarm_libraries.zip")
    with open(path, "wb") as stream:
        stream.write(base64.b64decode(text))
    return path


def installed_path(state_dir: str = STATE_DIR) -> str:
    """Return the directory of the installed libraries."""
    return os.path.join(state_dir, "lib", "current")


def is_from_controller(name: str, library_path: str | None) -> bool:
    """Return whether module ``name`` comes from the zip file that the controller sent with this call."""
    if not library_path or not os.path.isfile(library_path):
        return False
    spec = importlib.util.find_spec(name)
    return bool(spec and spec.origin) and spec.origin.startswith(library_path + os.sep)


def install(zip_path: str, state_dir: str = STATE_DIR) -> bool:
    """Install the content of ``zip_path`` on the node. Return whether anything changed.

    Installed libraries that are not in the zip file are kept. A reader sees the old or the new set of libraries, never a mixture: this code writes
    the new set to a new directory and then replaces the link to the current directory.
    """
    files = _read(zip_path)
    current = installed_path(state_dir)
    if all(_has_content(os.path.join(current, name), data) for name, data in files.items()):
        return False
    home = os.path.dirname(current)
    make_directory(home, 0o700)
    unpacked = tempfile.mkdtemp(prefix=".new.", dir=home)
    try:
        _unpack_over_copy(unpacked, current, files)
        version = os.path.join(home, _digest(unpacked))
        shutil.rmtree(version, ignore_errors=True)  # an incomplete or edited set
        os.rename(unpacked, version)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    replace_link(current, os.path.basename(version))
    _remove_other_versions(home, version)
    return True


def _read(zip_path: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(zip_path) as archive:
            return {item.filename: archive.read(item) for item in archive.infolist() if not item.is_dir()}
    except (OSError, zipfile.BadZipFile) as exc:
        raise GpuSwarmError("%s: the libraries sent with this call cannot be read (%s). Run the task again." % (zip_path, exc)) from exc


def _has_content(path: str, data: bytes) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read() == data
    except OSError:
        return False


def _unpack_over_copy(target: str, current: str, files: Mapping[str, bytes]) -> None:
    # Imported here: most calls only read the node, and these imports are slow.
    import compileall
    import py_compile

    if os.path.isdir(current):
        shutil.copytree(current, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name, data in files.items():
        path = os.path.normpath(os.path.join(target, name))
        if not path.startswith(target + os.sep):
            raise GpuSwarmError("%r in the libraries sent with this call points outside their directory. Run the task again." % name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with naming(path), open(path, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    # Python compares hashes, not time stamps, because restoring a backup changes the time stamps.
    compileall.compile_dir(target, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    os.chmod(target, 0o755)


def _digest(directory: str) -> str:
    """Return a digest of the names and contents of the sources. Compiled files are not included, because they depend on the version of Python."""
    digest = hashlib.sha256()
    for root, folders, names in os.walk(directory):
        folders[:] = sorted(folder for folder in folders if folder != "__pycache__")
        for name in sorted(names):
            path = os.path.join(root, name)
            with open(path, "rb") as stream:
                content = hashlib.sha256(stream.read()).hexdigest()
            digest.update(("%s %s\n" % (os.path.relpath(path, directory), content)).encode("utf-8"))
    return digest.hexdigest()[:16]


def _remove_other_versions(home: str, version: str) -> None:
    for name in os.listdir(home):
        path = os.path.join(home, name)
        if path != version and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
