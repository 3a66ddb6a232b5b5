# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch within a task's share of a card: import this before anything is allocated."""

import os

import torch

fraction = os.environ.get("GPU_MEMORY_FRACTION")
if fraction:  # otherwise the task has a whole GPU
    # Beyond this fraction, the allocator raises torch.OutOfMemoryError. Each child process must set the fraction for itself.
    torch.cuda.set_per_process_memory_fraction(float(fraction))
