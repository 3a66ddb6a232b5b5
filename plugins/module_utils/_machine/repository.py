# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How each package manager reads one repository with nothing but a directory of its own to write into, and what it then lists (pure).

Settings of the node, such as proxies, are read as ever. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
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
# Plugins write outside of the directory (subscription-manager, generate_completion_cache), add repositories, and hide versions (versionlock).
DNF = (
    "dnf", "--assumeyes", "--noplugins", "--setopt=reposdir={work}/repositories",
    "--setopt=cachedir={work}/cache", "--setopt=persistdir={work}/state", "--setopt=logdir={work}/log",
    "--repo=" + REPOSITORY, "--setopt=%s.skip_if_unavailable=False" % REPOSITORY,
)  # fmt: skip
# Another root has another database of rpm, and in that, no key but the pinned one.
ZYPPER = ("zypper", "--non-interactive", "--xmlout", "--root", "{work}/root", "--reposd-dir", "{work}/repositories")
NOTHING_FOUND = 104  # zypper(8), exit codes


@dataclass(frozen=True)
class Manager:
    """A package manager's files and commands, with ``{work}`` for the directory and the packages' names to come after ``listing``."""

    definition: str
    listing: tuple[str, ...]
    line: str
    complaint: str  # what of its output is shown, where it failed
    reading: tuple[tuple[str, ...], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    fine: tuple[int, ...] = (0,)


MANAGERS = {
    "apt": Manager(
        definition="{work}/repository.list",
        files={APT_CONF: APT_CACHE + APT_LISTS},
        folders=("{work}/cache", "{work}/lists"),
        reading=(("apt-get", "--config-file", APT_CONF, "update"),),
        listing=("apt-cache", "--config-file", APT_CONF, "madison"),
        line=r"^\s*(?P<name>\S+) \| +(?P<version>\S+) \|",
        complaint=r"(?m)^[EW]: (.*)$",
    ),
    "dnf": Manager(
        definition="{work}/repositories/repository.repo",
        folders=("{work}/repositories",),
        listing=(*DNF, "repoquery", "--queryformat", r"%{name} %{version}-%{release}\n"),
        line=r"^(?P<name>\S+) (?P<version>\S+)$",
        complaint=r"(?m)^(?:Error: |  - |>>> |(?=Failed to ))(.*)$",  # of dnf 4, and of dnf 5
        environment={"GNUPGHOME": "{work}"},
    ),
    "zypper": Manager(
        definition="{work}/repositories/repository.repo",
        folders=("{work}/repositories", "{work}/root", "{work}/tmp"),
        reading=(("rpm", "--root", "{work}/root", "--import", "{work}/key"), (*ZYPPER, "refresh")),
        listing=(*ZYPPER, "--no-refresh", "search", "--details", "--match-exact", "--type", "package"),
        line=r'<solvable [^>]*\bname="(?P<name>[^"]+)"[^>]*\bedition="(?P<version>[^"]+)"',
        complaint=r'(?s)<message type="error">(.*?)</message>',
        environment={"GNUPGHOME": "{work}", "ZYPP_LOCKFILE_ROOT": "{work}/root", "ZYPP_LOGFILE": "{work}/log", "ZYPPTMPDIR": "{work}/tmp"},
        fine=(0, NOTHING_FOUND),
    ),
}
# Where the node's own repositories have the packages: by the lists that are there.
OWN = {
    "apt": Manager(
        definition="",
        files={APT_CONF: APT_CACHE},
        folders=("{work}/cache",),
        listing=MANAGERS["apt"].listing,
        line=MANAGERS["apt"].line,
        complaint=MANAGERS["apt"].complaint,
    )
}


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
    complaints = [html.unescape(text) if "<?xml" in output else text for text in re.findall(manager.complaint, output)]
    return " ".join(dict.fromkeys(" ".join(text.split()) for text in complaints or [output]))


def _order(version: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[^0-9A-Za-z]+", version)]


Runner = Callable[[Sequence[str]], "tuple[int, str, str]"]


def query(manager: Manager, work: str, packages: Sequence[str], run: Runner) -> dict[str, list[str]]:
    """Has the package manager read the repository and list these packages. Raises GpuSwarmError where it cannot."""
    output = ""
    for command in (*manager.reading, (*manager.listing, *packages)):
        code, output, error = run([placed(word, work) for word in command])
        if code not in manager.fine:
            why = reason(manager, error + "\n" + output) or "exit status %d" % code
            raise GpuSwarmError("the repository cannot be read: " + why, problem="repository")
    return found(manager, output)
