# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of gpu-swarm for queues. They call a fake dockerd with a swarm that places tasks."""

from __future__ import annotations

import json
import threading

import pytest
from docker_daemon import CUT
from queue_daemon import QueueDaemon, frame
from queue_swarm import Driver, QueueSwarm
from queued import GPU, held, queued

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command import command, task_log
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command.command import Places
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import LABEL

QUEUES = '{"nightly":{"priority":-10},"research":{"time_limit":"1h","weight":3,"max":{"NVIDIA-GPU":24}}}'


@pytest.fixture
def fleet(tmp_path, monkeypatch, capsysbinary):
    """Return a fleet. ``fleet("queue", …)`` calls the command and returns (exit status, stdout, stderr). ``fleet.run`` runs the manager's rounds."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("SUDO_USER", "alice")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(task_log, "POLL_S", 0.05)
    at = str(tmp_path / "docker.sock")
    one = Fleet(at, capsysbinary)
    yield one
    one.daemon.close()


class Fleet:
    def __init__(self, at, capture):
        self.swarm = QueueSwarm([], queues=QUEUES)
        self.run, self.daemon, self._capture = Driver(self.swarm), QueueDaemon(at, self.swarm), capture
        self.places = Places("/nowhere", "/nowhere", "unix://" + at)

    def __call__(self, *argv):
        try:
            status = command.main(argv, self.places)
        except SystemExit as ended:
            status = ended.code
        output = self._capture.readouterr()
        return status, output.out.decode(), output.err.decode()

    def submit(self, *services, rounds=3):
        for service in services:
            self.swarm.submit(service)
        self.run.rounds(rounds)


# -- queue -----------------------------------------------------------------------------------------------------------


def test_queue_shows_what_runs_and_waits_and_why_on_80_columns(fleet):
    fleet.submit(queued("a", {GPU: 6}, owner="alice"), queued("b", {GPU: 8}, owner="bob"), queued("c", {GPU: 8}), queued("h", state="held attempt=1"))
    status, out, _err = fleet("queue")
    assert status == 0
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert out.splitlines()[3].split() == ["research", "0", "3", "29", "%", "14", "of", "24", "NVIDIA-GPU", "2", "1", "1h"]
    assert "Running:\n" in out
    assert "\nWaiting, in this order:\n" in out
    assert "it is next, and host-n1 is kept for it;" in out
    assert "\nHeld:\n" in out


def test_a_gang_is_one_row_that_waits_and_one_row_for_each_running_member(fleet):
    fleet.submit(*gang("now", 8), *gang("later", 4, queue="nightly"))
    out = fleet("queue")[1]
    assert [line.split()[5] for line in out.splitlines() if line.startswith("now")] == ["host-n1", "host-n2"]
    assert "\n1  later0 (gang of 2)  nightly  –      2 × 4 NVIDIA-GPU  " in out
    assert "later1" not in out
    assert "rank 1 of 2 in the gang later." in fleet("queue", "later1")[1]


def gang(name, gpus, **labels):
    members = [queued("%s%d" % (name, rank), {GPU: gpus}, gang="%s:%d/2 any" % (name, rank), **labels) for rank in range(2)]
    for service in members:
        service["Spec"]["TaskTemplate"]["Networks"], service["Spec"]["EndpointSpec"] = [{"Target": "net1"}], {"Mode": "dnsrr"}
    return members


def test_in_a_pipe_each_row_is_one_line(fleet, monkeypatch):
    fleet.submit(queued("a", {GPU: 8}), queued("b", {GPU: 8}), queued("c", {GPU: 8}))
    monkeypatch.delenv("COLUMNS")
    (line,) = [line for line in fleet("queue")[1].splitlines() if line.startswith("1  ")]
    assert line.split()[:6] == ["1", "c", "research", "–", "8", "NVIDIA-GPU"]
    assert "it is next" in line


def test_queue_of_one_piece_of_work_says_all_that_is_known(fleet):
    fleet.submit(*[queued(name, {GPU: 8}, owner="alice") for name in "abcd"])
    out = " ".join(fleet("queue", "d")[1].split())
    assert "d belongs to alice." in out
    assert "It asks for 8 NVIDIA-GPU in the queue research, for at most 1h." in out
    assert "It waits at position 2 since " in out
    assert "Ahead of it: c." in out
    assert "It runs on host-n1 since" in " ".join(fleet("queue", "a")[1].split())


@pytest.mark.parametrize(("name", "work"), [("alice", ["a"]), ("nightly", ["b"]), ("research", ["a"]), ("b", ["b"]), ("idb", ["b"])])
def test_queue_selects_a_queue_an_owner_or_a_name(fleet, name, work):
    fleet.submit(queued("a", owner="alice"), queued("b", queue="nightly", owner="bob"))
    answer = json.loads(fleet("queue", name, "--json")[1])
    assert [row["service"] for row in answer["work"]] == work


def test_queue_selects_a_job_with_all_its_services(fleet):
    fleet.submit(queued("a-1", job="a"), queued("a-2", job="a"), queued("b"))
    answer = json.loads(fleet("queue", "a", "--json")[1])
    assert [(row["service"], row["job"]) for row in answer["work"]] == [("a-1", "a"), ("a-2", "a")]


def test_work_that_starts_in_the_next_round_does_not_wait_because_it_fits(fleet):
    fleet.submit(queued("a"), rounds=0)
    out = " ".join(fleet("queue", "a")[1].split())
    assert "It fits on host-n1 now; the service of the leading manager starts it in its next round." in out
    assert "because" not in out
    assert "a: it waits in the queue research; it fits on host-n1 now;" in " ".join(fleet("why", "a")[1].split())


def test_ended_work_says_where_it_ran(fleet):
    fleet.submit(queued("a"))
    fleet.swarm.end("a")
    fleet.run.rounds(1)
    assert "(15 s). Its last node was host-n1. Complete." in " ".join(fleet("queue", "a")[1].split())


def test_a_name_that_nobody_has_is_an_error(fleet):
    assert fleet("queue", "x\x1b[2K") == (
        1, "", "gpu-swarm: No queue, owner, job or work of a queue is named x\\x1b[2K. The queues are: nightly, research.\n"
    )  # fmt: skip
    fleet.swarm.labels.clear()
    assert fleet("queue", "x")[2] == "gpu-swarm: This swarm has no queues. Set gpu_swarm_queues, and run provision.\n"
    assert fleet("queue")[:2] == (0, "This swarm has no queues. Set gpu_swarm_queues.\n")


def test_an_unreadable_label_is_one_clear_sentence(fleet):
    fleet.submit(queued("a"), rounds=0)
    fleet.swarm.labels["gpu-swarm.queues"] = "{"
    status, out, _err = fleet("queue")
    assert status == 2
    assert out.startswith("Nothing starts: The label gpu-swarm.queues of the swarm is unreadable:")
    status, out, _err = fleet("cancel", "a")
    assert (status, " ".join(out.split()).startswith("The label gpu-swarm.queues of the swarm is unreadable")) == (1, True)


def test_a_manager_that_stopped_admitting_is_named(fleet, monkeypatch):
    fleet.submit(queued("a", {GPU: 16}))
    fleet.swarm.clock += 700
    cluster = fleet.swarm.cluster
    monkeypatch.setattr(fleet.swarm, "cluster", lambda: ({**cluster()[0], "UpdatedAt": "2026-11-20T12:01:00Z"}, cluster()[1]))
    status, out, _err = fleet("queue")
    assert status == 2
    assert "The leader's service has not started work for 12 min. See 'systemctl status" in out


def test_hostile_names_are_printed_as_escapes(fleet):
    service = queued("a", {GPU: 99}, owner="\x1b[2Kevil\nroot")
    service["Spec"]["Name"] = "x\ny"
    fleet.submit(service)
    for argv in (["queue"], ["queue", "x\ny"], ["queue", "--json"], ["logs", "x\ny"], ["cancel", "x\ny"]):
        _status, out, err = fleet(*argv)
        assert [character for character in out + err if not character.isprintable() and character != "\n"] == []
        assert "\ny" not in out + err


@pytest.mark.parametrize(("state", "seconds"), [("failed", 0), ("rejected", 0), ("pending", 90)])
def test_a_hostile_error_of_a_task_is_printed_as_escapes(fleet, state, seconds):
    fleet.submit(queued("a"))
    fleet.swarm.tasks_now[0]["Status"] = {"State": state, "Err": "\x1b[2K\u202eevil"}
    fleet.swarm.clock += seconds
    for argv in (["queue", "research"], ["queue", "a"], ["queue", "--json"]):
        out = fleet(*argv)[1]
        assert "\\x1b[2K" in out
        assert [character for character in out if not character.isprintable() and character != "\n"] == []


def test_somebody_without_access_to_the_socket_is_told_what_to_do(fleet):
    fleet.places = Places(docker_host="unix:///nowhere.sock")
    for argv in (["queue"], ["cancel", "a"], ["logs", "a"], ["retry", "a"], ["release", "a"], ["run", "--queue", "q", "--gpus", "1", "i"]):
        status, out, err = fleet(*argv)
        assert (status, out) == (1, "")
        assert err.startswith("gpu-swarm: Docker does not answer at unix:///nowhere.sock")
        assert err.count("\n") == 1


# -- cancel, retry, release ------------------------------------------------------------------------------------------


def test_work_is_cancelled_retried_and_released(fleet):
    fleet.submit(queued("a"), queued("b", {GPU: 16}), queued("c"))
    status, out, _err = fleet("cancel", "a", "b", "x")
    assert (status, out.splitlines()[:2]) == (1, ["a is cancelled. Its log stays.", "b is removed. It never ran."])
    assert out.splitlines()[2] == "No work of a queue is named x. 'gpu-swarm queue' lists it."  # not: Nothing was changed.
    assert fleet("cancel", "x")[1].splitlines()[-1].endswith("Nothing was changed.")
    assert "idb" not in fleet.swarm.services_now
    assert fleet.swarm.state("a").endswith("result=cancelled by alice")
    assert fleet("retry", "a")[1] == "a waits for another try. 'gpu-swarm queue a' shows it.\n"
    fleet.run.rounds(2)
    assert fleet.swarm.began.count("ida") == 2
    fleet.swarm.scale("c", 0)
    assert fleet("retry", "c")[2].startswith("gpu-swarm: c is held: it was scaled to 0")
    assert json.loads(fleet("release", "c", "--json")[1]) == {"waiting": ["c"]}
    assert fleet.swarm.state("c") == "waiting attempt=1 released=1 node=n1"


def test_a_job_with_several_services_is_cancelled_as_a_whole_and_retried_one_by_one(fleet):
    fleet.submit(*[queued("a-%d" % number, job="a") for number in range(3)])
    fleet.swarm.end("a-1")
    fleet.run.rounds(2)
    assert "The job a has 3 services: a-0, a-1, a-2. Name one of them." in fleet("retry", "a")[2]
    assert fleet("cancel", "a")[:2] == (0, "a-0 is cancelled. Its log stays.\na-2 is cancelled. Its log stays.\n")
    assert fleet("cancel", "a")[0] == 1


def test_lost_work_that_is_cancelled_may_run_until_its_node_is_back(fleet):
    fleet.submit(queued("a"))
    fleet.swarm.nodes_now[0]["Status"]["State"] = "down"
    assert "\nhost-n1 does not answer, so its container may still run;" in fleet("queue", "a")[1]
    out = " ".join(fleet("cancel", "a")[1].split())
    assert out == "a is cancelled. Its node does not answer, so its container may run until the node is back."


def test_a_change_of_somebody_else_is_no_reason_to_give_up(fleet):
    fleet.submit(queued("a", {GPU: 16}))
    interfere = [True]

    def before(_service_id):
        if interfere.pop() if interfere else False:
            fleet.swarm.change("a", lambda spec: spec["Labels"].update({LABEL: "waiting keeps=n1"}))

    fleet.swarm.before_update = before
    assert fleet("cancel", "a")[:2] == (0, "a is removed. It never ran.\n")


# -- run -------------------------------------------------------------------------------------------------------------

RUN = ("run", "--queue", "research", "--gpus", "2")


def test_run_submits_a_service_that_waits_in_its_queue(fleet, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret-token")
    fleet.swarm.nodes_now[0]["Spec"]["Labels"] = {"rack": "1", "gpu-swarm.device.ib": "true"}
    status, out, _err = fleet(*RUN, "--name", "train", "-e", "TOKEN", "--env", "A=b=c", "--priority", "5", "--time-limit", "30m", "--mount",
                              "type=bind,source=/data,target=/data", "--constraint", "node.labels.rack==1", "--device", "ib",
                              "my/training", "python", "-c", "x", "--json")  # fmt: skip
    assert status == 0
    assert out.startswith("train waits in the queue research.\n")
    spec = fleet.swarm.services_now["idtrain"]["Spec"]
    labels = {key: spec["Labels"]["gpu-swarm." + key] for key in ("queue", "owner", "priority", "time-limit")}
    assert labels == {"queue": "research", "owner": "alice", "priority": "5", "time-limit": "30m"}
    container = spec["TaskTemplate"]["ContainerSpec"]
    assert container["Args"] == ["python", "-c", "x", "--json"]
    assert {"TOKEN=s3cret-token", "A=b=c", "GPU_SWARM_DEVICES=ib"} <= set(container["Env"])
    assert spec["Mode"]["Replicated"]["Replicas"] == 0
    fleet.run.rounds(2)
    assert fleet.swarm.state("train").startswith("admitted attempt=1 node=n1 ")


def test_run_names_the_work_after_its_image(fleet):
    answer = json.loads(fleet("--json", *RUN, "registry.example:5000/my/Training:1".lower())[1])
    assert answer["service"].startswith("training-")
    (service_id,) = fleet.swarm.services_now
    assert answer == {"service": answer["service"], "service_id": service_id, "queue": "research"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--queue", "", "my/i"], "--queue is empty. 'gpu-swarm queue' lists the queues."),
        (["--queue", "x", "my/i"], "there is no queue x; the queues are nightly, research"),
        (["--gpus", "9", "my/i"], "No node could ever run it"),
        (["--kind", "NVIDIA-T4", "my/i"], "No node of the swarm advertises the resource kind NVIDIA-T4."),
        (["--time-limit", "2h", "my/i"], "its time limit is 2h, and the queue research allows 1h"),
        (["--time-limit", "none", "my/i"], "its time limit is none, and the queue research allows 1h"),
        (["--time-limit", "soon", "my/i"], "--time-limit is soon. Write a duration such as 90s, 30m, 8h or 2d, or none."),
        (["--priority", "5000", "my/i"], "Write a whole number from -1000 to 1000"),
        (["--gpus", "-1", "my/i"], "gpus of the job"),
        (["--env", "NOT_THERE", "my/i"], "--env NOT_THERE has no value, and this shell has no variable of this name"),
        (["--constraint", "rack=1", "my/i"], "is not a valid constraint"),
        (["--mount", "type=bind", "my/i"], "its target is not an absolute path"),
        (["--network", "nowhere", "my/i"], "which the swarm does not have"),
        (["--name", "a b", "my/i"], "The name of the job is 'a b'."),
        (["--device", "a", "--env", "GPU_SWARM_DEVICES=b", "my/i"], "but not both"),
        (["PASSWORD=hunter22"], "IMAGE contains a '='"),
        (["--env", "1X=hunter22", "my/i"], "is not a valid name of a variable"),
        (["--env", "X={{hunter22", "--env", "GPU_SWARM_DEVICES=hunter22!", "my/i"], ""),
        (["--follow", "--json", "my/i"], "Omit --follow or --json."),
    ],
)
def test_run_refuses_what_could_never_run_before_it_creates_anything(fleet, argv, words):
    status, out, err = fleet(*RUN, *argv)
    assert (status, out) == (1, "")
    assert words in err
    assert err.endswith("Nothing was submitted.\n")
    assert fleet.swarm.created == []


def test_dockerd_may_repeat_a_value_in_its_error_but_the_command_does_not(fleet):
    fleet.daemon.refusal = lambda spec: "invalid env %s" % spec["TaskTemplate"]["ContainerSpec"]["Env"]
    status, out, err = fleet(*RUN, "--env", "TOKEN=s3cret-token", "my/i")
    assert (status, out) == (1, "")
    assert "s3cret" not in err
    assert "TOKEN=***" in err


def test_the_same_name_twice_is_refused(fleet):
    assert fleet(*RUN, "--name", "a", "my/i")[0] == 0
    assert fleet(*RUN, "--name", "a", "my/i")[2].startswith("gpu-swarm: a was submitted before. 'gpu-swarm retry a' runs it again.")
    assert "The swarm has a service a that is not this job." in fleet(*RUN, "--name", "a", "my/other")[2]


def test_the_name_of_a_job_is_refused_because_removing_the_job_would_remove_the_work_too(fleet):
    fleet.submit(queued("train-0123456789ab", job="train"), rounds=0)
    status, _out, err = fleet(*RUN, "--name", "train", "my/i")
    assert status == 1
    assert "The swarm has a service train-0123456789ab that is not this job. Give the job another name than train." in err
    assert fleet.swarm.created == []


# -- logs and --follow -----------------------------------------------------------------------------------------------


def test_logs_prints_stdout_and_stderr_of_the_last_task(fleet):
    fleet.submit(queued("a"), queued("w", {GPU: 16}))
    fleet.daemon.logs["a"] = [frame("out\n"), frame("err\n", 2), frame("more \x1b[1mtext")]
    fleet.swarm.end("a")
    assert fleet("logs", "a") == (0, "out\nmore \x1b[1mtext", "err\n")
    assert fleet("logs", "w")[2].startswith("gpu-swarm: w has no log: it has not run")
    assert fleet("logs", "x")[2].startswith("gpu-swarm: No work of a queue is named x.")
    fleet.daemon.logs["a"] = [frame("node is down", 3)]
    assert fleet("logs", "a")[2] == "gpu-swarm: The log cannot be read: node is down.\n"


def test_logs_says_why_there_is_no_output(fleet):
    fleet.submit(queued("a"), queued("b"))
    fleet.daemon.logs.update(a=[], b=[])
    fleet.swarm.end("a")
    fleet.swarm.end("b", "failed", "runc: exec format\x1b error", 1)
    assert fleet("logs", "a") == (0, "", "gpu-swarm: a has written nothing.\n")
    assert fleet("logs", "b") == (0, "", "gpu-swarm: b has written nothing: runc: exec format\\x1b error.\n")


def in_background(fleet, *steps):
    """Run the steps in another thread while the command runs. Each step waits for its condition."""

    def work():
        for condition, step in steps:
            while not condition():
                threading.Event().wait(0.01)
            step()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(("state", "error", "code", "status"), [("complete", "", 0, 0), ("failed", "task: non-zero exit (7)", 7, 7)])
def test_follow_waits_shows_the_whole_log_and_ends_with_the_exit_status(fleet, state, error, code, status):
    fleet.submit(queued("first", {GPU: 8}), queued("second", {GPU: 8}))
    more = threading.Event()

    def asked(path):
        return any(path in request for request in fleet.daemon.requests)

    name = "mine"
    fleet.daemon.logs[name], fleet.daemon.later[name] = [frame("one\n")], [more]

    def finish():
        fleet.daemon.logs[name] = [frame("one\n"), frame("oops\n", 2), frame("two\n")]
        fleet.swarm.end(name, state, error, code)

    def start():
        fleet.swarm.end("first")
        fleet.run.rounds(3)
        next(task for task in fleet.swarm.tasks_of("idmine") if task.get("NodeID"))["Status"]["ContainerStatus"] = {"ContainerID": "c"}

    thread = in_background(fleet, (lambda: "idmine" in fleet.swarm.services_now, start), (lambda: asked("follow=1"), finish))
    found, out, err = fleet("run", "--queue", "research", "--gpus", "8", "--name", name, "--follow", "my/i")
    more.set()
    thread.join(10)
    assert (found, out) == (status, "one\ntwo\n")
    assert "oops\n" in err
    assert "gpu-swarm: mine runs on host-n1. Its log follows.\n" in err
    assert err.splitlines()[-1] == "gpu-swarm: mine is over: %s." % (("failed: " + error) if error else "complete")


def running(fleet, log):
    """Run the work a with this log."""
    fleet.submit(queued("a"))
    fleet.daemon.logs["a"] = [frame(text) for text in log]
    for task in fleet.swarm.tasks_now:
        task["Status"]["ContainerStatus"] = {"ContainerID": "c"}


@pytest.mark.parametrize("ends", [lambda fleet: fleet("cancel", "a"), lambda fleet: fleet.run.rounds(400)], ids=["cancelled", "time limit"])
def test_follow_of_work_that_was_stopped_shows_its_log_and_its_exit_status(fleet, ends):
    running(fleet, ["out\n"])
    ends(fleet)
    fleet("queue")
    assert fleet.swarm.state("a").startswith("over ")
    status, out, err = fleet("logs", "a", "--follow")
    assert (status, out) == (137, "out\n")
    assert err.startswith("gpu-swarm: a is over: ")


def lose(fleet):
    fleet.swarm.nodes_now[0]["Status"]["State"] = "down"
    fleet.swarm.tasks_now[0]["DesiredState"] = "shutdown"


@pytest.mark.parametrize(
    ("verb", "words", "status", "lines"),
    [("cancel", "a is over: cancelled by alice", 1, ["out"]), ("retry", "a runs on host-n2", 0, ["out", "new"])],
)
def test_follow_of_lost_work_goes_on_when_somebody_cancels_or_retries_it(fleet, monkeypatch, verb, words, status, lines):
    running(fleet, ["out\n"])
    stopped = fleet.swarm.end_task
    monkeypatch.setattr(fleet.swarm, "end_task", lambda task, *how: None if task["NodeID"] == "n1" else stopped(task, *how))
    listed = fleet.daemon.requests

    def act():
        lose(fleet)
        seen = len(listed)
        while not any(request.endswith("/nodes") for request in listed[seen:]):
            threading.Event().wait(0.01)
        command.main([verb, "a"], fleet.places)
        fleet.run.rounds(2)
        if verb == "retry":
            fleet.daemon.logs["a"] = [frame("new\n")]
            fleet.swarm.tasks_now[-1]["Status"]["ContainerStatus"] = {"ContainerID": "d"}
            seen = len(listed)
            while not any("follow=1" in request for request in listed[seen:]):
                threading.Event().wait(0.01)
            fleet.swarm.end("a")
            fleet.run.rounds(2)

    thread = in_background(fleet, (lambda: any("follow=1" in request for request in listed), act))
    found, out, err = fleet("logs", "a", "--follow")
    thread.join(10)
    assert (found, [line for line in out.splitlines() if line in ("out", "new")]) == (status, lines)
    assert words in err


def test_follow_survives_a_dockerd_that_restarts_and_shows_nothing_twice(fleet):
    running(fleet, ["one\n"])
    answer, down = fleet.daemon.answer, []
    fleet.daemon.later["a"] = [frame("two\n"), CUT]

    def act():
        fleet.daemon.answer = lambda path: down.append(path) or (503, '{"message":"dockerd is shutting down"}')
        while len(down) < 3:
            threading.Event().wait(0.01)
        fleet.daemon.logs["a"], fleet.daemon.later["a"] = [frame("one\n"), frame("two\n"), frame("three\n")], []
        fleet.swarm.end("a", "failed", "task: non-zero exit (7)", 7)
        fleet.run.rounds(2)
        fleet.daemon.answer = answer

    thread = in_background(fleet, (lambda: any("follow=1" in request for request in fleet.daemon.requests), act))
    status, out, err = fleet("logs", "a", "--follow")
    thread.join(10)
    assert (status, out) == (7, "one\ntwo\nthree\n")
    assert "dockerd is shutting down. It is asked again, and the work goes on.\n" in err


def test_follow_opens_a_stream_again_that_breaks(fleet):
    running(fleet, ["one\n"])
    more = threading.Event()
    fleet.daemon.later["a"] = [frame("the leader is gone", 3)]

    def follows():
        return sum("follow=1" in request for request in fleet.daemon.requests)

    def grow():
        fleet.daemon.logs["a"], fleet.daemon.later["a"] = [frame("one\n"), frame("two\n")], [more]

    thread = in_background(fleet, (lambda: follows() == 1, grow), (lambda: follows() == 2, lambda: (fleet.swarm.end("a"), fleet.run.rounds(2))))
    status, out, err = fleet("logs", "a", "--follow")
    more.set()
    thread.join(10)
    assert (status, out) == (0, "one\ntwo\n")
    assert err.count("The log cannot be followed now: the leader is gone\n") == 1


def test_follow_of_held_work_says_why_and_ends(fleet):
    fleet.submit(queued("a", state="held attempt=1 result=x"))
    status, _out, err = fleet("logs", "a", "--follow")
    assert status == 1
    assert err == "gpu-swarm: a: it is held: x; 'gpu-swarm release a' lets it run.\n"


def test_ctrl_c_leaves_the_work_and_says_how_to_see_it(fleet, monkeypatch):
    fleet.submit(queued("a", {GPU: 8}), queued("b", {GPU: 8}))

    def interrupt(_self, _what, _seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(task_log._Status, "wait", interrupt)
    status, _out, err = fleet("run", "--queue", "research", "--gpus", "8", "--name", "mine", "--follow", "my/i")
    assert status == 130
    assert "gpu-swarm: mine waits at position 1 in the queue research: " in err or "gpu-swarm: mine waits in the queue research: " in err
    assert err.endswith(
        "gpu-swarm: The work goes on. 'gpu-swarm queue mine' shows it, 'gpu-swarm logs mine --follow' its log, "
        "and 'gpu-swarm cancel mine' cancels it.\n"
    )
    assert "idmine" in fleet.swarm.services_now


def test_work_in_no_queue_that_took_the_place_of_the_head_is_named(fleet):
    fleet.submit(queued("r", {GPU: 8}), queued("s", {GPU: 8}), queued("z", {GPU: 8}))
    fleet.swarm.services_now["web"] = {"ID": "web", "Spec": {**queued("web", queue=None)["Spec"]}, "Version": {"Index": 1}}
    fleet.swarm.end("r")
    task = held("n1", 2, "web")
    task["Status"]["Timestamp"] = "2026-11-20T13:00:00Z"
    fleet.swarm.tasks_now.append(task)
    assert "web (2 NVIDIA-GPU on host-n1 since 2026-11-20T13:00:00Z)" in " ".join(fleet("queue", "z")[1].split())
