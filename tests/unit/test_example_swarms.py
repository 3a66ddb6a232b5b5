# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventories of docs/examples/swarms/ describe two swarms with common settings. A run cannot mix the two swarms."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.membership import find_swarm

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples" / "swarms"
INVENTORY = os.environ.get("ANSIBLE_INVENTORY_COMMAND") or str(Path(sys.executable).parent / "ansible-inventory")
GROUPS = ("swarm_managers", "gpu_nodes", "swarm_workers")


def listed(*names: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    sources = [word for name in names for word in ("-i", name)]
    return subprocess.run([INVENTORY, *sources, "--list"], cwd=folder, capture_output=True, text=True, check=False)


def groups_of(*names: str) -> dict[str, set[str]]:
    done = listed(*names)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {group: set(found.get(group, {}).get("hosts", ())) for group in GROUPS}


@pytest.mark.parametrize("site", ["berlin", "oslo"])
def test_each_has_the_machines_of_its_site_and_no_others(site):
    found = groups_of("machines.yml", f"{site}.yml")
    assert all(name.startswith(site[0]) for names in found.values() for name in names)
    assert len(found["swarm_managers"]) == 1
    assert found["gpu_nodes"]


def test_the_source_alone_has_no_swarm():
    assert groups_of("machines.yml") == {group: set() for group in GROUPS}


def test_every_machine_with_a_site_is_in_one_group_of_one_swarm():
    found = [names for site in ("berlin", "oslo") for names in groups_of("machines.yml", f"{site}.yml").values()]
    machines = set(json.loads(listed("machines.yml").stdout)["machines"]["hosts"])
    assert sum(map(len, found)) == len(set().union(*found)) == len(machines - {"spare.example.org"})


def test_a_machine_without_a_duty_is_an_error(tmp_path):
    (tmp_path / "machines.yml").write_text((FOLDER / "machines.yml").read_text().replace(", duty: gpu", ""))
    (tmp_path / "berlin.yml").write_text((FOLDER / "berlin.yml").read_text())
    done = listed("machines.yml", "berlin.yml", folder=tmp_path)
    assert "'duty' is undefined" in done.stderr


def test_both_at_once_are_two_swarms_and_refused():
    """With --limit, the run would only have hosts of one site."""
    managers = sorted(groups_of("machines.yml", "berlin.yml", "oslo.yml")["swarm_managers"])
    answers = {name: {"swarm": {"state": "active", "id": f"of-{name}", "control_available": True}} for name in managers}
    error = find_swarm(answers, managers, ["b7.example.org"])["error"]
    page = (ROOT / "docs" / "operate" / "several-swarms.md").read_text()
    said = re.search(r"^(The hosts of the group swarm_managers run different swarms): ", page, re.MULTILINE)
    assert said
    assert said[1] in error


def test_the_commands_of_the_docs_name_these_files():
    for path in (ROOT / "docs" / "operate" / "several-swarms.md", FOLDER / "machines.yml"):
        for site in ("berlin", "oslo"):
            assert f"ansible-playbook -i machines.yml -i {site}.yml fleet.gpu_swarm.provision" in path.read_text()
