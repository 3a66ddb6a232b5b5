# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time

import pytest
from docker_daemon import Daemon

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine as dockerd_engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.engine import (
    Engine,
    EngineError,
    Unavailable,
    flavour_of,
    half_joined,
    refuse,
    swarm_of,
    swarm_without_engine,
    unknown_swarm,
)
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.membership import find_swarm

# --- answers of daemons -----------------------------------------------------------------------------------------------

UUID = "GPU-5ec2f1f4-9c1c-5d0a-8b4e-0c1a7f3e2d11"

INFO_20 = {
    "ID": "FBJL:6ZPP:EFWZ:YCXZ:A7CW:NIN4:MECK:RSN3:QAPQ:B7HS:5GND:LYIL",
    "ContainersRunning": 0,
    "GenericResources": None,
    "DockerRootDir": "/var/lib/docker",
    "ServerVersion": "20.10.24+dfsg1",
    "Runtimes": {
        "io.containerd.runc.v2": {"path": "runc"},
        "io.containerd.runtime.v1.linux": {"path": "runc"},
        "runc": {"path": "runc"},
    },
    "DefaultRuntime": "runc",
    "Swarm": {
        "NodeID": "",
        "NodeAddr": "",
        "LocalNodeState": "inactive",
        "ControlAvailable": False,
        "Error": "",
        "RemoteManagers": None,
    },
    "LiveRestoreEnabled": False,
    "SecurityOptions": ["name=seccomp,profile=default"],
    "Warnings": ["WARNING: IPv4 forwarding is disabled"],
}
INFO_26 = {
    "GenericResources": [
        {"NamedResourceSpec": {"Kind": "NVIDIA-GPU", "Value": UUID}},
        {"DiscreteResourceSpec": {"Kind": "SSD", "Value": 1}},
    ],
    "DockerRootDir": "/var/lib/docker",
    "ServerVersion": "26.1.5+dfsg1",
    "Runtimes": {
        "io.containerd.runc.v2": {"path": "runc", "status": {"org.opencontainers.runtime-spec.features": "{}"}},
        "nvidia": {"path": "nvidia-container-runtime", "status": {}},
    },
    "DefaultRuntime": "nvidia",
    "Swarm": {
        "NodeID": "vt5h9cpc9198oweazjzwntv63",
        "NodeAddr": "10.0.0.7",
        "LocalNodeState": "active",
        "ControlAvailable": True,
        "Cluster": {"ID": "ks6bh9cbqznvlrt6qyypsk9m1"},
        "Error": "",
        "RemoteManagers": [
            {"NodeID": "vt5h9cpc9198oweazjzwntv63", "Addr": "10.0.0.7:2377"},
            {"NodeID": "aq1rf5ydlenwi3dvy0mfpwd5j", "Addr": "10.0.0.5:2377"},
        ],
        "Nodes": 3,
        "Managers": 2,
    },
    "LiveRestoreEnabled": True,
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
}
CONTAINERS = [
    {
        "Id": "4f66ad9e0b2e7b4a7ef0a6d8e2b1c7b7a3d0e2f1a4c5b6d7e8f9a0b1c2d3e4f5",
        "Names": ["/train.1.x8k2m4n6p8q0r2s4t6u8v0w2y"],
        "Image": "cuda:13",
        "Labels": {
            "com.docker.swarm.node.id": "vt5h9cpc9198oweazjzwntv63",
            "com.docker.swarm.service.name": "train",
            "com.docker.swarm.task.id": "x8k2m4n6p8q0r2s4t6u8v0w2y",
        },
        "State": "running",
    },
    {"Id": "0123456789abcdef", "Names": ["/by-hand"], "Image": "busybox", "Labels": {}, "State": "running"},
    {"Id": "fedcba9876543210", "Names": None, "Image": "busybox", "Labels": None, "State": "running"},
]
# Headers of daemons, with the version of the API and the name of the server.
DOCKER_20 = {"Api-Version": "1.41", "Server": "Docker/20.10.24+dfsg1 (linux)"}
DOCKER_26 = {"Api-Version": "1.45", "Server": "Docker/26.1.5+dfsg1 (linux)"}
PODMAN = {"Api-Version": "1.41", "Libpod-Api-Version": "4.3.1", "Server": "Libpod/4.3.1 (linux)"}
ROOTLESS = dict(INFO_26, SecurityOptions=["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"])
SNAP = dict(INFO_26, DockerRootDir="/var/snap/docker/common/var-lib-docker")

# --- answers of systemd -----------------------------------------------------------------------------------------------

SHOWN = """\
ExecStart={ path=/usr/sbin/dockerd ; argv[]=/usr/sbin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock $DOCKER_OPTS ; \
ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }
LoadState=loaded
MainPID=0
ActiveEnterTimestampMonotonic=81234567
"""
NOT_FOUND = "MainPID=0\nLoadState=not-found\nActiveEnterTimestampMonotonic=0\n"


# --- pure parts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "flavour"),
    [
        (INFO_20, "docker"),
        (INFO_26, "docker"),
        (SNAP, "snap"),
        (ROOTLESS, "rootless"),
        ({}, "docker"),
        ({"SecurityOptions": None}, "docker"),
    ],
)
def test_kinds_of_engines_are_recognised(info, flavour):
    assert flavour_of(info) == flavour


@pytest.mark.parametrize(
    ("flavour", "remedy"),
    [
        ("podman", "Remove podman-docker and install Docker Engine."),
        ("snap", "Remove the snap and install Docker Engine from a package."),
        ("rootless", "Install Docker Engine as a system service."),
    ],
)
def test_an_engine_that_cannot_be_a_node_is_refused(flavour, remedy):
    with pytest.raises(GpuSwarmError) as raised:
        refuse(flavour, "/run/x.sock")
    assert raised.value.message.startswith("/run/x.sock: this is ")
    assert raised.value.message.endswith(remedy)
    refuse("docker", "/run/x.sock")


def test_the_swarm_as_the_node_sees_it():
    assert swarm_of(INFO_26) == {
        "state": "active",
        "id": "ks6bh9cbqznvlrt6qyypsk9m1",
        "node_id": "vt5h9cpc9198oweazjzwntv63",
        "addr": "10.0.0.7",
        "control_available": True,
        "error": None,
        "managers": ["10.0.0.5:2377", "10.0.0.7:2377"],
        "manager_ids": ["aq1rf5ydlenwi3dvy0mfpwd5j", "vt5h9cpc9198oweazjzwntv63"],
        "half_joined": False,
    }
    outside = {
        "state": "inactive",
        "id": None,
        "node_id": None,
        "addr": None,
        "control_available": False,
        "error": None,
        "managers": [],
        "manager_ids": [],
        "half_joined": False,
    }
    assert swarm_of(INFO_20) == swarm_of({}) == outside


@pytest.mark.parametrize(
    ("state", "there", "expected"),
    [
        # The state that dockerd 20.10.24 keeps after a join timed out.
        ("error", ["state.json", "docker-state.json"], True),
        ("error", [], True),
        ("error", ["state.json", "docker-state.json", "certificates/swarm-node.crt"], False),
        ("error", ["raft/wal-v3-encrypted/0.tmp"], False),
        ("pending", ["state.json"], False),
        ("active", [], False),
        ("inactive", [], False),
        ("locked", ["raft/x"], False),
    ],
)
def test_a_half_finished_join_is_recognised(tmp_path, state, there, expected):
    for name in there:
        path = tmp_path / "swarm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert half_joined(state, str(tmp_path)) is expected
    assert half_joined(state, None) is False


# --- over the socket ------------------------------------------------------------------------------------------------


@pytest.fixture
def daemon(tmp_path):
    started = []

    def start(headers=None, **answers):
        table = {"/" + path.replace("_", "/"): data for path, data in answers.items()}
        started.append(Daemon(str(tmp_path / "docker.sock"), headers or DOCKER_26, table))
        return started[-1]

    yield start
    for one in started:
        one.close()
    (tmp_path / "docker.sock").unlink(missing_ok=True)


class Commands:
    """Finds the answer of a command in a table, by words in the command. Records all commands."""

    def __init__(self, **answers):
        self.answers, self.run = answers, []

    def __call__(self, argv, limit_s=0):
        self.run.append(argv)
        for word, answer in self.answers.items():
            if any(word in one for one in argv):
                answer = answer() if callable(answer) else answer
                return answer if isinstance(answer, tuple) else (0, answer, "")
        return 0, "", ""


def engine(tmp_path, **answers):
    commands = Commands(**dict({"show": SHOWN}, **answers))
    return Engine(str(tmp_path / "docker.sock"), "docker.service", commands), commands


def test_docker_20_is_inspected(tmp_path, daemon):
    daemon(DOCKER_20, info=INFO_20)
    assert engine(tmp_path)[0].inspect() == {
        "running": True,
        "version": "20.10.24+dfsg1",
        "api_version": "1.41",
        "unit": "docker.service",
        "socket": str(tmp_path / "docker.sock"),
        "flavour": "docker",
        "root_dir": "/var/lib/docker",
        "default_runtime": "runc",
        "runtimes": {name: {"path": "runc"} for name in ("io.containerd.runc.v2", "io.containerd.runtime.v1.linux", "runc")},
        "generic_resources": [],
        "live_restore": False,
        "flags": [],
        "unit_files": [],
        "needs_reload": False,
        "started_at": "81234567",
        "pid": 0,
        "labels": [],
        "swarm": swarm_of({}),
    }


def test_docker_26_is_inspected(tmp_path, daemon):
    daemon(info=INFO_26)
    view = engine(tmp_path)[0].inspect()
    assert (view["version"], view["api_version"], view["default_runtime"]) == ("26.1.5+dfsg1", "1.45", "nvidia")
    assert view["generic_resources"] == INFO_26["GenericResources"]
    assert view["live_restore"] is True
    assert view["runtimes"] == {"io.containerd.runc.v2": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"}}
    assert view["swarm"]["node_id"] == "vt5h9cpc9198oweazjzwntv63"


def test_flags_are_read_from_the_running_process(tmp_path, daemon):
    daemon(info=INFO_26)
    program, pipe = "print(flush=True); input()", subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program, "--default-runtime=x", ""], stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()  # the process has started
        view = engine(tmp_path, show=SHOWN.replace("MainPID=0", f"MainPID={process.pid}"))[0].inspect()
        process.stdin.write(b"\n")
    assert view["flags"] == ["-c", program, "--default-runtime=x"]


def test_an_engine_without_a_systemd_unit_is_inspected(tmp_path, daemon):
    daemon(info=INFO_26)
    for shown in (NOT_FOUND, (127, "", "systemctl: No such file or directory"), (1, "", "Failed to connect to bus: Host is down")):
        view = engine(tmp_path, show=shown)[0].inspect()
        assert (view["running"], view["unit"], view["flags"], view["started_at"]) == (True, None, [], None)


def test_a_stopped_daemon_is_inspected(tmp_path, daemon):
    view = engine(tmp_path)[0].inspect()
    assert (view["running"], view["unit"], view["generic_resources"]) == (False, "docker.service", [])
    assert view["swarm"] == unknown_swarm() == dict(swarm_of({}), state="unknown")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "docker.sock"))  # the socket still exists, but nobody listens
    assert engine(tmp_path)[0].inspect() == view
    listening.close()
    os.unlink(tmp_path / "docker.sock")
    daemon(info=INFO_26)
    assert engine(tmp_path)[0].inspect().keys() == view.keys()


@pytest.mark.parametrize("down", ["m2", "m3"])
def test_no_swarm_is_created_while_a_manager_may_only_be_down(tmp_path, down):
    outside, stopped = {"swarm": swarm_of({})}, {"swarm": engine(tmp_path)[0].inspect()["swarm"]}
    managers = ["m1", "m2", "m3"]
    found = find_swarm({name: stopped if name == down else outside for name in managers}, managers, managers)
    assert (found["live"], found["init_on"]) == ([], None)
    assert down in found["error"]
    assert find_swarm(dict.fromkeys(managers, outside), managers, managers)["init_on"] == "m1"


RUNNING = SHOWN.replace("MainPID=0", f"MainPID={os.getpid()}") + "ActiveState=active\n"


@pytest.mark.parametrize("there", ["nothing", "a file", "a socket that nobody listens on"])
def test_a_running_daemon_on_another_socket_is_not_treated_as_stopped(tmp_path, there):
    # A run restarts a stopped daemon. A restart only because of another socket would stop all containers.
    path = tmp_path / "docker.sock"
    if there == "a file":
        path.touch()
    elif there != "nothing":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
    with pytest.raises(EngineError) as raised:
        engine(tmp_path, show=RUNNING)[0].inspect()
    assert raised.value.message == (
        f"{path}: nothing answers on this socket, although docker.service runs (pid {os.getpid()}, active). Set docker_socket to the "
        "socket that it listens on: see 'hosts' in its daemon.json or -H in its unit. If it has just started, "
        "run this again."
    )


def hangs_up(path):
    """Accept a connection, close it and stop listening, like systemd for the socket of a unit whose start failed."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(1)

    def serve():
        connection = listening.accept()[0]
        listening.close()
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize("shown", [SHOWN, RUNNING])
def test_a_cut_connection_is_tried_once_more(tmp_path, shown):
    thread = hangs_up(tmp_path / "docker.sock")
    if shown is SHOWN:
        assert engine(tmp_path)[0].inspect()["running"] is False
    else:
        with pytest.raises(EngineError, match="nothing answers on this socket, although docker.service runs"):
            engine(tmp_path, show=shown)[0].inspect()
    thread.join()


def test_a_post_returns_the_answer(tmp_path, daemon):
    started = daemon()
    started.answers.update({"/swarm/join": (200, ""), "/swarm/init": (200, '"node"\n')})
    it = engine(tmp_path)[0]
    assert (it.post("/swarm/join", {"ListenAddr": "0.0.0.0:2377"}), it.post("/swarm/init")) == (None, "node")
    assert started.bodies == [{"ListenAddr": "0.0.0.0:2377"}, None]


@pytest.mark.parametrize(
    ("status", "text", "kind", "words"),
    [
        (503, '{"message":"Timeout was reached before node joined."}', Unavailable, "answered 503: Timeout was reached before node joined. Check"),
        (400, '{"message":"invalid join token"}', EngineError, "POST /swarm/join answered 400: invalid join token. Check 'journalctl"),
        (500, "no JSON", EngineError, "answered 500: no JSON. Check"),
        (500, '["a list"]', EngineError, 'answered 500: ["a list"]. Check'),
    ],
)
def test_a_refusal_of_dockerd_has_its_reason(tmp_path, daemon, status, text, kind, words):
    daemon().answers["/swarm/join"] = (status, text)
    with pytest.raises(kind, match=re.escape(words)) as caught:
        engine(tmp_path)[0].post("/swarm/join", {})
    assert isinstance(caught.value, Unavailable) is (kind is Unavailable)


def test_a_post_without_a_listener_is_an_error(tmp_path):
    with pytest.raises(EngineError, match="POST /swarm/leave: nothing listens there"):
        engine(tmp_path)[0].post("/swarm/leave")


def test_the_membership_is_read_alone(tmp_path, daemon):
    assert engine(tmp_path)[0].swarm()["state"] == "unknown"
    daemon(DOCKER_26, info={"Swarm": {"LocalNodeState": "pending", "NodeID": "n1"}})
    assert {key: engine(tmp_path)[0].swarm()[key] for key in ("state", "node_id")} == {"state": "pending", "node_id": "n1"}


@pytest.fixture
def raw(tmp_path):
    """Return a socket that answers each connection with these bytes and closes it."""
    listening = socket.socket(socket.AF_UNIX)

    def start(answer):
        listening.bind(str(tmp_path / "docker.sock"))
        listening.listen(5)
        threading.Thread(target=serve, args=(answer,), daemon=True).start()

    def serve(answer):
        while True:
            try:
                connection = listening.accept()[0]
            except OSError:
                return  # the test has ended
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.mark.parametrize(
    ("answer", "words"), [(b"", "the connection was cut"), (b"x\n", "x"), (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", "cut before the end")]
)
def test_an_invalid_answer_is_reported(tmp_path, raw, answer, words):
    raw(answer)
    assert_reported(tmp_path, words)


def assert_reported(folder, words):
    with pytest.raises(EngineError) as raised:
        engine(folder)[0].inspect()
    assert raised.value.message.startswith(f"{folder}/docker.sock: GET /info: ")
    assert words in raised.value.message
    assert "Set docker_socket to the socket of Docker Engine" in raised.value.message


def test_a_missing_path_is_reported(tmp_path):
    (tmp_path / "file").touch()
    assert_reported(tmp_path / "file", "Not a directory")


def test_a_busy_socket_is_reported(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as waiting:
        listening.bind(str(tmp_path / "docker.sock"))
        listening.listen(0)
        waiting.connect(str(tmp_path / "docker.sock"))
        assert_reported(tmp_path, "Resource temporarily unavailable")


def test_a_membership_of_a_removed_engine_is_found(tmp_path):
    assert swarm_without_engine(str(tmp_path)) == swarm_of({})
    (tmp_path / "swarm").mkdir()  # dockerd creates this folder even without a swarm
    assert swarm_without_engine(str(tmp_path)) == swarm_of({})
    (tmp_path / "swarm" / "docker-state.json").touch()
    assert swarm_without_engine(str(tmp_path)) == unknown_swarm()


def test_a_host_without_docker_is_inspected(tmp_path, monkeypatch):
    monkeypatch.setattr(dockerd_engine.os.path, "exists", lambda path: False)
    monkeypatch.setattr(dockerd_engine.os.path, "isdir", lambda path: False)
    monkeypatch.setattr(dockerd_engine.glob, "glob", lambda pattern: [])
    assert engine(tmp_path, show=NOT_FOUND)[0].inspect() is None


def test_a_rootless_daemon_without_a_root_socket_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(dockerd_engine.os.path, "exists", lambda path: False)
    monkeypatch.setattr(dockerd_engine.os.path, "isdir", lambda path: False)
    monkeypatch.setattr(dockerd_engine.glob, "glob", lambda pattern: ["/run/user/1000/docker.sock"])
    with pytest.raises(GpuSwarmError, match="/run/user/1000/docker.sock: this is rootless Docker"):
        engine(tmp_path, show=NOT_FOUND)[0].inspect()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"headers": PODMAN, "info": {"ServerVersion": "4.3.1"}}, "this is Podman, which emulates Docker"),
        ({"headers": PODMAN}, "this is Podman, which emulates Docker"),  # recognised by the headers, even if GET /info has no answer
        ({"info": SNAP}, "this is Docker from snap"),
        ({"info": ROOTLESS}, "this is rootless Docker"),
        ({"info": (500, '{"message":"boom"}')}, "GET /info answered 500: .*boom.*journalctl -u docker.service"),
        ({"info": (200, "<html>")}, "GET /info was answered with '<html>', which is not JSON. Set docker_socket"),
    ],
)
def test_answers_of_other_servers_are_refused(tmp_path, daemon, answers, words):
    daemon(**answers)
    with pytest.raises(GpuSwarmError, match=words) as raised:
        engine(tmp_path)[0].inspect()
    assert raised.value.message.startswith(str(tmp_path / "docker.sock"))


def test_containers_are_listed(tmp_path, daemon):
    started = daemon(containers_json=CONTAINERS)
    found = engine(tmp_path)[0].containers()
    assert [(item["name"], item["service"], item["task"]) for item in found] == [
        ("train.1.x8k2m4n6p8q0r2s4t6u8v0w2y", "train", "x8k2m4n6p8q0r2s4t6u8v0w2y"),
        ("by-hand", None, None),
        ("fedcba987654", None, None),
    ]
    assert found[0]["id"] == CONTAINERS[0]["Id"]
    assert [item["swarm_networks"] for item in found] == [[], [], []]
    assert started.requests == ["/containers/json"]


def on(*networks, task=None):
    """Return a container on these networks, with a new id."""
    settings = {"Networks": {name: {"NetworkID": f"id-of-{name}"} for name in networks}}
    return dict(CONTAINERS[1], NetworkSettings=settings, Labels={"com.docker.swarm.task.id": task} if task else {})


SWARM_NETWORKS = "/networks?filters=%7B%22scope%22%3A%20%5B%22swarm%22%5D%7D"


def test_swarm_networks_of_other_containers_are_found(tmp_path, daemon):
    started = daemon(containers_json=[on("bridge"), on("mine", "train", "sweep"), on("ingress", task="t1")])
    started.answers[SWARM_NETWORKS] = [{"Id": "id-of-train", "Name": "train"}, {"Id": "id-of-sweep", "Name": "sweep"}]
    assert [item["swarm_networks"] for item in engine(tmp_path)[0].containers()] == [[], ["sweep", "train"], []]
    assert started.requests == ["/containers/json", SWARM_NETWORKS]


@pytest.mark.parametrize("listed", [[], [on("bridge"), on("host"), on("none"), on()], [on("ingress", "train", task="t1")]])
def test_networks_are_not_listed_if_none_can_be_a_swarm_network(tmp_path, daemon, listed):
    started = daemon(containers_json=listed)
    engine(tmp_path)[0].containers()
    assert started.requests == ["/containers/json"]


def test_networks_that_cannot_be_listed_are_an_error(tmp_path, daemon):
    started = daemon(containers_json=[on("train")])
    started.answers[SWARM_NETWORKS] = (500, "busy")
    with pytest.raises(EngineError, match="GET /networks.* answered 500: busy"):
        engine(tmp_path)[0].containers()


def test_images_that_a_test_can_use_are_listed(tmp_path, daemon):
    cuda = {"Id": "sha256:" + 64 * "a", "RepoTags": ["nvidia/cuda:13"], "Created": 1, "Labels": None}
    started = daemon(images_json=[cuda])
    assert engine(tmp_path)[0].images() == [{"id": cuda["Id"], "name": "nvidia/cuda:13", "cuda": True}]
    assert started.requests == ["/images/json"]


def test_images_that_cannot_be_listed_are_no_error(tmp_path):
    assert engine(tmp_path)[0].images() == []


TRAIN_ENDED = "/containers/%s/wait?condition=not-running" % CONTAINERS[0]["Id"]


def test_a_drain_ends_when_the_containers_of_swarm_have_ended(tmp_path, daemon, quick):
    shown = iter([CONTAINERS, (500, "busy"), CONTAINERS, CONTAINERS[1:]])
    ended = iter([{"StatusCode": 0}, (404, '{"message": "no such container"}')])
    started = daemon(containers_json=lambda: next(shown))
    started.answers[TRAIN_ENDED] = lambda: next(ended)
    engine(tmp_path)[0].await_drain(60)
    listed = "/containers/json"
    assert started.requests == [listed, TRAIN_ENDED, listed, listed, TRAIN_ENDED, listed]


def test_a_drain_has_a_time_limit(tmp_path, daemon, quick):
    forever = threading.Event()
    started = daemon(containers_json=CONTAINERS)
    started.answers[TRAIN_ENDED] = lambda: forever.wait(60) and {}
    began = time.monotonic()
    try:
        engine(tmp_path)[0].await_drain(0.2)
    finally:
        forever.set()
    assert started.requests == ["/containers/json", TRAIN_ENDED]
    assert time.monotonic() - began < 30


def test_a_remaining_container_is_checked_with_pauses(tmp_path, daemon):
    """A container remains, for example, if the daemon could not save its state on a full disk."""
    started = daemon(containers_json=CONTAINERS)
    started.answers[TRAIN_ENDED] = {"StatusCode": 0}
    engine(tmp_path)[0].await_drain(0.3)
    assert 2 < len(started.requests) <= 2 * 0.3 / (dockerd_engine.POLL_S / 10) + 2


def test_containers_that_cannot_be_listed_are_an_error(tmp_path):
    with pytest.raises(EngineError, match="GET /containers/json: nothing answers any more"):
        engine(tmp_path)[0].containers()


def test_a_hung_daemon_is_not_treated_as_stopped(tmp_path, daemon, monkeypatch):
    monkeypatch.setattr(dockerd_engine, "REQUEST_TIMEOUT_S", 0.05)
    # A run restarts a stopped daemon. A restart of a hung daemon would stop its containers without a check.
    held = threading.Event()
    daemon(info=lambda: held.wait(5) and INFO_26)
    try:
        with pytest.raises(EngineError, match="GET /info was not answered within .* the daemon hangs.*run this again"):
            engine(tmp_path)[0].inspect()
    finally:
        held.set()


def test_missing_permission_is_an_error(tmp_path, monkeypatch):
    def connect(_self, _path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", connect)  # the tests may run as root, and root may use any socket
    with pytest.raises(GpuSwarmError) as raised:
        engine(tmp_path)[0].inspect()
    assert raised.value.message == (
        f"{tmp_path}/docker.sock: permission denied. The Docker socket belongs to root: run this task with 'become: true'."
    )


# --- wait ------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(dockerd_engine, "POLL_S", 0.001)


def test_waiting_ends_with_the_wanted_state(tmp_path, daemon, quick):
    shown = iter([(503, "starting"), INFO_20, INFO_20, INFO_26])
    daemon(info=lambda: next(shown))
    view = engine(tmp_path)[0].wait(lambda view: None if view["generic_resources"] else "it shows nothing", 60)
    assert view["default_runtime"] == "nvidia"


@pytest.mark.parametrize(("act", "cleared"), [(lambda it: it.restart(True, 60), 2), (lambda it: it.reload(), 0), (lambda it: None, 0)])
def test_a_successful_restart_leaves_systemd_all_starts_for_crashes(tmp_path, daemon, quick, act, cleared):
    daemon(DOCKER_26, info=INFO_26)
    it, ran = engine(tmp_path, show=RUNNING)
    act(it)
    for _time in range(2):
        it.wait(lambda view: None, 60)
    assert [argv for argv in ran.run if "reset-failed" in argv] == [["systemctl", "reset-failed", "docker.service"]] * cleared


def test_a_failed_restart_clears_no_start_limit(tmp_path, daemon, quick):
    daemon(DOCKER_26, info=INFO_26)
    it, ran = engine(tmp_path, show=RUNNING)
    it.restart(True, 60)
    with pytest.raises(EngineError, match="it shows nothing"):
        it.wait(lambda view: "it shows nothing", 0)
    assert len([argv for argv in ran.run if "reset-failed" in argv]) == 1


def test_waiting_has_a_time_limit(tmp_path, daemon, quick):
    it = engine(tmp_path)[0]
    with pytest.raises(EngineError) as raised:
        it.wait(lambda view: None, 0)
    assert raised.value.message == (f"docker.service is not in the wanted state after 0 s: it does not answer on {tmp_path}/docker.sock")
    daemon(DOCKER_20, info=INFO_20)
    with pytest.raises(EngineError, match="after 0 s: it shows nothing$"):
        it.wait(lambda view: "it shows nothing", 0)
    it = engine(tmp_path, journalctl="failed to start daemon: no bridge\n")[0]
    with pytest.raises(EngineError, match="after 0 s: it shows nothing. failed to start daemon: no bridge$"):
        it.wait(lambda view: "it shows nothing", 0)


def test_the_time_of_the_restart_counts(tmp_path, daemon, quick):
    shown = iter([INFO_20])
    daemon(info=lambda: next(shown))
    with pytest.raises(EngineError, match="after 60 s: it shows nothing$"):
        engine(tmp_path)[0].wait(lambda view: "it shows nothing", 60, time.monotonic() - 61)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (RUNNING, "nothing answers on this socket, although docker.service runs .* run this again$"),
        (SHOWN + "ActiveState=activating\nSubState=start\nJob=7\n", "systemd is still starting it .start.$"),
        (SHOWN + "ActiveState=deactivating\nSubState=stop-sigterm\nJob=7\n", "systemd is still stopping it .stop-sigterm.$"),
    ],
)
def test_an_endless_start_is_given_up(tmp_path, quick, shown, words):
    with pytest.raises(EngineError, match="docker.service is not in the wanted state after 0 s: .*" + words):
        engine(tmp_path, show=shown)[0].wait(lambda view: None, 0)


def test_the_old_process_is_not_queried_while_a_restart_is_pending(tmp_path, daemon, quick):
    # The old process still answers. The test would take its state for the state after the restart.
    old = daemon(info=INFO_26)
    shown = iter([SHOWN + "ActiveState=deactivating\nSubState=stop-sigterm\nJob=7\n"] * 3)
    it = engine(tmp_path, show=lambda: next(shown))[0]
    with pytest.raises(StopIteration):
        it.wait(lambda view: None, 60)
    assert old.requests == []


def test_a_failed_start_is_reported_at_once(tmp_path, quick):
    it = engine(tmp_path, show=SHOWN + "ActiveState=failed\n", journalctl="failed to start daemon: no bridge\n")[0]
    with pytest.raises(EngineError, match="^docker.service did not start: failed to start daemon: no bridge$"):
        it.wait(lambda view: None, 60)


# --- dockerd --validate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((0, "configuration OK\n", ""), None),
        ((1, "", "unable to configure the Docker daemon with file c: x\n"), "unable to configure the Docker daemon with file c: x"),
        ((125, "", "Status: unknown flag: --validate\nSee 'dockerd --help'., Code: 125\n"), None),
    ],
)
def test_a_file_is_validated(tmp_path, monkeypatch, answer, complaint):
    monkeypatch.setattr(dockerd_engine.shutil, "which", lambda name, path: "/usr/sbin/" + name)
    it, commands = engine(tmp_path, validate=answer)
    assert it.validate("/c") == complaint
    assert commands.run == [["/usr/sbin/dockerd", "--validate", "--config-file", "/c"]]


def test_without_dockerd_nothing_is_validated(tmp_path, monkeypatch):
    monkeypatch.setattr(dockerd_engine.shutil, "which", lambda name, path: None)
    it, commands = engine(tmp_path)
    assert it.validate("/c") is None
    assert commands.run == []


def test_the_requirements_of_an_image_are_read(tmp_path, daemon):
    own, _commands = engine(tmp_path)
    assert own.required_by("train") is None  # no daemon runs yet
    env = ["PATH=/bin", "NVIDIA_REQUIRE_CUDA=cuda>=12.4", "CUDA_VERSION=12.4.1", "API_KEY=k3y"]
    one = daemon()
    one.answers["/images/registry:5000/team/train:1/json"] = {"Config": {"Env": env}}
    one.answers["/images/plain/json"] = {"Config": None}
    one.answers["/images/broken/json"] = (500, "no")
    assert own.required_by("registry:5000/team/train:1") == {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "CUDA_VERSION": "12.4.1"}
    assert own.required_by("plain") == {}
    assert own.required_by("another") is None
    with pytest.raises(EngineError, match="answered 500"):
        own.required_by("broken")
