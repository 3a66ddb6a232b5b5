# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorFlow within a task's share of a card: import this before anything is computed."""

import os

import tensorflow as tf

OVERHEAD_MIB = 300  # what CUDA takes in addition to TensorFlow's own memory; use the value of gpu_node_cuda_overhead_mib
share = os.environ.get("MAX_CONTAINER_MEMORY")
if share:  # otherwise the task has a whole GPU
    (gpu,) = tf.config.list_physical_devices("GPU")
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=int(share) - OVERHEAD_MIB)
    tf.config.set_logical_device_configuration(gpu, [limit])
