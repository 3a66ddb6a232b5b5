# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What YAML has to say twice says the same twice."""

from __future__ import annotations

from pathlib import Path

import documentation
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import AFTER_LOSS, PAUSE, REPORT, SHRINK
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.node_options import argument_spec

ROLES = Path(__file__).resolve().parents[3] / "roles"
# Of one of the two alone: what may be waited for, and what is only read beforehand.
ACTS, ASSESSES = {"restart", "when_busy", "drain_timeout", "health_now", "health_report"}, {"look_for_images", "try_cuda"}


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


def test_what_becomes_of_a_node_with_a_fault_has_the_same_words_everywhere() -> None:
    """Those that code compares with are those that a user may write."""
    role = yaml.safe_load((ROLES / "gpu_node" / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert AFTER_LOSS == (PAUSE, REPORT, SHRINK)
    for option in (argument_spec()["on_loss"], documentation.options("gpu_node")["on_loss"], role["gpu_node_on_loss"]):
        assert option["choices"] == list(AFTER_LOSS)
    assert argument_spec()["on_loss"]["default"] == documentation.options("gpu_node")["on_loss"]["default"] == PAUSE
