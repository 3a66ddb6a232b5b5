# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What config.toml of the NVIDIA Container Toolkit says of swarm's variables (pure): this needs no parser of TOML, which Python 3.8 lacks.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"""^[ \t]*["']?swarm-resource["']?[ \t]*=[ \t]*(?:"([^"\\\n]*)"|'([^'\n]*)')""", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def listed(text: str) -> tuple[str, ...]:
    """The variables that swarm-resource names: it is a key of the top level, which ends with the first table."""
    table = _TABLE.search(text)
    found = _LINE.search(text[: table.start()] if table else text)
    names = (found.group(1) or found.group(2) or "").split(",") if found else []
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
