# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module as a separate process with arguments in JSON, like Ansible's wrapper on a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import checkout
import nvml_lab
import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.modules import gpu_info

MAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import checkout
from ansible.module_utils import basic
from ansible_collections.fleet.gpu_swarm.plugins.modules import gpu_info
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
basic._ANSIBLE_PROFILE = "legacy"
gpu_info.main()
"""


def module(arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", MAIN, checkout.SUPPORT],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        env=dict(os.environ, **environment),
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("check", [True, False])
def test_gpu_info_reads_and_never_changes(check):
    code, answer = module({"nvml_path": nvml_lab.library(), "_ansible_check_mode": check}, GPU_LAB_NVML=nvml_lab.fleet("h100x8-one-lost"))
    assert code == 0
    assert answer["changed"] is False
    assert [gpu["health"]["state"] for gpu in answer["gpus"]].count("ok") == 7


@pytest.mark.parametrize(
    ("arguments", "fleet", "words"),
    [
        ({}, "mismatch", "Reboot the node"),
        ({"nvml_timeout": 1}, "hang", "NVML gave no answer within 1 s"),
        ({}, "nodriver", "modprobe nvidia"),
        ({"nvml_path": "/nonexistent/lib.so"}, "t4x4", "/nonexistent/lib.so"),
    ],
)
def test_an_error_is_reported(arguments, fleet, words):
    code, answer = module(dict({"nvml_path": nvml_lab.library()}, **arguments), GPU_LAB_NVML=nvml_lab.fleet(fleet))
    assert code == 1
    assert words in answer["msg"]
    assert "exception" not in answer


def test_a_missing_binding_is_reported(tmp_path):
    hidden = tmp_path / "pynvml.py"
    hidden.write_text("raise ImportError('hidden by a test')\n")
    code, answer = module({"nvml_path": nvml_lab.library()}, PYTHONPATH=str(tmp_path))
    assert code == 1
    assert answer["missing"] == ["nvml_binding"]


def described(contains, record):
    """Check that RETURN has exactly the keys of ``record``, with matching types."""
    kinds = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
    assert set(contains) == set(record)
    for key, value in record.items():
        entry = contains[key]
        assert value is None or isinstance(value, kinds[entry["type"]]), key
        if isinstance(value, dict) and "contains" in entry:
            described(entry["contains"], value)
        for item in value if isinstance(value, list) and "contains" in entry else ():
            described(entry["contains"], item)


@pytest.mark.parametrize("fleet", ["a100-mig", "k80x2", "gb10", "h100x8-one-lost", "h100x8"])
def test_every_field_is_documented(fleet):
    answer = module({"nvml_path": nvml_lab.library()}, GPU_LAB_NVML=nvml_lab.fleet(fleet))[1]
    documented = yaml.safe_load(gpu_info.RETURN)
    del documented["missing"]
    described(documented, {key: value for key, value in answer.items() if key not in ("changed", "invocation")})
