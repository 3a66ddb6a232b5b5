# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JAX within a task's share of a card: import this in place of jax, or before it."""

import os

fraction = os.environ.get("GPU_MEMORY_FRACTION")
if fraction:  # else the task has a whole GPU, of which JAX takes three quarters
    os.environ["XLA_CLIENT_MEM_FRACTION"] = fraction
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = fraction  # its name in earlier releases

# It reads the variables when it is imported.
import jax  # noqa: E402, F401  # pylint: disable=unused-import
