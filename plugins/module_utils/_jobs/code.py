# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code that the timer starts, as Ansible sends it along with a module, which it does with what is imported, wherever that is.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from .._program import sources as program_sources

# What it imports, and nothing else. A test compares.
FILES = (
    "_errors.py",
    "_files.py",
    "_gpu/cards.py",
    "_gpu/record.py",
    "_guard/refusal.py",
    "_health/allocation_findings.py",
    "_health/label.py",
    "_jobs/definition.py",
    "_jobs/finished.py",
    "_jobs/hourly.py",
    "_jobs/job_mounts.py",
    "_jobs/job_progress.py",
    "_jobs/logs.py",
    "_jobs/prune.py",
    "_jobs/removal.py",
    "_mask.py",
    "_placement/node_match.py",
    "_policy/generic_resources.py",
    "_printable.py",
    "_secret_names.py",
    "_swarm/failures.py",
    "_swarm/go_templates.py",
    "_swarm/image_name.py",
    "_swarm/isolation.py",
    "_swarm/json_stream.py",
    "_swarm/lease.py",
    "_swarm/log_stream.py",
    "_swarm/manager.py",
    "_swarm/owned_labels.py",
    "_tasks/job_completion.py",
    "_tasks/tasks.py",
)
START = "import sys\n\nfrom %s._jobs.hourly import main\n\nsys.exit(main())\n" % program_sources.PACKAGE


def sources() -> dict[str, bytes]:
    """What is kept on a manager, by path."""
    return program_sources.program(FILES, START)


def version() -> str:
    return program_sources.version(sources())
