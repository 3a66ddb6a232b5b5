# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run wants of the swarm's manager for its hosts, and whether the manager shows what was decided (pure).

``variables`` are Ansible's hostvars: of each host, what this run found (``gpu_node_assessed``), applied
(``gpu_node_applied``), joined (``swarm_member_state``) and why it did not go on (``gpu_swarm_outcome``, see _fleet/outcome); of the
run, whether it may change anything (``gpu_swarm_lease``).
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._health import label
from ...module_utils._ledger.shown import difference, is_not_ready
from ...module_utils._swarm import owned_labels
from .._classes.in_ledger import kept, with_classes
from .._fleet.finished_jobs import in_the_way, in_words
from .._fleet.identity import LABEL_PREFIX, problems
from .._fleet.model import LABEL, MARKED
from .._fleet.outcome import BAD, outcome_of
from .._fleet.workload import CONTAINERS, NOTHING, UNREAD, Work, must_stay, what_is_stopped, work_on
from .._settings.declaration import default_of
from .refused_evictions import EVICT
from .run_lease import lost_lease

PAUSE, DRAIN, FORMER = "pause", "drain", "former"
ASSESSED = "gpu_node_assessed"

Variables = Mapping[str, Mapping[str, Any]]


def node_id_of(variables: Mapping[str, Any], step: Mapping[str, Any] | None = None) -> str | None:
    """The host's node id; none of a host that left the swarm. By the plan, which has judged what the host showed, where it is a
    member by that; else as it joined in this run. Without a plan it is what the host shows."""
    now = variables.get("swarm_member_state") or {}
    assessed = variables.get("gpu_node_assessed") or {}
    if now.get("state") == "inactive":
        return None
    if step and "node_id" in step:
        return step["node_id"] or now.get("node_id")
    return now.get("node_id") or (assessed.get("swarm") or {}).get("node_id")


def decided(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """The latest decision for a host: what was applied in this run, else what was found."""
    return variables.get("gpu_node_applied") or variables.get("gpu_node_assessed") or {}


def step_of(name: str, variables: Variables) -> Mapping[str, Any]:
    return ((variables[name].get("gpu_swarm_plan") or {}).get("steps") or {}).get(name) or {}


def availability_updates(names: Iterable[str], variables: Variables, to: str, ledger: Any = None, labels: bool = True) -> list[dict[str, Any]]:
    """For swarm_nodes: what these hosts are to be for the scheduler.

    ``pause`` keeps new tasks away. ``drain`` has swarm start elsewhere what still runs there, by the ``ledger``. ``former`` returns hosts to
    service as they were, with their labels as decided. What is left out of each is in ``_leaves_service`` and ``_may_return``.
    """
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    updates = []
    for name, node_id in node_ids(names, variables).items():
        node = nodes.get(node_id or "")
        if not node_id or (nodes and not node):
            continue  # one that was taken off the ledger's list meanwhile would make the call fail for all
        if lost_lease(variables[name], ledger):
            continue  # what is paused there, the run that has the lease may have paused
        if to != FORMER and _leaves_service(name, variables, to, node):
            evicts = {} if to == PAUSE else _evict(name, variables)  # a pause evicts nothing
            updates.append({"id": node_id, "host": name, "availability": to, "remember": True, **_by(name, variables), **evicts})
        if to == FORMER and _may_return(name, variables, ledger, labels, node):
            back = {"id": node_id, "host": name, "availability": to, "remember": False}
            updates.append({**back, **_as_decided(name, variables, ledger, labels), **_evict(name, variables)})
    return updates


def _leaves_service(name: str, variables: Variables, to: str, node: Mapping[str, Any] | None) -> bool:
    """Whether it is paused or drained: nothing has ended its change, and, for a drain, there is something to move."""
    return not outcome_of(variables[name]) and (to == PAUSE or _may_be_drained(name, variables, node))


def _may_return(name: str, variables: Variables, ledger: Any, labels: bool, node: Mapping[str, Any] | None) -> bool:
    """Whether it returns to service: nothing keeps it paused, neither what became of it in this run nor a fault, and no finished job would
    run again there. Without ``labels``, only where by the ledger a run has it paused or drained still."""
    step, outcome = step_of(name, variables), outcome_of(variables[name])
    # One that was in service when this run began may return though it failed, since it is as it was then.
    if outcome and (outcome.stays_paused or (step.get("left_paused") and outcome.state in BAD)):
        return False
    if not labels and node and not node["former_availability"]:
        return False
    if _runs_a_job_again(name, variables, ledger):
        return False
    return not _is_unfit(name, variables) or _was_left(step, variables[name])


def _as_decided(name: str, variables: Variables, ledger: Any, labels: bool) -> dict[str, Any]:
    """What else is written of a host that returns to service."""
    step = step_of(name, variables)
    known = step.get("paused_for") or step.get("fault")  # for another one somebody has paused it since
    written = {**({"paused_for": known} if known else {}), **_over(decided(variables[name]))}
    if outcome_of(variables[name]) or step.get("left_alone") or step.get("error"):
        return written
    return {**written, **(_labels(name, variables, ledger) if labels else {}), **_maintained(name, variables)}


def _over(found: Mapping[str, Any]) -> dict[str, str]:
    """The fault that a node reports in which none was found: under some managers it does so until its tasks have ended."""
    shown = label.parse_label(str((found.get("health") or {}).get("shown") or ""))
    return {"over": label.format_label(shown.of_cards)} if shown.state == label.FAULT and not found.get("fault") else {}


def _by(name: str, variables: Variables) -> dict[str, str]:
    by = step_of(name, variables).get("by")
    return {"by": by} if by else {}


def fault_updates(faults: Mapping[str, str], variables: Variables, ledger: Any = None) -> list[dict[str, Any]]:
    """For swarm_nodes: the hosts with a fault are paused for it. Not those that somebody keeps work away from by then, nor one that the
    ledger does not list any more."""
    nodes = {node["id"] for node in (ledger or {}).get("nodes") or []}
    found = {name: (step_of(name, variables).get("node_id"), fault) for name, fault in faults.items()}
    pause = {"availability": PAUSE, "remember": True}
    listed = [(name, node_id, fault) for name, (node_id, fault) in found.items() if node_id and (not nodes or node_id in nodes)]
    return [{"id": node_id, "host": name, **pause, "paused_for": fault} for name, node_id, fault in listed]


def _is_unfit(name: str, variables: Variables) -> bool:
    """Whether it has a fault still, for which it stays out of service. What was done in its window, such as a reset of a GPU, may have ended it."""
    return bool(decided(variables[name]).get("fault")) and (step_of(name, variables).get("settings") or {}).get("gpu_node_on_loss") != label.REPORT


def _was_left(step: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Whether no run took it out of service for this very fault, which it had when this one began."""
    return bool(step.get("stands")) and label.is_like_fault(str(decided(variables).get("fault")), step["fault"])


def _may_be_drained(name: str, variables: Variables, node: Mapping[str, Any] | None) -> bool:
    """Whether something of swarm's runs there that the change would stop, and nothing that a drain would end for good."""
    assessed = variables[name].get("gpu_node_assessed") or {}
    work = stopped_work(name, variables, node)
    return "containers" in assessed and not assessed.get("failed") and bool((node or {}).get("tasks") and work) and not stays(name, variables, work)


def stopped_work(name: str, variables: Variables, node: Mapping[str, Any] | None, containers: list[dict[str, Any]] | None = None) -> list[Work]:
    """What runs on a host and the change would stop; ``containers`` are by default those that were last read there."""
    stops = step_of(name, variables).get("stops", CONTAINERS)
    found = _last_containers(variables[name]) if containers is None else containers
    if found is None:  # what is not known is not nothing
        return [] if stops == NOTHING else [UNREAD, *what_is_stopped(stops, work_on([], node))]
    return what_is_stopped(stops, work_on(found, node))


def _last_containers(variables: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """As they were last read in a window, or, before there was one, at the assessment; None where none were read."""
    inspected = [variables.get("gpu_swarm_inspected") or {}, variables.get("gpu_node_assessed") or {}]
    return next((one["containers"] for one in inspected if "containers" in one), None)


def containers_of(node: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of the containers that were read last on a host those of the tasks that the ledger's node has."""
    tasks = {task["id"] for task in (node or {}).get("tasks") or []}
    return [item for item in _last_containers(variables) or [] if item.get("task") in tasks]


def stays(name: str, variables: Variables, work: list[Work]) -> list[Work]:
    """The part of it that must not be stopped."""
    return must_stay(work, step_of(name, variables).get("disrupt", default_of("provision_disrupt")))


def _evict(name: str, variables: Variables) -> dict[str, str]:
    """What may be evicted there: as planned, while before a plan all is previewed, so that the plan can name it."""
    disrupt = step_of(name, variables).get("disrupt")
    return {"evict": EVICT[disrupt]} if disrupt else {}


def _labels(name: str, variables: Variables, ledger: Any = None) -> dict[str, Any]:
    """The labels of a host as planned, else as decided there, those of classes too, and the mark that binds the node to the host."""
    made, step = decided(variables[name]), step_of(name, variables)
    wanted, keep = step.get("labels", made.get("labels")), list(made.get("labels_unknown") or ())
    if wanted is None:
        return {}
    wanted, keep = with_classes(wanted, keep, node_id_of(variables[name], step), ledger), keep + kept(wanted, ledger)
    return {"labels": wanted, "mark": step.get("mark", owned_labels.SET), **({"keep": keep} if keep else {})}


def _maintained(name: str, variables: Variables) -> dict[str, Any]:
    """The maintenance that a host has had which returns to service: gpu_node comes last in one."""
    step = step_of(name, variables)
    done = (step.get("settings") or {}).get("maintain_id")
    finished = done and "maintain" in step["needs"] and variables[name].get("gpu_node_applied")
    return {"maintained": done} if finished else {}


def label_updates(
    names: Iterable[str], variables: Variables, ledger: Any = None, clashes: bool = False, planned: bool = True
) -> list[dict[str, Any]]:
    """For swarm_nodes: the labels of these hosts as planned, else as decided there, unless something failed there. Before there is a plan
    (not ``planned``), by what was found there alone: all else that is known of hosts is of an earlier playbook of this run.

    With a ``ledger``, only of hosts whose labels it shows to differ; of those where somebody else's is in the way, with ``clashes``.
    None of hosts that show the id of another one's node, which the plan or the report shows, and none without the swarm's lease.
    """
    if not planned:
        variables = {name: {ASSESSED: variables[name].get(ASSESSED)} for name in names}
    return [update for update in to_label(names, variables, ledger, clashes) if not lost_lease(variables[update["host"]], ledger)]


def to_label(names: Iterable[str], variables: Variables, ledger: Any = None, clashes: bool = False) -> list[dict[str, Any]]:
    """The same, whether or not this run may change the swarm now."""
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    ids = node_ids(names, variables)
    mistaken = problems(ids, nodes)
    updates = []
    for name, node_id in ids.items():
        labels = _labels(name, variables, ledger)
        if not node_id or not labels or name in mistaken or outcome_of(variables[name]):
            continue
        if ledger is None or (node_id in nodes and _differs(nodes[node_id], name, labels, clashes)):
            updates.append({"id": node_id, "host": name, **labels, **_evict(name, variables)})
    return updates


def finished_jobs(names: Iterable[str], variables: Variables, ledger: Any, remove: bool, updates_left: bool = False) -> list[str]:
    """The finished jobs in the way on these hosts, as what was last read there and the manager's ledger show: where the run may remove them
    their names, and where it may not what is to be waited for, in words. Of a host with which something is wrong none.

    With ``updates_left``, only on those that are still to be labelled or returned to service: at the end of a run most are not.
    """
    chosen = _still_to_update(names, variables, ledger) if updates_left else names
    judged = [name for name in chosen if step_of(name, variables).get("remove_jobs") is remove and not outcome_of(variables[name])]
    jobs = list(dict.fromkeys(job for name in judged for job in _jobs_in_the_way(name, variables, ledger)))
    return jobs if remove else in_words(jobs)


def _still_to_update(names: Iterable[str], variables: Variables, ledger: Any) -> list[str]:
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    ids = node_ids([name for name in names if not lost_lease(variables[name], ledger)], variables)
    groups = {name: step_of(name, variables).get("groups") or [] for name in ids}
    labelled = [update["host"] for update in to_label([name for name in ids if LABEL in groups[name]], variables, ledger, clashes=True)]
    not_returned = [name for name, node_id in ids.items() if MARKED in groups[name] and (nodes.get(node_id or "") or {}).get("former_availability")]
    return [name for name in ids if name in {*labelled, *not_returned}]


def _jobs_in_the_way(name: str, variables: Variables, ledger: Any) -> list[str]:
    step = step_of(name, variables)
    # Else it advertises what the ledger shows: what was decided is not done, or nobody knows whether it is.
    changed = not (step.get("left_alone") or outcome_of(variables[name]))
    return in_the_way(ledger, node_id_of(variables[name], step), decided(variables[name]).get("advertised") if changed else None)


def _runs_a_job_again(name: str, variables: Variables, ledger: Any) -> bool:
    """Whether its return to service would run a finished job again. What may be removed is by now, though the ledger is of before."""
    removed = step_of(name, variables).get("remove_jobs") is True and not outcome_of(variables[name])
    return not removed and bool(_jobs_in_the_way(name, variables, ledger))


def node_ids(names: Iterable[str], variables: Variables) -> dict[str, str | None]:
    return {name: node_id_of(variables[name], step_of(name, variables)) for name in names}


def _differs(node: Mapping[str, Any], host: str, wants: Mapping[str, Any], also_clashes: bool) -> bool:
    """``wants`` are the labels of this host, as _labels() returns them."""
    then, clashes = owned_labels.compute(node["labels"], wants["labels"], LABEL_PREFIX, wants.get("keep", ()))
    return also_clashes if clashes else owned_labels.mark(then, host, wants["mark"], LABEL_PREFIX) != node["labels"]


def not_converged(names: Iterable[str], variables: Variables, ledger: Any) -> list[str]:
    """The hosts of which the manager's ledger does not show yet what was decided; those that failed do not count."""
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    waiting = []
    for name in names:
        step = step_of(name, variables)
        if outcome_of(variables[name]) or step.get("left_alone") or step.get("error"):
            continue
        node = nodes.get(node_id_of(variables[name], step) or "")
        if is_not_ready(node) or difference(decided(variables[name]), node or {}):
            waiting.append(name)
    return waiting
