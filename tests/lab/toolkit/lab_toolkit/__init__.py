# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the NVIDIA Container Toolkit. It gives containers devices by the same rules as the real toolkit.

The rules are from the sources of versions 1.17.8 to 1.20.0. The devices are the lab's device nodes.
"""
