# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has to do, host by host (pure): the assessments and the manager's ledger in, groups of hosts out.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..module_utils import _gates, _packages, _resources, _swarm_labels
from ..module_utils._printable import printable_lines
from . import _toolkit
from ._batches import batches
from ._identity import LABEL_PREFIX, problems
from ._membership import membership
from ._settings import ALL, NEVER, SERVICES, default_of
from ._work import Work, in_words, must_stay, what_becomes, work_on

# The groups that a run's plays are for. A play over an empty group costs nothing.
FETCH = "gpu_swarm_fetch"  # packages are brought within reach and nothing is installed, whatever runs there
PREPARE = "gpu_swarm_prepare"  # in no swarm yet, or nothing that hurts is to be done
# Members of the swarm are paused, changed, and given back as they were.
IDLE = "gpu_swarm_idle"  # nothing runs there
WINDOW = "gpu_swarm_window"  # in batches, with the idle ones
WINDOW_MANAGERS = "gpu_swarm_window_managers"  # one at a time
WINDOWS = frozenset((IDLE, WINDOW, WINDOW_MANAGERS))
JOIN = "gpu_swarm_join"
LABEL = "gpu_swarm_label"
MARKED = "gpu_swarm_marked"  # to be returned to service: paused in this run, or in an earlier one and nothing is wrong with it
END = "gpu_swarm_end"  # whoever is in a group above, waits, or cannot go on

# The needs for which nothing may run there.
HURTS = frozenset(("toolkit", "restart", "maintain"))
# What a change stops: whatever runs there, only what is swarm's (tasks, and containers on its networks), or nothing.
CONTAINERS, TASKS, NOTHING = "containers", "tasks", "nothing"


LOCKS = (
    "dockerd has to be restarted, which would lock this manager, since its swarm is autolocked. Run 'docker swarm update "
    "--autolock=false' on a manager, run this again, and put the lock back with '--autolock=true', which shows a new unlock key."
)


@dataclass
class Host:
    """One host of the fleet as the inventory has it and as its assessment found it.

    ``toolkit`` is the version that the host is to have, None for any; ``hold`` whether the package manager is to keep it,
    None to leave that as it is. ``disrupt`` says what may be stopped there.
    ``leave`` and ``packages`` say what deprovision is to take back, ``kept`` whether there is a directory of ours.
    """

    name: str
    gpu: bool
    manager: bool
    assessed: dict[str, Any] | None
    toolkit: str | None = None
    disrupt: str = default_of("provision_disrupt")
    move: bool = False
    leave: bool = default_of("deprovision_leave")
    packages: bool = default_of("deprovision_packages")
    kept: bool = False
    hold: bool | None = None
    mistaken: str | None = None  # why the node id that it shows is not believed
    wrong: str | None = None  # what is wrong with its settings
    advertise_addr: str = ""  # what it is to tell others
    settings: dict[str, Any] = field(default_factory=dict)  # those that tasks read, by name

    @property
    def failed(self) -> bool:
        """Whether Ansible has given this host up."""
        return not self.assessed or bool(self.assessed.get("unreachable") or self.assessed.get("failed"))

    @property
    def unfit(self) -> str | None:
        """Why nothing can be done with this host in this run, with or without Docker."""
        if not self.assessed:
            return "not assessed"
        if self.assessed.get("unreachable"):
            return printable_lines(f"unreachable: {self.assessed.get('msg', '')}")
        if self.assessed.get("failed"):
            return printable_lines(str(self.assessed.get("msg", "the assessment failed")))
        return self.mistaken or self.wrong

    @property
    def has_engine(self) -> bool:
        return "engine" not in (self.assessed or {}).get("missing", [])

    @property
    def error(self) -> str | None:
        """Why this host cannot be made what it is to be in this run."""
        return self.unfit or (None if self.has_engine else "Docker Engine is not installed. Install it on this host and run this again.")

    @property
    def node_id(self) -> str | None:
        return None if self.mistaken else self.shown_id

    @property
    def shown_id(self) -> str | None:
        """The node id by the host's own word."""
        return ((self.assessed or {}).get("swarm") or {}).get("node_id")


@dataclass
class Swarm:
    """What is known of the swarm: who runs it (``found``, from find_swarm) and what a manager shows (``ledger``).

    ``evicted`` are by node the tasks that its labels would evict, as their ids with the reason in words.
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
        """Why nobody's membership can be judged."""
        if self.found.get("error"):
            return str(self.found["error"])
        if self.found.get("live") and not self.nodes:
            reason = (self.ledger or {}).get("msg") or "it lacks the Docker SDK for Python, which provision without --check installs"
            return f"The manager {self.found['live'][0]} could not be asked about the swarm: {reason}"
        return None


@dataclass
class Step:
    """What one host needs, which groups that puts it in, and what it means for those who use it."""

    needs: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    impact: list[str] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    left_alone: bool = False  # nothing is done there before what it waits for has ended
    disrupt: str = default_of("provision_disrupt")
    error: str | None = None
    stops: str = NOTHING  # what the change would stop
    leader: bool = False  # of the swarm's managers
    node_id: str | None = None  # of the node that it is, if the manager lists it
    away: bool = False  # an earlier run left it paused
    toolkit: str | None = None  # the version that is to be installed
    jobs: list[str] = field(default_factory=list)  # finished jobs that are removed first, lest they run again
    remove_jobs: bool | None = None  # whether any may be; None where that is not judged
    settings: dict[str, Any] = field(default_factory=dict)  # of the host, those that tasks read, by name
    restart_waits: int = 0  # for so many seconds the call that restarts dockerd waits for the drain, instead of a task before it

    @property
    def problem(self) -> str | None:
        """What the run ends with an error for, whatever else it does on the host."""
        return self.error


# Also a step of another plan.
AnyStep = TypeVar("AnyStep", bound=Step)


def plan(hosts: list[Host], swarm: Swarm, maintain: str | None = None) -> dict[str, Step]:
    """The step of each host, by name. ``maintain`` says for what besides every member gets a window."""
    nodes = swarm.nodes
    hosts = identified(hosts, nodes)
    # What is to be a manager is one before another is demoted.
    coming = [host.assessed for host in hosts if host.manager and not host.error]
    return {host.name: _step(host, nodes.get(host.node_id or ""), swarm, coming, maintain) for host in hosts}


def identified(hosts: list[Host], nodes: Mapping[str, Mapping[str, Any]]) -> list[Host]:
    """The hosts, and of each whether it is the node that it shows to be."""
    mistaken = problems({host.name: host.shown_id for host in hosts}, nodes)
    return [replace(host, mistaken=mistaken.get(host.name)) for host in hosts]


def in_batches(hosts: list[Host], steps: Mapping[str, Step], setting: Any = None) -> list[list[str]]:
    """The members that get a window, batch by batch. Those that have to wait come last."""
    order = sorted(hosts, key=lambda host: bool(steps[host.name].waits_for))
    idle, busy = ({host.name: _model(host) for host in order if group in steps[host.name].groups} for group in (IDLE, WINDOW))
    return batches(idle, busy, setting)


def _model(host: Host) -> str:
    return ", ".join(sorted({gpu["name"] or "?" for gpu in (host.assessed or {}).get("gpus") or []}))


def hosts_in(steps: Mapping[str, Step], cut: Sequence[Sequence[str]] = ()) -> dict[str, list[str]]:
    """The hosts by group, in the order of the changes: batch by batch (``cut``), and the leader last, so that it changes once."""
    groups: dict[str, list[str]] = {}
    for name in sorted(steps, key=lambda name: steps[name].leader):
        for group in steps[name].groups:
            groups.setdefault(group, []).append(name)
    return {**groups, **({WINDOW: [name for batch in cut for name in batch]} if cut else {})}


def only_paused(steps: Mapping[str, Step]) -> list[str]:
    """The hosts that an earlier run left paused, and for which nothing is to be done before they return to service."""
    alone = [name for name, step in steps.items() if MARKED in step.groups and set(step.groups) <= {MARKED, LABEL, END}]
    return [name for name in alone if steps[name].away and not steps[name].jobs]


def to_change(groups: Mapping[str, Iterable[str]]) -> list[str]:
    """The hosts on which anything is to be done, by hosts_in(). What is fetched, nobody notices."""
    return list(dict.fromkeys(name for group, names in groups.items() if group not in (END, FETCH) for name in names))


def _step(host: Host, node: dict[str, Any] | None, swarm: Swarm, coming: list[Any], maintain: str | None) -> Step:
    return settle(_decide(host, node, swarm, coming, maintain), host, node)


def settle(step: AnyStep, host: Host, node: dict[str, Any] | None) -> AnyStep:
    """The step with what holds for every host, whatever is done there."""
    step.leader, step.node_id = bool(node and node.get("leader")), node["id"] if node else None
    step.away = bool(node and node.get("former_availability"))
    # By a run that was killed, or over something that failed. Only a clean assessment returns it to service: nobody knows what a node
    # is good for that could not be assessed, or that refuses its policy.
    if step.away and not (step.error or host.failed) and MARKED not in step.groups:
        step.groups.append(MARKED)
    # A host whose assessment failed was given up by Ansible, and said why.
    if step.groups or step.waits_for or (step.problem and not host.failed):
        step.groups.append(END)
    return step


def _decide(host: Host, node: dict[str, Any] | None, swarm: Swarm, coming: list[Any], maintain: str | None) -> Step:
    if maintain:  # which leaves packages to the user's own tasks
        host = replace(host, toolkit=None, hold=None)
    if host.error or not host.assessed:
        return Step(error=host.error)
    role = "manager" if host.manager else "worker"
    # What is wrong with the host itself comes first: its dockerd may be the one that the swarm lacks.
    member = membership(host.assessed, None if swarm.error else as_docker_has_them(swarm), role, host.move, coming=coming)
    error = member["error"] or swarm.error or _toolkit_error(host) or _refused(host) or (node and _clash(node, host.assessed["labels"]))
    if error:
        return Step(error=error)
    if maintain and node is None:
        return Step(error="it is no member of the swarm. Make it one with fleet.gpu_swarm.provision, or leave it out with --limit.")
    needs = _needs(host, host.assessed, node, member["action"])
    if maintain:
        needs = [need for need in needs if need != "toolkit"] + ["maintain"]
    step = Step(needs=needs, disrupt=host.disrupt, toolkit=_toolkit.to_have(host.toolkit, host.assessed) if "toolkit" in needs else None)
    if {"restart", "maintain"} & set(step.needs) and node and node["role"] == "manager" and swarm.autolocked:
        return Step(error=LOCKS)
    _tell_impact(step, host, new=swarm.found.get("init_on") == host.name)
    if maintain:
        step.impact.append(f"{maintain} and reboots" if host.settings.get("maintain_reboot") else maintain)
    step.stops = _stops(set(step.needs))
    heed_work(step, host, node, swarm, _groups(step, node))
    return step


def _stops(needs: set[str]) -> str:
    if HURTS & needs:
        return CONTAINERS
    return TASKS if "move" in needs else NOTHING


def heed_work(step: Step, host: Host, node: dict[str, Any] | None, swarm: Swarm, groups: list[str]) -> None:
    """What runs there decides whether the change may come now, and how. ``groups`` are its groups if it may."""
    work = what_is_stopped(step.stops, work_on((host.assessed or {})["containers"], node))
    stay = must_stay(work, host.disrupt)
    # Where the node is emptied first, its labels change while nothing is there that they could evict.
    moved, kept = ([], []) if WINDOWS & set(groups) and step.stops != NOTHING else _evicted(step, host, node, swarm)
    step.waits_for = in_words(stay) + kept
    # A window waits for what its change would stop. Whom the labels alone would evict, nobody waits for there.
    step.left_alone = bool(kept) or (bool(stay) and (host.disrupt == NEVER or not WINDOWS & set(groups)))
    if step.left_alone:
        return
    step.groups = [WINDOW if group == IDLE and work else group for group in groups]
    ends = [item for item in work if item not in stay]
    cut_off = [item for item in ends if step.stops == TASKS and not item.service]
    becomes = what_becomes((item for item in ends if item not in cut_off), leaves="leave" in step.needs)
    for word, told in [*becomes, ("disconnects", in_words(cut_off)), ("evicts", moved)]:
        if told:
            step.impact.append(f"{word} {', '.join(told)}")


def what_is_stopped(stops: str, work: list[Work]) -> list[Work]:
    """The part of what runs there that a change would stop."""
    return {CONTAINERS: work, TASKS: [item for item in work if item.of_swarm], NOTHING: []}[stops]


def _evicted(step: Step, host: Host, node: dict[str, Any] | None, swarm: Swarm) -> tuple[list[str], list[str]]:
    """The tasks that a change of labels would evict: those that may be, and those that must not."""
    if not node or "labels" not in step.needs:
        return [], []
    movable = {task["id"]: task["movable"] for task in node.get("tasks") or []}
    evicted = swarm.evicted.get(node["id"], {})
    may = [text for task, text in evicted.items() if host.disrupt == ALL or (host.disrupt == SERVICES and movable.get(task))]
    return may, [text for text in evicted.values() if text not in may]


def _refused(host: Host) -> str | None:
    """What the node refuses to carry out, but for what ends with the toolkit that this run brings."""
    wanted = _toolkit.version_of(host.toolkit)
    stands = [
        item["text"]
        for item in (host.assessed or {}).get("refused") or []
        if not (wanted and _gates.is_of(item["id"], "toolkit") and not _gates.affects(item["id"], wanted))
    ]
    return " ".join(stands) or None


def _toolkit_error(host: Host) -> str | None:
    return _toolkit.error(host.toolkit, host.hold, host.assessed or {}) if host.gpu else None


def as_docker_has_them(swarm: Swarm) -> list[dict[str, Any]]:
    """The nodes for membership(). A swarm that is yet to be made has none: whoever is in one by now is in another."""
    return [
        {"ID": node["id"], "Spec": {"Role": node["role"]}, "ManagerStatus": {"Reachability": node["reachability"]}} for node in swarm.nodes.values()
    ]


def _needs(host: Host, assessed: dict[str, Any], node: dict[str, Any] | None, action: str) -> list[str]:
    toolkit, held = host.gpu and _toolkit.is_lacking(host.toolkit, assessed), set(assessed.get("toolkit_held") or ())
    joins = action in ("join", "recover", "move")
    needs = {
        "toolkit": toolkit,
        # Where packages are installed, that is done in the same breath.
        "hold": host.gpu and not toolkit and host.hold is not None and held != (set(_packages.PACKAGES) if host.hold else set()),
        # Not by "changed": an assessment in a real run reports none. A library that is only carried costs every run.
        "configure": bool(assessed["drift"]) or bool({"nvml_binding", "toml_parser"} & set(assessed["missing"])),
        "restart": assessed["restart_required"],
        "join": joins,
        "move": action == "move",
        "role": action in ("promote", "demote"),
        # A worker needs the SDK to join, a manager for every later call.
        "docker_sdk": "docker_sdk" in assessed["missing"] and (host.manager or joins),
        "labels": node is not None and label_change(node, assessed["labels"], assessed.get("labels_unknown") or (), host.name),
    }
    return [name for name, needed in needs.items() if needed]


def _groups(step: Step, node: dict[str, Any] | None) -> list[str]:
    needs, groups = set(step.needs), [FETCH] if "toolkit" in step.needs else []
    hurts = bool({"toolkit", "restart", "maintain"} & needs)
    if hurts and node:
        groups += [WINDOW_MANAGERS if node["role"] == "manager" else IDLE, MARKED]
    elif hurts or {"configure", "hold"} & needs:
        groups.append(PREPARE)
    if {"join", "role", "docker_sdk"} & needs:
        groups.append(JOIN)
    # What is decided may change in the window, and a node that joins has no labels yet.
    if groups or "labels" in needs:
        groups.append(LABEL)
    return groups


def label_change(node: Mapping[str, Any], wanted: Mapping[str, str], keep: Sequence[str] = (), host: str | None = None) -> bool:
    """Whether the labels of this collection on this node of the ledger differ from ``wanted``; those under ``keep`` may stay.
    The node is to be bound to ``host``, or to none."""
    labels, clashes = _swarm_labels.compute(node["labels"], wanted, LABEL_PREFIX, keep)
    labels = _swarm_labels.mark(labels, host, _swarm_labels.SET if host else _swarm_labels.REMOVE, LABEL_PREFIX)
    return bool(clashes) or labels != node["labels"]


def _clash(node: Mapping[str, Any], wanted: Mapping[str, str]) -> str | None:
    """A label that somebody else set to another value than ours would be."""
    dummy_labels, clashes = _swarm_labels.compute(node["labels"], wanted, LABEL_PREFIX)
    told = [f"{key} is {node['labels'][key]!r}, set by somebody else, and {wanted[key]!r} was decided" for key in clashes]
    if not told:
        return None
    keys = " ".join(f"--label-rm {key}" for key in clashes)
    return f"node label {'; '.join(told)}. If nobody needs it: docker node update {keys} {node['id']}"


# -- words -------------------------------------------------------------------------------------------------------------


def _tell_impact(step: Step, host: Host, new: bool) -> None:
    """``new`` tells whether the swarm begins on this host."""
    assessed = host.assessed or {}
    if "toolkit" in step.needs:
        now, wanted = assessed["toolkit_version"], _toolkit.version_of(step.toolkit)
        step.impact.append(f"toolkit {now} → {wanted}" if now not in (None, wanted) else f"installs toolkit {wanted}")
    if "hold" in step.needs:
        step.impact.append("holds the toolkit's version" if host.hold else "no longer holds the toolkit's version")
    if "configure" in step.needs:
        step.impact.extend(_gained_and_lost(assessed) or assessed["drift"] or ["keeps pynvml on the node"])
    step.impact.extend(f"takes over {note}" for note in assessed.get("adopted") or [])
    if "restart" in step.needs:
        step.impact.append("restarts dockerd")
    for need, words in (
        ("move", "leaves its swarm"),
        ("join", "initialises the swarm" if new else "joins the swarm"),
        ("role", "becomes a manager" if host.manager else "becomes a worker"),
        ("docker_sdk", "installs the Docker SDK for Python"),
        ("labels", "changes node labels"),
    ):
        if need in step.needs:
            step.impact.append(words)


def leader_warnings(hosts: list[Host], steps: Mapping[str, Step], swarm: Swarm) -> list[str]:
    """What an old leader does to tasks on the nodes that this run is about to update, each warning once."""
    nodes = swarm.nodes
    leader = next((node.get("engine_version") for node in nodes.values() if node.get("leader")), None)
    named: dict[str, list[str]] = {}
    for host in hosts:
        node = nodes.get(host.node_id or "")
        if node is None or not {WINDOW, WINDOW_MANAGERS, LABEL} & set(steps[host.name].groups):
            continue
        held = {kind: entry["total"] if entry["type"] == "discrete" else [] for kind, entry in node["resources"].items() if entry.get("held")}
        for finding in _gates.leader_findings(leader, held):
            named.setdefault(finding.text, []).append(host.name)
    return [f"{', '.join(names)}: {text}" for text, names in named.items()]


def toolkit_warnings(hosts: list[Host], steps: Mapping[str, Step]) -> list[str]:
    """Which versions of the toolkit the fleet will have, where that is more than one."""
    will = {host.name: steps[host.name].toolkit or (host.assessed or {}).get("toolkit_version") for host in hosts if host.gpu}
    return _toolkit.mixture({name: str(_toolkit.version_of(version)) for name, version in will.items() if version})


def _gained_and_lost(assessed: dict[str, Any]) -> list[str]:
    """By kind, what the node will offer more or less than its daemon does now."""
    wanted = _resources.parse(assessed["resources"])
    now = _resources.from_info((assessed["engine"] or {}).get("generic_resources"))
    there, here = _gpus_by_kind(wanted), _gpus_by_kind(now)
    changes = []
    for kind in dict.fromkeys([*there, *here]):
        gained, lost = there.get(kind, set()) - here.get(kind, set()), here.get(kind, set()) - there.get(kind, set())
        changes += [f"+{len(gained)} {kind}"] * bool(gained) + [f"−{len(lost)} {kind}"] * bool(lost)
    for kind, amount in wanted.items():
        if isinstance(amount, int) and amount != now.get(kind):
            changes.append(f"{kind} {now[kind]} → {amount}" if isinstance(now.get(kind), int) else f"+{amount} {kind}")
    return changes


def _gpus_by_kind(resources: dict[str, Any]) -> dict[str, set[str]]:
    """The named resources whose values are GPUs or MIG devices; other kinds of the node are not ours to tell of."""
    named = {kind: values for kind, values in resources.items() if isinstance(values, list)}
    return {kind: set(values) for kind, values in named.items() if all(one.startswith(("GPU-", "MIG-")) for one in values)}
