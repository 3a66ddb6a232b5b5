# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that pages of docs/run show become stack files and jobs without a note, with what an update needs. test_examples.py tests the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from example_values import ENVIRONMENT, FILES

from plugins.module_utils._jobs import definition
from plugins.module_utils._jobs.job_options import JOB_OPTIONS
from plugins.plugin_utils._stack.job_file import check_options, read_job_file
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import Stack, translate
from tests.pages import examples

DOCS = Path(__file__).parents[3] / "docs"
SHOWN = [DOCS / path for paths in examples.SHOWN.values() for path in paths]
STACKS = [path for path in SHOWN if path.parent.name == "stacks"]
JOBS = [DOCS / "examples" / "fleet" / "job.yml", *sorted((DOCS / "examples" / "jobs").iterdir())]


class Recipe(NamedTuple):
    """What becomes of a Compose file. ``gpus`` are the reservations of each service."""

    gpus: dict[str, dict[str, int]]
    secrets: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    shared_memory: int = 0  # bytes


GPU = {"NVIDIA-GPU": 1}
RECIPES = {
    "vllm.yml": Recipe({"vllm": GPU}, ("vllm_api_key",), ("models",)),
    "vllm_two_gpus.yml": Recipe({"vllm": {"NVIDIA-GPU": 2}}, ("hf_token", "vllm_api_key"), ("models",), 8 * 1024**3),
    "ollama.yml": Recipe({"ollama": GPU, "pull": {}, "webui": {}}, ("webui_secret_key",), ("ollama", "webui")),
    "jupyterhub.yml": Recipe({"hub": {}}, (), ("data", "homes")),
    "nightly_cron.yml": Recipe({"scheduler": {}, "train": GPU}, (), ("checkpoints",)),
    "models_nfs.yml": Recipe({"vllm": GPU}, ("vllm_api_key",), ("compiled", "models")),
    "registry.yml": Recipe({"registry": {}}, ("certificate", "htpasswd", "key"), ("images",)),
}
# Services that end by themselves, and one whose image has nothing that a healthcheck could ask.
WITHOUT_HEALTHCHECK = {"ollama.yml/pull", "nightly_cron.yml/train", "nightly_cron.yml/scheduler"}
JOB_GPUS = {"job.yml": [GPU], "array.yml": [GPU] * 4, "ffmpeg.yml": [GPU] * 3, "nightly.yml": [GPU], "download_model.yml": [{}]}
DEFAULTS = {option: spec.get("default") for option, spec in JOB_OPTIONS.items()}


def stack_of(path: Path) -> Stack:
    return translate(path.read_text(encoding="utf-8"), path.name, FILES.get, ENVIRONMENT)


def reserved(service: dict[str, Any]) -> dict[str, int]:
    found = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("generic_resources", [])
    return {one["discrete_resource_spec"]["kind"]: one["discrete_resource_spec"]["value"] for one in found}


def shared_memory(services: dict[str, Any]) -> int:
    mounts = [mount for service in services.values() for mount in service.get("volumes", []) if isinstance(mount, dict)]
    return sum(mount["tmpfs"]["size"] for mount in mounts if mount["target"] == "/dev/shm")


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.name)
def test_a_file_has_the_reservations_of_its_recipe(path: Path) -> None:
    stack = stack_of(path)
    services = stack.document["services"]
    specifications(stack.document, "s")  # with what 'docker stack deploy' sends for it
    found = Recipe(
        {name: reserved(service) for name, service in services.items()},
        tuple(sorted(stack.document.get("secrets", {}))),
        tuple(sorted(stack.document.get("volumes", {}))),
        shared_memory(services),
    )
    assert found == RECIPES[path.name]
    assert stack.notes == []


def test_each_recipe_has_its_file() -> None:
    assert {path.name for path in STACKS} == {*RECIPES}
    assert {path.name for path in JOBS} == {*JOB_GPUS}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_can_be_updated_and_stopped(name: str) -> None:
    path = DOCS / "examples" / "stacks" / name
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 100
    for key, service in stack_of(path).document["services"].items():
        deploy = service["deploy"]
        assert deploy["labels"]["gpu-swarm.owner"], key
        assert re.search(r":v?\d[\w.-]*$", service["image"]), f"{service['image']} has no version"
        ends = deploy.get("restart_policy", {}).get("condition") == "none"
        assert ends or deploy["update_config"]["order"] == "stop-first", key
        assert ("healthcheck" in service) is (f"{name}/{key}" not in WITHOUT_HEALTHCHECK), key
        assert "healthcheck" not in service or "stop_grace_period" in service, key


@pytest.mark.parametrize("name", RECIPES)
def test_no_secret_is_in_a_variable_of_a_service(name: str) -> None:
    stack = stack_of(DOCS / "examples" / "stacks" / name)
    text = yaml.safe_dump(stack.document)
    secret = [value for key, value in ENVIRONMENT.items() if key.endswith(("_KEY", "_TOKEN"))]
    assert [value for value in secret if value in text] == []


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_a_job_reserves_what_its_recipe_says(path: Path) -> None:
    options = read_job_file(str(path))
    check_options(options)
    jobs = definition.jobs({**DEFAULTS, **options}, "")
    kinds = [job.spec["TaskTemplate"]["Resources"].get("Reservations", {}).get("GenericResources", []) for job in jobs]
    found = [{one["DiscreteResourceSpec"]["Kind"]: one["DiscreteResourceSpec"]["Value"] for one in kind} for kind in kinds]
    assert found == JOB_GPUS[path.name]


def test_an_encoder_gets_the_capabilities_that_it_needs() -> None:
    for job in definition.jobs({**DEFAULTS, **read_job_file(str(DOCS / "examples/jobs/ffmpeg.yml"))}, ""):
        assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video" in job.spec["TaskTemplate"]["ContainerSpec"]["Env"]


def test_each_recipe_is_on_a_page() -> None:
    shown = [path for files in examples.SHOWN.values() for path in files]
    jobs = [f"examples/jobs/{name}" for name in ("ffmpeg.yml", "nightly.yml", "download_model.yml")]
    assert sorted(shown) == sorted([*jobs, *(f"examples/stacks/{name}" for name in RECIPES)])


@pytest.mark.parametrize("page", examples.SHOWN)
def test_a_page_shows_the_same_text_as_its_files(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for path in examples.SHOWN[page]:
        assert f"```yaml\n{(DOCS / path).read_text(encoding='utf-8')}```\n" in text, f"{page} differs from {path}: run python -m tests.pages"


def test_the_configuration_of_the_hub_is_valid_python_and_reserves_a_quarter() -> None:
    text = stack_of(DOCS / "examples/stacks/jupyterhub.yml").files["configs/config"].decode()
    compile(text, "jupyterhub_config.py", "exec")
    assert '{"generic_resources": {"NVIDIA-SLOT": 1}}' in text
    assert "{as: slots, kind: NVIDIA-SLOT, slots: 4}" in (DOCS / "examples/stacks/jupyterhub.yml").read_text(encoding="utf-8")
