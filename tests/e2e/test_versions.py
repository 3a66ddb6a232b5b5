# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another version of the NVIDIA Container Toolkit for a fleet with work, and held packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import NODES
from .fleet import Fleet, toolkit
from .swarm import GPU_NODES, KIND, availabilities, availability_of
from .work import all_running, service

pytestmark = pytest.mark.rare

PACKAGES = ["libnvidia-container-tools", "libnvidia-container1", "nvidia-container-toolkit", "nvidia-container-toolkit-base"]


def versions(fleet: Fleet) -> dict[str, str]:
    show = ("dpkg-query", "--show", "--showformat", "${Version}", "nvidia-container-toolkit")
    return {name: fleet[name].run(*show) for name in GPU_NODES}


def held(fleet: Fleet) -> list[list[str]]:
    return [sorted(fleet[name].run("apt-mark", "showhold").split()) for name in GPU_NODES]


def would_upgrade(fleet: Fleet) -> list[bool]:
    """Return whether an upgrade of everything would change the toolkit, by node."""
    return ["Inst nvidia-container-toolkit " in fleet[name].run("apt-get", "--just-print", "dist-upgrade") for name in GPU_NODES]


def is_refused(fleet: Fleet, inventory: Path, text: str, *arguments: str) -> None:
    """Check that a run and a check run find a missing version before they pause any node."""
    before, since = [fleet[name].started() for name in GPU_NODES], fleet["m1"].run("date", "+%s.%N")
    run = fleet.playbook(inventory, *toolkit(version="1.21.0"), *arguments)
    assert run.rc == 2, run.output
    for name in GPU_NODES:
        assert text in run.failures(name)[-1]
        assert availabilities(fleet, name, since) == []
    assert [fleet[name].started() for name in GPU_NODES] == before


def test_a_version_is_rolled_over_the_fleet_and_held(fleet: Fleet, inventory: Path, as_before: None) -> None:
    for name in GPU_NODES:
        fleet[name].run("logger", "--tag", "versions", "begins")
    with service(fleet, "hold", 3, "--generic-resource", f"{KIND}=1") as tasks:
        is_refused(fleet, inventory, "version 1.21.0-1 is not available. All packages are available in version 1.20.0-1, 1.19.1-1", "--check")
        is_refused(fleet, inventory, "Version '1.21.0-1' for 'nvidia-container-toolkit' was not found")
        assert {task["ID"] for task in all_running(fleet["m1"], "hold", 3)} == {task["ID"] for task in tasks}

        run = fleet.playbook(inventory, *toolkit(version="1.19.1", hold=True))
        assert run.rc == 0, run.output
        assert all(words in run.output for words in ("toolkit 1.20.0 → 1.19.1", "moves service hold"))
        assert set(versions(fleet).values()) == {"1.19.1-1"}
        assert held(fleet) == [PACKAGES, PACKAGES]
        assert would_upgrade(fleet) == [False, False]
        for name in GPU_NODES:
            log = fleet[name].run("journalctl", "--output", "cat", "--no-pager", "-t", "versions", "-t", "systemd")
            assert log.rpartition("begins")[2].count("Started docker.service") <= 1
            assert availability_of(fleet, name) == ("active", None)
        assert len(all_running(fleet["m1"], "hold", 3)) == 3

    run = fleet.playbook(inventory, *toolkit(version="1.19.1", hold=True))
    assert (run.rc, run.changed()) == (0, dict.fromkeys(NODES, 0)), run.output

    before = [fleet[name].started() for name in GPU_NODES]
    run = fleet.playbook(inventory, *toolkit(version="1.19.1", hold=False))
    assert run.rc == 0, run.output
    assert (held(fleet), would_upgrade(fleet)) == ([[], []], [True, True])
    assert [fleet[name].started() for name in GPU_NODES] == before


def test_a_held_version_is_not_changed(fleet: Fleet, inventory: Path, as_before: None) -> None:
    """The test starts with the version that the previous test left."""
    node, was = fleet["g1"], versions(fleet)["g1"]
    assert was != "1.20.0-1"
    node.run("apt-mark", "hold", "nvidia-container-toolkit")
    before = (node.files(), node.started())
    run = fleet.playbook(inventory, "--limit", "g1", *toolkit(version="1.20.0"))
    assert run.rc == 2
    assert "the package manager holds nvidia-container-toolkit at that version. Set nvidia_container_toolkit_hold: true" in run.failures("g1")[-1]
    assert ((node.files(), node.started()), versions(fleet)["g1"]) == (before, was)

    run = fleet.playbook(inventory, "--limit", "g1", *toolkit(version="1.20.0", hold=False))
    assert run.rc == 0, run.output
    assert (held(fleet), versions(fleet)["g1"]) == ([[], []], "1.20.0-1")
