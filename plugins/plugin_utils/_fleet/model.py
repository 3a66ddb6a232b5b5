# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of a run: hosts, their swarm, and what the run does with each host.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._gpu.cards import model_of
from ...module_utils._health import label
from ...module_utils._printable import printable_lines
from ...module_utils._swarm import owned_labels
from .._settings.declaration import default_of
from . import unreachable
from .workload import NOTHING

# The groups of hosts that the plays of a run are for. A play over an empty group costs nothing.
FETCH = "gpu_swarm_fetch"  # packages are downloaded and not installed, whatever runs there
PREPARE = "gpu_swarm_prepare"  # in no swarm yet, or the change stops nothing
# Members of the swarm are paused, changed, and returned to service.
IDLE = "gpu_swarm_idle"  # nothing runs there
WINDOW = "gpu_swarm_window"  # in batches: with the idle ones, and the managers after them
WINDOW_MANAGERS = "gpu_swarm_window_managers"  # each a batch of its own
WINDOWS = frozenset((IDLE, WINDOW, WINDOW_MANAGERS))
JOIN = "gpu_swarm_join"
LABEL = "gpu_swarm_label"
MARKED = "gpu_swarm_marked"  # returns to service: paused in this run, or in an earlier one and nothing is wrong with it
END = "gpu_swarm_end"  # hosts of the groups above, hosts that wait, and hosts that cannot go on

# The needs during which no work may run there.
DISRUPTIVE = frozenset(("toolkit", "restart", "maintain"))


@dataclass
class Host:
    """A host by the inventory and by its assessment.

    ``toolkit`` is the wanted version, None for any. ``hold`` is whether the package manager holds that version, None to leave the hold as it is.
    ``disrupt`` is what may be stopped there. ``leave`` and ``packages`` are what deprovision removes. ``kept``: /var/lib/gpu-swarm exists.
    """

    name: str  # in the inventory
    gpu: bool  # in the group gpu_nodes: it advertises its GPUs
    manager: bool  # in the group swarm_managers
    assessed: dict[str, Any] | None  # what gpu_node answered in check mode, or how it failed; None if it was not called
    toolkit: str | None = None
    disrupt: str = default_of("provision_disrupt")
    move: bool = False  # whether it may leave another swarm for this one
    leave: bool = default_of("deprovision_leave")
    packages: bool = default_of("deprovision_packages")
    kept: bool = False
    hold: bool | None = None
    mistaken: str | None = None  # why the node id that it shows is not believed
    advertise_addr: str = ""  # the address that it advertises to others
    report: str | None = None  # what the watcher of its GPUs should report while tasks run there
    isolation: str = ""  # the wanted level
    settings: dict[str, Any] = field(default_factory=dict)  # the settings that tasks read, by name
    reacts: int | None = None  # of a manager whose service pauses nodes with faults: at most this percentage of the GPU nodes
    keeps_reacting: bool = False  # a manager keeps this service, since nodes report although the inventory has no GPU node
    fault_limit: int = 20  # at most this percentage of the GPU nodes is paused for a fault by a run
    metrics: str = ""  # the directory to which that service writes metrics

    @property
    def models(self) -> list[str]:
        """The model of each GPU, spelled as in the label gpu.model. The node has on record which model a silent card is."""
        assessed = self.assessed or {}
        last_known = {one["index"]: model_of(one) for one in assessed.get("left_out") or [] if one.get("last_known")}
        return [gpu["model"] or last_known.get(gpu["index"]) or "?" for gpu in assessed.get("gpus") or []]

    @property
    def failed(self) -> bool:
        """Whether Ansible has removed this host from the run."""
        return not self.assessed or bool(self.assessed.get("unreachable") or self.assessed.get("failed"))

    @property
    def unfit(self) -> str | None:
        """Why this run can do nothing with this host, with or without Docker."""
        if not self.assessed:
            return "not assessed"
        if self.assessed.get("unreachable"):
            return printable_lines(f"unreachable: {unreachable.reason(str(self.assessed.get('msg', '')))}")
        if self.assessed.get("failed"):
            return printable_lines(str(self.assessed.get("msg", "the assessment failed")))
        return self.mistaken

    @property
    def has_engine(self) -> bool:
        return "engine" not in (self.assessed or {}).get("missing", [])

    @property
    def error(self) -> str | None:
        """Why this host cannot be changed in this run."""
        return self.unfit or (None if self.has_engine else "Docker Engine is not installed. Install it on this host and run this again.")

    @property
    def node_id(self) -> str | None:
        return None if self.mistaken else self.shown_id

    @property
    def shown_id(self) -> str | None:
        """The node id by the host's own answer."""
        return ((self.assessed or {}).get("swarm") or {}).get("node_id")


@dataclass
class Swarm:
    """The swarm: which hosts run it (``found``, from find_swarm) and what a manager shows (``ledger``).

    ``evicted`` are the tasks that new labels would evict: by node, the task ids with the reason in words.
    """

    found: Mapping[str, Any]
    ledger: Mapping[str, Any] | None = None
    evicted: Mapping[str, dict[str, str]] = field(default_factory=dict)

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["id"]: node for node in (self.ledger or {}).get("nodes") or []}

    @property
    def autolocked(self) -> bool:
        return bool(((self.ledger or {}).get("swarm") or {}).get("autolocked"))

    @property
    def error(self) -> str | None:
        """Why the membership of no host can be judged."""
        if self.found.get("error"):
            return str(self.found["error"])
        if self.found.get("live") and not self.nodes:
            reason = (self.ledger or {}).get("msg") or "it gave no reason"
            return f"The manager {self.found['live'][0]} could not be queried about the swarm: {reason}"
        return None


@dataclass
class PlannedWork:
    """What runs on a host, and what its change does with that."""

    disrupt: str = default_of("provision_disrupt")  # what may be stopped there
    stops: str = NOTHING  # what the change would stop
    waits_for: list[str] = field(default_factory=list)  # what must end there first, in words
    left_alone: bool = False  # nothing is done there before what it waits for has ended
    long_running: list[str] = field(default_factory=list)  # the tasks that are moved after a long time, with their age
    jobs: list[str] = field(default_factory=list)  # finished jobs that are removed first, since the change would run them again
    remove_jobs: bool | None = None  # whether finished jobs may be removed; None where nothing is judged
    restart_waits: int = 0  # how long the call that restarts dockerd waits for the drain (seconds); 0 if a task before it waits


@dataclass
class PlannedFault:
    """Whether a host is unfit for what it advertises, and what the run does about that."""

    text: str = ""  # the fault that keeps it out of service, as its watcher reports it
    pauses: bool = False  # whether this run pauses it for that
    left_in_service: bool = False  # whether it stays in service with that fault: somebody returned it, or as many as may be are paused
    too_many: bool = False  # whether it is not paused since as many as may be are paused
    cleared: bool = False  # it is in service and still reports a fault that this run does not find
    paused_for: str = ""  # the fault for which it is paused already


@dataclass
class PlannedMembership:
    """The node that a host is in the swarm, as the manager lists it before the run."""

    node_id: str | None = None
    leader: bool = False  # of the swarm's managers
    left_paused: bool = False  # an earlier run left it paused
    by_hand: bool = False  # somebody returned it to service since, and the notes of that run are still there


@dataclass
class Target:
    """What the change of a host brings it to."""

    toolkit: str | None = None  # the version that is installed
    report: str | None = None  # what the watcher of its GPUs reports while tasks run there
    report_now: bool = False  # whether a repair may be reported now: the update of the node harms no task
    isolation: str = ""  # the level
    reacts: bool = False  # whether it has the service that pauses nodes with faults


@dataclass
class Removal:
    """What deprovision leaves of a host in the swarm."""

    labels: dict[str, str] = field(default_factory=dict)  # the labels of this collection that its node has from here on
    mark: str = owned_labels.KEEP  # what becomes of the label that binds the node to the host
    remains: str | None = None  # why it remains a member, though it was to leave
    entry: str | None = None  # the node id that a run left in the manager's list when it was killed after the host had left


_PARTS = {"work": PlannedWork, "fault": PlannedFault, "membership": PlannedMembership, "target": Target, "removal": Removal}


@dataclass
class Step:
    """What a run does with one host, and what that means for its users.

    ``work``, ``fault``, ``membership`` and ``target`` are described above.
    """

    needs: list[str] = field(default_factory=list)  # what is to be done, such as toolkit, restart or join; nothing is done where it is empty
    groups: list[str] = field(default_factory=list)  # the names above whose plays are for this host
    impact: list[str] = field(default_factory=list)  # what the change means for users, in words
    error: str | None = None  # why nothing is done there, or not all of it
    playbook: str = ""  # in words; a node that the run pauses has it as a note
    maintained: str = ""  # the maintenance that an earlier run finished there
    settings: dict[str, Any] = field(default_factory=dict)  # of the host, those that tasks read, by name
    work: PlannedWork = field(default_factory=PlannedWork)
    fault: PlannedFault = field(default_factory=PlannedFault)
    membership: PlannedMembership = field(default_factory=PlannedMembership)
    target: Target = field(default_factory=Target)
    removal: Removal | None = None  # of a deprovision

    @classmethod
    def from_plan(cls, plain: Mapping[str, Any]) -> Step:
        """The step from the facts of a run, which have it as asdict() returns it."""
        return cls(**{name: _PARTS[name](**value) if name in _PARTS and value is not None else value for name, value in plain.items()})

    @property
    def remains(self) -> str | None:
        """Why the host remains a member though it was to leave."""
        return self.removal.remains if self.removal else None

    @property
    def problem(self) -> str | None:
        """What the run ends with an error for, whatever else it does on the host."""
        return self.error or self.remains or (f"unfit for work: {in_words(self.fault.text)}" if self.fault.text else None)


def in_words(fault: str) -> str:
    """A fault as its node reports it, for people."""
    return label.describe_label(label.parse_label(fault))
