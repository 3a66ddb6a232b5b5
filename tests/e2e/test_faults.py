# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures while provision runs: a manager, dockerd, a disk, a clock, a repository.

Each failure causes one clear error, or the run handles the failure. The node is unchanged, and the other nodes reach the wanted state. After the
failure, the same run finishes the work. test_bad_input.py tests wrong input of users.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.lab.lab import REPOSITORY_HOST, Lab
from tests.lab.packages import NVIDIA, URL, sign

from .fleet import BIN, DAEMON_JSON, STATE_DIR, Fleet, Node, Run, advertised_as, toolkit, wait_until
from .swarm import KIND, availabilities, availability_of, lease_of, member, shown
from .untouched import DOCKERD, State, leave_swarm

MEMBERS = ("g1", "g2")
PROVISION = "fleet.gpu_swarm.provision"
# The run changes members even after other members failed.
EVERYONE = ("--extra-vars", "provision_max_failed=4")
DROP_IN = "/run/systemd/system/docker.service.d/fault.conf"
JOINS = "/var/lib/docker/swarm/docker-state.json"  # dockerd writes this file when it tries to join
# The manager's port accepts connections, but no data arrives.
SILENCE = ("OUTPUT", "--protocol", "tcp", "--dport", "2377", "--tcp-flags", "PSH", "PSH", "--jump", "DROP")


pytestmark = [pytest.mark.rare, pytest.mark.usefixtures("as_before")]


def settled(fleet: Fleet) -> None:
    """Check that every member is active again, and that the swarm is free for another run."""
    assert {name: availability_of(fleet, name) for name in MEMBERS} == dict.fromkeys(MEMBERS, ("active", None))
    assert set(json.loads(fleet["m1"].docker("info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}"))) <= {"gpu-swarm.last-run"}


def finishes(fleet: Fleet, inventory: Path, *options: str, wanted: str = KIND) -> None:
    """Check that the run reaches the wanted state once the failure is over."""
    assert_wanted_state(fleet, fleet.playbook(inventory, *options), wanted)


def assert_wanted_state(fleet: Fleet, run: Run, wanted: str) -> None:
    assert run.rc == 0, run.output
    for name in MEMBERS:
        assert shown(fleet, name) == {wanted: sorted(fleet[name].gpus())}
    settled(fleet)


def fails(run: Run, name: str, *text: str) -> None:
    assert run.rc == 2, run.output
    assert run.failures(name), run.output
    for words in text:
        assert words in run.failures(name)[-1], run.failures(name)


# -- the manager -------------------------------------------------------------------------------------------------------


@contextmanager
def firewall(node: Node, rule: tuple[str, ...]) -> Iterator[None]:
    node.run("iptables", "--append", *rule)
    try:
        yield
    finally:
        node.run("iptables", "--delete", *rule)


def test_a_manager_that_stops_during_a_join(fleet: Fleet) -> None:
    manager, guest = fleet["m1"], fleet["x4"]
    inventory = fleet.inventory(swarm_managers=["m1"], gpu_nodes=["g1", "x4"])
    with ThreadPoolExecutor(1) as pool, firewall(guest, SILENCE):
        running = pool.submit(fleet.playbook, inventory)
        try:
            wait_until("the join to begin", lambda: guest.read(JOINS))
            manager.run("systemctl", "stop", "docker.socket", "docker.service")
            run = running.result()
        finally:
            manager.dockerd("start", "docker.socket", "docker.service")
    fails(run, "x4", "x4 could not join the swarm of m1 as worker", "The node is in no swarm, as before")
    assert guest.swarm()["LocalNodeState"] == "inactive"
    try:
        wait_until("the manager to run the swarm again", lambda: fleet["m1"].start("docker", "node", "ls", check=False).returncode == 0)
        run = fleet.playbook(inventory)
        assert run.rc == 0, run.output
        assert shown(fleet, "x4") == {KIND: guest.gpus()}
        assert availability_of(fleet, "x4") == ("active", None)
        settled(fleet)
    finally:
        leave_swarm(fleet, "x4")


# -- dockerd -----------------------------------------------------------------------------------------------------------


@contextmanager
def hangs_on_stop(node: Node, seconds: int) -> Iterator[None]:
    """Make dockerd ignore the signal to stop, so that systemd kills it after this many seconds.

    SIGSTOP does not help here, because systemd also sends SIGCONT when it stops a unit.
    """
    node.write(DROP_IN, f"[Service]\nKillSignal=SIGWINCH\nTimeoutStopSec={seconds}\n".encode())
    node.run("systemctl", "daemon-reload")
    try:
        yield
    finally:
        node.run("rm", DROP_IN)
        node.run("systemctl", "daemon-reload")


def test_dockerd_may_not_stop(fleet: Fleet, inventory: Path) -> None:
    """On one node systemd kills dockerd in time, on the other node it does not."""
    patience = fleet.inventory({"g2": {"gpu_node_timeout": 2}}, swarm_managers=["m1"], gpu_nodes=[*MEMBERS])
    before, since = fleet["g2"].files(), fleet["m1"].run("date", "+%s.%N")
    with hangs_on_stop(fleet["g1"], 3), hangs_on_stop(fleet["g2"], 8):
        run = fleet.playbook(patience, *advertised_as("HANG"))
        late = "docker.service is not in the wanted state after 2 s: systemd is still stopping it"
        fails(run, "g2", late, "journalctl -u docker.service", "run this again")
        assert fleet["g2"].files() == before
        assert not run.failures("g1")
        assert shown(fleet, "g1") == {"HANG": sorted(fleet["g1"].gpus())}
        wait_until("systemd to start dockerd anew", fleet["g2"].started)
    assert availabilities(fleet, "g1", since) == ["pause", "active"]
    assert availabilities(fleet, "g2", since) == ["pause"]  # at the end of the run, the configuration of its dockerd was unknown
    finishes(fleet, inventory, *advertised_as("HANG"), wanted="HANG")


def allowed_starts(node: Node) -> int:
    return int(node.run("systemctl", "show", "--property", "StartLimitBurst", "--value", "docker.service"))


def use_up_starts(node: Node) -> None:
    """Start dockerd until systemd refuses another start within a minute."""
    node.run("systemctl", "reset-failed", "docker.service")
    for _start in range(allowed_starts(node)):
        node.run("systemctl", "restart", "docker.service")


def crash(nodes: list[Node]) -> None:
    """Crash dockerd as often as systemd may start it in a minute. dockerd recovers, unless systemd also counts starts of the former run."""
    for _crash in range(allowed_starts(nodes[0])):
        before = {node: node.started() for node in nodes}
        for node in nodes:
            node.run("systemctl", "kill", "--signal", "KILL", "docker.service")
        for node, start in before.items():
            wait_until("systemd to start dockerd anew", lambda node=node, start=start: node.started() not in ("", start))


@contextmanager
def refuses(node: Node, word: str) -> Iterator[None]:
    """Make a dockerd that validates the file without errors, but does not start with this file."""
    node.run("mv", DOCKERD, f"{DOCKERD}.kept")
    script = f"""#!/bin/sh
case "$*" in *--validate*) exit 0;; esac
if grep -q {word} {DAEMON_JSON}; then
    echo "failed to start daemon: it does not like {word}" >&2
    exit 1
fi
exec {DOCKERD}.kept "$@"
"""
    node.write(DOCKERD, script.encode())
    node.run("chmod", "755", DOCKERD)
    try:
        yield
    finally:
        node.run("mv", f"{DOCKERD}.kept", DOCKERD)


def test_the_start_limit_may_be_used_up(fleet: Fleet, inventory: Path) -> None:
    """One node's dockerd accepts the new configuration. The other node's dockerd refuses it, and the run reverts the change.

    On both nodes, systemd still restarts dockerd after as many crashes as before the run.
    """
    before, since = fleet["g2"].files(), fleet["m1"].run("date", "+%s.%N")
    with refuses(fleet["g2"], "LIMIT"):
        for name in MEMBERS:
            use_up_starts(fleet[name])
        run = fleet.playbook(inventory, *advertised_as("LIMIT"))
        fails(run, "g2", "failed to start daemon: it does not like LIMIT", "docker.service runs with them again")
        assert fleet["g2"].files() == before
        assert fleet["g2"].started()
        assert not run.failures("g1")
        for name in MEMBERS:
            assert availabilities(fleet, name, since) == ["pause", "active"]
        settled(fleet)
        crash([fleet[name] for name in MEMBERS])
        for name in MEMBERS:
            wait_until(f"{name} to be back", lambda name=name: member(fleet, name)["Status"]["State"] == "ready")
    finishes(fleet, inventory, *advertised_as("LIMIT"), wanted="LIMIT")


# -- the disk ----------------------------------------------------------------------------------------------------------


@contextmanager
def full(node: Node, folder: str) -> Iterator[None]:
    """Mount a separate disk over a folder, with its content and no free byte."""
    node.run(
        "sh", "-ec", 'cp -a "$1" /run/full; mount -t tmpfs -o size=4m,mode=755 tmpfs "$1"; cp -a /run/full/. "$1"; rm -r /run/full', "-", folder
    )  # fmt: skip
    filler = f"{folder}/filler"
    try:
        assert b"No space left" in node.start("dd", "if=/dev/zero", f"of={filler}", "bs=4k", check=False).stderr
        yield
    finally:
        node.run("umount", folder)


def listing(node: Node, folder: str) -> str:
    return node.run("find", folder, "-not", "-name", "filler", "-printf", "%P %y %m %s\n")


def test_a_disk_may_be_full(fleet: Fleet) -> None:
    """A different directory is full on each node: the directory of the first written file, of dockerd's file, or of the toolkit's file."""
    folders = {"g1": STATE_DIR, "g2": "/etc/docker", "x4": "/etc/nvidia-container-runtime"}
    everyone = fleet.inventory(swarm_managers=["m1"], gpu_nodes=list(folders))
    since = fleet["m1"].run("date", "+%s.%N")
    with ExitStack() as disks:
        for name, folder in folders.items():
            disks.enter_context(full(fleet[name], folder))
        before = {name: (State.of(fleet[name]), listing(fleet[name], folder)) for name, folder in folders.items()}
        run = fleet.playbook(everyone, *EVERYONE, *advertised_as("FULL"))
        for name, folder in folders.items():
            fails(run, name, "No space left on device", folder)
            assert (State.of(fleet[name]), listing(fleet[name], folder)) == before[name]
        assert run.failed() == list(folders)
    for name in MEMBERS:
        assert availabilities(fleet, name, since) == ["pause", "active"]
    settled(fleet)
    try:
        finishes(fleet, everyone, *advertised_as("FULL"), wanted="FULL")
        assert shown(fleet, "x4") == {"FULL": fleet["x4"].gpus()}
    finally:
        leave_swarm(fleet, "x4")


# -- the controller's clock --------------------------------------------------------------------------------------------


def test_the_manager_s_clock_decides_when_a_lease_ends(fleet: Fleet, inventory: Path) -> None:
    """The controller's clock does not matter. In this test, it is half a day ahead, then half a day behind."""
    manager, other, run_of = fleet["m1"], "bob@elsewhere pid 7", [str(BIN / "ansible-playbook"), "--inventory", str(inventory)]
    program = shutil.which("faketime")
    assert program
    with lease_of(fleet, other):
        run = fleet.ansible(program, "-f", "+12h", *run_of, *advertised_as("CLOCK"), PROVISION)
        for name in MEMBERS:
            fails(run, name, f"another run changes this swarm: {other}")
            assert shown(fleet, name) != {"CLOCK": sorted(fleet[name].gpus())}

    planted = fleet.module("m1", "fleet.gpu_swarm.swarm_lease", {"holder": other, "ttl": 1})
    assert planted.rc == 0, planted.output
    planted_at = int(manager.run("date", "+%s"))
    wait_until("the lease to end", lambda: int(manager.run("date", "+%s")) > planted_at + 1)
    run = fleet.ansible(program, "-f", "-12h", *run_of, *advertised_as("CLOCK"), PROVISION)
    assert_wanted_state(fleet, run, "CLOCK")


# -- the repository ----------------------------------------------------------------------------------------------------

Spoil = Callable[[Lab, Path], object]


def bad_signature(_lab: Lab, folder: Path) -> None:
    signed = (folder / "InRelease").read_text()
    (folder / "InRelease").write_text(signed.replace("gpu-swarm-lab", "somebody-else", 1))


def dated(field: str, days: int) -> Spoil:
    """Set another date in the index, and sign it correctly."""

    def spoil(lab: Lab, folder: Path) -> None:
        moment = datetime.now(UTC) + timedelta(days=days)
        lines = [line for line in (folder / "Release").read_text().splitlines() if not line.startswith(f"{field}:")]
        head = f"{field}: {moment:%a, %d %b %Y %H:%M:%S} UTC"
        (folder / "Release").write_text("\n".join([head, *lines, ""]))
        sign(lab, folder)

    return spoil


@contextmanager
def spoiled(name: str, spoil: Spoil) -> Iterator[str]:
    """Yield the address of a copy of the repository whose index is spoiled."""
    lab = Lab.from_environment()
    copy = lab.repository / name
    shutil.copytree(lab.repository / NVIDIA, copy)
    try:
        (index,) = copy.glob("stable/deb/*/Release")
        spoil(lab, index.parent)
        yield f"http://{REPOSITORY_HOST}/{name}"
    finally:
        shutil.rmtree(copy)


def packages(node: Node) -> tuple[str, str, str]:
    """Return the toolkit's packages in dpkg, the packages that dpkg reports as unfinished, and apt's sources."""
    shown = node.run("dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Status}\n", "*nvidia-container*")
    return shown, node.run("dpkg", "--audit"), node.run("sh", "-c", "ls /etc/apt/sources.list.d; cat /etc/apt/sources.list.d/*.list")


REFUSED = f"http://{REPOSITORY_HOST}:9/{NVIDIA}"


NVIDIA_S_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
KEYRING = "/usr/share/keyrings/nvidia-container-toolkit-keyring.asc"


def of_nvidia(url: str) -> dict[str, str]:
    """Return settings for a repository that must be signed with NVIDIA's key."""
    return {"repository": url, "key_fingerprint": NVIDIA_S_KEY}


@contextmanager
def repositories() -> Iterator[dict[str, tuple[dict[str, str], list[str]]]]:
    """Yield for each node a repository that the node cannot use, and the expected error. The nodes already have the right key."""
    tomorrow, yesterday = dated("Date", 1), dated("Valid-Until", -1)
    with spoiled("signature", bad_signature) as unsigned, spoiled("tomorrow", tomorrow) as early, spoiled("yesterday", yesterday) as late:
        yield {
            "g1": ({"repository": REFUSED}, ["cannot be read", REFUSED, "connect"]),
            "g2": ({"repository": unsigned}, ["cannot be read", unsigned, "signature"]),
            "x1": ({"repository": early}, ["cannot be read", early, "is not valid yet"]),
            "x2": ({"repository": late}, ["cannot be read", late, "is expired"]),
            "x3": (of_nvidia(REFUSED), ["cannot fetch the repository's key", REFUSED, "refused"]),
            "x4": (of_nvidia(URL), ["is not accepted as the repository's key", f", not {NVIDIA_S_KEY}", "key_fingerprint"]),
        }


def test_unusable_repositories_are_reported(fleet: Fleet, inventory: Path) -> None:
    """No server listens, the signature is wrong, the clocks differ by days, or another key signed the repository."""
    older, since = toolkit(version="1.19.1"), fleet["m1"].run("date", "+%s.%N")
    with repositories() as unusable:
        for name in unusable:
            fleet[name].unwatched()
        before = {name: (packages(fleet[name]), State.of(fleet[name])) for name in unusable}
        hosts = {name: {f"nvidia_container_toolkit_{key}": value for key, value in given.items()} for name, (given, _texts) in unusable.items()}
        some = fleet.inventory(hosts, swarm_managers=["m1"], gpu_nodes=list(unusable))
        for name in unusable:
            fleet[name].touch()
        check = fleet.playbook(some, "--check", *older)
        touched = {name: fleet[name].touched() for name in unusable}
        run = fleet.playbook(some, *EVERYONE, *older)
    assert (check.failed(), run.failed()) == (list(unusable), list(unusable)), check.output + run.output
    assert touched == {name: [] for name in unusable}
    for name, (_given, text) in unusable.items():
        fails(check, name, *text)
        fails(run, name, *text)
        assert (packages(fleet[name]), State.of(fleet[name])) == before[name]
    for name in MEMBERS:
        assert availabilities(fleet, name, since) == []  # noticed before the node is paused
    assert fleet["x4"].run("find", KEYRING, f"{KEYRING}.new", check=False) == ""
    settled(fleet)
    finishes(fleet, inventory, *older)
    for name in MEMBERS:
        assert "nvidia-container-toolkit 1.19.1-1 installed" in packages(fleet[name])[0]
