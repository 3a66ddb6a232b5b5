# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files outside of packages that come with NVIDIA's toolkit, and what was there before: the repository's definition and key, other definitions
that were edited, config.toml, links of services.

Each file is on record before it is first written, so that a run that fails or is killed leaves nothing unknown.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import glob
import json
import os
import re
from typing import Any, Collection, Dict, Iterable, Iterator

from .. import _files
from .._errors import GpuSwarmError
from .._files import Move, Snapshot

NAME = "toolkit-files.json"
DIRECTORY_MODE, FILE_MODE = 0o700, 0o600  # a definition may have the password of a mirror
# Where the role nvidia_container_toolkit defines the repository, and what each of its definitions has in its first line.
DEFINITIONS = (
    "/etc/apt/sources.list.d/nvidia-container-toolkit.list",
    "/etc/yum.repos.d/nvidia-container-toolkit.repo",
    "/etc/zypp/repos.d/nvidia-container-toolkit.repo",
)
MARK = b": fleet.gpu_swarm.nvidia_container_toolkit"
_KEY = re.compile(rb"signed-by=([^\]\s]+)|^gpgkey *= *file://(\S+)", re.MULTILINE)
# Definitions of repositories, which may use the key too.
SOURCES = (
    "/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources", "/etc/yum.repos.d/*.repo",
    "/etc/zypp/repos.d/*.repo",
)  # fmt: skip
# How Ansible names its copy of a file that it changes.
_COPY = re.compile(r"\.[0-9]+\.[0-9]{4}-[0-9]{2}-[0-9]{2}@[0-9:]{8}~$")
# Which systemd has for services of the packages that were enabled, and leaves when these are gone.
LINKS = "/etc/systemd/system/*.wants/nvidia-cdi-refresh.*"
CONFIG = "/etc/nvidia-container-runtime/config.toml"
RPMSAVE = ".rpmsave"  # what rpm makes of an edited file as it removes the package
# Of config.toml, what gpu_node sets and removes again, also after the packages have rewritten the file at an upgrade.
_OF_NODE = re.compile(rb"[ \t]*#?[ \t]*(?:swarm-resource|mode)\b|[ \t\r]*$")

# By path: the file "before", as Snapshot.to_json() has it, and the hashes of what was "written".
Record = Dict[str, Dict[str, Any]]


class ToolkitFiles:
    """Those of one machine, whose files lie under ``root``. The record is in ``directory``."""

    def __init__(self, directory: str, root: str = "/") -> None:
        self._directory, self._root = directory, root
        self._path = os.path.join(directory, NAME)

    def left(self) -> list[str]:
        """The paths that restore() would change."""
        record = self._record()
        on_record = [path for path in self._all(record) if self._take(path).sha256 != self._before(record, path).sha256]
        return sorted({*on_record, *self._unrecorded(record)})

    def keep(self, paths: Iterable[str], check: bool, move: Move) -> bool:
        """Notes the files as they are before they are written, unless they are on record and nobody has edited them since."""
        record = self._record()
        own = self._unrecorded(record)
        wanted = [path for path in paths if path not in record or self._is_edited(record, path)]
        new = {path: {"before": self._found(path, own).to_json(), "written": []} for path in wanted}
        return self._write({**record, **new}, move) if new and not check else bool(new)

    def note(self, paths: Iterable[str], check: bool, move: Move) -> bool:
        """Notes what a run has written there."""
        record = self._record()
        hashes = {path: _digest(path, self._take(path).data) for path in paths if path in record}
        new = {path: found for path, found in hashes.items() if found and found not in record[path]["written"]}
        for path, found in new.items():
            record[path]["written"].append(found)
        return self._write(record, move) if new and not check else bool(new)

    def restore(self, check: bool, move: Move) -> tuple[bool, list[str]]:
        """Restores what was there before. Returns whether that is a change, and in words what stays and why."""
        record = self._record()
        paths = sorted({*self._all(record), *self._unrecorded(record)}, key=lambda path: (path not in DEFINITIONS, path))
        changed, stays, originals = False, [], set()
        for path in paths:
            reason = self._stays(record, path)
            if reason:
                stays.append("%s (%s)" % (path, reason))
                originals.add(self._before(record, path).sha256)
            elif self._take(path).sha256 != self._before(record, path).sha256:
                changed = True
                self._restore_one(record, path, check, move)
        changed = self._remove_copies(record, originals, check) or changed
        if record and not check:
            _files.remove(self._path)
        return self._remove_links(check) or changed or bool(record), stays + self._config_stays(record)

    # -- one file ----------------------------------------------------------------------------------------------

    def _stays(self, record: Record, path: str) -> str | None:
        """Why this file is not touched; None if it is to become what it was."""
        current, before = self._take(path), self._before(record, path)
        if self._is_edited(record, path):
            return "somebody has edited it since"
        users = self._users(path) if current.existed and not before.existed else []
        return "%s uses it" % ", ".join(users) if users else None

    def _is_edited(self, record: Record, path: str) -> bool:
        """Whether it is neither what was there before nor what a run wrote. Where a run was killed that made it, it is the run's."""
        current, before = self._take(path), self._before(record, path)
        written = record.get(_original(path), {}).get("written", [])
        made = not written and not before.existed and path != CONFIG + RPMSAVE
        known = current.sha256 == before.sha256 or _digest(path, current.data) in written or MARK in (current.data or b"") or made
        return current.existed and not known

    def _restore_one(self, record: Record, path: str, check: bool, move: Move) -> None:
        if check:
            return
        before = self._before(record, path)
        _files.restore(before, move)
        if before.existed:  # else it would have those of the file in its place
            os.chmod(before.path, before.mode)
            os.chown(before.path, before.uid, before.gid)
        folder = os.path.dirname(self._at(CONFIG))
        if path == CONFIG and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)

    def _users(self, path: str) -> list[str]:
        """The definitions of repositories that name this file."""
        found = [one for pattern in SOURCES for one in sorted(glob.glob(self._at(pattern)))]
        return [self._name(one) for one in found if path in _files.text(one) and MARK.decode() not in _files.text(one)]

    def _unrecorded(self, record: Record) -> list[str]:
        """Definitions that a release without this record wrote, and their keys."""
        found: list[str] = []
        for path in DEFINITIONS:
            data = self._take(path).data or b""
            if path in record or MARK not in data:
                continue
            keys = [os.fsdecode(one or other) for one, other in _KEY.findall(data)]
            found += [path, *(key for key in keys if key not in record and os.path.exists(self._at(key)))]
        return found

    def _found(self, path: str, own: Collection[str]) -> Snapshot:
        """The file; none if it is one of ``own``, which an older release has written that kept nothing of what was there before."""
        found = self._take(path)
        return Snapshot(found.path) if path in own or MARK in (found.data or b"") else found

    # -- what lies beside them ---------------------------------------------------------------------------------

    def _all(self, record: Record) -> Iterator[str]:
        for path in record:
            yield path
            if path == CONFIG:
                yield path + RPMSAVE

    def _remove_copies(self, record: Record, originals: Collection[str | None], check: bool) -> bool:
        """Copies that Ansible has made of former contents, which this collection wrote, or which are restored. Where a file stays, the copy is all
        that is left of what was there before, the ``originals``."""
        own = {self._before(record, path).sha256 for path in record}.difference(originals)
        found = [one for path in {*record, *DEFINITIONS} for one in glob.glob(glob.escape(self._at(path)) + ".*~") if _COPY.search(one)]
        copies = [one for one in found if MARK in (Snapshot.take(one).data or b"") or Snapshot.take(one).sha256 in own]
        for one in copies if not check else ():
            _files.remove(one)
        return bool(copies)

    def _remove_links(self, check: bool) -> bool:
        links = [one for one in glob.glob(self._at(LINKS)) if os.path.islink(one) and not self._leads(one)]
        for one in links if not check else ():
            os.unlink(one)
        return bool(links)

    def _leads(self, link: str) -> bool:
        target = os.readlink(link)
        return os.path.exists(self._at(target) if os.path.isabs(target) else os.path.join(os.path.dirname(link), target))

    def _config_stays(self, record: Record) -> list[str]:
        return [] if CONFIG in record or not os.path.exists(self._at(CONFIG)) else ["%s (it was there before, or is of an older release)" % CONFIG]

    # -- record ------------------------------------------------------------------------------------------------

    def _record(self) -> Record:
        text = _files.text(self._path)
        try:
            files = json.loads(text)["files"] if text else {}
            if not all(isinstance(one["written"], list) and Snapshot.from_json(one["before"]).path for one in files.values()):
                raise ValueError("an entry lacks what was written")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise GpuSwarmError(
                "%s: this collection's own record cannot be read (%s). Restore it from a backup, or move it away: then the files of the NVIDIA"
                " Container Toolkit stay as they are now." % (self._path, problem)
            ) from problem
        return files

    def _write(self, record: Record, move: Move) -> bool:
        _files.make_directory(self._directory, DIRECTORY_MODE)
        _files.write(self._path, json.dumps({"version": 1, "files": record}).encode(), move, FILE_MODE)
        return True

    def _before(self, record: Record, path: str) -> Snapshot:
        return Snapshot.from_json(record[path]["before"]) if path in record else Snapshot(self._at(path))

    def _take(self, path: str) -> Snapshot:
        return Snapshot.take(self._at(path))

    def _at(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def _name(self, path: str) -> str:
        return "/" + os.path.relpath(path, self._root)


def _original(path: str) -> str:
    return CONFIG if path == CONFIG + RPMSAVE else path


def _digest(path: str, data: bytes | None) -> str | None:
    """The hash of a file; of config.toml without the lines that gpu_node may have edited."""
    if data is None or _original(path) != CONFIG:
        return _files.digest(data)
    return _files.digest(b"\n".join(line for line in data.splitlines() if not _OF_NODE.match(line)))
