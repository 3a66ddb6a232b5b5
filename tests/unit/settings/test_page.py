# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts about the settings agree with the code: their page in docs/, and the headers of the playbooks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.declaration import PLAYBOOKS, PREFIXES
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.roles import declared_settings
from tests.pages import settings

CHECKOUT = Path(__file__).parents[3]
DECLARED = declared_settings(settings.ROLES)
HEADERS = {path.name: path.read_text(encoding="utf-8").partition("\n- name:")[0] for path in CHECKOUT.glob("playbooks/*.yml")}
OF_ALL = {setting.name for setting in PLAYBOOKS if setting.name.startswith("provision_")}
OF = {
    "provision.yml": OF_ALL | {name for name in DECLARED if name.startswith("gpu_swarm_")},
    "maintain.yml": OF_ALL | {name for name in DECLARED if name.startswith("maintain_")},
    # provision_allow_pending is missing, because the GPUs leave with their host and no policy changes.
    "deprovision.yml": (OF_ALL - {"provision_allow_pending", "provision_note_run"}) | {name for name in DECLARED if name.startswith("deprovision_")},
    "status.yml": {name for name in DECLARED if name.startswith("status_")},
    "job.yml": {name for name in DECLARED if name.startswith("gpu_job_")},
    "prune_jobs.yml": {name for name in DECLARED if name.startswith("prune_jobs_")} | {"gpu_job_log_directory"},
    "bundle.yml": {name for name in DECLARED if name.startswith("bundle_")},
    "deploy.yml": {name for name in DECLARED if name.startswith("gpu_stack_")},
    "preflight.yml": {"preflight_ledger", *(f"gpu_stack_{name}" for name in ("compose", "name", "kind", "allow_pending", "prune"))},
    "verify.yml": {name for name in DECLARED if name.startswith("verify_")},
}


def test_every_setting_is_on_its_page():
    assert sorted(re.findall(r"(?m)^\| `(\w+)` \|", settings.page())) == sorted(DECLARED)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("Such as V(10.0.0.5) or V(eth1:2377).", "Such as `10.0.0.5` or `eth1:2377`."),
        ("The option C(advertise) of M(fleet.gpu_swarm.gpu_node).", "The option `advertise` of `fleet.gpu_swarm.gpu_node`."),
        ("O(fleet.gpu_swarm.gpu_node#module:state=absent)", "`fleet.gpu_swarm.gpu_node`"),
        ("See C(docs/run/jobs.md), or docs/operate/ssh.md.", "See [Run a job](../run/jobs.md), or [SSH and sudo](../operate/ssh.md)."),
        ("NVML(x) stays, and (V(2)) is marked.", "NVML(x) stays, and (`2`) is marked."),
    ],
)
def test_markup_of_ansible_becomes_markdown(text, markdown):
    assert settings.markdown(text) == markdown


def test_defaults_on_pages_are_the_declared_ones():
    pages = [path.read_text(encoding="utf-8") for path in sorted((CHECKOUT / "docs").rglob("*.md"))]
    named = {name: value for page in pages for name, value in re.findall(r"(?m)^(\w+): (.*?) # default\b", page)}
    assert {"provision_disrupt", "provision_max_failed", "gpu_node_on_loss"} <= set(named)
    assert named == {name: str(DECLARED[name].default) for name in named}


def test_every_playbook_has_a_header():
    assert set(HEADERS) == set(OF)


@pytest.mark.parametrize("playbook", OF)
def test_a_header_lists_the_declared_settings_of_its_playbook(playbook):
    listed = [line for line in HEADERS[playbook].splitlines() if (found := re.match(r"#   (\w+)( \(.*?\))?: ", line)) and found[1] in DECLARED]
    assert sorted(listed) == sorted(settings.in_header(DECLARED[name]) for name in OF[playbook])


@pytest.mark.parametrize("playbook", HEADERS)
def test_names_in_a_header_that_look_like_settings_are_settings(playbook):
    named = re.findall(rf"(?<![\w./])(?:{'|'.join(PREFIXES)})[a-z_]+(?![\w.])", HEADERS[playbook])
    assert set(named) - set(DECLARED) == set()
