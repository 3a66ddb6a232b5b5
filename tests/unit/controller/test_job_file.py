# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import definition
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._controller.job_file import read

EXAMPLES = sorted((Path(__file__).parents[3] / "docs/examples/jobs").glob("*.yml"))
WRONG = {
    "is no YAML": "a: [",
    "is no mapping": "- a",
    "is no mapping of options": "",
    "imagee is not known; there are name, image,": "imagee: x",
    "cannot be read": None,
    "cannot be read: ": b"\xff\xfe\x00",
}


@pytest.mark.parametrize(("words", "text"), WRONG.items(), ids=WRONG)
def test_a_file_that_is_none(tmp_path, words, text):
    path = tmp_path / "job.yml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GpuSwarmError) as problem:
        read(str(path))
    assert str(path) in problem.value.message
    assert words in problem.value.message
    assert problem.value.message.endswith("Nothing was submitted.")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_job(path):
    given = {"kind": "NVIDIA-GPU", **read(str(path))}
    assert len(definition.jobs(given, "gpu-swarm.")) == len(given.get("array", [{}]))
    assert f"-e job=docs/examples/jobs/{path.name}" in path.read_text(encoding="utf-8")


def test_x_gpu_is_written_as_in_a_compose_file(tmp_path):
    path = tmp_path / "job.yml"
    for key in ("x-gpu", "x_gpu"):
        path.write_text(f"name: a\n{key}: {{memory_min: 40000}}\n")
        assert read(str(path)) == {"name": "a", "x_gpu": {"memory_min": 40000}}


def test_there_are_examples():
    assert [path.name for path in EXAMPLES] == ["array.yml", "job.yml"]
