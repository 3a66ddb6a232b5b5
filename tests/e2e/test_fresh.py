# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts outside a swarm have no window. The run still notices events between their assessment and their change."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

from .conftest import Loud
from .fleet import STATE_DIR, Fleet, Node, toolkit, wait_until

HOOK = "/etc/apt/apt.conf.d/99hook"
PACKAGE = ("dpkg-query", "--show", "--showformat=${Version}", "nvidia-container-toolkit")
OTHER = {"holder": "bob@elsewhere pid 7", "ttl": 600}


def lease(manager: Node) -> str | None:
    return manager.docker_json("info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}").get("gpu-swarm.lease")


def test_a_container_started_since_the_assessment_keeps_the_packages_unchanged(fleet: Fleet, first: Loud) -> None:
    """The container starts during the download of the packages, the last step before their installation."""
    node = fleet["x4"]
    before = (node.run(*PACKAGE), node.files(), node.started())
    node.write(HOOK, b'APT::Update::Post-Invoke-Success {"docker run --detach --name notebook lab/task || true";};\n')
    try:
        run = fleet.playbook(fleet.inventory(swarm_managers=["m1"], gpu_nodes=["x4"]), "--limit", "x4", *toolkit(version="1.19.1"))
        assert run.rc == os.EX_TEMPFAIL, run.output
        assert " waiting for container notebook (for " in run.row("x4"), run.output
        assert (node.run(*PACKAGE), node.files(), node.started()) == before
        assert node.docker("ps", "--format", "{{.Names}}") == "notebook"
        assert node.swarm()["LocalNodeState"] == "inactive"
    finally:
        node.run("rm", HOOK)
        node.run("docker", "rm", "--force", "notebook", check=False)


def test_a_host_does_not_join_while_another_run_has_the_lease(fleet: Fleet, first: Loud) -> None:
    """This run was busy with the host until its lease expired. Then the other run took the lease."""
    node, manager = fleet["x1"], fleet["m1"]
    node.run("mkdir", "--parents", "--mode=700", STATE_DIR)
    before, inventory = node.files(), fleet.inventory(swarm_managers=["m1"], gpu_nodes=["x1"])
    with ThreadPoolExecutor(1) as runs:
        with node.locked():
            going = runs.submit(fleet.playbook, inventory, "--limit", "x1", "--extra-vars", json.dumps({"provision_lease": 3}))
            wait_until("the run to begin", lambda: lease(manager))
            wait_until("its lease to end", lambda: '"acquired": true' in fleet.module("m1", "fleet.gpu_swarm.swarm_lease", OTHER).output)
        run = going.result()
        ended = fleet.module("m1", "fleet.gpu_swarm.swarm_lease", {**OTHER, "state": "absent"})
    assert ended.rc == 0, ended.output
    after, state = node.files(), node.swarm()["LocalNodeState"]
    undone = fleet.module("x1", "fleet.gpu_swarm.gpu_node", {"state": "absent"})
    assert undone.rc == 0, undone.output
    assert run.rc == 2, run.output
    assert f"another run changes this swarm: {OTHER['holder']}" in run.failures("x1")[-1], run.output
    assert state == "inactive"
    assert after != before  # earlier changes of the host do not need the lease
    assert node.files() == before
