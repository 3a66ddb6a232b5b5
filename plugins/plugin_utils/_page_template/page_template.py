# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the template of the page from the files in playbooks/files/page/.

The template is one HTML file with all styles and scripts. Its policy allows only these, by their hashes. Managers have only Python files, so the
controller sends them the template as text.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "playbooks" / "files" / "page"
# In this order, because a script uses the functions of the scripts before it.
STYLES = ("uplot-1.6.32.min.css", "page.css")
SCRIPTS = ("uplot-1.6.32.min.js", "data.js", "colours.js", "fleet.js", "sections.js", "queues.js", "chart.js", "main.js")
# The script reads this page again, from its own address only. Everything else is forbidden, such as images of other hosts, forms and frames.
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_PLACE = re.compile("@@(policy|style|script)@@")


def page_template() -> str:
    """Return the template for the function ``page``."""
    return build({name: (FOLDER / name).read_text(encoding="utf-8") for name in ("page.html", *STYLES, *SCRIPTS)})


def build(files: Mapping[str, str]) -> str:
    """Put styles and scripts into page.html, with a policy that allows these texts. Neither may contain the tag that ends its element."""
    style = "\n".join(files[name].strip() for name in STYLES)
    script = "\n".join(files[name].strip() for name in SCRIPTS)
    policy = POLICY.format(script=_hash(script), style=_hash(style))
    texts = {"policy": policy, "style": style, "script": script}
    return _PLACE.sub(lambda match: texts[match[1]], files["page.html"])


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
