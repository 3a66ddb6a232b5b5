# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks how the controller computes labels from /proc/cpuinfo of a node."""

from __future__ import annotations

import archspec.cpu
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.hardware import cpu, parse_cpuinfo, parse_meminfo
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers import cpu as cpu_names
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.allowed_labels import with_allowed_labels
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.cpu import ArchspecMissing, cpu_labels

BASE = "fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat clflush mmx fxsr sse sse2 ht syscall nx rdtscp lm pni"
NEHALEM = BASE + " ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
BROADWELL = NEHALEM + " pclmulqdq fma movbe aes xsave avx f16c rdrand abm fsgsbase bmi1 avx2 bmi2 rdseed adx xsaveopt"
SKYLAKE_AVX512 = BROADWELL + " avx512f avx512dq clflushopt clwb avx512cd avx512bw avx512vl xsavec"


def x86(flags, vendor="GenuineIntel"):
    return f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: x\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: other\n", "x86_64"


ARM = "processor\t: 0\nFeatures\t: fp asimd evtstrm aes sve sve2\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800MHz\n\n"


@pytest.mark.parametrize(
    ("text", "machine", "name", "level"),
    [
        (*x86(BROADWELL), "broadwell", "v3"),
        (*x86(SKYLAKE_AVX512), "skylake_avx512", "v4"),
        (*x86(NEHALEM), "nehalem", "v2"),
        (*x86(BASE), "x86_64", "v1"),
        (*x86(BROADWELL.replace("rdseed", "")), "haswell", "v3"),
        # A hypervisor that hides the vendor still shows the level.
        (*x86(SKYLAKE_AVX512, "KVMKVMKVM"), "x86_64_v4", "v4"),
        (*x86(SKYLAKE_AVX512, "AuthenticAMD"), "x86_64_v4", "v4"),
        (ARM.format(part="0xd4f"), "aarch64", "neoverse_v2", None),  # Grace
        (ARM.format(part="0xfff"), "aarch64", "aarch64", None),
        (POWER, "ppc64le", "power9le", None),
        ("", "aarch64", "aarch64", None),
    ],
)
def test_a_cpu_by_name(text, machine, name, level):
    found = cpu_labels(dict(parse_cpuinfo(text, machine), label_prefix="cpu."))
    assert found.pop("cpu.microarchitecture") == name
    assert found == ({"cpu.x86_64_level": level} if level else {})


def test_an_unknown_machine_has_no_label():
    assert cpu_labels(dict(parse_cpuinfo("", "loongarch64"), label_prefix="cpu.")) == {}


def test_archspec_agrees_about_its_own_machine():
    found = cpu_labels(dict(cpu(), label_prefix="cpu."))
    assert found["cpu.microarchitecture"] == archspec.cpu.host().name


def test_every_x86_architecture_is_found_from_its_own_features():
    for target in archspec.cpu.TARGETS.values():
        if target.family.name == "x86_64":
            seen = parse_cpuinfo(*x86(" ".join(target.features), target.vendor))
            assert cpu_labels(dict(seen, label_prefix="c."))["c.microarchitecture"] == target.name


def test_the_answer_is_completed_on_the_controller():
    answer = {"labels": {"gpu.count": "1"}, "labels_unknown": [], "cpu": dict(parse_cpuinfo(*x86(BROADWELL)), label_prefix="my.")}
    assert with_allowed_labels(answer, "g1", "gpu.", "my.") == {
        "labels": {"gpu.count": "1", "my.microarchitecture": "broadwell", "my.x86_64_level": "v3"},
        "labels_unknown": [],
    }
    for silent in ({"failed": True, "msg": "x"}, {"labels": {}, "labels_unknown": []}):
        assert with_allowed_labels(dict(silent, **{"cpu": None} if "labels" in silent else {}), "g1", "gpu.", "cpu.") == silent


def test_without_archspec_the_labels_are_unknown_and_a_warning_is_shown(monkeypatch):
    monkeypatch.setattr(cpu_names, "HAS_ARCHSPEC", False)
    seen = dict(parse_cpuinfo(*x86(BROADWELL)), label_prefix="cpu.")
    with pytest.raises(ArchspecMissing):
        cpu_labels(seen)
    answer = with_allowed_labels({"labels": {"gpu.count": "1"}, "labels_unknown": [], "cpu": seen}, "g1", "gpu.", "cpu.")
    assert (answer["labels"], answer["labels_unknown"]) == ({"gpu.count": "1"}, ["cpu."])
    (warning,) = answer["warnings"]
    assert "pip install archspec" in warning
    assert "gpu_node_label_cpu_prefix" in warning
    assert cpu_labels(dict(seen, label_prefix="")) == {}


def test_the_memory_of_the_system_is_read():
    assert parse_meminfo("MemTotal:       24684216 kB\nMemFree: 1 kB\n") == 24105
    assert parse_meminfo("") is None
