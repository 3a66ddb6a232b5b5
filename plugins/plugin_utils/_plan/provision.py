# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans what provision and maintain do on each host (pure), from the assessments and the ledger.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...module_utils._compat import checks
from ...module_utils._isolation_levels import OFF
from ...module_utils._machine import packages
from ...module_utils._swarm import owned_labels
from ...module_utils._tasks.keep import may_be_moved
from .._classes.in_ledger import with_classes
from .._fleet.identity import LABEL_PREFIX, identity_errors
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
from .._fleet.workload import CONTAINERS, NOTHING, TASKS, describe_effects, describe_work, long_running, must_stay, stopped_work, work_on
from .._settings.declaration import ALL, NEVER, SERVICES
from . import faults, isolation_change, managers_service, toolkit_version, watchers
from .batches import batches
from .impact import describe_impact

AUTOLOCK_ERROR = (
    "dockerd must be restarted, which would lock this manager, because its swarm is autolocked. Run 'docker swarm update "
    "--autolock=false' on a manager and run this again. Then set '--autolock=true' again, which shows a new unlock key."
)


def plan(hosts: list[Host], swarm: Swarm, maintain: str | None = None, level: str = OFF) -> dict[str, Step]:
    """Return the step of each host, by name. ``maintain`` describes a maintenance, in which every member gets a window. ``level`` is the level of the
    swarm.
    """
    nodes = swarm.nodes
    report = watchers.report_of(hosts, swarm)
    hosts = [managers_service.keep_needed_service(host, swarm) for host in with_identity_errors(hosts, nodes)]
    hosts = [_add_class_labels(replace(host, report=report, isolation=isolation_change.wanted_level(host, level)), swarm) for host in hosts]
    # New managers are promoted before other managers are demoted.
    new_managers = [host.assessed for host in hosts if host.manager and not host.error]
    steps = {host.name: _step(host, nodes.get(host.node_id or ""), swarm, new_managers, maintain) for host in hosts}
    faults.limit_pauses(hosts, steps, swarm)
    return steps


def with_identity_errors(hosts: list[Host], nodes: Mapping[str, Mapping[str, Any]]) -> list[Host]:
    """Return the hosts. If the node id that a host reports cannot be right, ``identity_error`` says why."""
    errors = identity_errors({host.name: host.shown_id for host in hosts}, nodes)
    return [replace(host, identity_error=errors.get(host.name)) for host in hosts]


def _add_class_labels(host: Host, swarm: Swarm) -> Host:
    """Add the class labels that services need on the host's node."""
    labels = (host.assessed or {}).get("labels")
    if not labels or not host.assessed:
        return host
    labels_with_classes = with_classes(labels, host.assessed.get("labels_unknown") or (), host.node_id, swarm.ledger)
    return replace(host, assessed={**host.assessed, "labels": labels_with_classes})


def in_batches(hosts: list[Host], steps: Mapping[str, Step], setting: Any = None) -> list[list[str]]:
    """Return the members that get a window, in batches.

    Among the idle hosts and among the busy hosts, hosts that wait are last. Managers follow after all other hosts, one at a time. The leader is last,
    so that the leader changes only once.
    """
    ordered = sorted(hosts, key=lambda host: bool(steps[host.name].work.waits_for))
    idle, busy = ({host.name: ", ".join(sorted({*host.models})) for host in ordered if group in steps[host.name].groups} for group in (IDLE, WINDOW))
    managers = [host.name for host in hosts if WINDOW_MANAGERS in steps[host.name].groups]
    return [*batches(idle, busy, setting), *([name] for name in sorted(managers, key=lambda name: steps[name].membership.leader))]


def hosts_in(steps: Mapping[str, Step], window_batches: Sequence[Sequence[str]] = ()) -> dict[str, list[str]]:
    """Return the hosts by group, in the order in which they change. The order is that of ``window_batches``, with the leader last."""
    groups: dict[str, list[str]] = {}
    for name in sorted(steps, key=lambda name: steps[name].membership.leader):
        for group in steps[name].groups:
            groups.setdefault(group, []).append(name)
    return {**groups, **({WINDOW: [name for batch in window_batches for name in batch]} if window_batches else {})}


def only_paused(steps: Mapping[str, Step]) -> list[str]:
    """Return the hosts that an earlier run left paused, and that may return to service at once."""
    idle = [name for name, step in steps.items() if MARKED in step.groups and set(step.groups) <= {MARKED, LABEL, END}]
    return [name for name in idle if steps[name].membership.left_paused and not steps[name].work.jobs]


def cleared(steps: Mapping[str, Step]) -> list[str]:
    """Return the hosts in service whose reported fault is over. The run records this first, before another host returns and one more pause is
    allowed.
    """
    return [name for name, step in steps.items() if step.fault.cleared]


def to_pause(steps: Mapping[str, Step]) -> dict[str, str]:
    """Return the hosts that the run pauses for a fault before it does anything else, each with its fault."""
    return {name: step.fault.text for name, step in steps.items() if step.fault.pauses}


def to_change(groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the hosts that change, by hosts_in(). Ignore downloads, because they disturb nobody."""
    return list(dict.fromkeys(name for group, names in groups.items() if group not in (END, FETCH) for name in names))


def _step(host: Host, node: dict[str, Any] | None, swarm: Swarm, new_managers: list[Any], maintain: str | None) -> Step:
    step = _decide(host, node, swarm, new_managers, maintain)
    fault = faults.fault_of(host, node)
    step.fault = PlannedFault(fault, faults.should_pause(fault, node), cleared=not step.error and faults.is_over(host, node))
    return complete_step(step, host, node)


def complete_step(step: Step, host: Host, node: dict[str, Any] | None) -> Step:
    """Complete the step with the parts that every plan has: its membership, and its last groups."""
    left_paused = bool(node and node.get("former_availability"))
    if node:
        by_hand = left_paused and node["availability"] == "active"
        step.membership = PlannedMembership(node["id"], bool(node.get("leader")), left_paused, by_hand)
    step.fault.paused_for = str((node or {}).get("paused_for") or "")
    # An earlier run was killed, or its change failed. Only a clean assessment returns the node to service.
    if left_paused and not (step.error or host.failed or step.fault.text) and MARKED not in step.groups:
        step.groups.append(MARKED)
    # Ansible has already removed a host whose assessment failed from the run, and has shown why.
    if step.groups or step.work.waits_for or (step.problem and not host.failed):
        step.groups.append(END)
    return step


def _decide(host: Host, node: dict[str, Any] | None, swarm: Swarm, new_managers: list[Any], maintain: str | None) -> Step:
    if maintain:  # packages are left to the user's own tasks
        host = replace(host, toolkit=None, hold=None)
    host_error = host.error or isolation_change.clash_error(host)
    if host_error or not host.assessed:
        return Step(error=host_error)
    role = "manager" if host.manager else "worker"
    # Errors of the host itself come first: its dockerd may be the manager that is missing.
    candidate = Candidate(host.assessed, role, move=host.move, advertise_addr=host.advertise_addr)
    member = membership(candidate, None if swarm.error else nodes_as_in_docker(swarm), new_managers=new_managers)
    toolkit_or_refusal = _toolkit_error(host) or _refused(host)
    error = member["error"] or swarm.error or toolkit_or_refusal or (node and _label_clash(node, host.assessed["labels"]))
    if error:
        return Step(error=error)
    if maintain and node is None:
        return Step(error="it is not a member of the swarm. Add it with fleet.gpu_swarm.provision, or exclude it with --limit.")
    if maintain and node and host.settings.get("maintain_id") in owned_labels.maintained(node["labels"], LABEL_PREFIX):
        return Step(work=PlannedWork(host.disrupt), maintained=host.settings["maintain_id"])
    needs = _needs(host, host.assessed, node, member["action"])
    if maintain:
        needs = [need for need in needs if need not in ("toolkit", "service")] + ["maintain"]
    step = Step(needs=needs, work=PlannedWork(host.disrupt), target=_target(host, needs, swarm))
    if {"restart", "maintain"} & set(step.needs) and node and node["role"] == "manager" and swarm.autolocked:
        return Step(error=AUTOLOCK_ERROR)
    describe_impact(step, host, new=swarm.location.get("init_on") == host.name)
    if maintain:
        step.impact.append(f"{maintain} and reboots" if host.settings.get("maintain_reboot") else maintain)
    step.work.stops = _stops(set(step.needs))
    apply_disruption_policy(step, host, node, swarm, _groups(step, node))
    return step


def _target(host: Host, needs: list[str], swarm: Swarm) -> Target:
    return Target(
        toolkit=toolkit_version.version_after(host.toolkit, host.assessed or {}) if "toolkit" in needs else None,
        report=host.report if needs else None,
        report_now="configure" in needs and watchers.may_report_now(host, swarm),
        isolation=host.isolation if needs else "",
        reacts=host.reacts is not None,
        records=host.records,
        page=host.page,
    )


def _stops(needs: set[str]) -> str:
    if DISRUPTIVE & needs:
        return CONTAINERS
    return TASKS if "move" in needs else NOTHING


def apply_disruption_policy(step: Step, host: Host, node: dict[str, Any] | None, swarm: Swarm, groups: list[str]) -> None:
    """Decide from provision_disrupt and the running work whether the host is changed now, and how. If it is changed now, ``groups`` are its groups.
    """
    work = stopped_work(step.work.stops, work_on((host.assessed or {})["containers"], node))
    staying = must_stay(work, host.disrupt)
    # If the node is drained first, its new labels can evict nothing.
    evicted, protected = ([], []) if WINDOWS & set(groups) and step.work.stops != NOTHING else _evicted(step, host, node, swarm)
    step.work.waits_for = describe_work(staying) + protected
    # A window waits for work that its change would stop, but not for tasks that only the labels would evict.
    step.work.left_alone = bool(protected) or (bool(staying) and (host.disrupt == NEVER or not WINDOWS & set(groups)))
    if step.work.left_alone:
        return
    step.groups = [WINDOW if group == IDLE and work else group for group in groups]
    ending = [item for item in work if item not in staying]
    step.work.long_running = long_running(ending)
    cut_off = [item for item in ending if step.work.stops == TASKS and not item.service]
    effects = describe_effects((item for item in ending if item not in cut_off), leaves="leave" in step.needs)
    for verb, names in [*effects, ("disconnects", describe_work(cut_off)), ("evicts", evicted)]:
        if names:
            step.impact.append(f"{verb} {', '.join(names)}")


def _evicted(step: Step, host: Host, node: dict[str, Any] | None, swarm: Swarm) -> tuple[list[str], list[str]]:
    """Return the tasks that a change of labels would evict: first the tasks that may be evicted, then the tasks that must not."""
    if not node or "labels" not in step.needs:
        return [], []
    movable = {task["id"]: may_be_moved(task) for task in node.get("tasks") or []}
    evicted = swarm.evicted.get(node["id"], {})
    allowed = [text for task, text in evicted.items() if host.disrupt == ALL or (host.disrupt == SERVICES and movable.get(task))]
    return allowed, [text for text in evicted.values() if text not in allowed]


def _refused(host: Host) -> str | None:
    """Return why the node refuses the change, or None. Refusals that the toolkit of this run may resolve are ignored."""
    wanted, now = toolkit_version.version_of(host.toolkit), (host.assessed or {}).get("toolkit_version")
    refused = (host.assessed or {}).get("refused") or []
    return " ".join(item["text"] for item in refused if not (wanted and _may_be_resolved(item["id"], wanted, now))) or None


def _may_be_resolved(refused: str, wanted: str, now: str | None) -> bool:
    """Return whether the new toolkit may end a refusal. A failed trial of the toolkit is repeated with another version."""
    if refused == checks.NO_CONTAINER:
        return wanted != now
    return checks.is_issue_of(refused, "toolkit") and not checks.affects(refused, wanted)


def _toolkit_error(host: Host) -> str | None:
    return toolkit_version.version_error(host.toolkit, host.hold, host.assessed or {}) if host.gpu else None


def nodes_as_in_docker(swarm: Swarm) -> list[dict[str, Any]]:
    """Return the nodes in the form of Docker's API, for membership(). A new swarm has no nodes, so a host that is in a swarm must be in another
    swarm.
    """
    return [
        {"ID": node["id"], "Spec": {"Role": node["role"]}, "ManagerStatus": {"Reachability": node["reachability"]}} for node in swarm.nodes.values()
    ]


def _needs(host: Host, assessed: dict[str, Any], node: dict[str, Any] | None, action: str) -> list[str]:
    needs_packages, held = host.gpu and toolkit_version.needs_packages(host.toolkit, assessed), set(assessed.get("toolkit_held") or ())
    joins = action in ("join", "recover", "move")
    needs = {
        "toolkit": needs_packages,
        # Installing packages sets the hold too.
        "hold": host.gpu and not needs_packages and host.hold is not None and held != (set(packages.PACKAGES) if host.hold else set()),
        # An assessment in a real run does not report "changed", so the parts are compared.
        "configure": bool(assessed["drift"])
        or bool({"nvml_binding", "toml_parser"} & set(assessed["missing"]))
        or watchers.report_differs(host)
        or isolation_change.level_differs(host),
        "restart": assessed["restart_required"] or isolation_change.needs_restart(host),
        "join": joins,
        "move": action == "move",
        "role": action in ("promote", "demote"),
        "service": managers_service.differs(host),
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
    if {"join", "role", "service"} & needs:
        groups.append(JOIN)
    # The decision may change in the window, and a node that joins has no labels yet.
    if groups or "labels" in needs:
        groups.append(LABEL)
    return groups


def label_change(node: Mapping[str, Any], wanted: Mapping[str, str], keep: Sequence[str] = (), host: str | None = None) -> bool:
    """Return whether the labels of this collection on a node of the ledger differ from ``wanted``. Labels under the prefixes ``keep`` need not be
    removed. The node should be bound to ``host``, or to no host.
    """
    labels, clashes = owned_labels.compute(node["labels"], wanted, LABEL_PREFIX, keep)
    labels = owned_labels.mark(labels, host, owned_labels.SET if host else owned_labels.REMOVE, LABEL_PREFIX)
    return bool(clashes) or labels != node["labels"]


def _label_clash(node: Mapping[str, Any], wanted: Mapping[str, str]) -> str | None:
    """Return why a label cannot be set, because somebody else has set it to another value. None without such a label."""
    dummy_labels, clashes = owned_labels.compute(node["labels"], wanted, LABEL_PREFIX)
    clashing = [f"{key} is {node['labels'][key]!r}, not set by this collection, and {wanted[key]!r} was decided" for key in clashes]
    if not clashing:
        return None
    keys = " ".join(f"--label-rm {key}" for key in clashes)
    return f"node label {'; '.join(clashing)}. If nobody needs it: docker node update {keys} {node['id']}"
