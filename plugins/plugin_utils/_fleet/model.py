# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of a run: hosts, their swarm, and the step of the run for each host.

Private to this collection; it may change without notice.
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
FETCH = "gpu_swarm_fetch"  # the hosts only download packages, so the work on these hosts does not matter
PREPARE = "gpu_swarm_prepare"  # hosts that are in no swarm yet, or whose change stops nothing
# Members of the swarm are paused, changed, and returned to service.
IDLE = "gpu_swarm_idle"  # nothing runs there
WINDOW = "gpu_swarm_window"  # work runs on these hosts; they change in batches, together with the idle hosts and before the managers
WINDOW_MANAGERS = "gpu_swarm_window_managers"  # each manager is its own batch
WINDOWS = frozenset((IDLE, WINDOW, WINDOW_MANAGERS))
JOIN = "gpu_swarm_join"
LABEL = "gpu_swarm_label"
MARKED = "gpu_swarm_marked"  # hosts that return to service: paused in this run, or in an earlier run and without a problem now
END = "gpu_swarm_end"  # hosts of the groups above, hosts that wait, and hosts that this run cannot change

# The needs that allow no running work on the host.
DISRUPTIVE = frozenset(("toolkit", "restart", "maintain"))


@dataclass
class Host:
    """A host, as the inventory and its assessment describe it.

    ``toolkit`` is the wanted version, None for any version. ``hold`` says whether the package manager holds this version. With None, the hold does
    not change. ``disrupt`` says which work on the host may be stopped. ``leave`` and ``packages`` say what deprovision removes. ``kept`` says whether
    /var/lib/gpu-swarm exists.
    """

    name: str  # in the inventory
    gpu: bool  # in the group gpu_nodes: it advertises its GPUs
    manager: bool  # in the group swarm_managers
    assessed: dict[str, Any] | None  # what gpu_node answered in check mode, or how it failed; None if it was not called
    toolkit: str | None = None
    disrupt: str = default_of("provision_disrupt")
    move: bool = False  # whether the host may leave another swarm for this swarm
    leave: bool = default_of("deprovision_leave")
    packages: bool = default_of("deprovision_packages")
    kept: bool = False
    hold: bool | None = None
    identity_error: str | None = None  # why the node id that it shows cannot be right
    advertise_addr: str = ""  # the address that it advertises to others
    report: str | None = None  # what the watcher of its GPUs should report while tasks run on the node
    isolation: str = ""  # the wanted level
    settings: dict[str, Any] = field(default_factory=dict)  # the settings that tasks read, by name
    reacts: int | None = None  # the service on this manager pauses at most this percentage of the GPU nodes; None if the manager has no such service
    records: bool = False  # this manager records what it reads of the swarm
    page: bool = False  # this manager keeps a page of the fleet up to date
    grafana_url: str = ""  # the address to which the page links
    keeps_reacting: bool = False  # a manager keeps this service, because nodes report although the inventory has no GPU node
    fault_limit: int = label.PAUSED_PERCENT  # a run pauses at most this percentage of the GPU nodes for a fault
    metrics: str = ""  # the directory to which that service writes metrics

    @property
    def models(self) -> list[str]:
        """Return the model of each GPU, with the same spelling as in the label gpu.model. If a card does not answer, use the node's record of its
        model.
        """
        assessed = self.assessed or {}
        last_known = {card["index"]: model_of(card) for card in assessed.get("left_out") or [] if card.get("last_known")}
        return [gpu["model"] or last_known.get(gpu["index"]) or "?" for gpu in assessed.get("gpus") or []]

    @property
    def failed(self) -> bool:
        """Return whether Ansible has removed this host from the run."""
        return not self.assessed or bool(self.assessed.get("unreachable") or self.assessed.get("failed"))

    @property
    def unfit(self) -> str | None:
        """Return why this run can do nothing with this host, whether the host has Docker or not."""
        if not self.assessed:
            return "not assessed"
        if self.assessed.get("unreachable"):
            return printable_lines(f"unreachable: {unreachable.reason(str(self.assessed.get('msg', '')))}")
        if self.assessed.get("failed"):
            return printable_lines(str(self.assessed.get("msg", "the assessment failed")))
        return self.identity_error

    @property
    def has_engine(self) -> bool:
        return "engine" not in (self.assessed or {}).get("missing", [])

    @property
    def error(self) -> str | None:
        """Return why this host cannot be changed in this run."""
        return self.unfit or (None if self.has_engine else "Docker Engine is not installed. Install it on this host and run this again.")

    @property
    def node_id(self) -> str | None:
        return None if self.identity_error else self.shown_id

    @property
    def shown_id(self) -> str | None:
        """Return the node id in the host's own answer."""
        return ((self.assessed or {}).get("swarm") or {}).get("node_id")


@dataclass
class Swarm:
    """The swarm: which hosts run it (``location``, from find_swarm), and a manager's ``ledger``.

    ``evicted`` has the tasks that new labels would evict, by node: task ids, each with a text that says why.
    """

    location: Mapping[str, Any]
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
        """Return why no host's membership is known, or None."""
        if self.location.get("error"):
            return str(self.location["error"])
        if self.location.get("live") and not self.nodes:
            reason = (self.ledger or {}).get("msg") or "its answer gives no reason"
            return f"The manager {self.location['live'][0]} could not be queried about the swarm: {reason}"
        return None


@dataclass
class PlannedWork:
    """The work on a host, and what the change of the host does to it."""

    disrupt: str = default_of("provision_disrupt")  # which work on the host may be stopped
    stops: str = NOTHING  # which work the change would stop
    waits_for: list[str] = field(default_factory=list)  # descriptions of the work on the host that must end first
    left_alone: bool = False  # whether the host stays unchanged until this work has ended
    long_running: list[str] = field(default_factory=list)  # the tasks that are moved after a long time, with their age
    jobs: list[str] = field(default_factory=list)  # finished jobs that are removed first, because the change would run them again
    remove_jobs: bool | None = None  # whether finished jobs may be removed; None if jobs are not checked
    restart_waits: int = 0  # how long the call that restarts dockerd waits for the drain (seconds); 0 if an earlier task waits


@dataclass
class PlannedFault:
    """The fault of a host that cannot provide what it advertises, and what the run does about it."""

    text: str = ""  # the fault that keeps it out of service, as its watcher reports it
    pauses: bool = False  # whether this run pauses it for that
    left_in_service: bool = False  # whether it stays in service with this fault, because somebody decided so, or because of the limit
    too_many: bool = False  # whether it is not paused because the limit of paused nodes is reached
    cleared: bool = False  # it is in service and still reports a fault that this run does not find
    paused_for: str = ""  # the fault for which it is already paused


@dataclass
class PlannedMembership:
    """The node of a host in the swarm, as the manager lists it before the run."""

    node_id: str | None = None
    leader: bool = False  # whether it leads the swarm's managers
    left_paused: bool = False  # an earlier run left it paused
    by_hand: bool = False  # somebody returned the node to service, but the node still has the notes of that run


@dataclass
class Target:
    """The wanted state of a host after its change."""

    toolkit: str | None = None  # the version that is installed
    report: str | None = None  # what the watcher of its GPUs reports while tasks run on the node
    report_now: bool = False  # whether a repair may be reported now: the update of the node harms no task
    isolation: str = ""  # the level
    reacts: bool = False  # whether the managers' service there pauses nodes with faults
    records: bool = False  # whether the managers' service there records what it reads
    page: bool = False  # whether the managers' service there keeps a page up to date


@dataclass
class Removal:
    """The traces of a host that deprovision leaves in the swarm."""

    labels: dict[str, str] = field(default_factory=dict)  # the labels of this collection that its node has from now on
    mark: str = owned_labels.KEEP  # what happens to the label that binds the node to the host
    remains: str | None = None  # why it remains a member although it should leave
    entry: str | None = None  # the node id that a killed run left in the manager's list after the host had left


_PARTS = {"work": PlannedWork, "fault": PlannedFault, "membership": PlannedMembership, "target": Target, "removal": Removal}


@dataclass
class Step:
    """The changes that a run makes on one host, and their impact on users.

    ``work``, ``fault``, ``membership`` and ``target`` are described above.
    """

    needs: list[str] = field(default_factory=list)  # the changes to make, such as toolkit, restart or join; empty if there are none
    groups: list[str] = field(default_factory=list)  # the groups above whose plays run on this host
    impact: list[str] = field(default_factory=list)  # descriptions of the impact on users
    error: str | None = None  # why the host is not changed, or not completely
    playbook: str = ""  # the playbook's description, which is also the note on nodes that the run pauses
    maintained: str = ""  # the maintenance that an earlier run finished on the host
    settings: dict[str, Any] = field(default_factory=dict)  # the host's settings that tasks read, by name
    work: PlannedWork = field(default_factory=PlannedWork)
    fault: PlannedFault = field(default_factory=PlannedFault)
    membership: PlannedMembership = field(default_factory=PlannedMembership)
    target: Target = field(default_factory=Target)
    removal: Removal | None = None  # only in a deprovision

    @classmethod
    def from_plan(cls, plain: Mapping[str, Any]) -> Step:
        """Build the step from the facts of a run, which store the result of asdict()."""
        return cls(**{name: _PARTS[name](**value) if name in _PARTS and value is not None else value for name, value in plain.items()})

    @property
    def remains(self) -> str | None:
        """Return why the host remains a member although it should leave, or None."""
        return self.removal.remains if self.removal else None

    @property
    def problem(self) -> str | None:
        """The reason why the run ends with an error, whatever else it does on the host. None if there is none."""
        return self.error or self.remains or (f"unfit for work: {label.describe_fault(self.fault.text)}" if self.fault.text else None)
