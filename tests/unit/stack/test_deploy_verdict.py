# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides before a deployment whether each service of a stack fits beside the others, and after the deployment whether each service runs."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from swarm_api import A, B, named, node, service, task

from plugins.module_utils._deployment import stack as on_swarm
from plugins.module_utils._deployment.preflight import preflight
from plugins.module_utils._errors import GpuSwarmError
from plugins.module_utils._ledger.listed import Listed
from plugins.plugin_utils._stack import deploy_preconditions, deploy_verdict, deployment_wait, replaced
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import translate

FLEET = [node("n1", resources=named(A, B)), node("n2", resources=named("GPU-c"), labels={"rack": "7"})]


def specs(text: str) -> list[dict[str, Any]]:
    return specifications(translate(dedent(text), "c.yml", lambda _path: None, {}).document, "s")


def gpus(name: str, count: int, more: str = "") -> str:
    return f"{name}: {{image: i, gpus: [{{count: {count}}}], deploy: {{{more}}}}}"


def answer(text: str, nodes: Any = None, tasks: Any = (), services: Any = (), wanted: Any = None) -> dict[str, Any]:
    wanted = wanted or specs("services: {" + text + "}")
    listed = Listed(nodes or FLEET, list(tasks), list(services), None)
    found = preflight("s", wanted, listed, "gpu-swarm.")
    taken = on_swarm.taken("s", [one["Name"] for one in wanted], listed.services)
    progress = on_swarm.progress(on_swarm.of_stack("s", services), tasks)
    return {"nodes": found["nodes"], "kinds": found["kinds"], "preflight": found["explained"], "taken": taken, "progress": progress}


def fitting(text: str, marked: bool = False, **options: Any) -> list[str]:
    """Return the lines about the placement. ``marked`` means that the file differs from the deployed services."""
    wanted = replaced.mark_replaced(specs("services: {" + text + "}"), "s", {}, None, ["s_a"] if marked else [])
    return deploy_verdict.placement_lines(answer(text, wanted=wanted, **options), wanted)


def refused(text: str, allow_pending: bool = False, **options: Any) -> str | None:
    return " ".join(deploy_verdict.placement_errors("s", answer(text, **options), specs("services: {" + text + "}"), allow_pending)) or None


BUSY = [task("t1", "n1", given=named(A, B), service="other", reserves={"NVIDIA-GPU": 2})]
OTHER = [service("other", "batch", reserves={"NVIDIA-GPU": 2})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (gpus("a", 1), None),
        (gpus("a", 2), None),
        (gpus("a", 3), "s_a needs 3 NVIDIA-GPU on one node: wants 3 NVIDIA-GPU; the most that a node has: 2 (host-n1); "),
        (gpus("a", 1, "replicas: 3"), None),
        (gpus("a", 1, "replicas: 4"), "there is room for 3 of 4 tasks"),
        (gpus("a", 2) + ", " + gpus("b", 1), None),
        (gpus("a", 2) + ", " + gpus("b", 1, "replicas: 2"), "s_b needs 1 NVIDIA-GPU on one node: there is room for 1 of 2 tasks"),
        (gpus("a", 1, "placement: {constraints: [node.labels.rack==7]}"), None),
        (gpus("a", 1, "placement: {constraints: [node.labels.rack==8]}"), "does not meet node.labels.rack==8. No node could ever run it"),
        ("a: {image: i, deploy: {resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: VRAM, value: 1}}]}}}}",
         "No node of the swarm advertises VRAM; existing kinds are NVIDIA-GPU"),
        ("a: {image: i, deploy: {resources: {reservations: {memory: 900g}}}}", "No node could ever run it"),
        ("a: {image: i, deploy: {mode: global}}", None),
        ("a: {image: i, deploy: {replicas: 0}}", None),
    ],
)  # fmt: skip
def test_services_that_fit_nowhere_are_refused(text: str, message: str | None) -> None:
    found = refused(text)
    assert found is message or (message in found and found.endswith("Nothing was deployed."))


def test_a_service_that_could_run_later_is_deployed_only_on_request() -> None:
    text = gpus("a", 2)
    assert "host-n1 has 0 NVIDIA-GPU free and would have 2 if batch.1 ended. Make room" in refused(text, tasks=BUSY, services=OTHER)
    assert refused(text, allow_pending=True, tasks=BUSY, services=OTHER) is None
    assert refused(gpus("a", 3), allow_pending=True) is not None


def own(name: str = "s_a", **more: Any) -> dict[str, Any]:
    made = service("own", name, reserves={"NVIDIA-GPU": 2})
    made["Spec"]["TaskTemplate"]["ContainerSpec"] = task("t", "n1")["Spec"]["ContainerSpec"]  # the answer has the form of a manager's answer
    made["Spec"]["Labels"] = {on_swarm.NAMESPACE: "s"}
    made.update(more)
    return made


def test_a_deployed_stack_can_reuse_its_own_gpus() -> None:
    mine = [task("t1", "n1", given=named(A, B), service="own", reserves={"NVIDIA-GPU": 2})]
    assert refused(gpus("a", 2), tasks=mine, services=[own()]) is None


def test_an_unchanged_service_makes_no_room_for_another() -> None:
    """If the needs of a service are unchanged, swarm does not move its tasks."""
    mine = [task("t1", "n1", given=named(A), service="own", reserves={"NVIDIA-GPU": 1})]
    there = own()
    there["Spec"]["TaskTemplate"]["Resources"] = service("own", reserves={"NVIDIA-GPU": 1})["Spec"]["TaskTemplate"]["Resources"]
    options = {"tasks": mine, "services": [there]}
    assert refused(gpus("a", 1), **options) is None
    assert "s_b needs 2 NVIDIA-GPU on one node" in refused(gpus("a", 1) + ", " + gpus("b", 2), **options)
    assert refused(gpus("a", 1, "replicas: 3"), **options) is None
    assert "there is room for 2 of 3 tasks" in refused(gpus("a", 1, "replicas: 4"), **options)
    assert fitting(gpus("a", 1), **options) == ["s_a: its tasks stay where they are"]
    # If the new service has fewer tasks than before, swarm may end any of the tasks.
    there["Spec"]["Mode"] = {"Replicated": {"Replicas": 3}}
    assert refused(gpus("a", 1) + ", " + gpus("b", 2), **options) is None
    there["Spec"]["Mode"] = {"Replicated": {"Replicas": 1}}
    # A service that is no longer in the file is not removed.
    assert "s_b needs 2 NVIDIA-GPU on one node" in refused(gpus("b", 2), **options)
    # If the task is placed again, it may leave n1.
    moved = "placement: {constraints: [node.hostname==host-n2]}"
    assert refused(gpus("a", 1, moved) + ", " + gpus("b", 2), **options) is None


def test_replaced_tasks_do_not_stay() -> None:
    """The needs of the service are unchanged, but the file differs in other keys."""
    mine = [task("t1", "n1", given=named(A, B), service="own", reserves={"NVIDIA-GPU": 2})]
    options = {"tasks": mine, "services": [own()], "marked": True}
    assert fitting(gpus("a", 2), **options) == ["s_a: 1 replica, stop-first: no replica runs while a model loads"]
    (full,) = fitting(gpus("a", 2, "update_config: {order: start-first}"), **options)
    assert "its 1 tasks stop only when new ones run" in full
    large = [*FLEET, node("n3", resources=named("GPU-d", "GPU-e"))]
    (beside,) = fitting(gpus("a", 2, "update_config: {order: start-first, parallelism: 2}"), nodes=large, **options)
    assert beside == "s_a: 1 replica; start-first needs 2 NVIDIA-GPU free, as on host-n3"


GPUS = [node("n1", resources=named(A, B)), node("n2", resources=named("GPU-c", "GPU-d"))]
STOPS, STARTS = "replicas: 3, update_config: {parallelism: %d}", "replicas: 3, update_config: {order: start-first, parallelism: 1}"


def three() -> dict[str, Any]:
    """Return a service with three running tasks, two of them on n1."""
    there = own()
    there["Spec"]["Mode"] = {"Replicated": {"Replicas": 3}}
    there["Spec"]["TaskTemplate"]["Resources"] = service("own", reserves={"NVIDIA-GPU": 1})["Spec"]["TaskTemplate"]["Resources"]
    cards = enumerate([("n1", A), ("n1", B), ("n2", "GPU-c")], 1)
    tasks = [task(f"t{slot}", place, given=named(card), service="own", slot=slot, reserves={"NVIDIA-GPU": 1}) for slot, (place, card) in cards]
    return {"nodes": GPUS, "services": [there], "tasks": tasks}


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (STOPS % 1, "3 replicas, one at a time, stop-first: one replica less while a model loads"),
        (STOPS % 2, "3 replicas, 2 at a time, stop-first: 2 replicas less while a model loads"),
        (STOPS % 3, "3 replicas, all at once, stop-first: no replica runs while a model loads"),
        (STOPS % 0, "3 replicas, all at once, stop-first: no replica runs while a model loads"),
        (STARTS, "3 replicas, one at a time; start-first needs 1 NVIDIA-GPU free, as on host-n2"),
    ],
)
def test_an_update_with_gpus_says_what_it_needs_and_costs(more: str, line: str) -> None:
    assert fitting(gpus("a", 1, more), marked=True, **three()) == [f"s_a: {line}"]


def test_an_update_that_needs_more_gpus_says_where_and_what_it_costs() -> None:
    (line,) = fitting(gpus("a", 2, "replicas: 2"), marked=True, **three())
    assert line == "s_a: fits on host-n1, host-n2; 2 replicas, one at a time, stop-first: one replica less while a model loads"


def test_an_update_to_fewer_replicas_speaks_of_those_that_stay() -> None:
    """Swarm ends the others at once (reconcile in swarmkit's manager/orchestrator/replicated/services.go)."""
    assert fitting(gpus("a", 1, "replicas: 1"), marked=True, **three()) == [
        "s_a: fits on host-n1, host-n2; 1 replica, stop-first: no replica runs while a model loads"
    ]
    assert fitting(gpus("a", 1, "replicas: 0"), marked=True, **three()) == ["s_a: fits on host-n1, host-n2"]


def test_nothing_is_said_of_an_update_without_gpus_without_change_or_without_running_tasks() -> None:
    assert fitting(gpus("a", 1, STOPS % 1), **three()) == ["s_a: its tasks stay where they are"]
    assert fitting(gpus("a", 1, STOPS % 1), marked=True, **{**three(), "tasks": []}) == ["s_a: fits on host-n1, host-n2"]
    plain = own()
    del plain["Spec"]["TaskTemplate"]["Resources"]
    running = {"services": [plain], "tasks": [task("t1", "n1", service="own")]}
    assert fitting("a: {image: i}", marked=True, **running) == ["s_a: its tasks are replaced, 1 at a time"]
    assert fitting("a: {image: i, deploy: {update_config: {parallelism: 0}}}", marked=True, **running) == ["s_a: its tasks are replaced, all at once"]


def test_an_update_without_a_healthcheck_has_a_note() -> None:
    wanted = specs("services: {" + gpus("a", 1, STOPS % 1) + "}")
    found = answer("", wanted=replaced.mark_replaced(wanted, "s", {}, None, ["s_a"]), **three())
    (line,) = deploy_verdict.placement_lines(found, replaced.mark_replaced(wanted, "s", {}, None, ["s_a"]), {"s_a"})
    assert line.endswith('while a model loads; without a healthcheck in the file or in the image, "running" does not mean "ready"')
    (unchanged,) = deploy_verdict.placement_lines(answer("", wanted=wanted, **three()), wanted, {"s_a"})
    assert unchanged == "s_a: its tasks stay where they are"


def test_services_with_gpus_and_without_a_healthcheck_are_found() -> None:
    checked = "gpus: [{count: 1}], healthcheck: {test: [CMD, x]}"
    document = translate(f"services: {{{gpus('a', 1)}, b: {{image: i}}, c: {{image: i, {checked}}}}}", "c.yml", lambda _path: None, {}).document
    assert deploy_preconditions.without_healthcheck(document, "s") == {"s_a"}
    for off in ("disable: true", "test: [NONE]", "interval: 5s"):  # the last one has the command of the image, if the image has one
        text = f"services: {{a: {{image: i, gpus: [{{count: 1}}], healthcheck: {{{off}}}}}}}"
        document = translate(text, "c.yml", lambda _path: None, {}).document
        assert deploy_preconditions.without_healthcheck(document, "s") == {"s_a"}, off


def test_a_name_in_use_is_refused() -> None:
    assert refused(gpus("a", 1), services=[service("x", "s_a")]).startswith("The swarm already has s_a, which do not belong to the stack s.")


def test_services_fit_on_these_nodes() -> None:
    fits, does_not = fitting(gpus("a", 1) + ", " + gpus("b", 3))
    assert fits == "s_a: fits on host-n1, host-n2"
    assert does_not.startswith("s_b: needs 3 NVIDIA-GPU on one node: wants 3 NVIDIA-GPU; the most that a node has: 2 (host-n1)")


def test_specifications_are_read() -> None:
    (found,) = specs("""
        services:
          a:
            image: i
            logging: {driver: gelf}
            ports: [{target: 80, published: 8080, mode: host}, '81:81']
            volumes: [data:/data, /srv:/srv, other:/o]
            deploy:
              mode: replicated-job
              replicas: 3
              placement: {constraints: [node.labels.x==$$y], max_replicas_per_node: 2}
              resources: {reservations: {cpus: 0.5, memory: 1.5g}}
        volumes: {data: {driver: rexray}, other: }
    """)
    assert found["Mode"] == {"ReplicatedJob": {"TotalCompletions": 3, "MaxConcurrent": 3}}
    assert [port["PublishedPort"] for port in found["EndpointSpec"]["Ports"]] == [8080, 81]
    template = found["TaskTemplate"]
    assert [mount["VolumeOptions"]["DriverConfig"]["Name"] for mount in template["ContainerSpec"]["Mounts"]] == ["rexray"]
    assert template["Resources"]["Reservations"] == {"NanoCPUs": 500_000_000, "MemoryBytes": 3 * 2**29}
    assert template["Placement"] == {"Constraints": ["node.labels.x==$y"], "MaxReplicas": 2}
    assert template["LogDriver"] == {"Name": "gelf"}


@pytest.mark.parametrize(
    ("deploy", "message"),
    [
        ("replicas: -1", "deploy.replicas is -1"),
        ("replicas: many", "deploy.replicas is 'many'"),
        ("mode: gobal", "deploy.mode is 'gobal'"),
        ("resources: {reservations: {cpus: half}}", "reservations.cpus is 'half'"),
        ("resources: {reservations: {memory: much}}", "reservations.memory is 'much'"),
        ("resources: {limits: {cpus: half}}", "limits.cpus is 'half'"),
        (
            "restart_policy: {condition: always}",
            "c.yml: services.a.deploy.restart_policy.condition is 'always', but must be none, on-failure or any. Write one.",
        ),
        ("restart_policy: always", "c.yml: services.a.deploy.restart_policy is text, but must be a mapping"),
        ("update_config: {failure_action: stop}", "deploy.update_config.failure_action is 'stop', but must be pause, continue or rollback"),
        ("rollback_config: {failure_action: rollback}", "deploy.rollback_config.failure_action is 'rollback', but must be pause or continue"),
        ("endpoint_mode: dns", "deploy.endpoint_mode is 'dns', but must be vip or dnsrr"),
        ("endpoint_mode: [vip]", "deploy.endpoint_mode is a list"),
        ("mode: global, replicas: 2", "c.yml: services.a: deploy has replicas with mode: global, which runs one task on each node. Remove replicas"),
    ],
)
def test_impossible_specifications_are_refused(deploy: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        specs(f"services: {{a: {{image: i, deploy: {{{deploy}}}}}}}")
    assert message in raised.value.message


def test_without_a_virtual_address_no_port_is_published_for_the_swarm() -> None:
    text = "services: {{a: {{image: i, ports: [{}], deploy: {{endpoint_mode: dnsrr, restart_policy: {{condition: any}}}}}}}}"
    for port in ("'80:80'", "80", "{target: 80, published: 80}"):
        with pytest.raises(
            GpuSwarmError, match="services.a: port 80 is published for the whole swarm with endpoint_mode: dnsrr. Publish it in mode: host"
        ):
            specs(text.format(port))
    assert specs(text.format("{target: 80, published: 80, mode: host}"))
    assert specs(text.replace("dnsrr", "VIP").format("80"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: {web.api: {image: i}}", "The name of the service s_web.api "),
        ("services: {web-: {image: i}}", "The name of the service s_web- "),
        ("services: {%s: {image: i}}" % ("x" * 62), f"The name of the service s_{'x' * 62} is invalid. It may have at most 63 characters and has 64"),
        ("services: {a: {image: i, networks: [b.c]}}\nnetworks: {b.c: }", "The name of the network s_b.c "),
        ("services: {a: {image: i, networks: [b]}}\nnetworks: {b: {name: b.c}}", "The name of the network b.c "),
        ("services: {a: {image: i, configs: [b]}}\nconfigs: {b: {content: x, name: -b}}", "The name of the config -b "),
        ("services: {a: {image: i}}\nsecrets: {b: {file: a, name: %s}}" % ("x" * 65), f"The name of the secret {'x' * 65} is invalid"),
    ],
    ids=range(7),
)  # fmt: skip
def test_invalid_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        specifications(translate(text, "c.yml", lambda path: b"x" if path == "a" else None, {}).document, "s")
    assert raised.value.message.startswith(message)
    assert raised.value.message.endswith("Use another name.")


def test_valid_names_are_accepted() -> None:
    services = f"services: {{a__b-1: {{image: i, networks: [n, o]}}, {'x' * 61}: {{image: i}}}}"
    others = "networks: {n: {external: true, name: a.b}, o: {name: host, external: true}}\nconfigs: {c: {content: x, name: c.1}}"
    names = [one["Name"] for one in specs(f"{services}\n{others}")]
    assert names == ["s_a__b-1", f"s_{'x' * 61}"]


# -- after the deployment -----------------------------------------------------------------------------------------------


def far(tasks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    (found,) = on_swarm.progress([own(**more)], tasks)
    return found


def of_own(task_id: str, state: str, desired: str = "running", said: str = "started") -> dict[str, Any]:
    return task(task_id, "n1", service="own", state=state, desired=desired, said=said, reserves={"NVIDIA-GPU": 2})


def line(one: dict[str, Any], pending: list[dict[str, Any]] | None = None) -> str:
    return deploy_verdict.progress_lines({"progress": [one], "pending_now": pending or []})["s_a"]


def test_a_running_service_is_done() -> None:
    found = far([of_own("t1", "running")])
    assert (found["done"], line(found)) == (True, "1 of 1 running")


def test_a_service_is_not_done_while_its_update_or_an_older_task_runs() -> None:
    assert not far([of_own("t1", "running")], UpdateStatus={"State": "updating"})["done"]
    assert far([of_own("t1", "running")], UpdateStatus={"State": "completed"})["done"]
    older = of_own("t1", "running")
    older["Spec"] = {**older["Spec"], "ContainerSpec": {"Image": "older"}}
    assert far([older])["running"] == 0


def test_running_tasks_are_mentioned_while_an_update_waits() -> None:
    older = of_own("t1", "running")
    older["Spec"] = {**older["Spec"], "ContainerSpec": {"Image": "older"}}
    waits = task("t2", None, service="own", state="pending", reserves={"NVIDIA-GPU": 2})
    found = far([older, waits], UpdateStatus={"State": "updating"})
    pending = [{"service": "s_a", "text": "needs 2", "possible": True, "waiting": 1}]
    assert line(found, pending) == "1 running in the former version, 0 of 1 in the new version; needs 2"


def test_a_service_may_be_pending() -> None:
    found = far([task("t1", None, service="own", state="pending", reserves={"NVIDIA-GPU": 2})])
    pending = [{"service": "s_a", "text": "needs 2", "possible": True, "waiting": 1}]
    assert line(found, pending) == "0 of 1 running; needs 2"
    assert deploy_verdict.waiting_and_failed({"progress": [found], "pending_now": pending}) == (["s_a"], [])
    assert deploy_verdict.unfinished_services({"progress": [found], "pending_now": pending}) == ["s_a"]


@pytest.mark.parametrize(
    ("state", "said", "shown"),
    [
        ("paused", "its update is paused: failure of task t9", "its update is paused: failure of task t9"),
        ("rollback_paused", "its rollback is paused: failure of task t9", "its rollback is paused: failure of task t9"),
        ("paused", "needs 2", "its update is paused; needs 2"),
        ("rollback_started", "needs 2", "its update is rollback started; needs 2"),
    ],
)
def test_a_paused_update_is_reported_once(state: str, said: str, shown: str) -> None:
    found = far([task("t2", None, service="own", state="pending", reserves={"NVIDIA-GPU": 2})], UpdateStatus={"State": state})
    assert line(found, [{"service": "s_a", "text": said, "possible": True, "waiting": 1}]) == f"0 of 1 running; {shown}"


def test_a_service_may_fail() -> None:
    found = far([of_own("t1", "failed", "shutdown", "task: non-zero exit (1)"), of_own("t2", "starting")])
    assert line(found) == "0 of 1 running; 1 failed, the last with: task: non-zero exit (1)"
    assert deploy_verdict.waiting_and_failed({"progress": [found], "pending_now": []}) == ([], ["s_a"])
    # The next task is about to start. Without a next task, the wait ends.
    assert deploy_verdict.unfinished_services({"progress": [found], "pending_now": []}) == ["s_a"]
    over = far([of_own("t1", "failed", "shutdown", "task: non-zero exit (1)")])
    assert deploy_verdict.unfinished_services({"progress": [over], "pending_now": []}) == []
    # Swarm has not decided yet whether it starts another task.
    assert not far([of_own("t1", "failed", "running", "task: non-zero exit (1)")])["over"]


def test_a_task_that_ended_before_leaves_a_pending_service_pending() -> None:
    """While the service exists, swarm keeps some of its ended tasks."""
    before = {"progress": [far([of_own("t1", "complete", "shutdown"), of_own("t2", "running")])]}
    pending = {"service": "s_a", "text": "needs 2", "possible": True, "waiting": 1}
    now = far([of_own("t1", "complete", "shutdown"), task("t3", None, service="own", state="pending", reserves={"NVIDIA-GPU": 2})])
    found = deployment_wait.without_former_failures(before, {"progress": [now], "pending_now": [pending]})
    assert deploy_verdict.waiting_and_failed(found) == (["s_a"], [])
    assert deploy_verdict.progress_lines(found)["s_a"] == "0 of 1 running; needs 2"
    # The wait ends if a failed task has no successor.
    over = {"progress": [far([of_own("t1", "failed", "shutdown", "task: non-zero exit (1)")])], "pending_now": []}
    assert deploy_verdict.waiting_and_failed(deployment_wait.without_former_failures(over, over)) == ([], ["s_a"])


def test_a_command_that_ends_is_not_a_running_service() -> None:
    found = far([of_own("t1", "complete", "shutdown"), of_own("t2", "ready", "ready")])
    why = "1 failed, the last with: ended with exit code 0, and swarm starts it again: a command that ends is a job, or needs deploy.restart_policy"
    assert line(found).startswith(f"0 of 1 running; {why}")
    assert deploy_verdict.waiting_and_failed({"progress": [found], "pending_now": []}) == ([], ["s_a"])
    # The next task runs now. It will also run only as long as the former task.
    found = far([of_own("t1", "complete", "shutdown"), of_own("t2", "running")])
    answer = {"progress": [found], "pending_now": []}
    assert deploy_verdict.waiting_and_failed(answer) == ([], [])
    assert deploy_verdict.waiting_and_failed(answer, ["s_a"]) == ([], ["s_a"])
    assert line(found) == "1 of 1 running"
    assert deploy_verdict.progress_lines(answer, ["s_a"])["s_a"].startswith(f"1 of 1 running; {why}")


@pytest.mark.parametrize(
    ("mode", "restart", "failures", "done"),
    [
        ("Replicated", "any", 1, False),
        ("Replicated", "", 1, False),  # swarm's default
        ("Replicated", "on-failure", 0, True),
        ("Replicated", "none", 0, True),
        ("ReplicatedJob", "any", 0, True),
    ],
)
def test_a_task_may_end_with_0(mode: str, restart: str, failures: int, done: bool) -> None:
    there = own()
    there["Spec"]["Mode"] = {mode: {}}
    there["Spec"]["TaskTemplate"]["RestartPolicy"] = {"Condition": restart} if restart else {}
    (found,) = on_swarm.progress([there], [of_own("t1", "complete", "shutdown" if mode == "Replicated" else "complete")])
    assert (found["failures"], found["done"]) == (failures, done)


def test_tasks_count_by_their_specification() -> None:
    found = far([of_own("t2", "running"), of_own("t3", "running", "shutdown"), of_own("t1", "failed", "shutdown")])
    assert found["tasks"] == ["t2"]
    assert found["specified"] == far([])["specified"]
    there = own()
    there["Spec"]["EndpointSpec"] = {"Ports": [{"TargetPort": 80}]}  # tasks do not show this change
    (other,) = on_swarm.progress([there], [])
    assert other["specified"] != found["specified"]


@pytest.mark.parametrize(
    ("tasks", "more", "pending", "outcome"),
    [
        ([("preparing", "running")], {}, None, "waits"),
        ([], {}, None, "waits"),
        ([("running", "running")], {"UpdateStatus": {"State": "updating"}}, None, "waits"),
        ([("running", "running")], {"UpdateStatus": {"State": "paused"}}, None, "wrong"),
        ([("running", "running")], {"UpdateStatus": {"State": "rollback_started"}}, None, "wrong"),
        ([("running", "running")], {"UpdateStatus": {"State": "rollback_completed"}}, None, "wrong"),
        ([("failed", "shutdown"), ("preparing", "running")], {}, None, "wrong"),
        ([("pending", "running")], {}, {"possible": True}, "waits"),
        ([("pending", "running")], {}, {"possible": False}, "wrong"),
        ([("running", "running")], {}, None, ""),
    ],
)
def test_the_state_of_services_decides_the_result_of_the_run(tasks: Any, more: Any, pending: Any, outcome: str) -> None:
    found = far([of_own(f"t{number}", state, desired) for number, (state, desired) in enumerate(tasks)], **more)
    explained = [{"service": "s_a", "text": "needs 2", "waiting": 1, **pending}] if pending else []
    waiting, wrong = deploy_verdict.waiting_and_failed({"progress": [found], "pending_now": explained})
    assert (waiting, wrong) == (["s_a"] if outcome == "waits" else [], ["s_a"] if outcome == "wrong" else [])


def test_an_update_with_another_end_is_not_waited_for() -> None:
    states = ("updating", "rollback_started", "paused", "rollback_paused", "rollback_completed")
    assert [left([], state) for state in states] == [["s_a"], ["s_a"], [], [], ["s_a"]]
    assert left([of_own("t1", "running")], "rollback_completed") == []


def left(tasks: Any, state: str) -> list[str]:
    return deploy_verdict.unfinished_services({"progress": [far(tasks, UpdateStatus={"State": state})]})


def test_a_rollback_is_reported() -> None:
    """After a rollback the former version runs. The rollback is reported even if this version runs well."""
    found = far([of_own("t1", "running")], UpdateStatus={"State": "rollback_completed"})
    assert not found["done"]
    assert line(found) == "1 of 1 running; swarm rolled its update back, and it runs as before: 'docker service ps --no-trunc s_a' shows why"
    starts = far([of_own("t1", "ready", "ready")], UpdateStatus={"State": "rollback_completed"})
    assert line(starts) == "0 of 1 running; swarm rolled its update back: 'docker service ps --no-trunc s_a' shows why"
    paused = far([of_own("t1", "running")], UpdateStatus={"State": "rollback_paused"})
    assert line(paused) == "1 of 1 running; its update is rollback paused"


def test_the_reason_of_a_rollback_is_the_end_of_its_tasks() -> None:
    """Its tasks have the failed specification. Failures of earlier tasks are not the reason."""
    earlier, of_update = (of_own(name, "failed", "shutdown", f"why {name} failed") for name in ("t1", "t2"))
    of_update["Spec"] = {**of_update["Spec"], "ContainerSpec": {"Image": "newer"}}
    of_update["Status"]["Timestamp"] = "2999-01-01T00:00:00Z"
    before = {"progress": [far([earlier, of_own("t3", "running")])]}
    tasks = [earlier, of_update, of_own("t3", "running")]
    progress = [far(tasks, UpdateStatus={"State": "rollback_completed"})]
    found = deployment_wait.without_former_failures(before, {"progress": progress, "pending_now": []})
    assert deploy_verdict.progress_lines(found)["s_a"].endswith("--no-trunc s_a' shows why; 1 failed, the last with: why t2 failed")
    assert far(tasks)["ended"] == ["t1"]
    # The wait continues until swarm has a task with the former specification.
    assert left(tasks[:2], "rollback_started") == ["s_a"]


def test_an_old_failure_is_no_failure_of_a_rollback() -> None:
    """Swarm keeps ended tasks of earlier specifications."""
    old, of_update = (of_own(name, "failed", "shutdown", f"why {name} failed") for name in ("t1", "t2"))
    for number, one in enumerate((old, of_update)):
        one["Spec"] = {**one["Spec"], "ContainerSpec": {"Image": f"version{number}"}}
        one["Status"]["Timestamp"] = f"299{number}-01-01T00:00:00Z"
    runs = of_own("t3", "running")
    before = {"progress": [far([old, runs])]}
    assert before["progress"][0]["failures"] == 0
    found = deployment_wait.without_former_failures(before, {"progress": [far([old, of_update, runs], UpdateStatus={"State": "rollback_completed"})]})
    assert (found["progress"][0]["failures"], found["progress"][0]["failed"]) == (1, "why t2 failed")


def test_a_rollback_to_a_failed_task_is_not_waited_for() -> None:
    failed = of_own("t1", "failed", "shutdown", "why")
    for condition, waits in (("none", False), ("any", True)):
        there = own(UpdateStatus={"State": "rollback_completed"})
        there["Spec"]["TaskTemplate"]["RestartPolicy"] = {"Condition": condition}
        (found,) = on_swarm.progress([there], [failed])
        assert bool(deploy_verdict.unfinished_services({"progress": [found]})) is waits


def test_jobs_and_services_outside_the_file_are_handled() -> None:
    assert not deploy_verdict.has_jobs(specs("services: {a: {image: i}}"))
    job = specs("services: {a: {image: i, deploy: {mode: global-job}}}")
    assert deploy_verdict.has_jobs(job)
    assert deploy_verdict.orphans({"progress": [{"service": "s_a"}, {"service": "s_b"}]}, job) == ["s_b"]


def test_changes_that_docker_refuses_have_a_remedy() -> None:
    said = "failed to update config settings: Error response from daemon: rpc error: code = InvalidArgument desc = only updates to Labels are allowed"
    assert deploy_verdict.deployment_error(said).startswith("the swarm already has a config settings with other content, and Docker cannot")
    assert deploy_verdict.deployment_error("no such\nthing.") == "no such thing. Correct that, and run this again."


KIND = "a: {image: i, deploy: {resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: VRAM, value: 1}}]}}}}"


REASONS = ["The swarm already has s_b", "No node of the swarm advertises VRAM", "s_b needs 9", "s_c needs 1"]


def test_each_reason_is_named_once() -> None:
    """If no node has the kind of a service, this is the only reason why the service fits nowhere."""
    text = f"{KIND}, {gpus('b', 9)}, {gpus('c', 1, 'replicas: 4')}"
    found = deploy_verdict.placement_errors("s", answer(text, services=[service("other", "s_b")]), specs("services: {" + text + "}"), False)
    assert [one.startswith(begin) for begin, one in zip(REASONS, found, strict=True)] == [True] * 4
    assert "s_a" not in " ".join(found)
    assert all(one.endswith("Nothing was deployed.") for one in found)
