# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds misspelt names of settings and groups (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from .declaration import FACTS, PREFIXES

# How similar the names must be after their prefix.
MIN_SIMILARITY = 0.8
# How many hosts a message names.
MAX_HOSTS = 5
# Groups of nodes with other processors, such as cpu_nodes: one letter away from gpu_nodes, but not misspelt.
OTHER_NODES = re.compile(r"[a-z]pu_nodes")


class Names:
    """Finds the intended setting for a misspelt name. ``known`` has the names of all settings."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = {*known, *FACTS}
        # Two names are one edit apart if they become equal once a letter is removed from one or both. A lookup of shortened names avoids a
        # comparison with every setting.
        self._shortened = {short: name for name in known for short in _shortened(name)}
        self._not_misspelt = set(self._known)

    def misspelt(self, names: Set[str]) -> dict[str, str]:
        """Return the misspelt names, each with the setting that was meant."""
        meant_by_name = {name: self.meant(name) for name in sorted(name for name in names - self._not_misspelt if isinstance(name, str))}
        self._not_misspelt.update(name for name, meant in meant_by_name.items() if meant is None)  # most hosts have the same variables
        return {name: meant for name, meant in meant_by_name.items() if meant}

    def meant(self, name: str) -> str | None:
        """Return the setting that was meant, or None if the name is a setting or resembles none."""
        return None if name in self._known or name.startswith(("_", "ansible_")) else self._close(name)

    def _close(self, name: str) -> str | None:
        one_edit = next((self._shortened[short] for short in _shortened(name) if short in self._shortened), None)
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
        if one_edit or prefix is None:
            return one_edit
        rests = [known.removeprefix(prefix) for known in self._known if known.startswith(prefix) and known not in FACTS]
        similar = difflib.get_close_matches(name.removeprefix(prefix), rests, 1, MIN_SIMILARITY)
        # gpu_node_advertise_h100 is a user's own variable, from which gpu_node_advertise may be assembled.
        return prefix + similar[0] if similar and not name.startswith(f"{prefix}{similar[0]}_") else None


def _shortened(name: str) -> set[str]:
    return {name, *(name[:index] + name[index + 1 :] for index in range(len(name)))}


def misspelt_error(name: str, meant: str) -> str:
    return f"{name} is not a setting. Write {meant}, or rename it if it is a variable of your own."


def misspelt_groups(groups: Mapping[str, Sequence[str]], known: Sequence[str]) -> Iterator[str]:
    """Yield an error for each misspelt group of an inventory, because its hosts would silently be ignored. ``known`` has the right names.

    Upper case and hyphens do not matter. A group is fine if its hosts are also in the right group, such as ``gpu_nodes1`` below ``gpu_nodes``.
    """
    names = Names(known)
    for group in sorted(groups.keys() - set(known)):
        plain = group.lower().replace("-", "_")
        near = None if OTHER_NODES.fullmatch(plain) else names.meant(plain)
        meant = plain if plain in known else near
        ignored = [host for host in groups[group] if host not in groups.get(meant or "", ())]
        if meant and ignored:
            named = ", ".join(ignored[:MAX_HOSTS]) + (f" and {len(ignored) - MAX_HOSTS} more" if len(ignored) > MAX_HOSTS else "")
            yield (
                f"The inventory has {named} in the group {group}, but not in {meant}. Rename the group to {meant}. If {group} is a group of your "
                f"own, give it another name, or add its hosts to {meant} too."
            )
