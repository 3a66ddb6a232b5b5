# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which devices a name stands for, and how a container gets them."""

from __future__ import annotations

import copy
import os

import pytest
from character_devices import Devices
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import bundle, offered, refusal

RDMA = ["/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"]


@pytest.fixture
def devices(tmp_path, monkeypatch):
    return Devices(tmp_path, monkeypatch)


def paths(globs, root):
    return [device.path for device in offered.expand(globs, str(root)).devices]


def test_a_name_stands_for_the_devices_that_match_now(devices, tmp_path):
    assert paths(RDMA, tmp_path) == []
    devices.add("/dev/infiniband/uverbs1", 231, 193, 0o666)
    devices.add("/dev/infiniband/uverbs0", 231, 192)
    devices.add("/dev/infiniband/issm0", 231, 64)
    (tmp_path / "dev/infiniband/uverbs2").touch()  # a plain file
    (tmp_path / "dev/infiniband/uverbs3").mkdir()
    found = offered.expand([*RDMA, "/dev/infiniband/uverbs0"], str(tmp_path)).devices
    first = os.stat(tmp_path)
    assert found == (
        offered.Device("/dev/infiniband/uverbs0", 231, 192, 0o660, first.st_uid, 44),
        offered.Device("/dev/infiniband/uverbs1", 231, 193, 0o666, first.st_uid, 44),
    )


def test_no_link_is_followed(devices, tmp_path):
    """A link among the folders may lead out of /dev."""
    devices.add("/dev/capture0", 81, 0)
    devices.add("/srv/dev0", 81, 1)
    (tmp_path / "dev/capture1").symlink_to(tmp_path / "dev/capture0")
    (tmp_path / "dev/out").symlink_to(tmp_path / "srv")
    assert paths(["/dev/capture*", "/dev/out/*", "/dev/*/*"], tmp_path) == ["/dev/capture0"]


@pytest.mark.parametrize(
    ("path", "major", "minor"),
    [
        ("/dev/nvidia0", 195, 0),
        ("/dev/nvidiactl", 12, 12),
        ("/dev/nvidia-caps/nvidia-cap1", 12, 12),
        ("/dev/vfio/7", 12, 12),
        ("/dev/mem", 12, 12),
        ("/dev/kmem", 12, 12),
        ("/dev/port", 12, 12),
        ("/dev/kmsg", 12, 12),
        ("/dev/crash", 12, 12),
        ("/dev/shm/made-by-a-container", 12, 12),
        ("/dev/mqueue/made-by-a-container", 12, 12),
        *((f"/dev/other-name-{major}-{minor}", major, minor) for major, minor in [
            (195, 255), (236, 1), (511, 0), (237, 0), (10, 196), (1, 1), (1, 2), (1, 4), (1, 11), (1, 12),
        ]),
    ],
)  # fmt: skip
def test_some_devices_are_never_given_whatever_the_list_says(devices, tmp_path, path, major, minor):
    devices.add(path, major, minor)
    found = offered.expand(["/dev/*", "/dev/*/*"], str(tmp_path))
    assert (found.devices, list(found.refused)) == ((), [path])


@pytest.mark.parametrize(
    ("vendor", "is_given"), [("0x10de\n", False), ("0x10DE", False), ("0x8086\n", True), ("0x1a03\n", True), ("", False), (None, False)]
)
def test_a_graphics_device_is_given_if_its_vendor_is_known_and_is_not_nvidia(devices, tmp_path, vendor, is_given):
    devices.add("/dev/dri/renderD128", 226, 128)
    if vendor is not None:
        devices.vendor(226, 128, vendor)
    found = offered.expand(["/dev/dri/renderD*"], str(tmp_path))
    assert (bool(found.devices), bool(found.refused)) == (is_given, not is_given)


def test_the_rest_of_the_memory_driver_and_of_misc_may_be_given(devices, tmp_path):
    for path, major, minor in [("/dev/zero", 1, 5), ("/dev/fuse", 10, 229)]:
        devices.add(path, major, minor)
    assert paths(["/dev/zero", "/dev/fuse"], tmp_path) == ["/dev/fuse", "/dev/zero"]


def test_a_device_that_disappears_meanwhile_is_skipped(devices, tmp_path, monkeypatch):
    for index in range(3):
        devices.add(f"/dev/capture{index}", 81, index)
    before = os.path.realpath

    def realpath(path, **options):
        if path.endswith("capture1") and os.path.exists(path):
            os.unlink(path)
            return path
        return before(path, **options)

    monkeypatch.setattr(os.path, "realpath", realpath)
    assert paths(["/dev/capture*"], tmp_path) == ["/dev/capture0", "/dev/capture2"]


def test_a_glob_that_matches_too_many_devices_is_an_error(devices, tmp_path):
    for index in range(offered.MOST_DEVICES):
        devices.add(f"/dev/tty{index}", 4, index)
    assert len(paths(["/dev/tty*"], tmp_path)) == offered.MOST_DEVICES
    devices.add("/dev/ttyX", 4, 9999)
    with pytest.raises(ValueError, match=r"^/dev/tty\* match more than 256 devices$"):
        offered.expand(["/dev/tty*"], str(tmp_path))


def test_if_the_kernel_s_list_of_drivers_cannot_be_read_nothing_is_given(devices, tmp_path):
    devices.add("/dev/capture0", 81, 0)
    (tmp_path / "proc/devices").unlink()
    with pytest.raises(OSError, match="proc/devices"):
        offered.expand(["/dev/capture*"], str(tmp_path))


@pytest.mark.parametrize(
    "value", [[], "rdma", None, {"a": "/dev/x"}, {"a": None}, *({"a": [path]} for path in ["", "/dev", "/etc/x", "/dev/../etc/x", "/dev/a\0b", 1])]
)
def test_malformed_settings_are_an_error(value):
    with pytest.raises(ValueError, match="the devices that this node offers are malformed"):
        offered.check(value)


OFFERED = {"capture": ["/dev/capture*"], "none": ["/dev/missing*", "/dev/gone"], "card": ["/dev/nvidia*"]}


@pytest.mark.parametrize(
    ("names", "code", "words"),
    [
        (["capture", "rdma"], refusal.NOT_ALLOWED, "it asks for the device 'rdma' (GPU_SWARM_DEVICES), which this node does not allow. It"),
        (["/dev/capture0"], refusal.NOT_ALLOWED, "'/dev/capture0'"),
        (["{{.Node.Hostname}}"], refusal.NOT_ALLOWED, "'{{.Node.Hostname}}'"),  # swarm's agent records the template, not its value
        (["\x1b[2K\udcff"], refusal.NOT_ALLOWED, r"'\x1b[2K\udcff'"),
        (["x" * 10**6], refusal.NOT_ALLOWED, "'%s…" % ("x" * 59)),
        ([f"n{index}" for index in range(10**5)], refusal.NOT_ALLOWED, "'n0'"),
        (["capture", "none"], refusal.NO_DEVICE, "no device of this node matches /dev/missing*, /dev/gone now. Add the constraint node.labels."),
        (["none"], refusal.NO_DEVICE, "the constraint node.labels.gpu-swarm.device.none==true,"),
        (["card"], refusal.NO_DEVICE, "/dev/nvidia0 is never given: it is a GPU"),
    ],
)  # fmt: skip
def test_a_service_is_refused_if_it_cannot_get_each_device(devices, tmp_path, names, code, words):
    devices.add("/dev/capture0", 81, 0)
    devices.add("/dev/nvidia0", 195, 0)
    answer = offered.resolve(names, OFFERED, {}, str(tmp_path))
    assert (answer.code, answer.devices, words in answer.reason) == (code, (), True), answer.reason
    assert (len(answer.reason) < 400, answer.reason.isprintable()) == (True, True)


def test_with_no_names_every_name_is_refused():
    assert "It allows none." in offered.resolve(["rdma"], {}, {}).reason


@pytest.mark.parametrize("linux", [{"uidMappings": [{"containerID": 0, "hostID": 1}]}, {"namespaces": [{"type": "pid"}, {"type": "user"}]}])
def test_in_a_user_namespace_the_service_is_refused(devices, tmp_path, linux):
    devices.add("/dev/capture0", 81, 0)
    answer = offered.resolve(["capture"], OFFERED, {"linux": linux}, str(tmp_path))
    assert (answer.code, "userns-remap" in answer.reason) == (refusal.REMAPPED, True)


CAPTURE = offered.Device("/dev/capture0", 81, 3, 0o640, 0, 44)
ENTRY = {"path": "/dev/capture0", "type": "c", "major": 81, "minor": 3, "fileMode": 0o640, "uid": 0, "gid": 44}
RULE = {"allow": True, "type": "c", "major": 81, "minor": 3, "access": "rw"}
DENIES = {"allow": False, "access": "rwm"}


@pytest.mark.parametrize(
    ("linux", "entries", "rules"),
    [
        (None, [ENTRY], [RULE]),
        ({"resources": None, "devices": None}, [ENTRY], [RULE]),
        ({"resources": {"devices": [DENIES], "cpu": {"shares": 2}}, "cgroupsPath": "x"}, [ENTRY], [DENIES, RULE]),
        ({"devices": [ENTRY], "resources": {"devices": [DENIES, RULE]}}, [ENTRY], [DENIES, RULE]),
        ({"devices": [{**ENTRY, "fileMode": 0o600}]}, [{**ENTRY, "fileMode": 0o600}], [RULE]),
    ],
)
def test_the_document_gets_each_device_once_and_nothing_else_changes(linux, entries, rules):
    document = {"process": {"env": ["A=b"]}, "hostname": "h", **({"linux": linux} if linux is not None else {})}
    before = copy.deepcopy(document)
    after = offered.with_devices(document, [CAPTURE, CAPTURE])
    assert (document, after["linux"]["devices"], after["linux"]["resources"]["devices"]) == (before, entries, rules)
    del after["linux"]["devices"], after["linux"]["resources"]["devices"]
    rest = copy.deepcopy(before)
    rest.setdefault("linux", {}).pop("devices", None)
    rest["linux"]["resources"] = {**(rest["linux"].get("resources") or {})}
    rest["linux"]["resources"].pop("devices", None)
    assert after == rest


def test_another_device_at_the_same_path_is_an_error():
    with pytest.raises(bundle.BundleError, match="already has another device at /dev/capture0"):
        offered.with_devices({"linux": {"devices": [{**ENTRY, "minor": 4}]}}, [CAPTURE])


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["devices", "resources", "path", "namespaces", "type"]), inner),
)


@given(linux=JUNK)
def test_any_document_gets_the_device_or_is_an_error(linux):
    try:
        after = offered.with_devices({"linux": linux}, [CAPTURE])
    except bundle.BundleError:
        return
    assert RULE in after["linux"]["resources"]["devices"]
    assert [one.get("path") for one in after["linux"]["devices"] if isinstance(one, dict)].count("/dev/capture0") == 1


@given(value=JUNK, names=st.lists(st.text(max_size=9)))
def test_any_settings_give_an_answer_or_a_value_error(value, names):
    try:
        answer = offered.resolve(names, value, {})
    except ValueError:
        return
    assert answer.code or not names
