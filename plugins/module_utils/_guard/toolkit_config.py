# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds swarm's variables in config.toml of the NVIDIA Container Toolkit (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from .._config.toml_statements import statements, unquote

SWARM_RESOURCE = "swarm-resource"


def listed_variables(text: str) -> tuple[str, ...]:
    """Return the variables that swarm-resource names. swarm-resource is a key of the top level, so search only before the first table.

    NVIDIA's decoder also accepts capital letters in the key (keysToTry in go-toml 1.9, marshal.go).
    """
    names: list[str] = []
    for statement in statements(text):
        if statement.kind == "table":
            break
        if statement.kind == "key" and len(statement.name) == 1 and statement.name[0].lower() == SWARM_RESOURCE:
            names += unquote(text[statement.value_at : statement.value_end]).split(",")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
