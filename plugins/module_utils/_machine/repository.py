# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that list and download packages with each package manager, and the parsers of their output.

The commands read one repository, or the repositories of the node. They write only into one directory, and use the node's settings, such as proxies.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field, replace
from typing import Callable, Mapping, Sequence

from .._errors import GpuSwarmError

REPOSITORY = "nvidia-container-toolkit"  # the repository's name in the definition for dnf and zypper
MAX_SHOWN = 5  # how many versions an error message lists
PLACEHOLDER = "{work}"  # this text is replaced by the path of the directory

# These settings disable the hooks that apt runs after it has read a list, because the hooks write into other directories (update-notifier,
# command-not-found, AppStream, PackageKit). #clear works only in a file.
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
# In dnf 4, the command download is a plugin.
DOWNLOAD = ("download", "--destdir={work}/packages")
# Disable plugins, because plugins write into other directories (subscription-manager, generate_completion_cache), add repositories, or hide versions
# (versionlock).
DNF_REPOSITORY = ("--setopt=reposdir={work}/repositories", "--repo=" + REPOSITORY, "--setopt=%s.skip_if_unavailable=False" % REPOSITORY)
DNF_ONE = (*DNF, "--noplugins", *DNF_REPOSITORY, *REPOQUERY)
# Some repositories of a node cannot be read without these plugins. The plugins add repositories, or headers that a server requires.
DNF_PLUGINS = "amazon-id,artifact-registry,spacewalk,susemanagerplugin"
DNF_OWN = (*DNF, "--disableplugin=*", "--enableplugin=" + DNF_PLUGINS, *REPOQUERY)
# zypper uses a separate root. This root has its own rpm database and keys, and no services that rewrite definitions.
ZYPPER = ("zypper", "--non-interactive", "--xmlout", "--root", "{work}/root", "--reposd-dir")
ZYPPER_DIRECTORIES = ("/etc/products.d", "/etc/zypp/credentials.d", "/etc/zypp/vars.d", "/var/cache/zypp/raw", "/var/cache/zypp/solv")
SEARCH = ("search", "--details", "--match-exact", "--type", "package")
IMPORT = "rpm --root {work}/root --import {work}/key"
# Ignore errors: a node may have no key, or a key that this rpm no longer accepts. The other keys are imported anyway.
IMPORT_OWN = r"rpm --query gpg-pubkey --queryformat '%{DESCRIPTION}\n' > {work}/key && " + IMPORT + " || :"
NOTHING_FOUND, SOME_SKIPPED = 104, 106  # zypper(8), exit codes


@dataclass(frozen=True)
class Manager:
    """A package manager's files and commands. ``{work}`` stands for the directory. Packages are appended to list_command and download_command."""

    definition_path: str
    list_command: tuple[str, ...]
    download_command: tuple[str, ...]  # each package is name + version_separator + version
    version_separator: str
    line_pattern: str
    error_pattern: str  # the parts of the output that an error message shows
    refresh_commands: tuple[tuple[str, ...], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    good_exit_codes: tuple[int, ...] = (0,)
    copied_directories: Mapping[str, str] = field(default_factory=dict)  # {the node's directory: the copy}
    may_skip_repositories: bool = False  # with these options, the package manager continues if it cannot read a repository


MANAGERS = {
    "apt": Manager(
        definition_path="{work}/repository.list",
        files={APT_CONF: APT_CACHE + APT_LISTS},
        folders=("{work}/cache", "{work}/lists"),
        refresh_commands=(("apt-get", "--config-file", APT_CONF, "update"),),
        list_command=("apt-cache", "--config-file", APT_CONF, "madison"),
        download_command=("sh", "-c", 'cd {work}/packages && exec apt-get --config-file %s download "$@"' % APT_CONF, "sh"),
        version_separator="=",
        line_pattern=r"^\s*(?P<name>\S+) \| +(?P<version>\S+) \|",
        error_pattern=r"(?m)^[EW]: (.*)$",
    ),
    "dnf": Manager(
        definition_path="{work}/repositories/repository.repo",
        folders=("{work}/repositories",),
        list_command=DNF_ONE,
        download_command=(*DNF, "--disableplugin=*", "--enableplugin=download", *DNF_REPOSITORY, *DOWNLOAD),
        version_separator="-",
        line_pattern=r"^(?P<name>\S+) (?P<version>\S+)$",
        error_pattern=r"(?m)^(?:Error: |  - |>>> |(?=Failed to ))(.*)$",  # dnf 4 and dnf 5
        environment={"GNUPGHOME": "{work}"},
    ),
    "zypper": Manager(
        definition_path="{work}/repositories/repository.repo",
        folders=("{work}/repositories", "{work}/root", "{work}/tmp"),
        refresh_commands=(tuple(IMPORT.split()), (*ZYPPER, "{work}/repositories", "refresh")),
        list_command=(*ZYPPER, "{work}/repositories", "--no-refresh", *SEARCH),
        download_command=(*ZYPPER, "{work}/repositories", "--pkg-cache-dir", "{work}/packages", "--no-refresh", "download"),
        version_separator="=",
        line_pattern=r'<solvable [^>]*\bname="(?P<name>[^"]+)"[^>]*\bedition="(?P<version>[^"]+)"',
        error_pattern=r'(?s)<message type="error">(.*?)</message>',
        environment={"GNUPGHOME": "{work}", "ZYPP_LOCKFILE_ROOT": "{work}/root", "ZYPP_LOGFILE": "{work}/log", "ZYPPTMPDIR": "{work}/tmp"},
        good_exit_codes=(0, NOTHING_FOUND),
    ),
}
# These commands read the node's own repositories. apt reads the node's lists. The other package managers update a copy of the node's cache.
MANAGERS_OF_NODE = {
    "apt": replace(MANAGERS["apt"], definition_path="", files={APT_CONF: APT_CACHE}, folders=("{work}/cache",), refresh_commands=()),
    "dnf": replace(
        MANAGERS["dnf"], definition_path="", folders=(), list_command=DNF_OWN, may_skip_repositories=True,
        download_command=(*DNF, "--disableplugin=*", "--enableplugin=download," + DNF_PLUGINS, *DOWNLOAD),
        copied_directories={"/var/cache/dnf": "{work}/cache", "/var/cache/libdnf5": "{work}/cache"},
    ),
    "zypper": replace(
        MANAGERS["zypper"], definition_path="", folders=("{work}/root", "{work}/tmp"), may_skip_repositories=True,
        refresh_commands=(("sh", "-c", IMPORT_OWN),), list_command=(*ZYPPER, "/etc/zypp/repos.d", *SEARCH),
        good_exit_codes=(0, NOTHING_FOUND, SOME_SKIPPED),
        download_command=(*ZYPPER, "/etc/zypp/repos.d", "--pkg-cache-dir", "{work}/packages", "download"),
        copied_directories={path: "{work}/root" + path for path in ZYPPER_DIRECTORIES},
    ),
}  # fmt: skip


def with_directory(text: str, work: str) -> str:
    return text.replace(PLACEHOLDER, work)


def parse_versions(manager: Manager, output: str) -> dict[str, list[str]]:
    """Return the versions of each package, newest first."""
    versions: dict[str, set[str]] = {}
    for match in re.finditer(manager.line_pattern, output, re.MULTILINE):
        versions.setdefault(match.group("name"), set()).add(match.group("version"))
    return {name: sorted(candidates, key=_sort_key, reverse=True) for name, candidates in versions.items()}


def require_version(versions: Mapping[str, Sequence[str]], packages: Sequence[str], wanted: str) -> None:
    """Raise GpuSwarmError unless every package exists in this version."""
    lacking = [name for name in packages if wanted not in versions.get(name, ())]
    if not lacking:
        return
    complete = [version for version in versions.get(packages[0], ()) if all(version in versions.get(name, ()) for name in packages)]
    shown = ", ".join(complete[:MAX_SHOWN]) + (", ..." if len(complete) > MAX_SHOWN else "")
    others = "All packages are available in version %s" % shown if complete else "No version has all packages"
    raise GpuSwarmError("%s: version %s is not available. %s" % (", ".join(lacking), wanted, others), problem="version")


def failure_text(manager: Manager, output: str) -> str:
    """Return the package manager's error in one line."""
    return " ".join(dict.fromkeys(" ".join(text.split()) for text in _find_errors(manager, output) or [output]))


def _find_errors(manager: Manager, output: str) -> list[str]:
    return [html.unescape(text) if "<?xml" in output else text for text in re.findall(manager.error_pattern, output)]


def _sort_key(version: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[^0-9A-Za-z]+", version)]


Runner = Callable[[Sequence[str]], "tuple[int, str, str]"]


def query(manager: Manager, work: str, packages: Sequence[str], run: Runner) -> dict[str, list[str]]:
    """Return the versions of these packages in the repositories. Raises GpuSwarmError if the package manager cannot read them."""
    output = error = ""
    for command in (*manager.refresh_commands, (*manager.list_command, *packages)):
        code, output, error = run([with_directory(word, work) for word in command])
        if code not in manager.good_exit_codes:
            raise _unreadable(failure_text(manager, error + "\n" + output) or "exit status %d" % code)
    versions = parse_versions(manager, output)
    if manager.may_skip_repositories and not versions.keys() >= set(packages) and _find_errors(manager, error + "\n" + output):
        raise _unreadable(failure_text(manager, error + "\n" + output))
    return versions


def download(manager: Manager, work: str, packages: Sequence[str], version: str, run: Runner) -> None:
    """Download the packages to ``{work}/packages``. The package manager compares checksums. Raises GpuSwarmError if the download fails."""
    wanted = [name + manager.version_separator + version for name in packages]
    code, output, error = run([*(with_directory(word, work) for word in manager.download_command), *wanted])
    if code != 0:
        raise GpuSwarmError("the packages cannot be downloaded: " + failure_text(manager, error + "\n" + output), problem="repository")


def _unreadable(reason: str) -> GpuSwarmError:
    return GpuSwarmError("the repository cannot be read: " + reason, problem="repository")
