# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the page of the fleet: one HTML file that loads nothing (pure).

The template comes from the controller, with style, script and a policy that allows only these two. This file adds the verdict and a line for each
node as HTML, for browsers without JavaScript, and the data as JSON.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any, Mapping

from .._errors import GpuSwarmError
from .._tasks.tasks import stamp

# The places in the template. A page has the texts of many people, so all places are filled at once: no text is searched for another place.
PLACES = ("title", "level", "verdict", "nodes", "data")
_PLACE = re.compile("@@(%s)@@" % "|".join(PLACES))
_SIGNS = {"red": "✕", "amber": "!", "green": "✓"}
NO_NAME = "–"


def page(template: str, data: Mapping[str, Any]) -> str:
    """Return the HTML file for the result of ``page_data``. Raises GpuSwarmError if the template lacks a place."""
    missing = [place for place in PLACES if "@@%s@@" % place not in template]
    if missing:
        raise GpuSwarmError("The template of the page has no place for %s. Install the template of this version again." % ", ".join(missing))
    verdict, allocated = data["verdict"], _allocated(data)
    texts = {
        "title": escape("%s %s – GPU fleet" % (_SIGNS[verdict["level"]], verdict["headline"])),
        "level": escape(verdict["level"]),
        "verdict": _verdict(data),
        "nodes": "\n".join(_node(node, allocated) for node in data["nodes"]),
        "data": to_json(data),
    }
    return _PLACE.sub(lambda match: texts[match.group(1)], template)


def to_json(data: Any) -> str:
    """Return JSON that is safe within a script element: ASCII only, without ``<``, so no text can end the element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _verdict(data: Mapping[str, Any]) -> str:
    verdict = data["verdict"]
    reasons = [
        '<li class="reason %s"><b>%s</b> <span>%s</span></li>' % (escape(reason["level"]), escape(reason["name"]), escape(reason["text"]))
        for reason in verdict["reasons"]
    ]
    more = ['<li class="more">and %d more</li>' % verdict["more"]] if verdict["more"] else []
    parts = [
        '<p class="sign" aria-hidden="true">%s</p>' % _SIGNS[verdict["level"]],
        '<h1 id="headline">%s</h1>' % escape(verdict["headline"]),
        '<ul id="reasons">%s</ul>' % "".join(reasons + more),
        '<p id="read">Read at <time id="age" datetime="%s">%s</time> on <span id="manager">%s</span></p>'
        % (stamp(data["at"]), stamp(data["at"]).replace("T", " ").replace("Z", " UTC"), escape(data["manager"])),
    ]
    return "\n".join(parts)


def _node(node: Mapping[str, Any], allocated: Mapping[str, str]) -> str:
    """Return the line of a node for browsers without JavaScript."""
    text = "; ".join(filter(None, [": ".join(filter(None, [node["state"], node["why"]])), allocated.get(node["id"])]))
    return '<li class="%s"><b>%s</b> %s</li>' % (escape(node["level"]), escape(node["name"] or NO_NAME), escape(text))


def _allocated(data: Mapping[str, Any]) -> dict[str, str]:
    """Return for each node how many of its cards are allocated."""
    counts: dict[str, list[int]] = {}
    for node, uuid, _model, _mib, state, _reason, _parts in data["cards"]:
        if uuid and node >= 0:
            found = counts.setdefault(data["names"][node], [0, 0])
            found[0] += state >= 0 and data["names"][state] == "allocated"
            found[1] += 1
    return {node: "%d of %d GPUs allocated" % (taken, total) for node, (taken, total) in counts.items()}
