# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the summary of a test run."""

from __future__ import annotations

import sys

from .model import ROOT, Count, Result

TAIL_LINES = 40


def paint(text: str, colour: int) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if sys.stdout.isatty() else text


def failures(results: list[Result]) -> str:
    parts = []
    for result in results:
        if result.ok and not result.reason:
            continue
        log = result.stage.log
        parts.append(paint(f"\n--- {result.stage.name} failed{': ' if result.reason else ''}{result.reason}", 31))
        if log.exists() and not result.reason.startswith("not run"):
            parts += excerpt(log.read_text(errors="replace").splitlines())
            parts.append(f"(all of it: {log.relative_to(ROOT)})")
    return "\n".join(parts)


def excerpt(lines: list[str]) -> list[str]:
    """Return the end of a log, and all earlier lines that report an error, such as lines of ansible-test."""
    before, end = lines[:-TAIL_LINES], lines[-TAIL_LINES:]
    return [line for line in before if line.startswith(("ERROR: ", "FATAL: "))][-TAIL_LINES:] + end


def table(results: list[Result]) -> str:
    width = max(len(result.stage.name) for result in results)
    rows = [f"\n{'stage':<{width}}  {'passed':>6}  {'failed':>6}  {'seconds':>7}"]
    for result in results:
        mark = paint("FAILED", 31) if not result.ok else paint("not counted", 33) if result.reason else paint("ok", 32)
        rows.append(f"{result.stage.name:<{width}}  {result.count.passed:>6}  {result.count.failed:>6}  {result.seconds:>7.1f}  {mark}")
    return "\n".join(rows)


def total(results: list[Result]) -> Count:
    return sum((result.count for result in results), Count())
