# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests what a check run reports about packages. It uses the real apt, dnf and zypper on this machine, because the lab's nodes are Debian.

The repositories are real and signed. No file of any package manager may change.
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
PACKAGED = {"apt": "debs", "dnf": "rpms", "zypper": "rpms"}
# `make test` already installs packages with dnf and zypper in test_rpm_nodes.py, and dnf 5 in test_dnf5_nodes.py.
DNF, ZYPPER = (pytest.param(name, marks=pytest.mark.rare) for name in ("dnf", "zypper"))
NVIDIA_S_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
# All files that package managers of this machine keep or write. sqlite's file with the suffix below is an exception, because each reader of rpm's
# database rewrites it.
KEPT = (
    "/etc/apt", "/etc/dnf", "/etc/yum.repos.d", "/etc/zypp", "/etc/pki", "/usr/share/keyrings", "/var/lib/apt", "/var/lib/dnf", "/var/lib/zypp",
    "/var/lib/rpm", "/var/cache/apt", "/var/cache/dnf", "/var/cache/zypp", "/var/log/apt", "/var/log/dnf.log", "/var/log/dnf.librepo.log",
    "/var/log/dnf.rpm.log", "/var/log/hawkey.log", "/var/log/zypp", "/var/log/zypper.log", "~/.rpmdb", "~/.gnupg", "~/.cache/dnf",
)  # fmt: skip
APART = ".sqlite-shm"
LARGE = 2**20  # bytes
GPG = ("gpg", "--batch", "--yes", "--armor")
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
            run("rpmbuild", "-bb", "--define", f"_topdir {work}/rpmbuild", "--define", f"_dbpath {work}/database", work / "package.spec")
    shutil.copytree(work / "rpmbuild/RPMS", folder)


def list_rpms(folder: Path, home: Path) -> None:
    """Make a repository for each architecture, signed with the key of that home."""
    for one in folder.iterdir():
        run("createrepo_c", one)
        run(*GPG, "--detach-sign", one / "repodata/repomd.xml", GNUPGHOME=str(home))
        (one / "repodata/repomd.xml.key").write_text(run(*GPG, "--export", GNUPGHOME=str(home)))


def make_debs(work: Path, folder: Path) -> None:
    flat = folder / architecture()
    flat.mkdir(parents=True)
    for name in PACKAGES:
        for version in VERSIONS:
            control = work / name / version / "DEBIAN/control"
            control.parent.mkdir(parents=True)
            control.write_text(CONTROL.format(name=name, version=version, arch=architecture()))
            run("dpkg-deb", "--build", control.parents[1], flat)


def list_debs(folder: Path, home: Path) -> None:
    for flat in folder.iterdir():
        (flat / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=flat))
        (flat / "Release").write_text(run("apt-ftparchive", "release", ".", cwd=flat))
        run(*GPG, "--output", flat / "InRelease", "--clearsign", flat / "Release", GNUPGHOME=str(home))


@dataclass(frozen=True)
class Repositories:
    """Repositories under one address: ``good``, ``unsigned``, ``other`` (signed by another key) and ``partial``, which lacks a package."""

    url: str
    folder: Path
    home: Path
    evil: Path
    fingerprint: str

    def placed(self, text: str) -> str:
        return text.replace("{url}", self.url).replace("{folder}", str(self.folder))

    def publish(self, kind: str, work: Path) -> None:
        """Publish packages of a kind, deb or rpm, in each of the four repositories."""
        make, listed, signatures = KINDS[kind]
        packages = work / kind
        make(work, packages)
        for name in ("good", "unsigned", "other", "partial"):
            folder = self.folder / name / "stable" / kind
            shutil.copytree(packages, folder)
            for path in folder.glob("*/libnvidia-container-tools*1.20.0*") if name == "partial" else ():
                path.unlink()
            listed(folder, self.evil if name == "other" else self.home)
            for path in folder.glob(signatures) if name == "unsigned" else ():
                path.unlink()


KINDS = {"deb": (make_debs, list_debs, "*/InRelease"), "rpm": (make_rpms, list_rpms, "*/repodata/repomd.xml.*")}


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a different home directory.

    In the home directory, Debian's rpm creates a database for every query. Ansible queries rpm to gather facts, also in tests that run at the same
    time. On a machine with rpm packages the database always exists.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        run("rpm", "--initdb")
        yield


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repositories]:
    """Start a server that has no packages yet."""
    folder, top = tmp_path_factory.mktemp("repositories"), Path(tempfile.mkdtemp())  # short enough for the agent's socket
    home, evil = top / "good", top / "other"
    fingerprint = make_key(home)
    make_key(evil)
    for name in ("good", "unsigned", "other", "partial"):
        (folder / name).mkdir()
        (folder / name / "gpgkey").write_text(run("gpg", "--armor", "--export", GNUPGHOME=str(home)))
    run("gpg", "--output", folder / "good/gpgkey.gpg", "--export", GNUPGHOME=str(home))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Repositories(f"http://127.0.0.1:{server.server_port}", folder, home, evil, fingerprint)
        server.shutdown()
    for one in (home, evil):
        run("gpgconf", "--kill", "all", GNUPGHOME=str(one))
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def debs(served: Repositories, tmp_path_factory: pytest.TempPathFactory) -> Repositories:
    served.publish("deb", tmp_path_factory.mktemp("debs"))
    return served


@pytest.fixture(scope="module")
def rpms(served: Repositories, tmp_path_factory: pytest.TempPathFactory) -> Repositories:
    served.publish("rpm", tmp_path_factory.mktemp("rpms"))
    return served


@pytest.fixture
def repositories(manager: str, request: pytest.FixtureRequest) -> Repositories:
    """Serve packages of the kind that a test's manager installs."""
    return request.getfixturevalue(PACKAGED[manager])  # type: ignore[no-any-return]


def kept(root: str = "", home: str | None = None) -> dict[str, str]:
    """Return the content of each file that package managers keep, and each directory.

    For large files, such as packages, return the time of writing.
    """
    found, home = {}, home or os.environ["HOME"]
    for top in (Path(home + path[1:] if path.startswith("~") else root + path) for path in KEPT):
        for path in [top, *top.rglob("*")]:
            if str(path).endswith(APART):
                continue
            found[str(path)] = _content(path) if path.is_file() else str(path.is_dir())
    return found


def _content(path: Path) -> str:
    about = path.stat()
    return f"{about.st_ino} {about.st_size} {about.st_ctime_ns}" if about.st_size > LARGE else hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Case:
    """A repository, additional settings of the role, and the message of the check run, or none if all is well."""

    repository: str
    settings: dict[str, str]
    texts: tuple[str, ...] = ()


TO_PIN = "nvidia_container_toolkit_key_fingerprint"
NOBODY = "127.0.0.1:9"  # no server listens at this address
UNREADABLE = ("the repository cannot be read", "Check nvidia_container_toolkit_repository")
CASES = {
    "newest": Case("good", {}),
    "older": Case("good", {"version": "1.19.1-1"}),
    "from-the-controller": Case("good", {"key_file": "{folder}/good/gpgkey", "key_url": f"http://{NOBODY}/"}),
    "binary-key": Case("good", {"key_file": "{folder}/good/gpgkey.gpg"}),
    "binary-keyring": Case("good", {"keyring": "/usr/share/keyrings/not-there.gpg"}),
    "trusted-from-the-controller": Case("good", {"key_file": "{folder}/good/gpgkey", "key_fingerprint": ""}),
    "no-version": Case(
        "good", {"version": "1.21.0"},
        ("libnvidia-container1, libnvidia-container-tools, ", "version 1.21.0-1 is not available",
         "All packages are available in version 1.20.0-1, 1.19.1-1.", "Set nvidia_container_toolkit_version"),
    ),
    "no-package": Case(
        "partial", {}, ("libnvidia-container-tools: version 1.20.0-1 is not available. All packages are available in version 1.19.1-1.",),
    ),
    "unsigned": Case("unsigned", {}, UNREADABLE),
    "signed-by-another": Case("other", {}, UNREADABLE),
    "nothing-there": Case("none", {"key_url": "{url}/good/gpgkey"}, (*UNREADABLE, "{url}/none")),
    "nothing-listens": Case(
        "", {"repository": f"http://svc:S3cret@{NOBODY}", "key_url": "{url}/good/gpgkey"}, (*UNREADABLE, f"svc:***@{NOBODY}"),
    ),
    "no-key": Case("none", {}, ("cannot fetch the repository's key from {url}/none/gpgkey", "nvidia_container_toolkit_key_file")),
    "another-key": Case("good", {"key_fingerprint": NVIDIA_S_KEY}, ("is not accepted as the repository's key", TO_PIN)),
    "a-key-of-nobody": Case("good", {"key_fingerprint": ""}, ("is not encrypted", TO_PIN)),
}  # fmt: skip


@dataclass(frozen=True)
class Checked:
    run: Run
    manager: str
    before: dict[str, str]
    after: dict[str, str]
    left: list[Path]


@pytest.fixture(scope="module", params=["apt", DNF, ZYPPER])
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """Make one check run of all cases. Each case is a host with that package manager."""
    repositories: Repositories = request.getfixturevalue(PACKAGED[request.param])
    hosts = {}
    for name, case in CASES.items():
        settings = {"repository": f"{repositories.url}/{case.repository}", "key_fingerprint": repositories.fingerprint, **case.settings}
        hosts[name] = {key: repositories.placed(value) for key, value in settings.items()}
    before = kept()
    done = check_run(request.param, hosts, tmp_path_factory.mktemp(request.param))
    return Checked(done, request.param, before, kept(), list(Path(tempfile.gettempdir()).glob("gpu-swarm-packages-*")))


def role_run(manager: str, hosts: dict[str, dict[str, str]], work: Path, *arguments: str, on: Machine | None = None, steps: tuple[str, ...]) -> Run:
    facts = {"os_family": FAMILIES[manager], "distribution": manager, "architecture": os.uname().machine}
    named = {name: {f"nvidia_container_toolkit_{key}": value for key, value in settings.items()} for name, settings in hosts.items()}
    inventory = work / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": named, "vars": {"ansible_connection": "local"}}}))  # JSON is YAML
    done = subprocess.run(
        [*(on.entered if on else ()), BIN / "ansible-playbook", "--inventory", inventory, *arguments,
         "--extra-vars", json.dumps({"ansible_facts": facts, "steps": steps}), PLAYBOOK],
        env={**os.environ, **(on.env if on else {}), "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build/collections"), "ANSIBLE_NOCOLOR": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return Run(done.returncode, done.stdout)


def check_run(manager: str, hosts: dict[str, dict[str, str]], work: Path, *, on: Machine | None = None) -> Run:
    return role_run(manager, hosts, work, "--check", on=on, steps=("prepare",))


@pytest.mark.parametrize("name", CASES)
def test_a_check_run_reports_each_case(name: str, checked: Checked, served: Repositories) -> None:
    case, failures = CASES[name], checked.run.failures(name)
    assert (name in checked.run.failed()) == bool(case.texts), checked.run.output
    if case.texts:
        assert failures[-1].startswith(f"{name}: {checked.manager} cannot get version")
        for text in case.texts:
            assert served.placed(text) in failures[-1]


def test_a_check_run_changes_nothing(checked: Checked) -> None:
    assert checked.after == checked.before
    assert checked.left == []


def test_no_password_is_shown(checked: Checked) -> None:
    assert "S3cret" not in checked.run.output


def made() -> set[Path]:
    """Return the module's temporary directories, including that of a killed run."""
    return set(Path(tempfile.gettempdir()).glob("gpu-swarm-*"))


# dnf 4 downloads with a plugin that this machine may lack: tests/e2e/test_air_gap.py runs it on a node.
@pytest.mark.parametrize("manager", ["apt", ZYPPER])
def test_packages_are_downloaded_and_nothing_else_changes(manager: str, repositories: Repositories, tmp_path: Path) -> None:
    settings = {"repository": f"{repositories.url}/good", "key_fingerprint": repositories.fingerprint}
    other = {**settings, "repository": f"{repositories.url}/other"}
    hosts = {}
    for name, wanted in {"good": settings, "other": other}.items():
        (tmp_path / name).mkdir()
        hosts[name] = {**wanted, "version": "1.19.1", "bundle_directory": str(tmp_path / name)}
    before, others = kept(), made()
    done = role_run(manager, hosts, tmp_path, steps=("bundle",))
    assert done.failed() == ["other"], done.output
    assert kept() == before
    assert made() == others
    names = sorted(path.name for path in (tmp_path / "good").iterdir())
    assert [name for name in names if "1.19.1-1" in name and name.startswith(PACKAGES)] == names
    assert (len(names), list((tmp_path / "other").iterdir())) == (len(PACKAGES), [])


# -- if the node's own repositories have the packages ------------------------------------------------------------------------

REPO = """\
[own]
name=Own
baseurl={address}/stable/rpm/$basearch
enabled=1
autorefresh=1
repo_gpgcheck=1
gpgcheck=0
gpgkey=file:///etc/own.gpg
"""
DEFINITIONS = {
    "apt": ("etc/apt/sources.list.d/own.list", f"deb [signed-by=/etc/own.gpg] {{address}}/stable/deb/{architecture()} /\n"),
    "dnf": ("etc/yum.repos.d/own.repo", REPO),
    "zypper": ("etc/zypp/repos.d/own.repo", REPO),
}
READ = {
    "apt": ("apt-get", "update"),
    "dnf": ("dnf", "--assumeyes", "makecache"),
    "zypper": ("zypper", "--non-interactive", "--no-gpg-checks", "refresh"),
}
COPIED, EMPTY = "etc", ("var/cache", "var/log", "var/lib/apt", "var/lib/dnf", "var/lib/zypp")
MOUNT = "".join(f'mount --bind "$0/{path}" /{path} && ' for path in (COPIED, *EMPTY)) + 'exec "$@"'


@dataclass(frozen=True)
class Machine:
    """This machine with separate configuration, caches and rpm database for package managers."""

    path: Path

    @property
    def entered(self) -> tuple[str, ...]:
        return ("unshare", "--mount", "sh", "-c", MOUNT, str(self.path))

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.path / "home")}  # where Debian's rpm has its database

    def run(self, *command: str | Path) -> str:
        return run(*self.entered, *command, **self.env)

    def kept(self) -> dict[str, str]:
        return kept(str(self.path), self.env["HOME"])


@pytest.fixture
def mount_points() -> Iterator[None]:
    """Create directories of zypper for mounts. The directories are missing if zypper never ran."""
    made = [path for path in (Path("/", name) for name in (COPIED, *EMPTY)) if not path.exists()]
    for path in made:
        path.mkdir()
    yield
    for path in made:
        path.rmdir()


@pytest.fixture
def machine(mount_points: None, tmp_path: Path) -> Machine:
    shutil.copytree("/etc", tmp_path / COPIED, symlinks=True)
    for path in (*EMPTY, "home", "etc/yum.repos.d", "etc/zypp/repos.d", "var/cache/apt/archives/partial", "var/lib/apt/lists/partial"):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
    for path in (tmp_path / "etc/apt").rglob("*.*"):
        if path.suffix in (".list", ".sources"):
            path.unlink()
    made = Machine(tmp_path)
    made.run("rpm", "--initdb")
    return made


OWN_READ = {
    "newest": ({"version": "1.20.0"}, ()),
    "older": ({"version": "1.19.1-1"}, ()),
    "no-version": (
        {"version": "1.21.0"},
        ("version 1.21.0-1 is not available. All packages are available in version 1.20.0-1, 1.19.1-1.",
         "add this version to the repositories of this node"),
    ),
}  # fmt: skip
OWN_UNREADABLE = {"newest": ({"version": "1.20.0"}, ("the repository cannot be read: ", "Check the repositories of this node"))}


def settle(machine: Machine, manager: str, address: str, repositories: Repositories, *, trusted: bool = True) -> None:
    path, definition = DEFINITIONS[manager]
    (machine.path / path).write_text(definition.format(address=address))
    shutil.copy(repositories.folder / "good/gpgkey.gpg", machine.path / "etc/own.gpg")
    if manager == "zypper" and trusted:
        machine.run("rpm", "--import", repositories.folder / "good/gpgkey")


def judge(machine: Machine, manager: str, cases: dict[str, tuple[dict[str, str], tuple[str, ...]]]) -> None:
    """Check that a check run reports exactly this, and leaves no trace."""
    before, here = machine.kept(), kept()
    hosts = {name: {"manage_repository": "false", **settings} for name, (settings, _texts) in cases.items()}
    checked = check_run(manager, hosts, machine.path, on=machine)
    assert checked.failed() == [name for name, (_given, texts) in cases.items() if texts], checked.output
    for name, (_given, texts) in cases.items():
        for text in texts:
            assert text in checked.failures(name)[-1]
    assert machine.kept() == before
    assert kept() == here
    assert list(Path(tempfile.gettempdir()).glob("gpu-swarm-packages-*")) == []


@pytest.mark.parametrize("manager", ["apt", DNF, ZYPPER])
def test_a_check_run_searches_the_node_s_own_repositories(manager: str, machine: Machine, repositories: Repositories) -> None:
    settle(machine, manager, f"{repositories.url}/good", repositories)
    if manager == "apt":  # apt searches the existing lists
        machine.run(*READ[manager])
    judge(machine, manager, OWN_READ)


@pytest.mark.rare
@pytest.mark.parametrize("manager", ["dnf", "zypper"])
def test_lists_that_the_node_has_are_not_fetched_again(manager: str, machine: Machine, repositories: Repositories) -> None:
    """After the lists were fetched, the repository is offline."""
    for_now = repositories.folder / f"read-by-{manager}"
    shutil.copytree(repositories.folder / "good", for_now)
    settle(machine, manager, f"{repositories.url}/{for_now.name}", repositories)
    machine.run(*READ[manager])
    shutil.rmtree(for_now)
    judge(machine, manager, OWN_READ)


@pytest.mark.rare
@pytest.mark.parametrize(("manager", "repository"), [("dnf", "none"), ("dnf", "unsigned"), ("zypper", "none"), ("zypper", "unsigned")])
def test_an_unreadable_repository_of_the_node_is_reported(manager: str, repository: str, machine: Machine, repositories: Repositories) -> None:
    settle(machine, manager, f"{repositories.url}/{repository}", repositories)
    judge(machine, manager, OWN_UNREADABLE)


@pytest.mark.rare
def test_a_check_run_does_not_trust_a_key_that_the_node_does_not_trust(machine: Machine, rpms: Repositories) -> None:
    settle(machine, "zypper", f"{rpms.url}/good", rpms, trusted=False)
    judge(machine, "zypper", OWN_UNREADABLE)


@pytest.mark.rare
@pytest.mark.parametrize("name", ["keyring.gpg", "keyring"])
def test_rpm_accepts_a_key_that_was_binary(name: str, machine: Machine, served: Repositories) -> None:
    """rpm imports only armored keys. apt ignores armored keys in a file with the suffix .gpg."""
    settings = {"keyring": f"/etc/{name}", "key_file": f"{served.folder}/good/gpgkey.gpg", "key_fingerprint": served.fingerprint}
    done = role_run("zypper", {"host": settings}, machine.path, on=machine, steps=("platform", "repository_key"))
    assert done.rc == 0, done.output
    assert served.fingerprint[-8:].lower() in machine.run("rpm", "--query", "gpg-pubkey")
