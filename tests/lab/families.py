# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes nodes of another family of distributions: its package manager (cached .deb files), its files, and the commands to run."""

from __future__ import annotations

from functools import cache as once
from pathlib import Path

import yaml

from . import downloads
from .archive import Files
from .digest import content
from .lab import HERE

# Debian's rpm keeps its database in the home directory of its user.
MACROS = {"etc/rpm/macros.dbpath": "%_dbpath /var/lib/rpm\n"}


@once
def table() -> dict[str, dict]:
    return yaml.safe_load((HERE / "families.yml").read_text())


def key(release: str, family: str) -> str:
    """Return a digest of everything that this family adds to a node's image."""
    return downloads.key(release, table()[family], content(Path(__file__)))


def debs(release: str, family: str) -> list[Path]:
    """Return the packages of the family's package manager with their dependencies. The first call downloads them."""
    return sorted((_downloaded(release, family) / "debs").glob("*.deb"))


def aside(release: str, family: str) -> list[Path]:
    """Return Debian packages that the family's distribution splits into several packages."""
    return sorted((_downloaded(release, family) / "aside").glob("*.deb"))


def _downloaded(release: str, family: str) -> Path:
    words = table()[family]
    return downloads.provide(release, family, key(release, family), words["packages"], words["aside"])


def files(family: str) -> Files:
    """Return the files that this family has and Debian lacks."""
    return {path: (text.encode(), 0o644) for path, text in {**MACROS, **table()[family]["files"]}.items()}


def release(family: str | None) -> str | None:
    """Return the only Debian release that has this family's packages, or None if every release has them."""
    return table()[family].get("release") if family else None


def commands(family: str, base: str) -> list[str]:
    """Return the commands that make a node one of the family. The packages are in /root.

    dpkg unpacks and configures in two steps, because only the second step sorts packages by their dependencies.
    """
    return [
        "dpkg --unpack /root/*.deb >/dev/null",
        "dpkg --configure --pending >/dev/null",
        "rm -r /root/*.deb /usr/share/keyrings /etc/apt/sources.list.d",  # only Debian has these files
        "rpm --initdb",
        f"rpm --install /root/{base}",
        *table()[family].get("commands", []),
    ]
