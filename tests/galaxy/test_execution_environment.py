# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-builder makes a build context from the example in docs/operate/awx.md, and finds the collection's requirements for an image.

The image is not built here, because that needs a base image from a registry: tests/e2e/test_execution_environment.py builds another one.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example() -> str:
    (found,) = re.findall(r"```yaml\n(# execution-environment\.yml\n.*?)```", (ROOT / "docs" / "operate" / "awx.md").read_text(), re.DOTALL)
    return found


@pytest.fixture(scope="module")
def introspected(installed) -> dict[str, list[str]]:
    """Return what ansible-builder reads from the installed collection while it builds an image."""
    done = installed.run("ansible-builder", "introspect", str(installed.root / "installed"))
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)
    assert {line.rpartition("# from collection ")[2] for lines in found.values() for line in lines} == {installed.fqcn}
    return {kind: [line.partition("#")[0].strip() for line in lines] for kind, lines in found.items()}


def test_the_example_of_the_docs_gives_a_build_context(installed, example, tmp_path):
    description, context = tmp_path / "execution-environment.yml", tmp_path / "context"
    description.write_text(example)
    done = installed.run("ansible-builder", "create", "-f", str(description), "-c", str(context), "--output-filename", "Containerfile")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "outdated" not in done.stdout + done.stderr
    assert yaml.safe_load((context / "_build" / "requirements.yml").read_text()) == {"collections": [installed.fqcn]}
    recipe = (context / "Containerfile").read_text()
    wanted = yaml.safe_load(example)
    assert f'EE_BASE_IMAGE="{wanted["images"]["base_image"]["name"]}"' in recipe
    assert wanted["dependencies"]["ansible_core"]["package_pip"] in recipe
    # Every file that the recipe copies from the context exists.
    copied = re.findall(r"^COPY (?!--from)(\S+) ", recipe, re.MULTILINE)
    assert copied
    assert [name for name in copied if not (context / name).exists()] == []


def test_the_files_that_the_collection_names_are_in_the_tarball(installed):
    meta = installed.collection / "meta"
    named = yaml.safe_load((meta / "execution-environment.yml").read_text())["dependencies"]
    assert {kind: (installed.collection / path).is_file() for kind, path in named.items()} == {"python": True, "system": True}


def test_the_libraries_resolve_to_what_the_tests_ran_with(introspected):
    wanted = [Requirement(line) for line in introspected["python"]]
    assert {one.name for one in wanted} >= {"nvidia-ml-py", "archspec"}
    assert [str(one) for one in wanted if importlib.metadata.version(one.name) not in one.specifier] == []


def test_the_image_has_the_programs_to_reach_nodes(introspected):
    assert introspected["system"] == ["openssh-client [platform:dpkg]", "openssh-clients [platform:rpm]"]
