# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of another family of distributions: the .deb files of its package manager, cached, and what else makes a node one of it."""

from __future__ import annotations

from functools import cache as once
from pathlib import Path

import yaml

from . import downloads
from .archive import Files
from .digest import content
from .lab import HERE

# Debian's rpm has its database in the home directory of whoever runs it.
MACROS = {"etc/rpm/macros.dbpath": "%_dbpath /var/lib/rpm\n"}


@once
def table() -> dict[str, dict]:
    return yaml.safe_load((HERE / "families.yml").read_text())


def key(release: str, family: str) -> str:
    """Changes with anything of the family that goes into a node's image."""
    return downloads.key(release, table()[family], content(Path(__file__)))


def debs(release: str, family: str) -> list[Path]:
    """Of the family's package manager, with all that it needs. They are downloaded when they are first needed."""
    return sorted((_provided(release, family) / "debs").glob("*.deb"))


def aside(release: str, family: str) -> list[Path]:
    """Packages of which the family's distribution has parts."""
    return sorted((_provided(release, family) / "aside").glob("*.deb"))


def _provided(release: str, family: str) -> Path:
    words = table()[family]
    return downloads.provided(release, family, key(release, family), words["packages"], words["aside"])


def files(family: str) -> Files:
    """What such a distribution has, and Debian has not."""
    return {path: (text.encode(), 0o644) for path, text in {**MACROS, **table()[family]["files"]}.items()}


def release(family: str | None) -> str | None:
    """The one of which all nodes of the family are; None: they may be of any."""
    return table()[family].get("release") if family else None


def commands(family: str, base: str) -> list[str]:
    """By which a node becomes one of the family, with the packages in /root. In two steps, since dpkg brings only the second into an order."""
    return [
        "dpkg --unpack /root/*.deb >/dev/null",
        "dpkg --configure --pending >/dev/null",
        "rm -r /root/*.deb /usr/share/keyrings /etc/apt/sources.list.d",  # Debian's, which such a distribution has not
        "rpm --initdb",
        f"rpm --install /root/{base}",
        *table()[family].get("commands", []),
    ]
