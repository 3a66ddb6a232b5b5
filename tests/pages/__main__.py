# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m tests.pages: writes what of docs/ is made of the code."""

from __future__ import annotations

from .made import DOCS, made

for name, text in made().items():
    (DOCS / name).write_text(text, encoding="utf-8")
