# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that only the collection's playbooks and roles may use say so in their documentation."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml
from documentation import PLUGINS

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
# All filters except the filter that users may call.
FILTERS = sorted(f"filter.{path.stem}" for path in (ROOT / "plugins/filter").glob("*.py") if path.stem != "memory_fraction")
MODULES = [
    "modules.await_node",
    "modules.call_manager",
    "modules.check_settings",
    "modules.host_outcome",
    "modules.image_requirements",
    "modules.manager_service",
    "modules.provision_plan",
    "modules.report",
    "modules.swarm_batch",
    "modules.swarm_member",
    "modules.swarm_member_plan",
    "modules.swarm_members",
    "modules.swarm_stack_on_manager",
]


@pytest.mark.parametrize("name", FILTERS + MODULES)
def test_an_internal_module_says_so(name):
    said = yaml.safe_load(importlib.import_module(f"{PLUGINS}.{name}").DOCUMENTATION)
    assert said["short_description"].endswith(" (internal)")
    assert "fleet.gpu_swarm.internal" in said["extends_documentation_fragment"]


def test_the_fragment_makes_no_promises():
    (note,) = yaml.safe_load(importlib.import_module(f"{PLUGINS}.doc_fragments.internal").ModuleDocFragment.DOCUMENTATION)["notes"]
    assert "may change with any release" in note
