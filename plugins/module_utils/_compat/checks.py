# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the known issues of a node from the versions of the node's components and from its advertised resources (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._policy import generic_resources
from . import runtime_config
from .issues import HANDLED, REFUSAL, TRAPS, WARNING, Trap, Version

# The issue that this collection handles by a line in config.toml.
LEGACY_MODE = "jit-cdi-ignores-swarm-resource"
# The issue of a toolkit that failed the trial.
NO_CONTAINER = "toolkit-starts-no-container"


class Facts(NamedTuple):
    """What the checks need to know about a node.

    Versions have the form that the components report. The version of a missing component is None. ``gpus``: the node advertises a GPU. ``values``:
    the values of config.toml, in the form of runtime_config. ``file``: the path of config.toml. ``integrated``: all GPUs are those of a Jetson.
    ``toolkit_problem``: why containers do not get their GPU from the toolkit; "" if they do.
    """

    engine: str | None = None
    toolkit: str | None = None
    leader: str | None = None
    gpu_kinds: Sequence[str] = ()
    discrete_kinds: Sequence[str] = ()
    memory_kinds: Sequence[str] = ()
    finished_jobs: bool = False
    gpus: bool = False
    values: Mapping[str, Any] = {}
    file: str = "config.toml"
    integrated: bool = False
    toolkit_problem: str = ""


class Finding(NamedTuple):
    id: str
    component: str
    answer: str
    text: str


def _has_gpus(facts: Facts) -> bool:
    return bool(facts.gpu_kinds) or facts.gpus


# Each function returns True if the node has the issue, or the setting of config.toml that causes the issue.
_CONDITIONS: dict[str, Callable[[Facts], Any]] = {
    "named": lambda facts: bool(facts.gpu_kinds),
    "gpus": _has_gpus,
    "tried": lambda facts: _has_gpus(facts) and facts.toolkit_problem,
    "discrete": lambda facts: bool(facts.discrete_kinds),
    "memory": lambda facts: bool(facts.memory_kinds),
    "finished_jobs": lambda facts: facts.finished_jobs,
    # If the node has other kinds too, the line differs from the toolkit's built-in default. Then an upgrade of the toolkit keeps the line.
    "only_kind_gpu": lambda facts: [kind.upper() for kind in facts.gpu_kinds] == ["GPU"],
    "replaced_mode": lambda facts: facts.gpu_kinds and runtime_config.is_replaced(*_mode_arguments(facts)),
    "other_mode": lambda facts: facts.gpu_kinds and runtime_config.ignores_swarm_resource(*_mode_arguments(facts)),
    "refused_by_nvidia": lambda facts: _has_gpus(facts) and runtime_config.refused_by_nvidia(facts.values, parse_version(facts.toolkit)),
    "no_variables": lambda facts: _has_gpus(facts) and runtime_config.ignores_variables(facts.values),
    "no_cgroups": lambda facts: _has_gpus(facts) and runtime_config.without_cgroups(facts.values, _mode(facts)),
    "no_capabilities": lambda facts: _has_gpus(facts) and runtime_config.without_capabilities(facts.values, _mode(facts)),
    "no_hooks": lambda facts: _has_gpus(facts) and runtime_config.without_hooks(facts.values, _mode(facts)),
}
BY_ID = {trap.id: trap for trap in TRAPS}
# The refusals that accept_risks turns into warnings.
ACCEPTABLE = tuple(trap.id for trap in TRAPS if trap.when and trap.answer == REFUSAL)


def _mode_arguments(facts: Facts) -> tuple[Mapping[str, Any], Version | None, bool]:
    return facts.values, parse_version(facts.toolkit), facts.integrated


def _mode(facts: Facts) -> str | None:
    """Return the mode of the runtime after this collection has set the mode that swarm-resource needs."""
    replaced = bool(_CONDITIONS[BY_ID[LEGACY_MODE].when or ""](facts)) and affects(LEGACY_MODE, facts.toolkit)
    return runtime_config.LEGACY if replaced else runtime_config.mode_of(*_mode_arguments(facts))


def check(facts: Facts, accepted: Collection[str] = ()) -> list[Finding]:
    """Return the findings in the order of the table. If the user has accepted the id of a refusal, the refusal becomes a warning."""
    check_accepted(accepted)
    return [_finding(trap, facts, accepted) for trap in TRAPS if trap.when and _applies(trap, facts)]


def check_accepted(accepted: Iterable[str]) -> None:
    unknown = sorted(set(accepted) - set(ACCEPTABLE))
    if unknown:
        raise GpuSwarmError(
            "accept_risks: %s cannot be accepted; use only: %s. docs/fix/known-issues.md explains each of them."
            % (", ".join(generic_resources.shorten(risk) for risk in unknown), ", ".join(ACCEPTABLE))
        )


def is_issue_of(trap_id: str, component: str) -> bool:
    return trap_id in BY_ID and BY_ID[trap_id].component == component


def affects(trap_id: str, version: str | None) -> bool:
    """Return whether the issue affects this version of its component."""
    trap, parsed = BY_ID[trap_id], parse_version(version)
    if trap.versions is None:
        return True
    return parsed is not None and trap.versions[0] <= parsed < trap.versions[1]


def parse_version(text: str | None) -> Version | None:
    """Return the three numbers of a version such as ``20.10.24+dfsg1``, ``23.0.2-ce`` or ``1.20.0``; None for any other text."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    return tuple(int(part or 0) for part in match.groups()) if match else None


def leader_findings(version: str | None, resources: Mapping[str, Any]) -> list[Finding]:
    """Return the issues of a leader of this version for tasks with any of ``resources`` (a dict of generic_resources)."""
    named = [kind for kind, value in resources.items() if isinstance(value, list)]
    discrete = [kind for kind, value in resources.items() if not isinstance(value, list)]
    facts = Facts(leader=version, gpu_kinds=named, discrete_kinds=discrete)
    return [finding for finding in check(facts) if finding.component == "leader"]


def _applies(trap: Trap, facts: Facts) -> bool:
    if not _CONDITIONS[trap.when](facts):
        return False
    return trap.versions is None or affects(trap.id, getattr(facts, trap.component))


def _finding(trap: Trap, facts: Facts, accepted: Collection[str]) -> Finding:
    version, setting = getattr(facts, trap.component, None), _CONDITIONS[trap.when or ""](facts)
    name = {"engine": "Docker Engine", "toolkit": "NVIDIA Container Toolkit", "leader": "the swarm's leader, Docker Engine"}[trap.component]
    subject = "%s %s" % (name, version) if trap.versions else name
    if isinstance(setting, str):
        subject = "%s, %s" % (subject, setting if trap.id == NO_CONTAINER else "%s has %s" % (facts.file, setting))
    is_accepted = trap.answer == REFUSAL and trap.id in accepted
    text = "%s: %s %s (%s; %s)" % (subject, trap.wrong, trap.remedy, trap.id, trap.reference)
    if trap.answer == REFUSAL and not is_accepted:
        text += ". To continue anyway: accept_risks: [%s] (role: gpu_node_accept_risks)." % trap.id
    return Finding(trap.id, trap.component, WARNING if is_accepted else trap.answer, text)


def warnings(findings: Iterable[Finding]) -> list[str]:
    """Return the text of each warning, and of each issue that was handled."""
    return [finding.text for finding in findings if finding.answer in (WARNING, HANDLED)]


def refused(findings: Iterable[Finding]) -> list[dict[str, str]]:
    return [{"id": finding.id, "text": finding.text} for finding in findings if finding.answer == REFUSAL]
