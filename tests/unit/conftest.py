# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data and helpers that several tests need are in support/. Tests import these modules by their plain names."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

importlib.import_module("checkout")  # imported for its side effect: the tests that pytest collects next can import the collection

# The duration of an example depends on the load of the machine, so a slow example is not a failure.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True, scope="session")
def _own_temporary_directory(tmp_path_factory):
    """Give each test run its own temporary directory. A killed AnsibleModule leaves its directory behind."""
    with pytest.MonkeyPatch.context() as patched:
        directory = str(tmp_path_factory.mktemp("modules"))
        patched.setenv("TMPDIR", directory)
        patched.setattr(tempfile, "tempdir", directory)
        yield
