# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the stand-in packages of packages.py for rpm, in a repository with signed metadata and NVIDIA's layout.

Beside it is a repository for each release and family of the fleet, with packages of the node's distribution.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from . import families, packages
from .archive import Files
from .daemon import need
from .digest import content, digest
from .fleet import Node
from .lab import REPOSITORY_HOST, Lab
from .packages import BASE, NVIDIA, SOURCES, run

NEEDED = {"rpmbuild": "rpm", "createrepo_c": "createrepo-c", "dpkg-deb": "dpkg", "gpg": "gpg", "gpgconf": "gpgconf"}
KEY = "etc/lab-key.asc"
# rpmbuild must not process the files (strip, compress), because they are stand-ins.
PLAIN = ("--define", "debug_package %{nil}", "--define", "__os_install_post %{nil}", "--define", "_binary_payload w1.gzdio")
OPERATORS = {"<<": "<"}
# rpm also lists packages that dpkg installed. dnf takes $releasever from the version of system-release.
SYSTEM = ("Provides: /bin/sh", "Provides: python3", "Provides: system-release = {provides}")
# Plugins of dnf, by RHEL's package name: the names that the package provides, and its files in Debian's package of all plugins.
PLUGINS = {
    "python3-dnf-plugins-core": (
        ("Provides: dnf-command(download)",),
        ("usr/lib/python3/dist-packages/dnf-plugins/download.py", "usr/lib/python3/dist-packages/dnfpluginscore"),
    ),
    "python3-dnf-plugin-versionlock": (
        ("Provides: dnf-command(versionlock)", "Requires: python3-dnf-plugins-core"),
        ("usr/lib/python3/dist-packages/dnf-plugins/versionlock.py", "etc/dnf/plugins/versionlock.*"),
    ),
}
# If a test creates this file, the next package script kills rpm in the middle of its transaction, once.
KILL = "/run/lab-kill-rpm"
KILLED = f"[ ! -e {KILL} ] || {{ rm {KILL}; kill -KILL $PPID; exit 1; }}\n"
REPO = """\
[lab]
name=Packages of this distribution
baseurl=http://{host}/{folder}
enabled=1
repo_gpgcheck=1
gpgcheck=0
gpgkey=file:///{key}
"""


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    relations: tuple[str, ...] = ()
    scripts: dict[str, str] = field(default_factory=dict)
    tree: Path | None = None

    @property
    def files(self) -> list[str]:
        found = sorted(path for path in self.tree.rglob("*") if not path.is_dir()) if self.tree else []
        return [f"{'%config ' if path.parts[-3:-2] == ('etc',) else ''}/{path.relative_to(self.tree or path)}" for path in found]


def architecture() -> str:
    return run("rpm", "--eval", "%_arch").strip()


def key() -> str:
    """Return a digest of everything in these packages."""
    return digest(packages.key(), content(Path(__file__)))


def repository(lab: Lab) -> Path:
    return lab.repository / NVIDIA / "stable" / "rpm" / architecture()


def file_name(name: str, version: str) -> str:
    return f"{name}-{version}.{architecture()}.rpm"


def chosen(lab: Lab, toolkit: str | None, retired: Iterable[str]) -> list[Path]:
    return [repository(lab) / file_name(name, version) for name, version in packages.chosen(toolkit, retired)]


def publish(lab: Lab, nodes: Sequence[Node]) -> None:
    """Add repositories of RPM packages to http://lab-repo/ if nodes of the fleet need them."""
    own = {(node.image, node.family) for node in nodes if node.family}
    if not own:
        return
    need(NEEDED)
    stamp = repository(lab) / ".key"
    if not stamp.exists() or stamp.read_text() != key():
        shutil.rmtree(repository(lab), ignore_errors=True)
        with tempfile.TemporaryDirectory() as work:
            build(_nvidia(Path(work)), repository(lab))
        index(lab, repository(lab))
        stamp.write_text(key())
    for release, family in sorted(own):
        if not distribution(lab, release, family).exists():
            _publish_distribution(lab, release, family)


def distribution(lab: Lab, release: str, family: str) -> Path:
    return lab.repository / f"{release}-{family}-{families.key(release, family)}-{key()}"


def _publish_distribution(lab: Lab, release: str, family: str) -> None:
    folder = distribution(lab, release, family)
    with tempfile.TemporaryDirectory() as work:
        wanted = [Package("lab-system", "1-1", tuple(line.format(**families.table()[family]) for line in SYSTEM))]
        for position, archive in enumerate(families.aside(release, family)):
            wanted.extend(_plugins(archive, Path(work) / str(position)))
        partial = folder.with_name(f".{folder.name}")
        shutil.rmtree(partial, ignore_errors=True)
        build([wanted], partial)
    index(lab, partial)
    partial.rename(folder)


def _plugins(archive: Path, work: Path) -> list[Package]:
    """Return packages with the real plugins, taken from Debian's package."""
    work.mkdir()
    run("dpkg-deb", "--extract", str(archive), str(work / "whole"))
    for name, (_relations, patterns) in PLUGINS.items():
        for path in [path for pattern in patterns for path in (work / "whole").glob(pattern)]:
            target = work / name / path.relative_to(work / "whole")
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    return [Package(name, "1-1", relations, tree=work / name) for name, (relations, _patterns) in PLUGINS.items()]


def _nvidia(work: Path) -> list[list[Package]]:
    """Return groups of packages. One spec file cannot have two packages with the same name."""
    document = packages.table()
    groups = [[(name, version, package) for name, package in document["packages"].items()] for version in document["versions"]]
    groups.append([(name, package["version"], package) for name, package in document["retired"].items()])
    return [[_package(name, version, package, work / name / version) for name, version, package in group] for group in groups]


def _package(name: str, version: str, package: dict, tree: Path) -> Package:
    tree.mkdir(parents=True)
    packages.lay_out(name, version, package, tree)
    found = packages.scripts(name, version, package)
    scripts = {"post": _to_rpm_script("configure", found["postinst"])} if "postinst" in found else {}
    if "prerm" in found:
        scripts["preun"] = ('[ "$1" = 0 ] || exit 0\n' if name != BASE else "") + _to_rpm_script("remove", found["prerm"])
    relations = _relations("Requires", package["depends"], version) + _relations("Conflicts", package.get("breaks") or "", version)
    return Package(name, version, relations, scripts, tree)


def _to_rpm_script(action: str, text: str) -> str:
    """Make an rpm script from a dpkg script. dpkg calls a script with a word. rpm calls a script with a number."""
    return f"{KILLED}set -- {action}\n" + text.replace("%", "%%")


def _relations(word: str, debian: str, version: str) -> tuple[str, ...]:
    found = re.findall(r"([^\s,]+)(?: \((\S+) (\S+)\))?", debian.replace("VERSION", version))
    return tuple(f"{word}: {name} {OPERATORS.get(operator, operator)} {number}".strip() for name, operator, number in found)


def build(groups: list[list[Package]], folder: Path) -> None:
    folder.mkdir(parents=True)
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string((SOURCES / "rpms.spec.j2").read_text())
    with tempfile.TemporaryDirectory() as work:
        for position, group in enumerate(groups):
            spec = Path(work) / f"{position}.spec"
            spec.write_text(template.render(packages=group))
            # Otherwise Debian's rpm makes a database in the home directory.
            run("rpmbuild", "-bb", "--quiet", *PLAIN, "--define", f"_topdir {work}/{position}", "--define", f"_dbpath {work}/database", str(spec))
        for path in Path(work).glob("*/RPMS/*/*.rpm"):
            shutil.move(path, folder)


def index(lab: Lab, folder: Path) -> None:
    """Write the metadata of a folder of packages, and sign it."""
    run("createrepo_c", "--quiet", str(folder))
    packages.sign_file(lab, folder / "repodata/repomd.xml")
    shutil.copy2(lab.repository / NVIDIA / "gpgkey", folder / "repodata/repomd.xml.key")


def base(lab: Lab, release: str, family: str) -> Path:
    """Return the package that a node's rpm database has from the start."""
    return distribution(lab, release, family) / file_name("lab-system", "1-1")


def node_files(lab: Lab, release: str, family: str) -> Files:
    """Return the files that make the lab's repository the only repository of a node."""
    folder = distribution(lab, release, family).name
    definition = REPO.format(host=REPOSITORY_HOST, folder=folder, key=KEY)
    return {
        KEY: ((lab.repository / NVIDIA / "gpgkey").read_bytes(), 0o644),
        f"{families.table()[family]['repositories']}/lab.repo": (definition.encode(), 0o644),
    }
