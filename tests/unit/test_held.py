# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What package managers write when a package is held."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._held import PACKAGES, PLACES, held

DPKG, DNF4, DNF5, ZYPP = (path for path, _line in PLACES)


def dpkg(*held_ones: str) -> str:
    states = {name: "hold" if name in held_ones else "install" for name in (*PACKAGES, "docker.io")}
    return "\n".join(f"Package: {name}\nStatus: {state} ok installed\nPriority: optional\n" for name, state in states.items())


TOLD = {
    "nothing": (DPKG, dpkg(), ()),
    "all, dpkg": (DPKG, dpkg(*PACKAGES), PACKAGES),
    "one, dpkg": (DPKG, dpkg("nvidia-container-toolkit"), ("nvidia-container-toolkit",)),
    "another's, dpkg": (DPKG, dpkg("docker.io"), ()),
    "one, dnf 4": (DNF4, "# Added lock\nnvidia-container-toolkit-base-0:1.20.0-1.*\nbash-0:5.1-1.*\n", ("nvidia-container-toolkit-base",)),
    "excluded, dnf 4": (DNF4, "!nvidia-container-toolkit-0:1.20.0-1.*\n", ()),
    "one, dnf 5": (
        DNF5,
        'version = "1.0"\n\n[[packages]]\nname = "nvidia-container-toolkit"\n[[packages.conditions]]\nkey = "evr"\n',
        ("nvidia-container-toolkit",),
    ),
    "all, zypper": (
        ZYPP,
        "\n".join(f"type: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: {name}\n" for name in reversed(PACKAGES)),
        PACKAGES,
    ),
}


@pytest.mark.parametrize(("place", "text", "expected"), TOLD.values(), ids=TOLD)
def test_held(tmp_path: Path, place: str, text: str, expected: tuple[str, ...]) -> None:
    moved = [(str(tmp_path / path.replace("/", "_")), line) for path, line in PLACES]
    (tmp_path / place.replace("/", "_")).write_text(text)
    assert held(moved) == list(expected)
