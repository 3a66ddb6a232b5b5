# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the watcher of a node on both releases of Docker.

A card is lost while no run is active, and a manager shows the loss. At the end, no trace of the watcher remains.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.alerts.promtool import accepts

from .fleet import CONFIG_TOML, DAEMON_JSON, STATE_DIR, Fleet, Node, of_its_own, wait_until
from .watched import CALM_S, KEY, MACHINE, UNIT, WITHIN_S, hanging_in_the_kernel, replace, reported, status

NAME = "e2e-health"
FLEET = """
nodes:
  h1: {groups: [swarm_managers, gpu_nodes], gpus: rtx4090x2, toolkit: 1.20.0, daemon_json: '{"debug": false,   "labels": ["rack=r1"]}'}
  h2: {gpus: t4x4, toolkit: 1.20.0, image: debian12}
"""
NODES = ["h1", "h2"]
TEXTFILES = "/srv/textfiles"
# test_react.py tests the reaction to a fault. Here the nodes stay in service.
ALONE = {"swarm_member_react": False, "gpu_node_on_loss": "report"}
ON = ("--extra-vars", json.dumps(ALONE))
OFF = ("--extra-vars", json.dumps({"gpu_node_health": False, **ALONE}))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("health"))


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(swarm_managers=["h1"], gpu_nodes=NODES)


@pytest.fixture(scope="module")
def before(fleet: Fleet, inventory: Path) -> dict[str, bytes | None]:
    """Return each node's daemon.json from before the provisioning, then provision the nodes."""
    found = {name: fleet[name].read(DAEMON_JSON) for name in NODES}
    run = fleet.playbook(inventory, *ON)
    assert run.rc == 0, run.output
    return found


def shown(fleet: Fleet, name: str) -> str:
    return reported(fleet["h1"], fleet[name])


def labels(node: Node) -> list[str]:
    return sorted(node.docker_json("info", "--format", "{{json .Labels}}") or [])  # dockerd lists labels in any order


def test_the_label_appears_with_the_restart_and_a_second_run_has_nothing_to_do(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    assert {name: shown(fleet, name) for name in NODES} == {"h1": "ok", "h2": "ok"}
    assert labels(fleet["h1"]) == [f"{KEY}=ok", "rack=r1"]
    files = {name: fleet[name].files() for name in NODES}
    run = fleet.playbook(inventory, *ON)
    assert (run.rc, set(run.changed().values())) == (0, {0}), run.output
    assert {name: fleet[name].files() for name in NODES} == files


@pytest.mark.rare
def test_under_an_old_leader_only_a_new_fault_is_an_update_of_a_node_on_which_tasks_run(fleet: Fleet, before: dict[str, bytes]) -> None:
    """The leader has Docker 26.1. At any update of a node, this release may stop a task or rerun a finished job."""
    node, manager, sick = fleet["h2"], fleet["h1"], "\n[gpu %d]\necc-uncorrected = 3\n"
    there = ("--constraint", f"node.id=={node.swarm()['NodeID']}", "--generic-resource", "NVIDIA-GPU=1")
    manager.docker("service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", "hold", *there, "lab/task")

    def running() -> str:
        return node.docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=hold")

    task = wait_until("its task", running)
    environment = node.docker_json("inspect", task)[0]["Config"]["Env"]
    place, gone = next((place, card) for place, card in enumerate(node.gpus()) if not any(card in value for value in environment))
    machine = node.read(MACHINE) or b""
    try:
        node.write(MACHINE, machine + (sick % place).encode())
        wait_until("the warning to wait", lambda: "hold" in str(status(node)["waits"]), WITHIN_S, lambda: status(node))
        assert shown(fleet, "h2") == "ok"
        node.write(MACHINE, machine + (sick % place).encode() + b"fault = lost\n")
        wait_until("the fault", lambda: shown(fleet, "h2").startswith(f"fault {gone}"), WITHIN_S, lambda: (shown(fleet, "h2"), status(node)))
        node.write(MACHINE, machine)
        node.run("systemctl", "restart", UNIT)
        wait_until("its end to wait", lambda: "hold" in str(status(node)["waits"]), WITHIN_S, lambda: status(node))
        assert (shown(fleet, "h2").split()[0], running()) == ("fault", task)
    finally:
        node.write(MACHINE, machine)
        manager.docker("service", "rm", "hold")
    wait_until("no task", lambda: not running())
    node.run("systemctl", "restart", UNIT)
    wait_until("its label", lambda: shown(fleet, "h2") == "ok", WITHIN_S, lambda: (shown(fleet, "h2"), status(node)))


def test_the_manager_shows_a_lost_card(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """Meanwhile, the other node reports an unreadable driver. Containers keep running on both nodes."""
    started = {name: fleet[name].started() for name in NODES}
    gone = fleet["h2"].run("nvidia-smi", "-L").strip().splitlines()[-1].split("UUID: ")[1].rstrip(")")
    began = time.monotonic()
    replace(fleet["h2"], "[gpu 0-3]", "[gpu 0-2]")
    replace(fleet["h1"], "driver =", "init = version-mismatch\ndriver =")
    wait_until("the lost card", lambda: shown(fleet, "h2").startswith(f"fault {gone} reason=lost"), WITHIN_S, lambda: shown(fleet, "h2"))
    wait_until("the driver", lambda: shown(fleet, "h1").startswith("fault reason=mismatch"), WITHIN_S, lambda: shown(fleet, "h1"))
    assert time.monotonic() - began < WITHIN_S
    assert {name: fleet[name].started() for name in NODES} == started
    run = fleet.playbook(inventory, *ON, "--limit", "h2")
    assert run.rc != 0
    of_card = on_record(fleet["h2"], gone)  # the card's former values: NVML no longer counts the card
    place = f"PCI address {of_card['pci_bus_id']}, serial number {of_card['serial']}"
    assert f"{gone} is gone ({of_card['name'].replace(' ', '-')}, {place})" in run.failures("h2")[-1]
    replace(fleet["h2"], "[gpu 0-2]", "[gpu 0-3]")
    replace(fleet["h1"], "init = version-mismatch\n", "")


def on_record(node: Node, uuid: str) -> dict[str, Any]:
    """Return the node's record of a card. It includes the serial number, because every card for servers has one."""
    found = json.loads(node.read(f"{STATE_DIR}/cards.json") or b"")["cards"]
    card: dict[str, Any] = next(card for card in found if card["uuid"] == uuid)
    assert card["serial"]
    return card


def samples(fleet: Fleet, inventory: Path) -> dict[str, float]:
    """Return what status writes for Prometheus, without the labels of the node."""
    run = fleet.playbook(inventory, "--extra-vars", f"textfile={TEXTFILES}", playbook="fleet.gpu_swarm.status")
    assert run.rc in (0, 2, 75), run.output
    assert list(run.recap) == ["h1"]
    text = (fleet["h1"].read(f"{TEXTFILES}/gpu-swarm.prom") or b"").decode()
    accepts(text)
    assert fleet["h1"].run("sh", "-c", f"ls -A {TEXTFILES}; stat -c %a {TEXTFILES}/*").split() == ["gpu-swarm.prom", "644"]
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {re.sub(r'node_id="\w+",?', "", name).replace(",}", "}").removeprefix("gpu_swarm_"): float(value) for name, value in lines}


def test_status_writes_the_metrics_for_prometheus(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """A card is lost, a node is paused by hand, and a service is pending. status writes one file, and creates no directory for the file."""
    missing = fleet.playbook(inventory, "--extra-vars", f"textfile={TEXTFILES}", playbook="fleet.gpu_swarm.status")
    assert missing.rc == 2
    assert "No such file or directory. Create it" in missing.failures("h1")[0]
    fleet["h1"].run("mkdir", "-p", TEXTFILES)
    wait_until("the faults before to be over", lambda: shown(fleet, "h2") == "ok", 180, lambda: shown(fleet, "h2"))
    assert fleet.playbook(inventory, *ON, "--extra-vars", '{"provision_note_run": true}').rc == 0  # and this run has nothing to change
    well = samples(fleet, inventory)
    assert well['run_hosts{outcome="done"}'] == 2
    assert 0 <= well["snapshot_timestamp_seconds"] - well['run_end_timestamp_seconds{runs="all"}'] < 60
    assert (well['nodes{state="ready",by=""}'], well['node_resources_schedulable{node="h2",kind="NVIDIA-GPU"}']) == (2, 4)
    gone = fleet["h2"].run("nvidia-smi", "-L").strip().splitlines()[-1].split("UUID: ")[1].rstrip(")")
    replace(fleet["h2"], "[gpu 0-3]", "[gpu 0-2]")
    fleet["h1"].docker("node", "update", "--availability", "pause", "h1")
    fleet["h1"].docker("service", "create", "--detach", "--name", "train", "--generic-resource", "NVIDIA-GPU=9", "lab/task")
    try:
        wait_until("the lost card", lambda: shown(fleet, "h2").startswith(f"fault {gone}"), WITHIN_S, lambda: shown(fleet, "h2"))
        found = samples(fleet, inventory)
        card = on_record(fleet["h2"], gone)
        place = f'pci_bus_id="{card["pci_bus_id"]}",slot="{card["slot"] or ""}",serial="{card["serial"]}"'
        assert found[f'gpu_fault{{UUID="{gone}",node="h2",reason="lost",xid="",{place},advertised="yes"}}'] == 1
        assert found['node_resources_schedulable{node="h2",kind="NVIDIA-GPU"}'] == 3
        assert found['node_resources_faulty{node="h2",kind="NVIDIA-GPU"}'] == 1
        assert found['node_state{node="h1",state="paused",by="hand"}'] == found['nodes{state="paused",by="hand"}'] == 1
        assert (found['pending_tasks{service="train"}'], found['pending_possible{service="train"}']) == (1, 0)
        now = found["snapshot_timestamp_seconds"]
        assert 0 <= now - found['pending_since_timestamp_seconds{service="train"}'] < 60
        assert 0 <= now - found['node_closed_since_timestamp_seconds{node="h1",state="paused",by="hand"}'] < 60
        assert abs(now - time.time()) < 60
    finally:
        replace(fleet["h2"], "[gpu 0-2]", "[gpu 0-3]")
        fleet["h1"].docker("node", "update", "--availability", "active", "h1")
        fleet["h1"].docker("service", "rm", "train")


@pytest.mark.rare
def test_errors_and_required_actions_of_working_cards_are_reported(fleet: Fleet, before: dict[str, bytes]) -> None:
    """Uses an error from an NVML event, and a reset that the driver requires."""
    cards = {name: fleet[name].gpus() for name in NODES}
    for name in NODES:
        wait_until("what was before to be over", lambda name=name: shown(fleet, name) == "ok", 150, lambda name=name: status(fleet[name]))
    machine = fleet["h2"].read(MACHINE) or b""
    fleet["h1"].write(MACHINE, (fleet["h1"].read(MACHINE) or b"") + b"\n[gpu 1]\nrecovery-action = gpu-reset\n")
    fleet["h2"].write(MACHINE, machine + b"\n[gpu 2]\nxid = 95\n")
    for name, words in {"h1": f"fault {cards['h1'][1]} reason=reset", "h2": f"fault {cards['h2'][2]} reason=xid xid=95"}.items():
        wait_until(words, lambda name=name, words=words: shown(fleet, name).startswith(words), WITHIN_S, lambda name=name: status(fleet[name]))
    assert "the driver reports XID 95" in fleet["h2"].run("journalctl", "--unit", UNIT, "--output", "cat")
    replace(fleet["h1"], "\n[gpu 1]\nrecovery-action = gpu-reset\n", "")
    fleet["h2"].write(MACHINE, machine)
    # An error is reported until someone confirms that the card was reset. A restart of the service is no confirmation.
    fleet["h2"].run("systemctl", "restart", UNIT)
    wait_until("its label", lambda: shown(fleet, "h2").startswith(f"fault {cards['h2'][2]} reason=xid xid=95"), WITHIN_S, lambda: status(fleet["h2"]))
    for name in NODES:
        fleet[name].run("systemctl", "stop", UNIT)
        fleet[name].run("rm", "-f", f"{STATE_DIR}/health/events.json")
        fleet[name].run("systemctl", "start", UNIT)
        wait_until("its label", lambda name=name: shown(fleet, name) == "ok", WITHIN_S, lambda name=name: status(fleet[name]))


@pytest.mark.rare
def test_a_driver_that_hangs_is_reported_within_a_minute_and_a_run_does_not_wait_for_it(
    fleet: Fleet, inventory: Path, before: dict[str, bytes]
) -> None:
    """All times have their default values."""
    node = fleet["h2"]
    wait_until("what was before to be over", lambda: shown(fleet, "h2") == "ok", 150, lambda: status(node))
    with hanging_in_the_kernel(node):
        began = time.monotonic()
        wait_until("the fault", lambda: shown(fleet, "h2").startswith("fault reason=hang"), 60, lambda: (shown(fleet, "h2"), status(node)))
        print(f"the managers saw it after {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        run = fleet.playbook(inventory, *ON, "--check", "--limit", "h2")
        print(f"a check took {time.monotonic() - began:.1f} s")
        assert run.rc == 2, run.output
        assert "NVML gave no answer within 10 s" in run.failures("h2")[-1]
        assert time.monotonic() - began < 40
    wait_until("its end", lambda: shown(fleet, "h2") == "ok", CALM_S + WITHIN_S, lambda: (shown(fleet, "h2"), status(node)))


@contextmanager
def full_run(node: Node) -> Iterator[None]:
    """While this lasts, /run has no free space."""
    used = int(node.run("df", "--output=used", "/run").split()[-1])
    node.run("mount", "-o", f"remount,size={used + 256}k", "/run")
    try:
        node.run("sh", "-c", "dd if=/dev/zero of=/run/fill bs=4096 2>&1 | grep -q 'No space left'")
        yield
    finally:
        node.run("rm", "-f", "/run/fill")
        node.run("mount", "-o", "remount,size=50%", "/run")


def test_a_full_run_stops_no_watcher_and_hides_no_fault(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    node = fleet["h2"]
    wait_until("what was before to be over", lambda: shown(fleet, "h2") == "ok", 150, lambda: status(node))
    show = ("systemctl", "show", "--property", "MainPID,NRestarts", UNIT)
    first, gone = node.run(*show), node.gpus()[-1]
    with full_run(node):
        replace(node, "[gpu 0-3]", "[gpu 0-2]")
        wait_until("the lost card", lambda: shown(fleet, "h2").startswith(f"fault {gone} reason=lost"), WITHIN_S, lambda: shown(fleet, "h2"))
        assert not status(node).get("label") or status(node)["label"].startswith("fault")
    wait_until("its status", lambda: str(status(node).get("label")).startswith(f"fault {gone}"), WITHIN_S, lambda: status(node))
    assert node.run(*show) == first
    replace(node, "[gpu 0-2]", "[gpu 0-3]")


# Lists the directories where a process of this mount namespace can create a file.
WRITABLE = """
for place in / /etc /etc/docker /usr /root /home /opt /var/lib /var/lib/docker {state} {state}/health /run /run/gpu-swarm /sys/fs/cgroup /dev; do
    nsenter --target $1 --mount touch $place/probe 2>/dev/null || continue
    nsenter --target $1 --mount rm $place/probe
    echo $place
done
"""


@pytest.mark.parametrize("name", NODES)
def test_it_may_write_where_it_has_to_and_nowhere_else(fleet: Fleet, before: dict[str, bytes], name: str) -> None:
    """Programs that the watcher starts can load the driver and create its devices. Releases of systemd treat the same unit differently."""
    node = fleet[name]
    watcher = node.run("systemctl", "show", "--property", "MainPID", "--value", UNIT)
    places = node.run("sh", "-c", WRITABLE.format(state=STATE_DIR), "-", watcher).split()
    assert places == ["/etc/docker", STATE_DIR, f"{STATE_DIR}/health", "/run/gpu-swarm", "/dev"]
    assert "NoNewPrivs:\t1" in node.run("cat", f"/proc/{watcher}/status")
    made, start = ("stat", "--format", "%t %T", "/dev/nvidia-uvm"), ("nsenter", "--target", watcher, "--mount")
    number = node.run(*made)
    # The module is no longer loaded, and its device is gone.
    node.run("sh", "-c", "rm /dev/nvidia-uvm && sed '/nvidia-uvm/d' /proc/devices > /run/devices && cat /run/devices > /run/gpu-lab/devices")
    node.run(*start, "nvidia-modprobe", "-u", "-c", "0")
    assert node.run(*made) == number


@pytest.mark.rare
def test_a_directory_that_it_may_not_write_to_any_more_is_named(fleet: Fleet, before: dict[str, bytes]) -> None:
    """This happens after daemon.json was moved. Until systemd reloads the watcher's unit, the unit names the former directory."""
    node = fleet["h2"]
    wait_until("what was before to be over", lambda: shown(fleet, "h2") == "ok", 150, lambda: status(node))
    watcher, gone = node.run("systemctl", "show", "--property", "MainPID", "--value", UNIT), node.gpus()[-1]
    node.run("nsenter", "--target", watcher, "--mount", "mount", "--options", "remount,bind,ro", "/etc/docker")
    replace(node, "[gpu 0-3]", "[gpu 0-2]")
    try:
        reason = wait_until("the reason", lambda: status(node)["blocked"], WITHIN_S, lambda: status(node))
        assert "/etc/docker is read-only for gpu-swarm-health. Restart that service." in reason
        assert shown(fleet, "h2") == "ok"
        node.run("systemctl", "restart", UNIT)
        wait_until("the lost card", lambda: shown(fleet, "h2").startswith(f"fault {gone} reason=lost"), WITHIN_S, lambda: status(node))
    finally:
        replace(node, "[gpu 0-2]", "[gpu 0-3]")


def test_a_killed_watcher_is_restarted(fleet: Fleet, before: dict[str, bytes]) -> None:
    """A second watcher ends at once. Otherwise it would take the first watcher's reading process for a hung driver."""
    node = fleet["h1"]
    second = node.start("timeout", "30", "python3", "-I", f"{STATE_DIR}/health/current", "watch", check=False)
    assert (second.returncode, b"already runs on this node" in second.stderr) == (1, True), second
    first = node.run("systemctl", "show", "--property", "MainPID", "--value", UNIT).strip()
    node.run("kill", "-KILL", first)
    wait_until("another one", lambda: node.run("systemctl", "show", "--property", "MainPID", "--value", UNIT).strip() not in ("0", first))
    wait_until("its label", lambda: f"{KEY}=ok" in labels(node), shown=lambda: labels(node))


# Kill the process that writes a label while dockerd does not answer.
KILLED_WRITER = """
python3 -I {state}/health/current label 'warning reason=degraded' & writer=$!
until test -e {state}/journal.json || ! kill -0 $writer; do :; done
kill -STOP {dockerd}
kill -KILL $writer
wait $writer || :
cat {state}/journal.json
kill -CONT {dockerd}
"""


@pytest.mark.parametrize("name", NODES)
def test_a_killed_writer_of_a_label_does_not_block_the_next_one(fleet: Fleet, before: dict[str, bytes], name: str) -> None:
    node = fleet[name]
    wait_until("what was before to be over", lambda: status(node)["blocked"] is None, 30, lambda: status(node))
    node.run("systemctl", "stop", UNIT)
    dockerd = node.run("systemctl", "show", "--property", "MainPID", "--value", "docker.service")
    journal = json.loads(node.run("sh", "-c", KILLED_WRITER.format(state=STATE_DIR, dockerd=dockerd)))
    assert journal["kind"] == "label"
    written = json.loads(node.run("python3", "-I", f"{STATE_DIR}/health/current", "label", "ok"))
    assert written == {"blocked": None, "waits": None}
    assert (f"{KEY}=ok" in labels(node), node.read(f"{STATE_DIR}/journal.json")) == (True, None)
    node.run("systemctl", "start", UNIT)


@pytest.mark.parametrize("content", [b'{"labels": ', b'{"debug": true, "default-runtime": "nvidia"}'])
def test_a_file_with_a_user_s_edit_stays(fleet: Fleet, inventory: Path, before: dict[str, bytes], content: bytes) -> None:
    """dockerd has not loaded the edit. The edit may be valid or not."""
    node = fleet["h1"]
    wait_until("what was before to be over", lambda: status(node)["blocked"] is None, 30, lambda: status(node))
    was, running = node.read(DAEMON_JSON), labels(node)
    node.write(DAEMON_JSON, content)
    replace(node, "[gpu 0-1]", "[gpu 0]")
    try:
        reported = wait_until("the reason", lambda: status(node)["blocked"], 30)
        assert DAEMON_JSON in reported
        assert (node.read(DAEMON_JSON), labels(node)) == (content, running)
    finally:
        replace(node, "[gpu 0]", "[gpu 0-1]")
        node.write(DAEMON_JSON, was or b"")


def test_a_stopped_watcher_reports_that_and_the_next_run_starts_it(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    node = fleet["h2"]
    node.run("systemctl", "stop", UNIT)
    assert f"{KEY}=unwatched" in labels(node)
    node.run("systemctl", "start", UNIT)
    wait_until("its label", lambda: f"{KEY}=ok" in labels(node), 30, lambda: labels(node))
    # Delete the watcher's files while it runs. After that, the watcher cannot report anything.
    node.run("rm", "-r", f"{STATE_DIR}/health")
    node.run("systemctl", "kill", "--signal", "KILL", UNIT)
    run = fleet.playbook(inventory, *ON, "--limit", "h2")
    assert run.rc == 0, run.output
    assert node.run("systemctl", "is-active", UNIT).strip() == "active"
    wait_until("its status", lambda: status(node).get("label") == "ok", 30, lambda: status(node))


@pytest.mark.rare
def test_switching_it_off_and_on_needs_no_restart(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """On both releases of Docker, the record of dockerd's loaded settings stays valid."""
    started = {name: fleet[name].started() for name in NODES}
    run = fleet.playbook(inventory, *OFF)
    assert run.rc == 0, run.output
    assert [label for name in NODES for label in labels(fleet[name]) if label.startswith(KEY)] == []
    run = fleet.playbook(inventory, *ON)
    assert run.rc == 0, run.output
    assert "cannot be reported" not in run.output
    assert {name: fleet[name].started() for name in NODES} == started
    for name in NODES:
        node = fleet[name]
        wait_until("its label", lambda node=node: f"{KEY}=ok" in labels(node), 30, lambda node=node: status(node))
    replace(fleet["h2"], "[gpu 0-3]", "[gpu 0-2]")
    wait_until("the lost card", lambda: shown(fleet, "h2").startswith("fault GPU-"), WITHIN_S, lambda: shown(fleet, "h2"))
    replace(fleet["h2"], "[gpu 0-2]", "[gpu 0-3]")


def test_drift_is_only_what_the_next_run_would_change(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """A line of h2's file gets another value, and h1's gets a comment."""
    was = {name: fleet[name].read(CONFIG_TOML) or b"" for name in NODES}
    fleet["h1"].write(CONFIG_TOML, b"# rack r1\n" + was["h1"])
    fleet["h2"].write(CONFIG_TOML, was["h2"].replace(b'"DOCKER_RESOURCE_NVIDIA-GPU"', b'"GPU"'))
    wait_until("the drift", lambda: " drift=" in shown(fleet, "h2"), CALM_S + WITHIN_S, lambda: (shown(fleet, "h2"), status(fleet["h2"])))
    run = fleet.playbook(inventory, playbook="fleet.gpu_swarm.status")
    lost = "its files no longer contain what provision wrote"
    assert (run.rc, {name: lost in run.row(name) for name in NODES}) == (75, {"h1": False, "h2": True}), run.output
    wanted = ["--generic-resource", "NVIDIA-GPU=1", "--constraint", "node.hostname==h2"]
    fleet["h1"].docker("service", "create", "--quiet", "--name", "train", "--no-resolve-image", *wanted, "lab/cuda", "sleep", "9999")
    task = fleet["h2"].docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=train")
    run = fleet.playbook(inventory, *ON)
    assert (run.rc, {name: run.changed()[name] > 0 for name in NODES}) == (0, {"h1": False, "h2": True}), run.output
    assert (fleet["h1"].read(CONFIG_TOML), fleet["h2"].read(CONFIG_TOML)) == (b"# rack r1\n" + was["h1"], was["h2"])
    # The node's watcher would wait for the task to end. The run knows that no manager here stops the task because of an update of the node.
    wait_until("no drift", lambda: "drift" not in shown(fleet, "h2"), 30, lambda: (shown(fleet, "h2"), status(fleet["h2"])))
    assert task
    assert fleet["h2"].docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=train") == task
    fleet["h1"].docker("service", "rm", "train")
    wait_until("no task", lambda: not fleet["h2"].docker("ps", "--quiet"), shown=lambda: fleet["h2"].docker("ps"))
    fleet["h1"].write(CONFIG_TOML, was["h1"])


@pytest.mark.rare
def test_a_fleet_that_had_none_gets_them_while_tasks_run_on(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    """This is the same as after an upgrade from 0.2.0, which does not record dockerd's loaded settings. The leader of this fleet may stop a task if
    its node is updated.
    """
    manager = fleet["h1"]
    for name in NODES:
        wait_until("what was before to be over", lambda name=name: shown(fleet, name) == "ok", 150, lambda name=name: status(fleet[name]))
    assert fleet.playbook(inventory, *OFF).rc == 0
    for name in NODES:
        record = json.loads(fleet[name].read(f"{STATE_DIR}/record.json") or b"")
        for entry in record["files"].values():
            entry.pop("loaded", None)
        fleet[name].write(f"{STATE_DIR}/record.json", json.dumps(record).encode())
        fleet[name].dockerd("restart")  # the file is older than dockerd, because 0.2.0 wrote the file just before a restart
    ready = ("docker", "node", "ls", "--format", "{{.Status}}")
    wait_until("the swarm", lambda: manager.run(*ready, check=False).split() == ["Ready"] * 2, WITHIN_S, lambda: manager.run(*ready, check=False))
    manager.docker("service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", "hold", "--mode", "global", "lab/task")
    try:
        wait_until("two tasks", lambda: all(fleet[name].docker("ps", "--quiet") for name in NODES))
        tasks = {name: (fleet[name].docker("ps", "--quiet", "--no-trunc"), fleet[name].started(), labels(fleet[name])) for name in NODES}
        check = fleet.playbook(inventory, *ON, "--check")
        assert [check.row(name) for name in NODES] == ["installs the watcher of its GPUs"] * 2
        assert "each report of a node's watcher may stop a task on the node" in check.output
        run = fleet.playbook(inventory, *ON)
        assert run.rc == 0, run.output
        assert "cannot be reported" not in run.output
        for name in NODES:
            node = fleet[name]
            wait_until("its label to wait", lambda node=node: "hold" in str(status(node)["waits"]), WITHIN_S, lambda node=node: status(node))
            assert node.run("systemctl", "is-active", UNIT) == "active"
        assert {name: (fleet[name].docker("ps", "--quiet", "--no-trunc"), fleet[name].started(), labels(fleet[name])) for name in NODES} == tasks
        assert fleet.playbook(inventory, *ON).changed() == dict.fromkeys(NODES, 0)
    finally:
        manager.docker("service", "rm", "hold")
    wait_until("no task", lambda: not any(fleet[name].docker("ps", "--quiet") for name in NODES))
    for name in NODES:
        fleet[name].run("systemctl", "restart", UNIT)  # otherwise the watcher tries again in five minutes
        wait_until("its label", lambda name=name: shown(fleet, name) == "ok", WITHIN_S, lambda name=name: status(fleet[name]))


@pytest.mark.rare
def test_maintain_stops_the_watcher(fleet: Fleet, inventory: Path, before: dict[str, bytes], tmp_path: Path) -> None:
    tasks = tmp_path / "driver.yml"
    state = {"name": "See what has NVML open", "ansible.builtin.command": f"systemctl is-active {UNIT}", "register": "_unit"}
    tasks.write_text(json.dumps([{**state, "failed_when": "_unit.stdout != 'inactive'", "changed_when": False}]))
    settings = json.dumps({**ALONE, "maintain_tasks": str(tasks)})
    run = fleet.playbook(inventory, "--limit", "h2", "--extra-vars", settings, playbook="fleet.gpu_swarm.maintain")
    assert run.rc == 0, run.output
    assert fleet["h2"].run("systemctl", "is-active", UNIT).strip() == "active"


@pytest.mark.rare
def test_deprovision_leaves_no_trace(fleet: Fleet, inventory: Path, before: dict[str, bytes]) -> None:
    run = fleet.playbook(inventory, playbook="fleet.gpu_swarm.deprovision")
    assert run.rc == 0, run.output
    for name in NODES:
        node = fleet[name]
        assert node.read(DAEMON_JSON) == before[name]
        assert [label for label in labels(node) if label.startswith(KEY)] == []
        assert node.run("find", "/etc", "/run", "/var/lib", "-xdev", "-path", "*gpu-swarm*") == ""
        assert node.read(f"{STATE_DIR}/lock") is None
        assert node.run("systemctl", "show", "--property", "LoadState,ActiveState", UNIT).split() == ["LoadState=not-found", "ActiveState=inactive"]
