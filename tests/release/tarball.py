# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m tests.release.tarball: makes the tarball of a release, with the same bytes on every machine.

ansible-galaxy would write the time of the build into it, and the file system's order of files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.runner.model import BIN, BUILD, ROOT
from tests.runner.tree import copy_to

# Files that Galaxy reads first come first.
LISTS = ("MANIFEST.json", "FILES.json")


def as_json(value: object) -> bytes:
    """Return JSON in the form of ansible-galaxy."""
    return json.dumps(value, indent=True).encode()


def in_order(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return both lists with the files sorted by name."""
    files, manifest = json.loads(contents["FILES.json"]), json.loads(contents["MANIFEST.json"])
    files["files"].sort(key=lambda entry: entry["name"])
    listed = as_json(files)
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(listed).hexdigest()
    return {**contents, "MANIFEST.json": as_json(manifest), "FILES.json": listed}


def described(member: tarfile.TarInfo, size: int, mtime: int) -> tarfile.TarInfo:
    """Return the member without traces of the packing machine: no owner, no time, no link to a file with the same bytes."""
    found = tarfile.TarInfo(member.name)
    found.type = tarfile.REGTYPE if member.islnk() else member.type
    found.linkname = member.linkname if member.issym() else ""
    found.mode, found.size, found.mtime = member.mode, size, mtime
    return found


def normalised(tarball: bytes, mtime: int) -> bytes:
    """Repack the collection with an order and times that do not depend on the builder."""
    with tarfile.open(fileobj=io.BytesIO(tarball)) as tar:
        members = {member.name: member for member in tar.getmembers()}
        contents = {name: found.read() for name, member in members.items() if (found := None if member.issym() else tar.extractfile(member))}
    contents = in_order(contents)
    plain, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in [*LISTS, *sorted(members.keys() - {*LISTS})]:
            content = contents.get(name, b"")
            tar.addfile(described(members[name], len(content), mtime), io.BytesIO(content))
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=9, mtime=0) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def built(source: Path, folder: Path) -> Path:
    """Return the tarball that ansible-galaxy builds from a folder."""
    command = [str(BIN / "ansible-galaxy"), "collection", "build", "--force", "--output-path", str(folder), str(source)]
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return next(folder.glob("*.tar.gz"))


def tarball(source: Path, folder: Path, mtime: int) -> Path:
    """Make the tarball of a release in ``folder`` from the files in ``source``."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as work:
        made = built(source, Path(work))
        target = folder / made.name
        target.write_bytes(normalised(made.read_bytes(), mtime))
    return target


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def released_at(environment: Mapping[str, str]) -> int:
    """Return SOURCE_DATE_EPOCH, as reproducible-builds.org defines it, or else the time of the commit."""
    given = environment.get("SOURCE_DATE_EPOCH", "")
    if given and not (given.isascii() and given.isdigit()):
        sys.exit(f"tarball: SOURCE_DATE_EPOCH={given!r} is no number of seconds since 1970: unset it for the commit's date, or fix it")
    return int(given or git("log", "-1", "--format=%ct"))


def main() -> None:
    mtime = released_at(os.environ)
    with TemporaryDirectory() as work:
        copy_to(Path(work) / "source")
        made = tarball(Path(work) / "source", BUILD, mtime)
    changed = git("status", "--porcelain").splitlines()
    print(f"of commit {git('rev-parse', 'HEAD')}" + (f", and {len(changed)} files that differ from it: not for a release" if changed else ""))
    print(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {made.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
