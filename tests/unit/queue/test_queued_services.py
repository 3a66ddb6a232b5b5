# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from queue_swarm import QueueSwarm
from queued import queued

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queued_services import MOST_READ, QueuedServices
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import ANY, SwarmError


@pytest.fixture
def swarm():
    return QueueSwarm([queued("a"), queued("b")])


@pytest.fixture
def services(swarm):
    cache = QueuedServices(lambda: swarm.clock)
    cache.listens = True
    cache.read(swarm)
    swarm.calls.clear()
    return cache


def names(services, swarm):
    return sorted(service["Spec"]["Name"] for service in services.read(swarm).values())


def test_only_changed_services_are_read_again(services, swarm):
    swarm.submit(queued("c"))
    del swarm.services_now["idb"]
    swarm.change("a", lambda spec: spec["Labels"].pop("gpu-swarm.queue"))
    assert names(services, swarm) == ["a", "b"]
    for service_id in ("ida", "idb", "idc", "ida", "unknown"):
        services.changed(service_id)
    assert names(services, swarm) == ["c"]
    assert swarm.calls == ["read service"] * 4
    assert names(services, swarm) == ["c"]
    assert swarm.calls == ["read service"] * 4


def test_if_very_many_changed_one_list_is_read(services, swarm):
    for number in range(MOST_READ + 1):
        services.changed("id%d" % number)
    services.read(swarm)
    assert swarm.calls == ["list services"]


@pytest.mark.parametrize(
    ("listens", "passed", "calls"), [(True, 299, []), (True, 300, ["list services"]), (False, 9, []), (False, 10, ["list services"])]
)
def test_without_events_the_list_is_read_more_often(services, swarm, listens, passed, calls):
    services.listens = listens
    swarm.clock += passed
    services.read(swarm)
    assert swarm.calls == calls


def test_the_former_template_of_a_service_is_not_kept_in_memory(services, swarm):
    swarm.change("a", lambda spec: spec["Labels"].update(new="label"))
    services.changed("ida")
    kept = services.read(swarm)["ida"]
    assert kept["PreviousSpec"].keys() == {"Name", "Labels", "Mode"}
    assert "TaskTemplate" in kept["Spec"]
    services.changed("")
    assert services.read(swarm)["ida"] == kept


def test_after_a_failure_the_changed_services_are_still_read(services, swarm):
    services.changed("ida")
    working, swarm.service = swarm.service, failing
    with pytest.raises(SwarmError):
        services.read(swarm)
    swarm.service = working
    swarm.change("a", lambda spec: spec["Labels"].update(new="label"))
    assert services.read(swarm)["ida"]["Spec"]["Labels"]["new"] == "label"


def test_events_say_which_services_changed_until_they_end(services, swarm):
    """Events of nodes say nothing about services. Before the stream opens, any service may have changed."""
    swarm.change("a", lambda spec: spec["Labels"].pop("gpu-swarm.queue"))
    services.listens = False
    for _event in services.follow([("node", "ida"), ("service", "idc")]):
        assert services.listens
    assert names(services, swarm) == ["a", "b"]
    assert swarm.calls == ["read service"]
    assert not services.listens
    assert list(services.follow([ANY])) == [None]
    assert names(services, swarm) == ["b"]
    assert swarm.calls == ["read service", "list services"]


def test_events_of_other_services_begin_no_round(services, swarm):
    """If somebody adds the label to such a service, the next list finds the service."""
    swarm.submit({**queued("web"), "Spec": {**queued("web")["Spec"], "Labels": {}}})
    assert list(services.follow([("service", "idweb")])) == [None]
    services.read(swarm)
    swarm.change("web", lambda spec: spec["Labels"].update({"gpu-swarm.queue": "research"}))
    assert list(services.follow([("service", "idweb")])) == []
    assert names(services, swarm) == ["a", "b"]
    services.listens = True
    swarm.clock += 300
    assert names(services, swarm) == ["a", "b", "web"]
    assert list(services.follow([("service", "idweb"), ("node", "n1")])) == [None, None]


def test_if_this_manager_does_not_lead_only_nodes_begin_a_round(services, swarm):
    services.forget()
    assert list(services.follow([("service", "ida"), ("node", "n1"), ANY])) == [None, None]
    services.read(swarm)
    assert list(services.follow([("service", "ida")])) == [None]


def test_a_manager_that_does_not_lead_keeps_few_of_the_events(services, swarm):
    for number in range(1000):
        services.changed("id%d" % number)
    assert len(services._changed) == MOST_READ + 1


def test_after_a_list_failed_the_next_read_is_a_list(services, swarm):
    for number in range(MOST_READ + 1):
        services.changed("id%d" % number)
    working, swarm.each_service = swarm.each_service, failing
    with pytest.raises(SwarmError):
        services.read(swarm)
    swarm.each_service = working
    swarm.submit(queued("c"))
    assert names(services, swarm) == ["a", "b", "c"]


def failing(_service_id):
    raise SwarmError("the manager does not answer")
