# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard decides about a container by the reservation of its task, the requests of its service and image, and the level."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import admission
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.admission import Container, Settings, decide
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.share import FRACTION, SLOTS
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.share import MEMORY as LIMIT
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.task_record import TaskRecord

VARIABLE = "DOCKER_RESOURCE_NVIDIA-GPU"
A, B, FOREIGN = "GPU-aaaa", "GPU-bbbb", "GPU-ffff"
LABELS = {admission.TASK: "t1", admission.SERVICE: "train"}
IMAGE = ("NVIDIA_VISIBLE_DEVICES=all",)


def settings(level="reserved", **other):
    return Settings(level, **{"devices": [A, B], "kinds": ["NVIDIA-GPU"], "listed": [VARIABLE], **other})


def container(given=(), own=(), image=IMAGE, labels=None, **other):
    """Build the variables of a container like the engine: variables of the service, of the scheduler, and then of the image if they are not set."""
    scheduled = [f"{VARIABLE}={','.join(given)}"] if given else []
    entries = [*own, *scheduled]
    names = {one.partition("=")[0] for one in entries}
    entries += [one for one in image if one.partition("=")[0] not in names]
    task = TaskRecord(tuple(("NVIDIA-GPU", one) for one in given), (), tuple(own))
    return Container(**{"labels": LABELS if labels is None else labels, "entries": entries, "mounts": (), "task": task, **other})


@pytest.mark.parametrize(
    ("it", "devices", "names"),
    [
        pytest.param(container([A]), (A,), [], id="a reservation"),
        pytest.param(container([A, B]), (A, B), [], id="of two"),
        pytest.param(container([A], own=["NVIDIA_VISIBLE_DEVICES=all"]), (A,), [], id="a reservation, and all as Compose files have it"),
        pytest.param(container([A], own=[f"{VARIABLE}={A}"]), (A,), [], id="a GPU that its service names too"),
        pytest.param(container(), (), ["hidden"], id="an image that requests all"),
        pytest.param(container(image=[f"{VARIABLE}=all"]), (), ["hidden"], id="an image with the scheduler's variable"),
        pytest.param(container(image=["CUDA_VERSION=9.0"]), (), ["hidden"], id="an image of before NVIDIA_VISIBLE_DEVICES"),
        pytest.param(container(image=["NVIDIA_VISIBLE_DEVICES=void"]), (), [], id="an image that requests none"),
        pytest.param(container(own=["NVIDIA_VISIBLE_DEVICES=void"]), (), [], id="a service that requests none"),
        pytest.param(container(task=None), (), ["old-task"], id="a task that is not assigned any more"),
        pytest.param(container([A], task=None, unread="torn"), (A,), ["unread"], id="the environment, where the file cannot be read"),
    ],
)
def test_a_task_sees_what_it_reserved(it, devices, names):
    verdict = decide(settings(), it)
    assert (verdict.devices, verdict.refused, sorted(verdict.found), verdict.holds) == (devices, None, names, devices)


@pytest.mark.parametrize(
    ("it", "name", "words"),
    [
        pytest.param(container(own=[f"{VARIABLE}=all"]), "forged", "NVIDIA-GPU=all itself, and it has no reservation", id="all"),
        pytest.param(container(own=[f"{VARIABLE}={B}"]), "forged", B, id="a free GPU by its UUID"),
        pytest.param(container([A], own=[f"{VARIABLE}={B}"]), "forged", f"swarm gave it {A}", id="another one than reserved"),
        pytest.param(container([A], own=[f"{VARIABLE}={A},{B}"]), "forged", f"NVIDIA-GPU={B} itself", id="one more than reserved"),
        pytest.param(container([A], own=[f"{VARIABLE}=all"]), "forged", "all", id="all beside a reservation"),
        pytest.param(container(own=["NVIDIA_VISIBLE_DEVICES=all"]), "unreserved", "has no reservation", id="all without a reservation"),
        pytest.param(container(own=["NVIDIA_VISIBLE_DEVICES=0"]), "unreserved", "=0", id="an index"),
        pytest.param(container([FOREIGN]), "unknown-device", "does not advertise", id="a foreign UUID"),
        pytest.param(container(["all"], task=None, unread="torn"), "unknown-device", "all", id="all, where the file cannot be read"),
        pytest.param(container([A], mounts=("/var/run/nvidia-container-devices/all",)), "mount", "nvidia-container-devices/all", id="a mount"),
    ],
)
def test_a_task_that_requests_more_is_refused(it, name, words):
    verdict = decide(settings(), it)
    assert verdict.devices is None
    assert words in verdict.refused
    assert verdict.refused.endswith(".")
    assert name in verdict.found
    audit = decide(settings("audit"), it)
    assert (audit.devices, audit.refused, name in audit.found) == (None, None, True)


MEMORY = {"VRAM-C1": {"": {"devices": [B], "mib": None}}, "VRAM": {"": {"devices": [A, B], "mib": None}}, "ODD": {"": {"devices": [], "mib": None}}}


def of_memory(amounts, own=(), image=IMAGE, **other):
    """Return a task that reserved these amounts. The toolkit lists none of its variables."""
    it = container((), [*own, *(f"DOCKER_RESOURCE_{kind.upper()}={mib}" for kind, mib in amounts)], image)
    return it._replace(**{"task": TaskRecord((), tuple(amounts), tuple(own)), **other})


@pytest.mark.parametrize(
    ("it", "devices"),
    [
        pytest.param(of_memory([("VRAM-C1", 8000)]), (B,), id="an image that requests all"),
        pytest.param(of_memory([("VRAM-C1", 8000)], image=()), (B,), id="an image that requests nothing"),
        pytest.param(of_memory([("VRAM-C1", 8000)], own=[f"NVIDIA_VISIBLE_DEVICES={A}"]), (B,), id="a service that names another card"),
        pytest.param(of_memory([("VRAM-C1", 1), ("SSD", 4)]), (B,), id="another resource too"),
        pytest.param(of_memory([("VRAM", 8000)]), (A, B), id="the sum of all cards"),
        pytest.param(of_memory([("SSD", 4)]), (), id="only another resource"),
        pytest.param(of_memory([("VRAM-C1", 0)]), (), id="nothing"),
        pytest.param(of_memory([("VRAM-C1", 8000)], task=None, unread="torn"), (B,), id="the environment, where the file cannot be read"),
        pytest.param(of_memory([("VRAM-C1", "all")], task=None, unread="torn"), (), id="not an amount"),
        pytest.param(of_memory([("VRAM-C1", 5000 * "9")], task=None, unread="torn"), (), id="longer than any amount"),
    ],
)
def test_a_task_with_memory_sees_the_card_and_leaves_the_rest_to_others(it, devices):
    verdict = decide(settings(map=MEMORY), it)
    assert (verdict.devices, verdict.refused, verdict.holds) == (devices, None, ())


@pytest.mark.parametrize(
    ("it", "without"),
    [
        pytest.param(of_memory([("VRAM-C1", 8000)]), {"VRAM", "ODD"}, id="of each kind that it did not reserve"),
        pytest.param(container([A]), {"VRAM-C1", "VRAM", "ODD"}, id="of a task with a whole card"),
        pytest.param(of_memory([("VRAM-C1", "all")], task=None, unread="torn"), {"VRAM-C1", "VRAM", "ODD"}, id="of a value that is not an amount"),
    ],
)
def test_the_variable_of_an_amount_stays_only_if_swarm_gave_the_amount(it, without):
    """An image may set such a variable, and the user may have listed it in config.toml."""
    assert set(decide(settings(map=MEMORY), it).without) == {f"DOCKER_RESOURCE_{kind}" for kind in without}
    assert decide(settings("audit", map=MEMORY), it).devices is None


@pytest.mark.parametrize(("written", "names"), [({}, [VARIABLE]), ({"listed": ["SITE", VARIABLE]}, ["SITE", VARIABLE]), ({"kinds": []}, [])])
def test_variables_come_from_the_file_and_the_run_and_the_kinds(written, names):
    read = {"level": "reserved", "kinds": ["nvidia-gpu"], **written}
    assert list(admission.from_json(read, ()).listed) == names
    assert list(admission.from_json(read, ("FILE",)).listed) == ["FILE", *names]


@pytest.mark.parametrize("listed", ["A", [1], None, {}])
def test_an_invalid_list_of_variables_is_an_error(listed):
    with pytest.raises(ValueError, match="contain something other than texts"):
        admission.from_json({"level": "reserved", "listed": listed}, ())


def test_an_unknown_card_is_refused():
    assert "it requests ODD, which this node does not advertise." in decide(settings(map=MEMORY), of_memory([("ODD", 1)])).refused
    assert "swarm gave it VRAM-C1=8000." in decide(settings(map=MEMORY), of_memory([("VRAM-C1", 8000)], own=[f"{VARIABLE}={A}"])).refused


def slot(card, mib=4000, together=False):
    return {"devices": [card], "mib": mib, "together": together}


SLOT = "NVIDIA-SLOT"
A1, A2, B1 = f"{A}.slot1", f"{A}.slot2", f"{B}.slot1"
SLOTTED = {SLOT: {A1: slot(A), A2: slot(A), B1: slot(B)}, "TOGETHER": {A1: slot(A, None, True), B1: slot(B, None, True)}}
SLOTTED["TWO"] = {"pair": {"devices": [A, B], "mib": None, "together": False}}


def of_slots(level="reserved", **other):
    return Settings(level, (), [], [SLOT, "TOGETHER", "TWO"], [f"DOCKER_RESOURCE_{SLOT}"], SLOTTED, {A: 16000, B: 16000}, 300)._replace(**other)


def with_slots(*given, own=(), kind=SLOT, **other):
    entries = [*own, f"DOCKER_RESOURCE_{kind}={','.join(given)}", *IMAGE]
    return Container(LABELS, entries, (), **{"task": TaskRecord(tuple((kind, one) for one in given), (), tuple(own)), **other})


@pytest.mark.parametrize("level", ["audit", "reserved", "exclusive"])
@pytest.mark.parametrize(
    ("it", "devices", "holds", "names"),
    [
        pytest.param(with_slots(A1), (A,), (A1,), [], id="one"),
        pytest.param(with_slots(A1, A2), (A,), (A1, A2), [], id="two of a card"),
        pytest.param(with_slots(A2, B1), (A, B), (A2, B1), ["two-cards"], id="of two cards"),
        pytest.param(with_slots(B1, own=[f"NVIDIA_VISIBLE_DEVICES={A}"]), (B,), (B1,), [], id="a service that names another card"),
        pytest.param(with_slots(A2, task=None, unread="torn"), (A,), (A2,), ["unread"], id="the environment, where the file cannot be read"),
    ],
)
def test_a_task_sees_the_card_of_its_slot_at_every_level(it, devices, holds, names, level):
    verdict = decide(of_slots(level), it)
    assert (verdict.devices, verdict.refused, verdict.holds, sorted(verdict.found)) == (devices, None, holds, names)
    assert verdict.variables[SLOTS] == ",".join(holds)


@pytest.mark.parametrize(
    ("it", "devices"),
    [
        pytest.param(with_slots(A1), (A,), id="one"),
        pytest.param(with_slots(A1, own=["NVIDIA_VISIBLE_DEVICES=all", f"{LIMIT}=99000"]), (A,), id="a service that names all"),
        pytest.param(with_slots(A1, B1, kind="TOGETHER"), (A, B), id="of two cards, which another level refuses"),
        pytest.param(with_slots("pair", kind="TWO"), (A, B), id="a group"),
        pytest.param(with_slots(A1, own=[f"{LIMIT}=300"]), (A,), id="no usable memory"),
        pytest.param(with_slots(A2, task=None, unread="torn"), (A,), id="the environment, where the file cannot be read"),
        pytest.param(with_slots(f"{FOREIGN}.slot1"), None, id="a slot that the node does not advertise"),
        pytest.param(with_slots(A1, task=None), None, id="a task that has ended"),
        pytest.param(container(), None, id="no reservation"),
        pytest.param(container(own=["NVIDIA_VISIBLE_DEVICES=all"]), None, id="no reservation, and a service that names all"),
        pytest.param(container(own=[f"DOCKER_RESOURCE_{SLOT}=all"], mounts=["/var/run/nvidia-container-devices/all"]), None, id="a mount"),
        pytest.param(Container({}, [f"DOCKER_RESOURCE_{SLOT}={A1}"], (), None), None, id="no task"),
    ],
)
def test_with_off_only_slots_and_groups_become_their_cards(it, devices):
    verdict = decide(of_slots("off"), it)
    assert (verdict.devices, verdict.refused, verdict.found, verdict.holds) == (devices, None, {}, ())


def test_with_off_memory_has_no_card_and_a_slot_has_its_share():
    assert decide(of_slots("off", map={**SLOTTED, **MEMORY}), of_memory([("VRAM-C1", 8000)])).devices is None
    assert decide(of_slots("off"), with_slots(A1)).variables == {SLOTS: A1, LIMIT: "4000", FRACTION: "0.231250"}


def test_slots_together_of_one_kind_do_not_affect_another_kind():
    def of_both(*together):
        return with_slots(A1, B1)._replace(task=TaskRecord(((SLOT, A1), (SLOT, B1), *(("TOGETHER", one) for one in together)), (), ()))

    verdict = decide(of_slots(), of_both(A1))
    assert (verdict.devices, verdict.refused, sorted(verdict.found)) == ((A, B), None, ["two-cards"])
    assert "(TOGETHER: " in decide(of_slots(), of_both(A1, B1)).refused


@pytest.mark.parametrize("level", ["audit", "reserved", "exclusive"])
@pytest.mark.parametrize(
    ("it", "name", "words"),
    [
        pytest.param(with_slots(A1, B1, kind="TOGETHER"), "two-cards", f"slots of 2 cards (TOGETHER: {A}, {B}). Reserve fewer", id="two cards"),
        pytest.param(with_slots(A1, own=[f"DOCKER_RESOURCE_{SLOT}={A2}"]), "forged", f"swarm gave it {A1}", id="another slot"),
        pytest.param(with_slots(A1, own=[f"{LIMIT}=300"]), "too-small", "its share is 300 MiB, and CUDA takes 300 MiB", id="no usable memory"),
    ],
)
def test_impossible_slots_are_refused(it, name, words, level):
    verdict = decide(of_slots(level), it)
    assert (verdict.devices, name in verdict.found) == (None, True)
    assert words in verdict.refused


GROUP, C = "NVIDIA-GROUP", "GPU-cccccccc"
AB = f"{A}+{B}"


def grouped(level="reserved", **other):
    both = {AB: {"devices": [A, B], "mib": None, "together": False}, f"{C}+GPU-d": {"devices": [C, "GPU-d"], "mib": None, "together": False}}
    return of_slots(level)._replace(kinds=[GROUP, "NVIDIA-GPU"], listed=[f"DOCKER_RESOURCE_{GROUP}", VARIABLE], map={GROUP: both}, **other)


@pytest.mark.parametrize("level", ["audit", "reserved", "exclusive"])
@pytest.mark.parametrize(
    ("it", "devices", "names"),
    [
        pytest.param(with_slots(AB, kind=GROUP), (A, B), [], id="one"),
        pytest.param(with_slots(f"{C}+GPU-d", AB, kind=GROUP), (C, "GPU-d", A, B), [], id="two"),
        pytest.param(with_slots(AB, kind=GROUP, own=["NVIDIA_VISIBLE_DEVICES=all"]), (A, B), [], id="a service that names all"),
        pytest.param(with_slots(AB, kind=GROUP, task=None, unread="torn"), (A, B), ["unread"], id="the environment, where the file cannot be read"),
    ],
)
def test_a_task_sees_and_holds_each_gpu_of_its_group_at_every_level(it, devices, names, level):
    verdict = decide(grouped(level), it)
    assert (verdict.devices, verdict.refused, verdict.holds, sorted(verdict.found)) == (devices, None, devices, names)
    assert verdict.variables == {}  # the task has whole cards, so it gets no share of a card


@pytest.mark.parametrize(
    ("it", "name", "words"),
    [
        pytest.param(with_slots(AB, kind=GROUP, own=[f"{VARIABLE}={C}"]), "forged", f"swarm gave it {AB}", id="another card"),
        pytest.param(with_slots(AB, kind=GROUP, own=[f"DOCKER_RESOURCE_{GROUP}={C}+GPU-d"]), "forged", f"swarm gave it {AB}", id="another group"),
        pytest.param(with_slots(f"{B}+{C}", kind=GROUP), "unknown-device", f"it requests {B}+{C}, which this node does not", id="unknown group"),
    ],
)
def test_an_impossible_group_is_refused(it, name, words):
    verdict = decide(grouped(), it)
    assert (verdict.devices, name in verdict.found) == (None, True)
    assert words in verdict.refused


def test_a_slot_of_another_node_is_refused():
    """With audit, NVIDIA's runtime refuses the container, because the runtime does not know slots."""
    it = with_slots(f"{A}.slot9")
    assert f"it requests {A}.slot9, which this node does not advertise" in decide(of_slots(), it).refused
    assert decide(of_slots("audit"), it)[:2] == (None, None)


def test_a_task_is_shown_its_share_except_with_audit():
    shown = {LIMIT: "8000", FRACTION: "0.481250"}  # (8000 - 300) / 16000
    memory = of_slots(map=MEMORY)
    assert decide(memory, of_memory([("VRAM-C1", 8000)])).variables == shown
    assert decide(memory._replace(level="audit"), of_memory([("VRAM-C1", 8000)])).variables == {}
    assert decide(of_slots(), with_slots(A1, A2)).variables == {SLOTS: f"{A1},{A2}", **shown}
    assert decide(settings(), container([A])).variables == {}
    over = decide(memory, of_memory([("VRAM-C1", 8000)], own=[f"{LIMIT}=9000"]))
    assert (over.refused, over.found) == (None, {"beyond-share": f"it sets {LIMIT}=9000, and reserved 8000 MiB."})


def test_audit_changes_nothing_and_counts_what_it_would_hide():
    assert decide(settings("audit"), container()) == admission.Verdict(None, None, decide(settings(), container()).found)
    assert decide(settings("audit"), container([A])).holds == (A,)


def test_a_reservation_of_something_else_does_not_count():
    it = container(own=["DOCKER_RESOURCE_LICENSE=x"])
    it = it._replace(task=it.task._replace(named=(("LICENSE", "x"),), amounts=(("SSD", 1),)))
    assert decide(settings(), it).devices == ()


def test_a_kind_counts_even_if_a_tool_removed_it_from_swarm_resource():
    read = admission.from_json({"level": "reserved", "devices": [A, B], "kinds": ["NVIDIA-GPU"]}, ())
    assert decide(read, container([A])).devices == (A,)
    assert decide(read, container(own=[f"{VARIABLE}=all"])).refused


@pytest.mark.parametrize(
    ("allow", "labels", "passes"),
    [
        (["dcgm"], {admission.SERVICE: "dcgm"}, True),
        (["dcgm"], {admission.SERVICE: "train"}, False),
        (["label:monitor"], {"monitor": ""}, True),
        (["label:monitor=gpu"], {"monitor": "gpu"}, True),
        (["label:monitor=gpu"], {"monitor": "cpu"}, False),
        (["label:"], {"monitor": "cpu"}, False),
        ([], {}, False),
    ],
)
def test_allowed_services_see_what_they_request(allow, labels, passes):
    it = container(own=["NVIDIA_VISIBLE_DEVICES=all"], labels={**LABELS, **labels})
    verdict = decide(settings(allow=allow), it)
    assert (verdict == admission.Verdict(None)) is passes


@pytest.mark.parametrize("level", ["audit", "reserved", "exclusive"])
@pytest.mark.parametrize(
    ("it", "devices"),
    [
        pytest.param(with_slots(A1), ("all",), id="an image that requests all"),
        pytest.param(with_slots(A1)._replace(entries=[f"DOCKER_RESOURCE_{SLOT}={A1}"]), ("all",), id="an image that requests nothing"),
        pytest.param(with_slots(A1, own=[f"NVIDIA_VISIBLE_DEVICES={B}"])._replace(entries=[f"NVIDIA_VISIBLE_DEVICES={B}"]), (B,), id="one card"),
        pytest.param(with_slots(f"{A}.slot9"), None, id="a slot that is not of this node"),
        pytest.param(with_slots(A1)._replace(task=TaskRecord((("TWO", "pair"),), (), ())), ("all",), id="a group"),
    ],
)
def test_an_allowed_service_with_a_slot_does_not_pass_on_the_slot(it, devices, level):
    """NVIDIA's runtime refuses a container if its variable names a slot."""
    assert decide(of_slots(level, allow=["train"]), it) == admission.Verdict(devices)


def test_a_container_of_an_operator_is_left_alone():
    assert decide(settings("exclusive"), container(own=["NVIDIA_VISIBLE_DEVICES=all"], labels={})) == admission.Verdict(None)


WRONG_MAPS = ([], {"K": []}, {"K": {"v": []}}, {"K": {"v": {"devices": "x"}}})
WRONG = ({"allow": "x"}, {"devices": [1]}, {"card_mib": [1]}, *({"map": one} for one in WRONG_MAPS))


@pytest.mark.parametrize("read", [None, [], {}, {"level": "strict"}, *({"level": "audit", **one} for one in WRONG)])
def test_invalid_settings_are_an_error(read):
    with pytest.raises(ValueError, match="level|lists|map|memory"):
        admission.from_json(read, [])
