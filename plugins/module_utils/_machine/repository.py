# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How each package manager reads one repository, or the node's own, with nothing but a directory to write into, and what it then lists (pure).

Settings of the node, such as proxies, are read as ever. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field, replace
from typing import Callable, Mapping, Sequence

from .._errors import GpuSwarmError

REPOSITORY = "nvidia-container-toolkit"  # its name in the definition that dnf and zypper read
SHOWN = 5  # of the versions that there are
HERE = "{work}"  # stands for the directory

# What else runs after apt read a list writes elsewhere: update-notifier, command-not-found, AppStream, PackageKit. #clear works in files only.
APT_CACHE = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Update::Error-Mode "any";
Dir::Cache "{work}/cache";
"""
APT_LISTS = """\
Dir::State::Lists "{work}/lists";
Dir::Etc::SourceList "{work}/repository.list";
Dir::Etc::SourceParts "/dev/null";
"""
APT_CONF = "{work}/apt.conf"
DNF = ("dnf", "--assumeyes", "--setopt=cachedir={work}/cache", "--setopt=persistdir={work}/state", "--setopt=logdir={work}/log")
REPOQUERY = ("repoquery", "--queryformat", r"%{name} %{version}-%{release}\n")
# A plugin of dnf 4, which dnf 5 has without one.
DOWNLOAD = ("download", "--destdir={work}/packages")
# Plugins write outside of the directory (subscription-manager, generate_completion_cache), add repositories, and hide versions (versionlock).
DNF_REPOSITORY = ("--setopt=reposdir={work}/repositories", "--repo=" + REPOSITORY, "--setopt=%s.skip_if_unavailable=False" % REPOSITORY)
DNF_ONE = (*DNF, "--noplugins", *DNF_REPOSITORY, *REPOQUERY)
# But for these, without which some repositories cannot be read: they add repositories, or the headers that a server requires.
DNF_PLUGINS = "amazon-id,artifact-registry,spacewalk,susemanagerplugin"
DNF_OWN = (*DNF, "--disableplugin=*", "--enableplugin=" + DNF_PLUGINS, *REPOQUERY)
# Another root has another database of rpm, with the keys that are brought there, and no service that rewrites definitions.
ZYPPER = ("zypper", "--non-interactive", "--xmlout", "--root", "{work}/root", "--reposd-dir")
SEARCH = ("search", "--details", "--match-exact", "--type", "package")
IMPORT = "rpm --root {work}/root --import {work}/key"
# A key that this rpm no longer takes keeps no other one away, and a node may have none.
IMPORT_OWN = r"rpm --query gpg-pubkey --queryformat '%{DESCRIPTION}\n' > {work}/key && " + IMPORT + " || :"
NOTHING_FOUND, SOME_SKIPPED = 104, 106  # zypper(8), exit codes


@dataclass(frozen=True)
class Manager:
    """A package manager's files and commands, with ``{work}`` for the directory and the packages to come after ``listing`` and ``downloading``."""

    definition: str
    listing: tuple[str, ...]
    downloading: tuple[str, ...]  # of packages, each as the name, ``between`` and the version
    between: str
    line: str
    complaint: str  # what of its output is shown, where it failed
    reading: tuple[tuple[str, ...], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    fine: tuple[int, ...] = (0,)
    copied: Mapping[str, str] = field(default_factory=dict)  # directories of the node, where they are
    skips: bool = False  # it may go on without a repository that it cannot read


MANAGERS = {
    "apt": Manager(
        definition="{work}/repository.list",
        files={APT_CONF: APT_CACHE + APT_LISTS},
        folders=("{work}/cache", "{work}/lists"),
        reading=(("apt-get", "--config-file", APT_CONF, "update"),),
        listing=("apt-cache", "--config-file", APT_CONF, "madison"),
        downloading=("sh", "-c", 'cd {work}/packages && exec apt-get --config-file %s download "$@"' % APT_CONF, "sh"),
        between="=",
        line=r"^\s*(?P<name>\S+) \| +(?P<version>\S+) \|",
        complaint=r"(?m)^[EW]: (.*)$",
    ),
    "dnf": Manager(
        definition="{work}/repositories/repository.repo",
        folders=("{work}/repositories",),
        listing=DNF_ONE,
        downloading=(*DNF, "--disableplugin=*", "--enableplugin=download", *DNF_REPOSITORY, *DOWNLOAD),
        between="-",
        line=r"^(?P<name>\S+) (?P<version>\S+)$",
        complaint=r"(?m)^(?:Error: |  - |>>> |(?=Failed to ))(.*)$",  # of dnf 4, and of dnf 5
        environment={"GNUPGHOME": "{work}"},
    ),
    "zypper": Manager(
        definition="{work}/repositories/repository.repo",
        folders=("{work}/repositories", "{work}/root", "{work}/tmp"),
        reading=(tuple(IMPORT.split()), (*ZYPPER, "{work}/repositories", "refresh")),
        listing=(*ZYPPER, "{work}/repositories", "--no-refresh", *SEARCH),
        downloading=(*ZYPPER, "{work}/repositories", "--pkg-cache-dir", "{work}/packages", "--no-refresh", "download"),
        between="=",
        line=r'<solvable [^>]*\bname="(?P<name>[^"]+)"[^>]*\bedition="(?P<version>[^"]+)"',
        complaint=r'(?s)<message type="error">(.*?)</message>',
        environment={"GNUPGHOME": "{work}", "ZYPP_LOCKFILE_ROOT": "{work}/root", "ZYPP_LOGFILE": "{work}/log", "ZYPPTMPDIR": "{work}/tmp"},
        fine=(0, NOTHING_FOUND),
    ),
}
# Where the node's own repositories have the packages. apt reads the lists that are there; the others read a copy of theirs, and renew it there.
OWN = {
    "apt": replace(MANAGERS["apt"], definition="", files={APT_CONF: APT_CACHE}, folders=("{work}/cache",), reading=()),
    "dnf": replace(
        MANAGERS["dnf"], definition="", folders=(), listing=DNF_OWN, skips=True,
        downloading=(*DNF, "--disableplugin=*", "--enableplugin=download," + DNF_PLUGINS, *DOWNLOAD),
        copied={"/var/cache/dnf": "{work}/cache", "/var/cache/libdnf5": "{work}/cache"},
    ),
    "zypper": replace(
        MANAGERS["zypper"], definition="", folders=("{work}/root", "{work}/tmp"), skips=True,
        reading=(("sh", "-c", IMPORT_OWN),), listing=(*ZYPPER, "/etc/zypp/repos.d", *SEARCH), fine=(0, NOTHING_FOUND, SOME_SKIPPED),
        downloading=(*ZYPPER, "/etc/zypp/repos.d", "--pkg-cache-dir", "{work}/packages", "download"),
        copied={path: "{work}/root" + path for path in
                ("/etc/products.d", "/etc/zypp/credentials.d", "/etc/zypp/vars.d", "/var/cache/zypp/raw", "/var/cache/zypp/solv")},
    ),
}  # fmt: skip


def placed(text: str, work: str) -> str:
    return text.replace(HERE, work)


def found(manager: Manager, output: str) -> dict[str, list[str]]:
    """The versions of each package, the newest first."""
    versions: dict[str, set[str]] = {}
    for match in re.finditer(manager.line, output, re.MULTILINE):
        versions.setdefault(match.group("name"), set()).add(match.group("version"))
    return {name: sorted(there, key=_order, reverse=True) for name, there in versions.items()}


def demand(versions: Mapping[str, Sequence[str]], packages: Sequence[str], wanted: str) -> None:
    """Raises GpuSwarmError unless all packages are there in that version."""
    lacking = [name for name in packages if wanted not in versions.get(name, ())]
    if not lacking:
        return
    everywhere = [version for version in versions.get(packages[0], ()) if all(version in versions.get(name, ()) for name in packages)]
    shown = ", ".join(everywhere[:SHOWN]) + (", ..." if len(everywhere) > SHOWN else "")
    others = "All packages are there in version %s" % shown if everywhere else "In no version are all packages there"
    raise GpuSwarmError("%s in version %s is not there. %s" % (", ".join(lacking), wanted, others), problem="version")


def reason(manager: Manager, output: str) -> str:
    """What a package manager says went wrong, in one line."""
    return " ".join(dict.fromkeys(" ".join(text.split()) for text in complaints(manager, output) or [output]))


def complaints(manager: Manager, output: str) -> list[str]:
    return [html.unescape(text) if "<?xml" in output else text for text in re.findall(manager.complaint, output)]


def _order(version: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[^0-9A-Za-z]+", version)]


Runner = Callable[[Sequence[str]], "tuple[int, str, str]"]


def query(manager: Manager, work: str, packages: Sequence[str], run: Runner) -> dict[str, list[str]]:
    """Has the package manager read its repositories and list these packages. Raises GpuSwarmError where it cannot."""
    output = error = ""
    for command in (*manager.reading, (*manager.listing, *packages)):
        code, output, error = run([placed(word, work) for word in command])
        if code not in manager.fine:
            raise _unreadable(reason(manager, error + "\n" + output) or "exit status %d" % code)
    versions = found(manager, output)
    if manager.skips and not versions.keys() >= set(packages) and complaints(manager, error + "\n" + output):
        raise _unreadable(reason(manager, error + "\n" + output))
    return versions


def download(manager: Manager, work: str, packages: Sequence[str], version: str, run: Runner) -> None:
    """Has the package manager download these below ``{work}/packages``, with what it knows of their checksums. Raises GpuSwarmError where it
    cannot."""
    wanted = [name + manager.between + version for name in packages]
    code, output, error = run([*(placed(word, work) for word in manager.downloading), *wanted])
    if code != 0:
        raise GpuSwarmError("the packages cannot be downloaded: " + reason(manager, error + "\n" + output), problem="repository")


def _unreadable(why: str) -> GpuSwarmError:
    return GpuSwarmError("the repository cannot be read: " + why, problem="repository")
