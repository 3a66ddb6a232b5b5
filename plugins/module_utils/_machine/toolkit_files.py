# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records and restores files that belong to no package, but that change when NVIDIA's toolkit is installed.

These are the repository's definition and key, edited definitions of other repositories, config.toml, and links of services. Each file is recorded
before the first write. So it can be restored even if a run failed or was killed.
Private to this collection; it may change without notice.
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
DIRECTORY_MODE, FILE_MODE = 0o700, 0o600  # a definition may contain the password of a mirror
# The repository definitions that the role nvidia_container_toolkit writes, and the mark in their first line.
DEFINITIONS = (
    "/etc/apt/sources.list.d/nvidia-container-toolkit.list",
    "/etc/yum.repos.d/nvidia-container-toolkit.repo",
    "/etc/zypp/repos.d/nvidia-container-toolkit.repo",
)
MARK = b": fleet.gpu_swarm.nvidia_container_toolkit"
_KEY = re.compile(rb"signed-by=([^\]\s]+)|^gpgkey *= *file://(\S+)", re.MULTILINE)
# Definitions of other repositories. They may use the key too.
SOURCES = (
    "/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources", "/etc/yum.repos.d/*.repo",
    "/etc/zypp/repos.d/*.repo",
)  # fmt: skip
# The ending of a backup that Ansible makes before it changes a file.
_BACKUP = re.compile(r"\.[0-9]+\.[0-9]{4}-[0-9]{2}-[0-9]{2}@[0-9:]{8}~$")
# The links of enabled services. systemd keeps these links when the packages are removed.
LINKS = "/etc/systemd/system/*.wants/nvidia-cdi-refresh.*"
CONFIG = "/etc/nvidia-container-runtime/config.toml"
RPMSAVE = ".rpmsave"  # rpm adds this ending to an edited file when it removes the package
# Lines of config.toml that gpu_node writes and later removes. Meanwhile, an upgrade of the packages may rewrite the file.
_LINES_OF_NODE = re.compile(rb"[ \t]*#?[ \t]*(?:swarm-resource|mode)\b|[ \t\r]*$")

# {path: the file "before" in the form of Snapshot.to_json(), and the hashes of each "written" content}.
Record = Dict[str, Dict[str, Any]]


class ToolkitFiles:
    """The toolkit's files of one machine with this ``root`` directory. The record is in ``directory``."""

    def __init__(self, directory: str, root: str = "/") -> None:
        self._directory, self._root = directory, root
        self._path = os.path.join(directory, NAME)

    def paths_to_restore(self) -> list[str]:
        """Return the paths that restore() would change."""
        record = self._record()
        recorded = [path for path in self._all_paths(record) if self._read(path).sha256 != self._before(record, path).sha256]
        return sorted({*recorded, *self._unrecorded(record)})

    def record_originals(self, paths: Iterable[str], check: bool, move: Move) -> bool:
        """Record the files before a run writes them. If a file is already recorded, record it again only if someone has edited it since."""
        record = self._record()
        unrecorded = self._unrecorded(record)
        wanted = [path for path in paths if path not in record or self._is_edited(record, path)]
        new = {path: {"before": self._original_of(path, unrecorded).to_json(), "written": []} for path in wanted}
        return self._write({**record, **new}, move) if new and not check else bool(new)

    def record_written(self, paths: Iterable[str], check: bool, move: Move) -> bool:
        """Record the hashes of the contents that a run has written."""
        record = self._record()
        hashes = {path: _digest(path, self._read(path).data) for path in paths if path in record}
        new = {path: digest for path, digest in hashes.items() if digest and digest not in record[path]["written"]}
        for path, digest in new.items():
            record[path]["written"].append(digest)
        return self._write(record, move) if new and not check else bool(new)

    def restore(self, check: bool, move: Move) -> tuple[bool, list[str]]:
        """Restore the former files. Return whether anything changes, and a text for each file that is not restored."""
        record = self._record()
        paths = sorted({*self._all_paths(record), *self._unrecorded(record)}, key=lambda path: (path not in DEFINITIONS, path))
        changed, edited, originals = False, [], set()
        for path in paths:
            reason = self._reason_to_leave(record, path)
            if reason:
                edited.append("%s (%s)" % (path, reason))
                originals.add(self._before(record, path).sha256)
            elif self._read(path).sha256 != self._before(record, path).sha256:
                changed = True
                self._restore_one(record, path, check, move)
        changed = self._remove_backups(record, originals, check) or changed
        if record and not check:
            _files.remove(self._path)
        return self._remove_links(check) or changed or bool(record), edited + self._describe_kept_config(record)

    # -- one file ----------------------------------------------------------------------------------------------

    def _reason_to_leave(self, record: Record, path: str) -> str | None:
        """Return why this file is not restored; None if it is restored."""
        current, before = self._read(path), self._before(record, path)
        if self._is_edited(record, path):
            return "someone has edited it since"
        users = self._find_users(path) if current.existed and not before.existed else []
        return "%s uses it" % ", ".join(users) if users else None

    def _is_edited(self, record: Record, path: str) -> bool:
        """Return whether someone else changed the file. If a new file has no record of its content, a killed run wrote the file."""
        current, before = self._read(path), self._before(record, path)
        written = record.get(_recorded_as(path), {}).get("written", [])
        is_new = not written and not before.existed and path != CONFIG + RPMSAVE
        is_known = current.sha256 == before.sha256 or _digest(path, current.data) in written or MARK in (current.data or b"") or is_new
        return current.existed and not is_known

    def _restore_one(self, record: Record, path: str, check: bool, move: Move) -> None:
        if check:
            return
        before = self._before(record, path)
        _files.restore(before, move)
        if before.existed:  # restore() keeps mode and owner of the present file
            os.chmod(before.path, before.mode)
            os.chown(before.path, before.uid, before.gid)
        folder = os.path.dirname(self._full_path(CONFIG))
        if path == CONFIG and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)

    def _find_users(self, path: str) -> list[str]:
        """Return the definitions of repositories that name this file."""
        sources = [source for pattern in SOURCES for source in sorted(glob.glob(self._full_path(pattern)))]
        texts = {source: _files.read_text(source) for source in sources}
        return [self._path_below_root(source) for source, text in texts.items() if path in text and MARK.decode() not in text]

    def _unrecorded(self, record: Record) -> list[str]:
        """Return the definitions and keys that an older release wrote without a record."""
        unrecorded: list[str] = []
        for path in DEFINITIONS:
            data = self._read(path).data or b""
            if path in record or MARK not in data:
                continue
            keys = [os.fsdecode(quoted or other) for quoted, other in _KEY.findall(data)]
            unrecorded += [path, *(key for key in keys if key not in record and os.path.exists(self._full_path(key)))]
        return unrecorded

    def _original_of(self, path: str, unrecorded: Collection[str]) -> Snapshot:
        """Return the state of a file to record as the original: the present state. For a file in ``unrecorded``, return a missing file, because an
        older release wrote this file without recording its original."""
        entry = self._read(path)
        return Snapshot(entry.path) if path in unrecorded or MARK in (entry.data or b"") else entry

    # -- backups and links --------------------------------------------------------------------------------------

    def _all_paths(self, record: Record) -> Iterator[str]:
        for path in record:
            yield path
            if path == CONFIG:
                yield path + RPMSAVE

    def _remove_backups(self, record: Record, originals: Collection[str | None], check: bool) -> bool:
        """Remove Ansible's backups of contents that this collection wrote or restores. Keep backups of ``originals``: if someone has edited a file,
        the file is not restored, and the backup is the only copy of the original."""
        own_contents = {self._before(record, path).sha256 for path in record}.difference(originals)
        patterns = [glob.escape(self._full_path(path)) + ".*~" for path in {*record, *DEFINITIONS}]
        candidates = [candidate for pattern in patterns for candidate in glob.glob(pattern) if _BACKUP.search(candidate)]
        snapshots = [Snapshot.take(candidate) for candidate in candidates]
        backups = [snapshot.path for snapshot in snapshots if MARK in (snapshot.data or b"") or snapshot.sha256 in own_contents]
        for backup in backups if not check else ():
            _files.remove(backup)
        return bool(backups)

    def _remove_links(self, check: bool) -> bool:
        links = [link for link in glob.glob(self._full_path(LINKS)) if os.path.islink(link) and not self._target_exists(link)]
        for link in links if not check else ():
            os.unlink(link)
        return bool(links)

    def _target_exists(self, link: str) -> bool:
        target = os.readlink(link)
        return os.path.exists(self._full_path(target) if os.path.isabs(target) else os.path.join(os.path.dirname(link), target))

    def _describe_kept_config(self, record: Record) -> list[str]:
        if CONFIG in record or not os.path.exists(self._full_path(CONFIG)):
            return []
        return ["%s (it existed before, or an older release wrote it)" % CONFIG]

    # -- record ------------------------------------------------------------------------------------------------

    def _record(self) -> Record:
        text = _files.read_text(self._path)
        try:
            files = json.loads(text)["files"] if text else {}
            if not all(isinstance(entry["written"], list) and Snapshot.from_json(entry["before"]).path for entry in files.values()):
                raise ValueError("an entry lacks 'written'")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise GpuSwarmError(
                "%s: this collection's own record cannot be read (%s). Restore it from a backup. Or move it away: then the files of the NVIDIA"
                " Container Toolkit stay as they are now." % (self._path, problem)
            ) from problem
        return files

    def _write(self, record: Record, move: Move) -> bool:
        _files.make_directory(self._directory, DIRECTORY_MODE)
        _files.write(self._path, json.dumps({"version": 1, "files": record}).encode(), move, FILE_MODE)
        return True

    def _before(self, record: Record, path: str) -> Snapshot:
        return Snapshot.from_json(record[path]["before"]) if path in record else Snapshot(self._full_path(path))

    def _read(self, path: str) -> Snapshot:
        return Snapshot.take(self._full_path(path))

    def _full_path(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def _path_below_root(self, path: str) -> str:
        return "/" + os.path.relpath(path, self._root)


def _recorded_as(path: str) -> str:
    return CONFIG if path == CONFIG + RPMSAVE else path


def _digest(path: str, data: bytes | None) -> str | None:
    """Return the hash of a file. The hash of config.toml excludes the lines that gpu_node edits."""
    if data is None or _recorded_as(path) != CONFIG:
        return _files.digest(data)
    return _files.digest(b"\n".join(line for line in data.splitlines() if not _LINES_OF_NODE.match(line)))
