# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the logins that 'docker login' stored on this machine, with real files and helper programs."""

from __future__ import annotations

import base64
import json

import pytest

from plugins.module_utils._docker_api import logins
from plugins.module_utils._docker_api.logins import HEADER, login_header, read_login, registry_of
from plugins.module_utils._docker_api.problems import LoginUnreadable

HUB = "https://index.docker.io/v1/"


def encoded(text):
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return the function machine(config, **helpers). It returns environment variables. A helper is a shell script with the server in $server."""

    def build(config, **helpers):
        (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
        for name, script in helpers.items():
            program = tmp_path / f"docker-credential-{name}"
            program.write_text(f'#!/bin/sh\n[ "$1" = get ] || exit 9\nserver=$(cat)\n{script}\n')
            program.chmod(0o755)
        return {"DOCKER_CONFIG": str(tmp_path)}

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return build


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", "docker.io"),
        ("nvidia/cuda:13", "docker.io"),
        ("registry.example/team/train:1", "registry.example"),
        ("registry:5000/train@sha256:" + 64 * "a", "registry:5000"),
        ("localhost/train", "localhost"),
        ("index.docker.io/team/train", "docker.io"),
    ],
)
def test_the_registry_of_an_image(image, registry):
    assert registry_of(image) == registry


@pytest.mark.parametrize("key", ["registry.example", "https://registry.example", "https://registry.example/v1/"])
def test_a_login_of_the_file(machine, key):
    environ = machine({"auths": {"other.example": {"auth": encoded("o:p")}, key: {"auth": encoded("ci:pa:ss")}}})
    assert read_login("registry.example/a", environ) == {"username": "ci", "password": "pa:ss", "serveraddress": key}
    assert read_login("nowhere.example/a", environ) is None


@pytest.mark.parametrize("key", [HUB, "docker.io", "index.docker.io"])
def test_the_login_of_docker_hub(machine, key):
    assert read_login("busybox", machine({"auths": {key: {"auth": encoded("u:p")}}}))["username"] == "u"


def test_an_identity_token_goes_before_a_password(machine):
    environ = machine({"auths": {"registry.example": {"auth": encoded("<token>:"), "identitytoken": "t0ken"}}})
    assert read_login("registry.example/a", environ) == {"identitytoken": "t0ken", "serveraddress": "registry.example"}


ANSWER = """echo '{"ServerURL": "x", "Username": "%s", "Secret": "'$server'"}'"""


@pytest.mark.parametrize(
    ("config", "image", "login"),
    [
        ({"credsStore": "desk"}, "registry.example/a", {"username": "desk", "password": "registry.example", "serveraddress": "registry.example"}),
        ({"credsStore": "desk"}, "busybox", {"username": "desk", "password": HUB, "serveraddress": HUB}),
        (
            {"credsStore": "desk", "credHelpers": {"registry.example": "cloud"}},
            "registry.example/a",
            {"identitytoken": "registry.example", "serveraddress": "registry.example"},
        ),
        ({"credHelpers": {HUB: "desk"}}, "busybox", {"username": "desk", "password": HUB, "serveraddress": HUB}),
        ({"credHelpers": {"other.example": "desk"}}, "registry.example/a", None),
    ],
)
def test_a_login_of_a_helper(machine, config, image, login):
    assert read_login(image, machine(config, desk=ANSWER % "desk", cloud=ANSWER % "<token>")) == login


@pytest.mark.parametrize("script", ["echo 'credentials not found in native keychain'; exit 1", """echo '{"Username": "", "Secret": ""}'"""])
def test_a_helper_without_a_login_leaves_it_to_the_file(machine, script):
    environ = machine({"credsStore": "desk", "auths": {"registry.example": {"auth": encoded("u:p")}, "bare.example": {}}}, desk=script)
    assert read_login("registry.example/a", environ)["username"] == "u"
    assert read_login("bare.example/a", environ) is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"credsStore": "gone"}, "config.json names docker-credential-gone for the login to registry.example, which cannot be run: .*No such file"),
        ({"credsStore": "desk"}, "which failed: locked. Run 'docker login registry.example'"),
        ({"credsStore": "silent"}, "which failed: exit status 3. Run"),
        ({"credsStore": "spilled"}, r'which failed: {"Secret":"\*\*\*"}'),
        ({"credsStore": "odd"}, "whose answer is not a login"),
        ({"auths": {"registry.example": {"auth": "%%%"}}}, "config.json: the login to registry.example is not base64 text"),
    ],
)
def test_a_login_that_cannot_be_read_names_its_file_and_registry(machine, config, words):
    spilled = """echo '{"Secret":"hunter22"}' >&2; exit 1"""
    environ = machine(config, desk="echo locked; exit 1", odd="echo odd", silent="exit 3", spilled=spilled)
    with pytest.raises(LoginUnreadable, match=words):
        read_login("registry.example/a", environ)


def test_a_helper_that_hangs_is_given_up(machine, monkeypatch):
    monkeypatch.setattr(logins, "LIMIT_S", 1)
    with pytest.raises(LoginUnreadable, match="docker-credential-hung for .*, which gave no answer within 1 s. Run 'docker login registry"):
        read_login("registry.example/a", machine({"credsStore": "hung"}, hung="exec sleep 60"))


@pytest.mark.parametrize("config", ["{", "[]", '{"auths": null}', '{"auths": {"registry.example": null}}', '{"HttpHeaders": {}}'])
def test_no_login_at_all(machine, config):
    assert read_login("registry.example/a", machine(config)) is None


def test_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_login("registry.example/a", {}) is None
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {"registry.example": {"auth": encoded("u:p")}}}))
    assert read_login("registry.example/a", {})["username"] == "u"


def test_the_header():
    assert login_header(None) == {}
    assert login_header({}) == {HEADER: "e30="}
    assert json.loads(base64.urlsafe_b64decode(login_header({"password": "ü?>"})[HEADER])) == {"password": "ü?>"}
