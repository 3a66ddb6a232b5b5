# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Explains by the groups of the inventory why a run would have no host (pure).

Ansible skips a play without hosts and reports success, so a misspelt group would look like a healthy fleet.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import PurePath

# Every inventory has these groups.
ANSIBLE_GROUPS = ("all", "ungrouped")


def are_all_of_this_collection(playbooks: Sequence[str]) -> bool:
    """Return whether all these arguments of ansible-playbook are playbooks of this collection, by name or by path."""
    return bool(playbooks) and all(
        name.startswith("fleet.gpu_swarm.") or PurePath(name).parts[-4:-1] == ("fleet", "gpu_swarm", "playbooks") for name in playbooks
    )


def no_hosts_reason(groups: Mapping[str, Sequence[str]], wanted: Sequence[str], limited: Sequence[str] | None = None) -> str:
    """Return why no group of ``wanted`` has a host in this run, or ''. ``limited`` are the hosts that ``--limit`` leaves."""
    members = [host for group in wanted for host in groups.get(group, ())]
    if not members:
        return f"There is no host to work on: {_describe_missing(wanted, groups)}. {_describe_inventory(groups, wanted)}"
    if limited is None or set(members) & set(limited):
        return ""
    matched = f"it leaves {', '.join(limited)}" if limited else "it leaves no host at all"
    return f"There is no host to work on: --limit leaves none of {_join(wanted)}; {matched}. Name hosts of these groups in --limit."


def _describe_missing(wanted: Sequence[str], groups: Mapping[str, Sequence[str]]) -> str:
    existing = [group for group in wanted if group in groups]
    if len(wanted) == 1:
        return f"the group {wanted[0]} is {'empty' if existing else 'not in the inventory'}"
    return f"none of the groups {_join(wanted)} has a host"


def _describe_inventory(groups: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> str:
    """Describe the groups that the inventory has instead, and what to do."""
    other_groups = [group for group in groups if group not in ANSIBLE_GROUPS and group not in wanted]
    if not groups.get("all"):
        return "The inventory has no hosts at all. Give one with -i."
    corrections = [
        f"{close[0]} by {group}" for group in other_groups if (close := difflib.get_close_matches(group.lower().replace("-", "_"), wanted, 1, 0.75))
    ]
    listed = f"It has the groups {', '.join(other_groups)}" if other_groups else "It has no groups"
    question = f" Did you mean {' and '.join(corrections)}?" if corrections else ""
    return f"{listed}.{question} Put hosts into {_join(wanted)}, and run this again."


def _join(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
