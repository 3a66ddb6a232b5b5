# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's stand-in for NVIDIA's runtime. Tests of isolation depend on its rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.toolkit.lab_toolkit import config, ctk_config, requirement, runtime
from tests.lab.toolkit.lab_toolkit.devices import Gpu, Refused, Settings, requested, resolve

A = "GPU-c143e771-0000-5000-8000-000000000001"
B = "GPU-c143e771-0000-5000-8000-000000000002"  # the first digits are the same as in A, like for GPUs of one board
C = "GPU-0badcafe-0000-5000-8000-000000000003"
MIG = "MIG-5c89852c-d268-5000-8000-000000000004"
GPUS = [Gpu(0, A, 0), Gpu(1, B, 1), Gpu(2, C, 5, (MIG,))]

KIND = "DOCKER_RESOURCE_NVIDIA-GPU"
NOW = Settings("1.20.0", swarm_resource=KIND)
ALL = {"NVIDIA_VISIBLE_DEVICES": "all"}
CONF = Path("/bundle/nvml.conf")


def given(env: dict[str, str], settings: Settings = NOW, privileged: bool = False) -> list[int] | None:
    """Return the indices of the GPUs that a container with this environment gets, or None if the container is unchanged."""
    wanted = requested(env, settings, privileged)
    return None if wanted is None else [gpu.index for gpu in resolve(wanted, GPUS, settings)]


@pytest.mark.parametrize(
    ("env", "settings", "expected"),
    [
        # Swarm's allocation overrides the image's request.
        ({KIND: A, **ALL}, NOW, [0]),
        ({KIND: f"{A},{C}", **ALL}, NOW, [0, 2]),
        ({KIND: f" {B} ,{A}"}, NOW, [0, 1]),
        # Without a reservation, the image decides. Every CUDA image requests all GPUs.
        (ALL, NOW, [0, 1, 2]),
        ({}, NOW, None),
        ({"NVIDIA_VISIBLE_DEVICES": ""}, NOW, None),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, NOW, None),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, NOW, []),
        ({"NVIDIA_VISIBLE_DEVICES": "2"}, NOW, [2]),
        ({"NVIDIA_VISIBLE_DEVICES": "0,1"}, NOW, [0, 1]),
        ({KIND: "all"}, NOW, [0, 1, 2]),
        ({KIND: "void", **ALL}, NOW, None),
        ({KIND: "", **ALL}, NOW, None),
        # Names of variables must match exactly.
        ({KIND: A, **ALL}, replace(NOW, swarm_resource="DOCKER_RESOURCE_GPU"), [0, 1, 2]),
        ({KIND: A, **ALL}, replace(NOW, swarm_resource=KIND.lower()), [0, 1, 2]),
        ({KIND: A, **ALL}, replace(NOW, swarm_resource=""), [0, 1, 2]),
        ({KIND: A}, replace(NOW, swarm_resource=""), None),
        # With several variables, the container gets the GPUs of all variables.
        (
            {"DOCKER_RESOURCE_H100": A, "DOCKER_RESOURCE_T4": C, **ALL},
            replace(NOW, swarm_resource="DOCKER_RESOURCE_H100, DOCKER_RESOURCE_T4"),
            [0, 2],
        ),
        ({"DOCKER_RESOURCE_T4": C, **ALL}, replace(NOW, swarm_resource="DOCKER_RESOURCE_H100,DOCKER_RESOURCE_T4"), [2]),
        # A count is read as an index.
        ({"DOCKER_RESOURCE_VRAM": "1"}, replace(NOW, swarm_resource="DOCKER_RESOURCE_VRAM"), [1]),
        # An old image without NVIDIA_REQUIRE_CUDA gets all GPUs if it requests no GPU.
        ({"CUDA_VERSION": "9.0"}, NOW, [0, 1, 2]),
        ({"CUDA_VERSION": "12.4", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, NOW, None),
        # MIG devices by UUID and by position.
        ({KIND: MIG}, NOW, [2]),
        ({KIND: "2:0"}, NOW, [2]),
    ],
)
def test_a_container_gets_these_devices(env: dict[str, str], settings: Settings, expected: list[int] | None) -> None:
    assert given(env, settings) == expected


@pytest.mark.parametrize(
    ("version", "mode", "expected"),
    [
        ("1.17.8", "auto", [0]),
        ("1.18.0", "auto", [0, 1, 2]),
        ("1.18.1", "auto", [0, 1, 2]),
        ("1.18.2", "auto", [0, 1, 2]),
        ("1.18.1", "legacy", [0]),
        ("1.19.0", "auto", [0]),
        ("1.19.1", "auto", [0]),
        ("1.20.0", "auto", [0]),
        ("1.20.0", "legacy", [0]),
    ],
)
def test_versions_that_ignore_swarm_resource(version: str, mode: str, expected: list[int]) -> None:
    assert given({KIND: A, **ALL}, Settings(version, mode, KIND)) == expected


@pytest.mark.parametrize(
    ("identifier", "settings", "message"),
    [
        ("GPU-c143e771", NOW, 'identifier is not a valid UUID or index: "GPU-c143e771"'),
        (A[:-1], NOW, "identifier is not a valid UUID or index"),
        ("gpu0", NOW, "identifier is not a valid UUID or index"),
        ("3", NOW, "from index: Invalid Argument"),
        ("8000", NOW, "from index: Invalid Argument"),
        ("2:1", NOW, "from index: Invalid Argument"),
        (A.replace("1", "2"), NOW, "from UUID: Not Found"),
        ("GPU-dead", replace(NOW, mode="legacy"), "GPU-dead: unknown device"),
        ("7", replace(NOW, version="1.17.8"), "7: unknown device"),
    ],
)
def test_identifiers_that_fail_the_container(identifier: str, settings: Settings, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        given({KIND: identifier}, settings)


def test_legacy_mode_accepts_a_prefix_and_uses_the_first_gpu_with_it() -> None:
    assert given({KIND: "GPU-c143e771"}, replace(NOW, mode="legacy")) == [0]


def test_a_lost_gpu_fails_requests_for_it_and_for_all() -> None:
    gpus = [Gpu(0, A, 0), Gpu(1, "", 1, error="GPU is lost")]
    assert [gpu.index for gpu in resolve([A], gpus, NOW)] == [0]
    for wanted in (["all"], ["1"]):
        with pytest.raises(Refused, match="GPU is lost"):
            resolve(wanted, gpus, NOW)


def test_ignoring_variables_of_unprivileged_containers_ignores_those_of_swarm_too() -> None:
    strict = replace(NOW, accept_unprivileged=False)
    assert given({KIND: A, **ALL}, strict) is None
    assert given({KIND: A, **ALL}, strict, privileged=True) == [0]


TWO_MIG = [Gpu(0, A, 0), Gpu(1, B, 1, (MIG, "MIG-5c89852c-d268-5000-8000-000000000005"))]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([MIG], [(1, [MIG])]),
        ([*reversed(TWO_MIG[1].mig)], [(1, [*reversed(TWO_MIG[1].mig)])]),
        ([MIG, A], [(0, []), (1, [MIG])]),
        (["all"], [(0, []), (1, list(TWO_MIG[1].mig))]),
    ],
)
def test_a_container_gets_the_mig_devices_that_it_names(mode: str, wanted: list[str], expected: list[Any]) -> None:
    chosen = resolve(wanted, TWO_MIG, replace(NOW, mode=mode))
    assert [(gpu.index, list(gpu.mig)) for gpu in chosen] == expected


def test_nvml_in_a_container_shows_only_its_gpus() -> None:
    chosen = resolve([A, MIG], TWO_MIG, NOW)
    assert runtime.task_conf(chosen, "driver = 1\n") == f"devices = present\nmig-visible = {MIG}\ndriver = 1\n"


def spec(**env: str) -> dict[str, Any]:
    return {"process": {"env": [f"{key}={value}" for key, value in env.items()]}, "mounts": [], "linux": {"resources": {}}}


def test_a_container_gets_only_its_device_nodes() -> None:
    changed = runtime.inject(spec(**ALL), [GPUS[2]], NOW, CONF)
    assert [device["path"] for device in changed["linux"]["devices"]] == ["/dev/nvidiactl", "/dev/nvidia5"]
    assert [(rule["allow"], rule["minor"]) for rule in changed["linux"]["resources"]["devices"]] == [(True, 255), (True, 5)]
    assert changed["process"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert runtime.inject(spec(**ALL), [], replace(NOW, mode="legacy"), CONF)["process"]["env"] == ["NVIDIA_VISIBLE_DEVICES=all"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--log", "x", "create", "--bundle", "/b", "id"], True),
        (["--root", "create", "state", "id"], False),
        (["state", "id"], False),
        (["--log-format=json", "create", "--bundle=/b", "id"], True),
    ],
)
def test_only_create_is_touched(argv: list[str], expected: bool) -> None:
    assert runtime.is_create(argv) is expected


def test_a_failure_is_written_to_the_log_that_docker_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.json"
    assert runtime.fail(["--log", str(log), "create"], "no such GPU") == 1
    assert json.loads(log.read_text())["msg"] == "no such GPU"
    assert "no such GPU" in capsys.readouterr().err


def written(text: str, version: str, *sets: str) -> str:
    return ctk_config.rewrite(config.tomllib.loads(text), list(sets), version, from_file=True)


def test_the_default_file_has_the_line_commented_at_the_top_level() -> None:
    text = config.render(config.DEFAULTS, "1.20.0")
    assert '#swarm-resource = "DOCKER_RESOURCE_GPU"\n' in text.partition("[")[0]
    assert config.tomllib.loads(text) == config.DEFAULTS


@pytest.mark.parametrize(
    ("version", "value", "kept"),
    [
        ("1.17.8", "DOCKER_RESOURCE_GPU", False),
        ("1.19.1", "DOCKER_RESOURCE_GPU", False),
        ("1.20.0", "DOCKER_RESOURCE_GPU", True),
        ("1.19.1", "DOCKER_RESOURCE_NVIDIA-GPU", True),
        ("1.20.0", "DOCKER_RESOURCE_NVIDIA-GPU", True),
    ],
)
def test_a_rewrite_keeps_or_drops_the_line(version: str, value: str, kept: bool) -> None:
    text = written(f'# mine\nswarm-resource = "{value}"\n', version)
    assert ("swarm-resource" in config.tomllib.loads(text)) is kept
    assert "# mine" not in text


def test_config_set_splits_at_commas_and_so_a_list_of_variables_fails() -> None:
    words = ctk_config.parse(["--set", "swarm-resource=A,B"])
    with pytest.raises(ctk_config.Invalid, match='invalid --set option B: invalid config option: undefined field: "B"'):
        ctk_config.rewrite({}, words["sets"], "1.20.0", from_file=True)


def test_set_writes_the_types_that_the_toolkit_knows() -> None:
    text = written(
        "", "1.20.0", "swarm-resource=DOCKER_RESOURCE_GPU", "nvidia-container-cli.no-cgroups", "nvidia-container-runtime.runtimes=crun:runc"
    )
    tree = config.tomllib.loads(text)
    assert tree["swarm-resource"] == "DOCKER_RESOURCE_GPU"
    assert tree["nvidia-container-cli"] == {"no-cgroups": True}
    assert tree["nvidia-container-runtime"] == {"runtimes": ["crun", "runc"]}


@pytest.mark.parametrize(
    ("env", "refused"),
    [
        ({}, False),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.2"}, False),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, True),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=535,driver<536"}, False),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470,driver<471"}, True),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.2", "NVIDIA_REQUIRE_DRIVER": "driver>=550"}, True),
        ({"CUDA_VERSION": "12.4.1"}, True),
        ({"CUDA_VERSION": "12.4.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.2"}, False),
        ({"CUDA_VERSION": "12.4.1", "NVIDIA_DISABLE_REQUIRE": "true"}, False),
    ],
)
def test_in_legacy_mode_the_driver_must_meet_the_requirement_of_the_image(env: dict[str, str], refused: bool) -> None:
    with pytest.raises(Refused, match="requirement error: unsatisfied condition: ") if refused else nullcontext():
        requirement.refuse(env, {"cuda": "12.2", "driver": "535.104.05"})


@pytest.mark.parametrize("mode", ["legacy", "cdi", "jit-cdi"])
def test_mounts_override_variables_if_the_settings_accept_mounts(mode):
    mounts = [{"source": "/dev/null", "destination": f"/var/run/nvidia-container-devices/{one}"} for one in (A, "cdi/x", "1")]
    other = [{"source": "/data", "destination": "/var/run/nvidia-container-devices/all"}, {"source": "/dev/null", "destination": "/x"}]
    taken = replace(NOW, mode=mode, mounts=True)
    env = {"NVIDIA_VISIBLE_DEVICES": "void", KIND: C}
    assert requested(env, taken, mounts=mounts) == [A, "1"]
    assert requested(env, taken, mounts=[*mounts, {**other[0], "source": "/dev/null"}]) == ["all"]
    assert requested(env, taken, mounts=other) == requested(env, replace(NOW, mode=mode), mounts=mounts) == [C]


class Program:
    """Installs the stand-in in a folder, like on a node. Two copies of runc print their arguments."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "etc/config.toml"
        self.config.parent.mkdir()
        self.runcs = [folder / name / "runc" for name in ("a", "b")]
        for runc in self.runcs:
            runc.parent.mkdir()
            runc.write_text(f'#!/bin/sh\necho {runc.parent.name} "$@"\n')
            runc.chmod(0o755)
        home = shutil.copytree(config.__file__.rpartition("/")[0], folder / "home/lab_toolkit").parent
        (home / "version").write_text("1.20.0\n")
        self.path = shutil.copy(Path(runtime.__file__).parents[1] / "bin/nvidia-container-runtime", folder)
        places = {"/usr/lib/gpu-lab/toolkit": home, "/etc/nvidia-container-runtime": folder / "etc", "/run/gpu-lab": folder / "run"}
        for path in (Path(self.path), *home.rglob("*.py")):
            text = path.read_text()
            for place, instead in places.items():
                text = text.replace(place, str(instead))
            path.write_text(text)

    def __call__(self, *words: str) -> tuple[int, str, str]:
        done = subprocess.run([self.path, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def choose(self, position: int) -> None:
        self.config.write_text(f'[nvidia-container-runtime]\nruntimes = ["{self.runcs[position]}"]\n')


def test_config_toml_is_read_again_after_a_change(tmp_path: Path) -> None:
    called = Program(tmp_path)
    for position, name in enumerate("ab"):
        called.choose(position)
        for dummy in ("loads it", "has loaded it"):
            assert called("--version") == (0, f"NVIDIA Container Runtime version 1.20.0\n{name} --version\n", "")
            assert called("state", "x") == (0, f"{name} state x\n", "")
    called.config.write_text("[broken")
    assert [called("state", "x")[0], called("--version")[:2]] == [1, (1, "NVIDIA Container Runtime version 1.20.0\n")]
    called.choose(1)
    called.runcs[1].unlink()
    code, _out, error = called("state", "x")
    assert code == 1
    assert "no runtime binary found" in error


def test_python_runs_only_for_a_changed_config_toml_and_for_a_container(tmp_path: Path) -> None:
    """dockerd calls the runtime for each /info, and NVIDIA's is a compiled program."""
    called = Program(tmp_path)
    called.choose(0)
    called("features")
    shutil.rmtree(tmp_path / "home/lab_toolkit")
    assert called("features") == (0, "a features\n", "")
    assert "lab_toolkit" in called("create", "--bundle", "x")[2]
