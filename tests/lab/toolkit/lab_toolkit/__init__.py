# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the NVIDIA Container Toolkit. It follows the real one's rules about the devices that a container gets.

Read from the sources of versions 1.17.8 to 1.20.0. What it gives to containers are the lab's device nodes.
"""
