# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module as a separate process against a server with keys."""

from __future__ import annotations

import base64
import contextlib
import http.server
import io
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import module_process
import pytest
from openpgp_keys import ARMORED, BINARY, EVIL, NVIDIA, armor, prefixed

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import signing_key
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._openpgp import encode_keys, parse_keys

OTHER_KEY = armor(EVIL)
QUOTED = prefixed(OTHER_KEY, b"> ")
LIMIT = 1 << 20


def module(path: Path, fingerprint: str = NVIDIA, **arguments: object) -> dict:
    given = {"path": str(path), "fingerprint": fingerprint, "_ansible_remote_tmp": str(path.parent), **arguments}
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return json.loads(module_process.run("repository_key", given, env).stdout)


class Server(http.server.ThreadingHTTPServer):
    """Serves one file under any name, and counts the requests."""

    content = b""
    requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/gpgkey"


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.requests += 1  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.content)  # type: ignore[attr-defined]

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def server():
    with Server(("127.0.0.1", 0), Answer) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()


def test_the_right_key_is_fetched_once(server, tmp_path):
    key, server.content = tmp_path / "key.asc", ARMORED
    answer = module(key, url=server.url, _ansible_check_mode=True)
    assert (answer["changed"], key.exists()) == (True, False)
    answer = module(key, url=server.url, fingerprint=NVIDIA.lower())
    assert (answer["changed"], answer["fingerprints"], key.read_bytes(), key.stat().st_mode & 0o777) == (True, [NVIDIA], ARMORED, 0o644)
    server.requests = 0
    assert module(key, url=server.url)["changed"] is False
    assert server.requests == 0


@pytest.mark.parametrize(
    "content",
    [OTHER_KEY, ARMORED + OTHER_KEY, QUOTED + ARMORED, ARMORED + b"\n" * LIMIT, b"<html></html>"],
    ids=["another", "another too", "another quoted", "too long", "no key"],
)
@pytest.mark.parametrize("there", [None, b"what was there"])
def test_another_key_changes_nothing(server, tmp_path, content, there):
    key, server.content = tmp_path / "key.asc", content
    if there:
        key.write_bytes(there)
    answer = module(key, url=server.url)
    assert (answer["failed"], answer["problem"]) == (True, "fingerprint")
    assert server.url in answer["msg"]
    with contextlib.suppress(FileNotFoundError):
        assert key.read_bytes() == there
    assert key.exists() == bool(there)


@pytest.mark.parametrize("there", [ARMORED + OTHER_KEY, QUOTED + ARMORED, ARMORED + b"\n" * LIMIT + OTHER_KEY, BINARY])
def test_an_existing_other_key_is_replaced(server, tmp_path, there):
    """The right key is replaced too, if apt would ignore its form under that file name."""
    key, server.content = tmp_path / "key.asc", ARMORED
    key.write_bytes(there)
    assert module(key, url=server.url)["changed"] is True
    assert key.read_bytes() == ARMORED


@pytest.mark.parametrize(("name", "form"), [("key.asc", ARMORED), ("key.gpg", BINARY), ("RPM-GPG-KEY-nvidia", None)])
@pytest.mark.parametrize("content", [ARMORED, BINARY, ARMORED.replace(b"\n", b"\r\n"), armor(BINARY, headers="Comment: one\n")])
def test_the_key_has_the_form_that_its_name_requires(server, tmp_path, name, form, content):
    key, brought, server.content = tmp_path / name, tmp_path / "new", content
    assert module(key, url=server.url)["changed"] is True
    assert key.read_bytes() == (form or (BINARY if content == BINARY else ARMORED))
    brought.write_bytes(content)
    assert module(key, src=str(brought))["changed"] is False


@pytest.mark.parametrize("name", ["key.asc", "key.gpg", "RPM-GPG-KEY-nvidia"])
def test_an_rpm_key_is_armored_whatever_its_name(server, tmp_path, name):
    """A key in the other form, left by an older release, is replaced."""
    key, server.content = tmp_path / name, BINARY
    key.write_bytes(BINARY)
    for changed in (True, False):
        assert module(key, url=server.url, armored=True)["changed"] is changed
        assert key.read_bytes() == ARMORED


@pytest.mark.parametrize("there", [ARMORED, ARMORED.replace(b"\n", b"\r\n"), armor(BINARY, headers="Comment: one\n")])
def test_an_existing_right_key_stays(server, tmp_path, there):
    key, brought, server.content = tmp_path / "key.asc", tmp_path / "new", ARMORED
    key.write_bytes(there)
    brought.write_bytes(ARMORED)
    assert module(key, url=server.url)["changed"] is False
    assert module(key, src=str(brought))["changed"] is False
    assert (key.read_bytes(), server.requests) == (there, 0)


def test_a_file_from_the_controller(tmp_path):
    key, brought = tmp_path / "key.asc", tmp_path / "key.asc.new"
    renewed = encode_keys(parse_keys(BINARY + b"\xb4\x07renewed"), armored=True)
    for content, changed in ((ARMORED, True), (ARMORED, False), (renewed, True)):
        brought.write_bytes(content)
        assert module(key, src=str(brought))["changed"] is changed
        assert (key.read_bytes(), brought.exists()) == (content, False)
    brought.write_bytes(OTHER_KEY)
    answer = module(key, src=str(brought))
    assert NVIDIA in answer["msg"]
    assert (key.read_bytes(), brought.exists()) == (content, False)


def test_a_key_in_the_call_needs_no_existing_directory(tmp_path):
    key, content = tmp_path / "etc/pki/key.asc", base64.b64encode(ARMORED).decode()
    umask = os.umask(0o077)
    try:
        assert [module(key, content=content, _ansible_remote_tmp=str(tmp_path))["changed"] for _time in "12"] == [True, False]
    finally:
        os.umask(umask)
    assert [path.stat().st_mode & 0o777 for path in (key, key.parent, key.parents[1])] == [0o644, 0o755, 0o755]
    other = base64.b64encode(OTHER_KEY).decode()
    assert "the key from the controller is not accepted as" in module(key, content=other)["msg"]
    assert "content is not valid base64" in module(key, content="=a")["msg"]
    assert key.read_bytes() == ARMORED


def test_without_a_fingerprint_any_key_is_accepted_but_not_over_http(server, tmp_path):
    key, brought, server.content = tmp_path / "key.asc", tmp_path / "key.asc.new", OTHER_KEY
    assert "is not encrypted" in module(key, fingerprint="", url=server.url)["msg"]
    assert server.requests == 0
    brought.write_bytes(OTHER_KEY)
    assert module(key, fingerprint="", src=str(brought))["changed"] is True


def test_errors_are_reported(tmp_path):
    key = tmp_path / "key.asc"
    answer = module(key, url="http://svc:S3cret@127.0.0.1:9/gpgkey")
    assert answer["problem"] == "url"
    assert "cannot fetch the repository's key from http://svc:***@127.0.0.1:9/gpgkey: " in answer["msg"]
    assert "refused" in answer["msg"]
    assert "'F796ECB0' is not the fingerprint" in module(key, fingerprint="F796ECB0", url="https://127.0.0.1:9/")["msg"]


HOPS = {
    "https://a/key": "https://b/key",
    "https://b/key": "/other",
    "https://b/other": b"the key",
    "https://c/key": "http://d/key",
    "http://d/key": "https://b/other",  # an attacker between the hosts could have sent another address
    "https://e/key": "https://e/key",
}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://a/key", None),
        ("HTTPS://b/other", None),
        ("https://c/key", "http://d/key is not encrypted"),
        (" http://d/key", "http://d/key is not encrypted"),
        ("https://e/key", "cannot fetch the repository's key from https://e/key: HTTP Error 302"),
    ],
)
def test_without_a_fingerprint_no_hop_is_over_http(monkeypatch, url, words):
    def answer(running, url, timeout):
        assert (running.params["follow_redirects"], timeout) == ("none", 30)
        there = HOPS[url.lower()]
        if isinstance(there, bytes):
            return io.BytesIO(there), {"status": 200}
        return None, {"status": 302, "location": there, "msg": "HTTP Error 302"}

    monkeypatch.setattr(signing_key, "fetch_url", answer)
    running = SimpleNamespace(params={"fingerprint": "", "timeout": 30})
    if words is None:
        assert signing_key.fetch_key(running, url) == b"the key"
        return
    with pytest.raises(GpuSwarmError, match=words):
        signing_key.fetch_key(running, url)


@pytest.mark.parametrize("key", [ARMORED, OTHER_KEY], ids=["installed", "refused"])
def test_no_password_of_a_mirror_is_returned(server, tmp_path, key):
    """With -vvv, Ansible also shows a module's arguments."""
    server.content = key
    url = server.url.replace("//", "//svc:S3cret@")
    answer = module(tmp_path / "key.asc", url=url)
    assert answer["invocation"]["module_args"]["url"] == url.replace("S3cret", "***")
    assert "S3cret" not in str(answer)
    assert server.requests == 1
