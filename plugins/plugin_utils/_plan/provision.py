# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has to do, host by host (pure): the assessments and the manager's ledger in, groups of hosts out.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...module_utils._compat import checks
from ...module_utils._machine import packages
from ...module_utils._swarm import owned_labels
from ...module_utils._swarm.isolation import OFF
from ...module_utils._tasks.keep import may_be_moved
from .._classes.in_ledger import with_classes
from .._fleet.identity import LABEL_PREFIX, problems
from .._fleet.membership import Candidate, membership
from .._fleet.model import (
    DISRUPTIVE,
    END,
    FETCH,
    IDLE,
    JOIN,
    LABEL,
    MARKED,
    PREPARE,
    WINDOW,
    WINDOW_MANAGERS,
    WINDOWS,
    Host,
    PlannedFault,
    PlannedMembership,
    PlannedWork,
    Step,
    Swarm,
    Target,
)
from .._fleet.workload import CONTAINERS, NOTHING, TASKS, in_words, long_running, must_stay, what_becomes, what_is_stopped, work_on
from .._settings.declaration import ALL, NEVER, SERVICES
from . import faults, isolation_change, react, toolkit_version, watchers
from .batches import batches
from .impact import describe_impact

LOCKS = (
    "dockerd has to be restarted, which would lock this manager, since its swarm is autolocked. Run 'docker swarm update "
    "--autolock=false' on a manager, run this again, and put the lock back with '--autolock=true', which shows a new unlock key."
)


def plan(hosts: list[Host], swarm: Swarm, maintain: str | None = None, level: str = OFF) -> dict[str, Step]:
    """The step of each host, by name. ``maintain`` describes a maintenance: with it, every member gets a window. ``level`` is the swarm's."""
    nodes = swarm.nodes
    report = watchers.report_of(hosts, swarm)
    hosts = [react.as_reported(host, swarm) for host in identified(hosts, nodes)]
    hosts = [_classed(replace(host, report=report, isolation=isolation_change.wanted(host, level)), swarm) for host in hosts]
    # What is to be a manager is one before another is demoted.
    new_managers = [host.assessed for host in hosts if host.manager and not host.error]
    steps = {host.name: _step(host, nodes.get(host.node_id or ""), swarm, new_managers, maintain) for host in hosts}
    faults.settle(hosts, steps, swarm)
    return steps


def identified(hosts: list[Host], nodes: Mapping[str, Mapping[str, Any]]) -> list[Host]:
    """The hosts, and of each whether it is the node that it shows to be."""
    mistaken = problems({host.name: host.shown_id for host in hosts}, nodes)
    return [replace(host, mistaken=mistaken.get(host.name)) for host in hosts]


def _classed(host: Host, swarm: Swarm) -> Host:
    """The host with the labels of the classes that services need of its node."""
    labels = (host.assessed or {}).get("labels")
    if not labels or not host.assessed:
        return host
    more = with_classes(labels, host.assessed.get("labels_unknown") or (), host.node_id, swarm.ledger)
    return replace(host, assessed={**host.assessed, "labels": more})


def in_batches(hosts: list[Host], steps: Mapping[str, Step], setting: Any = None) -> list[list[str]]:
    """The members that get a window, batch by batch. Those that have to wait come last of their kind, and after all others the managers: one at
    a time, the leader very last, so that it changes once."""
    order = sorted(hosts, key=lambda host: bool(steps[host.name].work.waits_for))
    idle, busy = ({host.name: ", ".join(sorted({*host.models})) for host in order if group in steps[host.name].groups} for group in (IDLE, WINDOW))
    managers = [host.name for host in hosts if WINDOW_MANAGERS in steps[host.name].groups]
    return [*batches(idle, busy, setting), *([name] for name in sorted(managers, key=lambda name: steps[name].membership.leader))]


def hosts_in(steps: Mapping[str, Step], cut: Sequence[Sequence[str]] = ()) -> dict[str, list[str]]:
    """The hosts by group, in the order of the changes: batch by batch (``cut``), else with the leader last."""
    groups: dict[str, list[str]] = {}
    for name in sorted(steps, key=lambda name: steps[name].membership.leader):
        for group in steps[name].groups:
            groups.setdefault(group, []).append(name)
    return {**groups, **({WINDOW: [name for batch in cut for name in batch]} if cut else {})}


def only_paused(steps: Mapping[str, Step]) -> list[str]:
    """The hosts that an earlier run left paused, and for which nothing is to be done before they return to service."""
    alone = [name for name, step in steps.items() if MARKED in step.groups and set(step.groups) <= {MARKED, LABEL, END}]
    return [name for name in alone if steps[name].membership.left_paused and not steps[name].work.jobs]


def cleared(steps: Mapping[str, Step]) -> list[str]:
    """The hosts in service whose reported fault is over. That is recorded before another host returns and makes room for one more pause."""
    return [name for name, step in steps.items() if step.fault.cleared]


def to_pause(steps: Mapping[str, Step]) -> dict[str, str]:
    """The hosts that are paused for a fault before anything else is done, with that."""
    return {name: step.fault.text for name, step in steps.items() if step.fault.pauses}


def to_change(groups: Mapping[str, Iterable[str]]) -> list[str]:
    """The hosts on which anything is to be done, by hosts_in(). A download disturbs nobody."""
    return list(dict.fromkeys(name for group, names in groups.items() if group not in (END, FETCH) for name in names))


def _step(host: Host, node: dict[str, Any] | None, swarm: Swarm, new_managers: list[Any], maintain: str | None) -> Step:
    step = _decide(host, node, swarm, new_managers, maintain)
    fault = faults.fault_of(host, node)
    step.fault = PlannedFault(fault, faults.is_to_pause(fault, node), cleared=not step.error and faults.is_over(host, node))
    return settle(step, host, node)


def settle(step: Step, host: Host, node: dict[str, Any] | None) -> Step:
    """The step with what is common to every host, whatever is done there."""
    left_paused = bool(node and node.get("former_availability"))
    if node:
        by_hand = left_paused and node["availability"] == "active"
        step.membership = PlannedMembership(node["id"], bool(node.get("leader")), left_paused, by_hand)
    step.fault.paused_for = str((node or {}).get("paused_for") or "")
    # By a run that was killed, or over something that failed. Only a clean assessment returns it to service: nobody knows what a node
    # is good for that could not be assessed, or that refuses its policy.
    if left_paused and not (step.error or host.failed or step.fault.text) and MARKED not in step.groups:
        step.groups.append(MARKED)
    # Ansible has removed a host whose assessment failed from the run, and has shown why.
    if step.groups or step.work.waits_for or (step.problem and not host.failed):
        step.groups.append(END)
    return step


def _decide(host: Host, node: dict[str, Any] | None, swarm: Swarm, new_managers: list[Any], maintain: str | None) -> Step:
    if maintain:  # which leaves packages to the user's own tasks
        host = replace(host, toolkit=None, hold=None)
    wrong = host.error or isolation_change.clash(host)
    if wrong or not host.assessed:
        return Step(error=wrong)
    role = "manager" if host.manager else "worker"
    # What is wrong with the host itself comes first: its dockerd may be the one that the swarm lacks.
    candidate = Candidate(host.assessed, role, move=host.move, advertise_addr=host.advertise_addr)
    member = membership(candidate, None if swarm.error else as_docker_has_them(swarm), new_managers=new_managers)
    own = _toolkit_error(host) or _refused(host)
    error = member["error"] or swarm.error or own or (node and _clash(node, host.assessed["labels"]))
    if error:
        return Step(error=error)
    if maintain and node is None:
        return Step(error="it is no member of the swarm. Make it one with fleet.gpu_swarm.provision, or leave it out with --limit.")
    if maintain and node and host.settings.get("maintain_id") in owned_labels.maintained(node["labels"], LABEL_PREFIX):
        return Step(work=PlannedWork(host.disrupt), maintained=host.settings["maintain_id"])
    needs = _needs(host, host.assessed, node, member["action"])
    if maintain:
        needs = [need for need in needs if need not in ("toolkit", "react")] + ["maintain"]
    step = Step(needs=needs, work=PlannedWork(host.disrupt), target=_target(host, needs, swarm))
    if {"restart", "maintain"} & set(step.needs) and node and node["role"] == "manager" and swarm.autolocked:
        return Step(error=LOCKS)
    describe_impact(step, host, new=swarm.found.get("init_on") == host.name)
    if maintain:
        step.impact.append(f"{maintain} and reboots" if host.settings.get("maintain_reboot") else maintain)
    step.work.stops = _stops(set(step.needs))
    apply_disruption_policy(step, host, node, swarm, _groups(step, node))
    return step


def _target(host: Host, needs: list[str], swarm: Swarm) -> Target:
    return Target(
        toolkit=toolkit_version.to_have(host.toolkit, host.assessed or {}) if "toolkit" in needs else None,
        report=host.report if needs else None,
        report_now="configure" in needs and watchers.may_report_now(host, swarm),
        isolation=host.isolation if needs else "",
        reacts=host.reacts is not None,
    )


def _stops(needs: set[str]) -> str:
    if DISRUPTIVE & needs:
        return CONTAINERS
    return TASKS if "move" in needs else NOTHING


def apply_disruption_policy(step: Step, host: Host, node: dict[str, Any] | None, swarm: Swarm, groups: list[str]) -> None:
    """By provision_disrupt and what runs there, whether the change may come now, and how. ``groups`` are its groups if it may."""
    work = what_is_stopped(step.work.stops, work_on((host.assessed or {})["containers"], node))
    stay = must_stay(work, host.disrupt)
    # Where the node is emptied first, its labels change while nothing is there that they could evict.
    moved, kept = ([], []) if WINDOWS & set(groups) and step.work.stops != NOTHING else _evicted(step, host, node, swarm)
    step.work.waits_for = in_words(stay) + kept
    # A window waits for what its change would stop, and not for tasks that the labels alone would evict.
    step.work.left_alone = bool(kept) or (bool(stay) and (host.disrupt == NEVER or not WINDOWS & set(groups)))
    if step.work.left_alone:
        return
    step.groups = [WINDOW if group == IDLE and work else group for group in groups]
    ends = [item for item in work if item not in stay]
    step.work.long_running = long_running(ends)
    cut_off = [item for item in ends if step.work.stops == TASKS and not item.service]
    becomes = what_becomes((item for item in ends if item not in cut_off), leaves="leave" in step.needs)
    for word, names in [*becomes, ("disconnects", in_words(cut_off)), ("evicts", moved)]:
        if names:
            step.impact.append(f"{word} {', '.join(names)}")


def _evicted(step: Step, host: Host, node: dict[str, Any] | None, swarm: Swarm) -> tuple[list[str], list[str]]:
    """The tasks that a change of labels would evict: those that may be, and those that must not."""
    if not node or "labels" not in step.needs:
        return [], []
    movable = {task["id"]: may_be_moved(task) for task in node.get("tasks") or []}
    evicted = swarm.evicted.get(node["id"], {})
    may = [text for task, text in evicted.items() if host.disrupt == ALL or (host.disrupt == SERVICES and movable.get(task))]
    return may, [text for text in evicted.values() if text not in may]


def _refused(host: Host) -> str | None:
    """What the node refuses to carry out, but for what ends with the toolkit that this run brings."""
    wanted, now = toolkit_version.version_of(host.toolkit), (host.assessed or {}).get("toolkit_version")
    refused = (host.assessed or {}).get("refused") or []
    return " ".join(item["text"] for item in refused if not (wanted and _may_end(item["id"], wanted, now))) or None


def _may_end(refused: str, wanted: str, now: str | None) -> bool:
    """Whether another toolkit may end a refusal: one that failed when it was tried is tried again once it is another one."""
    if refused == checks.NO_CONTAINER:
        return wanted != now
    return checks.is_of(refused, "toolkit") and not checks.affects(refused, wanted)


def _toolkit_error(host: Host) -> str | None:
    return toolkit_version.error(host.toolkit, host.hold, host.assessed or {}) if host.gpu else None


def as_docker_has_them(swarm: Swarm) -> list[dict[str, Any]]:
    """The nodes for membership(). A swarm that is yet to be made has none: whoever is in one by now is in another."""
    return [
        {"ID": node["id"], "Spec": {"Role": node["role"]}, "ManagerStatus": {"Reachability": node["reachability"]}} for node in swarm.nodes.values()
    ]


def _needs(host: Host, assessed: dict[str, Any], node: dict[str, Any] | None, action: str) -> list[str]:
    lacking, held = host.gpu and toolkit_version.is_lacking(host.toolkit, assessed), set(assessed.get("toolkit_held") or ())
    joins = action in ("join", "recover", "move")
    needs = {
        "toolkit": lacking,
        # Where packages are installed, that is done in the same breath.
        "hold": host.gpu and not lacking and host.hold is not None and held != (set(packages.PACKAGES) if host.hold else set()),
        # Not by "changed": an assessment in a real run reports none. A library that is only carried costs every run.
        "configure": bool(assessed["drift"])
        or bool({"nvml_binding", "toml_parser"} & set(assessed["missing"]))
        or watchers.is_to_change(host)
        or isolation_change.is_to_change(host),
        "restart": assessed["restart_required"] or isolation_change.takes_restart(host),
        "join": joins,
        "move": action == "move",
        "role": action in ("promote", "demote"),
        # For every call on it.
        "docker_sdk": "docker_sdk" in assessed["missing"] and host.manager,
        "react": react.react_differs(host),
        "labels": node is not None and label_change(node, assessed["labels"], assessed.get("labels_unknown") or (), host.name),
    }
    return [name for name, needed in needs.items() if needed]


def _groups(step: Step, node: dict[str, Any] | None) -> list[str]:
    needs, groups = set(step.needs), [FETCH] if "toolkit" in step.needs else []
    disruptive = bool({"toolkit", "restart", "maintain"} & needs)
    if disruptive and node:
        groups += [WINDOW_MANAGERS if node["role"] == "manager" else IDLE, MARKED]
    elif disruptive or {"configure", "hold"} & needs:
        groups.append(PREPARE)
    if {"join", "role", "docker_sdk", "react"} & needs:
        groups.append(JOIN)
    # What is decided may change in the window, and a node that joins has no labels yet.
    if groups or "labels" in needs:
        groups.append(LABEL)
    return groups


def label_change(node: Mapping[str, Any], wanted: Mapping[str, str], keep: Sequence[str] = (), host: str | None = None) -> bool:
    """Whether the labels of this collection on this node of the ledger differ from ``wanted``; those under ``keep`` may stay.
    The node is to be bound to ``host``, or to none."""
    labels, clashes = owned_labels.compute(node["labels"], wanted, LABEL_PREFIX, keep)
    labels = owned_labels.mark(labels, host, owned_labels.SET if host else owned_labels.REMOVE, LABEL_PREFIX)
    return bool(clashes) or labels != node["labels"]


def _clash(node: Mapping[str, Any], wanted: Mapping[str, str]) -> str | None:
    """A label that others set to another value than was decided."""
    dummy_labels, clashes = owned_labels.compute(node["labels"], wanted, LABEL_PREFIX)
    clashing = [f"{key} is {node['labels'][key]!r}, not set by this collection, and {wanted[key]!r} was decided" for key in clashes]
    if not clashing:
        return None
    keys = " ".join(f"--label-rm {key}" for key in clashes)
    return f"node label {'; '.join(clashing)}. If nobody needs it: docker node update {keys} {node['id']}"
