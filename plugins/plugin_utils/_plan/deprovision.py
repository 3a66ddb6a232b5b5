# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans what deprovision removes on each host (pure), from the assessments and the ledger.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._placement.availability import NOTES
from ...module_utils._swarm import owned_labels
from .._fleet.identity import BOUND, LABEL_PREFIX
from .._fleet.membership import Candidate, demotion_error, membership
from .._fleet.model import IDLE, MARKED, PREPARE, WINDOW_MANAGERS, Host, PlannedWork, Removal, Step, Swarm
from .._fleet.workload import CONTAINERS, NOTHING, TASKS
from .._settings.declaration import ALL
from .impact import RELEASES, RESTARTS
from .provision import apply_disruption_policy, complete_step, nodes_as_in_docker, with_identity_errors

# A label with the host's name, set before a node leaves. If a run is killed, the next run finds the node's entry by this label. The host no
# longer has a node id, and host names of nodes are not unique.
LEAVING = "gpu-swarm-leaving"

# The steps of a removal in their order, each with the text for the plan and the text for the result.
STEP_TEXTS = {
    "labels": ("removes node labels", "node labels"),
    "configure": ("restores its files", "files"),
    "restart": (RESTARTS, "generic resources"),
    "hold": (RELEASES, ""),
    "packages": ("removes the NVIDIA Container Toolkit", "toolkit"),
    "repository": ("removes the repository of the NVIDIA Container Toolkit, which is not installed", "repository"),
    "state": ("clears /var/lib/gpu-swarm", ""),
    "leave": ("leaves the swarm", "membership"),
    "dissolve": ("ends the swarm, because it is the last manager", ""),
    "entry": ("is removed from the manager's list of nodes", "list of nodes"),
}

# The steps that are done at the latest when the files are restored.
UP_TO_FILES = ("labels", "configure", "restart")

# The contents of the swarm, by the names of Docker's API: services, secrets, configs.
Contents = Mapping[str, list[str]]


def plan(hosts: list[Host], swarm: Swarm, contents: Contents | None) -> dict[str, Step]:
    """Return the step of each host, by name. ``contents`` is None if the contents of the swarm could not be read."""
    nodes = swarm.nodes
    hosts = with_identity_errors(hosts, nodes)
    leaving: dict[str, str] = {}
    steps: dict[str, Step] = {}

    def leave_order(host: Host) -> tuple[bool, bool]:
        node = nodes.get(host.node_id or "", {})
        return node.get("role") == "manager", bool(node.get("leader"))

    # The plan of each manager assumes that all managers before it have left.
    for host in sorted(hosts, key=leave_order):
        node = nodes.get(host.node_id or "")
        step = complete_step(_decide(host, node, swarm, leaving, contents), host, node)
        if step.removal and step.removal.entry:
            leaving[step.removal.entry] = host.name
        elif node and "leave" in step.needs and not step.work.left_alone:
            leaving[node["id"]] = host.name
        steps[host.name] = step
    return {host.name: steps[host.name] for host in hosts}


def _decide(host: Host, node: dict[str, Any] | None, swarm: Swarm, leaving: dict[str, str], contents: Contents | None) -> Step:
    error = (
        host.unfit
        or _packages_held(host)
        or _used_by_docker(host)
        or _membership_error(host, node, swarm)
        or _manager_error(host, node, swarm, leaving)
    )
    if error or not host.assessed:
        return Step(error=error, removal=Removal())
    remains = _reason_to_stay(host, node, swarm, leaving, contents) if _is_last(host, node, swarm, leaving) else None
    leaves = _would_leave(host) and not remains
    entry = None if _in_a_swarm(host) else _old_entry(host, swarm)
    # The mark shows to which host this entry belongs. The mark is removed with the node, or with the other labels.
    mark = owned_labels.KEEP if leaves else owned_labels.REMOVE
    removal = Removal({LEAVING: host.name} if leaves and node else {}, mark, remains, entry)
    step = Step(work=PlannedWork(host.disrupt), removal=removal)
    step.needs = _needs(host, node, leaves, entry, _is_last(host, node, swarm, leaving))
    step.impact = _impact(step, contents)
    step.work.stops = _stops(step)
    if step.needs:
        windowed = [WINDOW_MANAGERS if node and node["role"] == "manager" else IDLE, MARKED]
        apply_disruption_policy(step, host, node, swarm, windowed if node else [PREPARE])
    return step


def _needs(host: Host, node: dict[str, Any] | None, leaves: bool, entry: str | None, is_last: bool) -> list[str]:
    assessed = host.assessed or {}
    installed, files = bool(assessed["toolkit_version"]), host.gpu and bool(assessed.get("toolkit_files"))
    needs = {
        "labels": bool(node and (_own_labels(node) - {LEAVING} if leaves else _own_labels(node))),
        "configure": bool(assessed["drift"]),
        "restart": assessed["restart_required"],
        # The hold is removed only if the inventory sets it.
        "hold": host.gpu and host.hold is not None and bool(assessed.get("toolkit_held")),
        "packages": host.packages and host.gpu and installed,
        "repository": files and not installed,
        "state": host.kept or bool(assessed.get("react")) or (files and (host.packages or not installed)),
        "leave": leaves,
        "dissolve": leaves and is_last,
        "entry": entry is not None,
    }
    return [name for name, needed in needs.items() if needed]


def _packages_held(host: Host) -> str | None:
    """Return why the packages cannot be removed. If somebody else holds the packages, the package manager would refuse halfway."""
    held = (host.assessed or {}).get("toolkit_held") or []
    if not (host.packages and host.gpu and held) or host.hold is not None:
        return None
    return (
        f"The NVIDIA Container Toolkit cannot be removed, because the package manager holds {', '.join(held)}. Set "
        "nvidia_container_toolkit_hold: false to remove the hold, or deprovision_packages: false to keep the packages."
    )


def _used_by_docker(host: Host) -> str | None:
    """Return why the packages cannot be removed. They may contain the program of a runtime that existed before the first run."""
    assessed = host.assessed or {}
    if not (host.packages and host.gpu and assessed["toolkit_version"] and assessed.get("runtime_stays")):
        return None
    return (
        "The NVIDIA Container Toolkit cannot be removed, because Docker had a runtime nvidia before the first run, and containers that use it "
        "could no longer start. Remove that runtime (runtimes in daemon.json, or --add-runtime of dockerd) and run this again, or keep the packages "
        "with deprovision_packages: false. Nothing was changed."
    )


def _own_labels(node: Mapping[str, Any]) -> set[str]:
    keys = owned_labels.recorded(node["labels"], LABEL_PREFIX) | {BOUND, LABEL_PREFIX + owned_labels.MAINTAINED}
    if not node.get("set_by_run"):  # otherwise these labels are removed when the node returns to service
        keys |= {LABEL_PREFIX + key for key in NOTES}
    return keys & set(node["labels"])


def _stops(step: Step) -> str:
    if {"restart", "packages"} & set(step.needs):
        return CONTAINERS
    # Leaving ends swarm's tasks and disconnects containers from swarm's networks; other containers that were started by hand keep running.
    return TASKS if "leave" in step.needs else NOTHING


# -- membership --------------------------------------------------------------------------------------------------------


def _in_a_swarm(host: Host) -> bool:
    return host.has_engine and ((host.assessed or {}).get("swarm") or {}).get("state") != "inactive"


def _would_leave(host: Host) -> bool:
    return host.leave and _in_a_swarm(host)


def _old_entry(host: Host, swarm: Swarm) -> str | None:
    """Return the node id of this host's old entry in the manager's list. The entry exists if a run was killed after the host had left."""
    return next((node_id for node_id, node in swarm.nodes.items() if node["labels"].get(LEAVING) == host.name), None)


def _membership_error(host: Host, node: dict[str, Any] | None, swarm: Swarm) -> str | None:
    """Return why this host's membership is unknown or cannot be ended, or None."""
    if not host.has_engine:
        return None
    if swarm.location.get("live") and swarm.location.get("error"):
        return str(swarm.location["error"])
    member = membership(Candidate(host.assessed), None)
    if member["error"] or member["action"] != "unknown":  # the host is in no swarm, or its last join failed
        return member["error"]
    if not swarm.nodes:
        reason = swarm.error if swarm.location.get("live") else "None of its managers answered"
        return (
            f"This host is in a swarm. {reason}. Fix that and run this again. If nobody needs the swarm any more, run "
            "'docker swarm leave --force' on this host first."
        )
    if node is None and host.leave:
        return (
            f"The manager {swarm.location['live'][0]} does not list this host (node id {host.node_id}): the host is in another swarm, or was removed "
            "from the list. Run 'docker swarm leave' on this host, or set deprovision_leave: false for it, and run this again."
        )
    return None


def _other_managers(host: Host, swarm: Swarm, leaving: Mapping[str, str]) -> list[dict[str, Any]]:
    return [node for node_id, node in swarm.nodes.items() if node["role"] == "manager" and node_id not in leaving and node_id != host.node_id]


def _is_last(host: Host, node: dict[str, Any] | None, swarm: Swarm, leaving: Mapping[str, str]) -> bool:
    """Return whether this host leaves as the last manager."""
    return bool(node and node["role"] == "manager" and host.leave and not _other_managers(host, swarm, leaving))


def _manager_error(host: Host, node: dict[str, Any] | None, swarm: Swarm, leaving: Mapping[str, str]) -> str | None:
    """Return why this manager may not be demoted, or None. A manager must be demoted before it leaves."""
    others = _other_managers(host, swarm, leaving)
    if not node or node["role"] != "manager" or not host.leave or not others:
        return None
    if not set(swarm.location["live"]) - {host.name, *leaving.values()}:
        return (
            f"The other managers of its swarm ({_names(others)}) are not in the group swarm_managers or did not answer, so "
            "none of them could remove this host from the list of nodes. Put one of them into that group and run this again."
        )
    return demotion_error(nodes_as_in_docker(swarm), node["id"], leaving=leaving)


def _reason_to_stay(host: Host, node: dict[str, Any] | None, swarm: Swarm, leaving: Mapping[str, str], contents: Contents | None) -> str | None:
    """Return why the last manager does not leave, although the swarm would end with it. None if the manager leaves."""
    others = [other for node_id, other in swarm.nodes.items() if node_id not in leaving and node_id != host.node_id]
    if others:
        return (
            f"it is the swarm's last manager, and {_names(others)} would have no manager. Run this again when they have left. "
            "Remove nodes that no longer exist from the list with 'docker node rm --force'."
        )
    if contents is None:
        return "it is the swarm's last manager, and the contents of the swarm could not be read. Run this again."
    lost = _describe_contents(contents)
    if lost and host.disrupt != ALL:
        return (
            f"it is the swarm's last manager, and {', '.join(lost)} would be lost with the swarm. Remove what nobody needs, and run "
            f"this again, or consent to the loss with provision_disrupt: {ALL}."
        )
    return None


def _describe_contents(contents: Contents) -> list[str]:
    return [f"{kind[:-1]} {name}" for kind, names in contents.items() for name in names]


def remaining_toolkit(hosts: Iterable[Host]) -> list[str]:
    """Return lines about the toolkit on hosts where it remains, because it is not removed by default. Hosts with the same files share a line."""
    hosts_by_files: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        assessed = host.assessed or {}
        if host.gpu and not host.packages and not host.unfit and assessed.get("toolkit_version") and assessed.get("toolkit_files"):
            hosts_by_files.setdefault(tuple(assessed["toolkit_files"]), []).append(host.name)
    return [
        f"{', '.join(names)}: the NVIDIA Container Toolkit and its files ({', '.join(files)}) are not removed. To remove them, set "
        "deprovision_packages: true."
        for files, names in hosts_by_files.items()
    ]


# -- descriptions -------------------------------------------------------------------------------------------------------------


def _names(nodes: list[dict[str, Any]]) -> str:
    return ", ".join(sorted(node["hostname"] for node in nodes))


def _impact(step: Step, contents: Contents | None) -> list[str]:
    lost = _describe_contents(contents or {}) if "dissolve" in step.needs else []
    steps = [STEP_TEXTS[need][0] for need in step.needs if not (need == "leave" and "dissolve" in step.needs)]
    return [*steps, "destroys " + ", ".join(lost)] if lost else steps


def describe_removed(step: Step) -> str:
    """Describe what a successful run removed."""
    return ", ".join(text for need in step.needs if (text := STEP_TEXTS[need][1]))
