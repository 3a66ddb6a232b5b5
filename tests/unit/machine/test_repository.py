# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Uses output of apt 2.6, dnf 4.14 and 5.4, and zypper 1.14. tests/e2e/test_repository_packages.py runs the real package managers."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.repository import (
    MANAGERS,
    MANAGERS_OF_NODE,
    failure_text,
    parse_versions,
    query,
    require_version,
)

MADISON = """\
nvidia-container-toolkit |   1.20.0-1 | http://lab-repo/libnvidia-container/stable/deb/amd64  Packages
nvidia-container-toolkit |   1.19.1-1 | http://lab-repo/libnvidia-container/stable/deb/amd64  Packages
libnvidia-container1 |   1.20.0-1 | http://lab-repo/libnvidia-container/stable/deb/amd64  Packages
"""
REPOQUERY = """\
NVIDIA Container Toolkit                         90 kB/s | 335  B     00:00
Last metadata expiration check: 0:00:01 ago on Mon Nov 23 00:02:51 2026.
nvidia-container-toolkit 1.19.1-1

nvidia-container-toolkit 1.20.0-1

libnvidia-container1 1.20.0-1

"""
SEARCH = """\
<?xml version='1.0'?>
<stream>
<message type="info">Loading repository data...</message>
<search-result version="0.0">
<solvable-list>
<solvable status="not-installed" name="nvidia-container-toolkit" kind="package" edition="1.20.0-1" arch="x86_64" repository="NVIDIA"/>
<solvable status="not-installed" name="nvidia-container-toolkit" kind="package" edition="1.19.1-1" arch="x86_64" repository="NVIDIA"/>
<solvable status="other-version" name="libnvidia-container1" kind="package" edition="1.20.0-1" arch="x86_64" repository="NVIDIA"/>
</solvable-list>
</search-result>
</stream>
"""
LISTED = {"apt": MADISON, "dnf": REPOQUERY, "zypper": SEARCH}
NONE_LISTED = {"apt": "", "dnf": "Last metadata expiration check: 0:00:01 ago.\n", "zypper": "<?xml version='1.0'?>\n<stream>\n</stream>\n"}
PACKAGES = ["nvidia-container-toolkit", "libnvidia-container1"]


@pytest.mark.parametrize("name", MANAGERS)
def test_available_versions_are_listed(name):
    versions = parse_versions(MANAGERS[name], LISTED[name])
    assert {package: versions[package] for package in PACKAGES} == {PACKAGES[0]: ["1.20.0-1", "1.19.1-1"], PACKAGES[1]: ["1.20.0-1"]}
    assert not set(PACKAGES) & set(parse_versions(MANAGERS[name], NONE_LISTED[name]))


def test_the_newest_comes_first():
    lines = [f"name |   {version} | url\n" for version in ("1.9.0-1", "1.10.0-1", "1.10.0~rc.1-1", "1.10.0-2", "10.0.0-1")]
    assert parse_versions(MANAGERS["apt"], "".join(lines))["name"] == ["10.0.0-1", "1.10.0-2", "1.10.0-1", "1.10.0~rc.1-1", "1.9.0-1"]


NEW, OLD = "1.20.0-1", "1.19.1-1"
MANY = [f"1.{minor}.0-1" for minor in range(20, 10, -1)]


@pytest.mark.parametrize(
    ("versions", "wanted", "message"),
    [
        ({"a": [NEW, OLD], "b": [NEW]}, NEW, None),
        ({"a": [NEW, OLD], "b": [NEW]}, OLD, "b: version 1.19.1-1 is not available. All packages are available in version 1.20.0-1"),
        ({"a": [NEW, OLD], "b": [NEW, OLD]}, "9-1", "a, b: version 9-1 is not available. All packages are available in version 1.20.0-1, 1.19.1-1"),
        ({"a": [NEW], "b": [OLD]}, NEW, "b: version 1.20.0-1 is not available. No version has all packages"),
        ({}, NEW, "a, b: version 1.20.0-1 is not available. No version has all packages"),
        ({"a": MANY, "b": MANY}, "9-1", "a, b: version 9-1 is not available. All packages are available in version %s, ..." % ", ".join(MANY[:5])),
    ],
)
def test_missing_packages_are_named(versions, wanted, message):
    if message is None:
        assert require_version(versions, ["a", "b"], wanted) is None
        return
    with pytest.raises(GpuSwarmError) as raised:
        require_version(versions, ["a", "b"], wanted)
    assert (raised.value.message, raised.value.details) == (message, {"problem": "version"})


DNF_OUTPUT = """\
Unable to detect release version (use '--releasever' to specify release version)
No matches found for the following disable plugin patterns: subscription-manager, versionlock
Errors during downloading metadata for repository 'nvidia-container-toolkit':
  - Status code: 404 for http://m/repomd.xml.asc (IP: 127.0.0.1)
  - Status code: 404 for http://m/repomd.xml.asc (IP: 127.0.0.1)
Error: Failed to download metadata for repo 'nvidia-container-toolkit': GPG signature is not available
"""
DNF_5_OUTPUT = """\
Importing OpenPGP key 0xB13C7652:
The key was successfully imported.
>>> repomd.xml GPG signature verification error: Signing key not found
Failed to download metadata (baseurl: "http://m") for repository "nvidia-container-toolkit": Signing key not found
"""
ZYPPER_OUTPUT = """\
<?xml version='1.0'?>
<stream>
<prompt id="18"><text>Do you want to reject the key?</text></prompt>
<message type="error">Repository &apos;NVIDIA&apos; is invalid.
[nvidia|http://m] Valid metadata not found at specified URL</message>
<message type="error">Could not refresh the repositories because of errors.</message>
</stream>
"""
APT_OUTPUT = """\
W: http://m/InRelease: The key(s) in the keyring are ignored
E: Failed to fetch http://m/InRelease  Could not connect to m:80 (127.0.0.1), connection refused
E: Some index files failed to download.

Err:1 http://m InRelease
"""


APT_REASON = (
    "http://m/InRelease: The key(s) in the keyring are ignored Failed to fetch http://m/InRelease Could not connect to m:80 (127.0.0.1), "
    "connection refused Some index files failed to download."
)
DNF_REASON = (
    "Status code: 404 for http://m/repomd.xml.asc (IP: 127.0.0.1) "
    "Failed to download metadata for repo 'nvidia-container-toolkit': GPG signature is not available"
)
DNF_5_REASON = (
    "repomd.xml GPG signature verification error: Signing key not found "
    'Failed to download metadata (baseurl: "http://m") for repository "nvidia-container-toolkit": Signing key not found'
)
ZYPPER_REASON = (
    "Repository 'NVIDIA' is invalid. [nvidia|http://m] Valid metadata not found at specified URL "
    "Could not refresh the repositories because of errors."
)


@pytest.mark.parametrize(
    ("name", "output", "text"),
    [
        ("apt", APT_OUTPUT, APT_REASON),
        ("dnf", DNF_OUTPUT, DNF_REASON),
        ("dnf", DNF_5_OUTPUT, DNF_5_REASON),
        ("zypper", ZYPPER_OUTPUT, ZYPPER_REASON),
        ("dnf", "usage:  dnf\n  [options]\n", "usage: dnf [options]"),
        ("apt", "", ""),
    ],
)
def test_the_error_of_a_package_manager_is_named(name, output, text):
    assert failure_text(MANAGERS[name], output) == text


class Commands:
    """Answers commands in order."""

    def __init__(self, *answers):
        self.answers, self.called = list(answers), []

    def __call__(self, words):
        self.called.append(words)
        return self.answers.pop(0)


@pytest.mark.parametrize("name", MANAGERS)
def test_nothing_is_written_outside_the_directory(name):
    """Every command and file is in the directory, and the listing ends with the packages."""
    manager = MANAGERS[name]
    run = Commands(*[(0, "", "")] * len(manager.refresh_commands), (0, LISTED[name], ""))
    query(manager, "/w", PACKAGES, run)
    assert run.called[-1][-2:] == PACKAGES
    assert not [words for words in run.called if not any("/w" in word for word in words)]
    assert not [word for words in run.called for word in words if "{work}" in word]
    assert not [path for path in (manager.definition_path, *manager.files, *manager.folders) if not path.startswith("{work}/")]


@pytest.mark.parametrize("name", MANAGERS)
def test_a_failure_ends_the_search(name):
    manager = MANAGERS[name]
    run = Commands((1, "", "E: no\n"))
    with pytest.raises(GpuSwarmError, match="^the repository cannot be read: ") as raised:
        query(manager, "/w", PACKAGES, run)
    assert raised.value.details == {"problem": "repository"}
    assert len(run.called) == 1
    with pytest.raises(GpuSwarmError, match="the repository cannot be read: exit status 3$"):
        query(manager, "/w", PACKAGES, Commands((3, "", "")))


def test_zypper_may_find_nothing():
    run = Commands((0, "", ""), (0, "", ""), (104, NONE_LISTED["zypper"], ""))
    assert query(MANAGERS["zypper"], "/w", PACKAGES, run) == {}


def test_apt_updates_no_lists_of_the_node_s_own_repositories():
    run = Commands((0, MADISON, ""))
    assert query(MANAGERS_OF_NODE["apt"], "/w", PACKAGES, run)[PACKAGES[1]] == ["1.20.0-1"]
    assert [words[0] for words in run.called] == ["apt-cache"]
    assert "Lists" not in "".join(MANAGERS_OF_NODE["apt"].files.values())


@pytest.mark.parametrize(("name", "code", "complaint"), [("dnf", 0, DNF_OUTPUT), ("zypper", 106, ZYPPER_OUTPUT)])
def test_a_skipped_repository_is_named_if_packages_are_missing(name, code, complaint):
    """The skipped repository may have the missing packages."""
    skipped = (code, LISTED[name], complaint)
    refreshed = [(0, "", "")] * len(MANAGERS_OF_NODE[name].refresh_commands)
    assert set(PACKAGES) <= set(query(MANAGERS_OF_NODE[name], "/w", PACKAGES, Commands(*refreshed, skipped)))
    with pytest.raises(GpuSwarmError, match="^the repository cannot be read: ") as raised:
        query(MANAGERS_OF_NODE[name], "/w", [*PACKAGES, "other"], Commands(*refreshed, skipped))
    assert raised.value.details == {"problem": "repository"}


@pytest.mark.parametrize("name", ["dnf", "zypper"])
def test_files_from_a_node_are_copied_into_the_directory(name):
    assert MANAGERS_OF_NODE[name].copied_directories
    assert all(source.startswith("/") and target.startswith("{work}/") for source, target in MANAGERS_OF_NODE[name].copied_directories.items())
