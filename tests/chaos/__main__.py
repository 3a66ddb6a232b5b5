# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m tests.chaos [OPTIONS OF PYTEST]: runs the chaos tests in a separate lab."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab.lab import CHECKOUT
from tests.lab.own import own_lab


def main() -> int:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--maxfail", "1", str(Path(__file__).parent), *sys.argv[1:]]
    with own_lab("chaos"):
        return subprocess.run(command, cwd=CHECKOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
