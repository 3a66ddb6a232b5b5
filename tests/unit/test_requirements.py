# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages for the tests are locked with hashes, and users are given the tested versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "tests/requirements.lock").read_text()
# A pin, its marker, and its following lines.
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)([^\n]*\n(?:[ ]+[^\n]*\n)*)", re.MULTILINE)
PINS = {name: (version, rest) for name, version, rest in PIN.findall(LOCK)}


def wanted():
    lines = [line.partition("#")[0].strip() for line in (ROOT / "tests/requirements.txt").read_text().splitlines()]
    return [Requirement(line) for line in lines if line]


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_every_requirement_is_locked_at_a_fitting_version(requirement):
    version, _hashes = PINS[canonicalize_name(requirement.name)]
    assert version in requirement.specifier, "run make lock"


def test_every_installed_package_has_hashes():
    assert len(PINS) == len(re.findall(r"^[^ #\n]", LOCK, re.MULTILINE)) > len(wanted())
    assert [name for name, (_version, rest) in PINS.items() if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest)] == []


def test_the_source_of_packages_is_left_to_the_user():
    assert re.findall(r"://|--(?:extra-)?index-url|--find-links|--trusted-host|@ ", LOCK) == []


@pytest.mark.parametrize("name", ["nvidia-ml-py", "archspec"])
def test_users_are_given_the_versions_that_were_tested(name):
    """One of these packages runs as root on the nodes of users."""
    (command,) = re.findall(r"^ *\$ pip install (.*nvidia-ml-py.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    pin = f"{name}=={PINS[name][0]}"
    assert pin in command.split()
    for path in ("meta/ee-requirements.txt", "docs/examples/fleet/requirements.txt"):
        assert pin in (ROOT / path).read_text().splitlines()
