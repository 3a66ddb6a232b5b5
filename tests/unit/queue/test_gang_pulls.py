# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images of gangs are pulled on the chosen nodes before the gangs are admitted."""

from __future__ import annotations

import pytest
from queue_swarm import Driver, QueueSwarm
from queued import GPU, gpu_node, queued

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.gang_pulls import GangPulls, Pull
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_view import queue_view
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues

IMAGE = "my/training:1"
NAMES = ("gang0", "gang1")


def gang(image=IMAGE):
    made = [queued("gang%d" % rank, {GPU: 8}, gang="train:%d/2 any" % rank) for rank in (0, 1)]
    for service in made:
        service["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"] = image
    return made


class Slow(Driver):
    """A driver whose pulls run until the test ends them."""

    def round(self, seconds=15, leads=True):
        return self._round(seconds, leads)


def waiting(services, nodes=()):
    run = Slow(QueueSwarm(services, nodes))
    run.round()
    return run


def pulled_on(run):
    templates = [service["Spec"]["TaskTemplate"] for service, _task in run.swarm.pulls.values()]
    return sorted((template["Placement"]["Constraints"][0], template["ContainerSpec"]["Image"]) for template in templates)


def states(run):
    return [run.swarm.state(name).partition(" ")[0] for name in NAMES]


def reasons(run):
    return {one.reason.text for one in run.admitter.last.decisions if one.reason}


def rows(run):
    swarm = run.swarm
    view = queue_view(Listed(swarm.nodes_now, list(swarm.tasks()), swarm.services(), swarm.clock), check_queues({"research": {}}), swarm.clock)
    return {row["service"]: row for row in view["work"]}


def test_a_gang_waits_until_all_its_nodes_have_pulled_its_image():
    run = waiting(gang())
    assert pulled_on(run) == [("node.id==n1", IMAGE), ("node.id==n2", IMAGE)]
    for _round in range(3):
        run.round()
        assert [run.swarm.state(name) for name in NAMES] == ["waiting keeps=n1,n2", "waiting keeps=n1,n2"]
    assert reasons(run) == {"its image is pulled before all members of its gang start; not yet there: host-n1, host-n2"}
    assert {row["reason"] for row in rows(run).values()} == {"pulls-image"}
    assert run.swarm.writes == 2
    run.swarm.end_pulls()
    run.round()
    assert states(run) == ["admitted", "admitted"]
    assert run.swarm.began == ["idgang0", "idgang1"]
    assert run.swarm.pulls == {}


def test_nobody_else_gets_the_room_meanwhile():
    run = waiting(gang())
    run.swarm.submit(queued("later", {GPU: 1}))
    run.rounds(3)
    assert run.swarm.state("later") == "waiting keeps=n1"
    run.swarm.end_pulls()
    run.round()
    assert run.swarm.began == ["idgang0", "idgang1"]


def test_work_on_one_node_is_not_pulled_before():
    run = waiting([queued("a")])
    assert (run.swarm.pulls, run.swarm.began) == ({}, ["ida"])


def test_a_node_that_cannot_pull_is_avoided_for_a_while():
    run = waiting(gang(), [gpu_node("n1"), gpu_node("n2"), gpu_node("n3")])
    run.swarm.pull_fails = lambda node, _image: "No space left on device" if node == "n2" else None
    run.swarm.end_pulls()
    run.round()
    assert run.swarm.state("gang1") == "waiting avoids=n2 result=refused: the node could not pull its image: No space left on device"
    run.round()
    assert pulled_on(run) == [("node.id==n3", IMAGE)]  # n1 has the image
    run.swarm.end_pulls()
    run.round()
    assert [run.swarm.state(name).partition(" node=")[2][:2] for name in NAMES] == ["n1", "n3"]


def test_a_node_that_goes_down_during_the_pull_is_not_avoided_when_it_is_back():
    run = waiting(gang())
    run.swarm.end_pulls()
    for service, task in run.swarm.pulls.values():
        if service["Spec"]["TaskTemplate"]["Placement"]["Constraints"] == ["node.id==n2"]:
            task.update(Status={"State": "preparing"}, DesiredState="shutdown")
    run.swarm.nodes_now[1]["Status"]["State"] = "down"
    run.rounds(2)
    assert "avoids" not in run.swarm.state("gang1")
    run.swarm.nodes_now[1]["Status"]["State"] = "ready"
    run.round()
    assert ("node.id==n2", IMAGE) in pulled_on(run)
    run.swarm.end_pulls()
    run.round()
    assert states(run) == ["admitted", "admitted"]


def test_without_another_node_the_gang_waits_with_that_reason():
    run = waiting(gang())
    run.swarm.pull_fails = lambda node, _image: "No space left on device" if node == "n2" else None
    run.swarm.end_pulls()
    run.rounds(2)
    assert {row["text"] for row in rows(run).values() if row["service"] == "gang1"} == {
        "the nodes with room for it refused it before: host-n2 (refused: the node could not pull its image: No space left on device)"
    }
    run.swarm.pull_fails = lambda node, _image: None
    for _round in range(60):
        run.round()
        run.swarm.end_pulls()
    assert states(run) == ["admitted", "admitted"]


def test_if_no_node_can_pull_the_members_start_anyway():
    """Nodes may still pull with the user's login, which is in the services of the gang."""
    run = waiting(gang())
    run.swarm.pull_fails = lambda _node, _image: "No such image"
    run.swarm.end_pulls()
    run.round()
    assert states(run) == ["admitted", "admitted"]


def test_if_pulls_cannot_begin_the_members_start_anyway():
    swarm = QueueSwarm(gang())

    def fails(_spec, _login=None):
        raise GpuSwarmError("the login to the registry cannot be read on this machine")

    swarm.create_service = fails
    Slow(swarm).rounds(2)
    assert swarm.began == ["idgang0", "idgang1"]


def test_an_image_that_no_other_node_wants_fails_alone():
    services = gang()
    services[1]["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"] = "my/private:1"
    run = waiting(services)
    run.swarm.pull_fails = lambda _node, image: "No such image" if image == "my/private:1" else None
    run.swarm.end_pulls()
    run.round()
    assert states(run) == ["admitted", "admitted"]


def test_after_a_failure_the_node_pulls_again():
    swarm, pulls = QueueSwarm([]), GangPulls(lambda: 0.0)
    wanted = [Pull("ida", "n1", IMAGE), Pull("idb", "n2", IMAGE)]
    pulls.go_on(swarm, wanted)
    swarm.pull_fails = lambda node, _image: "a full disk" if node == "n2" else None
    swarm.end_pulls()
    assert pulls.go_on(swarm, wanted) == [(wanted[1], "a full disk")]
    assert pulls.go_on(swarm, wanted) == []
    assert [service["Spec"]["TaskTemplate"]["Placement"]["Constraints"] for service, _task in swarm.pulls.values()] == [["node.id==n2"]]


def test_the_next_gang_pulls_again():
    run = waiting(gang())
    run.swarm.end_pulls()
    run.rounds(2)
    for name in NAMES:
        run.swarm.end(name)
    run.rounds(2)
    for rank in (0, 1):
        run.swarm.submit(queued("next%d" % rank, {GPU: 8}, gang="next:%d/2 any" % rank))
    run.rounds(4)
    assert len(pulled_on(run)) == 2


def test_without_gangs_nobody_asks_for_pulls_more_than_once():
    run = Slow(QueueSwarm([queued("a%d" % number, {GPU: 8}) for number in range(4)]))
    asked = []
    run.swarm.services_labelled = lambda label: asked.append(label) or []
    run.rounds(8)
    assert len(asked) == 1


def test_pulls_of_a_deployment_are_none_of_a_gang():
    run = waiting(gang())
    for service, _task in run.swarm.pulls.values():
        service["Spec"]["Labels"]["gpu-swarm.pull"] = "stack"
    assert {row["reason"] for row in rows(run).values()} == {"may-start"}


def test_one_failure_decides_nothing_while_another_node_still_pulls():
    run = waiting(gang())
    (_service, task), _other = run.swarm.pulls.values()
    task["Status"] = {"State": "rejected", "Err": "No such image"}
    run.rounds(2)
    assert states(run) == ["waiting", "waiting"]
    assert " avoids=" not in " ".join(run.swarm.state(name) for name in NAMES)
    run.swarm.end_pulls()
    run.round()
    assert " avoids=" in " ".join(run.swarm.state(name) for name in NAMES)


def test_a_pull_that_never_ends_counts_as_failed():
    run = waiting(gang())
    (_service, task), _other = run.swarm.pulls.values()
    task["Status"] = {"State": "failed", "ContainerStatus": {"ContainerID": "c"}}
    run.round()
    run.round(1784)
    assert states(run) == ["waiting", "waiting"]
    assert "result=" not in run.swarm.state("gang1")
    run.round(10)
    assert run.swarm.state("gang1").endswith("result=refused: the node could not pull its image: it was not pulled within 30 minutes")


def test_members_may_have_different_images():
    services = gang()
    services[1]["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"] = "my/other:1"
    run = waiting(services)
    assert pulled_on(run) == [("node.id==n1", IMAGE), ("node.id==n2", "my/other:1")]


@pytest.mark.parametrize("end", [lambda run: run.swarm.services_now.pop("idgang0"), lambda run: run.swarm.scale("gang0", 1)])
def test_pulls_of_a_gang_that_does_not_start_are_removed(end):
    run = waiting(gang())
    end(run)
    run.round()
    assert run.swarm.pulls == {}


@pytest.mark.parametrize("restarts", [False, True])
def test_pulls_are_removed_if_no_work_is_left(restarts):
    run = waiting(gang())
    del run.swarm.services_now["idgang0"], run.swarm.services_now["idgang1"]
    if restarts:
        run.restart()
    run.round()
    assert run.swarm.pulls == {}


def test_pulls_that_could_not_be_removed_are_removed_later(monkeypatch):
    run = waiting(gang())
    del run.swarm.services_now["idgang0"], run.swarm.services_now["idgang1"]
    with monkeypatch.context() as patch:
        patch.setattr(run.swarm, "remove_service", lambda service_id: fail("the manager does not answer"))
        run.round()
    run.round()
    assert run.swarm.pulls == {}


def fail(text):
    raise GpuSwarmError(text)


def test_pulls_are_removed_while_other_work_only_runs():
    run = waiting([queued("a", {GPU: 4}), *gang()], [gpu_node("n1"), gpu_node("n2"), gpu_node("n3")])
    run.rounds(2)
    assert run.swarm.pulls
    del run.swarm.services_now["idgang0"], run.swarm.services_now["idgang1"]
    run.rounds(2)
    assert run.swarm.pulls == {}


def test_a_manager_that_leads_again_removes_pulls_that_another_one_left():
    swarm = QueueSwarm([queued("a")], [gpu_node("n1"), gpu_node("n2"), gpu_node("n3")])
    first, second = Slow(swarm, "m1"), Slow(swarm, "m2")
    first.round()
    first.round(leads=False)
    for service in gang():
        swarm.submit(service)
    second.round()
    assert len(swarm.pulls) == 2
    second.round(leads=False)
    del swarm.services_now["idgang0"], swarm.services_now["idgang1"]
    swarm.submit(queued("b"))
    first.rounds(2)
    assert swarm.pulls == {}


def test_a_successor_goes_on_with_the_pulls_and_removes_those_that_nobody_wants():
    run = waiting(gang())
    run.restart()
    run.round()
    assert len(run.swarm.pulls) == 2
    run.swarm.end_pulls()
    run.round()
    assert states(run) == ["admitted", "admitted"]
    left = waiting(gang())
    left.swarm.services_now.clear()
    left.restart()
    left.swarm.submit(queued("a"))
    left.round()
    assert left.swarm.pulls == {}
