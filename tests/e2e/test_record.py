# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manager records who used which GPU. People of group docker read it there, and nothing else. Deprovision removes everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .fleet import STATE_DIR, Fleet, Run, of_its_own, wait_until

NAME = "e2e-record"
FLEET = """
nodes:
  m1: {groups: [swarm_managers]}
  g1: {gpus: rtx4090x2, toolkit: 1.20.0}
"""
UNIT = "gpu-swarm-manager.service"
SETTINGS = ("--extra-vars", json.dumps({"gpu_swarm_page": True, "gpu_swarm_isolation": "off"}))
READING_S = 60  # the leader reads the swarm this often
# A user of group docker, and a user of no such group.
MEMBER = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--groups", "docker", "--")
STRANGER = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("record"))


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(swarm_managers=["m1"], gpu_nodes=["g1"])


@pytest.fixture(scope="module")
def provisioned(fleet: Fleet, inventory: Path) -> Run:
    run = fleet.playbook(inventory, *SETTINGS)
    assert run.rc == 0, run.output
    return run


def asked(fleet: Fleet, *words: str) -> Any:
    """Return the answer of the command to a member of group docker; None without an answer."""
    done = fleet["m1"].start(*MEMBER, "gpu-swarm", *words, "--json", check=False)
    return json.loads(done.stdout) if done.stdout else None


def rows(fleet: Fleet, service: str) -> list[dict[str, Any]]:
    answer = asked(fleet, "usage", "--since", "1h", "--by", "service")
    return [row for row in (answer or {}).get("rows", []) if row["name"] == service]


def test_people_of_group_docker_get_to_the_record_and_to_nothing_else(fleet: Fleet, inventory: Path, provisioned: Run) -> None:
    manager = fleet["m1"]
    status = wait_until("the first reading", lambda: asked(fleet, "status"), 2 * READING_S)
    assert sorted(node["node"] for node in status["nodes"]) == ["g1", "m1"]
    entries = manager.run("find", STATE_DIR, "-maxdepth", "1", "-printf", "%m %u:%g %f\n").splitlines()
    opened = sorted(entry for entry in entries if not entry.split()[0].endswith("00"))
    assert opened == ["2750 root:docker page", "2750 root:docker record", "711 root:root gpu-swarm"]
    assert manager.start(*MEMBER, "ls", STATE_DIR, check=False).returncode != 0
    assert manager.start(*MEMBER, "ls", f"{STATE_DIR}/manager", check=False).returncode != 0
    assert manager.start(*MEMBER, "touch", f"{STATE_DIR}/record/other", check=False).returncode != 0
    stranger = manager.start(*STRANGER, "gpu-swarm", "status", check=False)
    assert stranger.returncode != 0
    assert stranger.stderr.decode().strip().endswith("Become root, or a member of the group docker.")
    page = ("cat", f"{STATE_DIR}/page/index.html")
    assert "g1" in manager.run(*MEMBER, *page)
    assert manager.start(*STRANGER, *page, check=False).returncode != 0


def test_a_second_run_has_nothing_to_do(fleet: Fleet, inventory: Path, provisioned: Run) -> None:
    run = fleet.playbook(inventory, *SETTINGS)
    assert (run.rc, set(run.changed().values())) == (0, {0}), run.output


def test_a_service_that_has_ended_is_in_the_record(fleet: Fleet, inventory: Path, provisioned: Run) -> None:
    manager = fleet["m1"]
    kind = next(iter(fleet_kinds(fleet)))
    create = ("service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", "train", "--label", "gpu-swarm.owner=alice")
    manager.docker(*create, "--generic-resource", f"{kind}=1", "lab/task", "sleep", "infinity")
    wait_until("its container", lambda: fleet["g1"].docker("ps", "--quiet"))
    read_soon(fleet, "pause")
    (running,) = wait_until("the running service", lambda: rows(fleet, "train"), 3 * READING_S, lambda: journal(fleet))
    assert (running["kind"], running["running"]) == (kind, 1)
    manager.docker("service", "rm", "train")
    wait_until("no container", lambda: not fleet["g1"].docker("ps", "--quiet"))
    read_soon(fleet, "active")
    wait_until("its end", lambda: rows(fleet, "train")[0]["running"] == 0, 3 * READING_S, lambda: journal(fleet))
    (ended,) = rows(fleet, "train")
    assert ended["hours"] > 0
    assert ended["cards"] == pytest.approx(ended["hours"])
    (alice,) = (row for row in asked(fleet, "usage", "--by", "owner")["rows"] if row["name"] == "alice")
    assert alice["hours"] == pytest.approx(ended["hours"])
    shown = fleet.playbook(inventory, "-e", "what=usage", "-e", "by=service", playbook="fleet.gpu_swarm.status")
    assert shown.rc == 0, shown.output
    assert "train" in shown.output
    assert "Please report that" not in journal(fleet)


def read_soon(fleet: Fleet, availability: str) -> None:
    """Change the state of a node without tasks, so that the leader reads before a minute is over."""
    fleet["m1"].docker("node", "update", "--availability", availability, "m1")


def fleet_kinds(fleet: Fleet) -> set[str]:
    """Return the kinds that g1 advertises."""
    resources = fleet["m1"].docker_json("node", "inspect", "g1")[0]["Description"]["Resources"]["GenericResources"]
    return {entry["NamedResourceSpec"]["Kind"] for entry in resources}


def journal(fleet: Fleet) -> str:
    return fleet["m1"].run("journalctl", "--unit", UNIT, "--output", "cat", "--no-pager")


def test_deprovision_leaves_no_trace(fleet: Fleet, inventory: Path, provisioned: Run) -> None:
    run = fleet.playbook(inventory, *SETTINGS, "-e", "provision_disrupt=all", playbook="fleet.gpu_swarm.deprovision")
    assert run.rc == 0, run.output
    assert fleet["m1"].run("find", "/etc", "/run", "/usr/local", "/var/lib", "-xdev", "-path", "*gpu-swarm*") == ""
    assert fleet["m1"].run("systemctl", "show", "--property", "LoadState", UNIT) == "LoadState=not-found"
