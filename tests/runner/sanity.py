# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-test sanity of another ansible-core: python -m tests.runner.sanity oldest [--python 3.8 --test import …]"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.lab.lab import LabError

from . import cores, tree
from .model import BUILD


def main(core: cores.Core, python: str, words: list[str]) -> None:
    base = BUILD / f"sanity-{core.name}-{python}"
    environment = {**cores.environment(core), "HOME": str(tree.sanity_home(base))}
    if python != core.python:
        found = cores.find(python)
        if not found:
            raise cores.NoPython(cores.missing(python))
        # Otherwise the first one found would be pyenv's command of this name, which may not run.
        environment["PATH"] = os.pathsep.join([str(core.interpreter.parent), str(Path(found).parent), environment["PATH"]])
    before, _versions = cores.provide(core)
    tree.prepare_sanity(tree.files(), base, [*before, str(core.interpreter)])
    full = [*before, "ansible-test", "sanity", "--python", python, "--color", "no", *words]
    os.chdir(tree.sanity(base))
    os.execvpe(full[0], full, environment)


if __name__ == "__main__":
    chosen, more = cores.CORES[sys.argv[1]], sys.argv[2:]
    version = more.pop(more.index("--python") + 1) if "--python" in more else chosen.python
    try:
        main(chosen, version, [word for word in more if word != "--python"])
    except (cores.NoPython, LabError) as error:
        sys.exit(f"{chosen.name}: {error}")
