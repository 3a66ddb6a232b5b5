# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file in which a node's watcher writes metrics of the cards, for node_exporter.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import os

from .._errors import GpuSwarmError
from .._textfile import text_file

NAME = "gpu-swarm-cards.prom"
_MARK = b"# HELP gpu_swarm_cards_read_timestamp_seconds "  # the beginning of the watcher's own file
# The watcher has its own temporary directories, which are removed when it stops.
_PRIVATE = ("/tmp", "/var/tmp")


def check_directory(directory: str) -> None:
    """Raise GpuSwarmError if the watcher cannot write to a directory with this path."""
    real = os.path.realpath(directory)
    if not os.path.isabs(directory) or any(os.path.commonpath([real, private]) == private for private in _PRIVATE):
        raise GpuSwarmError(
            "textfile is %s, but must be an absolute path outside /tmp and /var/tmp. The watcher of the GPUs has a private /tmp and /var/tmp. "
            "Set the directory that node_exporter reads (--collector.textfile.directory)." % directory
        )


def remove(directory: str | None) -> None:
    """Remove the file if the watcher writes to a directory. A failure is ignored, because the file says when it was written."""
    if directory:
        with contextlib.suppress(GpuSwarmError):
            text_file.remove(directory, NAME, _MARK)
