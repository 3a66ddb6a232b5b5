# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables that a run prints (pure): what it is about to do, and what the fleet looks like at its end.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import _offer
from ._again import Again
from ._deprovision import UP_TO_FILES, TakeBack, taken_back
from ._outcome import FAILED, UNTOUCHED, WAITING, Outcome
from ._plan import MARKED, WINDOWS, Host, Step, label_change
from ._table import render
from ._updates import difference

READY, DONE = "ready", "done"
GIVEN_BACK = "given back"
NOT_KNOWN = "not known: no manager answered at the end"
HEADINGS = ("node", "model", "GPUs", "VRAM", "advertised", "free", "state")
HEADINGS_GIVEN_BACK = ("node", "taken back", "state")
MIB_PER_GIB = 1024


def impact(steps: Mapping[str, Step]) -> str:
    """What a run is about to do and what waits, before anything is touched; '' when there is nothing to do."""
    rows = [(name, _step_words(step)) for name, step in steps.items() if step.error or step.needs or step.groups]
    return render(["node", "what it means"], rows) if rows else ""


def _step_words(step: Step) -> str:
    # A node in its window is given back as a matter of course; this one was left paused by an earlier run.
    left = MARKED in step.groups and not WINDOWS & set(step.groups)
    told = ["gets its former availability back"] if left else ["stays paused"] if step.away and step.error else []
    stays = ["remains in the swarm: " + step.problem] if step.problem and not step.error else []
    if step.error:
        return "; ".join([*told, "cannot go on: " + step.error])
    if step.waits_for:
        how = "waits for" if step.left_alone else "paused, waits for"
        return "; ".join([*told, f"{how} {', '.join(step.waits_for)}, then: {'; '.join(step.impact)}", *stays])
    return "; ".join(told + step.impact + stays)


def state_of(host: Host, step: Step, node: dict[str, Any] | None, outcome: Outcome | None, answered: bool = True, kept: Iterable[str] = ()) -> str:
    """``ready``, or the one thing that keeps this host from it, in words.

    ``node`` is the host's entry in the manager's ledger, ``outcome`` why the host did not get through this run; ``answered``
    tells whether there is a ledger at all, ``kept`` are the tasks for which its labels or availability were not written.
    """
    missed = _not_done(step, outcome, node) or _refused(node, kept)
    if missed:
        return missed
    if node is None:
        return "not in the swarm" if answered else NOT_KNOWN
    if node["state"] != "ready":
        return f"{node['state']} for the manager"
    if node.get("former_availability"):
        return _still_away(node)
    different = difference(host.assessed or {}, node)
    if different:
        return different
    told = [READY] + ([] if node["availability"] == "active" else [node["availability"]])
    return ", ".join(told + [f"GPU {gpu['index']} left out: {gpu['reason']}" for gpu in (host.assessed or {}).get("left_out") or []])


def by_verdict(states: dict[str, str]) -> dict[str, list[str]]:
    """The hosts by what became of them, by their states in words: done, waiting, untouched, failed."""
    verdicts: dict[str, list[str]] = {DONE: [], WAITING: [], UNTOUCHED: [], FAILED: []}
    for name, state in states.items():
        begin = state.replace(",", " ").replace(":", " ").split(" ")[0]
        done = begin == READY or state == GIVEN_BACK
        verdicts[DONE if done else begin if begin in (WAITING, UNTOUCHED) else FAILED].append(name)
    return verdicts


def summary(verdicts: dict[str, list[str]], command: Callable[[list[str]], Again]) -> str:
    """Who is done and who is not, and the command that goes on; '' where all are done. ``command(hosts)`` is that of this run."""
    left = [name for verdict, names in verdicts.items() if verdict != DONE for name in names]
    if not left:
        return ""
    again = command(left)
    more = [f"and the values that this run had for {', '.join(again.others)} (-e), which may be secrets"] if again.others else []
    told = [f"{verdict}: {', '.join(names)}" for verdict, names in verdicts.items() if names and verdict != DONE]
    return "\n".join([f"{DONE}: {len(verdicts[DONE])} hosts", *told, "", f"To go on: {again.command}", *more])


def _not_done(step: Step, outcome: Outcome | None, node: dict[str, Any] | None) -> str | None:
    if step.error:
        return _and_away(f"{FAILED}: {step.error}", node)
    if outcome and outcome.state != WAITING:
        return _and_away(f"{outcome.state}: {outcome.reason}", node)
    if outcome or step.left_alone:
        # Else it is no node, or returned to service before what it waits for was found.
        paused = "; paused" if MARKED in step.groups and (node is None or node["availability"] != "active") else ""
        return f"{WAITING} for " + (outcome.reason + paused if outcome else ", ".join(step.waits_for))
    return None


def _refused(node: dict[str, Any] | None, kept: Iterable[str]) -> str | None:
    told = ", ".join(kept)
    return f"{WAITING} for {told}" + ("; paused" if node and node.get("former_availability") else "") if told else None


def _and_away(text: str, node: dict[str, Any] | None) -> str:
    if not node or not node.get("former_availability"):
        return text
    return f"{text.rstrip().rstrip('.')}. Still on {node['availability']}: it returns to service with the first run that finds nothing wrong with it"


def _still_away(node: dict[str, Any]) -> str:
    return f"still on {node['availability']}: its former availability, {node['former_availability']}, could not be given back. Run this again"


def state_given_back(step: TakeBack, node: dict[str, Any] | None, outcome: Outcome | None, kept: Iterable[str] = (), answered: bool = True) -> str:
    """``given back``, or the one thing that is left on this host, in words. See state_of(); where no manager is left, that is an answer."""
    missed = _not_done(step, outcome, node) or _refused(node, kept)
    if missed:
        return missed
    if not answered and ({"labels", "leave", "entry"} & set(step.needs) or MARKED in step.groups):
        return NOT_KNOWN
    if node and {"leave", "entry"} & set(step.needs):
        return "it left the swarm, but the manager still lists it. Run this again"
    if node and node.get("former_availability"):
        return _still_away(node)
    if step.stays:
        return f"still in the swarm: {step.stays}"
    if node and label_change(node, {}):
        return "the manager still shows labels of ours. Run this again"
    return GIVEN_BACK


def row_given_back(host: Host, step: TakeBack, state: str, files: bool = False) -> list[str]:
    """``files`` tells whether those were restored, and so what comes before them, though the run may not have got through."""
    through = state == GIVEN_BACK or state.startswith("still in the swarm")
    done = taken_back(step if through else replace(step, needs=[need for need in step.needs if files and need in UP_TO_FILES]))
    return [host.name, done or "–", state]


def left_behind(ids: Mapping[str, str | None], nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the swarm still lists of hosts that have joined it anew, in words. ``ids`` are the hosts' node ids, ``nodes`` the ledger's.

    Only told: two hosts may share a host name, and the other one may be down for an hour.
    """
    down = [node for node in nodes.values() if node["state"] == "down" and node["id"] not in ids.values()]
    return [
        f"{host}: the swarm also lists a node of its host name {old['hostname']} that is down (id {old['id']}, last seen at {old['addr']}). "
        f"If that is what this host was before it joined anew, run 'docker node rm {old['id']}' on a manager."
        for host, node_id in ids.items()
        for old in down
        if node_id and node_id in nodes and nodes[node_id]["hostname"] == old["hostname"]
    ]


def row(host: Host, node: dict[str, Any] | None, state: str) -> list[str]:
    """One line of the table at the end."""
    answer = host.assessed or {}
    gpus = answer.get("gpus") or []
    return [
        host.name,
        ", ".join(Counter(gpu["name"] or "?" for gpu in gpus)) or "–",
        str(len(gpus)) if gpus else "–",
        vram(gpus),
        _offer.advertised(answer, node),
        _offer.free(node),
        state,
    ]


def vram(gpus: list[dict[str, Any]]) -> str:
    """The node's GPU memory as a person says it: ``8 × 79.6 GiB``."""
    sizes = Counter(gpu["memory_mib"] for gpu in gpus if gpu["memory_mib"])
    return " + ".join(f"{count} × {size / MIB_PER_GIB:.1f} GiB" for size, count in sizes.items()) or "–"


def table(rows: list[list[str]], headings: Sequence[str] = HEADINGS) -> str:
    return render(headings, rows)
