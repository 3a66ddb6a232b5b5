# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""dockerd's message about an image in a registry: the registry refused the image, accepted it, or did not answer."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from docker_daemon import Daemon

from plugins.module_utils._docker_api.client import Client
from plugins.module_utils._swarm.manager import Manager, SwarmError
from plugins.module_utils._swarm.registry import classify_error


class Serve(Protocol):
    def __call__(self, answers: Any, **options: Any) -> tuple[Manager, Any]:
        """Return a manager, and its daemon, which gives these answers by path."""


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    started = []
    login = base64.b64encode(b"own:p").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"registry.example": {"auth": login}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    def start(answers: Any, **options: Any) -> tuple[Manager, Any]:
        started.append(Daemon(str(tmp_path / "d.sock"), answers=answers))
        client = Client(f"unix://{tmp_path / 'd.sock'}", version="1.41", **options)
        return Manager(client, "unix:///run/x.sock", {"Cluster": {"ID": "c1"}, "NodeID": "m1"}), started[-1]

    yield start
    for one in started:
        one.close()


def test_a_daemon_that_waits_too_long_for_a_registry_is_not_queried_again(serve: Serve) -> None:
    held = threading.Event()
    it, _daemon = serve({"/distribution/registry.example/a/json": lambda: held.wait(20) and {}}, timeout=0.05)
    assert classify_error(it.why_unreadable("registry.example/a")) == (None, False)
    held.set()


@pytest.mark.parametrize(
    ("words", "refused", "answers"),
    [
        (None, False, True),
        ('Head "http://198.18.0.7:5000/v2/team/task/manifests/latest": no basic auth credentials', True, True),  # Docker 26.1, Debian's registry 2.8
        ("unauthorized: authentication required", True, True),
        ("denied: requested access to the resource is denied", True, True),
        ("manifest unknown: manifest unknown", False, True),
        ('Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host', False, False),
        ('Get "https://registry.example/v2/": dial tcp 192.0.2.1:443: i/o timeout', False, False),
        ('Get "https://registry.example/v2/": context deadline exceeded', False, False),
    ],
)
def test_what_a_why_unreadable(serve: Serve, words: str | None, refused: bool, answers: bool) -> None:
    answer = (500, json.dumps({"message": words})) if words else {}
    it, _daemon = serve({"/distribution/registry.example/a/json": answer})
    assert classify_error(it.why_unreadable("registry.example/a")) == (words if refused else None, answers)


def test_an_empty_login_is_none_and_no_login_is_the_managers_own(serve: Serve) -> None:
    it, daemon = serve({"/distribution/registry.example/a/json": {}})
    for login in (None, {}, {"username": "u", "password": "p"}):
        assert it.why_unreadable("registry.example/a", login) == ""
    sent = [json.loads(base64.urlsafe_b64decode(one["X-Registry-Auth"])) for one in daemon.received]
    server = {"serveraddress": "registry.example"}  # nodes with the containerd image store need it
    assert sent == [{"username": "own", "password": "p", **server}, {}, {"username": "u", "password": "p", **server}]


def test_the_digest_of_an_image_is_that_of_its_registry(serve: Serve) -> None:
    descriptor = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "sha256:ab", "size": 9}
    missing = (404, json.dumps({"message": "manifest unknown: manifest unknown"}))
    it, daemon = serve({"/distribution/a:1/json": {"Descriptor": descriptor}, "/distribution/b:1/json": {}, "/distribution/c:1/json": missing})
    assert it.image_digest("a:1", {"username": "u", "password": "p"}) == "sha256:ab"
    (header,) = [json.loads(base64.urlsafe_b64decode(one["X-Registry-Auth"])) for one in daemon.received]
    assert header == {"username": "u", "password": "p", "serveraddress": "https://index.docker.io/v1/"}
    for image, words in (("b:1", "has no digest for the image b:1"), ("c:1", "refused to look up the image c:1: manifest unknown")):
        with pytest.raises(SwarmError, match=words):
            it.image_digest(image, {})


def test_nodes_pull_with_a_given_login(serve: Serve) -> None:
    it, daemon = serve({"/services/create": {"ID": "s1"}})
    spec = {"Name": "p", "TaskTemplate": {"ContainerSpec": {"Image": "registry.example/a"}}}
    for login in (None, {}, {"username": "u", "password": "p"}):
        assert it.create_service(spec, login) == "s1"
    sent = [json.loads(base64.urlsafe_b64decode(one["X-Registry-Auth"])) for one in daemon.received]
    assert [login.get("username") for login in sent] == ["own", None, "u"]


def test_an_image_that_is_not_there_sets_nothing(serve: Serve) -> None:
    it, daemon = serve({"/images/registry:5000/a:1@sha256:ab/json": {"Config": {"Env": ["A=1"]}}, "/images/b/json": {"Config": {"Env": None}}})
    assert it.image_environment("registry:5000/a:1@sha256:ab") == ["A=1"]
    assert it.image_environment("b") == []
    assert it.image_environment("c") == []
    assert len(daemon.requests) == 3
