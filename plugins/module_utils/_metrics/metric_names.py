# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All metrics (pure): their names, labels and meaning. docs/reference/metrics.md lists the same metrics.

Private to this collection; it may change without notice. The names, labels and values of the metrics are what users build on.
"""

from __future__ import annotations

from .._textfile.exposition import Metric

YES, NO = "yes", "no"

# A node that left and came back has two entries in the swarm, and two nodes may have one name: only the id is unique.
NODE = ("node", "node_id")

SNAPSHOT = Metric("gpu_swarm_snapshot_timestamp_seconds", (), "When the swarm was read, by the clock of the manager.")
INFO = Metric("gpu_swarm_info", ("swarm", "leader", "leader_version", "source"), "The swarm's ID, its leader, and the program that wrote this file.")

NODES = Metric(
    "gpu_swarm_nodes", ("state", "by"), "Number of nodes by state: ready, paused or drained (by run, fault or hand), down, or another state of swarm."
)
NODE_INFO = Metric("gpu_swarm_node_info", (*NODE, "role", "model", "version"), "A node, its GPU model, and its version of Docker Engine.")
NODE_STATE = Metric("gpu_swarm_node_state", (*NODE, "state", "by"), "The state that a node is in.")
NODE_SINCE = Metric(
    "gpu_swarm_node_closed_since_timestamp_seconds",
    (*NODE, "state", "by"),
    "When a node that takes no new tasks entered its state. It may have been earlier.",
)
NODE_HEALTH = Metric("gpu_swarm_node_health", (*NODE, "health"), "What a node's watcher reports: ok, warning, fault, unwatched or unknown.")
NODE_DRIFT = Metric("gpu_swarm_node_drift", NODE, "Whether a node's watcher reports that its files no longer contain what provision wrote.")

ADVERTISED = Metric("gpu_swarm_node_resources_advertised", (*NODE, "kind"), "Resources of a kind that a node advertises.")
ALLOCATED = Metric("gpu_swarm_node_resources_allocated", (*NODE, "kind"), "Resources of a kind that are allocated to tasks on a node.")
FREE = Metric("gpu_swarm_node_resources_free", (*NODE, "kind"), "Resources of a kind that a node advertises and no task has.")
SCHEDULABLE = Metric(
    "gpu_swarm_node_resources_schedulable", (*NODE, "kind"), "Free resources of a kind without a fault, on a node that takes new tasks."
)
FAULTY = Metric("gpu_swarm_node_resources_faulty", (*NODE, "kind"), "Resources of a kind that a node's watcher reports as faulty.")

GPU_ALLOCATED = Metric(
    "gpu_swarm_gpu_allocated", ("UUID", *NODE, "kind", "service", "owner"), "A GPU or MIG device that is allocated to a task of this service."
)
GPU_FREE = Metric("gpu_swarm_gpu_free", ("UUID", *NODE, "kind"), "A GPU or MIG device that is advertised and allocated to no task.")
GPU_FAULT = Metric(
    "gpu_swarm_gpu_fault",
    ("UUID", *NODE, "reason", "xid", "pci_bus_id", "slot", "serial", "advertised"),
    "A GPU that is unfit for work: its node's watcher reports it, or a run excluded it without consent.",
)
GPU_FAULT_SINCE = Metric("gpu_swarm_gpu_fault_since_timestamp_seconds", ("UUID", *NODE), "When this fault began, by the node's clock.")
TWICE = Metric("gpu_swarm_resources_allocated_twice", (), "Number of named resources that are allocated to more tasks than the node has of them.")
GPU_TWICE = Metric("gpu_swarm_gpu_allocated_twice", ("UUID", *NODE, "kind"), "Number of tasks to which such a GPU is allocated.")

SERVICE_ALLOCATED = Metric("gpu_swarm_service_resources_allocated", ("service", "kind"), "Resources of a kind that are allocated to a service.")
OWNER_ALLOCATED = Metric(
    "gpu_swarm_owner_resources_allocated", ("owner", "kind"), "Resources of a kind that are allocated to the services of an owner."
)
PENDING_SERVICES = Metric("gpu_swarm_pending_services", (), "Number of services with pending tasks.")
PENDING = Metric("gpu_swarm_pending_tasks", ("service",), "Number of pending tasks of a service.")
PENDING_SINCE = Metric("gpu_swarm_pending_since_timestamp_seconds", ("service",), "When the first pending task of a service began to wait.")
PENDING_WANTS = Metric("gpu_swarm_pending_reserved", ("service", "kind"), "Resources of a kind that one pending task of a service reserves.")
PENDING_POSSIBLE = Metric(
    "gpu_swarm_pending_possible", ("service",), "Whether a node could run such a task if the node were empty and took new tasks."
)
UNRESERVED_SERVICES = Metric("gpu_swarm_unreserved_services", (), "Number of services that can see GPUs without reserving one.")
UNRESERVED = Metric("gpu_swarm_service_unreserved", ("service",), "A service that can see GPUs without reserving one.")

QUEUES_CLOSED = Metric(
    "gpu_swarm_queues_closed", (), "Whether the queues admit nothing at all, because a label or the task history of the swarm is wrong."
)
QUEUE_WORK = Metric(
    "gpu_swarm_queue_work", ("queue", "state"), "Number of services of a queue by state: waiting, starting, running, lost, refused or held."
)
QUEUE_WAITING = Metric("gpu_swarm_queue_waiting", ("queue", "reason"), "Number of services of a queue that wait, by the reason why they wait.")
QUEUE_SINCE = Metric(
    "gpu_swarm_queue_waiting_since_timestamp_seconds", ("queue",), "When the oldest waiting service of a queue was submitted."
)
QUEUE_KEPT = Metric("gpu_swarm_queue_nodes_kept", ("queue",), "Number of nodes that a queue keeps for its next work.")
QUEUE_USED = Metric("gpu_swarm_queue_resources_used", ("queue", "kind"), "Resources of a kind that the services of a queue use.")
QUEUE_MAX = Metric("gpu_swarm_queue_resources_max", ("queue", "kind"), "Resources of a kind that the services of a queue may use, if it has a cap.")
QUEUE_SHARE = Metric(
    "gpu_swarm_queue_share", ("queue",), "Share of a queue: used / advertised resources of its most used kind, divided by the queue's weight."
)

ISOLATION = Metric("gpu_swarm_isolation", ("level",), "The level of isolation of the swarm: off, audit, reserved, exclusive or unknown.")
NODE_ISOLATION = Metric("gpu_swarm_node_isolation", (*NODE, "level"), "The level of a node with GPUs when a run last read or set it.")
ISOLATION_FOUND = Metric(
    "gpu_swarm_isolation_found_services",
    (),
    "Number of services that audit counted in a week, because reserved would hide GPUs from them or refuse them.",
)
ISOLATION_READ = Metric("gpu_swarm_isolation_read_timestamp_seconds", (), "When a run last read the counts of audit on all nodes.")

_OF_FINDING = ("UUID", *NODE, "finding", "service")
ALLOCATION_FINDINGS = Metric(
    "gpu_swarm_allocation_findings", ("finding",), "Number of GPUs whose processes and allocations differed at the last run."
)
GPU_ALLOCATION_FINDING = Metric("gpu_swarm_gpu_allocation_finding", _OF_FINDING, "A GPU whose processes and allocations differ.")
GPU_ALLOCATION_FINDING_SINCE = Metric(
    "gpu_swarm_gpu_allocation_finding_since_timestamp_seconds", _OF_FINDING, "When this finding began, by the node's clock."
)

LEASE_SINCE = Metric("gpu_swarm_run_lease_since_timestamp_seconds", (), "When a run acquired the lease of this swarm. Missing if no run has it.")
LEASE_UNTIL = Metric("gpu_swarm_run_lease_until_timestamp_seconds", (), "When this lease ends unless the run renews it.")

RUN_END = Metric("gpu_swarm_run_end_timestamp_seconds", ("runs",), "When the last run ended. If runs is changing, runs without changes do not count.")
RUN_HOSTS = Metric("gpu_swarm_run_hosts", ("outcome",), "Number of hosts of that run by outcome: done, waiting, untouched or failed.")

METRICS: tuple[Metric, ...] = (
    SNAPSHOT, INFO,
    NODES, NODE_INFO, NODE_STATE, NODE_SINCE, NODE_HEALTH, NODE_DRIFT,
    ADVERTISED, ALLOCATED, FREE, SCHEDULABLE, FAULTY,
    GPU_ALLOCATED, GPU_FREE, GPU_FAULT, GPU_FAULT_SINCE, TWICE, GPU_TWICE,
    SERVICE_ALLOCATED, OWNER_ALLOCATED, PENDING_SERVICES, PENDING, PENDING_SINCE, PENDING_WANTS, PENDING_POSSIBLE, UNRESERVED_SERVICES, UNRESERVED,
    QUEUES_CLOSED, QUEUE_WORK, QUEUE_WAITING, QUEUE_SINCE, QUEUE_KEPT, QUEUE_USED, QUEUE_MAX, QUEUE_SHARE,
    ISOLATION, NODE_ISOLATION, ISOLATION_FOUND, ISOLATION_READ, ALLOCATION_FINDINGS, GPU_ALLOCATION_FINDING, GPU_ALLOCATION_FINDING_SINCE,
    LEASE_SINCE, LEASE_UNTIL, RUN_END, RUN_HOSTS,
)  # fmt: skip
