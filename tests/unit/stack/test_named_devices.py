# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plugins.module_utils._errors import GpuSwarmError, messages_of
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import Stack, translate

OFFERED = {
    "rdma": ["/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"],
    "fuse": ["/dev/fuse"],
    "capture": ["/dev/video[0-9]"],
    "camera": ["/dev/video0"],
    "usb": ["/dev/bus/usb/*/*"],
}
ON = "node.labels.gpu-swarm.device.{}==true"


def of(offered: dict[str, list[str]] | None = None, **service: Any) -> Stack:
    files = {"e": b"GPU_SWARM_DEVICES=fuse\n"}
    text = yaml.safe_dump({"services": {"a": {"image": "i", **service}}})
    return translate(text, "c.yml", files.get, {}, offered=lambda: OFFERED if offered is None else offered)


def asks(stack: Stack) -> tuple[str | None, list[str]]:
    """Return the variable of the service, and its constraints as swarm gets them."""
    (spec,) = specifications(stack.document, "s")
    return stack.document["services"]["a"].get("environment", {}).get("GPU_SWARM_DEVICES"), spec["TaskTemplate"]["Placement"]["Constraints"]


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        (["/dev/fuse"], "fuse"),
        (["/dev/fuse:/dev/fuse"], "fuse"),
        (["/dev/fuse:/dev/fuse:rwm"], "fuse"),
        (["/dev/fuse:rwm"], "fuse"),
        (["//dev/./fuse:/dev/fuse/"], "fuse"),
        ([{"source": "/dev/fuse"}], "fuse"),
        ([{"source": "/dev/fuse", "target": "/dev/fuse", "permissions": "rw"}], "fuse"),
        (["/dev/infiniband:/dev/infiniband"], "rdma"),  # a directory means the devices below it
        (["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm"], "rdma"),
        (["/dev/infiniband/uverbs0", "/dev/fuse", "/dev/bus/usb/001/004"], "rdma,fuse,usb"),
        (["/dev/video7"], "capture"),
        ([], None),
        (None, None),
    ],
)
def test_devices_become_their_names_and_constraints(devices: Any, names: str | None) -> None:
    stack = of(devices=devices)
    assert asks(stack) == (names, [ON.format(name) for name in (names or "").split(",") if name])
    assert not stack.notes


def test_the_variable_alone_is_enough_and_needs_no_setting() -> None:
    stack = of({}, environment={"GPU_SWARM_DEVICES": "rdma, tpu"}, deploy={"placement": {"constraints": ["node.role==worker"]}})
    assert asks(stack) == ("rdma, tpu", ["node.role==worker", ON.format("rdma"), ON.format("tpu")])


def test_a_variable_from_a_file_counts_too() -> None:
    assert asks(of({}, env_file="e")) == ("fuse", [ON.format("fuse")])


def test_names_that_the_service_asks_for_already_are_not_repeated() -> None:
    service = {"environment": ["GPU_SWARM_DEVICES=fuse"], "deploy": {"placement": {"constraints": ["node.labels.gpu-swarm.device.fuse == true"]}}}
    assert asks(of(devices=["/dev/fuse", "/dev/infiniband"], **service)) == (
        "fuse,rdma", ["node.labels.gpu-swarm.device.fuse == true", ON.format("rdma")],
    )  # fmt: skip


def test_the_variable_chooses_between_several_names_of_a_device() -> None:
    assert asks(of(devices=["/dev/video0"], environment={"GPU_SWARM_DEVICES": "camera"})) == ("camera", [ON.format("camera")])


def test_x_gpu_keeps_the_constraints() -> None:
    stack = of(devices=["/dev/fuse"], **{"x-gpu": {"memory_min": 40000}})
    assert asks(stack) == ("fuse", [ON.format("fuse")])
    assert list(stack.x_gpu) == ["a"]


def test_a_read_only_device_is_a_note() -> None:
    assert of(devices=["/dev/fuse:/dev/fuse:r"]).notes == ["c.yml: services.a.devices[0] has the mode r, but tasks may read and write their devices"]


def test_the_setting_is_read_only_for_a_service_with_devices() -> None:
    def read() -> dict[str, list[str]]:
        raise AssertionError("the setting was read")

    text = "services: {a: {image: i, environment: {GPU_SWARM_DEVICES: fuse}}, b: {image: i, devices: []}}"
    assert set(translate(text, "c.yml", {}.get, {}, offered=read).document["services"]) == {"a", "b"}
    # Without an answer, devices are left out: this is for reading images only.
    assert "environment" not in translate("services: {a: {image: i, devices: [/dev/x]}}", "c.yml", {}.get, {}, offered=None).document["services"]["a"]


UNNAMED = "which no name of gpu_swarm_devices has, and swarm itself passes no devices. Give the devices a name in your inventory, such as"
AGAIN = "run provision, and deploy again. If the service runs without them, remove them."
OF_SEVERAL = "Remove it, and write those that the service needs under environment, such as"
OWN_PATH = "but a task gets a device only at its own path."
BY_NAME = "Remove it, give the path of the device a name in gpu_swarm_devices, and write GPU_SWARM_DEVICES: NAME under environment."
REFUSED: dict[str, tuple[Any, str]] = {
    "no name": (["/dev/kvm"], f".devices has /dev/kvm, {UNNAMED} gpu_swarm_devices: {{kvm: [/dev/kvm]}}, {AGAIN}"),
    "several without a name": (
        ["/dev/ttyUSB0:/dev/ttyUSB0", "/dev/fuse", "/dev/ttyUSB1", "/dev/ttyUSB0"],
        f".devices has /dev/ttyUSB0, /dev/ttyUSB1, {UNNAMED} gpu_swarm_devices: {{ttyusb: [/dev/ttyUSB0, /dev/ttyUSB1]}}, {AGAIN}",
    ),
    "a directory without a name": (["/dev/dri"], f".devices has /dev/dri, {UNNAMED} gpu_swarm_devices: {{dri: [/dev/dri/*]}}, {AGAIN}"),
    "a name of digits and signs": (["/dev/@"], f".devices has /dev/@, {UNNAMED} gpu_swarm_devices: {{device: [/dev/@]}}, {AGAIN}"),
    "several names": (
        ["/dev/video0"],
        f".devices[0] is /dev/video0, which several names of gpu_swarm_devices have: capture, camera. {OF_SEVERAL} GPU_SWARM_DEVICES: capture.",
    ),
    "another path in the container": (
        ["/dev/video7:/dev/video0"],
        f".devices[0] puts /dev/video7 at '/dev/video0', {OWN_PATH} Write /dev/video7, and use that path in the container.",
    ),
    "a CDI name": (
        ["vendor.com/net=1"],
        f".devices[0] is 'vendor.com/net=1', a CDI name, which swarm does not pass on. {BY_NAME}",
    ),
    "relative": (["fuse"], ".devices[0] is 'fuse', no absolute path. Remove it, give the path"),
    "empty": ([""], ".devices[0] is '', no absolute path. Remove it, give the path"),
    "elsewhere": (["/etc/passwd"], ".devices[0] is '/etc/passwd', but must be a path below /dev. Correct it or remove it."),
    "out of dev": (["/dev/../etc/passwd"], ".devices[0] is '/dev/../etc/passwd', but must be a path below /dev."),
    "all of dev": (["/dev:/dev"], ".devices[0] is '/dev', but must be a path below /dev."),
    "memory": (["/dev/mem"], ".devices[0] is /dev/mem, which no service is given, because it opens the whole machine. Remove the path."),
    "VFIO": (["/dev/vfio/vfio"], ".devices[0] is /dev/vfio/vfio, which no service is given,"),
    "a hidden GPU": (["/dev/x/../nvidia0"], ".devices[0] is /dev/nvidia0, which is a GPU of NVIDIA. Swarm allocates GPUs: remove the path"),
    "a wrong mode": (["/dev/fuse:/dev/fuse:rwx"], ".devices[0] has the mode 'rwx', but a mode has the letters r, w and m. Correct it or remove it."),
    "too many parts": (["/dev/a:/dev/a:rw:z"], ".devices[0] is '/dev/a:/dev/a:rw:z', but must be HOST, HOST:CONTAINER or HOST:CONTAINER:MODE."),
    "a number": ([5], ".devices[0] is a number, but must be text. Write the path of a device, such as /dev/fuse."),
    "another key": ([{"source": "/dev/fuse", "path": "/x"}], ".devices[0] must have only source, target and permissions, each as text."),
    "another type": ([{"source": ["/dev/fuse"]}], ".devices[0] must have only source, target and permissions, each as text."),
    "no list": ("/dev/fuse", ".devices is text, but must be a list. Begin each device with '- '."),
}  # fmt: skip


@pytest.mark.parametrize(("devices", "message"), REFUSED.values(), ids=REFUSED)
def test_other_devices_are_one_error_that_says_what_to_write(devices: Any, message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(devices=devices)
    (text,) = messages_of(raised.value)
    assert text.startswith(f"c.yml: services.a{message}")


def test_a_gpu_among_the_devices_is_the_error_of_gpus_alone() -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(devices=["/dev/fuse", "/dev/nvidia0", "nvidia.com/gpu=all"])
    (text,) = messages_of(raised.value)
    assert text.startswith("c.yml: services.a.devices[1] requests GPUs by /dev/nvidia0, which swarm does not pass on.")


@pytest.mark.parametrize("value", ["RDMA", "rdma;fuse", "{{.Node.Hostname}}", "../x"])
def test_an_invalid_name_in_the_variable_is_an_error_beside_other_errors(value: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(environment={"GPU_SWARM_DEVICES": value}, devices=["/dev/kvm"], deploy={"placement": "x"})
    assert any(f"services.a: GPU_SWARM_DEVICES is {value!r}, but " in text for text in messages_of(raised.value))
    assert any("/dev/kvm, which no name" in text for text in messages_of(raised.value))
