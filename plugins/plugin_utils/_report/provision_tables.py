# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables that a run prints (pure): the impact before any change, and the state of the fleet at the end.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...module_utils._health.label import describe_fault
from ...module_utils._printable import shortened
from ...module_utils._view.fold import paragraphs
from ...module_utils._view.table import NOTHING, render
from ...module_utils._view.verdicts import Verdict
from .._fleet.model import MARKED, WINDOWS, Host, Step
from .._fleet.outcome import HostState, State
from .._plan.deprovision import UP_TO_FILES, describe_removed
from .._plan.provision import label_change
from .._rollout.ends import End, finished_before, not_done, not_returned, refused
from . import resource_columns
from .last_words import DONE, FAILED, WAITING, LastWords
from .rerun import RerunCommand

HEADINGS = ("node", "GPUs", "advertised", "free", "state")
DEPROVISION_HEADINGS = ("node", "removed", "state")
MIB_PER_GIB = 1024


def impact(steps: Mapping[str, Step], width: int | None) -> str:
    """Return the table to print before any change: what the run will do, and which hosts wait. '' if the run has nothing to do."""
    shown = {name: step for name, step in steps.items() if step.error or step.needs or step.groups or step.maintained or step.fault.pauses}
    rows = [(name, _describe_step(step)) for name, step in shown.items()]
    return render(["node", "impact"], rows, width) if rows else ""


def _describe_step(step: Step) -> str:
    # An earlier run left this node paused. All other nodes return to service at the end of their window, so the table omits this.
    returns = MARKED in step.groups and not WINDOWS & set(step.groups)
    texts = ["returns to service"] if returns else ["stays paused"] if step.membership.left_paused and (step.error or step.fault.text) else []
    if step.membership.by_hand:
        texts = ["removes the marks of a pause that somebody has ended"] if returns else []
    texts += [f"is paused for a fault: {describe_fault(step.fault.text)}"] if step.fault.pauses else []
    remains = [f"remains in the swarm: {step.remains}"] if step.remains and not step.error else []
    if step.error:
        return "; ".join([*texts, "cannot be changed: " + step.error])
    if step.work.waits_for:
        prefix = "waits for" if step.work.left_alone else "paused, waits for"
        return "; ".join([*texts, f"{prefix} {', '.join(step.work.waits_for)}, then: {'; '.join(step.impact)}", *remains])
    finished = [f"left alone, {finished_before(step)}"] if step.maintained else []
    return "; ".join(texts + finished + step.impact + remains)


def by_verdict(states: Mapping[str, HostState]) -> dict[Verdict, list[str]]:
    """Group the hosts by their verdict."""
    return {verdict: [name for name, state in states.items() if state.verdict is verdict] for verdict in Verdict}


def outcome(states: Mapping[str, HostState], changed: Sequence[str], done_text: str = "as they should be") -> LastWords:
    """Return the line that sums up a run. ``changed`` has the hosts on which the run did anything."""
    hosts_by_verdict = by_verdict(states)
    done = f"{len(hosts_by_verdict[Verdict.DONE])} of {len(states)} hosts are {done_text}"
    failed, waiting = hosts_by_verdict[Verdict.FAILED] + hosts_by_verdict[Verdict.UNTOUCHED], hosts_by_verdict[Verdict.WAITING]
    if failed:
        first = f"{failed[0]}: {states[failed[0]].text.partition('. ')[0]}"
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return LastWords(FAILED, f"{first}{more}. {done}.", hosts=failed)
    if waiting:
        wait = "1 node waits" if len(waiting) == 1 else f"{len(waiting)} nodes wait"
        return LastWords(WAITING, f"{wait} for work to end: {shortened(waiting)}. {done}.")
    what = f"changed: {shortened(list(changed))}" if changed else "nothing changed"
    return LastWords(DONE, f"{done}; {what}.")


def list_by_verdict(verdicts: Mapping[Verdict, list[str]], width: int | None) -> str:
    """Return the hosts by verdict, as text. '' if all are done."""
    lines = [f"{verdict.value}: {', '.join(names)}" for verdict, names in verdicts.items() if names and verdict is not Verdict.DONE]
    return paragraphs([f"{Verdict.DONE.value}: {len(verdicts[Verdict.DONE])} hosts", *lines], width) if lines else ""


def command_for_the_rest(verdicts: Mapping[Verdict, list[str]], command: Callable[[list[str]], RerunCommand]) -> str:
    """Return the command that repeats this run for the hosts that are not done. It is not folded, so that it can be copied."""
    unfinished = [name for verdict, names in verdicts.items() if verdict is not Verdict.DONE for name in names]
    if not unfinished:
        return ""
    rerun = command(unfinished)
    more = [f"and the values that this run had for {', '.join(rerun.hidden)} (-e), which may be secrets"] if rerun.hidden else []
    return "\n".join([f"To continue: {rerun.command}", *more])


def check_outcome(steps: Mapping[str, Step]) -> LastWords:
    """Return the last words of a run in check mode."""
    failing = [name for name, step in steps.items() if step.error]
    waiting = [name for name, step in steps.items() if step.work.waits_for and not step.error]
    changing = [name for name, step in steps.items() if step.groups and not step.error]
    sentences = [f"Nothing was changed. A run would change {len(changing)} of {len(steps)} hosts."]
    sentences += [f"Waiting for work to end: {', '.join(waiting)}."] if waiting else []
    sentences += [f"Cannot be changed: {', '.join(failing)}."] if failing else []
    return LastWords(FAILED if failing else DONE, " ".join(sentences), hosts=failing)


def deprovision_state(step: Step, end: End) -> HostState:
    """Return the state of a host after deprovision: absent, or the first part that is not done yet.

    If the swarm has no manager any more, assume that a manager answered.
    """
    node = end.node
    unfinished = not_done(step, end.outcome, node) or refused(end)
    if unfinished:
        return unfinished
    if not end.answered and ({"labels", "leave", "entry"} & set(step.needs) or MARKED in step.groups):
        return State.NOT_KNOWN.of()
    if node and {"leave", "entry"} & set(step.needs):
        return State.STILL_LISTED.of()
    if node and node.get("former_availability"):
        return not_returned(node)
    if step.remains:
        return State.STILL_A_MEMBER.of(step.remains)
    if node and label_change(node, {}):
        return State.STILL_LABELLED.of()
    return State.ABSENT.of()


def deprovision_row(host: Host, step: Step, state: HostState, files: bool = False) -> list[str]:
    """Return the table row of a host. ``files`` says that the files were restored. Then all earlier steps were done, even if the run failed later."""
    finished = state.state in (State.ABSENT, State.STILL_A_MEMBER)
    done = describe_removed(step if finished else replace(step, needs=[need for need in step.needs if files and need in UP_TO_FILES]))
    return [host.name, done or NOTHING, state.text]


def old_entries(ids: Mapping[str, str | None], nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Report old entries of hosts that have joined the swarm again. ``ids`` has the hosts' node ids, ``nodes`` the nodes of the ledger.

    These entries are only reported, because another host may have the same host name and be down now.
    """
    down = [node for node in nodes.values() if node["state"] == "down" and node["id"] not in ids.values()]
    return [
        f"{host}: the swarm lists a second node with the host name {old['hostname']}, and this node is down (id {old['id']}, last seen at "
        f"{old['addr']}). "
        f"If that is an old entry of this host, run 'docker node rm {old['id']}' on a manager."
        for host, node_id in ids.items()
        for old in down
        if node_id and node_id in nodes and nodes[node_id]["hostname"] == old["hostname"]
    ]


def row(host: Host, node: Mapping[str, Any] | None, state: HostState) -> list[str]:
    """Return the row of a host in the table at the end."""
    answer = host.assessed or {}
    return [
        host.name,
        cards(host.models, [gpu["memory_mib"] for gpu in answer.get("gpus") or []]),
        resource_columns.advertised(answer, node),
        resource_columns.free(node),
        state.text,
    ]


def cards(models: Sequence[str], sizes_mib: Sequence[float | None]) -> str:
    """Return the column *GPUs*, such as ``8 × NVIDIA-H100-80GB-HBM3 (79.6 GiB)``."""
    counts = Counter(zip(models, sizes_mib, strict=True))
    parts = [f"{count} × {model}" + (f" ({mib / MIB_PER_GIB:.1f} GiB)" if mib else "") for (model, mib), count in counts.items()]
    return ", ".join(parts) or NOTHING


def table(rows: list[list[str]], width: int | None, headings: Sequence[str] = HEADINGS) -> str:
    return render(headings, rows, width)
