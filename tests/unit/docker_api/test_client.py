# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the client of the Docker API against a server on a real socket."""

from __future__ import annotations

import base64
import ssl
import threading
import time

import pytest
from certificates import Authority
from docker_daemon import CUT, Daemon, Streamed

from plugins.module_utils._docker_api.client import Client, filtered
from plugins.module_utils._docker_api.connections import Tls
from plugins.module_utils._docker_api.problems import Refused, Unanswered

VARIABLES = [name for lower in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (lower, lower.upper())]


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Return the function serve(at=…, context=…, **answers), which starts a daemon. By default the daemon listens on a Unix socket."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    started = []

    def start(at=None, context=None, headers=(), answers=()):
        started.append(Daemon(at or str(tmp_path / "d.sock"), headers, answers, context))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def local(serve, tmp_path):
    """Return the function local(answers, …), which returns a client and a daemon."""

    def start(answers=(), headers=(), **options):
        return Client(f"unix://{tmp_path / 'd.sock'}", **{"version": "1.41", **options}), serve(headers=headers, answers=answers)

    return start


# --- versions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "headers", "expected"),
    [
        ("auto", {"Api-Version": "1.41"}, ["/_ping", "/v1.41/info", "/v1.41/info"]),  # Docker 20.10
        ("auto", {"Api-Version": "1.52"}, ["/_ping", "/v1.52/info", "/v1.52/info"]),  # Docker 29.0 accepts no version older than 1.44
        ("auto", {}, ["/_ping", "/version", "/v1.45/info", "/v1.45/info"]),  # behind a proxy that drops unknown headers
        ("1.44", {"Api-Version": "1.52"}, ["/v1.44/info", "/v1.44/info"]),
        (None, {"Api-Version": "1.52"}, ["/info", "/info"]),
    ],
)
def test_the_version_is_the_daemons_newest_and_read_once(local, version, headers, expected):
    client, daemon = local({"/_ping": (200, "OK"), "/version": {"ApiVersion": "1.45"}, "/info": {"ID": "x"}}, headers, version=version)
    assert [client.get("/info"), client.get("/info")] == [{"ID": "x"}] * 2
    assert daemon.requests == expected


def test_a_daemon_that_names_no_version_is_an_error(local):
    client, _daemon = local({"/_ping": (200, "OK"), "/version": {}}, version="auto")
    with pytest.raises(Unanswered, match="does not report the version"):
        client.get("/info")


# --- calls --------------------------------------------------------------------------------------------------------------


def test_what_is_sent_and_what_comes_back(local):
    client, daemon = local({"/services/create": {"ID": "s1"}, "/networks/n1": (204, "")})
    answer = client.call("POST", "/services/create", {"Name": "ü"}, {"X-Registry-Auth": "e30="})
    assert (answer.data, client.call("DELETE", "/networks/n1").data) == ({"ID": "s1"}, None)
    assert daemon.bodies == [{"Name": "ü"}, None]
    sent = daemon.received[0]
    assert (sent["Content-Type"], sent["X-Registry-Auth"], sent["Host"]) == ("application/json", "e30=", "localhost")
    assert "Content-Type" not in daemon.received[1]


def test_filters_are_those_of_the_api():
    assert filtered("/tasks", None) == "/tasks"
    assert filtered("/tasks", {"label": ["a=b"]}) == "/tasks?filters=%7B%22label%22%3A+%5B%22a%3Db%22%5D%7D"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, '{"message":"no such service: s1."}'), "no such service: s1"),
        ((500, "on fire\n"), "on fire"),
        ((500, '["a list"]'), '["a list"]'),
        ((502, "<html>\n<head><title>502 Bad Gateway</title></head>\n"), "<html> <head><title>502 Bad Gateway</title></head>"),  # from a proxy
        ((502, ""), "HTTP status 502 (Bad Gateway)"),
        ((500, '{"message":null}'), "HTTP status 500 (Internal Server Error)"),
        ((301, ""), "HTTP status 301 (Moved Permanently)"),  # following a redirect could send the body or a login to another server
        ((500, '{"message":"cannot pull https://ci:s3cret@registry.example/v2/"}'), "cannot pull https://ci:***@registry.example/v2/"),
    ],
)
def test_a_refusal_has_its_status_and_reason_and_no_password(local, answer, words):
    client, _daemon = local({"/services/s1": answer}, {"Libpod-API-Version": "4"})
    with pytest.raises(Refused) as caught:
        client.get("/services/s1")
    assert (caught.value.status, caught.value.words, caught.value.headers["libpod-api-version"]) == (answer[0], words, "4")


def test_an_answer_that_is_no_json(local):
    client, _daemon = local({"/info": (200, "<html>")})
    with pytest.raises(Unanswered, match="GET /v1.41/info was answered with '<html>', which is not JSON"):
        client.get("/info")


def test_a_daemon_that_does_not_answer_in_time(local):
    held = threading.Event()
    client, _daemon = local({"/info": lambda: held.wait(20) and {}}, timeout=0.05)
    with pytest.raises(Unanswered, match=r"^no answer within 0\.05 s$"):
        client.get("/info")
    held.set()


def test_nobody_there(tmp_path):
    with pytest.raises(Unanswered, match="No such file") as caught:
        Client(f"unix://{tmp_path / 'd.sock'}").get("/info")
    assert isinstance(caught.value.cause, FileNotFoundError)


# --- streams ------------------------------------------------------------------------------------------------------------


def test_a_stream_comes_as_it_is_sent(local):
    more = threading.Event()
    client, _daemon = local({"/events": Streamed(["one", more, "two"])}, timeout=0.2)
    with client.stream("/events", endless=True) as pieces:
        assert next(pieces) == b"one"
        time.sleep(0.3)  # longer than the timeout of an answer
        more.set()
        assert list(pieces) == [b"two"]


def test_a_list_that_stops_coming_is_given_up(local):
    never = threading.Event()
    client, _daemon = local({"/tasks": Streamed(["[", never])}, timeout=0.05)
    with pytest.raises(Unanswered, match="no answer within"), client.stream("/tasks") as pieces:
        list(pieces)
    never.set()


def test_a_stream_that_breaks_off_is_no_end(local):
    client, _daemon = local({"/tasks": Streamed(["[", CUT])})
    with pytest.raises(Unanswered, match="the connection was cut before the end of the answer"), client.stream("/tasks") as pieces:
        list(pieces)


def test_a_stream_that_is_refused(local):
    client, _daemon = local({"/events": (503, '{"message":"not a manager"}')})
    with pytest.raises(Refused, match="not a manager"), client.stream("/events"):
        pass


# --- over the network ---------------------------------------------------------------------------------------------------

HERE = ("127.0.0.1", 0)
BESIDE = ("127.0.0.2", 0)  # another address of this machine, which no name resolves to


def test_one_connection_serves_many_calls_and_a_closed_one_is_opened_anew(serve):
    daemon = serve(HERE, answers={"/info": {}})
    client = Client(f"tcp://127.0.0.1:{daemon.port}", version="1.41")
    for _time in range(3):
        client.get("/info")
    assert daemon.connections == 1
    daemon.answers["/info"] = (500, "x")
    with pytest.raises(Refused):
        client.get("/info")
    daemon.answers["/last"] = Streamed([CUT])  # the server closes the connection after this answer
    with pytest.raises(Unanswered):
        client.get("/last")
    daemon.answers["/info"] = {}
    assert (client.get("/info"), daemon.connections) == ({}, 2)


def test_a_request_is_sent_once_whatever_becomes_of_it(serve):
    """The daemon may have executed the request, so the client does not repeat it. The connection is open from an earlier call."""
    daemon = serve(HERE, answers={"/info": {}, "/services/create": Streamed([CUT])})
    client = Client(f"tcp://127.0.0.1:{daemon.port}", timeout=1, version="1.41")
    never = threading.Event()
    for answer in (Streamed([CUT]), Streamed(['{"ID"', never]), (502, ""), (200, "<html>")):
        client.get("/info")
        daemon.answers["/services/create"] = answer
        with pytest.raises((Unanswered, Refused)):
            client.call("POST", "/services/create", {"Name": "a"})
    never.set()
    assert daemon.requests == ["/v1.41/info", "/v1.41/services/create"] * 4


def test_a_path_goes_before_every_request(serve):
    daemon = serve(HERE, answers={"/docker/v1.41/info": {}})
    Client(f"http://127.0.0.1:{daemon.port}/docker/", version="1.41").get("/info")
    assert daemon.requests == ["/docker/v1.41/info"]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ssh://root@m1", "begins with ssh://, which this collection does not support: write unix:// or tcp://"),
        ("tcp://m1", "docker_host tcp://m1 does not contain a host and a port"),
        ("tcp://:2376", "does not contain a host and a port"),
        ("tcp://m1:x", "does not contain a host and a port"),
        ("tcp://[::1:2376", "does not contain a host and a port"),
        ("tcp://m 1:2376", "does not contain a host and a port"),
        ("tcp://u:s3cret@m1:x", r"docker_host tcp://u:\*\*\*@m1:x does not contain a host and a port"),
    ],
)
def test_an_address_that_leads_nowhere(address, words):
    with pytest.raises(Unanswered, match=words):
        Client(address)


# --- TLS ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def protected(serve, authority):
    """Return the function protected(*addresses). It starts a daemon like dockerd --tlsverify, with a certificate for these addresses."""

    def start(*addresses):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.pair("server", *addresses))
        context.load_verify_locations(authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
        return serve(HERE, context, answers={"/info": {"ID": "x"}})

    return start


def info(daemon, tls, scheme="tcp"):
    return Client(f"{scheme}://127.0.0.1:{daemon.port}", tls, 10, "1.41").get("/info")


@pytest.mark.parametrize("scheme", ["tcp", "https", "http"])
def test_both_sides_show_their_certificates(protected, authority, scheme):
    assert info(protected("127.0.0.1"), Tls(True, authority.file, *authority.pair("client")), scheme) == {"ID": "x"}


def test_without_verification_any_certificate_of_the_server_is_taken(protected, authority):
    assert info(protected("192.0.2.1"), Tls(False, None, *authority.pair("client"))) == {"ID": "x"}


@pytest.mark.parametrize(
    ("address", "known", "client", "words"),
    [
        ("192.0.2.1", True, True, "IP address mismatch"),
        ("127.0.0.1", False, True, "certificate verify failed"),
        ("127.0.0.1", True, False, "certificate required|reset|EOF|closed"),
    ],
)
def test_a_certificate_that_does_not_fit(protected, authority, tmp_path, address, known, client, words):
    trusted = authority if known else Authority(tmp_path, "another")
    pair = authority.pair("client") if client else (None, None)
    with pytest.raises(Unanswered, match=words):
        info(protected(address), Tls(True, trusted.file, *pair))


def test_https_without_options_is_verified(protected):
    with pytest.raises(Unanswered, match="certificate verify failed"):
        info(protected("127.0.0.1"), None, "https")


def test_an_authority_comes_from_ca_path_alone(protected, authority, tmp_path, monkeypatch):
    """Environment variables that name authorities for other clients are ignored."""
    daemon, other = protected("127.0.0.1"), Authority(tmp_path, "another")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, authority.file)
    with pytest.raises(Unanswered, match="certificate verify failed"):
        info(daemon, Tls(True, other.file, *authority.pair("client")))


def test_files_that_are_no_certificates(tmp_path):
    (tmp_path / "x.pem").write_text("x")
    with pytest.raises(Unanswered, match=f"the TLS files {tmp_path}/x.pem cannot be used"):
        Client("tcp://127.0.0.1:1", Tls(True, str(tmp_path / "x.pem")))


# --- proxies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
def test_a_proxy_of_the_environment_gets_the_whole_address(serve, monkeypatch, variable):
    proxy = serve(HERE, answers={"/info": {"ID": "x"}})
    monkeypatch.setenv(variable, f"http://ci:p%40ss@127.0.0.1:{proxy.port}")
    assert Client("tcp://manager.example.org:2375", version="1.41").get("/info") == {"ID": "x"}
    assert proxy.requests == ["http://manager.example.org:2375/v1.41/info"]
    sent = proxy.received[0]
    assert (sent["Host"], sent["Proxy-Authorization"]) == ("manager.example.org:2375", "Basic " + base64.b64encode(b"ci:p@ss").decode())


def test_with_tls_the_proxy_is_that_of_https_and_only_makes_a_tunnel(serve, monkeypatch):
    proxy = serve(HERE)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", f"ci:pass@127.0.0.1:{proxy.port}")
    with pytest.raises(Unanswered, match="403") as caught:
        Client("tcp://manager.example.org:2376", Tls(False), version="1.41").get("/info")
    assert "pass" not in caught.value.words
    assert (proxy.requests, proxy.received[0]["Proxy-Authorization"]) == (["manager.example.org:2376"], "Basic Y2k6cGFzcw==")


@pytest.mark.parametrize(
    ("address", "no_proxy", "through"),
    [
        ("127.0.0.1", "", False),  # this machine
        ("localhost", "", False),
        ("m1.example.org", "", True),
        ("m1.example.org", "example.com,.example.org", False),
        ("m1.example.org", "*", False),
        ("192.0.2.7", "192.0.2.0/24", False),
        ("192.0.2.7", "198.51.100.0/24", True),
        ("192.0.2.7", "192.0.2.7", False),
        ("192.0.2.7", "192.0.2.7:9", False),
        ("m1.example.org", "m1.example.org:9", False),
        ("m1.example.org", "m1.example.org:8", True),
        ("m1.example.org", "*.example.org", False),
        ("[2001:db8::7]", "2001:db8::7", False),
        ("[2001:db8::7]", "[2001:db8::7]:9", False),
        ("[2001:db8::7]", "2001:db8::/32", False),
        ("[2001:db8::7]", "2001:db8::8", True),
    ],
)
def test_what_no_proxy_exempts(serve, monkeypatch, address, no_proxy, through):
    proxy = serve(HERE, answers={"/info": {}})
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    client = Client(f"tcp://{address}:9", timeout=0.1, version="1.41")
    if through:
        client.get("/info")
    else:
        with pytest.raises(Unanswered):
            client.get("/info")
    assert bool(proxy.requests) is through


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        ("socks5://ci:s3cret@proxy:1080", "socks5://ci:***@proxy:1080"),
        ("http://ci:s3cret@proxy:port", "http://ci:***@proxy:port"),
        ("http://[2001:db8::1", "http://[2001:db8::1"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_an_error_that_names_it(serve, monkeypatch, proxy, shown):
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(Unanswered) as caught:
        Client("tcp://m1.example.org:2376", Tls())
    assert caught.value.words.startswith(f"HTTPS_PROXY is {shown}, but only http:// proxies are supported for managers.")


def test_a_unix_socket_needs_no_proxy(local, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    client, _daemon = local({"/info": {}})
    assert client.get("/info") == {}
