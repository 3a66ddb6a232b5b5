# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the project's tests in stages: python -m tests.run [--rare] [--only unit,ruff | --changed] [--list]."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext

from tests.lab.own import own_lab
from tests.runner import changed, report
from tests.runner.model import OUT, ROOT, Stage
from tests.runner.schedule import Schedule
from tests.runner.stages import check, stages


def say(text: str) -> None:
    print(text, flush=True)


def select(every: list[Stage], only: str | None) -> list[Stage]:
    if only is None:
        return every
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if not any(chosen(stage, [name]) for stage in every)]
    if unknown or not names:
        known = ", ".join(stage.name for stage in every)
        sys.exit(f"run: unknown stage: {', '.join(unknown) or '(none given)'}; known: {known}")
    return [stage for stage in every if chosen(stage, names)]


def chosen(stage: Stage, names: list[str]) -> bool:
    """Return whether a stage is selected by its own name or its first word: vermin means vermin-nodes and vermin-controller."""
    return stage.name in names or stage.name.partition("-")[0] in names


def changes() -> list[Stage]:
    base, files = changed.changed()
    more = ", …" if len(files) > 8 else ""
    say(f"since {base}: {len(files)} files, {', '.join(sorted(files)[:8])}{more}")
    return check(files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="STAGES", help="a comma list of stages")
    parser.add_argument("--rare", action="store_true", help="with the tests of rare combinations")
    parser.add_argument("--changed", action="store_true", help="lint, types and the unit tests of what was changed")
    parser.add_argument("--list", action="store_true", help="name the stages")
    options = parser.parse_args()
    if options.list:
        say("\n".join(stage.name for stage in stages(rare=options.rare)))
        return 0

    selected = changes() if options.changed else select(stages(rare=options.rare), options.only)
    summary = OUT / "summary.txt"
    summary.unlink(missing_ok=True)
    started = time.monotonic()
    say(f"{len(selected)} stages; their logs are in {OUT.relative_to(ROOT)}/")
    # Stages without a fleet may run beside another run, and must not remove its lab.
    with own_lab("test") if any("images" in stage.needs or stage.setup for stage in selected) else nullcontext():
        results = Schedule(selected, say).run()
    say(report.failures(results))
    say(report.table(results))
    count = report.total(results)
    say(f"\n{time.monotonic() - started:.0f} s")
    line = f"{count.passed} passed, {count.failed} failed"
    summary.write_text(line + "\n")
    say(line)
    return 0 if count.passed and not count.failed else 1


if __name__ == "__main__":
    sys.exit(main())
