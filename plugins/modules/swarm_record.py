#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_record
short_description: Reads what a manager has recorded about usage, events and cards
version_added: 0.3.0
description:
  - Reads the record that C(gpu-swarm-manager.service) writes on each manager (C(gpu_swarm_record)). The module makes no call to Docker.
  - Run it on a manager as root, or as a member of the group C(docker).
options:
  what:
    description:
      - With V(usage), the hours for which GPUs were allocated.
      - With V(events), faults, changes of nodes and of the leader, runs, and changes of policies.
      - With V(card), the tasks and events of one card.
      - With V(page), what the page of the fleet shows. This is the usage of 7 days by owner, the same by day, and the events of 24 hours.
    type: str
    choices: [usage, events, card, page]
    required: true
  since:
    description:
      - The begin of V(usage) and V(events), such as V(30m), V(12h), V(7d), V(4w), or a day in UTC such as V(2026-11-20).
      - If it is empty, V(usage) covers 7 days and V(events) 12 hours.
    type: str
    default: ""
  by:
    description: How the hours of V(usage) are grouped.
    type: str
    choices: [owner, service, model, node]
    default: owner
  node:
    description: Only V(events) of this node, by hostname or ID. Empty for all nodes.
    type: str
    default: ""
  card:
    description: The UUID of a GPU or MIG device, or its beginning. Required with O(what=card).
    type: str
    default: ""
  directory:
    description: The directory with the record.
    type: path
    default: /var/lib/gpu-swarm/record
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.info_module
seealso:
  - module: fleet.gpu_swarm.swarm_explain
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Read who used how many GPU-hours in the last week
  fleet.gpu_swarm.swarm_record:
    what: usage
    since: 7d
    by: owner
  delegate_to: manager-1
  run_once: true
  register: used

- name: Show the hours of each owner
  ansible.builtin.debug:
    msg: "{{ used.rows | items2dict(key_name='name', value_name='hours') }}"
"""

RETURN = r"""
rows:
  description: The rows of the answer. V(usage) has the most card-hours first, and V(events) has the newest event first.
  returned: with O(what=usage) and O(what=events)
  type: list
  elements: dict
  contains:
    name: {type: str, description: 'The owner, service, model or hostname. With O(what=usage).'}
    kind: {type: str, description: 'The kind of the resource. With O(what=usage).'}
    unit: {type: str, description: 'What C(hours) are hours of, such as V(GPU). With O(what=usage).'}
    hours: {type: float, description: 'The hours. With O(what=usage).'}
    cards: {type: float, description: 'The same as hours of whole cards. Null if unknown. With O(what=usage).'}
    estimated: {type: float, description: 'The part of C(hours) that is estimated, because a begin or an end was not seen. With O(what=usage).'}
    running: {type: int, description: 'How many tasks had the resource at the last reading. With O(what=usage).'}
    since: {type: int, description: 'When the event began, in seconds since 1970. With O(what=events).'}
    at: {type: int, description: 'When the event was read, in seconds since 1970. With O(what=events).'}
    what: {type: str, description: 'The kind of the event, such as V(node-down). With O(what=events).'}
    node: {type: str, description: 'The ID of the node. With O(what=events).'}
    hostname: {type: str, description: 'The hostname of the node. With O(what=events).'}
    cause: {type: str, description: 'The cause of the event. With O(what=events).'}
    text: {type: str, description: 'The event in a sentence. With O(what=events).'}
uuid:
  description: The UUID of the card.
  returned: with O(what=card)
  type: str
  sample: GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30
model:
  description: The model of the card. Empty if unknown.
  returned: with O(what=card)
  type: str
mib:
  description: The memory of the card in MiB. Null if unknown.
  returned: with O(what=card)
  type: int
allocations:
  description: The tasks that had the card, the newest first. C(end) is null while a task has it.
  returned: with O(what=card)
  type: list
  elements: dict
events:
  description: The events, in the form of RV(rows).
  returned: with O(what=card) and O(what=page)
  type: list
  elements: dict
usage_rows:
  description: The usage by owner, in the form of RV(rows).
  returned: with O(what=page)
  type: list
  elements: dict
usage_by_day:
  description: The card-hours of each owner by day, each with C(day), C(name) and C(cards).
  returned: with O(what=page)
  type: list
  elements: dict
what:
  description: The value of O(what).
  returned: success
  type: str
since:
  description: The begin of the answer in seconds since 1970. RV(until) is its end.
  returned: with O(what=usage) and O(what=events)
  type: float
until:
  description: The end of the answer in seconds since 1970.
  returned: with O(what=usage) and O(what=events)
  type: float
by:
  description: The value of O(by).
  returned: with O(what=usage)
  type: str
node:
  description: The value of O(node). Null for all nodes.
  returned: with O(what=events)
  type: str
now:
  description: The manager's time in seconds since 1970.
  returned: success
  type: float
recorded_since:
  description: When the record began, in seconds since 1970. Null if nothing is recorded yet.
  returned: success
  type: int
last_reading:
  description: When the swarm was last read for the record, in seconds since 1970.
  returned: success
  type: int
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._command import recorded
from ..module_utils._errors import GpuSwarmError

OPTIONS = dict(
    what=dict(type="str", choices=["usage", "events", "card", "page"], required=True),
    since=dict(type="str", default=""),
    by=dict(type="str", choices=["owner", "service", "model", "node"], default="owner"),
    node=dict(type="str", default=""),
    card=dict(type="str", default=""),
    directory=dict(type="path", default="/var/lib/gpu-swarm/record"),
)


def run(params, now):
    """Return the answer. Raises GpuSwarmError."""
    directory = params["directory"]
    if params["what"] == "usage":
        return recorded.usage(directory, params["since"], params["by"], now)
    if params["what"] == "events":
        return recorded.events(directory, params["since"], params["node"], now)
    if params["what"] == "page":
        return recorded.page(directory, now)
    return recorded.card(directory, params["card"], now)


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    try:
        answer = run(module.params, time.time())
    except GpuSwarmError as exc:
        module.fail_json(msg=exc.message)
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
