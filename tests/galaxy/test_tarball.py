# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tarball of a release has the same bytes on every machine, and Galaxy's client verifies the tarball."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from pathlib import Path

import pytest

from tests.release import tarball

ROOT = Path(__file__).resolve().parents[2]
WHEN = 1_700_000_000


def another_checkout(source: Path, target: Path) -> None:
    """Copy the files as on another machine: created in another order, at another time, with another umask."""
    for path in sorted((path for path in source.rglob("*") if path.is_file()), reverse=True):
        (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path.relative_to(source))
        (target / path.relative_to(source)).chmod(0o700 if path.stat().st_mode & stat.S_IXUSR else 0o600)
        os.utime(target / path.relative_to(source), (12345, 12345))


def walked_backwards(packed: bytes) -> bytes:
    """Make the tarball like ansible-galaxy on a file system that lists its files in reverse order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar, tarfile.open(fileobj=out, mode="w:gz") as other:
        files, manifest = (json.load(tar.extractfile(name)) for name in ("FILES.json", "MANIFEST.json"))
        files["files"].reverse()
        changed = {"FILES.json": json.dumps(files, indent=True).encode()}
        manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(changed["FILES.json"]).hexdigest()
        changed["MANIFEST.json"] = json.dumps(manifest, indent=True).encode()
        for member in reversed(tar.getmembers()):
            content = changed.get(member.name) or (tar.extractfile(member).read() if member.isfile() else b"")
            member.size, member.uid, member.uname = len(content), 1000, "somebody"
            other.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture(scope="module")
def elsewhere(installed, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return ansible-galaxy's build of another checkout on another file system."""
    folder = tmp_path_factory.mktemp("elsewhere")
    another_checkout(installed.root / "source", folder / "source")
    return walked_backwards(tarball.built(folder / "source", folder).read_bytes())


def test_two_checkouts_give_the_same_bytes(installed, elsewhere, tmp_path):
    here = tarball.built(installed.root / "source", tmp_path).read_bytes()
    assert hashlib.sha256(here).digest() != hashlib.sha256(elsewhere).digest(), "nothing is left to normalise"
    made = tarball.normalised(elsewhere, WHEN)
    assert hashlib.sha256(tarball.normalised(here, WHEN)).hexdigest() == hashlib.sha256(made).hexdigest()
    assert hashlib.sha256(tarball.normalised(made, WHEN)).hexdigest() == hashlib.sha256(made).hexdigest()
    # The installed collection has the same files, with the time of the release.
    assert gzip.decompress(installed.tarball.read_bytes()) == gzip.decompress(tarball.normalised(elsewhere, installed.mtime))


def test_the_tarball_reveals_nothing_about_its_builder(installed, elsewhere):
    made = tarball.normalised(elsewhere, WHEN)
    assert made[4:8] == b"\0\0\0\0", "the time in gzip's header"
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        members = tar.getmembers()
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", WHEN)}
        assert {m.mode for m in members} <= {0o755, 0o644}
        names = [m.name for m in members]
        manifest, files = (tar.extractfile(name).read() for name in tarball.LISTS)
    assert names == ["MANIFEST.json", "FILES.json", *sorted(names[2:])]
    listed = [entry["name"] for entry in json.loads(files)["files"]]
    assert listed == [".", *names[2:]]
    assert json.loads(manifest)["file_manifest_file"]["chksum_sha256"] == hashlib.sha256(files).hexdigest()


def verify(installed):
    return installed.run("ansible-galaxy", "collection", "verify", "--offline", installed.fqcn)


def test_galaxy_verifies_the_installed_collection(installed):
    done = verify(installed)
    assert done.returncode == 0, done.stdout + done.stderr
    victim = installed.collection / "README.md"
    was = victim.read_bytes()
    victim.write_bytes(was + b"\n")
    try:
        done = verify(installed)
        assert done.returncode != 0
        assert "README.md" in done.stdout + done.stderr
    finally:
        victim.write_bytes(was)


def test_an_invalid_date_is_refused():
    assert tarball.released_at({"SOURCE_DATE_EPOCH": "1700000000"}) == WHEN
    with pytest.raises(SystemExit, match="SOURCE_DATE_EPOCH='yesterday' is no number of seconds"):
        tarball.released_at({"SOURCE_DATE_EPOCH": "yesterday"})


def test_without_a_date_the_one_of_the_commit_counts():
    assert tarball.released_at({}) == int(tarball.git("log", "-1", "--format=%ct"))
