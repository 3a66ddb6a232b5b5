# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a run ended for each host (pure). The results are for the table, for the exit status, and for the note on the swarm.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...module_utils._gpu.cards import describe_gpu
from ...module_utils._health.label import describe_fault
from ...module_utils._ledger.shown import difference
from ...module_utils._placement.availability import ACTIVE, why_closed
from ...module_utils._view.verdicts import Verdict
from .._fleet.identity import identity_errors
from .._fleet.model import LABEL, MARKED, Host, Step
from .._fleet.outcome import HostState, Outcome, State
from .manager_updates import wanted_labels
from .member import View
from .refused_evictions import refused_by_node

UNLABELLED = "its labels could not be set: %s"
NOT_RETURNED = "it could not be returned to service: %s"


class End(NamedTuple):
    """A host at the end of a run."""

    node: Mapping[str, Any] | None  # its entry in the manager's ledger
    outcome: Outcome | None = None  # why its change was not finished
    answered: bool = True  # whether a manager gave a ledger
    kept: tuple[str, ...] = ()  # the tasks that kept the run from writing its labels or availability


def state_of(host: Host, step: Step, end: End) -> HostState:
    """Return ready, or the first reason why this host is not ready."""
    node = end.node
    unfinished = not_done(step, end.outcome, node) or refused(end)
    if unfinished:
        return unfinished
    if node is None:
        return (State.NOT_A_MEMBER if end.answered else State.NOT_KNOWN).of()
    if node["state"] != "ready":
        return State.NOT_READY.of(node["state"])
    if node.get("former_availability"):
        return not_returned(node)
    deviation = difference(host.assessed or {}, node)
    if deviation:
        return State.NOT_CONVERGED.of(deviation)
    unfit = step.problem if step.fault.text and (host.assessed or {}).get("fault") else None
    notes = [unfit] if unfit else []
    notes += [f"left alone, {finished_before(step)}"] if step.maintained else []
    notes += [f"GPU {_gpu(gpu)} excluded: {gpu['reason']}" for gpu in (host.assessed or {}).get("left_out") or []]
    suffix = "".join(f", {text}" for text in notes)
    if node["availability"] != ACTIVE:
        return State.BY_HAND.of(why_closed(node), more=suffix)
    return State.FAILED.of(unfit) if unfit else State.READY.of(more=suffix)


def _gpu(gpu: Mapping[str, Any]) -> str:
    """Return the index of a GPU. If the GPU failed, return a description of the card for the person who replaces it."""
    return describe_gpu(gpu) if "last_known" in gpu else str(gpu["index"])


def finished_before(step: Step) -> str:
    return f"because maintenance {step.maintained} was already finished on this node"


def not_done(step: Step, outcome: Outcome | None, node: Mapping[str, Any] | None) -> HostState | None:
    if step.error:
        return _and_not_returned(State.FAILED.of(step.error), node)
    if outcome and outcome.state is not State.WAITING:
        return _and_not_returned(outcome.state.of(outcome.reason), node)
    if outcome or step.work.left_alone:
        # A host without MARKED is not a node. An active node returned to service before this run found the work that must end.
        paused = "; paused" if outcome and MARKED in step.groups and (node is None or node["availability"] != "active") else ""
        return State.WAITING.of(outcome.reason if outcome else ", ".join(step.work.waits_for), more=paused)
    return None


def refused(end: End) -> HostState | None:
    paused = "; paused" if end.node and end.node.get("former_availability") else ""
    return State.WAITING.of(", ".join(end.kept), more=paused) if end.kept else None


def _and_not_returned(state: HostState, node: Mapping[str, Any] | None) -> HostState:
    if not node or not node.get("former_availability") or node["availability"] == ACTIVE:
        return state
    text = state.text.rstrip().rstrip(".")
    if node.get("paused_for"):
        fault = describe_fault(node["paused_for"])
        text = f"{text}. Paused for a fault ({fault}): it returns to service with the first run that finds nothing wrong with it"
    else:
        text = f"{text}. Still on {node['availability']}: it returns to service with the first run that finds nothing wrong with it"
    return state._replace(text=text)


def not_returned(node: Mapping[str, Any]) -> HostState:
    if node.get("paused_for"):
        return State.UNFIT.of(describe_fault(node["paused_for"]), more=". It returns to service with the first run that finds nothing wrong with it")
    return State.NOT_RETURNED.of(node["availability"], node["former_availability"])


# -- the ends of all hosts --------------------------------------------------------------------------------------------------


def ends(view: View, kept: Iterable[Mapping[str, Any]] = (), unlabelled: str = "") -> dict[str, End]:
    """Return the end of each host. ``kept`` are the nodes that swarm_nodes refused to change, as swarm_nodes returns them. ``unlabelled`` is the
    reason why labels could not be set, or ''.
    """
    tasks = refused_by_node(kept)
    id_errors = identity_errors(
        {member.name: member.node_id for member in view}, view.nodes
    )  # hosts that joined in this run; the plan has reported others
    unfinished = _unfinished_outcomes(view, unlabelled)
    result = {}
    for member in view:
        outcome = member.outcome
        if not outcome and member.name in id_errors:
            outcome = Outcome(State.FAILED, id_errors[member.name])
        node = None if member.name in id_errors or not member.node_id else member.node
        refused_there = () if member.name in id_errors else tasks.get(member.node_id or "", ())
        result[member.name] = End(node, outcome or unfinished.get(member.name), bool(view.nodes), tuple(refused_there))
    return result


def _unfinished_outcomes(view: View, unlabelled: str) -> dict[str, Outcome]:
    """Return the outcomes of hosts that still lack their labels or are out of service, by host. The call failed, or another run changes the swarm."""
    to_label = View(tuple(member for member in view if LABEL in member.step.groups), view.ledger)
    if unlabelled:
        return dict.fromkeys((member.name for member in to_label), Outcome(State.FAILED, UNLABELLED % unlabelled))
    reasons = {update["host"]: UNLABELLED for update in wanted_labels(to_label, clashes=True)}
    reasons.update((member.name, NOT_RETURNED) for member in view if member.not_returned)
    blocked = [member for member in view if member.name in reasons and member.lost_lease]
    return {member.name: Outcome(State.UNTOUCHED, reasons[member.name] % member.lost_lease) for member in blocked}


def failed_before(ledger: Mapping[str, Any] | None) -> bool:
    """Return whether the last run noted failed hosts. The alert about failed hosts ends only when a run notes that no host failed."""
    last_run = ((ledger or {}).get("swarm") or {}).get("last_run") or {}
    return (last_run.get("hosts") or {}).get(Verdict.FAILED.value, 0) > 0
