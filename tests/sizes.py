# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make sizes``: lists the long files, functions, parameter lists and task files. It only informs: length alone is no fault."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE, FUNCTION, PARAMETERS, TASK_FILE = 400, 40, 5, 60
# Parameters that only tests pass, to control the time. They are not counted.
NOT_COUNTED = {"self", "cls", "clock", "sleep"}


def main() -> None:
    plugins = sorted((ROOT / "plugins").rglob("*.py"))
    task_files = sorted([*(ROOT / "playbooks/tasks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/**/*.yml")])
    functions = list(_functions(plugins))
    _print_longer("Plugin files, in lines", FILE, _lines(plugins))
    _print_longer("Functions, in lines", FUNCTION, ((name, (node.end_lineno or 0) - node.lineno + 1) for name, node in functions))
    _print_longer("Functions, in parameters", PARAMETERS, ((name, _parameters(node)) for name, node in functions))
    _print_longer("Task files, in lines", TASK_FILE, _lines(task_files))


def _lines(paths: Iterable[Path]) -> Iterator[tuple[str, int]]:
    for path in paths:
        yield str(path.relative_to(ROOT)), len(path.read_text(encoding="utf-8").splitlines())


def _functions(paths: Iterable[Path]) -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}: {node.name}", node


def _parameters(function: ast.FunctionDef) -> int:
    arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return sum(argument.arg not in NOT_COUNTED for argument in arguments)


def _print_longer(title: str, limit: int, sizes: Iterable[tuple[str, int]]) -> None:
    longer = sorted(((size, name) for name, size in sizes if size > limit), reverse=True)
    print(f"{title}, more than {limit}: {len(longer)}")
    for size, name in longer:
        print(f"  {size:5} {name}")


if __name__ == "__main__":
    main()
