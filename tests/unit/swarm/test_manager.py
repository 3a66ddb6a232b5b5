# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socketserver
import threading
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler

import pytest
from docker.errors import APIError, DockerException
from requests import Response
from requests.exceptions import ReadTimeout
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
    "api_version": "auto",
    "timeout": 60,
}
PEERS = [{"NodeID": "m2", "Addr": "192.0.2.2:2377"}, {"NodeID": "m1", "Addr": "192.0.2.1:2377"}]
# As /info gave it on Docker 20.10.24.
MANAGER = {
    "NodeID": "m1",
    "LocalNodeState": "active",
    "ControlAvailable": True,
    "Error": "",
    "RemoteManagers": PEERS,
    "Cluster": {"ID": "c1"},
}
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


def test_a_manager_is_taken(monkeypatch):
    class Client:
        def __init__(self, **_options):
            pass

        def info(self):
            return {"Swarm": MANAGER}

    monkeypatch.setattr(swarm_manager, "Client", Client)
    assert swarm_manager.connect(PARAMS).node_id == "m1"


def test_without_the_sdk_the_package_is_named(monkeypatch):
    monkeypatch.setattr(swarm_manager, "SDK_ERROR", "No module named 'docker'")
    with pytest.raises(swarm_manager.SwarmError, match="python3-docker") as caught:
        swarm_manager.connect(PARAMS)
    assert caught.value.details == {"missing": ["docker_sdk"]}


def test_a_socket_that_is_not_there(tmp_path):
    where = "unix://%s/none.sock" % tmp_path
    with pytest.raises(swarm_manager.SwarmError, match="systemctl start docker") as caught:
        swarm_manager.connect(dict(PARAMS, docker_host=where))
    assert where in caught.value.message
    assert caught.value.details == {"swarm_state": "unreachable"}


def test_a_socket_that_belongs_to_root():
    words = "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))"
    assert "become" in swarm_manager.unreachable("unix:///run/x.sock", words).message


class Refusing:
    """A client whose every call fails in one way."""

    def __init__(self, failure):
        self.failure = failure

    def _fail(self, *args):
        raise self.failure

    nodes = tasks = services = inspect_node = update_node = info = update_swarm = _fail


@pytest.mark.parametrize(
    ("failure", "kind", "expected"),
    [
        (APIError("500", explanation="rpc error: code = Unknown desc = update out of sequence"), "OutOfSequence", "n1"),
        (APIError("500", explanation=NO_LEADER), "SwarmError", "has no quorum"),
        (APIError("500", explanation="rpc error: code = DeadlineExceeded desc = x"), "SwarmError", "has no quorum"),
        (APIError("500", explanation="raft: failed to process the request: node lost leader status"), "SwarmError", "has no quorum unless"),
        (APIError("404", explanation="node n1 not found"), "SwarmError", "would not update node n1: node n1 not found."),
        (ReadTimeout("read timed out"), "SwarmError", "does not answer: read timed out"),
        (DockerException("broken"), "SwarmError", "does not answer: broken"),
    ],
)
def test_failures_of_calls_are_reported_with_their_remedy(failure, kind, expected):
    manager = swarm_manager.Manager(Refusing(failure), "unix:///run/x.sock", MANAGER)
    with pytest.raises(swarm_manager.SwarmError) as caught:
        manager.update_node("n1", 9, {})
    assert type(caught.value).__name__ == kind
    assert expected in caught.value.message


def by_status(status, words):
    response = Response()
    response.status_code = status
    return APIError(str(status), response=response, explanation=words)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (by_status(400, "invalid reference format"), "Refused"),
        (by_status(403, "network lan cannot be used with services"), "Refused"),
        (by_status(404, "network lost not found"), "NotFound"),
        (by_status(403, "authorization denied by plugin opa"), "SwarmError"),  # a plugin of this machine
        (by_status(409, "name conflicts with an existing object"), "SwarmError"),
        (by_status(500, "rpc error: code = Unavailable desc = x"), "SwarmError"),
        (by_status(503, "This node is not a swarm manager"), "SwarmError"),
        (by_status(400, "rpc error: code = Unknown desc = update out of sequence"), "OutOfSequence"),
    ],
)
def test_a_manager_that_refuses_its_input_has_answered(failure, kind):
    manager = swarm_manager.Manager(Refusing(failure), "unix:///run/x.sock", MANAGER)
    with pytest.raises(swarm_manager.SwarmError) as caught:
        manager.update_node("n1", 9, {})
    assert type(caught.value).__name__ == kind
    assert isinstance(caught.value, swarm_manager.Refused) == (kind in ("Refused", "NotFound"))


def test_a_daemon_that_refuses_the_api_version_does_answer(monkeypatch):
    failure = by_status(400, "client version 1.99 is too new. Maximum supported API version is 1.41")
    monkeypatch.setattr(swarm_manager, "Client", lambda **_options: Refusing(failure))
    with pytest.raises(swarm_manager.SwarmError) as caught:
        swarm_manager.connect({**PARAMS, "api_version": "1.99"})
    assert caught.value.message == (
        "The Docker daemon at unix:///run/x.sock refuses the connection with api_version 1.99: client version 1.99 is too new. Maximum supported API "
        "version is 1.41. Set another api_version, or leave it out."
    )


class Answering:
    """A client that answers /info and keeps what it is to write."""

    def __init__(self, info):
        self.answer = info
        self.updates = []

    def info(self):
        return self.answer

    def update_swarm(self, *args):
        self.updates.append(args)


def test_the_swarm_is_read_without_its_tokens_and_written_by_version():
    client = Answering({"Swarm": dict(MANAGER, Cluster=cluster()), "SystemTime": "2026-11-21T02:17:28.652836451Z"})
    manager = swarm_manager.Manager(client, "unix:///run/x.sock", MANAGER)
    assert manager.cluster() == (cluster(), "2026-11-21T02:17:28.652836451Z")
    manager.update_cluster(10, {"Name": "default"})
    manager.update_cluster(11, {"Name": "default"}, ["manager"])
    assert client.updates == [(10, {"Name": "default"}, False, False), (11, {"Name": "default"}, False, True)]


@pytest.mark.parametrize("swarm", [dict(MANAGER, Error=NO_LEADER, Cluster={}), {"LocalNodeState": "locked"}])
def test_a_manager_that_lost_its_swarm_meanwhile_says_why(swarm):
    manager = swarm_manager.Manager(Answering({"Swarm": swarm}), "unix:///run/x.sock", MANAGER)
    with pytest.raises(swarm_manager.SwarmError, match="no quorum|is locked"):
        manager.cluster()


@pytest.mark.parametrize(("swarm", "autolocked"), [(MANAGER, False), (dict(MANAGER, Cluster=cluster()), True)])
def test_whether_managers_lock_themselves_is_reported(swarm, autolocked):
    assert swarm_manager.Manager(None, "unix:///run/x.sock", swarm).autolocked == autolocked


def test_a_swarm_that_was_changed_meanwhile_is_distinguished():
    refused = APIError("500", explanation="rpc error: code = Unknown desc = update out of sequence")
    with pytest.raises(swarm_manager.OutOfSequence, match="update the swarm"):
        swarm_manager.Manager(Refusing(refused), "unix:///run/x.sock", MANAGER).update_cluster(10, {})


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
    ],
)
def test_an_api_that_is_not_protected_is_warned_of(options, warned):
    found = unprotected(dict(PARAMS, **options))
    assert [options["docker_host"] in text and warned in text for text in found] == ([True] if warned else [])


def test_tls_is_off_unless_requested(tmp_path):
    assert swarm_manager._tls(PARAMS, {"DOCKER_CERT_PATH": str(tmp_path)}) is False


@pytest.fixture
def certificates(tmp_path):
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    return tmp_path


def test_tls_takes_its_files_from_options_or_the_environment(certificates):
    given = dict(
        PARAMS,
        validate_certs=True,
        ca_path=str(certificates / "ca.pem"),
        client_cert=str(certificates / "cert.pem"),
        client_key=str(certificates / "key.pem"),
    )
    for params, environ in (
        (given, {}),
        (dict(PARAMS, validate_certs=True), {"DOCKER_CERT_PATH": str(certificates)}),
    ):
        config = swarm_manager._tls(params, environ)
        assert config.cert == (str(certificates / "cert.pem"), str(certificates / "key.pem"))
        assert (config.ca_cert, config.verify) == (str(certificates / "ca.pem"), True)


@pytest.mark.parametrize(("expected", "taken"), [("/c/ca.pem", "/c/ca.pem"), (False, False), (True, "/etc/bundle.pem")])
def test_variables_of_the_environment_do_not_take_the_place_of_ca_path(monkeypatch, expected, taken):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/bundle.pem")
    client = swarm_manager.Client(base_url="tcp://192.0.2.1:2376", version="1.41")
    client.verify = expected
    assert client.merge_environment_settings("https://192.0.2.1:2376", {}, None, None, None)["verify"] == taken


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"client_cert": "/none/cert.pem"}, "give both or neither"),
        ({"client_key": "/none/key.pem"}, "give both or neither"),
        ({"client_cert": "/none/cert.pem", "client_key": "/none/key.pem"}, "/none/cert.pem on .*: client_cert cannot be read"),
        ({"ca_path": "/none/ca.pem"}, "/none/ca.pem on .*: ca_path cannot be read"),
    ],
)
def test_tls_files_that_do_not_fit_are_refused(options, expected):
    with pytest.raises(swarm_manager.SwarmError, match=expected):
        swarm_manager._tls(dict(PARAMS, tls=True, **options), {})


# --- tasks, as the SDK brings them from a socket ----------------------------------------------------------------------

TASKS = [task("t%d" % number) for number in range(300)]
INFO = {"ID": "x", "ApiVersion": "1.42", "Swarm": MANAGER, "SystemTime": "2026-11-20T12:00:00.1+01:00"}


class Daemon(BaseHTTPRequestHandler):
    """Answers in chunks, as dockerd does. What it is to say of tasks, in their logs, or as events, stands in its server."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("/", 2)[-1]
        status, parts = self.server.says if path == "tasks" or path.startswith(("events?", "tasks/")) else (200, [json.dumps(INFO)])
        self.server.path = path
        self.server.paths.append(self.path)
        self.send_response(status)
        if self.server.version:
            self.send_header("Api-Version", self.server.version)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            if part is None:
                self.close_connection = True
                return
            if isinstance(part, threading.Event):
                part.wait(20)
                continue
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part.encode()))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_line):
        pass

    def address_string(self):
        return ""


@pytest.fixture
def manager(tmp_path):
    """manager(status, parts) -> a Manager whose daemon answers so for its tasks or events; None breaks the answer off, an event is waited for."""
    server = socketserver.ThreadingUnixStreamServer(str(tmp_path / "d.sock"), Daemon)
    server.daemon_threads = True
    server.paths, server.version = [], None
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def connect(status, *parts, api_version="1.41"):
        server.says = (status, parts)
        return swarm_manager.connect(dict(PARAMS, docker_host="unix://%s" % (tmp_path / "d.sock"), api_version=api_version))

    connect.server = server
    yield connect
    server.shutdown()
    server.server_close()


def test_tasks_come_one_at_a_time(manager):
    body = json.dumps(TASKS) + "\n"
    assert list(manager(200, *(body[start : start + 5000] for start in range(0, len(body), 5000))).tasks()) == TASKS


def test_who_answers_is_reported_without_reading_the_ledger(monkeypatch):
    monkeypatch.setattr(swarm_gpu_info, "connect", lambda params: swarm_manager.Manager(None, "unix:///run/x.sock", MANAGER))
    assert swarm_gpu_info.run({"ledger": False})["swarm"] == {
        "id": "c1",
        "node_id": "m1",
        "autolocked": False,
        "state": "active",
        "control_available": True,
    }


def test_the_managers_clock_is_kept(manager):
    assert manager(200, "[]").time == INFO["SystemTime"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.45", ["/_ping", "/v1.45/info"]),
        (None, ["/_ping", "/version", "/v1.42/info"]),  # a proxy that drops headers which it does not know
    ],
)
def test_the_version_of_the_api_is_read_from_where_it_costs_nothing(manager, version, expected):
    manager.server.version = version
    manager(200, "[]", api_version="auto")
    assert manager.server.paths == expected


def test_a_client_whose_sdk_does_not_fit_is_one_clear_error(monkeypatch):
    def get(*_args, **_options):
        raise TypeError("request() got an unexpected keyword argument 'chunked'")

    monkeypatch.setattr(swarm_manager.Client, "get", get)
    with pytest.raises(swarm_manager.SwarmError, match="does not answer: .*'chunked'"):
        swarm_manager.connect(PARAMS)


def test_the_swarm_that_was_read_to_connect_is_returned_once_and_not_for_long(manager, monkeypatch):
    monkeypatch.setattr(swarm_manager, "RECENT_S", 60.0)
    first, second = manager(200, "[]"), manager(200, "[]")
    manager.server.paths.clear()
    read = [first.cluster()]
    assert manager.server.paths == []
    monkeypatch.setattr(swarm_manager, "RECENT_S", 0.0)
    read += [first.cluster(), second.cluster()]
    assert manager.server.paths == ["/v1.41/info"] * 2
    assert read == [(MANAGER["Cluster"], INFO["SystemTime"])] * 3


@pytest.mark.parametrize(
    ("status", "parts", "expected"),
    [
        (500, ['{"message": "rpc error: code = DeadlineExceeded desc = x"}'], "has no quorum"),
        (500, ['{"message": "on fire"}'], "would not list tasks: on fire."),
        (200, ['[{"ID": "t1"}', None], "does not answer"),
        (200, ['[{"ID": "t1"}'], "broke off its list of tasks"),
        (200, ['{"message": "odd"}'], "broke off its list of tasks"),
    ],
)
def test_tasks_that_do_not_come(manager, status, parts, expected):
    with pytest.raises(swarm_manager.SwarmError, match=expected):
        list(manager(status, *parts).tasks())


@pytest.mark.parametrize(("last", "query"), [(None, "timestamps=1"), (7, "tail=7")])
def test_a_task_s_log_comes_in_pieces_whole_or_its_last_lines(manager, last, query):
    answering = manager(200, "GPU 0: T", "4\n")
    assert b"".join(answering.task_log("t1", last)) == b"GPU 0: T4\n"
    assert manager.server.path == "tasks/t1/logs?stdout=1&stderr=1&" + query


def test_a_log_that_does_not_come(manager):
    with pytest.raises(swarm_manager.NotFound, match="would not read the log of task t1: task t1 not found"):
        list(manager(404, '{"message": "task t1 not found"}').task_log("t1"))


# --- events ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [(), (None,)])
def test_events_come_one_by_one_until_the_daemon_ends_them(manager, end):
    """Each before the next one is sent; the first is that there is a stream at all."""
    more = threading.Event()
    events = manager(200, '{"Type":"node"}\n', more, '{"Type":"node"}\n', *end).node_events()
    next(events)
    next(events)
    more.set()
    next(events)
    with pytest.raises(swarm_manager.SwarmError if end else StopIteration):
        next(events)


def test_a_daemon_that_sends_no_events(manager):
    with pytest.raises(swarm_manager.SwarmError, match="would not read the events of nodes: not here"):
        next(manager(500, '{"message": "not here"}').node_events())


# --- services -----------------------------------------------------------------------------------------------------------


class Services:
    """The SDK's calls about services; the answer to a removal may be an error, by its status."""

    def __init__(self, status=204):
        self.status, self.removed, self.filters = status, [], None

    def create_service(self, task_template, name, labels, mode):
        return {"ID": name + "-id"}

    def remove_service(self, service_id):
        self.removed.append(service_id)
        if self.status >= 400:
            response = Response()
            response.status_code = self.status
            raise APIError(str(self.status), response=response, explanation="service s1 is not as it was")

    def services(self, filters):
        self.filters = filters
        return []

    tasks = services


@pytest.mark.parametrize(("status", "expected"), [(204, None), (404, None), (500, "would not remove service s1: service s1 is not as it was")])
def test_a_service_is_removed_and_one_that_is_gone_needs_no_removal(status, expected):
    client = Services(status)
    with pytest.raises(swarm_manager.SwarmError, match=expected) if expected else nullcontext():
        swarm_manager.Manager(client, "unix:///run/x.sock", MANAGER).remove_service("s1")
    assert client.removed == ["s1"]


def test_services_are_made_and_found():
    client = Services()
    manager = swarm_manager.Manager(client, "unix:///run/x.sock", MANAGER)
    assert manager.create_service({"name": "v", "labels": {}, "mode": {}, "task_template": {}}) == "v-id"
    for listed in (manager.services_labelled, manager.tasks_labelled):
        assert listed("a=b") == []
        assert client.filters == {"label": ["a=b"]}
