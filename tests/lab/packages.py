# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds stand-ins for the toolkit's packages as real .deb files, in signed apt repositories that the lab serves to its nodes.

The layout is that of https://nvidia.github.io/libnvidia-container. Beside it is a small Debian mirror for each release, with the few packages that a
role may install on a node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache as once
from pathlib import Path

import jinja2
import yaml

from . import rootfs
from .daemon import need
from .digest import content, digest
from .lab import HERE, REPOSITORY_HOST, Lab, LabError
from .toolkit.lab_toolkit.versions import does

SOURCES = HERE / "toolkit"
NEEDED = {"dpkg-deb": "dpkg", "apt-ftparchive": "apt-utils", "gpg": "gpg", "gpgconf": "gpgconf"}
GPG = ("gpg", "--batch", "--yes", "--armor")
NVIDIA = "libnvidia-container"  # the folder's name under the repository's root
URL = f"http://{REPOSITORY_HOST}/{NVIDIA}"
KEYRING = "usr/share/keyrings/gpu-swarm-lab.asc"
BASE = "nvidia-container-toolkit-base"  # has the program nvidia-ctk
MAINTAINER = "the fleet.gpu_swarm lab <lab@localhost>"


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
    return done.stdout


def architecture() -> str:
    return run("dpkg", "--print-architecture").strip()


def table() -> dict:
    return yaml.safe_load((SOURCES / "packages.yml").read_text())


@once
def key() -> str:
    """Return a digest that changes with everything in the packages."""
    files = sorted(path for path in SOURCES.rglob("*") if path.is_file() and path.suffix != ".pyc")
    parts = [f"{path.relative_to(SOURCES)} {content(path)}" for path in files]
    return digest(*parts, content(Path(__file__)))


def _control(name: str, version: str, package: dict) -> str:
    lines = [f"Package: {name}", f"Version: {version}", f"Architecture: {architecture()}", f"Maintainer: {MAINTAINER}"]
    relations = {"Depends": package["depends"], "Breaks": package.get("breaks"), "Replaces": package.get("breaks")}
    lines += [f"{field}: {words.replace('VERSION', version)}" for field, words in relations.items() if words]
    return "\n".join([*lines, "Section: utils", "Priority: optional", "Description: stand-in for tests", ""])


def _deb(name: str, version: str, package: dict, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work)
        (tree / "DEBIAN").mkdir()
        (tree / "DEBIAN/control").write_text(_control(name, version, package))
        (tree / "DEBIAN/conffiles").write_text("".join(f"{path}\n" for path in package.get("conffiles", [])))
        lay_out(name, version, package, tree)
        for script, text in scripts(name, version, package).items():
            (tree / "DEBIAN" / script).write_text(text)
            (tree / "DEBIAN" / script).chmod(0o755)
        tree.chmod(0o755)
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(tree), str(folder / deb(name, version)))


def lay_out(name: str, version: str, package: dict, tree: Path) -> None:
    """Copy the files of a package into ``tree``, with the same paths as on a node."""
    for source, target in package["files"].items():
        (tree / target).parent.mkdir(parents=True, exist_ok=True)
        if (SOURCES / source).is_dir():
            shutil.copytree(SOURCES / source, tree / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(SOURCES / source, tree / target)
    if name == BASE:
        (tree / "usr/lib/gpu-lab/toolkit/version").write_text(version.split("-")[0] + "\n")


def scripts(name: str, version: str, package: dict) -> dict[str, str]:
    """Return the scripts that dpkg runs. The keys are dpkg's names of the scripts."""
    found = {script: (SOURCES / source).read_text() for script, source in package.get("scripts", {}).items()}
    if name == BASE:
        template = jinja2.Template((SOURCES / "postinst.base").read_text(), keep_trailing_newline=True)
        found["postinst"] = template.render(reloads=does(version, "reloads-systemd"))
        found["prerm"] = "#!/bin/sh\nset -e\nrm -rf /usr/lib/gpu-lab/toolkit/lab_toolkit/__pycache__\n"
    return found


def _wanted() -> Iterator[tuple[str, str, dict]]:
    document = table()
    for version in document["versions"]:
        for name, package in document["packages"].items():
            yield name, version, package
    for name, package in document["retired"].items():
        yield name, package["version"], package


def deb(name: str, version: str) -> str:
    return f"{name}_{version}_{architecture()}.deb"


def _sign(lab: Lab, folder: Path) -> None:
    """Make a flat apt repository from a folder of packages."""
    (folder / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=folder))
    origin = "APT::FTPArchive::Release::Origin=gpu-swarm-lab"
    (folder / "Release").write_text(run("apt-ftparchive", "-o", origin, "release", ".", cwd=folder))
    sign(lab, folder)


def sign(lab: Lab, folder: Path) -> None:
    """Sign the Release file of a repository."""
    home = {"GNUPGHOME": str(lab.run / "signing")}
    try:
        run(*GPG, "--output", "InRelease", "--clearsign", "Release", cwd=folder, env=home)
        run(*GPG, "--output", "Release.gpg", "--detach-sign", "Release", cwd=folder, env=home)
    finally:
        _end_agent(lab)


def sign_file(lab: Lab, path: Path) -> None:
    """Write the signature beside the file. Repositories of RPM packages have their signatures there."""
    try:
        run(*GPG, "--detach-sign", str(path), env={"GNUPGHOME": str(lab.run / "signing")})
    finally:
        _end_agent(lab)


def _make_key(lab: Lab) -> str:
    """Make the signing key, and return its public part.

    The key is in the lab's folder under /run. The path is short enough for the agent's socket, and the lab removes the folder at its end.
    """
    home = lab.run / "signing"
    env = {"GNUPGHOME": str(home)}
    if not home.exists():
        home.mkdir(mode=0o700)
        made = ("gpg", "--batch", "--passphrase", "", "--quick-generate-key", MAINTAINER, "rsa3072", "sign", "never")
        run(*made, env=env)
    return run("gpg", "--armor", "--export", env=env)


def publish(lab: Lab, releases: set[str]) -> None:
    """Make the content of http://lab-repo/. Make it again if its sources have changed."""
    stamp = lab.repository / ".key"
    if not stamp.exists() or stamp.read_text() != key():
        need(NEEDED)
        work = lab.repository / ".new"
        shutil.rmtree(work, ignore_errors=True)
        _publish_nvidia(lab, work)
        shutil.rmtree(lab.repository / NVIDIA, ignore_errors=True)
        work.rename(lab.repository / NVIDIA)
        stamp.write_text(key())
    for release in releases:
        if not (lab.repository / release).exists():
            _publish_mirror(lab, release)


def _publish_nvidia(lab: Lab, work: Path) -> None:
    folder = work / "stable" / "deb" / architecture()
    folder.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        for built in [pool.submit(_deb, *package, folder) for package in _wanted()]:
            built.result()
    try:
        (work / "gpgkey").write_text(_make_key(lab))
        _sign(lab, folder)
    finally:
        _end_agent(lab)
    (folder.parent / "nvidia-container-toolkit.list").write_text(f"deb {URL}/stable/deb/$(ARCH) /\n#deb {URL}/experimental/deb/$(ARCH) /\n")


def fingerprint(lab: Lab) -> str:
    """Return the fingerprint of the key that signs the lab's repositories."""
    with tempfile.TemporaryDirectory() as home:  # even to show a file, gpg writes a keyring, by default into the user's home
        shown = run("gpg", "--batch", "--with-colons", "--show-keys", str(lab.repository / NVIDIA / "gpgkey"), env={"GNUPGHOME": home})
    return next(line.split(":")[9] for line in shown.splitlines() if line.startswith("fpr:"))


def _publish_mirror(lab: Lab, release: str) -> None:
    work = lab.repository / f".{release}"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(rootfs.cached(release) / "mirror", work)
    _sign(lab, work)
    work.rename(lab.repository / release)


def _end_agent(lab: Lab) -> None:
    """Stop the agent that gpg started, because gpg leaves it running."""
    run("gpgconf", "--kill", "all", env={"GNUPGHOME": str(lab.run / "signing")})


def apt_files(lab: Lab, release: str) -> dict[str, tuple[bytes, int]]:
    """Return files that make the lab's mirror a node's only source of Debian packages."""
    source = f"deb [signed-by=/{KEYRING}] http://{REPOSITORY_HOST}/{release} ./\n"
    return {
        KEYRING: ((lab.repository / NVIDIA / "gpgkey").read_bytes(), 0o644),
        "etc/apt/sources.list.d/debian.list": (source.encode(), 0o644),
    }


def debs(lab: Lab, toolkit: str | None, retired: Iterable[str]) -> list[Path]:
    """Return the packages that a node has from the start."""
    folder = lab.repository / NVIDIA / "stable" / "deb" / architecture()
    return [folder / deb(name, version) for name, version in chosen(toolkit, retired)]


def chosen(toolkit: str | None, retired: Iterable[str]) -> list[tuple[str, str]]:
    """Return the four packages of one toolkit version and its wanted predecessors, in an order that dpkg can install."""
    document = table()
    unknown = [name for name in retired if name not in document["retired"]]
    if unknown:
        raise LabError(f"there is no retired package {unknown[0]}; there are: {', '.join(document['retired'])}")
    full = toolkit if not toolkit or "-" in toolkit else f"{toolkit}-1"
    if full and full not in document["versions"]:
        raise LabError(f"there is no toolkit {toolkit}; there are: {', '.join(document['versions'])}")
    wanted = [(name, full) for name in reversed(document["packages"]) if full]
    return wanted + [(name, document["retired"][name]["version"]) for name in retired]
