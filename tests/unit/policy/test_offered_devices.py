# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement.node_match import is_constraint
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import offered_devices
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.owned_labels import normalise

RIGHT = [
    {},
    {"rdma": ["/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"]},
    {"a" * 32: ["/dev/fuse"], "0_-": ["/dev/bus/usb/001/[0-9]*", "/dev/v4l/by-id/usb-Cam_1.0:2-video?"]},
    {"many": [f"/dev/tty{number}" for number in range(32)]},
    {"memory-like": ["/dev/memory", "/dev/portal", "/dev/vfiox"]},
]
NOT_BELOW_DEV = "must be an absolute path below /dev"
NEVER = "which no service is given, because it opens the whole machine. Remove the path."
WRONG = {
    "text": ("/dev/fuse", "X is '/dev/fuse', but must be a mapping. Write lists of paths by name: {fuse: [/dev/fuse]}."),
    "no mapping": (["/dev/fuse"], "X is ['/dev/fuse'], but must be a mapping."),
    "nothing": (None, "X is None, but must be a mapping."),
    "too many names": ({f"n{number}": ["/dev/fuse"] for number in range(33)}, "X has 33 names, and may have 32. Remove some."),
    "too many paths": ({"a": [f"/dev/tty{number}" for number in range(33)]}, "X.a has 33 paths, and may have 32. Use * for several devices"),
    "capital letters": ({"Rdma": ["/dev/x"]}, "X: 'Rdma' is not a valid name of devices."),
    "a dot": ({"a.b": ["/dev/x"]}, "X: 'a.b' is not a valid name"),
    "a long name": ({"a" * 33: ["/dev/x"]}, "is not a valid name"),
    "a line break": ({"a\n": ["/dev/x"]}, r"X: 'a\n' is not a valid name"),
    "a number as name": ({1: ["/dev/x"]}, "X: 1 is not a valid name"),
    "no name": ({"": ["/dev/x"]}, "X: '' is not a valid name"),
    "an empty list": ({"a": []}, "X.a is [], but must be a list of paths. Write a: [/dev/fuse], or remove it."),
    "one path": ({"a": "/dev/kvm"}, "X.a is '/dev/kvm', but must be a list of paths. Write a: [/dev/kvm], or remove it."),
    "a mapping": ({"a": {"path": "/dev/kvm"}}, "X.a is {'path': '/dev/kvm'}, but must be a list of paths."),
    "a number": ({"a": [1]}, f"X.a[0] is 1, but {NOT_BELOW_DEV}"),
    "relative": ({"a": ["dev/fuse"]}, NOT_BELOW_DEV),
    "elsewhere": ({"a": ["/dev/fuse", "/etc/passwd"]}, f"X.a[1] is '/etc/passwd', but {NOT_BELOW_DEV}"),
    "all of dev": ({"a": ["/dev"]}, NOT_BELOW_DEV),
    "all of dev, with a slash": ({"a": ["/dev/"]}, NOT_BELOW_DEV),
    "out of dev": ({"a": ["/dev/../etc/passwd"]}, NOT_BELOW_DEV),
    "out of dev at the end": ({"a": ["/dev/x/.."]}, NOT_BELOW_DEV),
    "the same folder": ({"a": ["/dev/./mem"]}, NOT_BELOW_DEV),
    "two slashes": ({"a": ["/dev//mem"]}, NOT_BELOW_DEV),
    "a blank": ({"a": ["/dev/a b"]}, NOT_BELOW_DEV),
    "a line break in a path": ({"a": ["/dev/fuse\n"]}, NOT_BELOW_DEV),
    "a zero byte": ({"a": ["/dev/fuse\0"]}, NOT_BELOW_DEV),
    "other letters": ({"a": ["/dev/fusé"]}, NOT_BELOW_DEV),
    "a long path": ({"a": ["/dev/" + "x" * 251]}, NOT_BELOW_DEV),
    "a GPU": ({"a": ["/dev/nvidia0"]}, "X.a[0] is /dev/nvidia0, which is a GPU of NVIDIA. Swarm allocates GPUs: remove the path, and let services"),
    "GPUs": ({"a": ["/dev/nvidia*"]}, "which is a GPU of NVIDIA"),
    "MIG": ({"a": ["/dev/nvidia-caps/nvidia-cap1"]}, "which is a GPU of NVIDIA"),
    "VFIO": ({"a": ["/dev/vfio/vfio"]}, NEVER),
    "groups of VFIO": ({"a": ["/dev/vfio/*"]}, NEVER),
    "the folder of VFIO": ({"a": ["/dev/vfio"]}, NEVER),
    **{path: ({"a": [f"/dev/{path}"]}, f"X.a[0] is /dev/{path}, {NEVER}") for path in ("mem", "kmem", "port", "kmsg", "crash")},
}  # fmt: skip


@pytest.mark.parametrize("offered", RIGHT)
def test_valid_names_and_paths_are_accepted(offered):
    offered_devices.check(offered, "X")


@pytest.mark.parametrize(("offered", "words"), WRONG.values(), ids=WRONG)
def test_other_names_and_paths_are_refused_with_the_place_and_the_remedy(offered, words):
    with pytest.raises(GpuSwarmError) as raised:
        offered_devices.check(offered, "X")
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("text", "existing", "constraints"),
    [
        ("", [], []),
        (" , ", [], []),
        ("rdma", [], ["node.labels.gpu-swarm.device.rdma==true"]),
        (" rdma,fuse ,rdma", [], ["node.labels.gpu-swarm.device.rdma==true", "node.labels.gpu-swarm.device.fuse==true"]),
        ("rdma,fuse", ["node.labels.gpu-swarm.device.rdma == true"], ["node.labels.gpu-swarm.device.fuse==true"]),
        ("rdma", ["node.labels.gpu-swarm.device.rdma!=true"], ["node.labels.gpu-swarm.device.rdma==true"]),
    ],
)
def test_a_service_that_asks_for_devices_needs_nodes_that_have_them(text, existing, constraints):
    assert offered_devices.constraints(text, existing, "X") == constraints
    assert all(map(is_constraint, constraints))


@pytest.mark.parametrize("text", ["RDMA", "rdma;fuse", "{{.Node.Hostname}}", "a==true", "rdma,\u202e", "x" * 33])
def test_an_invalid_name_in_the_variable_is_refused(text):
    with pytest.raises(GpuSwarmError, match=r"X is .*, but .* is not a name of devices\. Write names of gpu_swarm_devices, separated by commas\."):
        offered_devices.constraints(text, [], "X")


def test_a_label_is_one_that_the_collection_may_write():
    labels = offered_devices.labels({"rdma": ["/dev/infiniband/uverbs0"]}, ["rdma"])
    assert labels == {"gpu-swarm.device.rdma": "true"}
    assert normalise(labels, "gpu-swarm.", "id") == labels
    with pytest.raises(GpuSwarmError, match=r"reserved for this collection's own records"):
        normalise({"gpu-swarm.devices": "true"}, "gpu-swarm.", "id")


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/dev/fuse", "/dev/fuse", True),
        ("/dev/infiniband/uverbs*", "/dev/infiniband/uverbs12", True),
        ("/dev/infiniband/uverbs*", "/dev/infiniband", True),
        ("/dev/bus/usb/*/*", "/dev/bus/usb", True),
        ("/dev/bus/usb/*/*", "/dev/bus/usb/001/004", True),
        ("/dev/*", "/dev/infiniband/uverbs0", False),
        ("/dev/video?", "/dev/video10", False),
        ("/dev/infiniband/uverbs*", "/dev/inf", False),
        ("/dev/fuse", "/dev/FUSE", False),
    ],
)
def test_a_pattern_covers_its_paths_and_the_directories_above_them(pattern, path, covered):
    assert offered_devices.covers(pattern, path) is covered
