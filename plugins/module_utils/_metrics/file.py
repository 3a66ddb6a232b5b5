# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics file of a swarm, which node_exporter's textfile collector reads.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os

from .._textfile import text_file

NAME = "gpu-swarm.prom"
# The value of the label ``source``: the program that wrote the file.
STATUS, REACTOR = "status", "reactor"
_REACTOR_MARK = b',source="%s"} ' % REACTOR.encode("ascii")  # no value of a label can contain this text, since its quotes are escaped


def path_in(directory: str) -> str:
    return os.path.join(directory, NAME)


def write(directory: str, text: str) -> str:
    """Write the file and return its path. Raises GpuSwarmError."""
    return text_file.write(directory, NAME, text)


def remove(directory: str) -> bool:
    """Remove the file if the service wrote it.

    Return whether the file was removed. A file from a run of the status playbook is kept. Raises GpuSwarmError.
    """
    return text_file.remove(directory, NAME, _REACTOR_MARK)
