# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the reference pages of plugins and roles with antsibull-docs, and a list of the labels in Ansible's documentation that these pages use."""

from __future__ import annotations

import os
import re
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.runner.model import BIN, BUILD

from .pages import place_of

COLLECTION = "fleet.gpu_swarm"
# A page of antsibull-docs that documents no plugin.
VARIABLES = "environment_variables"
KINDS = {"module": "Modules", "filter": "Filters", "callback": "Callbacks", "role": "Roles"}
TITLE = re.compile(r"^fleet\.gpu_swarm\.(\w+) (\w+) -- (.+)$", re.MULTILINE)
# The theme has a table of contents beside each page.
CONTENTS = ".. contents::\n   :local:\n   :depth: 1\n"
# The path of a page in the documentation of a plugin. antsibull-docs escapes the path with backslashes.
DOC = re.compile(r":literal:`(docs/[^`\n]+\.md)`")
HEAD = """\
Modules, filters and roles
==========================

Each page lists every option and return value, as ``ansible-doc`` does. Modules that only the playbooks call are not listed: they may change with
any release.
"""


def write(root: Path, source: Path) -> None:
    """Write the pages of the plugins and roles that users call, their index, and objects.inv."""
    folder = source / "reference" / "plugins"
    generate(folder)
    (folder / "index.rst").write_text(index(chosen(folder)), encoding="utf-8")
    objects = yaml.safe_load((root / "tests" / "site" / "ansible_labels.yml").read_text(encoding="utf-8"))
    (source.parent / "objects.inv").write_bytes(inventory(objects))


def generate(folder: Path) -> None:
    """Write a page for each plugin and role of the collection. antsibull-docs cannot omit internal ones."""
    folder.mkdir(parents=True)
    options = ["--use-current", "--squash-hierarchy", "--fail-on-error", "--no-breadcrumbs", "--no-add-antsibull-docs-version"]
    env = {
        **os.environ,
        "PATH": os.pathsep.join((str(BIN), os.environ.get("PATH", os.defpath))),
        "ANSIBLE_COLLECTIONS_PATH": str(BUILD / "collections"),
    }
    subprocess.run([str(BIN / "antsibull-docs"), "collection", *options, "--dest-dir", str(folder), COLLECTION], env=env, check=True)


def chosen(folder: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """Remove the pages of internal plugins. Return (page, description) of the other plugins, by their kinds and names."""
    found: dict[str, dict[str, tuple[str, str]]] = {kind: {} for kind in KINDS}
    for page in sorted(folder.glob("*.rst")):
        text = page.read_text(encoding="utf-8")
        title = TITLE.search(text)
        if page.stem == VARIABLES:
            continue
        if title is None or title[3].endswith("(internal)"):
            page.unlink()
        else:
            page.write_text(DOC.sub(_link_to_doc, text.replace(CONTENTS, "")), encoding="utf-8")
            found[title[2]][title[1]] = (page.stem, title[3])
    return found


def _link_to_doc(match: re.Match[str]) -> str:
    return f":doc:`/{place_of(match[1].replace(chr(92), ''))}`"


def index(found: Mapping[str, Mapping[str, tuple[str, str]]]) -> str:
    """Return the index page, which lists the reference pages."""
    text = [HEAD]
    for kind, pages in found.items():
        text += [KINDS[kind], "-" * len(KINDS[kind]), "", ".. list-table::", "   :widths: 30 70", ""]
        for name, (page, description) in pages.items():
            text += [f"   * - :doc:`{name} <{page}>`", f"     - {description}"]
        text += ["", ".. toctree::", "   :hidden:", "", *(f"   {name} <{page}>" for name, (page, _description) in pages.items()), ""]
    text += ["Environment variables", "---------------------", "", f"The callback reads these environment variables: :doc:`{VARIABLES}`.", ""]
    return "\n".join([*text, ".. toctree::", "   :hidden:", "", f"   Environment variables <{VARIABLES}>", ""])


def inventory(objects: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return an inventory for intersphinx: names with their places in Ansible's documentation, by Sphinx's types such as std:label."""
    lines = "".join(f"{name} {kind} -1 {place} -\n" for kind, places in objects.items() for name, place in places.items())
    head = "# Sphinx inventory version 2\n# Project: Ansible\n# Version: latest\n# The remainder of this file is compressed using zlib.\n"
    return head.encode() + zlib.compress(lines.encode())
