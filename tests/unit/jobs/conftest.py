# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module swarm_job on a swarm with queues. A test file has the fixtures ``swarm`` and ``job``, the options of its job."""

from __future__ import annotations

import pytest
from queue_swarm import Driver

from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_job as module


@pytest.fixture
def rounds(swarm):
    return Driver(swarm).rounds


@pytest.fixture
def run(monkeypatch, tmp_path, swarm, job):
    monkeypatch.setattr(module, "connect", lambda params: swarm)

    def call(check_mode=False, **options):
        return module.run({**job, "log_directory": str(tmp_path), **options}, check_mode)

    return call
