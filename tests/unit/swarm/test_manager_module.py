# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every module that talks to a manager ends with its result and warnings, or with an error and its details."""

from __future__ import annotations

import importlib

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import manager_module
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError

MODULES = ("explain", "gpu_info", "gpu_verify", "job", "job_prune", "lease", "members", "nodes", "stack_on_manager", "tokens")
OPEN = {"docker_host": "tcp://192.0.2.1:2375", "validate_certs": False, "tls": False}


class Ended(Exception):
    pass


@pytest.fixture
def ended(monkeypatch):
    """Return ended(run, …). This function returns how the module ended, its answer, and its warnings."""

    class Module:
        def __init__(self, argument_spec, supports_check_mode):
            self.params, self.check_mode, self.warn = OPEN, True, warned.append
            assert {"docker_host", "mine"} <= set(argument_spec)
            assert supports_check_mode

        def exit_json(self, **answer):
            raise Ended("exit", answer)

        def fail_json(self, **answer):
            raise Ended("fail", answer)

    def call(run, **options):
        with pytest.raises(Ended) as caught:
            manager_module.main(run, {"mine": {"type": "str"}}, **options)
        return (*caught.value.args, warned)

    warned = []
    monkeypatch.setattr(manager_module, "AnsibleModule", Module)
    return call


def test_a_result_has_its_findings_and_a_warning_about_an_unprotected_api(ended):
    result = {"changed": False, "findings": [{"text": "held twice"}]}
    how, answer, warned = ended(lambda params, check_mode: dict(result, check_mode=check_mode))
    assert (how, answer) == ("exit", dict(result, check_mode=True))
    assert "is used without TLS" in warned[0]
    assert warned[1:] == ["held twice"]


def test_an_error_has_its_details(ended):
    def run(_params, _check_mode):
        raise SwarmError("gone", swarm_state="unreachable")

    assert ended(run, on_failure=lambda problem: {"wrong": isinstance(problem, SwarmError)}) == (
        "fail", {"msg": "gone", "wrong": True, "swarm_state": "unreachable"}, [],
    )  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_each_module_of_a_manager_ends_this_way(monkeypatch, name):
    module = importlib.import_module(f"ansible_collections.fleet.gpu_swarm.plugins.modules.swarm_{name}")
    called = []
    monkeypatch.setattr(manager_module, "main", lambda *given, **_more: called.append(given))
    module.main()
    assert len(called) == 1
