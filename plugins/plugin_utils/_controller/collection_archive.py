# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installed collections as the archives that ansible-galaxy installs: the files that MANIFEST.json and FILES.json list, which is all that such an
archive has.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...module_utils._errors import GpuSwarmError

MANIFEST, FILES, SOURCE = "MANIFEST.json", "FILES.json", "galaxy.yml"
# Where a collection is, by its name; None where it is not installed.
Find = Callable[[str], "Path | None"]
# Makes the archive of a collection's source, a folder with galaxy.yml, in a directory.
Build = Callable[[Path, Path], None]


@dataclass(frozen=True)
class Collection:
    name: str  # namespace.name
    version: str
    path: Path
    dependencies: dict[str, str]

    @property
    def archive(self) -> str:
        return f"{self.name.replace('.', '-')}-{self.version}.tar.gz"

    @property
    def is_source(self) -> bool:
        return not (self.path / MANIFEST).exists()


def described(path: Path) -> Collection:
    """The collection in a folder, installed or a checkout of its source. Raises GpuSwarmError where it is none."""
    try:
        installed = (path / MANIFEST).exists()
        found = json.loads((path / MANIFEST).read_text())["collection_info"] if installed else yaml.safe_load((path / SOURCE).read_text())
        return Collection(f"{found['namespace']}.{found['name']}", str(found["version"]), path, found.get("dependencies") or {})
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as problem:
        raise GpuSwarmError(f"{path} is no collection that can be packed: {problem}. Install it with ansible-galaxy.") from None


def with_dependencies(name: str, find: Find) -> list[Collection]:
    """The collection of that name and all that it needs. Raises GpuSwarmError where one is not installed."""
    found: dict[str, Collection] = {}
    wanted = [name]
    while wanted:
        one = wanted.pop()
        if one in found:
            continue
        path = find(one)
        if path is None:
            raise GpuSwarmError(f"the collection {one} is not installed here. Install it: ansible-galaxy collection install {one}")
        found[one] = described(path)
        wanted.extend(found[one].dependencies)
    return sorted(found.values(), key=lambda collection: collection.name)


def pack(collection: Collection) -> bytes:
    """The archive of an installed collection, the same bytes each time. Raises GpuSwarmError where a file is not what FILES.json says."""
    plain, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in _members(collection):
            member = tar.gettarinfo(str(path), name)
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644
            with open(path, "rb") if member.isreg() else io.BytesIO() as content:
                tar.addfile(member, content)
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def _members(collection: Collection) -> Iterator[tuple[str, Path]]:
    yield from ((name, collection.path / name) for name in (MANIFEST, FILES))
    for entry in json.loads((collection.path / FILES).read_text())["files"]:
        path = collection.path / entry["name"]
        if entry["name"] == ".":
            continue
        if not _is_as_listed(entry, path):
            raise GpuSwarmError(
                f"{path} is not the file of {collection.name} {collection.version}: it was changed after the installation. "
                f"Install it anew: ansible-galaxy collection install --force {collection.name}"
            )
        yield entry["name"], path


def _is_as_listed(entry: dict[str, Any], path: Path) -> bool:
    if entry["ftype"] == "dir":
        return path.is_dir()
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == entry["chksum_sha256"]


def build(source: Path, folder: Path) -> None:
    """The archive of a checkout, made by ansible-galaxy."""
    command = ["ansible-galaxy", "collection", "build", "--force", "--output-path", str(folder), str(source)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GpuSwarmError(f"{source} cannot be packed: {' '.join(done.stderr.split())}")


def put(collection: Collection, folder: Path, builder: Build = build) -> bool:
    """Whether the archive in the folder is another one now."""
    target = folder / collection.archive
    before = target.read_bytes() if target.exists() else None
    if collection.is_source:
        builder(collection.path, folder)
    else:
        target.write_bytes(pack(collection))
    return before != target.read_bytes()


def checksums(folder: Path, listed: str) -> str:
    """Each file below the folder but ``listed`` itself, as ``sha256sum --check`` reads it."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(f"{hashlib.sha256((folder / path).read_bytes()).hexdigest()}  {path}\n" for path in paths if path != listed)
