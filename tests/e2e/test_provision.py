# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""provision: from bare nodes to scheduled GPUs, again without a change, on part of the fleet, and around other people's work."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .conftest import BY_A_PERSON, MAIN, NODES, PROXY, PROXY_SETTING, Bare, Loud
from .fleet import DAEMON_JSON, Fleet, Node, Run, advertised_as, wait_until
from .swarm import GPU_NODES, KIND, MARK, availabilities, availability_of, lease_of, member, named, shown
from .work import all_running, by_hand, containers, remove, service

SOON = ("--extra-vars", json.dumps({"provision_wait": 4}))


# -- the first runs ----------------------------------------------------------------------------------------------------


def test_check_on_bare_nodes_reports_the_plan(bare: Bare) -> None:
    assert bare.run.rc == 0, bare.run.output
    for name, count in (("g1", 2), ("g2", 4)):
        plan = re.search(rf"^{name} +(.*)$", bare.run.output, re.MULTILINE)
        assert plan, bare.run.output
        assert all(words in plan[1] for words in ("installs toolkit", f"+{count} {KIND}", "restarts dockerd", "joins the swarm"))


def test_check_on_bare_nodes_changes_nothing(bare: Bare) -> None:
    assert bare.touched == {name: [] for name in NODES}
    assert bare.started[0] == bare.started[1]
    assert set(bare.swarm.values()) == {"inactive"}


def test_manager_shows_each_gpu_with_its_full_uuid(fleet: Fleet, first: Loud) -> None:
    for name in GPU_NODES:
        assert fleet[name].gpus()
        assert shown(fleet, name) == {KIND: sorted(fleet[name].gpus())}


def test_a_person_s_settings_are_kept(fleet: Fleet, first: Loud) -> None:
    written = fleet["g1"].read(DAEMON_JSON) or b""
    assert written.startswith(BY_A_PERSON.rstrip(b"}\r\n"))
    assert written.endswith(b"}\r\n")
    assert fleet["g2"].read(PROXY) == PROXY_SETTING


@pytest.fixture
def tasks(fleet: Fleet, first: Loud) -> Iterator[list[dict[str, Any]]]:
    """Start a service with one replica for each GPU of the fleet. Its image requests all GPUs."""
    manager = fleet["m1"]
    gpus = sum(len(fleet[name].gpus()) for name in GPU_NODES)
    manager.docker(
        "service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", "probe", "--replicas", str(gpus),
        "--generic-resource", f"{KIND}=1", "lab/cuda",
    )  # fmt: skip
    try:
        running = wait_until("the service's tasks", lambda: all_running(manager, "probe", gpus))
        yield running
    finally:
        manager.docker("service", "rm", "probe")
        for name in GPU_NODES:
            wait_until(f"{name} to be idle", lambda name=name: not containers(fleet[name]))


def text(node: Node, container: str) -> str:
    """Return the log of a task once it is complete."""
    return wait_until("the task to log", lambda: "ready" in (log := node.docker("logs", container)) and log)


def test_each_task_sees_its_gpu_and_no_other(fleet: Fleet, tasks: list[dict[str, Any]]) -> None:
    homes = {fleet[name].swarm()["NodeID"]: fleet[name] for name in GPU_NODES}
    given = []
    for task in tasks:
        node, (uuid,) = homes[task["NodeID"]], named(task["GenericResources"])[KIND]
        container = task["Status"]["ContainerStatus"]["ContainerID"]
        log = text(node, container)
        assert f"devices: /dev/nvidia{node.gpus().index(uuid)}\n" in log
        assert re.findall(r"UUID: (GPU-[0-9a-f-]+)", log) == [uuid]
        given.append(uuid)
    assert sorted(given) == sorted(uuid for name in GPU_NODES for uuid in fleet[name].gpus())


def test_a_kind_that_a_service_reserves_is_not_removed(fleet: Fleet, inventory: Path, tasks: list[dict[str, Any]]) -> None:
    before = [fleet[name].started() for name in GPU_NODES]
    run = fleet.playbook(inventory, *advertised_as("ELSE"))
    assert run.rc == 2
    for name in GPU_NODES:
        assert f"service probe ({len(tasks)} tasks): no node that it may run on would have 1 {KIND}" in run.failures(name)[-1]
        assert "provision_allow_pending: [probe]" in run.failures(name)[-1]
    assert [fleet[name].started() for name in GPU_NODES] == before
    assert {task["ID"] for task in all_running(fleet["m1"], "probe", len(tasks))} == {task["ID"] for task in tasks}


def test_a_finished_job_is_not_run_again(fleet: Fleet, inventory: Path, first: Loud) -> None:
    """The leader is older than 29.6.0. It would run the job again once the job's GPU is no longer advertised."""
    manager, reserves = fleet["m1"], ("--generic-resource", f"{KIND}=1")
    job = ("--name", "once", "--mode", "replicated-job", *reserves, "lab/task", "true")
    manager.docker("service", "create", "--detach", "--quiet", "--no-resolve-image", *job)
    try:
        state = ("service", "ps", "--format", "{{.CurrentState}}", "once")
        wait_until("the job to end", lambda: manager.docker(*state).startswith("Complete"))
        run = fleet.playbook(inventory, "--check", *advertised_as("ELSE"))
        assert "finished job once, which would run again (provision_remove_finished_jobs: true removes it)" in run.output
    finally:
        manager.docker("service", "rm", "once")


# -- without changes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--check", "--diff")], ids=["again", "check"])
def test_another_run_changes_and_restarts_nothing(fleet: Fleet, inventory: Path, first: Loud, options: tuple[str, ...]) -> None:
    before = {name: (fleet[name].started(), fleet[name].files()) for name in NODES}
    for name in NODES:
        fleet[name].touch()
    run = fleet.playbook(inventory, *options, env={"COLUMNS": "50"})
    assert run.rc == 0, run.output
    assert run.too_wide(50) == []
    assert f"{len(NODES)} of {len(NODES)} hosts are as they should be; nothing changed." in " ".join(run.output.split())
    assert run.changed() == dict.fromkeys(NODES, 0)
    assert {name: (fleet[name].started(), fleet[name].files()) for name in NODES} == before
    assert {name: fleet[name].touched() for name in NODES} == {name: [] for name in NODES}


def test_limit_changes_that_node_alone(fleet: Fleet, inventory: Path, first: Loud) -> None:
    """The manager may be outside the limit. The run still queries the manager, and updates it for the node in the limit."""
    labels = {name: member(fleet, name)["Spec"]["Labels"] for name in GPU_NODES}
    for name in GPU_NODES:
        fleet["m1"].docker("node", "update", "--label-rm", "gpu.count", member(fleet, name)["ID"])
    run = fleet.playbook(inventory, "--limit", "g1")
    after = {name: member(fleet, name)["Spec"]["Labels"] for name in GPU_NODES}
    fleet["m1"].docker("node", "update", "--label-add", f"gpu.count={labels['g2']['gpu.count']}", member(fleet, "g2")["ID"])
    assert run.rc == 0, run.output
    assert list(run.recap) == ["g1"]
    assert after["g1"] == labels["g1"]
    assert "gpu.count" not in after["g2"]


# -- with work on the nodes --------------------------------------------------------------------------------------------


def assert_waits(run: Run, name: str, *text: str) -> None:
    """Check that the run failed nowhere, and lists only this node, with everything that holds it and the command to continue."""
    assert run.rc == os.EX_TEMPFAIL, run.output
    assert run.failed() == []
    for holder in text:
        assert holder in run.row(name).partition(" waiting for ")[2], run.output
    assert re.search(rf"^waiting: {name}$", run.output, re.MULTILINE), run.output
    assert re.search(rf"^To continue: ansible-playbook .*fleet\.gpu_swarm\.provision .*--limit {name}$", run.output, re.MULTILINE), run.output


def test_work_is_waited_for_and_idle_members_go_through_a_window(fleet: Fleet, inventory: Path, as_before: None) -> None:
    manager, busy, idle, waited = fleet["m1"], fleet["g1"], fleet["g2"], advertised_as("WAITED")
    manager.docker("node", "update", "--availability", "drain", member(fleet, "g2")["ID"])
    with by_hand(busy) as notebook:
        before, since = (busy.files(), busy.started()), manager.run("date", "+%s.%N")

        run = fleet.playbook(inventory, *waited, *SOON)
        assert_waits(run, "g1", "container notebook (for ")
        assert [words for words in ("[ERROR]", "Unknown error", "RETRYING", "fatal:") if words in run.output] == [], run.output
        assert run.row("g1").endswith("; paused")
        assert f"  2 {KIND} (decided: 2 WAITED)  2  " in run.row("g1")
        assert re.search(r"  4 WAITED +4  +drained, by hand$", run.row("g2")), run.output
        assert (busy.files(), busy.started()) == before
        assert containers(busy) == [notebook]
        assert shown(fleet, "g1") == {KIND: sorted(busy.gpus())}
        assert availability_of(fleet, "g1") == ("pause", "active")

        assert shown(fleet, "g2") == {"WAITED": sorted(idle.gpus())}
        assert availabilities(fleet, "g2", since) == ["pause", "drain"]  # the operator has set drain

        busy.docker("stop", "notebook")
        run = fleet.playbook(inventory, *waited)
    manager.docker("node", "update", "--availability", "active", member(fleet, "g2")["ID"])
    assert run.rc == 0, run.output
    assert run.changed()["g2"] == 0
    assert shown(fleet, "g1") == {"WAITED": sorted(busy.gpus())}
    assert availabilities(fleet, "g1", since) == ["pause", "active"]
    assert availability_of(fleet, "g1") == ("active", None)


# A run calls nvidia-ctk --version after it has listed the containers. This replacement first starts a container, if the run holds the node's lock and
# so is about to change the node.
LATE = """\
#!/bin/sh
flock --nonblock /var/lib/gpu-swarm/lock true || docker run --detach --name notebook lab/task > /dev/null 2>&1
exec /usr/bin/nvidia-ctk "$@"
"""


@pytest.mark.rare
def test_a_container_that_is_started_between_the_assessment_and_the_restart_is_waited_for(fleet: Fleet, inventory: Path, as_before: None) -> None:
    node, before = fleet["g1"], (fleet["g1"].files(), fleet["g1"].started())
    wrapper = "/usr/local/sbin/nvidia-ctk"
    node.write(wrapper, LATE.encode())
    node.run("chmod", "755", wrapper)
    try:
        run = fleet.playbook(inventory, "--limit", "g1", *advertised_as("LATE"))
        assert_waits(run, "g1", "container notebook (for ")
        assert (node.files(), node.started()) == before
        assert node.docker("ps", "--format", "{{.Names}}") == "notebook"
        assert availability_of(fleet, "g1") == ("pause", "active")
    finally:
        node.run("rm", wrapper)
        node.docker("rm", "--force", "notebook")
    run = fleet.playbook(inventory, "--limit", "g1", *advertised_as("LATE"))
    assert run.rc == 0, run.output
    assert shown(fleet, "g1") == {"LATE": sorted(node.gpus())}
    assert availability_of(fleet, "g1") == ("active", None)


def test_work_is_stopped_by_consent_of_its_host_alone(fleet: Fleet, as_before: None) -> None:
    """A label of the other node must change. During the window of the first node, a task starts that needs the unchanged label."""
    manager, busy, member_g2 = fleet["m1"], fleet["g1"], member(fleet, "g2")
    (kind,) = shown(fleet, "g2")  # g2 still has this kind from another test, so g2 needs no window
    kinds = {name: {"gpu_node_advertise": [{"as": "gpu", "kind": one}]} for name, one in (("g1", "CONSENT"), ("g2", kind))}
    inventory = fleet.inventory({**kinds, "g1": {**kinds["g1"], "provision_disrupt": "all"}}, **MAIN)
    manager.docker("node", "update", "--label-add", "gpu.model=planted", member_g2["ID"])
    with by_hand(busy), ThreadPoolExecutor(1) as pool, ExitStack() as later:
        since = manager.run("date", "+%s.%N")
        with busy.locked():  # otherwise its window may be over before the task exists
            running = pool.submit(fleet.playbook, inventory)
            wait_until("the window of g1", lambda: availability_of(fleet, "g1")[0] == "pause")
            once = ("--restart-condition", "none", "--constraint", "node.labels.gpu.model==planted")
            late = later.enter_context(service(fleet, "late", 1, *once))
        run = running.result()
        assert_waits(run, "g2", "task late.1 (node.labels.gpu.model==planted would no longer be met)")
        assert member(fleet, "g2")["Spec"] == {**member_g2["Spec"], "Labels": {**member_g2["Spec"]["Labels"], "gpu.model": "planted"}}
        assert [task["ID"] for task in all_running(manager, "late", 1)] == [late[0]["ID"]]
        assert run.row("g1").endswith("ready")
        assert containers(busy) == []
    assert shown(fleet, "g1") == {"CONSENT": sorted(busy.gpus())}
    assert availabilities(fleet, "g1", since) == ["pause", "active"]
    assert availability_of(fleet, "g1") == ("active", None)


def test_tasks_move_when_nothing_else_is_waited_for(fleet: Fleet, inventory: Path, as_before: None) -> None:
    """Swarm does not restart a one-shot task. While this task runs, the run does not interrupt movable tasks in vain."""
    manager, busy = fleet["m1"], fleet["g1"]
    here = f"node.id=={member(fleet, 'g1')['ID']}"
    once = ("--restart-condition", "none", "--constraint", here)
    with service(fleet, "web", 2, "--constraint", "node.role==worker") as web, service(fleet, "training", 1, *once) as training:
        assert {task["NodeID"] for task in web} == {member(fleet, name)["ID"] for name in GPU_NODES}  # swarm spreads them
        before, since = (busy.files(), busy.started(), containers(busy)), manager.run("date", "+%s.%N")
        assert training[0]["Status"]["ContainerStatus"]["ContainerID"] in before[2]
        limited = ("--limit", "g1", *advertised_as("MOVED"))

        run = fleet.playbook(inventory, *limited, "--extra-vars", "provision_disrupt=never")
        assert_waits(run, "g1", "service web", "task training.1 of service training")
        assert (busy.files(), busy.started(), containers(busy)) == before
        assert availabilities(fleet, "g1", since) == []
        assert availability_of(fleet, "g1") == ("active", None)

        manager.docker("service", "update", "--detach", "--quiet", "--label-add", "gpu-swarm.keep=2d", "web")
        run = fleet.playbook(inventory, *limited, *SOON)
        assert_waits(run, "g1", "task training.1 of service training", "kept by its label gpu-swarm.keep=2d)")
        manager.docker("service", "update", "--detach", "--quiet", "--label-rm", "gpu-swarm.keep", "web")
        assert " waiting for task " in run.row("g1")  # services come first, and tasks with a keep label are named individually
        assert (busy.files(), busy.started(), containers(busy)) == before
        assert availability_of(fleet, "g1") == ("pause", "active")

        remove(fleet, "training")
        run = fleet.playbook(inventory, *limited)
        assert run.rc == 0, run.output
        assert shown(fleet, "g1") == {"MOVED": sorted(busy.gpus())}
        assert availabilities(fleet, "g1", since) == ["pause", "drain", "active"]
        assert availability_of(fleet, "g1") == ("active", None)
        moved = wait_until("the tasks of web", lambda: all_running(manager, "web", 2))
        assert [task["NodeID"] for task in moved] == [member(fleet, "g2")["ID"]] * 2
        assert len({task["ID"] for task in web} & {task["ID"] for task in moved}) == 1  # the task that was on g2 stayed


@pytest.mark.rare
def test_a_task_that_takes_too_long_to_end_keeps_its_node_unchanged(fleet: Fleet, inventory: Path, as_before: None) -> None:
    busy, options = fleet["g1"], ("--stop-signal", "SIGWINCH", "--stop-grace-period", "15s")
    with service(fleet, "slow", 1, "--constraint", f"node.id=={member(fleet, 'g1')['ID']}", *options):
        before, since = (busy.files(), busy.started()), fleet["m1"].run("date", "+%s.%N")
        run = fleet.playbook(inventory, "--limit", "g1", *advertised_as("SLOW"), "--extra-vars", "provision_drain_timeout=1")
        assert run.rc == 2, run.output
        assert "slow. They did not end within 1 s after the node was drained: check their stop_grace_period" in run.failures("g1")[-1]
        assert (busy.files(), busy.started()) == before
        assert availabilities(fleet, "g1", since) == ["pause", "drain", "active"]
        assert availability_of(fleet, "g1") == ("active", None)


@pytest.mark.rare
def test_another_run_s_lease_lasts_until_it_is_taken(fleet: Fleet, inventory: Path, as_before: None) -> None:
    manager, other, leased = fleet["m1"], "bob@elsewhere pid 7", advertised_as("LEASED")
    with lease_of(fleet, other):
        before, since = {name: (fleet[name].started(), fleet[name].files()) for name in NODES}, manager.run("date", "+%s.%N")
        run = fleet.playbook(inventory, *leased)
        assert run.rc == 2
        for name in GPU_NODES:
            assert f"untouched: the run stopped before this node, because another run changes this swarm: {other}" in run.failures(name)[-1]
            assert availabilities(fleet, name, since) == []
        assert not run.failures("m1")
        assert {name: (fleet[name].started(), fleet[name].files()) for name in NODES} == before

        run = fleet.playbook(inventory, *leased, "--extra-vars", "provision_take_lease=true")
        assert run.rc == 0, run.output
        assert shown(fleet, "g1") == {"LEASED": sorted(fleet["g1"].gpus())}
        labels = json.loads(manager.docker("info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}"))
        assert json.loads(labels.pop("gpu-swarm.last-run"))["hosts"].keys() == {"done"}
        assert labels == {}


def test_a_window_does_not_continue_without_the_lease(fleet: Fleet, inventory: Path, as_before: None) -> None:
    """The lease expires during a wait, and another run acquires the lease."""
    busy, other = fleet["g1"], {"holder": "bob@elsewhere pid 7", "ttl": 600}
    with by_hand(busy), ThreadPoolExecutor(1) as runs:
        before = (busy.files(), busy.started())
        settings = ("--extra-vars", json.dumps({"provision_wait": 120, "provision_lease": 3}))
        going = runs.submit(fleet.playbook, inventory, "--limit", "g1", *advertised_as("LATE"), *settings)
        wait_until("g1 to be paused", lambda: availability_of(fleet, "g1") == ("pause", "active"))
        wait_until("the lease to end", lambda: '"acquired": true' in fleet.module("m1", "fleet.gpu_swarm.swarm_lease", other).output)
        busy.docker("stop", "--time", "1", "notebook")
        run = going.result()
        ended = fleet.module("m1", "fleet.gpu_swarm.swarm_lease", {**other, "state": "absent"})
    assert ended.rc == 0, ended.output
    assert run.rc == 2, run.output
    assert f"untouched: the run stopped before this node, because another run changes this swarm: {other['holder']}" in run.failures("g1")[-1]
    assert (busy.files(), busy.started()) == before
    left = availability_of(fleet, "g1")
    fleet["m1"].docker("node", "update", "--availability", "active", "--label-rm", MARK, member(fleet, "g1")["ID"])
    assert left == ("pause", "active")  # for the run with the lease


def test_a_member_that_cannot_be_changed_returns_to_service(fleet: Fleet, inventory: Path, first: Loud) -> None:
    """The member's file has a setting that dockerd has not loaded yet, and dockerd would not start with this setting."""
    manager, node = fleet["m1"], fleet["g1"]
    good = node.read(DAEMON_JSON) or b""
    node.write(DAEMON_JSON, good.replace(b"{", b'{ "no-such-directive": 1,', 1))
    before, since = (node.files(), node.started()), manager.run("date", "+%s.%N")
    try:
        run = fleet.playbook(inventory, "--limit", "g1", *advertised_as("REFUSED"))
        assert run.rc == 2
        assert "no-such-directive" in run.failures("g1")[-1]
        assert (node.files(), node.started()) == before
        assert availabilities(fleet, "g1", since) == ["pause", "active"]
        assert availability_of(fleet, "g1") == ("active", None)
    finally:
        node.write(DAEMON_JSON, good)
