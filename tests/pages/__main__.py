# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the generated parts of docs/, and prints the name of each changed page.
Run this after a change of the code, and commit the pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .made import DOCS, PAGES, stale


def main(argv: Sequence[str] | None = None, folder: Path = DOCS) -> int:
    listed = "\n".join(f"  {name:20}{page.what}" for name, page in PAGES.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.pages",
        description=__doc__,
        epilog=f"the pages of docs/, and what of them is made:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages that differ, and exit with 1 if there are any")
    check = parser.parse_args(argv).check
    found = stale(folder)
    for name, text in found.items():
        if not check:
            (folder / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}: {'differs from what the code makes' if check else 'written'}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())
