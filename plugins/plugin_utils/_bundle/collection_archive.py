# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packs installed collections into archives that ansible-galaxy can install. An archive has the files that FILES.json lists and that exist. The
package ``ansible`` omits tests and hidden files of its collections, so FILES.json and MANIFEST.json are written again.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from ...module_utils._errors import GpuSwarmError

MANIFEST, FILES, SOURCE = "MANIFEST.json", "FILES.json", "galaxy.yml"
# Returns the folder of the collection with this name; None if the collection is not installed.
Find = Callable[[str], "Path | None"]
# Builds the archive of a collection's source (a folder with galaxy.yml) in a directory.
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


def read_collection(path: Path) -> Collection:
    """Read the collection in a folder, either installed or a checkout of its source. Raise GpuSwarmError if it is not a collection."""
    try:
        installed = (path / MANIFEST).exists()
        info = json.loads((path / MANIFEST).read_text())["collection_info"] if installed else yaml.safe_load((path / SOURCE).read_text())
        return Collection(f"{info['namespace']}.{info['name']}", str(info["version"]), path, info.get("dependencies") or {})
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as problem:
        raise GpuSwarmError(f"{path} is not a collection that can be packed: {problem}. Install it with ansible-galaxy.") from None


def with_dependencies(name: str, find: Find) -> list[Collection]:
    """Return the collection with this name and all its dependencies. Raises GpuSwarmError if one of them is not installed."""
    collections: dict[str, Collection] = {}
    wanted = [name]
    while wanted:
        dependency = wanted.pop()
        if dependency in collections:
            continue
        path = find(dependency)
        if path is None:
            raise GpuSwarmError(f"the collection {dependency} is not installed here. Install it: ansible-galaxy collection install {dependency}")
        collections[dependency] = read_collection(path)
        wanted.extend(collections[dependency].dependencies)
    return sorted(collections.values(), key=lambda collection: collection.name)


def pack(collection: Collection) -> bytes:
    """Build the archive of an installed collection, with the same bytes each time. Raise GpuSwarmError if a file differs from FILES.json."""
    listed = json.loads((collection.path / FILES).read_text())
    entries = [entry for entry in listed["files"] if _is_there(collection, entry)]
    files = _as_json({**listed, "files": entries})
    manifest = json.loads((collection.path / MANIFEST).read_text())
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(files).hexdigest()
    plain, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in ((MANIFEST, _as_json(manifest)), (FILES, files)):
            tar.addfile(_member(name, 0o644, len(content)), io.BytesIO(content))
        for name in (entry["name"] for entry in entries if entry["name"] != "."):
            _add(tar, name, collection.path / name)
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def _as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _is_there(collection: Collection, entry: dict[str, Any]) -> bool:
    path = collection.path / entry["name"]
    if not path.exists() or entry["ftype"] == "dir":
        return path.is_dir()
    if hashlib.sha256(path.read_bytes()).hexdigest() != entry["chksum_sha256"]:
        raise GpuSwarmError(
            f"{path} is not the file of {collection.name} {collection.version}: it was changed after the installation. "
            f"Install it again: ansible-galaxy collection install --force {collection.name}"
        )
    return True


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    if path.is_dir():
        directory = _member(name, 0o755, 0)
        directory.type = tarfile.DIRTYPE
        tar.addfile(directory)
        return
    content = path.read_bytes()
    tar.addfile(_member(name, 0o755 if path.stat().st_mode & 0o100 else 0o644, len(content)), io.BytesIO(content))


def _member(name: str, mode: int, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.size = mode, size
    return member


def build(source: Path, folder: Path) -> None:
    """Build the archive of a checkout with the ansible-galaxy of the same Ansible, which may not be on the PATH of a virtual environment."""
    folder = folder.resolve()
    command = [sys.executable, "-m", "ansible", "galaxy", "collection", "build", "--force", "--output-path", str(folder), str(source.resolve())]
    # Do not start ansible-galaxy in the user's folder, because Python first looks for modules in the present folder.
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GpuSwarmError(f"{source} cannot be packed: {' '.join(done.stderr.split())}")


def put(collection: Collection, folder: Path, builder: Build = build) -> bool:
    """Write the archive into the folder, and return whether it changed."""
    target = folder / collection.archive
    if collection.is_source:
        with TemporaryDirectory() as work:
            builder(collection.path, Path(work))
            built = Path(work) / collection.archive
            if target.exists() and _listed(target) == _listed(built):
                return False  # ansible-galaxy writes the time into the archive
            target.write_bytes(built.read_bytes())
        return True
    content = pack(collection)
    if target.exists() and target.read_bytes() == content:
        return False
    target.write_bytes(content)
    return True


def _listed(archive: Path) -> bytes:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(FILES)
        return member.read() if member else b""


def checksums(folder: Path, listed: str) -> str:
    """Return the checksums of all files below the folder except ``listed`` itself, in the format of ``sha256sum --check``."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(f"{hashlib.sha256((folder / path).read_bytes()).hexdigest()}  {path}\n" for path in paths if path != listed)
