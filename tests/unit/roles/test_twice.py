# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Some YAML must be written in two places. Both places have the same content."""

from __future__ import annotations

from pathlib import Path

import documentation
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import AFTER_LOSS, PAUSE, REPORT, SHRINK
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.node_options import argument_spec

ROLES = Path(__file__).resolve().parents[3] / "roles"
# Options of one call only: ACTS belong to the change of the node, ASSESSES belong to its assessment.
ACTS, ASSESSES = {"restart", "when_busy", "drain_timeout", "health_now", "health_report"}, {"look_for_images", "try_cuda"}


def call_of(name: str) -> dict[str, object]:
    (task,) = yaml.safe_load((ROLES / "gpu_node" / "tasks" / f"{name}.yml").read_text())
    return task["fleet.gpu_swarm.gpu_node"]


def test_a_node_is_assessed_with_the_options_of_its_change() -> None:
    """If the assessment lacked an option, the preview would be wrong."""
    assessed, applied = call_of("assess"), call_of("apply")
    assert set(applied) - set(assessed) == ACTS
    assert set(assessed) - set(applied) == ASSESSES
    assert {name: text for name, text in assessed.items() if name not in ASSESSES} == {
        name: text for name, text in applied.items() if name not in ACTS
    }


def test_settings_for_faults_have_the_same_words_everywhere() -> None:
    """The code compares these settings only with words that users may write."""
    role = yaml.safe_load((ROLES / "gpu_node" / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert AFTER_LOSS == (PAUSE, REPORT, SHRINK)
    for option in (argument_spec()["on_loss"], documentation.options("gpu_node")["on_loss"], role["gpu_node_on_loss"]):
        assert option["choices"] == list(AFTER_LOSS)
    assert argument_spec()["on_loss"]["default"] == documentation.options("gpu_node")["on_loss"]["default"] == PAUSE
