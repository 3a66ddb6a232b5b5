# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reference pages of plugins: the pages that users see, the index of the pages, and the labels of Ansible's documentation."""

from __future__ import annotations

import io
from pathlib import Path

from sphinx.util.inventory import InventoryFile

from tests.site import reference


def test_internal_plugins_have_no_page(tmp_path: Path) -> None:
    contents = ".. contents::\n   :local:\n   :depth: 1\n\nSee :literal:`docs/operate/air\\-gap.md`\n"
    for name, title in {
        "job_module": "fleet.gpu_swarm.job module -- Runs a job",
        "plan_module": "fleet.gpu_swarm.plan module -- Decides what to do (internal)",
        "node_role": "fleet.gpu_swarm.node role -- Makes a node advertise",
        "index": "Fleet.Gpu_Swarm",
        "environment_variables": "Index of all Collection Environment Variables",
    }.items():
        (tmp_path / f"{name}.rst").write_text(f":orphan:\n\n{title}\n{'+' * len(title)}\n{contents}")
    found = reference.chosen(tmp_path)
    assert found["module"] == {"job": ("job_module", "Runs a job")}
    assert found["role"] == {"node": ("node_role", "Makes a node advertise")}
    assert sorted(page.stem for page in tmp_path.glob("*.rst")) == ["environment_variables", "job_module", "node_role"]

    assert (tmp_path / "job_module.rst").read_text().endswith("+\n\nSee :doc:`/operate/air-gap`\n")
    index = reference.index(found)
    assert "   * - :doc:`job <job_module>`\n     - Runs a job\n" in index
    assert "   node <node_role>\n" in index


def test_sphinx_reads_the_labels_of_ansible() -> None:
    objects = {"std:label": {"common_return_values": "reference/common.html#values"}, "std:envvar": {"ANSIBLE_X": "config.html#x"}}
    inventory = reference.inventory(objects)
    found = InventoryFile.load(io.BytesIO(inventory), "https://example.org", lambda base, place: f"{base}/{place}")
    assert found["std:label"]["common_return_values"].uri == "https://example.org/reference/common.html#values"
    assert found["std:envvar"]["ANSIBLE_X"].uri == "https://example.org/config.html#x"
