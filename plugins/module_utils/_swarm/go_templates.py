# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Go templates in what swarm expands for each task: environment, hostname and mounts (pure).

Swarm prints the whole value where it cannot expand one (template/context.go and template/expand.go of moby/swarmkit). So its own fields reach it,
each alone, and any other brace only in a form that swarm writes as it stands.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re

# In an action of its own. A label by its name needs index: when swarm creates the service there is none yet, and a field would be an error.
_FIELDS = (
    r"\.Service\.(?:ID|Name|Labels)",
    r'index[ \t]+\.Service\.Labels[ \t]+(?:"[^"\\{}\n]*"|`[^`{}\n]*`)',
    r"\.Node\.(?:ID|Hostname|Platform(?:\.(?:OS|Architecture))?)",
    r"\.Task\.(?:ID|Name|Slot)",
)
_FIELD = r"\{\{[ \t]*(?:%s)[ \t]*\}\}" % "|".join(_FIELDS)
_ACTION = re.compile(r"(?P<field>%s)|\{\{" % _FIELD)
# A field within something else, such as {{if eq .Task.Slot "1"}} or {{.Node.Name}}.
_WITHIN = re.compile(r"\{\{[^{}]*?(?<![\w)\]])\.(?:Service|Node|Task)\b")
_LITERAL = '{{"{{"}}'
WRITE = "Write each of swarm's fields alone, such as {{.Node.Hostname}} or {{.Task.Slot}}"


def literal(text: str) -> str:
    """The text with each ``{{`` that begins no field of swarm written so that swarm leaves it as it is."""
    return _ACTION.sub(lambda found: found.group("field") or _LITERAL, text) if "{{" in text else text


def as_written(text: str) -> str:
    """What ``literal`` made this of."""
    return text.replace(_LITERAL, "{{")


def only_fields(text: str) -> bool:
    """Whether each ``{{`` in it begins a field of swarm."""
    return literal(text) == text


def is_meant_for_swarm(text: str) -> bool:
    """Whether there is one of swarm's fields in it that does not stand alone: what its author means is not what it would become."""
    return "{{" in text and bool(_WITHIN.search(_ACTION.sub(lambda found: "" if found.group("field") else found.group(), text)))
