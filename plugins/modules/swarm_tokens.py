#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_tokens
short_description: Replaces join tokens of a swarm
version_added: 0.2.0
description:
  - Replaces the tokens with which machines join a swarm. The old ones are worth nothing from then on; who has joined stays.
  - Neither the old tokens nor the new ones are read or returned.
  - While another run changes the swarm (M(fleet.gpu_swarm.swarm_lease)), nothing is replaced, since machines may be joining with these
    tokens.
  - Everything else of the swarm stays as it is, the lock of its managers too. M(community.docker.docker_swarm) sends zeros for each
    setting that it is not given, such as the life of certificates, when it rotates a token.
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
    description: Whose tokens are replaced.
    type: list
    elements: str
    choices: [worker, manager]
    required: true
  holder:
    description: Whose lease of the swarm is this run's own. By default that of the run of Ansible that this task is part of.
    type: str
seealso:
  - module: fleet.gpu_swarm.swarm_lease
  - module: community.docker.docker_swarm
"""

EXAMPLES = r"""
- name: Who has seen a join token can do nothing with it any more
  fleet.gpu_swarm.swarm_tokens:
    rotate: [worker, manager]
  delegate_to: manager-1
  run_once: true
"""

RETURN = r""" # """

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.lease import refuse_if_another_run
from ..module_utils._swarm.manager import connect, until_written

AFTER = "When it is through, 'docker swarm join-token --rotate --quiet worker' (or manager) replaces one."

OPTIONS = dict(
    rotate=dict(type="list", elements="str", choices=["worker", "manager"], required=True),
    holder=dict(type="str"),
)


def run(params, check_mode):
    """Return the module's result."""
    manager = connect(params)

    def attempt():
        cluster, dummy = refuse_if_another_run(manager, params["holder"], "No join token was replaced", AFTER, check_mode)
        if params["rotate"] and not check_mode:
            manager.update_cluster(cluster["Version"]["Index"], cluster["Spec"], params["rotate"])

    until_written(attempt)
    return {"changed": bool(params["rotate"])}


def main():
    manager_module.main(run, OPTIONS)


if __name__ == "__main__":
    main()
