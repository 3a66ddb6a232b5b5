# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases of test_rpm_nodes.py with the real dnf 5, on a node with Fedora's facts, and an additional check run.

Each test continues with the state after the previous test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import rpms
from tests.lab.packages import URL

from . import rpm_nodes
from .fleet import Fleet, of_its_own, toolkit

pytestmark = pytest.mark.rare

FLEET = """\
vars:
  nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container
nodes:
  f1: {groups: [swarm_managers, gpu_nodes], gpus: rtx4090x2, image: debian-testing, family: fedora}
"""
NOT_THERE = "version 1.21.0-1 is not available. All packages are available in version 1.20.0-1, 1.19.1-1"
# A repository of the node with the packages.
OWN = "/etc/yum.repos.d/own.repo"
DEFINITION = f"[own]\nname=Own\nbaseurl={URL}/stable/rpm/$basearch\nrepo_gpgcheck=1\ngpgcheck=0\ngpgkey=file:///{rpms.KEY}\n"
# sqlite rewrites these files for every reader of rpm's database. rpm 6 also locks its keyring for readers, and creates
# its directory if no package was ever installed.
READ = ("/var/lib/rpm/rpmdb.sqlite-shm", "/var/lib/rpm/rpmdb.sqlite-wal", "/var/lib/rpm/.keyring.lock", "/var/lib/rpm", "/var/lib")


@pytest.fixture(scope="module")
def fleet(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("dnf5")
    given = pytestconfig.getoption("--dnf5-fleet")
    if given:
        yield Fleet.of(given, work)
        return
    yield from of_its_own("dnf5", FLEET, work)


def touched(fleet: Fleet) -> list[str]:
    return [path for path in fleet["f1"].touched() if path not in READ]


def test_a_check_run_on_a_node_that_was_never_provisioned(fleet: Fleet) -> None:
    """The check run changes nothing, and reports a missing version."""
    inventory = rpm_nodes.members(fleet)
    fleet["f1"].touch()
    done = fleet.playbook(inventory, "--check", *toolkit(version="1.20.0"))
    assert (done.rc, "installs toolkit 1.20.0" in done.output) == (0, True), done.output
    done = fleet.playbook(inventory, "--check", *toolkit(version="1.21.0"))
    assert (done.failed(), NOT_THERE in done.failures("f1")[-1]) == (["f1"], True), done.output
    assert touched(fleet) == []


def test_a_check_run_searches_the_node_s_own_repositories(fleet: Fleet) -> None:
    fleet["f1"].write(OWN, DEFINITION.encode())
    fleet["f1"].touch()
    try:
        done = rpm_nodes.role(fleet, "--check", version="1.19.1", manage_repository=False)
        assert (done.rc, "in version 1.19.1-1 (now none)" in done.output) == (0, True), done.output
        done = rpm_nodes.role(fleet, "--check", version="1.21.0", manage_repository=False)
        assert (done.failed(), NOT_THERE in done.failures("f1")[-1]) == (["f1"], True), done.output
        assert touched(fleet) == []
    finally:
        fleet["f1"].run("rm", OWN)


def test_a_fleet_is_provisioned(fleet: Fleet) -> None:
    rpm_nodes.provision_nodes(fleet)


def test_a_held_version_can_be_changed(fleet: Fleet) -> None:
    """dnf 5 itself can hold packages."""
    rpm_nodes.change_held_version(fleet)


def test_held_packages_stay_unless_the_role_holds_them(fleet: Fleet) -> None:
    rpm_nodes.keep_foreign_hold(fleet)


def test_a_killed_transaction_is_finished_by_the_next_run(fleet: Fleet) -> None:
    rpm_nodes.finish_killed_upgrade(fleet)


def test_unsigned_and_changed_packages_are_not_installed(fleet: Fleet) -> None:
    rpm_nodes.refuse_changed_package(fleet)


def test_the_package_manager_s_proxy_is_used(fleet: Fleet) -> None:
    rpm_nodes.install_through_proxy(fleet)


def test_packages_as_files_need_no_repository(fleet: Fleet, tmp_path: Path) -> None:
    rpm_nodes.install_from_files(fleet, tmp_path)


def test_everything_is_removed_with_the_repository_and_the_hold(fleet: Fleet) -> None:
    rpm_nodes.remove_toolkit(fleet)
