# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What YAML has to say twice says the same twice."""

from __future__ import annotations

from pathlib import Path

import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.packages import PACKAGES

ROLES = Path(__file__).resolve().parents[3] / "roles"
# Of one of the two alone: what may be waited for, and what is only read beforehand.
ACTS, ASSESSES = {"restart", "when_busy", "drain_timeout", "health_report"}, {"look_for_images"}


def call_of(name: str) -> dict[str, object]:
    (task,) = yaml.safe_load((ROLES / "gpu_node" / "tasks" / f"{name}.yml").read_text())
    return task["fleet.gpu_swarm.gpu_node"]


def test_a_node_is_assessed_by_what_it_is_changed_by() -> None:
    """An option that the assessment lacks would make the preview a lie."""
    assessed, applied = call_of("assess"), call_of("apply")
    assert set(applied) - set(assessed) == ACTS
    assert set(assessed) - set(applied) == ASSESSES
    assert {name: text for name, text in assessed.items() if name not in ASSESSES} == {
        name: text for name, text in applied.items() if name not in ACTS
    }


def test_the_packages_that_are_read_are_those_that_are_installed() -> None:
    variables = yaml.safe_load((ROLES / "nvidia_container_toolkit" / "vars" / "main.yml").read_text())
    assert sorted(variables["_nvidia_container_toolkit_packages"]) == sorted(PACKAGES)
