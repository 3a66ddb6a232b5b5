# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares processes on GPUs with reservations. Tests the owner of a process, the allocation of its task, and the findings."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._bounded import TimedOut
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu.record import group_name, slot_name
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.allocation_findings import Finding, short_text
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import allocation_check, process_owner
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.allocation_comparison import (
    Comparison,
    Held,
    Snapshot,
    Use,
    find_differences,
    holdings,
)
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.container_files import (
    SERVICE,
    TASK,
    Assigned,
    Containers,
    cards_of,
    requested_cards,
)

ONE, TWO = "1" * 64, "2" * 64
A, B, C = ("GPU-00000000-1111-2222-3333-44444444444%d" % place for place in range(3))
MIG = "MIG-00000000-1111-2222-3333-444444444444"
DATA = Path(__file__).parents[1] / "data" / "guard"


# -- the owner of a process --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cgroup", "found"),
    [
        (f"0::/system.slice/docker-{ONE}.scope\n", [ONE]),  # v2, systemd
        (f"0::/docker/{ONE}\n", [ONE]),  # v2, cgroupfs
        (f"12:devices:/docker/{ONE}\n11:cpu,cpuacct:/docker/{ONE}\n0::/system.slice/containerd.service\n", [ONE]),  # v1, cgroupfs
        (f"12:devices:/system.slice/docker-{ONE}.scope\n1:name=systemd:/system.slice/docker-{ONE}.scope\n", [ONE]),  # v1, systemd
        (f"0::/gpu.slice/docker-{ONE}.scope\n", [ONE]),  # --cgroup-parent
        (f"0::/batch/{ONE}\n", [ONE]),
        (f"0::/docker/{ONE}/docker/{TWO}\n", [ONE, TWO]),  # Docker within Docker
        (f"0::/system.slice/docker-{ONE}.scope/system.slice/docker-{TWO}.scope\n", [ONE, TWO]),
        (f"0::/docker/{ONE}/kubepods/besteffort/pod7/{TWO}\n", [ONE, TWO]),
        (f"4:memory:/\n3:devices:/docker/{ONE}\n", [ONE]),
        (f"0::/machine.slice/libpod-{ONE}.scope/container\n", []),  # podman
        (f"0::/kubepods.slice/cri-containerd-{ONE}.scope\n", []),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", []),
        (f"0::/docker/{ONE[:-1]}\n0::/docker/{ONE}0\n0::/docker/{'G' * 64}\n0::/docker-{ONE}.scopes\n", []),
        ("", []),
        ("no colons\n:\n::\n\0\n", []),
    ],
)
def test_the_containers_of_a_process_are_listed_from_the_outside(cgroup, found):
    assert process_owner.containers(cgroup) == found


def test_a_process_is_read_from_the_kernel():
    found = process_owner.read(os.getpid())
    stat = Path("/proc/self/stat").read_text()
    assert (found.uid, found.name, found.started.decode()) == (os.getuid(), Path("/proc/self/comm").read_text().strip(), stat.split()[-31])
    assert process_owner.containers(Path("/proc/self/cgroup").read_text()) == list(found.containers)


def proc(folder, name=b"python3", started=b"77", cgroup=b"0::/\n", uid=b"1000"):
    of_it = folder / "7"
    of_it.mkdir(exist_ok=True)
    (of_it / "stat").write_bytes(b"7 (" + name + b") S " + b" ".join([b"0"] * 18) + b" " + started + b" 0\n")
    (of_it / "cgroup").write_bytes(cgroup)
    (of_it / "status").write_bytes(b"Name:\tx\nUid:\t" + uid + b"\t0\t0\t0\n")
    return process_owner.read(7, str(folder))


def test_the_name_of_a_process_is_made_printable(tmp_path):
    assert proc(tmp_path).name == "python3"
    assert proc(tmp_path, name=b") S 1 (").name == ") S 1 ("
    assert proc(tmp_path, name=b"\x1b[2K\nx").name == "\\x1b[2K\\nx"
    assert proc(tmp_path, name=b"\xff\xfe").name == "\ufffd\ufffd"


def test_another_process_with_the_same_number_does_not_count(tmp_path, monkeypatch):
    """The start time of the process is read again at the end, because another process may have got the number meanwhile."""
    assert proc(tmp_path) is not None
    read = process_owner._file

    def passes_on(path):
        found = read(path)
        if path.endswith("/status"):
            (tmp_path / "7" / "stat").write_bytes(read(str(tmp_path / "7" / "stat")).replace(b" 77 ", b" 78 "))
        return found

    monkeypatch.setattr(process_owner, "_file", passes_on)
    assert process_owner.read(7, str(tmp_path)) is None
    assert process_owner.read(8, str(tmp_path)) is None


@pytest.mark.parametrize("stat", [b"", b"7 (x) S 1", b"7", b")(" * 9])
def test_an_invalid_record_of_a_process_is_ignored(tmp_path, stat):
    proc(tmp_path)
    (tmp_path / "7" / "stat").write_bytes(stat)
    assert process_owner.read(7, str(tmp_path)) is None


def test_a_user_is_looked_up_once_and_a_silent_directory_delays_nothing():
    calls = []

    def getent(argv, _limit_s):
        calls.append(argv[-1])
        if argv[-1] == "3":
            raise TimedOut("late", hangs="getent")
        return {"1": (0, "al\x1bice:x:1:1::/:/bin/sh\n", "")}.get(argv[-1], (2, "", ""))

    users = process_owner.Users(getent)
    assert [users.name(uid) for uid in (1, 2, 3, 1, 2)] == ["al\\x1bice", "user 2", "user 3", "al\\x1bice", "user 2"]
    assert calls == ["1", "2", "3"]
    assert process_owner.Users().name(0) == "root"


@pytest.mark.parametrize(("takes_s", "answers", "spent_s"), [(5, False, 10), (4, True, 8), (0.01, True, 10)])
def test_all_lookups_together_have_a_time_limit(takes_s, answers, spent_s):
    """Otherwise, with a thousand users and a slow directory, systemd would end the watcher after three minutes of silence."""
    clock = [1000.0]
    calls = []

    def getent(argv, limit_s):
        calls.append(argv[-1])
        clock[0] += takes_s
        if not answers:
            raise TimedOut("late", hangs="getent")
        return 0, "name%s:x\n" % argv[-1], ""

    users = process_owner.Users(getent, lambda: clock[0])
    for _minute in range(2):
        began = clock[0]
        for uid in range(1000):
            users.name(uid)
        assert clock[0] - began <= spent_s
        clock[0] += 100
    names = {users.name(int(uid)) for uid in calls[-3:]}
    assert names == ({"name%s" % uid for uid in calls[-3:]} if answers else {"user %s" % uid for uid in calls[-3:]})


# -- the allocation of a task -----------------------------------------------------------------------------------------

RECORD = {
    "resources": [f"NVIDIA-GPU={A}"], "kinds": ["NVIDIA-GPU", "NVIDIA-SLOT", "VRAM-C1"], "gpus": [A, B, C],
    "map": {"NVIDIA-SLOT": {f"{B}:1": {"devices": [B]}}, "VRAM-C1": {"": {"devices": [C]}}, "PAIR": {"pair-0": {"devices": [A, B]}}},
}  # fmt: skip
OLD = {key: value for key, value in RECORD.items() if key != "map"}


@pytest.mark.parametrize(
    ("given", "record", "devices"),
    [
        (Assigned("NVIDIA-GPU", A), RECORD, [(A,)]),
        (Assigned("NVIDIA-GPU", MIG), RECORD, [(MIG,)]),
        (Assigned("NVIDIA-SLOT", f"{B}:1"), RECORD, [(B,)]),
        (Assigned("PAIR", "pair-0"), RECORD, [(A, B)]),
        (Assigned("VRAM-C1", "", True), RECORD, [(C,)]),
        (Assigned("VRAM-C1", "", True), OLD, [(A, B, C)]),  # the card of this slot is not recorded
        (Assigned("NVIDIA-SLOT", slot_name(B, 1)), OLD, [(B,)]),
        (Assigned("PAIR", group_name([A, B])), OLD, [(A, B)]),
        (Assigned("SSD", "", True), OLD, []),
        (Assigned("SSD", "nvme0"), RECORD, []),
        (Assigned("NVIDIA-GPU", A), {}, [(A,)]),
    ],
)
def test_an_allocation_stands_for_cards(given, record, devices):
    assert [tuple(one.devices) for one in holdings([given], record)] == devices


def container(folder, ident, task="", service="", running=True, name="/it", **labels):
    home = folder / "containers" / ident
    home.mkdir(parents=True, exist_ok=True)
    labels.update({TASK: task, SERVICE: service} if task else {})
    (home / "config.v2.json").write_text(json.dumps({"State": {"Running": running}, "Name": name, "Config": {"Labels": labels or None}}))


def test_running_containers_and_their_allocations_are_read(tmp_path):
    (tmp_path / "swarm" / "worker").mkdir(parents=True)
    (tmp_path / "swarm" / "worker" / "tasks.db").write_bytes(gzip.decompress((DATA / "tasks-26.1.5.db.gz").read_bytes()))
    container(tmp_path, ONE, "os4h3yhd38lmqy77fykgvxym7", "train")
    container(tmp_path, TWO, name="/no\x1btebook")
    it = Containers(str(tmp_path))
    running = it.running()
    assert {ident: (one.name, one.task, one.service) for ident, one in running.items()} == {
        ONE: ("it", "os4h3yhd38lmqy77fykgvxym7", "train"), TWO: ("no\\x1btebook", "", ""),
    }  # fmt: skip
    assert it.assigned("os4h3yhd38lmqy77fykgvxym7") == (Assigned("NVIDIA-GPU", "GPU-77a610a8-caa6-5036-afec-4399b4137c2b"),)
    assert it.assigned("sznzfnmgku8fpv6rmqqbwynu1") == it.assigned("nobody") == ()
    assert [it.is_over(task) for task in ("os4h3yhd38lmqy77fykgvxym7", "sznzfnmgku8fpv6rmqqbwynu1", "nobody")] == [False, False, True]
    container(tmp_path, ONE, "os4h3yhd38lmqy77fykgvxym7", "train", running=False)
    assert list(it.running()) == [TWO]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"State": {"Running": true}}', '{"State": 1}', '{"State": {"Running": true}, "Config": 5}'])
def test_a_container_that_is_being_created_or_removed_does_not_count(tmp_path, content):
    container(tmp_path, ONE)
    (tmp_path / "containers" / ONE / "config.v2.json").write_text(content)
    (tmp_path / "containers" / TWO).mkdir()
    (tmp_path / "containers" / "other").mkdir()
    assert Containers(str(tmp_path)).running() == {}
    assert Containers(str(tmp_path)).assigned("x") is None
    with pytest.raises(OSError, match="containers"):
        Containers(str(tmp_path / "none")).running()


# -- the findings -----------------------------------------------------------------------------------------------------

HELD = {"a": [Held("K", A, (A,))], "b": [Held("K", B, (B,))], "none": [], "unknown": None}


@pytest.mark.parametrize(
    ("requests", "found"),
    [
        ([{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}], ("all",)),  # --gpus all, as Docker stores it
        ([{"Driver": "nvidia", "Count": 2, "DeviceIDs": [], "Capabilities": [["compute", "gpu"]]}], ("0", "1")),
        ([{"Driver": "", "Count": 0, "DeviceIDs": ["1", A], "Capabilities": [["gpu"]]}], ("1", A)),
        ([{"Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=all"]}], ("all",)),
        ([{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={A}", "vendor.com/nic=0", "nvidia.com/gpu=1"]}], (A, "1")),
        ([{"Driver": "", "Count": -1, "Capabilities": [["tpu"]]}, {"Driver": "amd", "Count": -1, "Capabilities": [["gpu"]]}], ()),
        ([{"Driver": "", "Count": 10**9, "Capabilities": [["gpu"]]}], tuple(map(str, range(64)))),
        ([], ()),
        (None, ()),
    ],
)
def test_requests_of_docker_run_are_read(requests, found):
    assert requested_cards({"DeviceRequests": requests}) == found


@pytest.mark.parametrize(
    ("requests", "cards"),
    [
        (["all"], [A, MIG, B]),
        (["0"], [A]),
        (["1"], [MIG]),  # a card in MIG mode means all of its devices
        ([B, "7", ""], [B]),
        ([A[:12], "GPU-f"], [A, B]),  # NVIDIA's tools read this value in the same way
        ([MIG], [MIG]),
        ([], []),
    ],
)
def test_cards_of_requests_are_found(requests, cards):
    node = [{"index": index, "uuid": uuid, "pids": []} for index, uuid in enumerate([A, MIG, B])]
    assert cards_of(requests, node) == cards


def test_an_idle_operator_s_container_with_the_card_of_a_task_is_found():
    given = [Use(A, "", "container notebook"), Use(C, "", "container notebook")]
    assert find_differences([], HELD, [A, B, C], given) == {found("seen-by-another", A, "", "a", "container notebook")}
    busy = [Use(A, "", "container notebook (py)"), Use(C, "", "container notebook (py)")]
    assert {(one.name, one.card) for one in find_differences(busy, HELD, [A, B, C], given)} == {("used-by-another", A), ("outside", C)}
    assert find_differences([], {"none": [], "unknown": None}, [A, B, C], given) == set()


@pytest.mark.parametrize("length", [40, 49, 50, 52, 53, 54, 55, 90])
def test_a_container_with_a_long_name_is_one_finding(length):
    """This holds even if the name of the container leaves no room for the name of its process."""
    container, other = "container " + "n" * length, "container " + "n" * (length - 1)
    uses = [Use(A, "", short_text("%s (py)" % container))]
    assert {one.name for one in find_differences(uses, HELD, [A], [Use(A, "", short_text(container))])} == {"used-by-another"}
    if length < 54:  # longer names are cut to the same text
        assert {one.name for one in find_differences(uses, HELD, [A], [Use(A, "", short_text(other))])} == {"used-by-another", "seen-by-another"}


def found(name, card, task="", holder="", by="py"):
    return Finding(name, card, task, holder, by, 0)


@pytest.mark.parametrize(
    ("use", "finding"),
    [
        (Use(A, "a", "py"), None),
        (Use(B, "a", "py"), found("used-by-another", B, "a", "b")),
        (Use(C, "a", "py"), found("not-held", C, "a")),
        (Use(A, "none", "py"), found("used-by-another", A, "none", "a")),
        (Use(C, "none", "py"), found("not-held", C, "none")),
        (Use(A, "unknown", "py"), None),  # the allocation of the task could not be read
        (Use(A, "gone", "py"), None),  # the task ended during the reading
        (Use(A, "", "alice (py)"), found("used-by-another", A, "", "a", "alice (py)")),
        (Use(C, "", "alice (py)"), found("outside", C, by="alice (py)")),
        (Use(MIG, "", "alice (py)"), None),  # the swarm does not advertise this device
        (Use(MIG, "none", "py"), found("not-held", MIG, "none")),
    ],
)
def test_uses_of_a_card_are_compared(use, finding):
    assert find_differences([use], HELD, [A, B, C]) == ({finding} if finding else set())


def test_several_tasks_share_a_card_and_many_processes_are_one_finding():
    shared = {"a": [Held("S", "1", (A,))], "b": [Held("S", "2", (A,))], "c": []}
    assert find_differences([Use(A, "a", "py"), Use(A, "b", "py")], shared, [A]) == set()
    assert find_differences([Use(A, "c", "x%d" % place) for place in range(99)], shared, [A]) == {found("used-by-another", A, "c", "a", "x0")}


def test_two_reads_must_agree_and_a_finding_keeps_its_time():
    comparison, wrong, well = Comparison(0), [Use(B, "a", "py")], [Use(A, "a", "py")]

    def compare(uses, now):
        return comparison.compare(Snapshot(uses, HELD, [A, B], [A, B]), now, 1000 + now)

    expected = found("used-by-another", B, "a", "b")
    assert compare(wrong, 0) == []
    assert compare(wrong, 60) == compare(wrong, 120) == [expected._replace(since=1000)]
    assert compare(well, 180) == []
    assert compare(wrong, 240) == []
    assert compare(wrong, 300) == [expected._replace(since=1240)]
    assert compare(wrong, 3000) == []  # nothing is known about the time between the two reads


def test_a_long_unused_allocation_is_found():
    comparison = Comparison(600)

    def compare(now, uses=(), known=(A, B), held=None):
        return [(one.task, one.card, one.since) for one in comparison.compare(Snapshot(list(uses), held or HELD, [A, B], known), now, now)]

    for now in range(0, 600, 60):
        assert compare(now, [Use(A, "a", "py")]) == []
    assert compare(600, [Use(A, "a", "py")]) == [("b", B, 0)]
    assert compare(660, [Use(B, "b", "py")]) == []
    assert compare(720, [Use(B, "a", "py")]) == []  # the finding of another task does not count
    for now in range(780, 1200, 60):
        assert compare(now) == []
    assert compare(1200) == [("a", A, 600)]
    assert compare(1260) == [("a", A, 600), ("b", B, 660)]
    assert compare(1320, known=(A,)) == [("a", A, 600)]  # the driver does not report the processes
    assert compare(1380, held={"new": HELD["a"]}) == []
    assert Comparison(0).compare(Snapshot([], HELD, [], [A]), 0, 0) == []


def test_a_card_that_computes_nothing_for_hours_is_found():
    """The task has a process all the time, such as a notebook that somebody left open."""
    comparison = Comparison(600)
    present = (Use(A, "a", "py"),)

    def compare(now, uses=present, **computed):
        snapshot = Snapshot(list(uses), {"a": [Held("GPU", A, (A,))]}, [A], [A], computed={A: computed["a"]} if computed else {})
        return [(one.name, one.since) for one in comparison.compare(snapshot, now, now)]

    assert compare(0, a=True) == []
    for now in range(60, 600, 60):
        assert compare(now, a=False) == []
    assert compare(600, a=False) == compare(660, a=False) == [("no-load", 0)]
    assert compare(720, a=True) == []
    assert compare(780, uses=(), a=False) == []
    for now in range(840, 1320, 60):
        assert compare(now, a=False) == []
    assert compare(1320, a=False) == [("no-load", 720)]
    assert compare(1380) == []  # the utilisation is unknown
    for now in range(1440, 1980, 60):
        assert compare(now, uses=(), a=False) == []
    assert compare(1980, uses=(), a=False) == [("idle", 1380)]  # without a process, only that is said


def test_tasks_that_share_a_computing_card_are_not_idle():
    comparison, held = Comparison(60), {name: [Held("S", name, (A,))] for name in ("a", "b")}
    for now in (0, 60, 120):
        snapshot = Snapshot([Use(A, name, "py") for name in held], held, [A], [A], computed={A: True})
        assert comparison.compare(snapshot, now, now) == []


def test_one_of_several_cards_must_be_used():
    comparison, held = Comparison(60), {"a": [Held("PAIR", "p", (A, B))]}
    for now in (0, 60, 120):
        assert comparison.compare(Snapshot([Use(B, "a", "py")], held, [], [A, B]), now, now) == []
    assert len(comparison.compare(Snapshot([], held, [], [A, B]), 180, 180)) == 1


# -- everything together ------------------------------------------------------------------------------------------------


class Written:
    expected, inserted = [A, B], RECORD


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now

    def time(self):
        return 1000 + self.now


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def keeper(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(allocation_check, "PATH", str(tmp_path / "allocations.json"))
    (tmp_path / "docker" / "containers").mkdir(parents=True)
    cards = []
    settings = {"data_root": str(tmp_path / "docker"), "idle_after": 0, "isolation_allow": ["exporter", "label:monitors"]}
    it = allocation_check.AllocationCheck(settings, lambda: cards[-1], clock)

    def compare(answer, readable=True):
        cards.append(answer)
        it.compare(readable, Written())
        clock.now += 60
        path = tmp_path / "allocations.json"
        return json.loads(path.read_text())["found"] if path.exists() else []

    compare.root, compare.clock, compare.check = tmp_path / "docker", clock, it
    return compare


def on(card, *pids):
    return [{"index": 0, "uuid": card, "pids": list(pids)}]


def test_a_process_outside_containers_is_named_with_its_user(keeper, sleeper):
    assert keeper(on(A, sleeper)) == []
    assert keeper(on(A, sleeper)) == [["outside", A, "", "", "root (sleep)", 1000]]
    assert keeper(on(A)) == []
    keeper(on(A, sleeper))
    assert len(keeper(on(A, sleeper))) == 1
    assert keeper(None) == []  # NVML shows nothing


def test_a_card_that_computed_between_two_comparisons_counts(keeper):
    noted = []
    comparison = keeper.check._comparison
    compare = comparison.compare
    comparison.compare = lambda snapshot, *times: noted.append(snapshot.computed) or compare(snapshot, *times)
    for percent in (0, 3, 0, None):
        keeper.check.note([{"uuid": A, "utilisation_percent": percent}, {"uuid": B, "utilisation_percent": 0}])
    keeper(on(A))
    keeper.check.note([{"uuid": A, "utilisation_percent": 0}, {"uuid": B, "utilisation_percent": None}])
    keeper(on(A))
    keeper(on(A))
    assert noted == [{A: True, B: False}, {A: False}, {}]


def test_reads_are_a_minute_apart_and_a_confirming_one_comes_sooner(keeper, sleeper):
    keeper(on(A, sleeper))
    keeper.clock.now -= 51  # nine seconds later
    assert keeper(on(A, sleeper)) == []
    keeper.clock.now -= 59
    assert keeper(on(A, sleeper)) != []
    keeper.clock.now -= 1
    assert keeper(on(A)) != []
    assert keeper(on(A)) == []
    keeper.clock.now += 60
    assert len([keeper(on(A, sleeper)) for _time in range(2)][1]) == 1
    assert keeper(on(A, sleeper), readable=False) == []


@pytest.mark.parametrize(
    ("task", "service", "found"),
    [
        ("", "", ["outside", A, "", "", "container it (sleep)", 1000]),
        ("sznzfnmgku8fpv6rmqqbwynu1", "train", ["not-held", A, "sznzfnmgku8fpv6rmqqbwynu1", "", "sleep", 1000]),
        ("sznzfnmgku8fpv6rmqqbwynu1", "exporter", None),
        ("over", "train", ["outside", A, "", "", "container it (sleep)", 1000]),
    ],
)
def test_a_process_of_a_container_belongs_to_its_task(keeper, sleeper, monkeypatch, task, service, found):
    (keeper.root / "swarm" / "worker").mkdir(parents=True)
    (keeper.root / "swarm" / "worker" / "tasks.db").write_bytes(gzip.decompress((DATA / "tasks-26.1.5.db.gz").read_bytes()))
    container(keeper.root, ONE, task, service)
    read = process_owner.read
    monkeypatch.setattr(process_owner, "read", lambda pid: read(pid)._replace(containers=[TWO, ONE]))  # TWO belongs to an outer dockerd
    keeper(on(A, sleeper))
    assert keeper(on(A, sleeper)) == ([found] if found else [])


@pytest.mark.parametrize(
    ("labels", "host", "expected"),
    [
        ({}, '{"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}', True),
        ({"monitors": "gpus"}, '{"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}', False),  # it may see all cards by its label
        ({}, '{"DeviceRequests": [{"Count": "x", "Capabilities": [["gpu"]]}]}', False),
        ({}, '{"DeviceRequests": 5}', False),
        ({}, "[]", False),
        ({}, "", False),
        ({}, None, False),
    ],
)
def test_an_idle_container_of_docker_run_is_a_finding(keeper, labels, host, expected):
    (keeper.root / "swarm" / "worker").mkdir(parents=True)
    (keeper.root / "swarm" / "worker" / "tasks.db").write_bytes(gzip.decompress((DATA / "tasks-26.1.5.db.gz").read_bytes()))
    held, task = "GPU-77a610a8-caa6-5036-afec-4399b4137c2b", "os4h3yhd38lmqy77fykgvxym7"
    container(keeper.root, ONE, task, "train")
    container(keeper.root, TWO, name="/notebook", **labels)
    if host is not None:
        (keeper.root / "containers" / TWO / "hostconfig.json").write_text(host)
    keeper(on(held))
    assert keeper(on(held)) == ([["seen-by-another", held, "", task, "container notebook", 1000]] if expected else [])


def test_an_error_is_reported_once_and_ends_nothing(tmp_path, monkeypatch):
    def broken():
        raise ValueError("x")

    it = allocation_check.AllocationCheck({}, broken, Clock())
    monkeypatch.setattr(allocation_check, "EVERY_S", 0)
    said = [it.compare(True, Written()) for _time in range(3)]
    assert said == ["processes cannot be compared with reservations: ValueError('x')", "", ""]


def test_the_server_of_mps_does_not_count_as_a_use(keeper, sleeper, monkeypatch):
    read = process_owner.read
    monkeypatch.setattr(process_owner, "read", lambda pid: read(pid)._replace(name="nvidia-cuda-mps"))
    assert [keeper(on(A, sleeper)) for _time in range(2)] == [[], []]
