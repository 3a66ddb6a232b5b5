# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads from package managers which packages of the toolkit are held, and which packages a killed dpkg left unfinished."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.packages import (
    HELD_FILES,
    PACKAGES,
    UNFINISHED,
    held_packages,
    is_half_installed,
)

DPKG, DNF4, DNF5, ZYPP = (path for path, _line in HELD_FILES)
BASE, OTHER = "nvidia-container-toolkit-base", "busybox"


ROLE = Path(__file__).resolve().parents[3] / "roles" / "nvidia_container_toolkit" / "vars" / "main.yml"


def test_the_role_installs_the_packages_that_the_module_reads():
    assert tuple(yaml.safe_load(ROLE.read_text(encoding="utf-8"))["_nvidia_container_toolkit_packages"]) == PACKAGES


def entry(package: str, state: str = "installed", want: str = "install") -> str:
    return f"Package: {package}\nStatus: {want} ok {state}\nPriority: optional\n\n"


def dpkg(*held_ones: str) -> str:
    return "".join(entry(name, want="hold" if name in held_ones else "install") for name in (*PACKAGES, OTHER))


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


RECORDED = {
    "nothing": (DPKG, dpkg(), ()),
    "all, dpkg": (DPKG, dpkg(*PACKAGES), PACKAGES),
    "one, dpkg": (DPKG, dpkg(BASE), (BASE,)),
    "another's, dpkg": (DPKG, dpkg(OTHER), ()),
    "one, dnf 4": (DNF4, "# Added lock\nnvidia-container-toolkit-base-0:1.20.0-1.*\nbash-0:5.1-1.*\n", (BASE,)),
    "excluded, dnf 4": (DNF4, "!nvidia-container-toolkit-0:1.20.0-1.*\n", ()),
    "one, dnf 5": (
        DNF5,
        'version = "1.0"\n\n[[packages]]\nname = "nvidia-container-toolkit-base"\n[[packages.conditions]]\nkey = "evr"\n',
        (BASE,),
    ),
    "all, zypper": (
        ZYPP,
        "\n".join(f"type: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: {name}\n" for name in reversed(PACKAGES)),
        PACKAGES,
    ),
}


@pytest.mark.parametrize(("path", "text", "expected"), RECORDED.values(), ids=RECORDED)
def test_held_packages_are_found(tmp_path: Path, path: str, text: str, expected: tuple[str, ...]) -> None:
    write(tmp_path, path, text)
    assert held_packages(str(tmp_path)) == list(expected)


@pytest.mark.parametrize(
    ("status", "updates", "half"),
    [
        (entry(BASE), {}, False),
        (entry(OTHER, "unpacked"), {}, False),
        (entry(OTHER) + entry(BASE, "unpacked"), {}, True),
        (entry(BASE, "half-configured"), {}, True),
        (entry(BASE, "config-files"), {}, False),
        (entry(BASE), {"0000": entry(BASE, "half-installed")}, True),
        (entry(BASE), {"0009": entry(BASE, "unpacked"), "0010": entry(BASE)}, False),
        (entry(BASE), {"tmp.i": entry(BASE, "unpacked")}, False),
    ],
)
def test_packages_that_a_killed_dpkg_left_unfinished_are_found(tmp_path: Path, status: str, updates: dict[str, str], half: bool) -> None:
    write(tmp_path, DPKG, status)
    for name, text in updates.items():
        write(tmp_path, f"var/lib/dpkg/updates/{name}", text)
    assert is_half_installed(str(tmp_path)) == half


def test_packages_that_a_killed_rpm_left_unfinished_are_found(tmp_path: Path) -> None:
    """rpm does not record unfinished packages, so the role writes a mark file while it works."""
    write(tmp_path, UNFINISHED, "")
    assert is_half_installed(str(tmp_path))
    role = yaml.safe_load(ROLE.read_text(encoding="utf-8"))
    directory, name = "{{ _nvidia_container_toolkit_state_dir }}", Path(UNFINISHED).name
    assert role["_nvidia_container_toolkit_unfinished"] == f"{directory}/{name}"
    assert role["_nvidia_container_toolkit_state_dir"] == str(Path("/") / Path(UNFINISHED).parent)


def test_without_a_known_package_manager_nothing_is_found(tmp_path: Path) -> None:
    assert (held_packages(str(tmp_path)), is_half_installed(str(tmp_path))) == ([], False)
