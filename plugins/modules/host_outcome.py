#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_outcome
short_description: Returns the outcome of a host on which a task failed (internal)
version_added: 0.3.0
description:
  - Use the module in a C(rescue), and register the result as C(gpu_swarm_outcome). Then the run continues on the other hosts, and reports the
    outcome at its end.
  - The module reads the result of the failed task. It also pings the host, unless the failed task timed out. It does not fail if the host is
    unreachable.
  - If the host already has an outcome, the host keeps this outcome.
options:
  failed_as:
    description:
      - The state of a host that answers and does not wait for work.
      - By default V(failed), or V(out) if a change of M(fleet.gpu_swarm.gpu_node) could not be undone.
      - With V(out), the reason also names the task, because it may be a task of the user.
    type: str
    choices: [failed, out]
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
  - fleet.gpu_swarm.internal
attributes:
  platform:
    platforms: posix
seealso:
  - module: fleet.gpu_swarm.gpu_node
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Change the node, or keep the reason why not
  block:
    - name: Change the node
      fleet.gpu_swarm.gpu_node:
  rescue:
    - name: Keep the reason
      fleet.gpu_swarm.host_outcome:
      register: gpu_swarm_outcome
"""

RETURN = r"""
state:
  description:
    - V(lost) means that the host does not answer, or that the task timed out. With V(waiting), new work on the host must end first. With V(failed),
      the host is as it was before. With V(out), it is not.
    - If the host already had an outcome, this is the state of that outcome.
  returned: always
  type: str
  sample: lost
reason:
  description: The reason, for the table at the end of the run.
  returned: always
  type: str
  sample: no route to host
"""
