# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares deploy's predictions with swarm's scheduler. It generates stacks from a seed, and deploys them with 'docker stack deploy'."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from plugins.module_utils._deployment.preflight import preflight
from plugins.module_utils._ledger.listed import Listed
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.stack_yaml import to_yaml
from plugins.plugin_utils._stack.translate import translate

from .conftest import Loud
from .fleet import DAEMON_JSON, Fleet, Node, wait_until

SEED = 5
STACKS = 30
# After this many stacks, all stacks are removed. Until then, each new stack finds nodes that are partly in use.
ROUND = 2
NETWORK = "generated"
# A kind with an amount instead of names, besides the GPUs.
SSD = {"g1": 2, "g2": 5}
READ = """
import http.client, json, socket
found = {}
for what in ("nodes", "services", "tasks"):
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect("/var/run/docker.sock")
    connection.request("GET", "/" + what)
    found[what] = json.loads(connection.getresponse().read())
print(json.dumps(found))
"""
ALLOCATED = ("assigned", "accepted", "preparing", "ready", "starting", "running")


def generated(chance: random.Random, number: int) -> str:
    """Return the text of a Compose file."""
    services = {f"s{one}": _service(chance, number * 10 + one) for one in range(chance.choice((1, 1, 2, 2, 3)))}
    return yaml.safe_dump({"services": services, "networks": {"default": {"external": True, "name": NETWORK}}})


def _service(chance: random.Random, number: int) -> dict[str, Any]:
    deploy: dict[str, Any] = {"mode": chance.choice(("replicated", "replicated", "replicated", "replicated-job", "global"))}
    if deploy["mode"] != "global":
        deploy["replicas"] = chance.choice((1, 1, 2, 2, 3))
        if chance.random() < 0.3:
            deploy["placement"] = {"max_replicas_per_node": chance.randint(1, 2)}
    wanted = chance.choice(("gpu", "gpu", "gpu", "ssd", "both", "cpu", "nothing"))
    kinds = {"gpu": ["NVIDIA-GPU"], "ssd": ["SSD"], "both": ["NVIDIA-GPU", "SSD"]}.get(wanted, [])
    reservations: dict[str, Any] = {
        "generic_resources": [{"discrete_resource_spec": {"kind": kind, "value": chance.choice((1, 1, 1, 1, 2, 3))}} for kind in kinds]
    }
    if wanted == "cpu":
        reservations.update(cpus=chance.choice(("0.5", "1.5")), memory=chance.choice(("64m", "2g")))
    deploy["resources"] = {"reservations": reservations}
    if chance.random() < 0.3:
        constraints = ("node.role==worker", "node.labels.gpu.model!=Tesla-T4", "node.labels.gpu.cc_ge_8_0==true", "node.hostname==g2", "node.ip!=::1")
        deploy.setdefault("placement", {})["constraints"] = [chance.choice(constraints)]
    made = {"image": "lab/task", "command": ["sleep", "100000"], "stop_signal": "SIGKILL", "stop_grace_period": "1s", "deploy": deploy}
    if chance.random() < 0.15:
        made["ports"] = [{"target": 80, "published": chance.choice((18080, 20000 + number)), "mode": "host"}]
    return made


@pytest.fixture(scope="module")
def manager(fleet: Fleet, first: Loud) -> Iterator[Node]:
    """Add a counted kind to the swarm."""
    before = {name: fleet[name].read(DAEMON_JSON) for name in SSD}
    for name, amount in SSD.items():
        fleet[name].unwatched()
        daemon = json.loads(before[name] or b"{}")
        daemon["node-generic-resources"].append(f"SSD={amount}")
        _restarted(fleet, name, json.dumps(daemon).encode(), "SSD")
    fleet["m1"].docker("network", "create", "--driver", "overlay", NETWORK)
    yield fleet["m1"]
    _removed(fleet["m1"])
    fleet["m1"].docker("network", "rm", NETWORK)
    for name, content in before.items():
        _restarted(fleet, name, content or b"", "")


def _restarted(fleet: Fleet, name: str, content: bytes, kind: str) -> None:
    """Restart dockerd with exactly these resources, and wait until the manager shows them."""
    node, manager = fleet[name], fleet["m1"]
    node.write(DAEMON_JSON, content)
    node.dockerd("restart")

    def shown() -> bool:
        found = manager.docker_json("node", "inspect", "--format", "{{json .}}", node.swarm()["NodeID"])
        return found["Status"]["State"] == "ready" and ("SSD" in json.dumps(found["Description"]["Resources"])) == bool(kind)

    wait_until(f"{name} to advertise what it is to", shown)


def _read(manager: Node) -> dict[str, Any]:
    return json.loads(manager.run("python3", "-c", READ))


def _removed(manager: Node) -> None:
    ids = [one["ID"] for one in _read(manager)["services"] if one["Spec"]["Name"].startswith("gen")]
    if ids:
        manager.docker("service", "rm", *ids)
    wait_until("their tasks to end", lambda: not [task for task in _read(manager)["tasks"] if task["ServiceID"] in ids])


def _decided(manager: Node, stack: str, explained: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the tasks of the stack by service, after the scheduler has checked each of them."""

    def found() -> dict[str, list[dict[str, Any]]] | None:
        read = _read(manager)
        names = {one["ID"]: one["Spec"]["Name"] for one in read["services"]}
        tasks: dict[str, list[dict[str, Any]]] = {name: [] for name in explained}
        for task in read["tasks"]:
            if names.get(task["ServiceID"]) in tasks:
                tasks[names[task["ServiceID"]]].append(task)
        counts = {name: len(one["feasible"]) if one["wanted"] is None else one["wanted"] for name, one in explained.items()}
        enough = all(len(tasks[name]) >= count for name, count in counts.items())
        return tasks if enough and all(_is_placed(task) or _waits(task["Status"]) for each in tasks.values() for task in each) else None

    return wait_until(f"the tasks of {stack}", found)


def _waits(status: dict[str, Any]) -> bool:
    """Return whether the scheduler has found no node for the task."""
    return bool(status["State"] == "pending" and status.get("Err"))


def _is_placed(task: dict[str, Any]) -> bool:
    return task["Status"]["State"] in ALLOCATED


def _judged(explained: dict[str, dict[str, Any]], tasks: dict[str, list[dict[str, Any]]]) -> str:
    """Check that the scheduler did what the preflight predicted. Return the preflight's answer."""
    for name, one in explained.items():
        placed = [task["NodeID"] for task in tasks[name] if _is_placed(task)]
        assert not one["fits"] or set(placed) <= set(one["feasible"]), (name, one, placed)
        assert not one["fits"] or one["rivals"] or len(placed) == len(tasks[name]), (name, one, placed)
        if len(explained) == 1 and one["room"] is not None and one["wanted"] is not None:
            assert len(placed) == min(one["room"], one["needed"]), (name, one, placed)
            assert one["needed"] < one["room"] or set(placed) == set(one["feasible"]), (name, one, placed)
    if not all(one["fits"] for one in explained.values()):
        assert not all(_is_placed(task) for each in tasks.values() for task in each), explained
        return "does not fit"
    return "depends" if any(one["rivals"] for one in explained.values()) else "fits"


def _compared(manager: Node, numbers: range) -> Counter[str]:
    """Check that the scheduler agrees with each answer of the preflight. Return how often the preflight gave each answer."""
    answers = Counter[str]()
    for number in numbers:
        if number % ROUND == 0:
            _removed(manager)
        stack, text = f"gen{number}", generated(random.Random(f"{SEED}.{number}"), number)
        document = translate(text, "compose.yml", lambda _path: None, {}).document
        read = _read(manager)
        listed = Listed(read["nodes"], read["tasks"], read["services"], None)
        explained = {one["service"]: one for one in preflight(stack, specifications(document, stack), listed, "gpu-swarm.")["explained"]}
        manager.start("docker", "stack", "deploy", "--resolve-image", "never", "--compose-file", "-", stack, text=to_yaml(document).encode())
        try:
            answers[_judged(explained, _decided(manager, stack, explained))] += 1
        except AssertionError as problem:
            raise AssertionError(f"{stack}, by the seed {SEED}:\n{text}{problem}") from problem
    _removed(manager)
    return answers


@pytest.mark.rare
def test_the_scheduler_agrees_with_the_preflight(manager: Node) -> None:
    answers = _compared(manager, range(STACKS))
    # Each answer occurred, and most of them name a service.
    assert min(answers["fits"], answers["does not fit"]) >= 8, answers
    assert answers["depends"] <= 5, answers


# -- updates that start new tasks before the old ones end --------------------------------------------------------------

STUCK_S = 4.0
# On a busy machine, a task that fits on a node may wait this long.
PATIENCE_S = 45.0
# A service, and its changed part. g1 has two GPUs, and g2 has four.
UPDATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"replicas": 2, "host": "g1"}, {}),
    ({"replicas": 2, "host": "g1"}, {"order": "stop-first"}),
    ({"replicas": 3, "host": "g2"}, {"parallelism": 0}),
    ({"replicas": 6}, {}),
    ({"replicas": 5}, {"parallelism": 2}),
    ({"replicas": 4}, {"replicas": 6}),
    ({"replicas": 4}, {"replicas": 5}),
    ({"replicas": 4, "host": "g2"}, {"replicas": 3}),
    ({"replicas": 2}, {"value": 2}),
    ({"replicas": 3, "host": "g2"}, {"value": 2}),
    ({"replicas": 2, "host": "g2"}, {"host": "g1"}),
    ({"replicas": 3, "host": "g2"}, {"host": "g1"}),
    ({"replicas": 4, "most": 2}, {}),
    ({"replicas": 3, "most": 2}, {}),
    ({"replicas": 2, "most": 1, "ports": True}, {}),
    ({"mode": "global", "host": "g2"}, {}),
    ({"mode": "global", "host": "g2", "value": 4}, {}),
    ({"mode": "global", "host": "g2", "ports": True}, {}),
]


def _updated(made: dict[str, Any], version: str) -> str:
    deploy: dict[str, Any] = {
        "mode": made.get("mode", "replicated"),
        "resources": {"reservations": {"generic_resources": [{"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": made.get("value", 1)}}]}},
        "placement": {"constraints": [f"node.hostname=={made['host']}"] if "host" in made else [], "max_replicas_per_node": made.get("most", 0)},
        "update_config": {"order": made.get("order", "start-first"), "parallelism": made.get("parallelism", 1), "monitor": "1s"},
    }
    if "replicas" in made:
        deploy["replicas"] = made["replicas"]
    service = {"image": "lab/task", "command": ["sleep", "100000"], "stop_signal": "SIGKILL", "environment": {"VERSION": version}, "deploy": deploy}
    if made.get("ports"):
        service["ports"] = [{"target": 80, "published": 18080, "mode": "host"}]
    return yaml.safe_dump({"services": {"a": service}, "networks": {"default": {"external": True, "name": NETWORK}}})


def _explained(manager: Node, document: Any, replaced: bool) -> dict[str, Any]:
    read = _read(manager)
    specs = [{**one, "TaskTemplate": {**one["TaskTemplate"], "ForceUpdate": int(replaced)}} for one in specifications(document, "genu")]
    (one,) = preflight("genu", specs, Listed(read["nodes"], read["tasks"], read["services"], None), "gpu-swarm.")["explained"]
    return one


def _deployed(manager: Node, document: Any) -> None:
    manager.start("docker", "stack", "deploy", "--resolve-image", "never", "--compose-file", "-", "genu", text=to_yaml(document).encode())


def _has_ended(manager: Node, version: str, fits: bool) -> bool:
    """Return whether all tasks were replaced. Return False if waiting tasks have found no node for a while."""
    seen: list[Any] = [None, 0.0]

    def ended() -> bool | None:
        read = _read(manager)
        own = {service["ID"] for service in read["services"] if service["Spec"]["Name"].startswith("genu_")}
        tasks = [task for task in read["tasks"] if task["ServiceID"] in own]
        tasks = [task for task in tasks if task["DesiredState"] in ("running", "ready") or task["Status"]["State"] in ALLOCATED]
        states = sorted((task["ID"], task["Status"]["State"], task["DesiredState"]) for task in tasks)
        if states != seen[0]:
            seen[:] = [states, time.monotonic()]
        new = [f"VERSION={version}" in task["Spec"]["ContainerSpec"]["Env"] and task["Status"]["State"] == "running" for task in tasks]
        if tasks and all(new):
            return True
        waits = any(_waits(task["Status"]) for task in tasks)
        return False if waits and time.monotonic() - seen[1] > (PATIENCE_S if fits else STUCK_S) else None

    return bool(wait_until(f"the update to {version}", lambda: [found] if (found := ended()) is not None else None, shown=lambda: seen)[0])


def _differences(manager: Node, cases: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    found = []
    for before, change in cases:
        texts = (_updated(before, "1"), _updated({**before, **change}, "2"))
        old, new = (translate(text, "c.yml", lambda _path: None, {}).document for text in texts)
        try:
            _deployed(manager, old)
            assert _has_ended(manager, "1", True)
            said = _explained(manager, new, True)
            _deployed(manager, new)
            ended = _has_ended(manager, "2", said["fits"])
        finally:
            _removed(manager)
        # With larger or more tasks, the result depends on which task swarm places first.
        depends = "value" in change or change.get("replicas", 0) > before.get("replicas", 0)
        if ended is not said["fits"] and not (ended and depends):
            found.append(f"{before} to {change}: it {'ends' if ended else 'hangs'}, and was said to: {said['text']}")
    return found


def test_an_update_ends_if_the_preflight_says_that_it_fits(manager: Node) -> None:
    assert _differences(manager, UPDATES[:3]) == []


@pytest.mark.rare
def test_more_updates_end_if_the_preflight_says_that_they_fit(manager: Node) -> None:
    assert _differences(manager, UPDATES[3:]) == []
