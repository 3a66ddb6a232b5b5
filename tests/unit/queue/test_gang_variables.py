# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from queue_swarm import Driver, QueueSwarm
from queued import GPU, NOW, gpu_node, on_host, queued, state_of
from swarm_api import task as a_task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.refusal import with_code
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admissions import admissions
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.gang_variables import PORTS, free_port, with_variables
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import LABEL, from_text
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.settle import View
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.waiting import read

REFUSED = with_code("held-twice", "the service train0 is refused on this node (isolation: exclusive): task b has its GPU")
NODES = (gpu_node("n1", data=("10.0.0.1", "ib0")), gpu_node("n2", data=("10.0.0.2", "bond0")), gpu_node("n3", data=("10.0.0.3", "ib3")))


def member(rank, host=False, gpus=8, name="train", reserves=None, env=None):
    service = queued("%s%d" % (name, rank), reserves or {GPU: gpus}, gang="%s:%d/2 any" % (name, rank))
    service["Spec"]["TaskTemplate"]["ContainerSpec"].update({} if env is None else {"Env": env})
    return on_host(service) if host else service


def admitted(*services, nodes=NODES, rounds=1):
    run = Driver(QueueSwarm(services, nodes))
    run.rounds(rounds, 60)
    return run


def env_of(run, name):
    return run.swarm.services_now["id" + name]["Spec"]["TaskTemplate"]["ContainerSpec"].get("Env")


def variables_of(run, name):
    return dict(entry.split("=", 1) for entry in env_of(run, name))


def port_of(run, name):
    return from_text(run.swarm.state(name)).port


# -- what a member gets ----------------------------------------------------------------------------------------------


def test_on_the_hosts_network_members_meet_at_the_data_address_of_rank_0():
    run = admitted(member(0, True), member(1, True))
    port = str(port_of(run, "train0"))
    common = {"NNODES": "2", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": port}
    assert variables_of(run, "train0") == {"NODE_RANK": "0", **common, "NCCL_SOCKET_IFNAME": "=ib0", "GLOO_SOCKET_IFNAME": "ib0"}
    assert variables_of(run, "train1") == {"NODE_RANK": "1", **common, "NCCL_SOCKET_IFNAME": "=bond0", "GLOO_SOCKET_IFNAME": "bond0"}
    assert sorted(run.swarm.began) == ["idtrain0", "idtrain1"]  # the variables and the task came in one update


def test_on_an_overlay_members_meet_at_the_name_of_rank_0():
    run = admitted(member(0), member(1))
    port = str(port_of(run, "train0"))
    assert variables_of(run, "train1") == {
        "NODE_RANK": "1", "NNODES": "2", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "train0", "MASTER_PORT": port
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reserves", "local"),
    [
        ({GPU: 2}, "2"),
        ({GPU: 1, "T4": 3}, "4"),
        ({"VRAM": 16000}, "1"),
        ({"NanoCPUs": 10**9}, "1"),
        ({GPU: 1, "VRAM": 129}, "2"),
        ({"SLOT": 128}, "128"),
    ],
)
def test_a_member_starts_one_process_for_each_card(reserves, local):
    nodes = [gpu_node("n%d" % number) for number in range(2)]
    for node in nodes:
        node["Description"]["Resources"]["GenericResources"] += [
            {"DiscreteResourceSpec": {"Kind": kind, "Value": amount}} for kind, amount in {"VRAM": 20000, "T4": 3, "SLOT": 200}.items()
        ]
    swarm = QueueSwarm([member(rank, reserves=reserves) for rank in (0, 1)], nodes)
    swarm.places = False
    run = Driver(swarm)
    run.round()
    found = variables_of(run, "train0")
    assert (found["LOCAL_WORLD_SIZE"], found["WORLD_SIZE"]) == (local, str(2 * int(local)))


def test_work_without_a_gang_gets_no_variables():
    assert env_of(admitted(queued("a"), on_host(queued("b"))), "b") is None


def test_the_users_variables_stay_and_names_of_ours_are_replaced():
    env = ["A=1", "MASTER_ADDR=elsewhere", "NODE_RANK=9", "NCCL_SOCKET_IFNAME=eth7", "B=a=b", "EMPTY"]
    run = admitted(member(0, True, env=env), member(1, True))
    found = env_of(run, "train0")
    assert found[:5] == ["A=1", "NCCL_SOCKET_IFNAME=eth7", "B=a=b", "EMPTY", "NODE_RANK=0"]
    assert [entry for entry in found if "IFNAME" in entry] == ["NCCL_SOCKET_IFNAME=eth7", "GLOO_SOCKET_IFNAME=ib0"]
    assert found.count("MASTER_ADDR=10.0.0.1") == 1


def test_another_try_on_other_nodes_gets_their_interfaces():
    run = admitted(member(0, True, env=["GLOO_SOCKET_IFNAME=mine"]), member(1, True))
    before = port_of(run, "train0")
    run.swarm.end("train0", "failed", REFUSED, 125)
    run.rounds(20, 60)
    assert [from_text(run.swarm.state(name)).node for name in ("train0", "train1")] == ["n2", "n3"]
    first, second = variables_of(run, "train0"), variables_of(run, "train1")
    assert (first["NCCL_SOCKET_IFNAME"], first["GLOO_SOCKET_IFNAME"], second["GLOO_SOCKET_IFNAME"]) == ("=bond0", "mine", "ib3")
    assert (first["MASTER_ADDR"], second["MASTER_ADDR"]) == ("10.0.0.2", "10.0.0.2")
    assert len(env_of(run, "train0")) == 8
    assert port_of(run, "train0") != before


@pytest.mark.parametrize(
    ("environment", "again", "left"),
    [
        (["NODE_RANK=1", "NCCL_SOCKET_IFNAME=x"], True, []),
        (["NODE_RANK=1", "NCCL_SOCKET_IFNAME=x"], False, ["NCCL_SOCKET_IFNAME=x"]),
        (["NCCL_SOCKET_IFNAME=x", "NODE_RANK=1", "NCCL_SOCKET_IFNAME=y", "A=1"], True, ["NCCL_SOCKET_IFNAME=x", "A=1"]),
        (["NCCL_SOCKET_IFNAME=x"], True, ["NCCL_SOCKET_IFNAME=x"]),
        ([], True, []),
    ],
)
def test_an_interface_of_an_earlier_admission_is_not_the_users(environment, again, left):
    assert with_variables(environment, {}, again) == left


# -- the port --------------------------------------------------------------------------------------------------------


def test_two_gangs_whose_rank_0_is_on_one_node_have_different_ports():
    services = [member(rank, True, gpus=1, name="g%d" % number) for number in range(20) for rank in (0, 1)]
    run = admitted(*services, nodes=[gpu_node("n1", 64, data=("10.0.0.1", "ib0")), gpu_node("n2", 64, data=("10.0.0.2", "ib0"))], rounds=2)
    ports = [port_of(run, "g%d0" % number) for number in range(20)]
    assert len(set(ports)) == 20
    assert set(ports) <= set(range(29400, 30000))
    assert [port_of(run, "g%d1" % number) for number in range(20)] == ports


def test_two_gangs_of_one_decision_have_different_ports():
    run = Driver(QueueSwarm([member(rank, True, gpus=1, name=name) for name in ("a", "b") for rank in (0, 1)], NODES))
    run.swarm.new_id = lambda: "k"
    run.restart()
    run.round(60)
    assert port_of(run, "b0") == port_of(run, "a0") + 1


def test_a_gang_that_stops_has_its_port_until_its_tasks_have_ended():
    label = "over attempt=1 node=n1 admission=k port=%d plan=idold0:n1,idold1:n2 result=x" % free_port("k", ())
    over = queued("old0", {GPU: 1}, state=label, replicas=1)
    for state, same in (("running", False), ("shutdown", True)):
        services = {service["ID"]: service for service in (over, member(0, True, gpus=1), member(1, True, gpus=1))}
        tasks = {"idold0": [a_task("t", "n1", state=state, service="idold0", reserves={GPU: 1})]}
        view = View(services, tasks, check_queues({"research": {}}), frozenset(), NOW)
        found = admissions(view, state_of(NODES), lambda: "k", {}).changes[0]
        assert (" port=%d " % free_port("k", ()) in found.spec["Labels"][LABEL]) is same


def test_a_successor_writes_the_same_port_and_address():
    run = Driver(QueueSwarm([member(0, True), member(1, True)], NODES))
    run.swarm.killed_after = 3  # the first two updates only keep the nodes while they pull the image
    run.round(60)
    assert run.swarm.state("train0").startswith("admitted")
    assert env_of(run, "train1") is None
    run.rounds(4, 60)
    first, second = variables_of(run, "train0"), variables_of(run, "train1")
    assert (second["MASTER_ADDR"], second["MASTER_PORT"]) == (first["MASTER_ADDR"], first["MASTER_PORT"])
    assert second["GLOO_SOCKET_IFNAME"] == "bond0"
    assert run.swarm.state("train1") == run.swarm.state("train0").replace("node=n1", "node=n2")


def test_a_port_is_free_again_when_its_gang_has_ended():
    every = set(PORTS)
    assert free_port("k1", ()) == free_port("k1", every - {free_port("k1", ())})
    assert free_port("k1", {free_port("k1", ())}) == free_port("k1", ()) + 1
    last = next(key for key in map(str, range(10**5)) if free_port(key, ()) == 29999)
    assert free_port(last, {29999}) == 29400
    assert free_port("k1", every) in every
    run = admitted(*[member(rank, True, gpus=1) for rank in (0, 1)])
    run.swarm.end("train0")
    run.swarm.end("train1")
    run.round(60)
    taken = port_of(run, "train0")
    ids = (key for key in map(str, range(10**5)) if free_port(key, ()) == taken)
    run.swarm.new_id = lambda: next(ids)
    run.restart()
    for rank in (0, 1):
        run.swarm.submit(member(rank, True, gpus=1, name="next"))
    run.rounds(5, 60)
    assert port_of(run, "next0") == taken


# -- which nodes, and which networks ---------------------------------------------------------------------------------


def test_a_gang_on_the_hosts_network_goes_only_to_nodes_with_a_data_address():
    nodes = [gpu_node("n1"), gpu_node("n2", data=("10.0.0.2", "bond0")), gpu_node("n3", data=("10.0.0.3", "ib3"))]
    run = admitted(member(0, True), member(1, True), nodes=nodes)
    assert [from_text(run.swarm.state(name)).node for name in ("train0", "train1")] == ["n2", "n3"]
    others = admitted(member(0), member(1), on_host(queued("alone", {GPU: 8})), nodes=nodes)
    assert {from_text(others.swarm.state(name)).node for name in ("train0", "train1", "alone")} == {"n1", "n2", "n3"}


@pytest.mark.parametrize("data", [None, ("10.0.0.1", ""), ("", "ib0")])
def test_without_enough_nodes_with_a_data_address_it_says_so(data):
    nodes = [gpu_node("n1", data=data), gpu_node("n2", data=("10.0.0.2", "bond0"))]
    run = admitted(member(0, True), member(1, True), nodes=nodes)
    assert run.swarm.state("train0") == "waiting"
    (reason,) = {one.reason for one in run.admitter.last.decisions}
    assert reason.code == "no-data-address"
    assert reason.text == "its gang is on the host's network, and nodes lack the label gpu-swarm.data-address: host-n1; provision writes it"


def test_gangs_on_both_kinds_of_networks_wait_at_the_same_time():
    nodes = [gpu_node("n1"), gpu_node("n2", data=("10.0.0.2", "bond0")), gpu_node("n3", data=("10.0.0.3", "ib3"))]
    run = admitted(*(member(rank, host, 4, name) for name, host in (("a", False), ("b", True)) for rank in (0, 1)), nodes=nodes)
    assert {from_text(run.swarm.state(name)).node for name in ("a0", "a1")} == {"n1", "n2"}
    assert {from_text(run.swarm.state(name)).node for name in ("b0", "b1")} == {"n2", "n3"}


def test_if_the_fleet_is_too_small_anyway_the_labels_are_not_the_reason():
    run = admitted(member(0, True), member(1, True), nodes=[gpu_node("n1")])
    assert {one.reason.code for one in run.admitter.last.decisions} == {"fits-nowhere"}


NONE = "its gang has no network on which its members reach each other; create them with --network host, or with an overlay network"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"networks": []}, NONE),
        ({"networks": None}, NONE),
        ({"mode": "vip", "endpoint": {"VirtualIPs": [{"NetworkID": "overlay1", "Addr": "10.0.1.2/24"}]}}, "its gang has a virtual IP address"),
        ({"mode": "vip", "endpoint": {}}, "swarm has not set up the network of its gang yet"),
        ({"mode": None, "endpoint": None}, "swarm has not set up the network of its gang yet"),
    ],
)
def test_a_gang_whose_members_could_not_meet_waits_with_the_reason(change, problem):
    service = member(0)
    if "networks" in change:
        service["Spec"]["TaskTemplate"]["Networks"] = change["networks"]
    if "mode" in change:
        service["Spec"]["EndpointSpec"] = {"Mode": change["mode"]} if change["mode"] else None
        service["Endpoint"] = change["endpoint"]
    found = read(service, check_queues({"research": {}}))
    assert found.work is None
    assert problem in found.problem


def test_an_address_on_the_ingress_network_is_no_address_of_the_gang():
    service = member(0, True)
    service["Endpoint"]["VirtualIPs"].append({"NetworkID": "ingress", "Addr": "10.0.0.2/24"})
    assert read(service, check_queues({"research": {}})).work.gang.network == "host"


def test_networks_at_the_old_place_of_the_specification_count():
    service = member(0)
    service["Spec"]["Networks"] = service["Spec"]["TaskTemplate"].pop("Networks")
    assert read(service, check_queues({"research": {}})).work.gang.network == "overlay1"


def test_the_order_of_networks_does_not_matter():
    services = [member(rank) for rank in (0, 1)]
    for service, order in zip(services, ("ab", "ba"), strict=True):
        service["Spec"]["TaskTemplate"]["Networks"] = [{"Target": name} for name in order]
    assert {read(service, check_queues({"research": {}})).work.gang.network for service in services} == {"a,b"}


def test_members_on_different_networks_do_not_start():
    run = admitted(member(0), member(1, True))
    assert {one.reason.text for one in run.admitter.last.decisions} == {"the members of its gang train are on different networks"}


# -- how long members may take ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("label", "seconds", "shown"), [("90s", 90, "90s"), ("20m", 1200, "20m"), (None, 1800, "30m")])
def test_members_must_run_within_the_start_timeout(label, seconds, shown):
    services = [member(rank) for rank in (0, 1)]
    for service in services:
        service["Spec"]["Labels"].update({"gpu-swarm.start-timeout": label} if label else {})
    run = admitted(*services)
    for task in run.swarm.tasks_of("idtrain1"):
        task["Status"]["State"] = "preparing"
    run.round(seconds - 1)
    assert run.swarm.state("train0").startswith("admitted")
    run.round(1)
    assert run.swarm.state("train0").endswith("result=stopped: train1 of its gang did not run within %s" % shown)


@pytest.mark.parametrize("label", ["soon", "0s", "30", "none", ""])
def test_an_unreadable_start_timeout_is_said(label):
    service = member(0)
    service["Spec"]["Labels"]["gpu-swarm.start-timeout"] = label
    found = read(service, check_queues({"research": {}}))
    assert found.problem == "its label gpu-swarm.start-timeout is %r; write a duration such as 90s, 30m or 2h" % label


def test_if_somebody_spoils_the_start_timeout_later_the_usual_one_counts():
    run = admitted(member(0), member(1))
    run.swarm.change("train1", lambda spec: spec["Labels"].update({"gpu-swarm.start-timeout": "?"}))
    for task in run.swarm.tasks_of("idtrain1"):
        task["Status"]["State"] = "preparing"
    run.round(1000)
    assert run.swarm.state("train0").startswith("admitted")
    run.round(1000)
    assert run.swarm.state("train0").endswith("did not run within 30m")
