# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the messages of the guard's refusals, and finds them in a task's error (pure).

Swarm shows the sentence in the task's error. The code at the end of the sentence decides whether a job is tried again and whether a node passes
`verify`. So the rest of the sentence may change. A guard before 0.3.0 wrote no code, so its refusals are recognized by their text.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections import namedtuple

# The codes. Findings are counted under these codes, too.
MOUNT, FORGED, UNRESERVED, UNKNOWN = "mount", "forged", "unreserved", "unknown-device"
APART, TOO_SMALL, TWICE = "two-cards", "too-small", "held-twice"
RESTORED, NO_RECORD, BROKEN = "restored", "no-record", "broken"
# The codes about devices that a service asks for by name.
NOT_ALLOWED, NO_DEVICE, REMAPPED = "device-not-allowed", "no-device", "device-remapped"
CODES = (MOUNT, FORGED, UNRESERVED, UNKNOWN, APART, TOO_SMALL, TWICE, RESTORED, NO_RECORD, BROKEN, NOT_ALLOWED, NO_DEVICE, REMAPPED)
# With these codes, another node or a later attempt would refuse the task too.
PERMANENT = frozenset([MOUNT, FORGED, UNRESERVED, TOO_SMALL])
# With these codes, the guard could not decide. The task itself may be fine.
UNDECIDED = frozenset([NO_RECORD, BROKEN])

_PREFIX, _CODE = "gpu-swarm: ", " (refusal: %s)"
_LONGEST = 2000  # the most characters of the sentence, without the code
_SERVICE = "the service %s is refused on this node (isolation: %s): %s Its container is %s."
_RESTORED = "the container %s is of a task with GPUs, and such a task cannot be restored from a checkpoint (isolation: exclusive)."
_NO_RECORD = "dockerd's record of the container cannot be read, so its task is unknown: %s."
_FAILED = "the guard of this node's GPUs failed, so the container does not start: %s: %s. %s"
_NOT_RUNNING = "the guard of this node's GPUs does not run (%s), so the container does not start. %s"
_REMEDY = "Run fleet.gpu_swarm.provision, or turn the guard off: touch %s"

# Not compiled: compiling would take a tenth of the guard's run time, and the guard itself does not use these patterns.
_WITH_CODE = r"gpu-swarm: (.*) \(refusal: ([a-z-]+)\)"
_WITHOUT_CODE = r"gpu-swarm: (.*)"
# The beginnings of sentences without a code. The first match is used.
_OLD_BEGINNINGS = (
    (r"the guard of this node's GPUs", BROKEN),
    (r"dockerd's record of the container", NO_RECORD),
    (r"the container \S+ is of a task with GPUs", RESTORED),
    (r"the service \S+ is refused on this node \(isolation: \w+\): it has a mount at ", MOUNT),
    (r"the service \S+ is refused on this node \(isolation: \w+\): it sets NVIDIA_VISIBLE_DEVICES=", UNRESERVED),
    (r"the service \S+ is refused on this node \(isolation: \w+\): it sets ", FORGED),
    (r"the service \S+ is refused on this node \(isolation: \w+\): its share ", TOO_SMALL),
    (r"the service \S+ is refused on this node \(isolation: \w+\): swarm gave it slots ", APART),
    (r"the service \S+ is refused on this node \(isolation: \w+\): task ", TWICE),
    (r"the service \S+ is refused on this node", UNKNOWN),
)

# code: one of CODES, or a code of a newer guard. text: the sentence. whole: the part of the error with prefix, sentence and code.
Refusal = namedtuple("Refusal", ["code", "text", "whole"])


def rules_message(service: str, level: str, reason: str, container: str) -> str:
    """Return the message for a task that the rules refuse."""
    return _SERVICE % (service, level, reason, _short(container))


def checkpoint_message(container: str) -> str:
    return _RESTORED % _short(container)


def no_record_message(problem: object) -> str:
    return _NO_RECORD % problem


def failure_message(problem: Exception, flag: str) -> str:
    """Return the message for a failure of the guard itself. ``flag`` is the file that turns the guard off."""
    return _FAILED % (type(problem).__name__, problem, _REMEDY % flag)


def not_running_message(command: str, flag: str) -> str:
    """Return the message that the front writes if the guard's code does not run. ``command`` should have started the code."""
    return _NOT_RUNNING % (command, _REMEDY % flag)


def with_code(code: str, text: str) -> str:
    """Return the sentence with prefix and code."""
    return _PREFIX + text[:_LONGEST].rstrip(".") + _CODE % code


def parse_refusal(error: str) -> Refusal | None:
    """Return the refusal in a task's error. None if no guard refused the task."""
    match = re.search(_WITH_CODE, error, re.DOTALL)
    if match:
        return Refusal(match.group(2), match.group(1), error[match.start() :])
    match = re.search(_WITHOUT_CODE, error, re.DOTALL)
    code = next((code for pattern, code in _OLD_BEGINNINGS if re.match(pattern, match.group(1))), None) if match else None
    return Refusal(code, match.group(1), error[match.start() :]) if match and code else None


def _short(container: str) -> str:
    """Return the short id that docker shows."""
    return container[:12]
