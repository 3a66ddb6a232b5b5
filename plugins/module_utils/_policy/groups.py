# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Forms groups of neighbouring GPUs, by NVLink or by PCIe (pure).

An existing group is kept while all of its cards work and are neighbours. So a failed card does not change the names of other groups.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple

from .._gpu.record import Gpu, devices_of, group_name
from . import generic_resources
from .allocation import SAME_UUID, Shares, why_unfit
from .selection import PolicyError, Rule, check_one_of, is_whole_number, pci_address

NVLINK, PCIE = "nvlink", "pcie"
BY = (NVLINK, PCIE)
# The topology levels of neighbours, nearest first. GPUs on different sockets are not neighbours.
_LEVELS = ("internal", "single", "multiple", "hostbridge", "node")

# How near two GPUs are: (the number of direct NVLinks, the topology level counted from the end of _LEVELS). A higher value is nearer.
Nearness = Tuple[int, int]
# Returns None if two GPUs are not neighbours.
Near = Callable[[Gpu, Gpu], "Nearness | None"]


def check_size(value: Any, where: str) -> None:
    if not is_whole_number(value) or int(value) < 2:
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is not a number of GPUs, at least 2.")


def check_by(value: Any, where: str) -> None:
    check_one_of(BY, value, where)


def check_group(rule: Rule, where: str) -> None:
    if "size" not in rule:
        raise PolicyError(f"{where}: a rule with as=group needs 'size', the number of GPUs in a group, such as 2.")


def check_sizes(rules: Sequence[Rule], kind_of: Callable[[Rule], str | None]) -> None:
    """Raise an error unless all groups of a kind have the same size, because a task cannot choose between sizes."""
    sizes: dict[str | None, int] = {}
    for rule in rules:
        size = int(rule["size"])
        if sizes.setdefault(kind_of(rule), size) != size:
            raise PolicyError(
                f"advertise: the kind {kind_of(rule)} is groups of {sizes[kind_of(rule)]} GPUs in one rule and of {size} in another, and a task"
                " would get one or the other. Rename one."
            )


def advertise_groups(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """Advertise groups of ``size`` neighbours. Remaining GPUs are excluded."""
    size, by = int(rule["size"]), rule.get("by", NVLINK)
    fit: dict[str, Gpu] = {}
    for gpu in sorted(gpus, key=_sort_key):
        reason = why_unfit(gpu, shares) or (SAME_UUID if gpu["uuid"] in fit else None)
        if reason:
            shares.exclude(gpu, reason)
        else:
            fit[gpu["uuid"]] = gpu
    near = _NEAR[by]
    present = shares.present.get(rule["kind"])
    groups = _valid_groups(present if isinstance(present, list) else [], fit, size, near)
    free = {uuid: gpu for uuid, gpu in fit.items() if not any(gpu in members for members in groups.values())}
    for members in form_groups(list(free.values()), size, near):
        members.sort(key=_sort_key)
        groups[group_name([member["uuid"] for member in members])] = members
        for member in members:
            del free[member["uuid"]]
    for name, members in groups.items():
        shares.add(min(members, key=lambda member: member["index"]), rule["kind"], name)
        shares.map_value(rule["kind"], name, [(member, member.get("memory_mib")) for member in members])
        for member in members:
            shares.mark_covered(member)
    for gpu in free.values():
        shares.exclude(gpu, _explain_excluded(gpu, list(fit.values()), size, by))


def _sort_key(gpu: Gpu) -> tuple[Any, ...]:
    """Return the sort key of a card: its address. An index would change when another card fails."""
    address = pci_address(gpu.get("pci_bus_id"))
    return (address is None, address or (), gpu.get("uuid") or "")


def _valid_groups(values: Sequence[str], fit: dict[str, Gpu], size: int, near: Near) -> dict[str, list[Gpu]]:
    """Return the node's existing groups that are still valid, by name."""
    valid: dict[str, list[Gpu]] = {}
    used: set[str] = set()
    for value in values:
        uuids = devices_of(value)
        members = [fit[uuid] for uuid in uuids if uuid in fit]
        if len(set(uuids)) == len(members) == size and value == group_name(uuids) and not used.intersection(uuids) and _are_near(members, near):
            valid[value] = members
            used.update(uuids)
    return valid


def _are_near(members: Sequence[Gpu], near: Near) -> bool:
    return all(near(gpu, other) is not None for index, gpu in enumerate(members) for other in members[index + 1 :])


def form_groups(free: list[Gpu], size: int, near: Near) -> list[list[Gpu]]:
    """Return groups in which all cards are neighbours of each other.

    The card with the fewest neighbours is grouped first, because the other cards have more choice. If several cards have equally few neighbours, the
    group with the nearest cards is formed first.
    """
    groups: list[list[Gpu]] = []
    while True:
        members = _best_next_group(free, size, near)
        if not members:
            return groups
        groups.append(members)
        free = [gpu for gpu in free if gpu not in members]


def _best_next_group(free: list[Gpu], size: int, near: Near) -> list[Gpu] | None:
    count = {gpu["uuid"]: len(_neighbours(gpu, free, near)) for gpu in free}
    for fewest in sorted(set(count.values())):
        candidates = [_complete_group([gpu], _neighbours(gpu, free, near), size, near) for gpu in free if count[gpu["uuid"]] == fewest]
        complete = [members for members in candidates if members]
        if complete:
            return max(complete, key=lambda members: _total_nearness([near(gpu, other) for gpu in members for other in members if gpu is not other]))
    return None


def _neighbours(gpu: Gpu, candidates: Sequence[Gpu], near: Near) -> list[Gpu]:
    return [candidate for candidate in candidates if candidate is not gpu and near(gpu, candidate) is not None]


def _complete_group(members: list[Gpu], candidates: list[Gpu], size: int, near: Near) -> list[Gpu] | None:
    """Return a group of ``members`` and the nearest candidates; None without such a group. Candidates are neighbours of all members."""
    if len(members) == size:
        return members
    while len(members) + len(candidates) >= size:
        # If several candidates are equally near, choose the first.
        nearest = max(candidates, key=lambda candidate: _total_nearness([near(candidate, member) for member in members]))
        candidates = [candidate for candidate in candidates if candidate is not nearest]
        group = _complete_group([*members, nearest], _neighbours(nearest, candidates, near), size, near)
        if group:
            return group
    return None


def _total_nearness(values: Sequence[Nearness | None]) -> Nearness:
    reached = [value for value in values if value is not None]
    return sum(links for links, _level in reached), sum(level for _links, level in reached)


def _level_rank(gpu: Gpu, other: Gpu) -> int:
    """Return how near two GPUs are by PCIe. A higher number is nearer. 0 means far or unknown."""
    topology = (gpu.get("links") or {}).get("topology") or {}
    level = topology.get(other["uuid"])
    return len(_LEVELS) - _LEVELS.index(level) if level in _LEVELS else 0


def _by_nvlink(gpu: Gpu, other: Gpu) -> Nearness | None:
    if gpu.get("name") != other.get("name"):
        return None
    links = ((gpu.get("links") or {}).get("nvlink_peers") or {}).get(other["uuid"])
    return None if links is None else (links, _level_rank(gpu, other))


def _by_pcie(gpu: Gpu, other: Gpu) -> Nearness | None:
    level = _level_rank(gpu, other)
    return (0, level) if level and gpu.get("name") == other.get("name") else None


_NEAR: dict[str, Near] = {NVLINK: _by_nvlink, PCIE: _by_pcie}
_REACHES = {NVLINK: "reaches over NVLink", PCIE: "shares a socket with"}


def _explain_excluded(gpu: Gpu, fit: Sequence[Gpu], size: int, by: str) -> str:
    links = gpu.get("links") or {}
    if by == NVLINK and links.get("nvlink_total") is None:
        reason = "it has no NVLink"
    elif by == NVLINK and not links.get("nvlink_active"):
        reason = "its NVLinks are down"
    elif by == NVLINK and not links.get("nvlink_peers"):
        reason = "its NVLinks reach no working GPU; if they lead to NVSwitches, nvidia-fabricmanager must run"
    elif len(_neighbours(gpu, fit, _NEAR[by])) < size - 1:
        reason = f"it {_REACHES[by]} fewer than {size - 1} GPUs of its model that the rule can advertise"
    else:
        reason = f"the GPUs that it {_REACHES[by]} form no other group"
    return f"it is in no group of {size}: {reason}. To advertise it alone, select it in another rule"
