# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.plugins.action import ActionBase
from docker_daemon import Daemon
from swarm_api import node

from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_members import ActionModule
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._docker_api.client import Client
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import label
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import Manager
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_members as module

TOKENS = {"Worker": "SWMTKN-1-worker", "Manager": "SWMTKN-1-manager"}


class FakeManager:
    """A swarm that shows its tokens only on request."""

    shown = False

    def nodes(self):
        return [node("n1", leader=True), node("n2", labels={"gpu-swarm.host": "g2"})]

    def names(self):
        return {"services": ["web"], "secrets": [], "configs": []}

    def join_tokens(self):
        self.shown = True
        return TOKENS


def run(monkeypatch, tokens=False, contents=False):
    manager = FakeManager()
    monkeypatch.setattr(module, "connect", lambda params: manager)
    return manager, module.run({"tokens": tokens, "contents": contents, "remove": None}, False)


def test_nodes_have_their_ids_and_addresses(monkeypatch):
    manager, result = run(monkeypatch)
    leader, member = result.pop("nodes")
    assert (result, manager.shown) == ({"changed": False}, False)
    assert (leader["ID"], leader["Description"], leader["ManagerStatus"]["Reachability"]) == ("n1", {"Hostname": "host-n1"}, "reachable")
    assert leader["Status"]["Addr"] == "192.0.2.1"
    assert member["Spec"]["Labels"] == {"gpu-swarm.host": "g2"}
    assert "ManagerStatus" not in member


@pytest.mark.parametrize(
    ("labels", "shown"), [({label.KEY: "ok", "rack": "r1"}, {"Labels": {label.KEY: "ok"}}), ({"rack": "r1"}, None), (None, None)]
)
def test_a_node_shows_the_health_that_it_reports(labels, shown):
    made = node("n1")
    made["Description"]["Engine"] = {"EngineVersion": "26.1.5", "Labels": labels}
    assert module._short(made)["Description"].get("Engine") == shown


def test_tokens_are_read_only_on_request(monkeypatch):
    manager, result = run(monkeypatch, tokens=True)
    assert (result["join_tokens"], manager.shown) == (TOKENS, True)
    assert len(result["nodes"]) == 2


def test_secrets_networks_and_the_like_are_read_only_on_request(monkeypatch):
    manager, result = run(monkeypatch, contents=True)
    assert (result["contents"], manager.shown) == (manager.names(), False)
    assert "contents" not in run(monkeypatch)[1]


def test_the_state_of_a_manager_is_read(tmp_path):
    daemon = Daemon(
        str(tmp_path / "d.sock"),
        answers={
            "/services": [{"Spec": {"Name": "web", "TaskTemplate": {"ContainerSpec": {"Env": ["PASSWORD=s3cret"]}}}}],
            "/secrets": [{"Spec": {"Name": "key"}}],
            "/configs": [{"Spec": {"Name": "app", "Data": "czNjcmV0"}}],
            "/swarm": {"JoinTokens": TOKENS, "Spec": {}},
        },
    )
    try:
        manager = Manager(Client(f"unix://{tmp_path / 'd.sock'}", version="1.41"), "unix:///run/x.sock", {"NodeID": "n1", "Cluster": {"ID": "c1"}})
        assert manager.names() == {"services": ["web"], "secrets": ["key"], "configs": ["app"]}
        assert manager.join_tokens() == TOKENS
    finally:
        daemon.close()


@pytest.mark.parametrize(("answer", "hidden"), [({"nodes": [], "join_tokens": TOKENS}, True), ({"nodes": []}, False), ({"failed": True}, False)])
def test_no_callback_sees_tokens_whatever_the_task_says(answer, hidden, monkeypatch):
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={}, delegate_to="m1")
    action._connection = None
    monkeypatch.setattr(action, "_execute_module", lambda **_call: dict(answer), raising=False)
    assert action.run(task_vars={"inventory_hostname": "g1"}).get("_ansible_no_log", False) is hidden
