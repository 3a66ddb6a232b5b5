# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of verify for each host (pure): node, files, daemon, manager, isolation, and the test tasks.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...module_utils._isolation_levels import AUDIT, LEVELS, OFF
from ...module_utils._ledger.shown import difference
from ...module_utils._ledger.unreserved import has_gpus
from ...module_utils._node import guard_state
from ...module_utils._printable import printable, shortened
from ...module_utils._swarm import owned_labels
from ...module_utils._verify.guard_probes import DESCRIPTIONS, MEMORY
from ...module_utils._verify.plan import FAILED, NONE_NAMED, PASSED, PLANNED, UNTESTED
from ...module_utils._verify.probe_images import NAMED, ON_NODE, PULL
from ...module_utils._view.table import NOTHING
from .._fleet.identity import LABEL_PREFIX

HEADINGS = ["node", "reserved", "seen", "verdict"]
IMAGE_SOURCES = {NAMED: "which was named", ON_NODE: "which the node has", PULL: "which is pulled, because the node has no suitable image"}
PROVISION = "Run fleet.gpu_swarm.provision for this host"
# The levels that enforce nothing, with the consequence for tasks.
UNENFORCED = {
    OFF: "isolation off (gpu_swarm_isolation): a task can see all GPUs of its node",
    AUDIT: "isolation audit: nothing is enforced, and a task can see all GPUs of its node",
}
TURNED_OFF = "isolation turned off by a file on the node (docs/operate/isolation.md): a task can see all its GPUs"


@dataclass(frozen=True)
class HostResult:
    """The result for one host: its checks, and problems of the node itself, including its ledger and labels."""

    checks: list[Mapping[str, Any]]
    node: list[str]

    @property
    def wrong(self) -> list[str]:
        return self.node + [_describe_check(check) for check in self.checks if check["state"] == FAILED]


class SwarmResult(NamedTuple):
    """``tested`` is the result of swarm_gpu_verify, ``isolation`` the isolation of the swarm."""

    tested: Mapping[str, Any]
    isolation: Mapping[str, Any] | None = None


def host_result(
    assessed: Mapping[str, Any] | None, node: Mapping[str, Any] | None, node_id: str | None, swarm: SwarmResult, id_error: str | None = None
) -> HostResult:
    """Combine all results for a host. ``assessed`` is the host's answer of gpu_node. ``node`` is the host's entry in the manager's ledger.
    ``id_error`` is the reason why the node id that the host shows cannot be right, or None.
    """
    tested = swarm.tested
    if not assessed or assessed.get("unreachable") or assessed.get("failed"):
        why = (assessed or {}).get("msg") or "the host did not answer"
        return HostResult([], [f"could not be read: {why}"])
    if not (assessed.get("engine") or {}).get("running"):
        return HostResult([], ["dockerd does not run. See its log (journalctl -u docker), or run fleet.gpu_swarm.provision for this host"])
    if id_error:
        return HostResult([], [id_error])
    if node is None:
        return HostResult([], [f"not in this manager's swarm. {PROVISION}"])
    checks = [check for check in tested.get("checks") or [] if check["node"] == node_id]
    problems = _differences(assessed, node) + _isolation_differences(assessed, node, swarm.isolation or {})
    return HostResult(checks, problems + list((tested.get("ledger_problems") or {}).get(node_id, [])))


def _differences(assessed: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    """Differences between GPUs, files, daemon and manager."""
    problems = [refused["text"] for refused in assessed.get("refused") or []]
    if assessed["drift"]:
        problems.append(f"drift: {'; '.join(assessed['drift'])}. {PROVISION}")
    problems += [assessed["cuda"]] if assessed.get("cuda") else []
    shown = difference(assessed, node)
    if shown and not problems:  # otherwise the other problems explain the difference
        problems.append(f"{shown}. {PROVISION}")
    return problems + [f"label {text}. {PROVISION}" for text in _wrong_labels(assessed, node["labels"])]


def _isolation_differences(assessed: Mapping[str, Any], node: Mapping[str, Any], shown: Mapping[str, Any]) -> list[str]:
    """Describe how the guard of a GPU node differs from the swarm's label, as a list of at most one text.

    If no setting names the level, the drift does not show this difference, because a node without a guard is then assessed as if it needed no guard.
    If an operator's file turns a guard off, a text below the table reports this.
    """
    guard, level = assessed.get("isolation"), shown.get("level")
    # If the node was assessed for this level, its drift already shows the difference.
    if "isolation" not in assessed or assessed.get("isolation_level") == level or not (assessed.get("gpus") and has_gpus(node)):
        return []
    if guard and guard["level"] not in LEVELS:
        return [f"the settings of its guard cannot be read. {PROVISION}"]
    now = guard_state.level_of(guard) or OFF
    # Without the label the swarm has no level: the role gpu_node alone sets the level of each node separately.
    return [f"isolation is {now}, but the swarm's level is {level}. {PROVISION}"] if shown.get("label") and level in LEVELS and level != now else []


def _wrong_labels(assessed: Mapping[str, Any], labels: Mapping[str, str]) -> list[str]:
    wanted, keep = assessed.get("labels") or {}, assessed.get("labels_unknown") or []
    labels_to_set, clashes = owned_labels.compute(labels, wanted, LABEL_PREFIX, keep)
    record = LABEL_PREFIX + owned_labels.RECORD
    keys = sorted({*clashes, *(key for key in {*labels_to_set, *labels} if key != record and labels_to_set.get(key) != labels.get(key))})
    return [f"{key} is {labels.get(key, 'not set')}, but should be {wanted.get(key, 'not set')}" for key in keys]


def _describe_check(check: Mapping[str, Any]) -> str:
    return f"{check['kind']}: {check['verdict']}" if check["kind"] else str(check["verdict"])


def rows(name: str, result: HostResult) -> list[list[str]]:
    """Return the rows of a host: one row for each tested kind, with equal rows merged, and one row for each fault of the node itself.

    Remedies are not in the table. They are reported elsewhere.
    """
    equal = Counter(tuple(_row(name, check)) for check in result.checks)
    lines = [
        [name, f"{count} × {reserved}" if count > 1 and reserved != NOTHING else reserved, *rest] for (_name, reserved, *rest), count in equal.items()
    ]
    return lines + [[name, NOTHING, NOTHING, f"FAILED: {_first_sentence(text)}"] for text in result.node]


def _row(name: str, check: Mapping[str, Any]) -> list[str]:
    kind, state, verdict = check["kind"] or "", check["state"], check["verdict"]
    if state == PLANNED:
        what = f": {DESCRIPTIONS[check['probe']]}" if check["probe"] in DESCRIPTIONS else ""
        return [name, f"{check['count']} {kind}" if kind else NOTHING, NOTHING, f"would be tested{what}"]
    if state == UNTESTED:
        return [name, NOTHING, NOTHING, f"not tested: {verdict}" + (f" ({kind})" if kind else "")]
    word = "passed" if state == PASSED else "FAILED"
    reserved = check["count"] if check["probe"] == MEMORY else len(check["reserved"])
    return [name, f"{reserved} {kind}".strip() if kind else NOTHING, str(len(check["seen"])), f"{word}: {_first_sentence(verdict)}"]


def _first_sentence(text: str) -> str:
    """Return the first sentence of ``text``."""
    return text.partition(". ")[0]


def images(names: Mapping[str, str], tested: Mapping[str, Any]) -> list[str]:
    """Return lines that name each test image, why it was chosen, and on which hosts. ``names`` maps node ids to hosts."""
    used: dict[str, list[str]] = {}
    for check in tested.get("checks") or []:
        image, name = check.get("image"), names.get(check["node"])
        if image and name:
            hosts = used.setdefault(f"image {printable(image['name'])}, {IMAGE_SOURCES[image['from']]}", [])
            if name not in hosts:
                hosts.append(name)
    return [f"{text}: {', '.join(hosts)}" for text, hosts in used.items()]


def enforcement(answers: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Return lines that name the hosts on which tasks can see all GPUs, and why. ``answers`` has the answer of gpu_node for each host."""
    hosts_by_text: dict[str, list[str]] = {}
    for name, answer in answers.items():
        if answer and "isolation" in answer and (answer.get("engine") or {}).get("running"):
            isolation = answer["isolation"] or {"level": OFF, "turned_off": False}
            text = TURNED_OFF if isolation["turned_off"] else UNENFORCED.get(isolation["level"])
            if text:
                hosts_by_text.setdefault(text, []).append(name)
    return [f"{text}: {', '.join(names)}" for text, names in hosts_by_text.items()]


def untested(ids: Mapping[str, str | None], tested: Mapping[str, Any]) -> dict[str, str]:
    """Return for each host why it was not tested, but only if no test task ran on any host. ``ids`` has the hosts' node ids.
    Hosts without anything to test are skipped."""
    checks = [check for check in tested.get("checks") or [] if check["probe"] not in DESCRIPTIONS]
    if any(check["state"] in (PASSED, PLANNED) for check in checks):
        return {}
    why = {check["node"]: _first_sentence(check["verdict"]) for check in checks if check["state"] == UNTESTED and check["verdict"] != NONE_NAMED}
    return {name: why[node_id] for name, node_id in ids.items() if node_id in why}


def outcome(hosts: Sequence[str], problems: Mapping[str, Any], not_tried: Mapping[str, str]) -> str:
    """Return the line that sums up the result."""
    if problems:
        return f"Something is wrong with {len(problems)} of {len(hosts)} nodes: {shortened(list(problems))}."
    if not_tried:
        by_reason: dict[str, list[str]] = {}
        for name, why in not_tried.items():
            by_reason.setdefault(why, []).append(name)
        reasons = ", ".join(f"{why} on {shortened(names)}" for why, names in by_reason.items())
        return f"NOT TESTED, so the exit status is 75: {reasons}."
    return f"Nothing is wrong with {len(hosts)} of {len(hosts)} nodes."


def summary(hosts: Sequence[str], problems: Mapping[str, Any], tested: Mapping[str, Any]) -> str:
    """Return the counts for the line below the table."""
    checks = tested.get("checks") or []
    allocated = [check for check in checks if check["probe"] not in DESCRIPTIONS and check["state"] == PASSED]
    cards = len({device for check in allocated for device in check["seen"]})  # several slots see the same card
    passed = {check["node"] for check in allocated}
    parts = [f"nodes: {len(hosts)}", f"with something wrong: {len(problems)}"]
    parts += [f"proved by a task: {len(passed)}", f"GPUs allocated and seen: {cards}"]
    probes = [check for check in checks if check["probe"] in DESCRIPTIONS]
    if probes:
        leaking = {check["node"] for check in probes if check["state"] != PASSED}
        parts.append(f"isolation proved: {len({check['node'] for check in probes} - leaking)}")
    if any(check["state"] == PLANNED for check in checks):
        parts = parts[:2] + ["nothing was started (check mode)"]
    return "; ".join(parts)
