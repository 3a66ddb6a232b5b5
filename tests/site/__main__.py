# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the documentation site in build/docs/html, without the network. Exits with 1 if Sphinx warns or a link is broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.runner.model import BIN, BUILD, ROOT

from . import broken_links, navigation, pages, reference

HERE = ROOT / "tests" / "site"
SOURCE, HTML, DOCTREES = (BUILD / "docs" / name for name in ("source", "html", "doctrees"))


def build() -> int:
    """Build the site anew. Return the exit status of sphinx-build."""
    shutil.rmtree(BUILD / "docs", ignore_errors=True)
    chosen = navigation.read(HERE / "navigation.yml", ROOT)
    pages.write(ROOT, SOURCE, chosen)
    reference.write(ROOT, SOURCE)
    options = ["--fail-on-warning", "--keep-going", "--jobs", "auto", "--quiet", "--conf-dir", str(HERE), "--doctree-dir", str(DOCTREES)]
    return subprocess.run([str(BIN / "sphinx-build"), *options, str(SOURCE), str(HTML)], check=False, env=environment()).returncode


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": os.pathsep.join((str(BIN), os.environ.get("PATH", os.defpath)))}


def main() -> int:
    try:
        status = build()
    except navigation.NavigationError as error:
        print(error, file=sys.stderr)
        return 1
    found = broken_links.find(HTML)
    for link in found:
        print(link, file=sys.stderr)
    if status or found:
        return 1
    print(f"{len(list(HTML.rglob('*.html')))} pages in {HTML.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
