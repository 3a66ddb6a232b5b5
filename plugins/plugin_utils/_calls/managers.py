# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether the result of a module is an answer of a manager (pure). Managers are called in order until one answers.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# For each module, the keys of its result that only an answer of a manager has.
MODULES = {
    "swarm_batch": ("answered",),
    "swarm_explain": ("nodes",),
    "swarm_gpu_info": ("nodes",),
    "swarm_job": ("answered",),
    "swarm_job_prune": ("removed", "wrong"),
    "swarm_record": ("recorded_since",),
    "swarm_stack": ("answered",),
    "swarm_stack_on_manager": ("saved",),
}
# The values of these keys must be true as well. The module's action sets ``answered``. ``wrong`` means wrong arguments, which no other manager would
# accept.
MUST_BE_TRUE = ("answered", "wrong")
NO_REASON = "no reason given"


def as_manager_answer(module: str, result: Mapping[str, Any], manager: str, reasons: Sequence[str] = ()) -> dict[str, Any]:
    """Return the result of the module on one manager. The result is never a failure, so that the next manager can be called. ``msg`` has the error.

    ``reasons`` say why earlier managers did not answer. If this manager does not answer either, ``manager`` is empty, and ``msg`` has all reasons.
    """
    answered = any(bool(result.get(key)) if key in MUST_BE_TRUE else key in result for key in MODULES[module])
    fields = {key: value for key, value in result.items() if key != "exception"}  # Ansible would show this as a failure
    if not answered:
        all_reasons = [*reasons, reason_of(manager, result).rstrip(".")]
        why = f"No manager of the swarm answers: {'; '.join(all_reasons)}."
        return {**fields, "failed": False, "answered": False, "manager": "", "reasons": all_reasons, "msg": why}
    failure = {"msg": result.get("msg") or NO_REASON} if result.get("failed") else {}
    return {**fields, **failure, "failed": False, "answered": True, "manager": manager}


def reason_of(manager: str, answer: Mapping[str, Any]) -> str:
    """Return why a module on this ``manager`` failed. The manager's name is added unless the message already begins with it."""
    text = str(answer.get("msg") or NO_REASON)
    return text if re.match(rf"{re.escape(manager)}(?![\w.-])", text) else f"{manager}: {text}"
