# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.toolkit_version import DEFAULT, mixture_warnings, version_of

DEFAULTS = Path(__file__).parents[3] / "roles" / "nvidia_container_toolkit" / "defaults" / "main.yml"


@pytest.mark.parametrize(("package", "version"), [(None, None), ("", None), ("1.20.0", "1.20.0"), ("1.20.0-1", "1.20.0")])
def test_the_version_of_a_host_is_chosen(package, version):
    assert version_of(package) == version


def test_the_plan_announces_the_version_that_the_role_installs():
    assert yaml.safe_load(DEFAULTS.read_text())["nvidia_container_toolkit_version"] == DEFAULT


def test_versions_are_listed_with_their_hosts_and_the_newest_first():
    (text,) = mixture_warnings({"g1": "1.9.0", "g2": "1.20.0", "g3": "1.9.0"})
    assert "1.20.0 on g2; 1.9.0 on g1, g3." in text
    assert mixture_warnings({"g1": "1.20.0", "g2": "1.20.0"}) == mixture_warnings({}) == []
