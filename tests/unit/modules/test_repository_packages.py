# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module as a separate process. No package manager starts here: tests/e2e/test_repository_packages.py runs real package managers."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import module_process
import pytest
from openpgp_keys import ARMORED, EVIL, NVIDIA, armor

MANAGERS = {"apt": "apt-get", "dnf": "dnf", "zypper": "rpm"}  # package manager -> its first command
ADDRESS = "https://svc:S3cret@mirror.example.com/nvidia"


def module(work: Path, **arguments: object) -> dict:
    given = {
        "packages": ["nvidia-container-toolkit"],
        "version": "1.20.0-1",
        "definition": f"deb [signed-by=/k/key.asc] {ADDRESS}/stable/deb/amd64 /",
        "key_path": "/k/key.asc",
        "key_content": base64.b64encode(ARMORED).decode(),
        "fingerprint": NVIDIA,
        **arguments,
    }
    env = {"PATH": str(work), "TMPDIR": str(work)}  # a folder without programs
    return json.loads(module_process.run("repository_packages", {**given, "_ansible_remote_tmp": str(work)}, env).stdout)


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_missing_package_manager_is_an_error(manager, tmp_path):
    answer = module(tmp_path, manager=manager)
    assert (answer["failed"], answer["problem"]) == (True, "file")
    assert answer["msg"] == f"{MANAGERS[manager]}: No such file or directory"
    assert list(tmp_path.glob("gpu-swarm-*")) == []


@pytest.mark.parametrize(("manager", "first"), [("apt", "apt-cache"), ("dnf", "dnf"), ("zypper", "sh")])
def test_no_key_is_fetched_for_the_node_s_own_repositories(manager, first, tmp_path):
    answer = module(tmp_path, manager=manager, definition="", key_content=None, key_url="http://127.0.0.1:9/")
    assert (answer["problem"], answer["msg"]) == ("file", f"{first}: No such file or directory")


def test_no_password_of_a_mirror_is_returned(tmp_path):
    answer = module(tmp_path, manager="apt", key_url=f"{ADDRESS}/gpgkey")
    assert "S3cret" not in str(answer)
    assert answer["invocation"]["module_args"]["key_url"] == "https://svc:***@mirror.example.com/nvidia/gpgkey"
    assert "signed-by=/k/key.asc" in answer["invocation"]["module_args"]["definition"]


@pytest.mark.parametrize(
    ("arguments", "problem", "text"),
    [
        ({"key_content": base64.b64encode(armor(EVIL)).decode()}, "fingerprint", "from the controller is not accepted as the repository's key"),
        ({"key_content": base64.b64encode(b"<html>").decode()}, "fingerprint", "from the controller is not accepted as the repository's key"),
        ({"key_content": "?"}, "fingerprint", "from the controller is not accepted as the repository's key"),
        ({"key_content": None, "key_url": "http://127.0.0.1:9/"}, "url", "cannot fetch the repository's key from http://127.0.0.1:9/"),
        ({"key_content": None}, None, "definition is set without a key"),
        ({"fingerprint": "ABC"}, "fingerprint", "'ABC' is not the fingerprint of a key"),
    ],
)
def test_impossible_options_are_an_error(tmp_path, arguments, problem, text):
    answer = module(tmp_path, **{"manager": "apt", **arguments})
    assert (answer["failed"], answer.get("problem")) == (True, problem)
    assert text in answer["msg"]
    assert list(tmp_path.glob("gpu-swarm-*")) == []
