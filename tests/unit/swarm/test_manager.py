# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import ssl
import threading
from contextlib import nullcontext

import pytest
from certificates import Authority
from docker_daemon import CUT, Daemon, Streamed
from swarm_api import cluster, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import manager as swarm_manager
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager_options import unprotected
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_gpu_info

PARAMS = {
    "docker_host": "unix:///run/x.sock",
    "tls": False,
    "validate_certs": False,
    "ca_path": None,
    "client_cert": None,
    "client_key": None,
    "api_version": "1.41",
    "timeout": 60,
}
PEERS = [{"NodeID": "m2", "Addr": "192.0.2.2:2377"}, {"NodeID": "m1", "Addr": "192.0.2.1:2377"}]
# From /info of Docker 20.10.24.
MANAGER = {
    "NodeID": "m1",
    "LocalNodeState": "active",
    "ControlAvailable": True,
    "Error": "",
    "RemoteManagers": PEERS,
    "Cluster": {"ID": "c1"},
}
INFO = {"ID": "x", "Swarm": MANAGER, "SystemTime": "2026-11-20T12:00:00.1+01:00"}
NO_LEADER = "rpc error: code = Unknown desc = The swarm does not have a leader. It's possible that too few managers ..."


@pytest.mark.parametrize(
    ("swarm", "state", "expected"),
    [
        (None, "inactive", "is in no swarm"),
        ({"LocalNodeState": "inactive", "ControlAvailable": False}, "inactive", "is in no swarm"),
        ({"LocalNodeState": "pending", "Error": "dial tcp: refused"}, "pending", "dial tcp: refused"),
        ({"LocalNodeState": "locked", "Error": "encrypted"}, "locked", "docker swarm unlock"),
        ({"LocalNodeState": "error", "Error": "certificate expired"}, "error", "certificate expired"),
        (
            {"LocalNodeState": "active", "ControlAvailable": False, "RemoteManagers": PEERS},
            "worker",
            "on a manager: 192.0.2.1:2377, 192.0.2.2:2377",
        ),
        (dict(MANAGER, Error=NO_LEADER, Cluster={}), "no_quorum", "does not have a leader"),
    ],
)
def test_a_daemon_that_cannot_answer_says_why(swarm, state, expected):
    with pytest.raises(swarm_manager.SwarmError) as caught:
        swarm_manager.refuse_unless_manager({"Swarm": swarm}, "unix:///run/x.sock")
    assert expected in caught.value.message
    assert "unix:///run/x.sock" in caught.value.message
    assert caught.value.details == {"swarm_state": state}


@pytest.fixture
def serve(tmp_path):
    """Return serve(answers, at=…, context=…). This function starts a daemon, by default on a Unix socket."""
    started = []

    def start(answers=(), at=None, context=None):
        started.append(Daemon(at or str(tmp_path / "d.sock"), {"Api-Version": "1.41"}, {"/info": INFO, **dict(answers)}, context))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def manager(serve, tmp_path):
    """Return manager({path: answer}). This function returns a Manager whose daemon returns these answers. The path ``tasks`` means /tasks."""

    def connect(answers=(), **options):
        connect.server = serve({"/" + path: answer for path, answer in dict(answers).items()})
        return swarm_manager.connect({**PARAMS, "docker_host": f"unix://{tmp_path / 'd.sock'}", **options})

    return connect


def test_a_manager_is_accepted(manager):
    taken = manager()
    assert (taken.node_id, taken.swarm_id, taken.time) == ("m1", "c1", INFO["SystemTime"])
    assert manager.server.requests == ["/v1.41/info"]


def test_a_missing_socket_is_an_error(tmp_path):
    where = "unix://%s/none.sock" % tmp_path
    with pytest.raises(swarm_manager.SwarmError, match="systemctl start docker") as caught:
        swarm_manager.connect(dict(PARAMS, docker_host=where))
    assert where in caught.value.message
    assert caught.value.details == {"swarm_state": "unreachable"}


def test_a_socket_of_root_is_an_error():
    words = "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))"
    assert "become" in swarm_manager.unreachable("unix:///run/x.sock", words).message


def refusing(status, words):
    return status, json.dumps({"message": words})


UPDATE = "nodes/n1/update"


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        ("rpc error: code = Unknown desc = update out of sequence", "OutOfSequence", "n1"),
        (NO_LEADER, "SwarmError", "has no quorum"),
        ("rpc error: code = DeadlineExceeded desc = x", "SwarmError", "has no quorum"),
        ("raft: failed to process the request: node lost leader status", "SwarmError", "has no quorum unless"),
        ("on fire", "SwarmError", "refused to update node n1: on fire."),
        ("registry https://ci:s3cret@r.example says no", "SwarmError", "registry https://ci:***@r.example says no"),
    ],
)
def test_failures_of_calls_are_reported_with_their_remedy(manager, words, kind, expected):
    with pytest.raises(swarm_manager.SwarmError) as caught:
        manager({UPDATE: refusing(500, words)}).update_node("n1", 9, {})
    assert type(caught.value).__name__ == kind
    assert expected in caught.value.message


def test_a_manager_that_stopped_answering_is_an_error(manager):
    connected = manager()
    manager.server.answers["/nodes"] = Streamed([CUT])
    with pytest.raises(swarm_manager.SwarmError, match="does not answer: .* Start it") as caught:
        connected.nodes()
    assert caught.value.details == {"swarm_state": "unreachable"}


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "invalid reference format", "Refused"),
        (403, "network lan cannot be used with services", "Refused"),
        (404, "network lost not found", "NotFound"),
        (403, "authorization denied by plugin opa", "SwarmError"),  # a plugin of this manager refuses, so another manager may accept
        (409, "name conflicts with an existing object", "SwarmError"),
        (500, "rpc error: code = Unavailable desc = x", "SwarmError"),
        (503, "This node is not a swarm manager", "SwarmError"),
        (400, "rpc error: code = Unknown desc = update out of sequence", "OutOfSequence"),
    ],
)
def test_a_manager_that_refuses_its_input_has_answered(manager, status, words, kind):
    with pytest.raises(swarm_manager.SwarmError) as caught:
        manager({UPDATE: refusing(status, words)}).update_node("n1", 9, {})
    assert type(caught.value).__name__ == kind
    assert isinstance(caught.value, swarm_manager.Refused) == (kind in ("Refused", "NotFound"))


@pytest.mark.parametrize("timeout", [0, -5])
def test_a_daemon_needs_time_to_answer(manager, timeout):
    with pytest.raises(swarm_manager.SwarmError) as caught:
        manager({}, timeout=timeout)
    assert caught.value.message == (
        f"timeout is {timeout}, but must be 1 or more: the seconds to wait for an answer of Docker (also DOCKER_TIMEOUT). Nothing was changed."
    )


def test_a_daemon_that_refuses_the_api_version_does_answer(manager, tmp_path):
    words = "client version 1.99 is too new. Maximum supported API version is 1.41"
    with pytest.raises(swarm_manager.SwarmError) as caught:
        manager({"info": refusing(400, words)}, api_version="1.99")
    assert caught.value.message == (
        f"The Docker daemon at unix://{tmp_path}/d.sock refuses the connection with api_version 1.99: client version 1.99 is too new. Maximum "
        "supported API version is 1.41. Set another api_version, or omit it."
    )


@pytest.mark.parametrize(("path", "status"), [("info", 404), ("info", 403), ("_ping", 403), ("_ping", 404)])
def test_an_answer_of_another_server_is_not_blamed_on_the_version(manager, path, status):
    """Another manager may answer, so this manager counts as unreachable."""
    with pytest.raises(swarm_manager.SwarmError, match="does not answer: not here. Start it") as caught:
        manager({"_ping": (200, "OK"), path: (status, "not here\n")}, api_version="auto")
    assert caught.value.details == {"swarm_state": "unreachable"}


def test_the_swarm_is_read_without_its_tokens_and_written_by_version(manager):
    info = {"Swarm": dict(MANAGER, Cluster=cluster()), "SystemTime": "2026-11-21T02:17:28.652836451Z"}
    connected = manager({"info": info, "swarm/update": (200, "")})
    assert connected.cluster() == (cluster(), "2026-11-21T02:17:28.652836451Z")
    connected.update_cluster(10, {"Name": "default"})
    connected.update_cluster(11, {"Name": "default"}, ["manager"])
    connected.update_cluster(12, {"Name": "default"}, ["manager", "worker"])
    assert [path.partition("/swarm/")[2] for path in manager.server.requests[1:]] == [
        "update?version=10",
        "update?version=11&rotateManagerToken=true",
        "update?version=12&rotateWorkerToken=true&rotateManagerToken=true",
    ]
    assert manager.server.bodies == [{"Name": "default"}] * 3


@pytest.mark.parametrize("swarm", [dict(MANAGER, Error=NO_LEADER, Cluster={}), {"LocalNodeState": "locked"}])
def test_a_manager_that_lost_its_swarm_meanwhile_says_why(manager, monkeypatch, swarm):
    monkeypatch.setattr(swarm_manager, "RECENT_S", 0.0)
    connected = manager()
    manager.server.answers["/info"] = {"Swarm": swarm}
    with pytest.raises(swarm_manager.SwarmError, match="no quorum|is locked"):
        connected.cluster()


@pytest.mark.parametrize(("swarm", "autolocked"), [(MANAGER, False), (dict(MANAGER, Cluster=cluster()), True)])
def test_autolock_of_managers_is_reported(manager, swarm, autolocked):
    assert manager({"info": {"Swarm": swarm}}).autolocked == autolocked


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({"docker_host": "unix:///run/x.sock"}, None),
        ({"docker_host": "unix:///run/x.sock", "tls": True}, None),
        ({"docker_host": "tcp://192.0.2.1:2375"}, "is used without TLS"),
        ({"docker_host": "tcp://192.0.2.1:2376", "tls": True}, "the certificate of the server is not verified"),
        ({"docker_host": "https://192.0.2.1:2376", "tls": True, "client_cert": "/c"}, "the certificate of the server is not verified"),
        ({"docker_host": "tcp://192.0.2.1:2376", "validate_certs": True}, None),
        ({"docker_host": "tcp://192.0.2.1:2376", "tls": True, "validate_certs": True}, None),
        ({"docker_host": "https://192.0.2.1:2376"}, None),  # the certificate is verified, because tls is not set
        ({"docker_host": "http://192.0.2.1:2375"}, "is used without TLS"),
        ({"docker_host": "192.0.2.1:2375"}, "is used without TLS"),
        ({"docker_host": "TCP://192.0.2.1:2375"}, "is used without TLS"),
        ({"docker_host": ""}, None),  # if DOCKER_HOST is empty, the local socket is used
        ({"docker_host": " unix:///run/x.sock"}, None),
    ],
)
def test_an_unprotected_api_is_warned_of(options, warned):
    found = unprotected(dict(PARAMS, **options))
    assert [options["docker_host"] in text and warned in text for text in found] == ([True] if warned else [])


@pytest.mark.parametrize("tls", [False, True])
def test_a_password_in_the_address_is_not_shown(tls):
    params = dict(PARAMS, docker_host="tcp://ci:s3cret@127.0.0.1:9", tls=tls)
    with pytest.raises(swarm_manager.SwarmError) as caught:
        swarm_manager.connect(params)
    texts = [caught.value.message, *unprotected(params)]
    assert len(texts) == 2
    assert all("tcp://ci:***@127.0.0.1:9" in text and "s3cret" not in text for text in texts)


@pytest.mark.parametrize("named", ["options", "environment"])
def test_tls_takes_its_files_from_options_or_the_environment(serve, tmp_path, monkeypatch, named):
    authority = Authority(tmp_path, "ca")
    files = dict(zip(("client_cert", "client_key"), authority.pair("client"), strict=True), ca_path=authority.file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.pair("server", "127.0.0.1"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    if named == "environment":
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        for option, name in (("client_cert", "cert.pem"), ("client_key", "key.pem")):
            (tmp_path / name).symlink_to(files[option])
        files = {}
    where = f"tcp://127.0.0.1:{serve(at=('127.0.0.1', 0), context=context).port}"
    assert swarm_manager.connect({**PARAMS, "docker_host": where, "validate_certs": True, **files}).node_id == "m1"


def test_a_refused_certificate_is_an_error_with_its_remedy(serve, tmp_path):
    authority = Authority(tmp_path, "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.pair("server", "127.0.0.1"))
    where = f"tcp://127.0.0.1:{serve(at=('127.0.0.1', 0), context=context).port}"
    with pytest.raises(swarm_manager.SwarmError, match="does not answer: .*certificate verify failed.* fix docker_host and the TLS options"):
        swarm_manager.connect({**PARAMS, "docker_host": where, "validate_certs": True})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"client_cert": "/none/cert.pem"}, "set both of them or none"),
        ({"client_key": "/none/key.pem"}, "set both of them or none"),
        ({"client_cert": "/none/cert.pem", "client_key": "/none/key.pem"}, "/none/cert.pem on .*: client_cert cannot be read"),
        ({"ca_path": "/none/ca.pem"}, "/none/ca.pem on .*: ca_path cannot be read"),
    ],
)
def test_tls_files_that_do_not_fit_are_refused(options, expected):
    with pytest.raises(swarm_manager.SwarmError, match=expected):
        swarm_manager.connect(dict(PARAMS, docker_host="tcp://192.0.2.1:2376", tls=True, **options))


# --- tasks --------------------------------------------------------------------------------------------------------------

TASKS = [task("t%d" % number) for number in range(300)]


def test_tasks_are_read_one_at_a_time(manager):
    body = json.dumps(TASKS) + "\n"
    assert list(manager({"tasks": Streamed(body[start : start + 5000] for start in range(0, len(body), 5000))}).tasks()) == TASKS


def test_the_answering_manager_is_reported_without_reading_the_ledger(monkeypatch):
    monkeypatch.setattr(swarm_gpu_info, "connect", lambda params: swarm_manager.Manager(None, "unix:///run/x.sock", MANAGER))
    assert swarm_gpu_info.run({"ledger": False}, False)["swarm"] == {
        "id": "c1",
        "node_id": "m1",
        "autolocked": False,
        "state": "active",
        "control_available": True,
    }


def test_the_swarm_that_was_read_to_connect_is_returned_once_and_only_briefly(manager, monkeypatch, tmp_path):
    monkeypatch.setattr(swarm_manager, "RECENT_S", 60.0)
    first = manager()
    second = swarm_manager.connect({**PARAMS, "docker_host": f"unix://{tmp_path / 'd.sock'}"})
    manager.server.requests.clear()
    read = [first.cluster()]
    assert manager.server.requests == []
    monkeypatch.setattr(swarm_manager, "RECENT_S", 0.0)
    read += [first.cluster(), second.cluster()]
    assert manager.server.requests == ["/v1.41/info"] * 2
    assert read == [(MANAGER["Cluster"], INFO["SystemTime"])] * 3


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refusing(500, "rpc error: code = DeadlineExceeded desc = x"), "has no quorum"),
        (refusing(500, "on fire"), "refused to list tasks: on fire."),
        (Streamed(['[{"ID": "t1"}', CUT]), "does not answer"),
        (Streamed(['[{"ID": "t1"}']), "list of tasks from the manager"),
        (Streamed(['{"message": "odd"}']), "list of tasks from the manager"),
    ],
)
def test_tasks_that_cannot_be_read_are_an_error(manager, answer, expected):
    with pytest.raises(swarm_manager.SwarmError, match=expected):
        list(manager({"tasks": answer}).tasks())


@pytest.mark.parametrize(("last", "query"), [(None, "timestamps=1"), (7, "tail=7")])
def test_a_task_s_log_comes_in_pieces_whole_or_its_last_lines(manager, last, query):
    answering = manager({"tasks/t1/logs": Streamed(["GPU 0: T", "4\n"])})
    assert b"".join(answering.task_log("t1", last)) == b"GPU 0: T4\n"
    assert manager.server.requests[-1] == "/v1.41/tasks/t1/logs?stdout=1&stderr=1&" + query


def test_a_log_that_cannot_be_read_is_an_error(manager):
    with pytest.raises(swarm_manager.NotFound, match="refused to read the log of task t1: task t1 not found"):
        list(manager({"tasks/t1/logs": refusing(404, "task t1 not found")}).task_log("t1"))


# --- events ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [(), (CUT,)])
def test_events_come_one_by_one_until_the_daemon_ends_them(manager, end):
    """Each event arrives before the next event is sent. The first event shows that the stream exists. A piece may end within an event."""
    more = threading.Event()
    first, second = '{"Type":"node","Actor":{"ID":"n1"}}\n', '{"Type":"service","Actor":{"ID":"s1"}}\n'
    parts = [first + second[:9], more, second[9:], "[]\n", '{"Type":"service"}\n', '{"Type":\n', *end]
    events = manager({"events": Streamed(parts)}).events("node", "service")
    assert [next(events), next(events)] == [swarm_manager.ANY, ("node", "n1")]
    assert manager.server.requests[-1] == "/v1.41/events?filters=%7B%22type%22%3A%5B%22node%22%2C%22service%22%5D%7D"
    more.set()
    assert [next(events), next(events), next(events), next(events)] == [("service", "s1"), swarm_manager.ANY, swarm_manager.ANY, swarm_manager.ANY]
    with pytest.raises(swarm_manager.SwarmError if end else StopIteration):
        next(events)


def test_a_daemon_without_events_is_an_error(manager):
    with pytest.raises(swarm_manager.SwarmError, match="refused to read the events of nodes and services: not here"):
        next(manager({"events": refusing(500, "not here")}).events("node", "service"))


# --- services -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((204, ""), None),
        (refusing(404, "service s1 not found"), None),
        (refusing(500, "service s1 is not as it was"), "refused to remove service s1: service s1 is not as it was"),
    ],
)
def test_a_service_is_removed_and_one_that_is_gone_needs_no_removal(manager, answer, expected):
    connected = manager({"services/s1": answer})
    with pytest.raises(swarm_manager.SwarmError, match=expected) if expected else nullcontext():
        connected.remove_service("s1")
    assert manager.server.requests[-1] == "/v1.41/services/s1"


SPEC = {"Name": "v", "Labels": {}, "Mode": {}, "TaskTemplate": {"ContainerSpec": {"Image": "registry.example/a"}}}


@pytest.mark.parametrize(("auth", "sent"), [(b"u:p", {"username": "u", "password": "p", "serveraddress": "registry.example"}), (None, None)])
def test_services_are_made_with_the_login_of_this_machine(manager, monkeypatch, tmp_path, auth, sent):
    logins = {"registry.example": {"auth": base64.b64encode(auth).decode()}} if auth else {}
    (tmp_path / "config.json").write_text(json.dumps({"auths": logins}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert manager({"services/create": {"ID": "v-id"}}).create_service(SPEC) == "v-id"
    header = manager.server.received[-1].get("X-Registry-Auth")
    assert (header and json.loads(base64.urlsafe_b64decode(header)), manager.server.bodies) == (sent, [SPEC])


def test_a_login_that_cannot_be_read_is_no_fault_of_the_manager(manager, monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text('{"credsStore": "gone"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    words = "Could not create service v: .*docker-credential-gone .* Install it, or remove it from that file"
    with pytest.raises(swarm_manager.SwarmError, match=words) as caught:
        manager().create_service(SPEC)
    assert not isinstance(caught.value, swarm_manager.Refused)
    assert manager.server.bodies == []


def test_services_and_tasks_are_found_by_label(manager):
    connected = manager({"services": [], "tasks": []})
    for listed in (connected.services_labelled, connected.tasks_labelled):
        assert listed("a=b") == []
        assert manager.server.requests[-1].endswith("?filters=%7B%22label%22%3A+%5B%22a%3Db%22%5D%7D")


def test_a_config_is_created_with_its_content_encoded(manager):
    manager({"configs/create": {"ID": "c"}}).create_config("f", b"\xff", {"a": "b"})
    assert manager.server.bodies == [{"Name": "f", "Data": "/w==", "Labels": {"a": "b"}}]


@pytest.mark.parametrize(("answer", "was_there"), [((200, ""), True), (refusing(404, "node n1 not found"), False)])
def test_a_node_is_removed_from_the_list_by_force(manager, answer, was_there):
    assert manager({"nodes/n1?force=true": answer}).remove_node("n1") is was_there
