# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generates the pages of docs/ that come from the code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from . import architecture, compose_keys, examples, known_traps, metrics, rooms, settings, stack_checks, status_picture, top_picture, traps
from .blocks import fill

DOCS = Path(__file__).resolve().parents[2] / "docs"


class Page(NamedTuple):
    what: str  # the generated part, and its source
    make: Callable[[], str]


def _filled(name: str, part: str, text: str) -> str:
    return fill(_text(DOCS / name), {part: text})


def _metrics() -> str:
    return fill(_text(DOCS / "reference/metrics.md"), {"metrics": metrics.listed(), "card metrics": metrics.of_cards()})


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# The pages by their paths in docs/. A page may have generated and written parts.
PAGES = {
    "reference/metrics.md": Page(
        "the tables of metrics, of plugins/module_utils/_metrics/metric_names.py and plugins/module_utils/_watch/card_metrics.py", _metrics
    ),
    "ARCHITECTURE.md": Page(
        "the table of rooms, of plugins/ and tests/pages/rooms.py", lambda: _filled("ARCHITECTURE.md", "rooms", architecture.listed())
    ),
    "pictures/architecture.svg": Page("all of it, of plugins/ and tests/pages/rooms.py", lambda: architecture.draw(rooms.edges())),
    "reference/settings.md": Page("all of it, of plugins/plugin_utils/_settings/declaration.py and roles/*/meta/argument_specs.yml", settings.page),
    "reference/stack-checks.md": Page("all of it, of plugins/plugin_utils/_stack/deploy_checks.py", stack_checks.page),
    "reference/compose-keys.md": Page("all of it, of plugins/plugin_utils/_stack/keys.py and tests/pages/compose_keys.py", compose_keys.page),
    "pictures/status.svg": Page("all of it, of what status prints of the fleet in tests/pages/status_picture.py", status_picture.draw),
    "pictures/top.svg": Page("all of it, of what gpu-swarm top draws of the same fleet", top_picture.draw),
    "fix/known-issues.md": Page("all of it, of tests/pages/known_traps.py", lambda: traps.issues_page(known_traps.ALL)),
    "reference/config-toml.md": Page("all of it, of tests/pages/toolkit_keys.py", traps.keys_page),
    "reference/known-issues-proofs.md": Page("all of it, of tests/pages/known_traps.py", lambda: traps.proofs_page(known_traps.TITLES)),
    **{name: Page(f"the text of {', '.join(files)}", partial(examples.page, name)) for name, files in examples.SHOWN.items()},
}


def stale(folder: Path = DOCS) -> dict[str, str]:
    """Return the outdated pages with their new text."""
    made = {name: page.make() for name, page in PAGES.items()}
    return {name: text for name, text in made.items() if not (folder / name).is_file() or _text(folder / name) != text}
