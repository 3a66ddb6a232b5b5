# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of `make sbom` is valid CycloneDX, and names everything that the collection needs, in the tested versions."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from cyclonedx.validation.json import JsonStrictValidator

from tests.release import sbom

ROOT = Path(__file__).resolve().parents[2]
WHEN = 1_700_000_000


@pytest.fixture(scope="module")
def document() -> dict:
    return json.loads(sbom.document(WHEN))


@pytest.fixture(scope="module")
def components(document) -> dict:
    return {one["bom-ref"]: one for one in document["components"]}


def is_valid(document: dict) -> bool:
    return JsonStrictValidator(sbom.SCHEMA).validate_str(json.dumps(document)) is None


def test_the_document_is_valid(document):
    assert is_valid(document)
    assert not is_valid({**document, "components": [{"name": "a library without a type"}]})


def test_the_document_is_the_same_each_time():
    assert sbom.document(WHEN) == sbom.document(WHEN) != sbom.document(WHEN + 1)


def test_the_document_describes_this_release(document, installed):
    own = document["metadata"]["component"]
    assert (f"{own['group']}.{own['name']}", own["version"]) == (installed.fqcn, installed.galaxy["version"])
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_each_library_has_the_version_that_the_tests_ran_with_and_its_hashes(components):
    libraries = [one for one in components.values() if "purl" in one]
    assert len(libraries) > len(sbom.needed(ROOT / "meta" / "ee-requirements.txt"))
    for one in libraries:
        assert one["version"] == importlib.metadata.version(one["name"])
        assert [kept["alg"] for reference in one["externalReferences"] for kept in reference["hashes"]]


def test_all_needed_parts_are_named_and_connected(document, components, installed):
    needs = {one["ref"]: set(one.get("dependsOn", ())) for one in document["dependencies"]}
    names = {components[ref]["name"] if "purl" in components[ref] else ref.partition("@")[0] for ref in needs["fleet.gpu_swarm"]}
    direct = sbom.needed(ROOT / "meta" / "ee-requirements.txt")
    assert names == {"ansible-core", *direct, *(f"ansible:{name}" for name in installed.galaxy["dependencies"])}
    assert needs.keys() == {"fleet.gpu_swarm", *components}
    assert set().union(*needs.values()) == components.keys()


def test_parts_that_run_on_nodes_are_marked(components):
    on_nodes = {one["name"] for one in components.values() if {"name": "fleet.gpu_swarm:runs-on", "value": "nodes"} in one["properties"]}
    carried = (ROOT / "plugins" / "plugin_utils" / "_calls" / "libraries.py").read_text()
    assert on_nodes == set(sbom.CARRIED)
    assert all(module in carried for module in ("pynvml", "tomli"))
