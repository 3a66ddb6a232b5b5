# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The managers are called in their order until one answers (pure): what counts as an answer, and which one it was.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# By module, what its result has only where the manager answered.
MODULES = {
    "swarm_batch": ("answered",),
    "swarm_explain": ("nodes",),
    "swarm_gpu_info": ("nodes",),
    "swarm_job": ("answered",),
    "swarm_job_prune": ("removed", "wrong"),
    "swarm_stack": ("answered",),
}
# Of these not that they are there: what its action says of it, and that something is wrong with the arguments, which is so on each manager.
TRUE = ("answered", "wrong")
NO_REASON = "no reason given"


def called(module: str, result: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The result of the module on one manager. It is no failure, so that the next one can be called; ``msg`` is why it would be one."""
    answered = any(bool(result.get(key)) if key in TRUE else key in result for key in MODULES[module])
    kept = {key: value for key, value in result.items() if key != "exception"}  # which Ansible would show as if something had failed
    why = {"msg": result.get("msg") or NO_REASON} if result.get("failed") else {}
    return {**kept, **why, "failed": False, "answered": answered, "manager": manager}


def first_answer(call: Mapping[str, Any]) -> dict[str, Any]:
    """What the manager returned that answered. Where none did, what the last one returned, with ``msg`` for all of them."""
    tried = [result for result in call.get("results") or [] if not result.get("skipped")]
    last = {**tried[-1]} if tried else {}
    return last if last.get("answered") else {**last, "answered": False, "manager": "", "msg": _no_answer(tried)}


def _no_answer(tried: Iterable[Mapping[str, Any]]) -> str:
    reasons = [_why(str(result.get("manager") or ""), str(result.get("msg") or NO_REASON).rstrip(".")) for result in tried]
    return f"No manager of the swarm answers{': ' if reasons else ''}{'; '.join(reasons)}."


def _why(manager: str, text: str) -> str:
    """Most messages begin with the host that they are of."""
    return text if text.startswith(manager) else f"{manager}: {text}"
