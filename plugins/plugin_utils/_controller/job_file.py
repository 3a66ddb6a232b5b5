# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file in which a user keeps a job.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._jobs.definition import NOTHING
from ...module_utils._jobs.options import JOB_OPTIONS
from .._stack.document import bounded

# As a Compose file has it.
X_GPU = "x-gpu"


def read(path: str) -> dict[str, Any]:
    """The user's file as options."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise GpuSwarmError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}. Fix it. {NOTHING}") from None
    try:
        found = bounded(text, path)  # by the rules of Ansible's own files, of which the module takes the same
    except GpuSwarmError as problem:
        raise GpuSwarmError(f"{problem.message} {NOTHING}") from None
    if not isinstance(found, dict):
        raise GpuSwarmError(f"{path} is no mapping of options such as name and image. {NOTHING}")
    if X_GPU in found and "x_gpu" not in found:
        found["x_gpu"] = found.pop(X_GPU)
    unknown = sorted(str(key) for key in found if key not in JOB_OPTIONS)
    if unknown:
        raise GpuSwarmError(f"{path}: {', '.join(unknown)} is not known; there are {', '.join(JOB_OPTIONS)}. {NOTHING}")
    return found
