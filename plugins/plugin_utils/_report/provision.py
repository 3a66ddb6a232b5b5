# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables that a run prints (pure): what it is about to do, and the state of the fleet at its end.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...module_utils._ledger.availability import ACTIVE, why_closed
from .._fleet.model import MARKED, WINDOWS, Host, Step, in_words
from .._fleet.outcome import HostState, Outcome, State, Verdict
from .._plan.deprovision import UP_TO_FILES, DeprovisionStep, removed
from .._plan.provision import label_change
from .._rollout.updates import difference
from . import offer
from .rerun import Again
from .table import render

HEADINGS = ("node", "model", "GPUs", "VRAM", "advertised", "free", "state")
DEPROVISION_HEADINGS = ("node", "removed", "state")
MIB_PER_GIB = 1024


def impact(steps: Mapping[str, Step]) -> str:
    """What a run is about to do and what waits, before anything is touched; '' when there is nothing to do."""
    rows = [(name, _step_words(step)) for name, step in steps.items() if step.error or step.needs or step.groups or step.maintained or step.pauses]
    return render(["node", "impact"], rows) if rows else ""


def _step_words(step: Step) -> str:
    # Every node returns to service at the end of its window; this one was left paused by an earlier run.
    left = MARKED in step.groups and not WINDOWS & set(step.groups)
    first = ["returns to service"] if left else ["stays paused"] if step.away and (step.error or step.fault) else []
    first += [f"is paused for a fault: {in_words(step.fault)}"] if step.pauses else []
    stays = ["remains in the swarm: " + step.problem] if step.problem and not (step.error or step.fault) else []
    if step.error:
        return "; ".join([*first, "cannot be changed: " + step.error])
    if step.waits_for:
        how = "waits for" if step.left_alone else "paused, waits for"
        return "; ".join([*first, f"{how} {', '.join(step.waits_for)}, then: {'; '.join(step.impact)}", *stays])
    finished = [f"left alone, {_finished(step)}"] if step.maintained else []
    return "; ".join(first + finished + step.impact + stays)


def _finished(step: Step) -> str:
    return f"since maintenance {step.maintained} was finished there before"


class End(NamedTuple):
    """What is known of a host at the end of a run."""

    node: dict[str, Any] | None  # its entry in the manager's ledger
    outcome: Outcome | None = None  # why it did not get through this run
    answered: bool = True  # whether there is a ledger at all
    kept: tuple[str, ...] = ()  # the tasks for which its labels or availability were not written


def state_of(host: Host, step: Step, end: End) -> HostState:
    """Ready, or the one thing that keeps this host from it."""
    node = end.node
    missed = _not_done(step, end.outcome, node) or _refused(end)
    if missed:
        return missed
    if node is None:
        return (State.NOT_A_MEMBER if end.answered else State.NOT_KNOWN).of()
    if node["state"] != "ready":
        return State.NOT_READY.of(node["state"])
    if node.get("former_availability"):
        return _still_away(node)
    different = difference(host.assessed or {}, node)
    if different:
        return State.NOT_SHOWN.of(different)
    unfit = step.problem if step.fault and (host.assessed or {}).get("fault") else None
    notes = [unfit] if unfit else []
    notes += [f"left alone, {_finished(step)}"] if step.maintained else []
    notes += [f"GPU {gpu['index']} left out: {gpu['reason']}" for gpu in (host.assessed or {}).get("left_out") or []]
    more = "".join(f", {text}" for text in notes)
    if node["availability"] != ACTIVE:
        return State.BY_HAND.of(why_closed(node), more=more)
    return State.FAILED.of(unfit) if unfit else State.READY.of(more=more)


def by_verdict(states: Mapping[str, HostState]) -> dict[Verdict, list[str]]:
    """The hosts by their verdict."""
    return {verdict: [name for name, state in states.items() if state.verdict is verdict] for verdict in Verdict}


def summary(verdicts: Mapping[Verdict, list[str]], command: Callable[[list[str]], Again]) -> str:
    """Who is done and who is not, and the command that goes on; '' where all are done. ``command(hosts)`` is that of this run."""
    left = [name for verdict, names in verdicts.items() if verdict is not Verdict.DONE for name in names]
    if not left:
        return ""
    again = command(left)
    more = [f"and the values that this run had for {', '.join(again.others)} (-e), which may be secrets"] if again.others else []
    others = [f"{verdict.value}: {', '.join(names)}" for verdict, names in verdicts.items() if names and verdict is not Verdict.DONE]
    return "\n".join([f"{Verdict.DONE.value}: {len(verdicts[Verdict.DONE])} hosts", *others, "", f"To continue: {again.command}", *more])


def _not_done(step: Step, outcome: Outcome | None, node: dict[str, Any] | None) -> HostState | None:
    if step.error:
        return _and_away(State.FAILED.of(step.error), node)
    if outcome and outcome.state is not State.WAITING:
        return _and_away(outcome.state.of(outcome.reason), node)
    if outcome or step.left_alone:
        # Else it is no node, or returned to service before what it waits for was found.
        paused = "; paused" if outcome and MARKED in step.groups and (node is None or node["availability"] != "active") else ""
        return State.WAITING.of(outcome.reason if outcome else ", ".join(step.waits_for), more=paused)
    return None


def _refused(end: End) -> HostState | None:
    paused = "; paused" if end.node and end.node.get("former_availability") else ""
    return State.WAITING.of(", ".join(end.kept), more=paused) if end.kept else None


def _and_away(state: HostState, node: dict[str, Any] | None) -> HostState:
    if not node or not node.get("former_availability"):
        return state
    text = state.text.rstrip().rstrip(".")
    if node.get("paused_for"):
        fault = in_words(node["paused_for"])
        text = f"{text}. Paused for a fault ({fault}): it returns to service with the first run that finds nothing wrong with it"
    else:
        text = f"{text}. Still on {node['availability']}: it returns to service with the first run that finds nothing wrong with it"
    return state._replace(text=text)


def _still_away(node: dict[str, Any]) -> HostState:
    if node.get("paused_for"):
        return State.UNFIT.of(in_words(node["paused_for"]), more=". It returns to service with the first run that finds nothing wrong with it")
    return State.NOT_RETURNED.of(node["availability"], node["former_availability"])


def deprovision_state(step: DeprovisionStep, end: End) -> HostState:
    """Deprovisioned, or the one thing that is left on this host. See state_of(); where no manager is left, that is an answer."""
    node = end.node
    missed = _not_done(step, end.outcome, node) or _refused(end)
    if missed:
        return missed
    if not end.answered and ({"labels", "leave", "entry"} & set(step.needs) or MARKED in step.groups):
        return State.NOT_KNOWN.of()
    if node and {"leave", "entry"} & set(step.needs):
        return State.STILL_LISTED.of()
    if node and node.get("former_availability"):
        return _still_away(node)
    if step.stays:
        return State.STILL_A_MEMBER.of(step.stays)
    if node and label_change(node, {}):
        return State.STILL_LABELLED.of()
    return State.ABSENT.of()


def deprovision_row(host: Host, step: DeprovisionStep, state: HostState, files: bool = False) -> list[str]:
    """``files``: they were restored, and so was what comes before them, even where the run failed later."""
    through = state.state in (State.ABSENT, State.STILL_A_MEMBER)
    done = removed(step if through else replace(step, needs=[need for need in step.needs if files and need in UP_TO_FILES]))
    return [host.name, done or "–", state.text]


def left_behind(ids: Mapping[str, str | None], nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the swarm still lists of hosts that have joined it anew, in words. ``ids`` are the hosts' node ids, ``nodes`` the ledger's.

    Only reported: two hosts may share a host name, and the other one may be down for an hour.
    """
    down = [node for node in nodes.values() if node["state"] == "down" and node["id"] not in ids.values()]
    return [
        f"{host}: the swarm also lists a node of its host name {old['hostname']} that is down (id {old['id']}, last seen at {old['addr']}). "
        f"If that is what this host was before it joined anew, run 'docker node rm {old['id']}' on a manager."
        for host, node_id in ids.items()
        for old in down
        if node_id and node_id in nodes and nodes[node_id]["hostname"] == old["hostname"]
    ]


def row(host: Host, node: dict[str, Any] | None, state: HostState) -> list[str]:
    """One line of the table at the end."""
    answer = host.assessed or {}
    gpus = answer.get("gpus") or []
    return [
        host.name,
        ", ".join(Counter(gpu["name"] or "?" for gpu in gpus)) or "–",
        str(len(gpus)) if gpus else "–",
        vram(gpus),
        offer.advertised(answer, node),
        offer.free(node),
        state.text,
    ]


def vram(gpus: list[dict[str, Any]]) -> str:
    """The node's GPU memory for people: ``8 × 79.6 GiB``."""
    sizes = Counter(gpu["memory_mib"] for gpu in gpus if gpu["memory_mib"])
    return " + ".join(f"{count} × {size / MIB_PER_GIB:.1f} GiB" for size, count in sizes.items()) or "–"


def table(rows: list[list[str]], headings: Sequence[str] = HEADINGS) -> str:
    return render(headings, rows)
