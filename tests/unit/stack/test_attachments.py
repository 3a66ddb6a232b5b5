# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Some leaders stop GPU tasks when their node is updated. Networks must be attached to nodes before such tasks arrive there."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack import attachments
from plugins.plugin_utils._stack.attachments import Swarm, add_attaching_services
from plugins.plugin_utils._stack.document import load_compose
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.stack_yaml import to_yaml
from plugins.plugin_utils._stack.translate import translate

OLD, NEW = "20.10.24+dfsg1", "26.1.5+dfsg1"
FILE = {"services": {"a": {"image": "i", "gpus": [{"count": 1}]}, "web": {"image": "w"}}}


def document(**of_a: Any) -> dict[str, Any]:
    made = yaml.safe_load(yaml.safe_dump(FILE))
    networks = of_a.pop("top", {})
    made["services"]["a"].update(of_a)
    return translate(yaml.safe_dump({**made, **({"networks": networks} if networks else {})}), "c.yml", lambda _path: None, {}).document


def node(name: str, total: int = 1, kind: str = "NVIDIA-GPU", tasks: Any = (), leader: str | None = None, named: bool = True) -> dict[str, Any]:
    entry = {"type": "named" if named else "discrete", "total": total}
    records = [{"service": one.partition(".")[0], "name": one, "holding": {kind: 1}} for one in tasks]
    return {
        "id": name, "hostname": f"host-{name}", "leader": bool(leader), "engine_version": leader or OLD, "labels": {}, "role": "worker",
        "resources": {kind: entry} if total else {}, "tasks": records,
    }  # fmt: skip


def swarm(leader: str | None = OLD, former: Any = None, room: Any = ("n1", "n2"), nodes: Any = None) -> Swarm:
    there = nodes or [node("n1"), node("n2"), node("n3", 0)]
    return Swarm("s", [node("m1", 0, leader=leader), *there], {"s_a": list(room)}, former)


def constraints(found: tuple[dict[str, Any], list[str]]) -> list[str] | None:
    made = found[0]["services"].get("a-gpu-swarm-network")
    return made and made["deploy"]["placement"]["constraints"]


def test_each_gpu_node_gets_a_task_without_gpus() -> None:
    made, said = add_attaching_services(document(), swarm())
    one = made["services"]["a-gpu-swarm-network"]
    assert (one["image"], one["networks"], one["deploy"]["mode"]) == ("i", ["default"], "global")
    assert one["environment"] == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert constraints((made, said)) == ["node.id!=m1", "node.id!=n3"]
    assert list(made["services"]) == ["a", "web", "a-gpu-swarm-network"]
    assert said[0].startswith("note: the swarm's leader, Docker Engine 20.10.24+dfsg1, stops GPU tasks when a network is attached")
    first = attachments.attaching_part(made)
    assert first is not None
    assert list(first["services"]) == ["a-gpu-swarm-network"]
    assert specifications(made, "s")[-1]["Mode"] == {"Global": {}}
    assert attachments.attaching_part(document()) is None


@pytest.mark.parametrize(
    ("of_a", "more", "found"),
    [
        ({}, {}, ["node.id!=m1", "node.id!=n3"]),
        ({}, {"leader": NEW}, None),
        ({}, {"leader": None}, None),
        ({"gpus": []}, {}, None),
        ({"network_mode": "host"}, {}, None),
        ({"networks": ["n"], "top": {"n": {"external": True, "name": "host"}}}, {}, None),
        ({"networks": ["n"], "top": {"n": {"external": True, "name": "shared"}}}, {}, ["node.id!=m1", "node.id!=n3"]),
        # The service needs no further constraint if others already exclude the node.
        ({"deploy": {"placement": {"constraints": ["node.id!=m1"]}}}, {}, ["node.id!=m1", "node.id!=n3"]),
        ({"deploy": {"placement": {"constraints": ["node.hostname==host-n1"]}}}, {"room": ["n1"]}, ["node.hostname==host-n1"]),
        # If the attaching service has no room on a node, no task is evicted to make room.
        ({}, {"nodes": [node("n1"), node("n2", tasks=["other.1"])], "room": ["n1"]}, ["node.id!=m1", "node.id!=n2"]),
        ({}, {"nodes": [node("n1"), node("n2", tasks=["s_a.1", "other.1"])], "room": ["n1", "n2"]}, ["node.id!=m1"]),
        # Other leaders stop tasks only for counted kinds.
        ({}, {"nodes": [node("n1", named=False)]}, None),
        ({}, {"nodes": [node("n1", named=False)], "leader": "24.0.5"}, ["node.id!=m1"]),
        ({}, {"leader": "24.0.5"}, None),
    ],
    ids=range(14),
)  # fmt: skip
def test_networks_are_attached_to_these_nodes(of_a: Any, more: Any, found: Any) -> None:
    assert constraints(add_attaching_services(document(**of_a), swarm(**more))) == found


def test_attaching_evicts_no_task() -> None:
    with pytest.raises(GpuSwarmError) as raised:
        add_attaching_services(document(), swarm(nodes=[node("n1", 4, tasks=["other.1", "other.2"]), node("n2")]))
    assert "would stop these tasks (network-evicts-gpu-tasks): host-n1 (other.1, other.2). Wait until" in raised.value.message
    assert raised.value.message.endswith("Nothing was deployed.")


def test_a_deployed_attachment_stays() -> None:
    """New tasks of other services change nothing, because the network is already attached."""
    former = load_compose(to_yaml(add_attaching_services(document(), swarm())[0]), "stack.yml")
    later = swarm(former=former, nodes=[node("n1", 4, tasks=["other.1"]), node("n2"), node("n3", 0)])
    assert constraints(add_attaching_services(document(), later)) == ["node.id!=m1", "node.id!=n3"]
    # A node that now has GPUs and room is no longer skipped.
    more = swarm(former=former, room=["n1", "n2", "n3"], nodes=[node("n1"), node("n2"), node("n3")])
    assert constraints(add_attaching_services(document(), more)) == ["node.id!=m1"]


def test_another_image_keeps_the_networks() -> None:
    """While the tasks of a service are replaced, the tasks that attach its networks keep running."""
    former = load_compose(to_yaml(add_attaching_services(document(), swarm())[0]), "stack.yml")
    made, _said = add_attaching_services(document(image="other"), swarm(former=former))
    assert made["services"]["a-gpu-swarm-network"] == former["services"]["a-gpu-swarm-network"]
    moved, _said = add_attaching_services(document(image="other", deploy={"placement": {"constraints": ["node.role==worker"]}}), swarm(former=former))
    assert moved["services"]["a-gpu-swarm-network"]["image"] == "other"
    assert moved["services"]["a-gpu-swarm-network"]["deploy"]["update_config"] == {"order": "start-first"}


def test_attachments_are_waited_for() -> None:
    made = attachments.attaching_part(add_attaching_services(document(), swarm())[0])
    assert made is not None
    one = {"service": "s_a-gpu-swarm-network", "done": True, "running": 2}
    assert attachments.not_running({"progress": [one]}, made, "s") == []
    assert attachments.not_running({"progress": [{**one, "done": False}]}, made, "s") == ["s_a-gpu-swarm-network"]
    assert attachments.not_running({"progress": []}, made, "s") == ["s_a-gpu-swarm-network"]
    error = attachments.not_attached_error({one["service"]: "1 of 2 running"}, [one["service"]])
    assert "s_a-gpu-swarm-network: 1 of 2 running. The leader" in error
