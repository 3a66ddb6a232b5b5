# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes three pages of the known issues: the list for users, the proofs, and the keys of config.toml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from plugins.module_utils._compat.issues import HANDLED, REFUSAL

from . import toolkit_keys
from .blocks import table

ISSUES = """\
<!-- Made by `python -m tests.pages` from tests/pages/known_traps.py; edit that. -->
# Known issues by version

What goes wrong with GPUs on Docker Swarm, in which versions, and what to do. The first table needs you, the second does not. Messages end with the
name of the issue, such as `(named-tasks-rejected; moby#44378)`.

- **refusal**: nothing is changed on such a node. A name with * can be lowered to a warning: `gpu_node_accept_risks: [name]`.
- **warning**: each run reports it on the nodes that it concerns.
- **documented**: nothing on a node shows it.

*engine* is Docker on the node, *leader* Docker on the leading manager, *toolkit* NVIDIA's container toolkit.

"""
HANDLED_HEAD = """
## Handled for you

These cannot happen, or are corrected. If that changes a file, the run reports it.

"""
END = """
[Proofs and sources](../reference/known-issues-proofs.md) of each issue · [each key of `config.toml`](../reference/config-toml.md).
"""
PROOFS = """\
<!-- Made by `python -m tests.pages` from tests/pages/known_traps.py; edit that. -->
# Known issues: proofs and sources

For each of the [known issues](../fix/known-issues.md): the test of our answer, or the test on a real engine, or *cited*; and where the fact comes
from.

"""
KEYS = """\
<!-- Made by `python -m tests.pages` from tests/pages/toolkit_keys.py; edit that. -->
# Keys of config.toml

Every key of the NVIDIA Container Toolkit's configuration from 1.13.5 to 1.20.0, its effect on tasks and their GPUs, and what the collection does
about it. A value of another form than the table says is refused (`config-toml-refused`): NVIDIA's runtime starts nothing with such a file.

*left alone*: the key may have any value. A name in brackets is a [known issue](../fix/known-issues.md).

"""


def issues_page(traps: Iterable[Any]) -> str:
    traps = sorted(traps, key=lambda trap: trap.component)
    needs_user = [(*_issue(trap), f"**{trap.answer}**: {trap.remedy}") for trap in traps if trap.answer != HANDLED]
    handled = [(*_issue(trap), trap.remedy) for trap in traps if trap.answer == HANDLED]
    columns = ("name", "versions", "what goes wrong")
    return ISSUES + table((*columns, "what to do"), needs_user) + HANDLED_HEAD + table((*columns, "what is done"), handled) + END


def proofs_page(titles: Iterable[tuple[str, Iterable[Any]]]) -> str:
    parts = [f"## {title}\n\n" + table(("name", "proof", "source"), map(_proof_row, traps)) for title, traps in titles]
    return PROOFS + "\n".join(parts)


def keys_page() -> str:
    return KEYS + table(("key", "form", "effect", "answer", "why"), toolkit_keys.rows())


def _issue(trap: Any) -> tuple[str, str, str]:
    mark = "*" if trap.when and trap.answer == REFUSAL else ""
    return (f"`{trap.id}`{mark}", f"{trap.component}: {trap.affected}", trap.wrong)


def _proof_row(trap: Any) -> tuple[str, ...]:
    return (f"`{trap.id}`", _proof(trap.proof), trap.reference)


def _proof(proof: str) -> str:
    if "::" not in proof:
        return proof
    return f"{'our answer' if proof.startswith('tests/unit/') else 'real engine'}: `{proof}`"
