# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dpkg import half_installed

BASE, OTHER = "nvidia-container-toolkit-base", "busybox"


def entry(package, state):
    return f"Package: {package}\nStatus: install ok {state}\nPriority: optional\n\n"


@pytest.mark.parametrize(
    ("status", "updates", "half"),
    [
        (entry(BASE, "installed"), {}, False),
        (entry(OTHER, "installed"), {}, False),
        (entry(OTHER, "unpacked"), {}, False),
        (entry(OTHER, "installed") + entry(BASE, "unpacked"), {}, True),
        (entry(BASE, "half-configured"), {}, True),
        (entry(BASE, "config-files"), {}, False),
        (entry(BASE, "installed"), {"0000": entry(BASE, "half-installed")}, True),
        (entry(BASE, "installed"), {"0009": entry(BASE, "unpacked"), "0010": entry(BASE, "installed")}, False),
        (entry(BASE, "installed"), {"tmp.i": entry(BASE, "unpacked")}, False),
    ],
)
def test_packages_that_dpkg_was_killed_over(tmp_path, status, updates, half):
    (tmp_path / "updates").mkdir()
    (tmp_path / "status").write_text(status)
    for name, text in updates.items():
        (tmp_path / "updates" / name).write_text(text)
    assert half_installed(str(tmp_path)) == half


def test_where_there_is_no_dpkg(tmp_path):
    assert not half_installed(str(tmp_path))
