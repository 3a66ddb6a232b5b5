# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record's file: its mode, what happens to an unusable file, and what a reader is told."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import database, queries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import Database, RecordError, open_for_reading


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fleet.db"


def write(record, value=7):
    with record.transaction() as db:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('last_reading', ?)", (value,))


def read(directory):
    db = open_for_reading(str(directory))
    try:
        return queries.last_reading(db)
    finally:
        db.close()


def test_the_file_is_for_root_and_the_group_of_the_folder(tmp_path, path):
    old = os.umask(0o077)
    try:
        write(Database(str(tmp_path)))
    finally:
        os.umask(old)
    assert read(tmp_path) == 7
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert file.stat().st_gid == tmp_path.stat().st_gid


def test_the_file_has_the_promised_form(tmp_path, path):
    record = Database(str(tmp_path))
    with record.transaction() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
        assert db.execute("PRAGMA synchronous").fetchone() == (1,)
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def test_an_error_changes_nothing(tmp_path):
    record = Database(str(tmp_path))
    write(record)
    with pytest.raises(ZeroDivisionError), record.transaction() as db:
        db.execute("DELETE FROM meta").fetchall()[0 / 0]
    assert read(tmp_path) == 7


def garbage(path):
    path.write_bytes(b"no database at all" * 100)


def torn(path):
    """Overwrite all pages after the first."""
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * (size - 4096))


def one_page(path):
    """Damage a page that the recorder never reads."""
    with sqlite3.connect(path) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_by_since'").fetchone()
    with path.open("r+b") as stream:
        stream.seek((page - 1) * 4096)
        stream.write(b"\xff" * 4096)


def newer(path):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")


def foreign(path):
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (x)")


def incomplete(path):
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE meta")


@pytest.mark.parametrize("damage", [garbage, torn, one_page, newer, foreign, incomplete])
def test_an_unusable_file_is_set_aside_and_a_new_record_begins(damage, tmp_path, path):
    record = Database(str(tmp_path))
    write(record)
    record.close()
    damage(path)
    (tmp_path / "fleet.db.set-aside-20200101T000000Z").touch()
    bad = path.read_bytes()
    if damage is not one_page:
        with pytest.raises(RecordError):
            read(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database.time, "strftime", lambda *dummy: "20261128T000000Z")
        with contextlib.suppress(RecordError):  # what is noticed in a write costs this write
            write(record, 8)
        write(record, 8)
    assert read(tmp_path) == 8
    assert len(record.findings) == 1
    assert "fleet.db.set-aside-20261128T000000Z, and a new record begins." in record.findings[0]
    assert [file.name for file in sorted(tmp_path.glob("*aside*"))] == ["fleet.db.set-aside-20261128T000000Z"]
    if damage is not newer:
        assert (tmp_path / "fleet.db.set-aside-20261128T000000Z").read_bytes() == bad


def test_a_removed_file_is_written_anew(tmp_path, path):
    record = Database(str(tmp_path))
    write(record)
    path.unlink()
    write(record, 8)
    assert read(tmp_path) == 8
    assert record.findings == []


def test_a_link_is_not_followed(tmp_path, path):
    other = tmp_path / "other"
    other.write_text("")
    path.symlink_to(other)
    with pytest.raises(RecordError, match="cannot be used"):
        write(Database(str(tmp_path)))
    assert other.read_text() == ""


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_neither_waited_for_nor_replaced(make, tmp_path, path):
    make(path)
    for use in (lambda: write(Database(str(tmp_path))), lambda: read(tmp_path)):
        with pytest.raises(RecordError, match=r"fleet\.db"):
            use()
    assert not path.is_file()


def test_a_missing_folder_is_said_and_not_made(tmp_path):
    with pytest.raises(RecordError, match=r"record/fleet\.db: No such file"):
        write(Database(str(tmp_path / "record")))


def test_a_full_disk_is_said_and_keeps_the_record(tmp_path, path):
    record = Database(str(tmp_path))
    write(record)
    with record.transaction() as db:
        db.execute("PRAGMA max_page_count = 40")
    with pytest.raises(RecordError, match=r"full\. Make room on its disk"), record.transaction() as db:
        db.execute("INSERT INTO meta VALUES ('x', zeroblob(1000000))")
    write(record, 8)
    assert read(tmp_path) == 8


def test_without_the_module_sqlite3_nothing_fails_but_the_record(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "sqlite3", None)
    for use in (lambda: write(Database(str(tmp_path))), lambda: read(tmp_path)):
        with pytest.raises(RecordError, match="no module sqlite3"):
            use()


# -- readers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("nowhere", r"Nothing is recorded on this machine: \S+/nowhere does not exist"),
        ("", r"Nothing is recorded yet in \S+/fleet\.db"),
    ],
)
def test_a_reader_is_told_why_there_is_no_record(folder, said, tmp_path):
    with pytest.raises(RecordError, match=said):
        read(tmp_path / folder)


def test_an_empty_file_means_not_yet(tmp_path, path):
    path.touch()
    with pytest.raises(RecordError, match="Nothing is recorded yet"):
        read(tmp_path)
    assert path.stat().st_size == 0


def test_a_reader_works_while_the_writer_writes(tmp_path):
    record = Database(str(tmp_path))
    write(record)
    with record.transaction() as db:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('last_reading', 8)")
        assert read(tmp_path) == 7
    assert read(tmp_path) == 8


def test_a_reader_writes_nothing(tmp_path):
    write(Database(str(tmp_path)))
    db = open_for_reading(str(tmp_path))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM meta")


def killed_in_a_write(directory):
    """Return a copy of the record as a kill leaves it: with the journal of an unfinished transaction, and changed pages."""
    record = Database(str(directory / "first"))
    write(record)
    with record.transaction() as db:
        db.execute("PRAGMA cache_size = 1")  # so that SQLite writes pages before the end of the transaction
        db.executemany("INSERT INTO meta VALUES (?, zeroblob(5000))", [(str(number),) for number in range(100)])
        shutil.copytree(directory / "first", directory / "killed")
    return directory / "killed"


def test_a_kill_in_a_write_is_said_to_a_reader_and_repaired_by_the_writer(tmp_path):
    (tmp_path / "first").mkdir()
    killed = killed_in_a_write(tmp_path)
    assert (killed / "fleet.db-journal").stat().st_size > 512
    with pytest.raises(RecordError, match=r"interrupted in the middle of a write .* systemctl restart"):
        read(killed)
    record = Database(str(killed))
    with record.transaction() as db:
        assert db.execute("SELECT value FROM meta").fetchall() == [(7,)]
    assert record.findings == []
    assert read(killed) == 7
