# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of hosts, as Ansible passes them to an action."""

from __future__ import annotations


class HostVars(dict):
    """Simulates the hostvars of Ansible. [] returns templated variables, and raw_get() returns untemplated variables."""

    def __init__(self, variables, templated=None):
        super().__init__({name: dict(values, **(templated or {}).get(name, {})) for name, values in variables.items()})
        self.written = variables
        self.queried = []

    def __getitem__(self, name):
        self.queried.append(name)
        return super().__getitem__(name)

    def raw_get(self, name):
        return self.written[name]


GROUPS = {"swarm_managers": ["m1", "both"], "gpu_nodes": ["g1", "both"], "all": ["m1", "g1", "both", "w1"]}
