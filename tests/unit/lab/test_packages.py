# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's repositories."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpgp_keys import ARMORED, NVIDIA

from tests.lab.lab import Lab
from tests.lab.packages import fingerprint


def test_reading_the_key_leaves_the_home_directory_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home directory belongs to the user."""
    home, lab = tmp_path / "home", Lab(tmp_path / "lab")
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    served = lab.repository / "libnvidia-container"
    served.mkdir(parents=True)
    (served / "gpgkey").write_bytes(ARMORED)
    assert fingerprint(lab) == NVIDIA
    assert list(home.iterdir()) == []
