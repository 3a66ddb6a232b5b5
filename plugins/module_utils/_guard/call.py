# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the call of a runtime, and reports errors as a runtime does.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import namedtuple

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Sequence

CREATE, RESTORE = "create", "restore"
PASS_THROUGH = "pass-through"  # an operator creates this file to turn the guard off
# Exit codes of the guard, for its front. GOES_ON is not 0, because an interpreter also exits with 0 after it has run an empty program.
MAY_START, REFUSED, BROKEN = 10, 3, 4  # the guard writes the reason before it exits with one of the last two codes
_OPTIONS = {"--bundle": "bundle", "-b": "bundle", "--log": "log", "--root": "root"}


# One call of a runtime.
Call = namedtuple("Call", ["action", "container", "bundle", "log", "root"], defaults=[".", "", ""])


def parse(arguments: Sequence[str]) -> Call:
    """Parse the call. The container's id is the last argument. ``action`` is empty if the call neither creates nor restores a container."""
    options, values, previous = {}, set(), ""
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if previous in _OPTIONS:
            options[_OPTIONS[previous]] = word
            values.add(index)
            previous = ""
        elif equals and name in _OPTIONS:
            options[_OPTIONS[name]] = value
        else:
            previous = word
    actions = [word for index, word in enumerate(arguments) if word in (CREATE, RESTORE) and index not in values]
    return Call(actions[0] if actions else "", arguments[-1] if arguments else "", **options)


def refuse(call: Call, text: str) -> None:
    """Write the reason into the log file that containerd's shim reads. The shim does not show standard error."""
    line = json.dumps({"level": "error", "msg": text, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
    if call.log:
        with contextlib.suppress(OSError), open(call.log, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")
    sys.stderr.write(line + "\n")
