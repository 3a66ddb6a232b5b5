# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROLES = Path(__file__).parents[3] / "roles"
PACKAGE_MODULES = ("ansible.builtin.dnf", "ansible.builtin.package", "ansible.builtin.rpm_key", "community.general.zypper", "ansible.builtin.command")


def tasks_in(tasks):
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part, []))


def touches_packages(task):
    """Return whether a task calls a package manager. In these roles every command does so, except the command that moves a file."""
    command = task.get("ansible.builtin.command")
    return any(module in task for module in PACKAGE_MODULES) and not (command and command["argv"][0] == "mv")


@pytest.mark.parametrize("role", ["nvidia_container_toolkit"])
def test_every_task_with_the_package_manager_has_a_limit(role):
    found = [
        (path.name, task["name"], task.get("timeout"))
        for path in sorted((ROLES / role / "tasks").glob("*.yml"))
        for task in tasks_in(yaml.safe_load(path.read_text()))
        if touches_packages(task)
    ]
    assert found
    assert [entry for entry in found if entry[2] != f"{{{{ _{role}_limit }}}}"] == []
    assert yaml.safe_load((ROLES / role / "vars/main.yml").read_text())[f"_{role}_limit"] > 300  # the package managers wait this long for a lock


def test_the_role_swarm_member_installs_nothing():
    for path in sorted((ROLES / "swarm_member/tasks").glob("*.yml")):
        assert not any(map(touches_packages, tasks_in(yaml.safe_load(path.read_text())))), path
