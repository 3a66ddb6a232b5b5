# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Go templates in the texts that swarm expands for each task: environment, hostname and mounts (pure).

If swarm cannot expand a value, its error shows the whole value (template/context.go and template/expand.go of moby/swarmkit). So this code passes
only single fields of swarm unchanged, and escapes every other ``{{``.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re

# A field must be the only text between its braces. A label needs ``index``: swarm also expands a template before labels exist, and a missing field
# would be an error.
_FIELDS = (
    r"\.Service\.(?:ID|Name|Labels)",
    r'index[ \t]+\.Service\.Labels[ \t]+(?:"[^"\\{}\n]*"|`[^`{}\n]*`)',
    r"\.Node\.(?:ID|Hostname|Platform(?:\.(?:OS|Architecture))?)",
    r"\.Task\.(?:ID|Name|Slot)",
)
_FIELD = r"\{\{[ \t]*(?:%s)[ \t]*\}\}" % "|".join(_FIELDS)
_ACTION = re.compile(r"(?P<field>%s)|\{\{" % _FIELD)
# A field within a larger template, such as {{if eq .Task.Slot "1"}} or {{.Node.Name}}.
_WITHIN = re.compile(r"\{\{[^{}]*?(?<![\w)\]])\.(?:Service|Node|Task)\b")
_LITERAL = '{{"{{"}}'
WRITE = "Write each of swarm's fields alone, such as {{.Node.Hostname}} or {{.Task.Slot}}"


def literal(text: str) -> str:
    """Return the text with each ``{{`` escaped, except the braces of swarm's own fields."""
    return _ACTION.sub(lambda match: match.group("field") or _LITERAL, text) if "{{" in text else text


def as_written(text: str) -> str:
    """Return the text that ``literal`` was called with."""
    return text.replace(_LITERAL, "{{")


def only_fields(text: str) -> bool:
    """Return whether each ``{{`` of the text begins a field of swarm."""
    return literal(text) == text


def is_meant_for_swarm(text: str) -> bool:
    """Return whether the text has one of swarm's fields within a larger template.

    The author wants swarm to expand the text, so it must not be escaped.
    """
    return "{{" in text and bool(_WITHIN.search(_ACTION.sub(lambda match: "" if match.group("field") else match.group(), text)))
