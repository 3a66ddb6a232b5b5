# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All metrics (pure): their names, labels and meaning, as docs/reference/metrics.md lists them.

Private to this collection: no stability is promised to others. The names, labels and values of the metrics are what users build on.
"""

from __future__ import annotations

from typing import NamedTuple

YES, NO = "yes", "no"


class Metric(NamedTuple):
    """A gauge. ``labels`` are in the order of the file. ``help`` is a sentence."""

    name: str
    labels: tuple[str, ...]
    help: str


# A node that left and came back has two entries in the swarm, and two nodes may have one name: only the id is unique.
NODE = ("node", "node_id")

SNAPSHOT = Metric("gpu_swarm_snapshot_timestamp_seconds", (), "When the swarm was read, by the clock of the manager.")
INFO = Metric("gpu_swarm_info", ("swarm", "leader", "leader_version", "source"), "The swarm's id, its leader, and what wrote this file.")

NODES = Metric("gpu_swarm_nodes", ("state", "by"), "Nodes by state: ready, paused or drained (by run, fault, hand), down, or another word of swarm.")
NODE_INFO = Metric("gpu_swarm_node_info", (*NODE, "role", "model", "version"), "A node, its GPU model, and its version of Docker Engine.")
NODE_STATE = Metric("gpu_swarm_node_state", (*NODE, "state", "by"), "The state that a node is in.")
NODE_SINCE = Metric(
    "gpu_swarm_node_closed_since_timestamp_seconds",
    (*NODE, "state", "by"),
    "Since when, or since earlier, a node that takes no new tasks is in its state.",
)
NODE_HEALTH = Metric("gpu_swarm_node_health", (*NODE, "health"), "What a node's watcher reports: ok, warning, fault, unwatched or unknown.")
NODE_DRIFT = Metric("gpu_swarm_node_drift", NODE, "Whether a node's watcher reports that its files have lost what provision wrote.")

ADVERTISED = Metric("gpu_swarm_node_resources_advertised", (*NODE, "kind"), "How many of a kind a node advertises.")
ALLOCATED = Metric("gpu_swarm_node_resources_allocated", (*NODE, "kind"), "How many of a kind are allocated to tasks on a node.")
FREE = Metric("gpu_swarm_node_resources_free", (*NODE, "kind"), "How many of a kind are allocated to no task.")
SCHEDULABLE = Metric("gpu_swarm_node_resources_schedulable", (*NODE, "kind"), "How many of a kind are free, and not faulty, on a schedulable node.")
FAULTY = Metric("gpu_swarm_node_resources_faulty", (*NODE, "kind"), "How many of a kind a node's watcher reports as faulty.")

GPU_ALLOCATED = Metric("gpu_swarm_gpu_allocated", ("UUID", *NODE, "kind", "service"), "A GPU or MIG device that is allocated, and the service.")
GPU_FREE = Metric("gpu_swarm_gpu_free", ("UUID", *NODE, "kind"), "A GPU or MIG device that is advertised and allocated to no task.")
GPU_FAULT = Metric(
    "gpu_swarm_gpu_fault",
    ("UUID", *NODE, "reason", "xid", "pci_bus_id", "slot", "serial", "advertised"),
    "A GPU that is unfit for work: its node's watcher reports it, or a run left it out without consent.",
)
GPU_FAULT_SINCE = Metric("gpu_swarm_gpu_fault_since_timestamp_seconds", ("UUID", *NODE), "Since when, by the node's clock.")
TWICE = Metric("gpu_swarm_resources_allocated_twice", (), "How many named resources are allocated to more tasks than there are of them.")
GPU_TWICE = Metric("gpu_swarm_gpu_allocated_twice", ("UUID", *NODE, "kind"), "To how many tasks such a resource is allocated.")

SERVICE_ALLOCATED = Metric("gpu_swarm_service_resources_allocated", ("service", "kind"), "How many of a kind are allocated to a service.")
PENDING_SERVICES = Metric("gpu_swarm_pending_services", (), "How many services have tasks that no node was found for.")
PENDING = Metric("gpu_swarm_pending_tasks", ("service",), "How many tasks of a service no node was found for.")
PENDING_SINCE = Metric("gpu_swarm_pending_since_timestamp_seconds", ("service",), "When the first of them began to wait.")
PENDING_WANTS = Metric("gpu_swarm_pending_reserved", ("service", "kind"), "How many of a kind one of these tasks reserves.")
PENDING_POSSIBLE = Metric("gpu_swarm_pending_possible", ("service",), "Whether a node could take such a task if it were empty and took new tasks.")
UNRESERVED_SERVICES = Metric("gpu_swarm_unreserved_services", (), "How many services can see GPUs without reserving one.")
UNRESERVED = Metric("gpu_swarm_service_unreserved", ("service",), "A service that can see GPUs without reserving one.")

ISOLATION = Metric("gpu_swarm_isolation", ("level",), "The level of isolation of the swarm: off, audit, reserved, exclusive or unknown.")
NODE_ISOLATION = Metric("gpu_swarm_node_isolation", (*NODE, "level"), "The level that a node with GPUs has, as a run last read or made it.")
ISOLATION_FOUND = Metric(
    "gpu_swarm_isolation_found_services", (), "How many services audit counted in a week that reserved would hide GPUs from or refuse."
)
ISOLATION_READ = Metric("gpu_swarm_isolation_read_timestamp_seconds", (), "When a run last read what audit counted on all nodes.")

_OF_FINDING = ("UUID", *NODE, "finding", "service")
ALLOCATION_FINDINGS = Metric("gpu_swarm_allocation_findings", ("finding",), "GPUs on which processes and allocations differ, at the last run.")
GPU_ALLOCATION_FINDING = Metric("gpu_swarm_gpu_allocation_finding", _OF_FINDING, "A GPU whose processes and allocations differ.")
GPU_ALLOCATION_FINDING_SINCE = Metric("gpu_swarm_gpu_allocation_finding_since_timestamp_seconds", _OF_FINDING, "Since when, by the node's clock.")

LEASE_SINCE = Metric("gpu_swarm_run_lease_since_timestamp_seconds", (), "Since when a run has the lease of this swarm; not there where none has it.")
LEASE_UNTIL = Metric("gpu_swarm_run_lease_until_timestamp_seconds", (), "When that lease ends unless it is renewed.")

RUN_END = Metric("gpu_swarm_run_end_timestamp_seconds", ("runs",), "When the last run ended: of all runs, or of those that changed something.")
RUN_HOSTS = Metric("gpu_swarm_run_hosts", ("outcome",), "How many hosts came to which end in that run: done, waiting, untouched or failed.")

METRICS: tuple[Metric, ...] = (
    SNAPSHOT, INFO,
    NODES, NODE_INFO, NODE_STATE, NODE_SINCE, NODE_HEALTH, NODE_DRIFT,
    ADVERTISED, ALLOCATED, FREE, SCHEDULABLE, FAULTY,
    GPU_ALLOCATED, GPU_FREE, GPU_FAULT, GPU_FAULT_SINCE, TWICE, GPU_TWICE,
    SERVICE_ALLOCATED, PENDING_SERVICES, PENDING, PENDING_SINCE, PENDING_WANTS, PENDING_POSSIBLE, UNRESERVED_SERVICES, UNRESERVED,
    ISOLATION, NODE_ISOLATION, ISOLATION_FOUND, ISOLATION_READ, ALLOCATION_FINDINGS, GPU_ALLOCATION_FINDING, GPU_ALLOCATION_FINDING_SINCE,
    LEASE_SINCE, LEASE_UNTIL, RUN_END, RUN_HOSTS,
)  # fmt: skip
