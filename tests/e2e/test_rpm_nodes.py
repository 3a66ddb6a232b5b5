# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet is provisioned with the real dnf and the real zypper, on nodes with the facts of RHEL's and SUSE's families.

Later tests run only the role. Each test continues with the state after the previous test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import rpm_nodes
from .fleet import Fleet, of_its_own

FLEET = """\
vars:
  nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container
nodes:
  r1: {groups: [swarm_managers, gpu_nodes], gpus: rtx4090x2, image: debian12, family: rhel}
  s1: {gpus: t4x4, image: debian12, family: suse, retired: [nvidia-docker2, nvidia-container-runtime], toolkit: 1.14.0}
"""
DAEMON_JSON = b'{"debug": false}\n'


@pytest.fixture(scope="module")
def fleet(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("rpm")
    given = pytestconfig.getoption("--rpm-fleet")
    if given:
        yield Fleet.of(given, work)
        return
    yield from of_its_own("rpm", FLEET, work)


def test_a_fleet_is_provisioned(fleet: Fleet) -> None:
    """One node is bare. Another one has nvidia-docker2, whose package owns daemon.json."""
    fleet["s1"].write("/etc/docker/daemon.json", DAEMON_JSON)
    rpm_nodes.provision_nodes(fleet)
    assert json.loads(fleet["s1"].read("/etc/docker/daemon.json") or b"")["debug"] is False


@pytest.mark.rare
def test_a_held_version_can_be_changed(fleet: Fleet) -> None:
    """The node's own repository has the plugin versionlock."""
    rpm_nodes.change_held_version(fleet)


@pytest.mark.rare
def test_held_packages_stay_unless_the_role_holds_them(fleet: Fleet) -> None:
    rpm_nodes.keep_foreign_hold(fleet)


@pytest.mark.rare
def test_a_killed_transaction_is_finished_by_the_next_run(fleet: Fleet) -> None:
    rpm_nodes.finish_killed_upgrade(fleet)


@pytest.mark.rare
def test_unsigned_and_changed_packages_are_not_installed(fleet: Fleet) -> None:
    rpm_nodes.refuse_changed_package(fleet)


@pytest.mark.rare
def test_the_package_manager_s_proxy_is_used(fleet: Fleet) -> None:
    """dnf's proxy is in dnf's settings. Debian's zypper reads the proxy only from its environment."""
    rpm_nodes.install_through_proxy(fleet)


@pytest.mark.rare
def test_packages_as_files_need_no_repository(fleet: Fleet, tmp_path: Path) -> None:
    rpm_nodes.install_from_files(fleet, tmp_path)


@pytest.mark.rare
def test_everything_is_removed_with_the_repository_and_the_hold(fleet: Fleet) -> None:
    rpm_nodes.remove_toolkit(fleet)
