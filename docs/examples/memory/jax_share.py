# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JAX within a task's share of a card: import this instead of jax, or before jax."""

import os

fraction = os.environ.get("GPU_MEMORY_FRACTION")
if fraction:  # otherwise the task has a whole GPU, and JAX takes three quarters of its memory
    os.environ["XLA_CLIENT_MEM_FRACTION"] = fraction
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = fraction  # the variable's name in earlier releases of JAX

# JAX reads the variables when it is imported.
import jax  # noqa: E402, F401  # pylint: disable=unused-import
