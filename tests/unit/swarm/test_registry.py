# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a registry says of an image, in the words of dockerd: refused, let through, or no answer at all."""

from __future__ import annotations

from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

from plugins.module_utils._swarm.manager import Manager
from plugins.module_utils._swarm.registry import judged


class Client:
    def __init__(self, failure: Exception | None = None, env: list[str] | None = None) -> None:
        self._failure, self._env = failure, env
        self.logins: list[Any] = []

    def inspect_distribution(self, _image: str, login: Any) -> dict[str, Any]:
        self.logins.append(login)
        if self._failure:
            raise self._failure
        return {}

    def inspect_image(self, _image: str) -> dict[str, Any]:
        if self._failure:
            raise self._failure
        return {"Config": {"Env": self._env}}


def manager(**options: Any) -> tuple[Manager, Client]:
    client = Client(**options)
    return Manager(client, "unix:///run/x.sock", {"Cluster": {"ID": "c1"}, "NodeID": "m1"}), client


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
def test_what_a_registry_says(words: str | None, refused: bool, answers: bool) -> None:
    failure = APIError("500 Server Error", explanation=words) if words else None
    it, _client = manager(failure=failure)
    assert judged(it.registry_says("registry.example/a")) == (words if refused else None, answers)


def test_an_empty_login_is_none_and_no_login_is_the_managers_own() -> None:
    it, client = manager()
    for login in (None, {}, {"username": "u", "password": "p"}):
        it.registry_says("a", login)
    assert client.logins == [None, {}, {"username": "u", "password": "p"}]


def test_an_image_that_is_not_there_sets_nothing() -> None:
    assert manager(env=["A=1"])[0].image_environment("a") == ["A=1"]
    assert manager()[0].image_environment("a") == []
    missing = ImageNotFound("404", response=type("Response", (), {"status_code": 404})(), explanation="No such image: a")
    assert manager(failure=missing)[0].image_environment("a") == []
