# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs are advertised as one unit: neighbours, by NVLink or by PCIe (pure).

A group that the node has is kept while all of its cards are fit and neighbours, so that one that fails takes no name from another group.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple

from .._gpu.record import Gpu, devices_of, group_name
from . import generic_resources
from .allocation import SAME_UUID, Shares, unfit
from .selection import PolicyError, Rule, check_one_of, is_whole_number, pci_address

NVLINK, PCIE = "nvlink", "pcie"
BY = (NVLINK, PCIE)
# What the way between two GPUs passes through, the nearest first. Between sockets are no neighbours.
_WAYS = ("internal", "single", "multiple", "hostbridge", "node")

# The more of the first, the nearer two GPUs are, then the more of the second: links from one to the other, and places in _WAYS from the end.
Nearness = Tuple[int, int]
# None where they are no neighbours.
Near = Callable[[Gpu, Gpu], "Nearness | None"]


def check_size(value: Any, where: str) -> None:
    if not is_whole_number(value) or int(value) < 2:
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is not a number of GPUs from 2 on.")


def check_by(value: Any, where: str) -> None:
    check_one_of(BY, value, where)


def check_group(rule: Rule, where: str) -> None:
    if "size" not in rule:
        raise PolicyError(f"{where}: a rule with as=group takes 'size', how many GPUs are one unit, such as 2.")


def check_sizes(rules: Sequence[Rule], kind_of: Callable[[Rule], str | None]) -> None:
    """A task that reserves one of a kind cannot choose between two sizes."""
    sizes: dict[str | None, int] = {}
    for rule in rules:
        size = int(rule["size"])
        if sizes.setdefault(kind_of(rule), size) != size:
            raise PolicyError(
                f"advertise: the kind {kind_of(rule)} is groups of {sizes[kind_of(rule)]} GPUs in one rule and of {size} in another, and a task"
                " would get one or the other. Rename one."
            )


def group(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """So many neighbours each; what is left over is not advertised."""
    size, by = int(rule["size"]), rule.get("by", NVLINK)
    fit: dict[str, Gpu] = {}
    for gpu in sorted(gpus, key=_place):
        reason = unfit(gpu, shares) or (SAME_UUID if gpu["uuid"] in fit else None)
        if reason:
            shares.leave(gpu, reason)
        else:
            fit[gpu["uuid"]] = gpu
    near = _NEAR[by]
    now = shares.present.get(rule["kind"])
    made = _kept(now if isinstance(now, list) else [], fit, size, near)
    free = {uuid: gpu for uuid, gpu in fit.items() if not any(gpu in members for members in made.values())}
    for members in formed(list(free.values()), size, near):
        members.sort(key=_place)
        made[group_name([one["uuid"] for one in members])] = members
        for one in members:
            del free[one["uuid"]]
    for name, members in made.items():
        shares.give(min(members, key=lambda one: one["index"]), rule["kind"], name)
        shares.stand_for(rule["kind"], name, [(one, one.get("memory_mib")) for one in members])
        for one in members:
            shares.cover(one)
    for gpu in free.values():
        shares.leave(gpu, _why_left(gpu, list(fit.values()), size, by))


def _place(gpu: Gpu) -> tuple[Any, ...]:
    """What orders the cards of a node: an index moves when a card fails, an address does not."""
    address = pci_address(gpu.get("pci_bus_id"))
    return (address is None, address or (), gpu.get("uuid") or "")


def _kept(values: Sequence[str], fit: dict[str, Gpu], size: int, near: Near) -> dict[str, list[Gpu]]:
    """Of the groups that the node has, those that still are some, by their names."""
    found: dict[str, list[Gpu]] = {}
    used: set[str] = set()
    for value in values:
        uuids = devices_of(value)
        members = [fit[uuid] for uuid in uuids if uuid in fit]
        if len(set(uuids)) == len(members) == size and value == group_name(uuids) and not used.intersection(uuids) and _are_near(members, near):
            found[value] = members
            used.update(uuids)
    return found


def _are_near(members: Sequence[Gpu], near: Near) -> bool:
    return all(near(one, other) is not None for place, one in enumerate(members) for other in members[place + 1 :])


def formed(free: list[Gpu], size: int, near: Near) -> list[list[Gpu]]:
    """Groups of which each card is a neighbour of each other. Who has the fewest neighbours goes first: the others have more to choose from. Of
    several that have as few, those that are the nearest to each other do: nobody takes another's."""
    found: list[list[Gpu]] = []
    while True:
        members = _next(free, size, near)
        if not members:
            return found
        found.append(members)
        free = [one for one in free if one not in members]


def _next(free: list[Gpu], size: int, near: Near) -> list[Gpu] | None:
    count = {one["uuid"]: len(_neighbours(one, free, near)) for one in free}
    for fewest in sorted(set(count.values())):
        of_these = [_completed([one], _neighbours(one, free, near), size, near) for one in free if count[one["uuid"]] == fewest]
        made = [members for members in of_these if members]
        if made:
            return max(made, key=lambda members: _sum([near(one, other) for one in members for other in members if one is not other]))
    return None


def _neighbours(gpu: Gpu, among: Sequence[Gpu], near: Near) -> list[Gpu]:
    return [one for one in among if one is not gpu and near(gpu, one) is not None]


def _completed(members: list[Gpu], candidates: list[Gpu], size: int, near: Near) -> list[Gpu] | None:
    """These and the nearest candidates, which are neighbours of all of them; None where there is no such group."""
    if len(members) == size:
        return members
    while len(members) + len(candidates) >= size:
        nearest = max(candidates, key=lambda one: _sum([near(one, member) for member in members]))  # the first of several
        candidates = [one for one in candidates if one is not nearest]
        found = _completed([*members, nearest], _neighbours(nearest, candidates, near), size, near)
        if found:
            return found
    return None


def _sum(found: Sequence[Nearness | None]) -> Nearness:
    known = [one for one in found if one is not None]
    return sum(links for links, _way in known), sum(way for _links, way in known)


def _way(one: Gpu, other: Gpu) -> int:
    """The more, the nearer; 0 where that is far or not known."""
    topology = (one.get("links") or {}).get("topology") or {}
    way = topology.get(other["uuid"])
    return len(_WAYS) - _WAYS.index(way) if way in _WAYS else 0


def _by_nvlink(one: Gpu, other: Gpu) -> Nearness | None:
    if one.get("name") != other.get("name"):
        return None
    links = ((one.get("links") or {}).get("nvlink_peers") or {}).get(other["uuid"])
    return None if links is None else (links, _way(one, other))


def _by_pcie(one: Gpu, other: Gpu) -> Nearness | None:
    way = _way(one, other)
    return (0, way) if way and one.get("name") == other.get("name") else None


_NEAR: dict[str, Near] = {NVLINK: _by_nvlink, PCIE: _by_pcie}
_REACHES = {NVLINK: "reaches over NVLink", PCIE: "shares a socket with"}


def _why_left(gpu: Gpu, fit: Sequence[Gpu], size: int, by: str) -> str:
    links = gpu.get("links") or {}
    if by == NVLINK and links.get("nvlink_total") is None:
        why = "it has no NVLink"
    elif by == NVLINK and not links.get("nvlink_active"):
        why = "its NVLinks are down"
    elif by == NVLINK and not links.get("nvlink_peers"):
        why = "by its NVLinks it reaches no GPU that works; where these lead to NVSwitches, nvidia-fabricmanager has to run"
    elif len(_neighbours(gpu, fit, _NEAR[by])) < size - 1:
        why = f"of the GPUs of its model that the rule can advertise it {_REACHES[by]} fewer than {size - 1}"
    else:
        why = f"the GPUs that it {_REACHES[by]} make no other group"
    return f"it is in no group of {size}: {why}. Give it to another rule with 'select' if it is to stay alone"
