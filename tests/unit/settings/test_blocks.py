# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The YAML on the pages is valid: Compose files, job files, policies, and other variables."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.playbook.play import Play
from example_values import ENVIRONMENT, FILES

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.rules import check_rules
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._classes import for_job
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.roles import declared_settings
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._stack.job_file import read_job_file
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._stack.translate import translate
from tests.pages import settings

CHECKOUT = Path(__file__).parents[3]
DECLARED = declared_settings(settings.ROLES)
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "roles/*/README.md") for path in sorted(CHECKOUT.glob(pattern))]
BLOCK = re.compile(r"^ *```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(str(path.relative_to(CHECKOUT)), textwrap.dedent(text)) for path in PAGES for text in BLOCK.findall(path.read_text(encoding="utf-8"))]
# The kinds of blocks, by a key that only such a block has. The first that fits counts.
KINDS = {
    "services": "Compose file",
    "volumes": "part of a Compose file",
    "image": "job",
    "queue": "part of a job",
    "x-gpu": "nodes of a job",
    "env": "part of a task",
    "images": "others",
}
# For an inventory. Files of ansible-builder have "images".
OTHERS = {"swarm_managers", "gpu_nodes", "swarm_workers", "all"}


def kind_of(text: str) -> str:
    loaded = yaml.safe_load(text)
    if isinstance(loaded, list):
        return "plays"
    found = set(loaded)
    for key, kind in KINDS.items():
        if key in found:
            return kind
    return "others" if found <= OTHERS else "variables"


def taken(text: str, folder: Path) -> None:
    found: Any = yaml.safe_load(text)
    kind = kind_of(text)
    if kind == "Compose file":
        assert translate(text, "compose.yml", FILES.get, ENVIRONMENT).notes == []
    elif kind == "part of a Compose file":
        assert translate("services: {a: {image: i}}\n" + text, "compose.yml", FILES.get, ENVIRONMENT).notes == []
    elif kind in ("job", "part of a job"):
        whole = text if kind == "job" else "name: a\nimage: i\n" + text
        (folder / "job.yml").write_text(whole, encoding="utf-8")
        assert set(read_job_file(str(folder / "job.yml"))) == set(yaml.safe_load(whole))
    elif kind == "nodes of a job":
        for_job.parse_x_gpu(found["x-gpu"], "job")
    elif kind == "plays":
        for play in found:
            assert set(play) - {*Play.fattributes, "import_playbook"} == set()
            for variables in [play.get("vars", {}), *(role.get("vars", {}) for role in play.get("roles", ()))]:
                taken(yaml.safe_dump(variables), folder)
    elif kind == "variables":
        assert {name for name in found if not name.startswith("vault_")} - set(DECLARED) == set()
        check_rules(found.get("gpu_node_advertise", [{"as": "gpu"}]))


@pytest.mark.parametrize(("page", "text"), BLOCKS, ids=[f"{page}-{number}" for number, (page, _text) in enumerate(BLOCKS)])
def test_every_example_on_a_page_is_accepted(page: str, text: str, tmp_path: Path) -> None:
    taken(text, tmp_path)


def test_there_is_one_of_each_kind() -> None:
    found = Counter(kind_of(text) for _page, text in BLOCKS)
    assert {"Compose file", "job", "nodes of a job", "plays", "variables"} <= set(found)
    assert found["variables"] > 10


@pytest.mark.parametrize(
    "text",
    [
        "services: {a: {image: i, network_mode: none}}",
        "{name: a, image: i, gpu: 1}",
        "x-gpu: {memory: 1}",
        "gpu_node_advertise: [{as: gpus}]",
        "gpu_node_advertize: [{as: gpu}]",
        "[{host: all, roles: []}]",
        "[{hosts: all, roles: [{role: r, vars: {gpu_node_advertize: []}}]}]",
    ],
)
def test_a_refused_example_is_found(text: str, tmp_path: Path) -> None:
    with pytest.raises((GpuSwarmError, AssertionError)):
        taken(text, tmp_path)
