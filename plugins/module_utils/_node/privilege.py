# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that a call has root and, if it installs services, a Python that only root can change.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from .._errors import GpuSwarmError
from . import guard_need, watcher_state


def require_root(params: Mapping[str, Any]) -> None:
    if params["restart"] != "never" and os.geteuid() != 0:
        raise GpuSwarmError("this needs root on the node, but the task runs as user id %d. Add 'become: true'." % os.geteuid())


def require_own_python(params: Mapping[str, Any]) -> None:
    """Check the Python of this process if the node gets a watcher or a guard: both run with it."""
    if watcher_state.is_wanted(params) or guard_need.may_be_wanted(params):
        from .._program import own_python  # imported here, because most nodes have neither

        own_python.require_own_python()
