# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edits one line of a TOML text. Comments, the order and every other byte stay unchanged.

After an edit, the caller checks the result with a real parser.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re

from .toml_statements import BLANK, Statement, statements


def eol_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def find(text: str, name: tuple[str, ...], kind: str = "key") -> list[Statement]:
    """Return every statement with this full name."""
    return [statement for statement in statements(text) if statement.kind == kind and statement.name == name]


def remove_statement(text: str, statement: Statement) -> str:
    """Return the text without the statement's lines. If the text has no newline at its end, the result has none either."""
    before = text[: statement.start]
    if not text[statement.start : statement.end].endswith("\n"):
        before = before[:-2] if before.endswith("\r\n") else before[:-1]
    return before + text[statement.end :]


def set_value(text: str, name: tuple[str, ...], raw: str) -> str:
    """Return the text with ``name = raw``. A new key is inserted where a reader would expect it."""
    matches = find(text, name)
    if matches:
        return text[: matches[0].value_at] + raw + text[matches[0].value_end :]
    return insert(text, name, f"{name[-1]} = {raw}")


def insert(text: str, name: tuple[str, ...], line: str) -> str:
    """Return the text with this line for a new key."""
    table, eol = name[:-1], eol_of(text)
    anchor = _anchor(text, name)
    if anchor:
        return _insert_after(text, anchor, line, eol)
    if not table:
        return line + eol + text
    start = "" if not text or text.endswith("\n") else eol
    return text + start + eol + f"[{'.'.join(table)}]" + eol + line + eol


def commented_default(text: str, name: tuple[str, ...]) -> Statement | None:
    """Return the commented-out line that a program wrote for the key's default, or None."""
    line = re.compile(rf"#[ \t]*{re.escape(name[-1])}[ \t]*=")
    comments = (comment for comment in statements(text) if comment.kind == "comment" and comment.table == name[:-1])
    return next((comment for comment in comments if line.match(text, comment.value_at)), None)


def _anchor(text: str, name: tuple[str, ...]) -> Statement | None:
    """Return the statement after which a new key belongs: the key's commented default, or else the last top-level key or the table's header. None
    without such a statement."""
    table = name[:-1]
    candidates = [statement for statement in statements(text) if statement.table == table and statement.kind == ("table" if table else "key")]
    return commented_default(text, name) or (candidates[-1] if candidates else None)


def _insert_after(text: str, anchor: Statement, line: str, eol: str) -> str:
    indent = BLANK.match(text, anchor.start).group()
    if text[anchor.start : anchor.end].endswith("\n"):
        return text[: anchor.end] + indent + line + eol + text[anchor.end :]
    return text[: anchor.end] + eol + indent + line + text[anchor.end :]
