#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_tokens
short_description: Replaces the join tokens of a swarm
version_added: 0.2.0
description:
  - Replaces the tokens with which machines join a swarm. The old tokens become invalid at once. Nodes that have already joined stay in the swarm.
  - The module neither reads nor returns old or new tokens.
  - The module fails while another run has the lease of the swarm (M(fleet.gpu_swarm.swarm_lease)), because machines may be joining with these tokens.
  - All other settings of the swarm stay as they are, including the lock of its managers. When M(community.docker.docker_swarm) rotates a token,
    it resets all settings that the task does not set, for example how long certificates are valid.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.docker_client
attributes:
  idempotent:
    support: none
    details: Each call makes new tokens.
options:
  rotate:
    description: The roles whose tokens are replaced.
    type: list
    elements: str
    choices: [worker, manager]
    required: true
  holder:
    description: The holder of this run's own lease of the swarm. The default is the run of Ansible that executes this task.
    type: str
seealso:
  - module: fleet.gpu_swarm.swarm_lease
  - module: community.docker.docker_swarm
"""

EXAMPLES = r"""
- name: Make all known join tokens invalid
  fleet.gpu_swarm.swarm_tokens:
    rotate: [worker, manager]
  delegate_to: manager-1
  run_once: true
"""

RETURN = r""" # """

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.lease import refuse_if_another_run
from ..module_utils._swarm.manager import connect, until_written

REMEDY = "When that run has ended, run this again, or replace a token with 'docker swarm join-token --rotate --quiet worker' (or manager)."

OPTIONS = dict(
    rotate=dict(type="list", elements="str", choices=["worker", "manager"], required=True),
    holder=dict(type="str"),
)


def run(params, check_mode):
    """Return the module's result."""
    manager = connect(params)

    def attempt():
        cluster, dummy = refuse_if_another_run(manager, params["holder"], "No join token was replaced", REMEDY, check_mode)
        if params["rotate"] and not check_mode:
            manager.update_cluster(cluster["Version"]["Index"], cluster["Spec"], params["rotate"])

    until_written(attempt)
    return {"changed": bool(params["rotate"])}


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
