# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a check run finds out about packages with the real apt, dnf and zypper, on this machine: the lab's nodes are Debian's.

The repositories are real and signed. Nothing of any package manager's may be different afterwards.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.lab import CHECKOUT
from tests.lab.packages import architecture

from .fleet import BIN, Run

PLAYBOOK = Path(__file__).with_name("repository.yml")
PACKAGES = ("libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit-base", "nvidia-container-toolkit")
VERSIONS = ("1.19.1", "1.20.0")
FAMILIES = {"apt": "Debian", "dnf": "RedHat", "zypper": "Suse"}
NVIDIA_S_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
# All that package managers of this machine keep or wrote down; but for what sqlite rewrites for whoever reads rpm's database.
KEPT = (
    "/etc/apt", "/etc/dnf", "/etc/yum.repos.d", "/etc/zypp", "/etc/pki", "/usr/share/keyrings", "/var/lib/apt", "/var/lib/dnf", "/var/lib/zypp",
    "/var/lib/rpm", "/var/cache/apt", "/var/cache/dnf", "/var/cache/zypp", "/var/log/apt", "/var/log/dnf.log", "/var/log/dnf.librepo.log",
    "/var/log/dnf.rpm.log", "/var/log/hawkey.log", "/var/log/zypp", "/var/log/zypper.log", "~/.rpmdb", "~/.gnupg", "~/.cache/dnf",
)  # fmt: skip
APART = ".sqlite-shm"
SPEC = """
Name: {name}
Version: {version}
Release: 1
Summary: stand-in for tests
License: none
%description
Stand-in for tests.
%files
"""
CONTROL = "Package: {name}\nVersion: {version}-1\nArchitecture: {arch}\nMaintainer: tests <tests@localhost>\nDescription: stand-in\n"


def run(*command: str | Path, cwd: Path | None = None, **env: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}"
    return done.stdout


def make_key(home: Path) -> str:
    home.mkdir(mode=0o700)
    run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", home.name, "rsa3072", "sign", "never", GNUPGHOME=str(home))
    listed = run("gpg", "--with-colons", "--list-keys", GNUPGHOME=str(home))
    return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))


def make_rpms(work: Path, folder: Path) -> None:
    for name in PACKAGES:
        for version in VERSIONS:
            (work / "package.spec").write_text(SPEC.format(name=name, version=version))
            run("rpmbuild", "-bb", "--define", f"_topdir {work}/rpmbuild", work / "package.spec")
    shutil.copytree(work / "rpmbuild/RPMS", folder)
    for one in folder.iterdir():
        run("createrepo_c", one)


def make_debs(work: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in PACKAGES:
        for version in VERSIONS:
            control = work / name / version / "DEBIAN/control"
            control.parent.mkdir(parents=True)
            control.write_text(CONTROL.format(name=name, version=version, arch=architecture()))
            run("dpkg-deb", "--build", control.parents[1], folder)


def sign(repository: Path, home: Path) -> None:
    """With the key of that home; apt's lists are made first."""
    gpg = ("gpg", "--batch", "--yes", "--armor")
    for repomd in repository.glob("stable/rpm/*/repodata/repomd.xml"):
        run(*gpg, "--detach-sign", repomd, GNUPGHOME=str(home))
        repomd.with_name("repomd.xml.key").write_text(run(*gpg, "--export", GNUPGHOME=str(home)))
    flat = repository / "stable/deb" / architecture()
    (flat / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=flat))
    (flat / "Release").write_text(run("apt-ftparchive", "release", ".", cwd=flat))
    run(*gpg, "--output", flat / "InRelease", "--clearsign", flat / "Release", GNUPGHOME=str(home))


@dataclass(frozen=True)
class Repositories:
    """Served under one address: ``good``, ``unsigned``, ``other`` (signed by another key) and ``partial``, which lacks a package."""

    url: str
    folder: Path
    fingerprint: str

    def placed(self, text: str) -> str:
        return text.replace("{url}", self.url).replace("{folder}", str(self.folder))


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repositories]:
    work = tmp_path_factory.mktemp("repositories")
    served, good = work / "served", work / "served/good"
    home, evil = Path(tempfile.mkdtemp()) / "good", Path(tempfile.mkdtemp()) / "other"  # short enough for the agent's socket
    make_key(evil)
    fingerprint = make_key(home)
    make_debs(work, good / "stable/deb" / architecture())
    make_rpms(work, good / "stable/rpm")
    for name in ("unsigned", "other", "partial"):
        shutil.copytree(good, served / name)
    for path in served.glob("partial/stable/**/libnvidia-container-tools*1.20.0*"):
        path.unlink()
    for folder in served.glob("partial/stable/rpm/*"):
        run("createrepo_c", folder)
    for name in ("good", "unsigned", "partial", "other"):
        sign(served / name, evil if name == "other" else home)
        (served / name / "gpgkey").write_text(run("gpg", "--armor", "--export", GNUPGHOME=str(home)))
    run("gpg", "--output", good / "gpgkey.gpg", "--export", GNUPGHOME=str(home))
    for pattern in ("unsigned/stable/rpm/*/repodata/repomd.xml.*", "unsigned/stable/deb/*/InRelease"):
        for path in served.glob(pattern):
            path.unlink()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Repositories(f"http://127.0.0.1:{server.server_port}", served, fingerprint)
        server.shutdown()
    for one in (home, evil):
        run("gpgconf", "--kill", "all", GNUPGHOME=str(one))
        shutil.rmtree(one.parent)


def kept() -> dict[str, str]:
    """Each file that package managers keep, with what is in it, and each directory."""
    found = {}
    for top in map(Path, map(os.path.expanduser, KEPT)):
        for path in [top, *top.rglob("*")]:
            if str(path).endswith(APART):
                continue
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else str(path.is_dir())
    return found


@dataclass(frozen=True)
class Case:
    """A repository, the role's settings besides, and what the check run says, with one package manager or with all; nothing where all is well."""

    repository: str
    settings: dict[str, str]
    texts: tuple[str, ...] = ()
    only: str = ""


TO_PIN = "nvidia_container_toolkit_key_fingerprint"
NOBODY = "127.0.0.1:9"  # nothing listens there
UNREADABLE = ("the repository cannot be read", "Check nvidia_container_toolkit_repository")
CASES = {
    "newest": Case("good", {}),
    "older": Case("good", {"version": "1.19.1-1"}),
    "from-the-controller": Case("good", {"key_file": "{folder}/good/gpgkey", "key_url": f"http://{NOBODY}/"}),
    "binary-key": Case("good", {"key_file": "{folder}/good/gpgkey.gpg"}),
    "trusted-from-the-controller": Case("good", {"key_file": "{folder}/good/gpgkey", "key_fingerprint": ""}),
    "no-version": Case(
        "good", {"version": "1.21.0"},
        ("libnvidia-container1, libnvidia-container-tools, ", "in version 1.21.0-1 is not there",
         "All packages are there in version 1.20.0-1, 1.19.1-1.", "Set nvidia_container_toolkit_version"),
    ),
    "no-package": Case("partial", {}, ("libnvidia-container-tools in version 1.20.0-1 is not there. All packages are there in version 1.19.1-1.",)),
    "unsigned": Case("unsigned", {}, UNREADABLE),
    "signed-by-another": Case("other", {}, UNREADABLE),
    "nothing-there": Case("none", {"key_url": "{url}/good/gpgkey"}, (*UNREADABLE, "{url}/none")),
    "nothing-listens": Case(
        "", {"repository": f"http://svc:S3cret@{NOBODY}", "key_url": "{url}/good/gpgkey"}, (*UNREADABLE, f"svc:***@{NOBODY}"),
    ),
    "no-key": Case("none", {}, ("cannot fetch the repository's key from {url}/none/gpgkey", "nvidia_container_toolkit_key_file")),
    "another-key": Case("good", {"key_fingerprint": NVIDIA_S_KEY}, ("is not taken for the repository's key", TO_PIN)),
    # This machine's own repositories do not have the packages, which only apt finds out.
    "own": Case("good", {"manage_repository": "false"}, ("In no version are all packages there", "the repositories of this node offer"), only="apt"),
    "a-key-of-nobody": Case("good", {"key_fingerprint": ""}, ("is read without encryption", TO_PIN)),
}  # fmt: skip


@dataclass(frozen=True)
class Checked:
    run: Run
    manager: str
    before: dict[str, str]
    after: dict[str, str]
    left: list[Path]


@pytest.fixture(scope="module", params=FAMILIES)
def checked(request: pytest.FixtureRequest, repositories: Repositories, tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """A check run over all cases at once, each a host with that package manager."""
    facts = {"os_family": FAMILIES[request.param], "distribution": request.param, "architecture": os.uname().machine}
    hosts = {}
    for name, case in CASES.items():
        settings = {"repository": f"{repositories.url}/{case.repository}", "key_fingerprint": repositories.fingerprint, **case.settings}
        hosts[name] = {f"nvidia_container_toolkit_{key}": repositories.placed(value) for key, value in settings.items()}
    inventory = tmp_path_factory.mktemp(request.param) / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": {"ansible_connection": "local"}}}))  # which is YAML
    before = kept()
    done = subprocess.run(
        [BIN / "ansible-playbook", "--inventory", inventory, "--check", "--extra-vars", json.dumps({"ansible_facts": facts}), PLAYBOOK],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build/collections"), "ANSIBLE_NOCOLOR": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    left = list(Path(tempfile.gettempdir()).glob("gpu-swarm-packages-*"))
    return Checked(Run(done.returncode, done.stdout), request.param, before, kept(), left)


@pytest.mark.parametrize("name", CASES)
def test_what_a_check_run_finds(name: str, checked: Checked, repositories: Repositories) -> None:
    case, failures = CASES[name], checked.run.failures(name)
    texts = case.texts if case.only in ("", checked.manager) else ()
    assert (name in checked.run.failed()) == bool(texts), checked.run.output
    if texts:
        assert failures[-1].startswith(f"{name}: {checked.manager} cannot get version")
        for text in texts:
            assert repositories.placed(text) in failures[-1]


def test_it_changes_nothing(checked: Checked) -> None:
    assert checked.after == checked.before
    assert checked.left == []


def test_no_password_is_shown(checked: Checked) -> None:
    assert "S3cret" not in checked.run.output
