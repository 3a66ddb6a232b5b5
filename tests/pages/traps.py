# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/fix/known-issues.md from the table of traps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import toolkit_keys
from .blocks import table

HEAD = """\
<!-- Made by `python -m tests.pages` from tests/pages/known_traps.py; edit that. -->
# Known issues ("traps")

What goes wrong with GPUs on Docker Swarm, and what this collection does about it.

- **handled**: it cannot happen, or is corrected; where that changes a file, it is reported.
- **warning**: it is reported at each run on the nodes that it concerns.
- **refusal**: nothing is changed on such a node. Names marked with * can be lowered to a warning, one by one:
  `gpu_node_accept_risks: [name]`.
- **documented**: nothing on a node shows it; the remedy is yours.

*Proof* names the test of our answer, or the test on a real engine, or states that the fact is cited from its reference.
"""
COLUMNS = ("name", "affected", "what goes wrong", "answer", "what is done, or to do", "proof", "reference")


KEYS = """\
## Keys of config.toml

Every key of the NVIDIA Container Toolkit's configuration from 1.13.5 to 1.20.0, what it can do to tasks and their GPUs, and what the collection does
about it. A value of another form than the table says is a refusal (`config-toml-refused`): NVIDIA's runtime starts nothing with such a file.

*left alone*: the key may have any value. A name in brackets is that of the known issue above.

"""


def page(titles: Iterable[tuple[str, Iterable[Any]]]) -> str:
    parts = [f"## {title}\n\n" + table(COLUMNS, map(_row, traps)) for title, traps in titles]
    return "\n".join([HEAD, *parts, KEYS + table(("key", "form", "what it can do", "answer", "why"), toolkit_keys.rows())])


def _row(trap: Any) -> tuple[str, ...]:
    mark = "*" if trap.when and trap.answer == "refusal" else ""
    where = f"{trap.component}: {trap.affected}"
    return (f"`{trap.id}`{mark}", where, trap.wrong, f"**{trap.answer}**", trap.remedy, _proof(trap.proof), trap.reference)


def _proof(proof: str) -> str:
    if "::" not in proof:
        return proof
    return f"{'our answer' if proof.startswith('tests/unit/') else 'real engine'}: `{proof}`"
