# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What config.toml of the NVIDIA Container Toolkit says of swarm's variables (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from .._config.toml_statements import statements, unquote

SWARM_RESOURCE = "swarm-resource"


def listed(text: str) -> tuple[str, ...]:
    """The variables that swarm-resource names: it is a key of the top level, which ends with the first table.

    NVIDIA's decoder takes the name in capitals too (keysToTry in go-toml 1.9, marshal.go).
    """
    names: list[str] = []
    for one in statements(text):
        if one.what == "table":
            break
        if one.what == "key" and len(one.name) == 1 and one.name[0].lower() == SWARM_RESOURCE:
            names += unquote(text[one.value_at : one.value_end]).split(",")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
