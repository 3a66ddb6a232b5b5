# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the version of the NVIDIA Container Toolkit.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
import shutil
from typing import Callable


def read_version(run: Callable[[list[str]], tuple[int, str, str]], path: str) -> str | None:
    """Return the version that nvidia-ctk prints; None without the toolkit. ``path`` lists the directories of programs in the form of PATH."""
    ctk = shutil.which("nvidia-ctk", path=path)
    if not ctk:
        return None
    rc, out, dummy = run([ctk, "--version"])
    match = re.search(r"version\s+v?(\d+\.\d+\.\d+)", out)
    return match.group(1) if rc == 0 and match else None
