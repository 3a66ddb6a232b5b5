# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds requests for devices in the description of a container, and writes the answer of the guard into the description."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import bundle, toolkit_config
from tests.lab.toolkit.lab_toolkit.devices import Settings, requested

LISTED = ("DOCKER_RESOURCE_NVIDIA-GPU", "DOCKER_RESOURCE_MIG-1G.10GB")
A, B = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
VISIBLE = bundle.VISIBLE


@pytest.mark.parametrize(
    ("before", "devices", "after"),
    [
        ([], [], [f"{VISIBLE}=void"]),
        (["PATH=/bin", f"{VISIBLE}=all"], [], ["PATH=/bin", f"{VISIBLE}=void"]),
        (["DOCKER_RESOURCE_NVIDIA-GPU=all", "X=1"], [], ["X=1", f"{VISIBLE}=void"]),
        (["CUDA_VERSION=9.0"], [], ["CUDA_VERSION=9.0", f"{VISIBLE}=void"]),
        (
            ["DOCKER_RESOURCE_NVIDIA-GPU=all", f"{VISIBLE}=all", f"DOCKER_RESOURCE_NVIDIA-GPU={A}"],
            [A],
            [f"DOCKER_RESOURCE_NVIDIA-GPU={A}", f"{VISIBLE}={A}", f"DOCKER_RESOURCE_NVIDIA-GPU={A}"],
        ),
        ([f"{VISIBLE}=", f"{VISIBLE}", "DOCKER_RESOURCE_SSD=1"], [A, B], [f"{VISIBLE}={A},{B}", f"{VISIBLE}={A},{B}", "DOCKER_RESOURCE_SSD=1"]),
    ],
)
def test_every_variable_of_a_request_gets_the_answer(before, devices, after):
    assert bundle.with_devices(before, LISTED, devices) == after


def test_an_unwanted_variable_is_removed_unless_it_gets_the_answer():
    before = ["DOCKER_RESOURCE_VRAM=all", "X=1", f"{LISTED[0]}=all"]
    assert bundle.with_devices(before, LISTED, [A], ["DOCKER_RESOURCE_VRAM", LISTED[0]]) == ["X=1", f"{LISTED[0]}={A}", f"{VISIBLE}={A}"]


NAMES = st.sampled_from([VISIBLE, *LISTED, "PATH", "CUDA_VERSION", "DOCKER_RESOURCE_SSD", "NVIDIA_VISIBLE_DEVICES_", ""])
VALUES = st.one_of(st.sampled_from(["", "all", "void", "none", "0", "0,1", A, f"{A},{B}", "all,void"]), st.text(max_size=20))
ENTRIES = st.lists(st.one_of(st.builds("{}={}".format, NAMES, VALUES), NAMES), max_size=12)
DEVICES = st.sampled_from([[], [A], [A, B]])
MODES = st.sampled_from(
    [
        Settings("1.20.0", swarm_resource=",".join(LISTED)),  # the default mode is jit-cdi
        Settings("1.20.0", mode="jit-cdi", swarm_resource=",".join(LISTED)),
        Settings("1.20.0", mode="cdi", swarm_resource=",".join(LISTED)),
        Settings("1.20.0", mode="legacy", swarm_resource=",".join(LISTED)),
        Settings("1.18.0", swarm_resource=",".join(LISTED)),  # this release ignores swarm-resource
        Settings("1.17.0", swarm_resource=LISTED[0]),
        Settings("1.20.0"),  # another tool removed the line
    ]
)


@given(entries=ENTRIES, devices=DEVICES, mode=MODES, privileged=st.booleans())
def test_nvidias_runtime_gives_these_devices_and_no_others(entries, devices, mode, privileged):
    """Uses the stand-in for NVIDIA's runtime. If a variable is set several times, the runtime reads the last value, but getenv the first."""
    after = bundle.with_devices(entries, mode.preferred or LISTED, devices)
    for order in (after, after[::-1]):
        env = dict(item.partition("=")[::2] for item in order)
        assert (requested(env, mode, privileged) or []) == devices


@given(entries=ENTRIES, devices=DEVICES)
def test_nothing_but_these_variables_changes(entries, devices):
    document = {"ociVersion": "1.0", "process": {"args": ["x"], "env": list(entries)}, "linux": {"resources": {"memory": {"limit": 2**63}}}}
    before = copy.deepcopy(document)
    after = bundle.with_environment(document, bundle.with_devices(bundle.environment(document), LISTED, devices))
    assert document == before
    others = [one for one in after["process"]["env"] if bundle.name_of(one) not in (VISIBLE, *LISTED)]
    assert others == [one for one in entries if bundle.name_of(one) not in (VISIBLE, *LISTED)]
    assert {**after, "process": {**after["process"], "env": None}} == {**before, "process": {**before["process"], "env": None}}
    assert bundle.with_devices(after["process"]["env"], LISTED, devices) == after["process"]["env"]


VARIABLES = st.dictionaries(st.sampled_from(["GPU_SWARM_SLOTS", "GPU_MEMORY_FRACTION", "PATH", ""]), st.text(max_size=9))


@given(entries=ENTRIES, values=VARIABLES)
def test_values_for_a_task_replace_each_variable_of_that_name_and_nothing_else_changes(entries, values):
    after = bundle.with_values(entries, values)
    for name, value in values.items():
        assert {one for one in after if bundle.name_of(one) == name} == {f"{name}={value}"}
    others = [one for one in after if bundle.name_of(one) not in values]
    assert others == [one for one in entries if bundle.name_of(one) not in values]
    assert bundle.with_values(after, values) == after
    assert bundle.with_values(entries, {}) == entries


@given(entries=ENTRIES, mode=MODES)
def test_a_container_without_a_request_gets_no_device_from_nvidias_runtime(entries, mode):
    """The guard finds a request whenever the runtime would give a device."""
    env = dict(item.partition("=")[::2] for item in entries)
    if requested(env, mode):
        assert bundle.requests_gpus(entries, mode.preferred)


MOUNTED = [
    Settings("1.20.0", mode=mode, swarm_resource=LISTED[0], mounts=mounts) for mode in ("legacy", "cdi", "jit-cdi") for mounts in (True, False)
]
SLASHES = st.sampled_from(["/", "//", "///", "/./", "/x/../"])
DESTINATIONS = st.one_of(
    st.builds("{}var{}run{}nvidia-container-devices{}{}".format, *3 * [SLASHES], st.just("") | SLASHES, st.sampled_from(["all", A, ""])),
    st.just("/var/run/x/../all"),
)
SOURCES = st.sampled_from(["/dev/null", "//dev/null", "/dev//null/", "/data"])
MOUNTS = st.lists(st.fixed_dictionaries({"source": SOURCES, "destination": DESTINATIONS}), max_size=3)


@given(entries=ENTRIES, devices=DEVICES, mode=st.sampled_from(MOUNTED), mounts=MOUNTS)
def test_a_mount_that_requests_gpus_is_found_in_each_mode(entries, devices, mode, mounts):
    """If the toolkit accepts mounts, they override all variables, so the answer in the variables is not enough."""
    env = dict(item.partition("=")[::2] for item in bundle.with_devices(entries, LISTED, devices))
    if (requested(env, mode, mounts=mounts) or []) != devices:
        assert bundle.device_mounts({"mounts": mounts})


@pytest.mark.parametrize(
    "document", [None, [], {}, {"process": None}, {"process": {"env": "A=b"}}, {"process": {"env": [1]}}, {"process": {"env": {"A": "b"}}}]
)
def test_a_document_without_a_list_of_variables_is_an_error(document):
    with pytest.raises(bundle.BundleError):
        bundle.environment(document)


def test_a_process_without_variables_has_none():
    assert bundle.environment({"process": {}}) == []


@pytest.mark.parametrize(
    ("destination", "wants"),
    [
        ("/var/run/nvidia-container-devices/all", True),
        ("/var/run/nvidia-container-devices", True),
        ("/run/nvidia-container-devices/GPU-a", True),
        ("/var/run/../run/nvidia-container-devices//0", True),
        ("/var/run/nvidia-container-devicesall", True),
        ("//var/run/nvidia-container-devices/all", True),
        ("///var//run/./nvidia-container-devicesall", True),
        ("/var/run/nvidia-container-devices-of-mine", True),
        ("/var/run/nvidia-container-device", False),
        ("/data/var/run/nvidia-container-devices/all", False),
        ("/data", False),
    ],
)
def test_a_mount_that_requests_a_device_is_found(destination, wants):
    document = {"mounts": [{"destination": "/proc"}, {"destination": destination}, "odd"]}
    assert bundle.device_mounts(document) == ([destination] if wants else [])
    assert bundle.device_mounts({}) == []


def test_two_slashes_at_the_beginning_are_a_request_in_the_stand_in_too():
    """Checks the stand-in. Without this rule, it would not show a request that the guard misses."""
    for target in ("//var/run/nvidia-container-devices/all", "/var/run/nvidia-container-devicesall"):
        assert requested({}, MOUNTED[0], mounts=[{"source": "//dev/null", "destination": target}]) == ["all"]


def test_replacement_characters_of_go_stay_unchanged():
    text = '{"process": {"env": ["A=\\ufffd\\ud800", "NVIDIA_VISIBLE_DEVICES=all"]}}'
    document = json.loads(text)
    after = bundle.with_environment(document, bundle.with_devices(bundle.environment(document), LISTED, []))
    assert json.dumps(after) == text.replace("=all", "=void")


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ('swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n', ["DOCKER_RESOURCE_NVIDIA-GPU"]),
        ("a = 1\n swarm-resource='A, B,A'  # why\n[t]\nx = 1\n", ["A", "B"]),
        ('"swarm-resource" = "A"\n', ["A"]),
        ('#swarm-resource = "A"\n', []),
        ('[t]\nswarm-resource = "A"\n', []),
        ("", []),
        ('swarm-resource = ""\n', []),
        ("x = [\n  1,\n]\nswarm-resource = 'A'\n", ["A"]),
        ('x = [ # [t]\n"]",\n[2]]\nswarm-resource = "A"\n', ["A"]),
        ('x = """\n[t]\nswarm-resource = "B"\n"""\nswarm-resource = "A"\n', ["A"]),
        ("x = '''\n[t]\n'''\nswarm-resource = 'A'\n", ["A"]),
        ('swarm-resource = "\\u0041,\\U00000042"\n', ["A", "B"]),
        ('"swarm\\u002dresource" = "A"\n', ["A"]),
        ('swarm-resource = """A"""\n', ["A"]),
        ('swarm-resource = """\nA,\\\n   B"""\n', ["A", "B"]),
        ("swarm-resource = '''\r\nA'''\r\n", ["A"]),
        ('\ufeffswarm-resource = "A"\n', ["A"]),
        ('SWARM-RESOURCE = "A"\n', ["A"]),
    ],
)
def test_the_variables_that_swarm_resource_names(text, listed):
    """The result is the same as with NVIDIA's tools, for any layout. Their decoder also accepts the key in capitals and skips a byte order mark."""
    assert list(toolkit_config.listed_variables(text)) == listed
