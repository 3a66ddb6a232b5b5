# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plugin of pytest (-p python38) for Python 3.8. It selects the unit tests about nodes, and adds features of newer Pythons for them.

If a test starts code for nodes as a program, the program does not get these features, as on a real node.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import re
import sys
import types
from pathlib import Path
from typing import Any

UNIT = Path(__file__).resolve().parents[2] / "unit"
# Parts that a node never has: code of the collection and of ansible-core for the controller, and this repository's tools.
CONTROLLER = re.compile(
    r"plugin_utils(?!\._answers\.answer import form_error)|plugins[./ \"]+(?:action|filter)"
    r"|^\s*(?:from|import) (?:ansible\.(?!module_utils)|tests\.lab)"
    r"|sys\.executable\)\.(?:parent|with_name)",  # the folder of ansible-playbook
    re.MULTILINE,
)
IMPORTED = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
# These tests cover this repository's tools and texts, not code for nodes.
TEXTS = ("links", "platforms", "rooms", "task_files", "texts", "window")
ABOUT_TEXTS = ("runner", "lab", "bench", "page", "recording", "roles", "settings", "site", *(f"test_{name}.py" for name in TEXTS))


def concerns_answers(path: Path) -> bool:
    """Return whether a test names such a part, or imports a file in support/ that names one."""
    text = path.read_text(encoding="utf-8")
    helpers = [UNIT / "support" / f"{name}.py" for name in IMPORTED.findall(text)]
    return bool(CONTROLLER.search(text)) or any(concerns_answers(helper) for helper in helpers if helper.is_file() and helper != path)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    left_out = collection_path.name in ABOUT_TEXTS or (collection_path.suffix == ".py" and concerns_answers(collection_path))
    return True if left_out else None


class Zip(builtins.zip):
    """zip() with ``strict``, which Python 3.10 introduced."""

    def __new__(cls, *many: Any, strict: bool = False) -> Any:
        if not strict:
            return super().__new__(cls, *many)
        lists = [list(one) for one in many]
        if len({len(one) for one in lists}) > 1:
            raise ValueError("zip() arguments are of different lengths")
        return super().__new__(cls, *lists)


# Only the controller checks the form of a module's answer.
answer = types.ModuleType("ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.answer")
answer.form_error = lambda _answer: None  # type: ignore[attr-defined]
sys.modules[answer.__name__] = answer
builtins.zip = Zip  # type: ignore[misc]
setattr(datetime, "UTC", datetime.timezone.utc)  # noqa: B010, UP017
functools.cache = functools.lru_cache(maxsize=None)
