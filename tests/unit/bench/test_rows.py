# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the table in docs/reference/benchmarks.md. It has only rows that the benchmark prints. Each ratio is computed from the two figures of its
row.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import many_hosts, parts, roll

ROOT = Path(__file__).parents[3]
# Constants of the benchmark that appear in names. The other parts of a name are numbers, sizes and the like.
MEASURED = ("check_run", "guard", "ledger_read", "nvml_read", "out_of_service", "queue_decision", "queue_simulation", "watcher")
PUT_IN = r"[^:/]+"


class Yard:
    @contextlib.contextmanager
    def fleet(self, _nodes: int, *, ssh: bool = False) -> Iterator[None]:
        yield None


class Figures(dict[str, float]):
    """Returns a figure for every name."""

    def __missing__(self, _name: str) -> float:
        return 1.0


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
    """Return a function that says whether the benchmark prints a row with this name."""

    def medians(_fleet: Any, _rounds: int, runs: dict[str, Any]) -> tuple[dict[str, float], Figures]:
        return dict.fromkeys(runs, 1.0), Figures()

    monkeypatch.setattr(parts, "_no_change_medians", medians)
    monkeypatch.setattr(parts, "play_first", lambda *_words: 1.0)
    monkeypatch.setattr(parts, "recipe", lambda _fleet: 1.0)
    yard: Any = Yard()
    made = parts.no_change(yard, 1, [3, 12, 48]) + parts.first_run(yard, 1) + roll.rows([a_roll(nodes) for nodes in roll.SIZES])
    made += many_hosts.rows(dict.fromkeys(many_hosts.RUNS, many_hosts.Cost(1.0, 1.0, 1.0)))
    exact, forms = {one["name"] for one in made}, [form for module in MEASURED for form in forms_of(module)]
    return lambda name: name in exact or any(re.fullmatch(form, name) for form in forms)


def a_roll(nodes: int) -> roll.Roll:
    steps = {name: roll.Step(1.0, 1.0, 1) for name in roll.GROWING.values()}
    return roll.Roll(nodes, nodes // 2, steps, 1.0, 1.0, float(nodes * nodes), {"GET": 1}, {True: 1, False: 1}, {True: 1, False: 1})


def forms_of(module: str) -> list[str]:
    """Return patterns for the names of a module's rows, with a wildcard for each part that the module fills in."""
    tree = ast.parse((ROOT / "tests" / "bench" / f"{module}.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "row"]
    named = {
        node.targets[0].id: node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }  # fmt: skip
    return [form(call.args[0], named) for call in calls]


def form(name: ast.expr, named: dict[str, ast.expr]) -> str:
    if isinstance(name, ast.Name) and name.id in named:
        return form(named[name.id], named)
    if isinstance(name, ast.Constant):
        return re.escape(name.value) if isinstance(name.value, str) else r"[\d.]+"
    if isinstance(name, ast.JoinedStr):
        return "".join(form(part.value if isinstance(part, ast.FormattedValue) else part, named) for part in name.values)
    return PUT_IN


def table() -> list[list[str]]:
    text = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```text\nwhat .*\n─.*\n((?:.*\n)+?)```$", text, re.MULTILINE)
    return [re.split(r"  +", line.strip()) for line in block.splitlines()]


def test_the_page_has_only_rows_that_the_benchmark_prints(printed: Callable[[str], bool]) -> None:
    names = [name for name, *_figures in table()]
    assert len(names) > 20
    assert [name for name in names if not printed(name)] == []


@pytest.mark.parametrize("name", ["no change, 24 nodes: provision / ping (s)", "roll, a node of 200 / of 100: time (s)", "read 8 GPUs (s)"])
def test_a_row_that_the_benchmark_does_not_print_is_noticed(name: str, printed: Callable[[str], bool]) -> None:
    assert not printed(name)


def test_ratios_follow_from_the_figures() -> None:
    """Checks the ratio as exactly as the figures are rounded. The last column says whether the goal is met."""
    wrong = []
    for name, value, reference, ratio, *goal in table():
        one, other, said = float(value), float(reference), float(ratio)
        digits = [0.5 * 10 ** -len(figure.partition(".")[2]) for figure in (value, reference)]
        least, most = (one - digits[0]) / (other + digits[1]), (one + digits[0]) / (other - digits[1])
        if not least - 0.006 <= said <= most + 0.006:
            wrong.append(f"{name}: {one / other:.2f}, not {ratio}")
        if goal and ("yes" if said <= float(goal[0]) else "NO") != goal[1]:
            wrong.append(f"{name}: {goal}")
    assert wrong == []


def test_the_cost_of_one_more_host_follows_from_the_cost_of_all_and_of_one() -> None:
    one, all_of_them = many_hosts.Cost(50.0, 2.0, 1.0), many_hosts.Cost(50.0 + 499, 2.0 + 2 * 499, 1.0 + 4 * 499)
    assert many_hosts.per_host(one, all_of_them) == (1.0, 2.0, 4.0)
    names = [row["name"] for row in many_hosts.rows(dict.fromkeys(many_hosts.RUNS, one))]
    assert [("memory" in name, "time" in name, "CPU" in name) for name in names] == [(True, False, False), (False, True, False), (False, False, True)]


def test_the_readme_has_only_figures_of_the_table() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    rows = {name: figures for name, *figures in table()}
    unchanged, status = rows["no change, 48 nodes: provision / ping (s)"], rows["status, 12 nodes / ping of one host (s)"]
    out = rows["a node is out: emptied until active / restart of dockerd (1.9 s) and 1.5 s (s)"]
    assert f"A run over 48 nodes that changes nothing takes {float(unchanged[2]):.1f} times as long as a `ping` of them." in text
    assert f"`status` takes {float(status[2]):.1f} times as long as a `ping` of one host." in text
    assert f"out of service for {float(out[0]):.0f} seconds." in text
