# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import definition
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._stack.job_file import read_job_file

FOLDER = Path(__file__).parents[3] / "docs/examples"
EXAMPLES = [FOLDER / "fleet/job.yml", *sorted((FOLDER / "jobs").glob("*.yml"))]
WRONG = {
    "is not readable YAML": "a: [",
    "is not a mapping": "- a",
    "array[0] contains itself: an alias (*name) is inside": "name: a\narray: &a [*a]",
    "env.A contains itself": "name: a\nenv: &e {A: *e}",
    "has more than 100000 values after its aliases are expanded": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
    "is not readable YAML: it is nested too deeply": "[" * 5000,
    "name is binary data": "name: !!binary aGVsbG8=",
    "is not a mapping of options": "",
    "imagee is not known. Options are name, image,": "imagee: x",
    "cannot be read: No such file or directory. Make it readable.": None,
    "cannot be read: ": b"\xff\xfe\x00",
}


@pytest.mark.parametrize(("words", "text"), WRONG.items(), ids=WRONG)
def test_an_invalid_file_is_an_error(tmp_path, words, text):
    path = tmp_path / "job.yml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GpuSwarmError) as problem:
        read_job_file(str(path))
    assert str(path) in problem.value.message
    assert words in problem.value.message
    assert problem.value.message.endswith("Nothing was submitted.")


def test_a_job_file_is_read_like_ansible_reads_yaml(tmp_path):
    """A playbook can pass the same options to the module. Both ways must create the same jobs."""
    path = tmp_path / "job.yml"
    path.write_text("name: a\nenv: {A: on, LR: 1e-3, AT: 22:22}\narray: [&one {A: 1}, {<<: *one, B: 2}]\n")
    found = read_job_file(str(path))
    assert found["env"] == {"A": True, "LR": "1e-3", "AT": 1342}
    assert found["array"] == [{"A": 1}, {"A": 1, "B": 2}]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_job(path):
    given = {"kind": "NVIDIA-GPU", **read_job_file(str(path))}
    assert len(definition.jobs(given, "gpu-swarm.")) == len(given.get("array", [{}]))
    assert f"-e job={path.name}" in path.read_text(encoding="utf-8")


def test_x_gpu_has_the_form_of_a_compose_file(tmp_path):
    path = tmp_path / "job.yml"
    for key in ("x-gpu", "x_gpu"):
        path.write_text(f"name: a\n{key}: {{memory_min: 40000}}\n")
        assert read_job_file(str(path)) == {"name": "a", "x_gpu": {"memory_min": 40000}}


def test_there_are_examples():
    assert [path.name for path in EXAMPLES] == ["job.yml", "array.yml", "download_model.yml", "ffmpeg.yml", "nightly.yml"]
