#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_lease
short_description: Makes sure that only one run at a time changes a swarm
version_added: 0.2.0
description:
  - Acquires, renews or releases the lease of a swarm. The lease is in the label C(gpu-swarm.lease) of the swarm itself, so all managers show it. The
    module writes the label in one versioned update. If two runs acquire the lease at once, only one of them gets it.
  - A lease ends by itself, by the clock of the swarm's leader. The clock of the called manager does not matter. If the leader changes, another run's
    lease starts again with its whole length, by the new leader's clock.
  - The module does not fail if another run has the lease. Check RV(acquired).
  - If the holder was a process of this controller that has ended, such as a killed run, the module takes over its lease at once.
  - The module changes nothing else in the swarm, and reads no join token.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.docker_client
  - fleet.gpu_swarm.lease_end
attributes:
  check_mode:
    support: full
    details: Acquires nothing. Returns the lease as it would be, by the clock of the called manager.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details: With O(state=present), each call renews the lease.
options:
  state:
    description:
      - With V(present), the module acquires the lease if it is free or has ended, and renews it if this run has it.
      - With V(absent), the module releases the lease if this run has it.
    type: str
    choices: [present, absent]
    default: present
  holder:
    description:
      - The name of the run that acquires, renews or releases the lease. This run has the lease if the lease's holder is exactly this text.
      - The default names this run of Ansible, such as V(alice@controller pid 1234 (run 3f9a2b1c.88123)). The text in brackets distinguishes this run
        from other processes with the same number.
    type: str
  ttl:
    description: After how many seconds the lease ends, unless a run renews it.
    type: int
    default: 900
  takeover:
    description: Holders that no longer exist. If one of them has the lease, the module treats the lease as free.
    type: list
    elements: str
    default: []
  force:
    description: Acquire the lease even if another run has it.
    type: bool
    default: false
seealso:
  - module: fleet.gpu_swarm.swarm_nodes
"""

EXAMPLES = r"""
- name: Acquire the lease
  fleet.gpu_swarm.swarm_lease:
    ttl: 600
  delegate_to: manager-1
  run_once: true
  register: lease

- name: Check that nobody else changes this swarm
  ansible.builtin.assert:
    that: lease.acquired
    fail_msg: "{{ lease.holder }} does, since {{ lease.since }}"

- name: Release the lease
  fleet.gpu_swarm.swarm_lease:
    state: absent
  delegate_to: manager-1
  run_once: true
"""

RETURN = r"""
acquired:
  description: Whether this run has the lease now. In check mode, whether it would have the lease. Always V(false) with O(state=absent).
  returned: success
  type: bool
holder:
  description: The holder of the lease now, or null. If somebody else wrote the label, the holder is the whole text of the label.
  returned: success
  type: str
  sample: alice@controller pid 1234 (run 3f9a2b1c.88123)
since:
  description: When the lease was acquired, in UTC, by the leader's clock. Null without a lease, or if the label has no time.
  returned: success
  type: str
  sample: "2026-11-21T02:09:37Z"
expires_in:
  description: The seconds until the lease ends, negative if it has ended. Null without a lease, or if the label has no time.
  returned: success
  type: int
  sample: 900
renew_at:
  description: When half of the lease is over, in seconds since 1970 by the controller's clock.
  returned: if the lease was acquired
  type: float
  sample: 1795313827.5
  version_added: 0.2.0
taken_from:
  description: The holder whose lease was replaced, whether it had ended or not. If there is one, the module warns about it. Otherwise null.
  returned: success
  type: str
taken_after:
  description:
    - How many seconds before the replacement the lease of RV(taken_from) had ended. Null if it had not ended, or if no other lease was replaced.
  returned: success
  type: int
  sample: 60
  version_added: 0.3.0
isolation:
  description:
    - The isolation level of the swarm now. In check mode, the level that the swarm would have. V(unknown) if somebody else wrote the label
      C(gpu-swarm.isolation).
  returned: success
  type: str
  sample: audit
  version_added: 0.3.0
isolation_before:
  description: The isolation level of the swarm before this call.
  returned: success
  type: str
  sample: "off"
  version_added: 0.3.0
queues:
  description:
    - The text of the label C(gpu-swarm.queues) of the swarm now. In check mode, the text that the label would have. Empty without the label.
  returned: success
  type: str
  sample: '{"research":{"weight":3}}'
  version_added: 0.4.0
queues_before:
  description: The text of this label before this call.
  returned: success
  type: str
  sample: ""
  version_added: 0.4.0
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._swarm import lease, manager_module
from ..module_utils._swarm.lease_options import LEASE_END_OPTIONS
from ..module_utils._swarm.manager import connect

OPTIONS = dict(
    state=dict(type="str", choices=["present", "absent"], default="present"),
    holder=dict(type="str"),
    ttl=dict(type="int", default=900),
    takeover=dict(type="list", elements="str", default=[]),
    force=dict(type="bool", default=False),
    **LEASE_END_OPTIONS,
)


def run(params, check_mode):
    """Return the module's result."""
    lease.check(params)
    return lease.module_result(lease.acquire_or_release(connect(params), params, check_mode), params)


def takeover_warning(result):
    """Return a list with a warning if the lease was taken from another run; otherwise an empty list."""
    if not result.get("taken_from"):
        return []
    ending = "had not ended" if result["taken_after"] is None else "had ended %d s before" % result["taken_after"]
    return ["The lease of this swarm was taken from %s. It %s." % (result["taken_from"], ending)]


def main():
    manager_module.main(run, OPTIONS, warnings=takeover_warning)


if __name__ == "__main__":
    main()
