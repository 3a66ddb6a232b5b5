# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of settings and groups, and those that nearly are one (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from .declaration import FACTS, PREFIXES

# How much of the rest of a name has to be the same.
CLOSE = 0.8
# How many hosts of a misspelt group are named.
NAMED = 5
# Groups of nodes with another kind of processor: one letter away from gpu_nodes, and meant so.
OTHER_NODES = re.compile(r"[a-z]pu_nodes")


class Names:
    """Which setting a name was meant to be. ``known`` are the names of all settings."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = {*known, *FACTS}
        # Two names are an edit apart where both become the same when a letter is left out of one or of each. Looking that up takes
        # no comparison with every setting.
        self._shortened = {short: name for name in known for short in _shortened(name)}
        self._fine = set(self._known)

    def misspelt(self, names: Set[str]) -> dict[str, str]:
        """Of these names those that nearly are a setting, with the setting that was meant."""
        found = {name: self.meant(name) for name in sorted(name for name in names - self._fine if isinstance(name, str))}
        self._fine.update(name for name, meant in found.items() if meant is None)  # the hosts of a fleet share most of their names
        return {name: meant for name, meant in found.items() if meant}

    def meant(self, name: str) -> str | None:
        """The setting that this name nearly is; None for a setting, and for what has nothing to do with one."""
        return None if name in self._known or name.startswith(("_", "ansible_")) else self._close(name)

    def _close(self, name: str) -> str | None:
        one_edit = next((self._shortened[short] for short in _shortened(name) if short in self._shortened), None)
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
        if one_edit or prefix is None:
            return one_edit
        rests = [known.removeprefix(prefix) for known in self._known if known.startswith(prefix) and known not in FACTS]
        found = difflib.get_close_matches(name.removeprefix(prefix), rests, 1, CLOSE)
        # gpu_node_advertise_h100 is a variable of the user's own, from which gpu_node_advertise may be put together.
        return prefix + found[0] if found and not name.startswith(f"{prefix}{found[0]}_") else None


def _shortened(name: str) -> set[str]:
    return {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}


def misspelt(name: str, meant: str) -> str:
    return f"{name} is no setting: write {meant}, or give a variable of your own another name."


def misspelt_groups(groups: Mapping[str, Sequence[str]], known: Sequence[str]) -> Iterator[str]:
    """Errors for groups of an inventory whose name is nearly one of ``known``: their hosts would silently be left out.

    Upper case and hyphens do not count. A group whose hosts are all in the right one too does no harm, such as ``gpu_nodes1`` below ``gpu_nodes``.
    Nor does ``cpu_nodes``, a group of its own.
    """
    names = Names(known)
    for group in sorted(groups.keys() - set(known)):
        plain = group.lower().replace("-", "_")
        near = None if OTHER_NODES.fullmatch(plain) else names.meant(plain)
        meant = plain if plain in known else near
        lost = [host for host in groups[group] if host not in groups.get(meant or "", ())]
        if meant and lost:
            named = ", ".join(lost[:NAMED]) + (f" and {len(lost) - NAMED} more" if len(lost) > NAMED else "")
            yield (
                f"The inventory has {named} in the group {group}, and not in {meant}: write {meant}. If the group is meant as it is, give it another "
                f"name, or put its hosts into {meant} too."
            )
