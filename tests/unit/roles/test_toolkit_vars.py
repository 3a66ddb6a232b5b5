# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the variables in vars/ of the roles. Ansible templates these variables."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

try:
    from ansible.template import trust_as_template
except ImportError:  # ansible-core before 2.19 trusts all templates

    def trust_as_template(text):
        return text


ROLES = Path(__file__).parents[3] / "roles"
TOOLKIT = ROLES / "nvidia_container_toolkit"
FAMILIES = {"Debian": "x86_64", "RedHat": "x86_64", "Suse": "aarch64"}


def load(path):
    return yaml.safe_load(path.read_text())


def trusted(value):
    if isinstance(value, list):
        return [trusted(one) for one in value]
    return trust_as_template(value) if isinstance(value, str) else value


def toolkit(name, family="Debian", **variables):
    """Return one variable of the role on a host with these variables."""
    facts = {"os_family": family, "architecture": FAMILIES[family]}
    files = [TOOLKIT / "defaults" / "main.yml", TOOLKIT / "vars" / "main.yml", TOOLKIT / "vars" / f"{family}.yml"]
    known = {key: trusted(value) for path in files for key, value in load(path).items()}
    return Templar(DataLoader(), variables={**known, "ansible_facts": facts, **variables}).template(known[name])


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir() if len(list((path / "vars").glob("*.yml"))) > 1))
def test_every_distribution_has_the_same_variables(role):
    """Otherwise, the missing variable would be undefined in the middle of a window, but only on this distribution."""
    keys = {path.name: sorted(load(path)) for path in (ROLES / role / "vars").glob("*.yml") if path.name != "main.yml"}
    assert len(keys) > 2
    assert keys == dict.fromkeys(keys, next(iter(keys.values())))
    assert not set(next(iter(keys.values()))) & set(load(ROLES / role / "vars" / "main.yml"))


def test_roles_name_the_same_platforms_and_only_working_ones():
    """All roles run in one playbook. On EL 8, these modules and the dnf module of ansible-core need different versions of Python."""
    named = [{one["name"]: one["versions"] for one in load(path)["galaxy_info"]["platforms"]} for path in ROLES.glob("*/meta/main.yml")]
    assert named == [named[0]] * len(named)
    assert not {"7", "8", "all"} & set(named[0]["EL"])


def test_every_distribution_has_its_files():
    for family in FAMILIES:
        found = load(TOOLKIT / "vars" / f"{family}.yml")
        assert (TOOLKIT / "tasks" / found["_nvidia_container_toolkit_remove"]).is_file()
        for part in ("download", "install", "remove"):
            assert (TOOLKIT / "tasks" / f"{part}_{found['_nvidia_container_toolkit_installer']}.yml").is_file()
        assert (TOOLKIT / "templates" / found["_nvidia_container_toolkit_template"]).is_file()


FACTS = {"os_family": "RedHat", "architecture": "x86_64", "pkg_mgr": "dnf5", "distribution": "Fedora"}


@pytest.mark.parametrize("missing", [None, *FACTS])
def test_a_node_is_queried_for_each_unknown_fact(missing):
    """A play may have gathered some facts: `gather_subset: [distribution, platform]` lacks only the package manager."""
    (learn,) = (task for task in load(TOOLKIT / "tasks" / "platform.yml") if "ansible.builtin.setup" in task)
    facts = {name: value for name, value in FACTS.items() if name != missing}
    queried = Templar(DataLoader(), variables={"ansible_facts": facts}).template(trust_as_template("{{ " + learn["when"] + " }}"))
    assert queried is (missing is not None)


def test_no_other_facts_are_used():
    files = (path for part in ("tasks", "vars", "templates", "defaults") for path in (TOOLKIT / part).iterdir())
    assert {name for path in files for name in re.findall(r"ansible_facts\.(\w+)", path.read_text())} == set(FACTS)


STALE = """\
[libnvidia-container]
name=libnvidia-container
baseurl=https://nvidia.github.io/libnvidia-container/stable/rpm/$basearch
gpgcheck=0

[libnvidia-container-experimental]
baseurl=https://nvidia.github.io/libnvidia-container/experimental/rpm/$basearch
enabled=0
"""
OWN = "[own]\nname=own\nbaseurl=http://mirror.example.org/rpm # not nvidia.github.io/nvidia-docker\nenabled=1\n\n"


@pytest.mark.parametrize("family", ["RedHat", "Suse"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (STALE, ""),
        (OWN + STALE, OWN),
        (STALE + "\n" + OWN + STALE + "last=line of no end", OWN),
        ("# mine\n" + STALE, "# mine\n"),
    ],
)  # fmt: skip
def test_only_sections_of_nvidia_are_removed(family, before, after):
    line, entry = (toolkit(f"_nvidia_container_toolkit_stale_{name}", family) for name in ("line", "entry"))
    assert any(re.match(line, one) for one in before.splitlines())
    assert not any(re.match(line, one) for one in after.splitlines())
    assert re.sub(entry, "", before) == after


DEB = "deb [trusted=yes] http://{user}mirror.example.org/nvidia/stable/deb/{arch} /\n"
MIRROR = "http://alice:s3cret@mirror.example.org/nvidia"
DEBIAN_S = "deb http://mirror.example.org/nvidia/stable/deb/amd64/more /\n# deb http://mirror.example.org/nvidia/stable/deb/amd64 /\n"
STANZA = "Types: deb\nURIs: http://mirror.example.org/nvidia/stable/deb/$(ARCH)/\nSuites: /\nTrusted: yes\n"
SECTION = "[internal]\nbaseurl = http://mirror.example.org/nvidia/stable/rpm/x86_64/\ngpgcheck=0\n"


@pytest.mark.parametrize(
    ("family", "before", "after"),
    [
        ("Debian", DEBIAN_S + DEB.format(user="", arch="$(ARCH)"), DEBIAN_S),
        ("Debian", DEB.format(user="bob:x@", arch="amd64/") + DEBIAN_S, DEBIAN_S),
        ("Debian", "deb http://mirror.example.org/nvidia stable/deb/amd64/\n" + DEBIAN_S, DEBIAN_S),
        ("Debian", "Types: deb\nURIs: http://deb.example.org\n\n" + STANZA, "Types: deb\nURIs: http://deb.example.org\n\n"),
        ("RedHat", OWN + SECTION, OWN),
        ("Suse", SECTION.replace("x86_64/", "$basearch") + OWN, OWN),
    ],
)
def test_other_definitions_of_a_mirror_are_removed(family, before, after):
    """The address of a mirror may contain a password. The texts of tasks do not contain this password."""
    mirror = {"nvidia_container_toolkit_repository": MIRROR}
    line, entry = (toolkit(f"_nvidia_container_toolkit_stale_{name}", family, **mirror) for name in ("line", "entry"))
    assert "s3cret" not in line + entry
    assert any(re.match(line, one) for one in before.splitlines())
    assert not any(re.match(line, one) for one in after.splitlines())
    assert re.sub(entry, "", before) == after


UBUNTU = "Types: deb\nURIs: http://archive.example.org/ubuntu\nSuites: noble\nComponents: main\n"
NVIDIA = "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)/"
TOOLKIT_STANZA = f"Types: deb\nURIs: {NVIDIA}\nSuites: /\n"
OWN_KEY = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n -----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (UBUNTU + "\n" + TOOLKIT_STANZA + OWN_KEY + "\n" + UBUNTU, UBUNTU + "\n\n" + UBUNTU),
        (f"Types: deb\nURIs:\n {NVIDIA}\nSuites: /\n\n" + UBUNTU, "\n" + UBUNTU),
        (f"# mine\n\ntypes: deb\nuris:\t{NVIDIA}\nsuites: /", "# mine\n\n"),
        ((UBUNTU + "\n" + TOOLKIT_STANZA).replace("\n", "\r\n"), (UBUNTU + "\n").replace("\n", "\r\n")),
        (TOOLKIT_STANZA.replace("https://", "http://cache.example.org:3142/") + "\n" + UBUNTU, "\n" + UBUNTU),
        (f"Types: deb\nURIs: {NVIDIA} {NVIDIA.replace('stable', 'experimental')}\nSuites: /\n\n" + UBUNTU, "\n" + UBUNTU),
        (f"Types: deb\nURIs: {NVIDIA}\n {NVIDIA.replace('stable', 'experimental')}\nSuites: /\n\n" + UBUNTU, "\n" + UBUNTU),
    ],
    ids=["with its key", "on the next line", "in lower case", "Windows line endings", "through a cache", "two addresses", "addresses on two lines"],
)
def test_only_stanzas_of_nvidia_are_removed(before, after):
    line, entry = (toolkit(f"_nvidia_container_toolkit_stale_{name}") for name in ("line", "entry"))
    assert any(re.match(line, one) for one in before.splitlines())
    assert not any(re.match(line, one) for one in after.splitlines())
    assert re.sub(entry, "", before) == after


@pytest.mark.parametrize(
    "text",
    [
        f"Types: deb\nURIs: http://mirror.example.org/own/ {NVIDIA}\nSuites: /\n",
        f"Types: deb\nURIs: {NVIDIA}\n http://mirror.example.org/own/\nSuites: /\n",
        f"Types: deb\nURIs: http://mirror.example.org/own/\n {NVIDIA}\nSuites: /\n",
        UBUNTU.replace("Suites", f"# URIs: {NVIDIA}\nSuites"),
    ],
)
def test_a_stanza_with_other_addresses_stays(text):
    """If apt refuses such a stanza beside the role's definition, the role restores all files, and the error names the file."""
    assert re.sub(toolkit("_nvidia_container_toolkit_stale_entry"), "", text) == text


def test_a_long_file_of_sources_is_searched_in_time():
    began = time.monotonic()
    assert re.search(toolkit("_nvidia_container_toolkit_stale_entry"), (UBUNTU + "X: " + "a" * 500 + "\n") * 200) is None
    assert time.monotonic() - began < 5


def test_a_repository_may_have_another_layout():
    settings = {"nvidia_container_toolkit_repository": "http://mirror.example.org/nvidia", "nvidia_container_toolkit_repository_path": "flat/"}
    entry = toolkit("_nvidia_container_toolkit_stale_entry", **settings)
    assert re.sub(entry, "", "deb [trusted=yes] http://mirror.example.org/nvidia/flat ./\ndeb http://mirror.example.org/nvidia/ flat/\n") == ""


def test_a_mirror_with_another_layout_may_have_other_packages():
    mirror, debian = "http://mirror.example.org/debian", "deb http://mirror.example.org/debian bookworm main\n"
    settings = {"nvidia_container_toolkit_repository": mirror, "nvidia_container_toolkit_repository_path": "bookworm nvidia"}
    entry = toolkit("_nvidia_container_toolkit_stale_entry", **settings)
    assert re.sub(entry, "", debian) == debian
    assert re.sub(entry, "", "deb https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /\n") == ""


@pytest.mark.parametrize(
    ("family", "version", "directory", "first"),
    [
        ("Debian", "1.20.0", "", "libnvidia-container1=1.20.0-1"),
        ("RedHat", "1.20.0", "", "libnvidia-container1-1.20.0-1"),
        ("Suse", "1.20.0-2", "", "libnvidia-container1=1.20.0-2"),
        ("Debian", "1.20.0", "/srv", "/var/lib/gpu-swarm/packages/libnvidia-container1_1.20.0-1_amd64.deb"),
        ("RedHat", "1.20.0-2", "/srv", "/var/lib/gpu-swarm/packages/libnvidia-container1-1.20.0-2.x86_64.rpm"),
        ("Suse", "1.20.0", "/srv", "/var/lib/gpu-swarm/packages/libnvidia-container1-1.20.0-1.aarch64.rpm"),
    ],
)
def test_the_package_manager_gets_these_names(family, version, directory, first):
    settings = {"nvidia_container_toolkit_version": version, "nvidia_container_toolkit_package_directory": directory}
    specs = toolkit("_nvidia_container_toolkit_specs", family, **settings)
    assert (len(specs), specs[0]) == (4, first)


def test_dnf_5_writes_only_its_reasons_to_stderr():
    """The role reports them if a repository cannot be read. dnf 5 also writes its progress there."""
    assert "--quiet" in toolkit("_nvidia_container_toolkit_refresh", "RedHat")


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ({}, ""),
        ({"nvidia_container_toolkit_hold": None}, ""),
        ({"nvidia_container_toolkit_hold": ""}, ""),
        ({"nvidia_container_toolkit_hold": True}, "True"),
        ({"nvidia_container_toolkit_hold": False}, "False"),  # false removes the hold, but an unset variable does not
        ({"nvidia_container_toolkit_hold": "false"}, "false"),
    ],
)
def test_the_inventory_may_decide_about_holding_the_toolkit(setting, wanted):
    assert toolkit("_nvidia_container_toolkit_hold_wanted", **setting) == wanted


TIMED_OUT = {"failed": True, "msg": "Task failed: Timed out after 900 second(s).", "timedout": {"period": 900}}
TIMED_OUT_BEFORE_2_18 = {"failed": True, "msg": "The dnf action failed to execute in the expected time frame (900) and was terminated"}


REFUSED = "Failed to install some of the specified packages"


@pytest.mark.parametrize(
    ("result", "busy"),
    [
        ({"failed": True, "msg": REFUSED, "failures": [], "rc": 1}, True),
        ({"failed": True, "msg": REFUSED, "failures": ["No package nvidia-container-toolkit-1.21.0-1 available."], "rc": 1}, False),
        ({"failed": True, "msg": "Depsolve Error occurred", "failures": [], "rc": 1}, False),
        ({"msg": "Nothing to do", "rc": 0}, False),
        (TIMED_OUT, False),
    ],
)
def test_another_transaction_of_dnf_5_is_recognised(result, busy):
    """dnf 5 does not wait for the other transaction, and its module does not report it. The results are from dnf 5.4.6."""
    assert toolkit("_nvidia_container_toolkit_busy", __nvidia_container_toolkit_install=result) is busy
    said = toolkit("_nvidia_container_toolkit_not_installed", __nvidia_container_toolkit_install=result, _nvidia_container_toolkit_answer={})
    assert ("Another transaction" in said) is busy


@pytest.mark.parametrize("register", ["refreshed", "finished", "install"])
@pytest.mark.parametrize(
    ("result", "late"),
    [(TIMED_OUT, True), (TIMED_OUT_BEFORE_2_18, True), ({"rc": 0}, False), ({"rc": 1, "msg": "non-zero return code"}, False)],
)
def test_a_package_manager_that_may_still_be_running_is_recognised(register, result, late):
    assert toolkit("_nvidia_container_toolkit_late", **{f"__nvidia_container_toolkit_{register}": result}) is late


# --- nvidia-ctk reports another version than the installed one ------------------------------------------------------------

OWN, OTHER, SAID = "/usr/bin/nvidia-ctk", "/usr/local/sbin/nvidia-ctk", "The package manager has nvidia-container-toolkit-base in version "
DIFFERS = {
    "the package's own file": (
        [OWN, "1.20.1-1"],
        {"toolkit_version": "1.20.0"},
        f"{SAID}1.20.1-1, and '{OWN} --version' reports 1.20.0. This file belongs to the package. If 'dpkg --verify",
    ),
    "with an epoch": ([OWN, "1:1.20.1-1"], {"toolkit_version": "1.20.0"}, f"{SAID}1.20.1-1, and '{OWN} --version' reports 1.20.0. This file belongs"),
    "another file": ([OTHER, "1.20.1-1"], {"toolkit_version": "1.18.0"}, f"'{OTHER} --version' reports 1.18.0. This file does not belong to"),
    "another package": ([OWN, "1.19.0-1"], {"toolkit_version": "1.19.0"}, f"'{OWN} --version' reports 1.19.0. The package does not have the wanted"),
    "no package": ([OTHER, ""], {"toolkit_version": "1.20.0"}, f"{SAID}none, and '{OTHER} --version' reports 1.20.0. The package does not have"),
    "no answer": ([OWN, "1.20.1-1"], {"toolkit_version": None}, f"'{OWN} --version' reports nothing. This file belongs to the package."),
    "no file": (["", "1.20.1-1"], {"toolkit_version": None}, "and 'nvidia-ctk --version' reports nothing. The node has no program nvidia-ctk"),
    "half-installed": (
        [OWN, "1.20.1-1"],
        {"toolkit_version": "1.20.1", "missing": ["toolkit_packages"]},
        f"'{OWN} --version' reports 1.20.1. The package manager has not finished the installation of the packages: run this again.",
    ),
    "nothing was compared": ([], {"toolkit_version": "1.20.0"}, f"{SAID}none, and 'nvidia-ctk --version' reports 1.20.0."),
}


@pytest.mark.parametrize(("lines", "answer", "expected"), DIFFERS.values(), ids=DIFFERS)
def test_another_version_names_what_was_compared(lines, answer, expected):
    registered = {"__nvidia_container_toolkit_inspected": answer, "__nvidia_container_toolkit_compared": {"stdout_lines": lines}}
    text = toolkit("_nvidia_container_toolkit_differs", nvidia_container_toolkit_version="1.20.1", **registered)
    assert text.startswith("nvidia_container_toolkit_version is 1.20.1. ")
    assert expected in text
    assert "  " not in text


@pytest.mark.parametrize("programs", [["dpkg-query"], ["rpm"], []], ids=["dpkg", "rpm", "neither"])
@pytest.mark.parametrize("there", [True, False])
def test_the_executed_file_is_compared_with_its_package(tmp_path, programs, there):
    """Links in the path are followed, for example Fedora's /usr/sbin."""
    for name in [*programs, *(["real"] if there else [])]:
        (tmp_path / name).write_text("#!/bin/sh\necho 1.20.1-1\n")
        (tmp_path / name).chmod(0o755)
    if there:
        (tmp_path / "nvidia-ctk").symlink_to("real")
    (tmp_path / "readlink").symlink_to(shutil.which("readlink"))
    script = toolkit("_nvidia_container_toolkit_compare")
    done = subprocess.run([shutil.which("sh"), "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [str(tmp_path / "real") if there else "", *["1.20.1-1" for _one in programs]]


def test_the_message_of_rpm_about_a_missing_package_is_no_version(tmp_path):
    """rpm writes this message to standard output, as it does with the version."""
    (tmp_path / "rpm").write_text("#!/bin/sh\necho package nvidia-container-toolkit-base is not installed\nexit 1\n")
    (tmp_path / "rpm").chmod(0o755)
    script = toolkit("_nvidia_container_toolkit_compare")
    done = subprocess.run([shutil.which("sh"), "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [""]
