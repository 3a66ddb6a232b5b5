# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Opens the record's SQLite file: for the recorder, which sets an unusable file aside, and for readers without write access.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import time
from typing import Any, Iterator
from urllib.parse import quote

from .._errors import GpuSwarmError
from .schema import APPLICATION, FILE, TABLES, VERSION

try:
    import sqlite3
except ImportError:  # some distributions have it in a package of its own
    sqlite3 = None

MODE = 0o640
NO_SQLITE = "Nothing is recorded: this machine's Python has no module sqlite3. Install the package with it, such as python3-libs."
_ASIDE = ".set-aside-"
# The pause after a reading is a hundred times as long as the reading. So a long wait for the file would also delay the metrics.
WRITER_WAITS_S, _READER_WAITS_S = 1.0, 2.0
_FREED_PAGES = 500
_OTHER_FILES = ("-journal", "-wal", "-shm")  # SQLite's own files beside the database


class RecordError(GpuSwarmError):
    """The record cannot be read or written. ``is_unusable``: it never will be, so the recorder must begin a new one."""

    def __init__(self, message: str, is_unusable: bool = False) -> None:
        super().__init__(message)
        self.is_unusable = is_unusable


def storable(text: Any, most: int = 1000) -> str:
    """Return a text from the API or a user in a form that SQLite can store: without lone surrogates, and not too long."""
    return str(text)[:most].encode("utf-8", "replace").decode("utf-8")


def path_in(directory: str) -> str:
    return os.path.join(directory, FILE)


class Database:
    """The record of one directory, for its only writer. Methods raise GpuSwarmError."""

    def __init__(self, directory: str) -> None:
        self.path = path_in(directory)
        self.findings: list[str] = []  # what happened to the file since the caller last cleared the list
        self._connection: Any = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Open the record if necessary, and yield its connection in one transaction. An error changes nothing. An unusable file is set aside."""
        try:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
                _give_back_pages(connection)
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        except RecordError as problem:
            self._give_up(problem)
            raise
        except (sqlite3.Error, OSError) as problem:
            error = error_of(problem, self.path)
            self._give_up(error)
            raise error from problem

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self) -> Any:
        if sqlite3 is None:
            raise RecordError(NO_SQLITE)
        if self._connection is not None and not os.path.exists(self.path):
            self.close()  # somebody removed the file
        if self._connection is None:
            try:
                self._connection = _open_for_writing(self.path)
            except (sqlite3.Error, RecordError) as problem:
                self._give_up(problem if isinstance(problem, RecordError) else error_of(problem, self.path))
                self._connection = _open_for_writing(self.path)
        return self._connection

    def _give_up(self, problem: RecordError) -> None:
        """Close the file. If it is unusable, set it aside, so that the next transaction begins a new one. Otherwise raise ``problem``."""
        self.close()
        if not problem.is_unusable:
            raise problem
        aside = _set_aside(self.path)
        self.findings.append("%s It is now %s, and a new record begins." % (problem.message, aside))


def _open_for_writing(path: str) -> Any:
    _create_with_mode(path)
    connection = sqlite3.connect(path, timeout=WRITER_WAITS_S, isolation_level=None)
    try:
        is_new = _check(connection, path)
        if not is_new and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":  # 0.6 s for 500 MiB
            raise RecordError("%s is corrupt: some of its pages are damaged." % path, is_unusable=True)
        if is_new:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # effective only before the first table
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute("PRAGMA synchronous = NORMAL")
        if is_new:
            connection.executescript(
                "BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;" % (TABLES, APPLICATION, VERSION)
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _give_back_pages(connection: Any) -> None:
    """Make the file smaller, a few MiB at a time, if many of its pages are unused. ``execute`` would give back only one page."""
    if connection.execute("PRAGMA freelist_count").fetchone()[0] > _FREED_PAGES:
        connection.executescript("PRAGMA incremental_vacuum(%d);" % _FREED_PAGES)


def _create_with_mode(path: str) -> None:
    """Create the file if it is missing, so that SQLite gives its journal the same mode and group. Follow no link."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
    try:
        _require_file(handle, path)
        os.fchmod(handle, MODE)
        group = os.stat(os.path.dirname(path)).st_gid
        if os.fstat(handle).st_gid != group:
            with contextlib.suppress(PermissionError):  # the service may not, and needs not: a new file has the group of its setgid folder
                os.fchown(handle, -1, group)
    finally:
        os.close(handle)


def _require_file(handle: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise RecordError("%s is not a file. Remove it, and the managers' service begins a new record." % path)


def _check(connection: Any, path: str) -> bool:
    """Return whether the file is new and empty. Raises RecordError if it is no record of this version."""
    application, version = (connection.execute("PRAGMA " + name).fetchone()[0] for name in ("application_id", "user_version"))
    if (application, version) == (APPLICATION, VERSION):
        return False
    if application == APPLICATION and version > VERSION:
        raise RecordError("The record %s is of a newer release of this collection (version %d)." % (path, version), is_unusable=True)
    if (application, version) == (0, 0) and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return True
    raise RecordError("%s is not a record of this collection." % path, is_unusable=True)


def _set_aside(path: str) -> str:
    """Rename the file, keep only the latest of such files, and return its new name."""
    aside = path + _ASIDE + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for other in _OTHER_FILES:
        with contextlib.suppress(OSError):
            os.unlink(path + other)
    os.replace(path, aside)
    for older in glob.glob(glob.escape(path + _ASIDE) + "*"):
        if older != aside:
            with contextlib.suppress(OSError):
                os.unlink(older)
    return aside


# -- readers ---------------------------------------------------------------------------------------------------------


def open_for_reading(directory: str) -> Any:
    """Return a connection for ``queries``. The caller closes it. Raises GpuSwarmError with one sentence that says what to do."""
    path = path_in(directory)
    if sqlite3 is None:
        raise RecordError(NO_SQLITE)
    _check_access(directory, path)
    connection = None
    try:
        connection = sqlite3.connect("file:%s?mode=ro" % quote(path), uri=True, timeout=_READER_WAITS_S, isolation_level=None)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        if _check(connection, path):
            raise RecordError(_not_yet(path))
    except (sqlite3.Error, RecordError) as problem:
        if connection is not None:
            connection.close()
        raise problem if isinstance(problem, RecordError) else error_of(problem, path) from problem
    return connection


def _check_access(directory: str, path: str) -> None:
    try:
        os.stat(directory)
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not wait for the writer of a pipe
        try:
            _require_file(handle, path)
        finally:
            os.close(handle)
    except PermissionError:
        raise RecordError("You may not read %s. Become root, or a member of the group docker." % path) from None
    except (FileNotFoundError, NotADirectoryError):
        if os.path.isdir(directory):
            raise RecordError(_not_yet(path)) from None
        raise RecordError(
            "Nothing is recorded on this machine: %s does not exist. Use a manager, and set gpu_swarm_record to true." % directory
        ) from None
    except OSError as problem:
        raise error_of(problem, path) from problem


def _not_yet(path: str) -> str:
    return "Nothing is recorded yet in %s. The managers' service writes it; see: systemctl status gpu-swarm-manager." % path


def error_of(problem: Exception, path: str = "The record") -> RecordError:
    """Return the error for people. Python 3.8 has no error codes of SQLite, so the texts decide."""
    text = str(getattr(problem, "strerror", None) or problem)
    if isinstance(problem, OSError):
        return RecordError("The record cannot be used: %s: %s." % (path, text))
    if "locked" in text or "busy" in text:
        return RecordError("%s is in use at the moment. Try again." % path)
    if "readonly" in text or "unable to open" in text:
        return RecordError(
            "%s was interrupted in the middle of a write (%s). It is readable again when the managers' service runs:"
            " systemctl restart gpu-swarm-manager." % (path, text)
        )
    if "full" in text or "disk I/O" in text:
        return RecordError("%s cannot be written: %s. Make room on its disk." % (path, text))
    # SQLite's module reports a corrupt file as DatabaseError itself. A subclass is another problem, except for a missing table.
    if problem.__class__ is sqlite3.DatabaseError or "no such" in text:
        return RecordError("%s is corrupt: %s." % (path, text), is_unusable=True)
    return RecordError("%s cannot be used: %s." % (path, text))
