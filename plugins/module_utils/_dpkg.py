# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether dpkg was killed while it had the toolkit's packages in hand: apt refuses any work until that is mended.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import glob
import os
import re

ROOT = "/var/lib/dpkg"
STATUS = re.compile(rb"^Package: (libnvidia-container1|libnvidia-container-tools|nvidia-container-toolkit(?:-base)?)\nStatus: \S+ \S+ (\S+)$", re.M)
HALF = (b"half-installed", b"unpacked", b"half-configured")


def half_installed(root=ROOT):
    """Whether any of the packages is neither installed nor gone. Elsewhere than with dpkg, none is."""
    found = {}
    # What dpkg has done since it wrote its status, in files with numbers for names.
    for path in [os.path.join(root, "status"), *sorted(glob.glob(os.path.join(glob.escape(root), "updates", "[0-9]*")))]:
        try:
            with open(path, "rb") as stream:
                found.update(STATUS.findall(stream.read()))
        except FileNotFoundError:
            pass  # no dpkg, or it has gone on meanwhile
    return any(state in HALF for state in found.values())
