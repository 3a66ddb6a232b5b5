# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which labels a node should have (pure). Only some of a node's labels belong to this collection.

The node's label "<prefix>labels" lists the keys that belong to this collection. This code changes or removes only these labels.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from .._errors import GpuSwarmError
from .._health.label import LEFT_OUT, with_earlier_consent
from .._policy import data_network, offered_devices

PREFIX = "gpu-swarm."
RECORD = "labels"
# The label that binds a node to a host of the inventory is "<prefix>host". An update of the node keeps, sets or removes this label.
HOST = "host"
KEEP, SET, REMOVE = "keep", "set", "remove"
# The fault for which a node is or was paused: "<prefix>paused-for", in the format of _health/label.
PAUSED_FOR = "paused-for"
# The finished maintenances of a node: "<prefix>maintained", the latest ids separated by commas, the newest last.
MAINTAINED = "maintained"
LATEST = 10
# On a config or secret, this label contains the object's name without the digest of its content.
VERSION_OF = PREFIX + "version-of"
# On a secret with a fixed name, this label contains the digest of the content, because the API never returns the content itself.
CONTENT = PREFIX + "content"

# On a service with which a node pulls an image, this label contains the name of the stack.
PULL = PREFIX + "pull"
# On a service, this label contains the name of its queue.
QUEUE = PREFIX + "queue"
# On the services of a job, this label contains the name of the job.
JOB = PREFIX + "job"
# On the swarm: the queues, and the stamp of the manager that admits their work.
QUEUES, QUEUE_ROUND = PREFIX + "queues", PREFIX + "queue-round"

# The characters that placement constraints support. "/" is also allowed, because other tools use it in label keys. A comma would break the record.
KEY = re.compile(r"[A-Za-z0-9_./-]+\Z")


def normalise(labels: Mapping[Any, Any], prefix: str, node_id: str) -> dict[str, str]:
    """Return the wanted labels with strings as keys and values, as swarm stores them. Raises GpuSwarmError for an invalid label."""
    return {_key(key, prefix, node_id): _value(key, value, node_id) for key, value in labels.items()}


def _key(key: Any, prefix: str, node_id: str) -> str:
    if not isinstance(key, str) or not KEY.match(key):
        raise GpuSwarmError("labels of node %s: %r is not a valid key of a label. Use letters, digits, '.', '-', '_' and '/'." % (node_id, key))
    if key.startswith(prefix) and not key.startswith((offered_devices.LABEL, data_network.PREFIX)):
        raise GpuSwarmError(
            "labels of node %s: keys that begin with '%s' are reserved for this collection's own records. Rename '%s'." % (node_id, prefix, key)
        )
    return key


def _value(key: Any, value: Any, node_id: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise GpuSwarmError("labels of node %s: the value of '%s' is %r. Give a string, a number or a boolean." % (node_id, key, value))


def recorded(labels: Mapping[str, str], prefix: str) -> set[str]:
    """Return the keys that this collection recorded."""
    return {key for key in labels.get(prefix + RECORD, "").split(",") if key}


def bound_to(labels: Mapping[str, str], prefix: str) -> str | None:
    """Return the host of the inventory that this node is bound to, or None."""
    return labels.get(prefix + HOST)


def mark(labels: dict[str, str], host: str | None, how: str | None, prefix: str) -> dict[str, str]:
    """Return the labels after setting, removing or keeping the host's label (``how``).

    Removing the host's label also removes the notes about the host.
    """
    others = {key: value for key, value in labels.items() if key != prefix + HOST}
    unbound = {key: value for key, value in others.items() if key not in (prefix + MAINTAINED, prefix + PAUSED_FOR)}
    return {SET: dict(others, **{prefix + HOST: host}), REMOVE: unbound}.get(how, labels)


def maintained(labels: Mapping[str, str], prefix: str) -> list[str]:
    """Return the ids of the finished maintenances of this node."""
    return [item for item in labels.get(prefix + MAINTAINED, "").split(",") if item]


def add_maintained(labels: dict[str, str], maintenance_id: str, prefix: str) -> dict[str, str]:
    """Return the labels with the id of one more maintenance."""
    ids = maintained(labels, prefix)
    return labels if maintenance_id in ids else dict(labels, **{prefix + MAINTAINED: ",".join([*ids, maintenance_id][-LATEST:])})


def compute(now: Mapping[str, str], wanted: Mapping[str, str], prefix: str, keep: Iterable[str] = ()) -> tuple[dict[str, str], list[str]]:
    """Return (labels, clashes). ``labels`` are the node's new labels. ``clashes`` are the keys that somebody else set to other values than wanted.

    If a label has the wanted value but is not recorded, the label belongs to somebody else, so this collection does not remove the label later. A
    recorded label is kept, even if it is not wanted, if its key begins with one of ``keep``.
    """
    owned = recorded(now, prefix)
    kept = {key: now[key] for key in owned if key in now and keep and key.startswith(tuple(keep))}
    wanted = dict(kept, **wanted)
    if LEFT_OUT in wanted and LEFT_OUT in owned:
        wanted[LEFT_OUT] = with_earlier_consent(now.get(LEFT_OUT), wanted[LEFT_OUT])
    clashes = sorted(key for key in wanted if key in now and key not in owned and now[key] != wanted[key])
    owned_next = {key for key in wanted if key in owned or key not in now}
    labels = {key: value for key, value in now.items() if key not in owned and key != prefix + RECORD}
    labels.update((key, wanted[key]) for key in owned_next)
    if owned_next:
        labels[prefix + RECORD] = ",".join(sorted(owned_next))
    return labels, clashes
