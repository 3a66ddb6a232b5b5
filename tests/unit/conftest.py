# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What several tests need lies in support/, importable by its plain name."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

importlib.import_module("checkout")  # for what it does: the tests that are collected next can import the collection

# How long an example takes hangs on what else the machine does, and is no result of a test.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True, scope="session")
def _own_temporary_directory(tmp_path_factory):
    """AnsibleModule makes a directory for itself and removes it when its process ends: one that a test kills leaves it behind."""
    with pytest.MonkeyPatch.context() as patched:
        directory = str(tmp_path_factory.mktemp("modules"))
        patched.setenv("TMPDIR", directory)
        patched.setattr(tempfile, "tempdir", directory)
        yield
