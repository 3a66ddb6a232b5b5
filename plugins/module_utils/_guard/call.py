# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a runtime is called, and how it reports why it failed.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import namedtuple

TYPE_CHECKING = False  # typing is not loaded: that would take a fifth of the time that all of this takes
if TYPE_CHECKING:
    from typing import Sequence

CREATE, RESTORE = "create", "restore"
PASS_THROUGH = "pass-through"  # the file with which an operator turns the guard off
# What the guard exits with, for its front. It goes on by no status that an interpreter has for anything else: an empty program ends with 0.
GOES_ON, REFUSED, BROKEN = 10, 3, 4  # the last two: why has been written
_WITH_VALUE = {"--bundle": "bundle", "-b": "bundle", "--log": "log", "--root": "root"}


# One call of a runtime.
Call = namedtuple("Call", ["what", "container", "bundle", "log", "root"], defaults=[".", "", ""])


def parse(arguments: Sequence[str]) -> Call:
    """The container's id comes last. ``what`` is empty for a call that neither creates nor restores a container."""
    found, values, before = {}, set(), ""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if before in _WITH_VALUE:
            found[_WITH_VALUE[before]] = word
            values.add(place)
            before = ""
        elif equals and name in _WITH_VALUE:
            found[_WITH_VALUE[name]] = value
        else:
            before = word
    calls = [word for place, word in enumerate(arguments) if word in (CREATE, RESTORE) and place not in values]
    return Call(calls[0] if calls else "", arguments[-1] if arguments else "", **found)


def refuse(call: Call, text: str) -> None:
    """Where containerd's shim reads why a container could not be made: what is printed is not seen."""
    line = json.dumps({"level": "error", "msg": text, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
    if call.log:
        with contextlib.suppress(OSError), open(call.log, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")
    sys.stderr.write(line + "\n")
