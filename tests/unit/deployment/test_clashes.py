# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Conflicts between a stack and its swarm are found before the deployment."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from swarm_api import node

from plugins.module_utils._deployment.clashes import Existing, Wanted, clashes
from plugins.module_utils._swarm.owned_labels import CONTENT

NAMESPACE = "com.docker.stack.namespace"
INGRESS = {"Name": "ingress", "Id": "i1", "Scope": "swarm", "Ingress": True}


def port(number: int, mode: str = "ingress", protocol: str = "tcp") -> dict[str, Any]:
    return {"PublishedPort": number, "TargetPort": 80, "PublishMode": mode, "Protocol": protocol}


def spec(name: str, *ports: dict[str, Any], mode: str = "Replicated") -> dict[str, Any]:
    return {"Name": name, "Mode": {mode: {}}, "EndpointSpec": {"Ports": list(ports)}}


def there(name: str, *ports: dict[str, Any], stack: str = "", mode: str = "Replicated", chosen: Any = ()) -> dict[str, Any]:
    return {"ID": f"id-{name}", "Spec": {**spec(name, *ports, mode=mode), "Labels": {NAMESPACE: stack}}, "Endpoint": {"Ports": list(chosen)}}


def found(*services: dict[str, Any], swarm: Any = (), networks: Any = (INGRESS,), engine: str = "26.1.5", **more: Any) -> list[str]:
    carried = {kind: more.pop(f"{kind}_there", []) for kind in ("configs", "secrets")}
    options = {"prune": False, "networks": {}, "attached": [], "contents": {}, **more}
    leads = node("m1", leader=True, engine=engine)
    return clashes(Wanted("s", services, **options), Existing([leads], list(swarm), list(networks), carried["configs"], carried["secrets"], "m1"))


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        (port(80), port(80), "s_a publishes port 80/tcp, which the service other has. Use another number, or remove that service."),
        (port(80, "host"), port(80), "s_a publishes port 80/tcp, which the service other has."),
        (port(80), port(80, "host"), "s_a publishes port 80/tcp, which the service other has on its nodes."),
        (port(80, "host"), port(80, "host"), None),  # the scheduler places the tasks on different nodes
        (port(80), port(80, protocol="udp"), None),
        (port(0), port(0), None),
        (port(80), port(81), None),
    ],
)
def test_a_port_that_another_service_has(mine: dict[str, Any], theirs: dict[str, Any], words: str | None) -> None:
    said = found(spec("s_a", mine), swarm=[there("other", theirs)])
    assert said == [] if words is None else said[0].startswith(words)


def test_a_port_that_swarm_has_chosen_for_another_service() -> None:
    assert "30000/tcp" in found(spec("s_a", port(30000)), swarm=[there("other", port(0), chosen=[port(30000)])])[0]


def test_its_own_port_is_no_clash_and_one_that_moves_within_the_stack_is() -> None:
    """Docker updates the services of a stack in any order, so a moved port may still be in use."""
    now = [there("s_a", port(80), stack="s")]
    assert found(spec("s_a", port(80)), swarm=now) == []
    (said,) = found(spec("s_a"), spec("s_b", port(80)), swarm=now)
    assert said.startswith("s_b publishes port 80/tcp, which s_a of this stack has now. Docker may deploy the new owner before the old one gives")


def test_a_port_of_a_service_that_is_pruned_is_free_by_then() -> None:
    now = [there("s_old", port(80), stack="s")]
    assert found(spec("s_b", port(80)), swarm=now, prune=True) == []
    assert len(found(spec("s_b", port(80)), swarm=now)) == 1
    assert len(found(spec("s_b", port(80)), swarm=[there("t_old", port(80), stack="t")], prune=True)) == 1


def test_a_mode_that_changes() -> None:
    (said,) = found(spec("s_a", mode="Global"), swarm=[there("s_a", stack="s")])
    assert said.startswith("s_a is replicated, and the file says global: swarm cannot change a service's mode.")
    assert "is replicated-job, and the file says replicated" in found(spec("s_a"), swarm=[there("s_a", stack="s", mode="ReplicatedJob")])[0]
    assert found(spec("s_a"), spec("s_b", mode="Global"), swarm=[there("s_a", stack="s")]) == []


def test_jobs_need_a_docker_that_reads_them() -> None:
    (said,) = found(spec("s_a", mode="ReplicatedJob"), engine="20.10.24+dfsg1")
    assert said.startswith("s_a is a job, and Docker 20.10.24+dfsg1 of the manager host-m1 cannot deploy jobs with a stack.")
    assert found(spec("s_a", mode="GlobalJob"), engine="23.0.0") == []
    assert found(spec("s_a"), engine="20.10.24") == []


def test_the_ingress_network() -> None:
    assert found(spec("s_a", port(80)), networks=[])[0].startswith("s_a publishes a port for the whole swarm, but the swarm has no ingress network.")
    assert found(spec("s_a", port(80, "host")), networks=[]) == []
    assert found(spec("s_a"), attached=["ingress"])[0].startswith("The stack's network ingress is the ingress network, which no service may join.")


def test_the_driver_of_a_network_is_one_that_the_managers_have() -> None:
    for driver in ("", "overlay"):
        assert clashing_network({"driver": driver}) == []
    for driver in ("weave", "weave:latest"):
        assert clashing_network({"driver": driver}, plugins=("overlay", "weave:latest")) == []
    (said,) = clashing_network({"driver": "none-such"})
    assert said == "The network s_n has the driver none-such, which the managers do not have. Install that plugin there, or remove the driver."


def clashing_network(options: dict[str, Any], *networks: dict[str, Any], plugins: Any = ("overlay",)) -> list[str]:
    leads = node("m1", leader=True)
    leads["Description"]["Engine"]["Plugins"] = [{"Type": "Network", "Name": name} for name in plugins]
    wanted = Wanted("s", [], False, {"s_n": options}, [], {})
    return clashes(wanted, Existing([leads], [], list(networks), [], [], "m1"))


def overlay(name: str, subnet: str, stack: str = "", scope: str = "swarm") -> dict[str, Any]:
    return {"Name": name, "Id": name, "Scope": scope, "Labels": {NAMESPACE: stack}, "IPAM": {"Config": [{"Subnet": subnet}]}}


def test_a_subnet_that_overlaps() -> None:
    (said,) = clashing_network({"subnets": ["10.9.0.0/25"]}, overlay("other", "10.9.0.0/24"))
    assert said.startswith("The subnet 10.9.0.0/25 of the network s_n overlaps with that of the network other.")
    assert clashing_network({"subnets": ["10.9.1.0/24", "fd00::/64"]}, overlay("other", "10.9.0.0/24")) == []
    assert clashing_network({"subnets": ["10.9.0.0/24"]}, overlay("s_n", "10.9.0.0/24", stack="s")) == []  # the stack already has this network
    assert clashing_network({"subnets": ["10.9.0.0/24"]}, overlay("bridge", "10.9.0.0/24", scope="local")) == []
    assert len(clashing_network({"subnets": ["10.9.0.0/24", "10.9.0.0/25"]})) == 1


def test_another_content_under_one_name() -> None:
    content = base64.b64encode(b"x").decode()
    config = {"Spec": {"Name": "settings", "Data": content, "Labels": {}}}
    same, other = (hashlib.sha256(text).hexdigest() for text in (b"x", b"y"))
    assert found(contents={"configs": {"settings": same, "new": other}}, configs_there=[config]) == []
    (said,) = found(contents={"configs": {"settings": other}}, configs_there=[config])
    assert said.startswith("The swarm already has a config settings with other content, and Docker cannot change it.")


def test_of_a_secret_its_label_has_the_digest() -> None:
    labelled, bare = ({"Spec": {"Name": "key", "Labels": labels}} for labels in ({CONTENT: "d1"}, {}))
    assert found(contents={"secrets": {"key": "d1"}}, secrets_there=[labelled]) == []
    assert "a secret key with other content" in found(contents={"secrets": {"key": "d2"}}, secrets_there=[labelled])[0]
    assert found(contents={"secrets": {"key": "d2"}}, secrets_there=[bare]) == []  # the content of a secret without this label is unknown
