# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the hosts that run the swarm, and decides how a host becomes a member (pure).

An *answer* is the result of gpu_node in check mode on a host, even if it failed. An unreachable host has no answer. Nodes are identified by id, never
by host name, because two nodes may have the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...module_utils._printable import printable
from .advertised import unresolved_error
from .identity import identity_error

Answer = Mapping[str, Any]
Node = Mapping[str, Any]

LOCKED = (
    "as an autolocked swarm is after each restart of dockerd: run 'docker swarm unlock' there and give it the unlock key, which "
    "'docker swarm unlock-key' shows on a manager that is not locked"
)
# The state that gpu_node returns if dockerd is stopped.
UNKNOWN = "unknown"


def swarm_of(answer: Any) -> dict[str, Any] | None:
    """Return the part of a host's answer about its membership, or None.

    If an assessment failed for another reason, such as NVML, the answer still has this part. If dockerd is stopped, the result is None, because the
    node may be a member.
    """
    if not isinstance(answer, Mapping) or answer.get("unreachable"):
        return None
    swarm = answer.get("swarm")
    return dict(swarm) if isinstance(swarm, Mapping) and swarm.get("state") not in (None, "", UNKNOWN) else None


def _has_no_engine(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "engine" in (answer.get("missing") or [])


def _silence_reason(host: str, answer: Any) -> str:
    """Return why a host's membership is unknown, and what to do."""
    answer = answer if isinstance(answer, Mapping) else {}
    if _has_no_engine(answer):
        return f"Docker Engine is not installed on {host}: install it"
    if (answer.get("swarm") or {}).get("state") == UNKNOWN:
        return f"dockerd is not running on {host}: start it"
    if answer.get("msg"):
        return printable(f"{host}: {str(answer['msg']).strip().splitlines()[0].rstrip('.')}")
    return f"{host}: it was not queried or did not answer"


def find_swarm(answers: Mapping[str, Any], managers: Iterable[str], in_play: Iterable[str]) -> dict[str, Any]:
    """Return the hosts that run the swarm (``live``). If no host runs it, return where it may be initialised (``init_on``), or why not (``error``).

    Anyone with root on a worker can claim that the worker runs a swarm. So this function believes only hosts of ``managers``, and hosts that one of
    these managers confirms. No host is confirmed while one of ``managers`` is locked or does not answer. If no manager runs a swarm, ``claims`` has
    the unconfirmed hosts.

    A swarm is initialised only if every manager of the inventory answered and none of them is in a swarm. Otherwise a manager that was only down
    would return to a second swarm. If the managers run different swarms, no swarm is chosen.
    """
    managers, play_hosts = list(managers), set(in_play)
    swarms = {host: swarm for host, answer in answers.items() if (swarm := swarm_of(answer)) is not None}
    # Managers that report an error (such as no quorum) are queried last.
    running = sorted((host for host in managers if _runs_a_swarm(swarms.get(host))), key=lambda host: bool(swarms[host].get("error")))
    claimants = [host for host in answers if host not in managers and _runs_a_swarm(swarms.get(host))]
    if running:
        hidden = any(_hides_its_id(swarms.get(host)) for host in managers)
        live = [*running, *([] if hidden else _confirmed(claimants, running, swarms))]
        return {"live": live, "init_on": None, "error": _several_swarms_error(running, swarms), "claims": []}
    error = _no_swarm_error(managers, answers, swarms, claimants)
    ready = [host for host in managers if host in play_hosts]
    # A host without Docker gets its own error; the others go on.
    ready.sort(key=lambda host: _has_no_engine(answers.get(host)))
    init_on = ready[0] if ready and error is None else None
    if error is None and init_on is None:
        error = (
            f"There is no swarm yet, and --limit excludes all of its managers ({', '.join(managers)}) from this run. "
            "Run the playbook once without --limit, or add one of these managers to the limit."
        )
    return {"live": [], "init_on": init_on, "error": error, "claims": claimants}


def _runs_a_swarm(swarm: Mapping[str, Any] | None) -> bool:
    return swarm is not None and swarm["state"] == "active" and bool(swarm.get("control_available"))


def _hides_its_id(swarm: Mapping[str, Any] | None) -> bool:
    """Return whether a manager does not show its node id, because it is locked or does not answer. In this case another host could claim the id."""
    return swarm is None or not (swarm.get("node_id") or swarm["state"] == "inactive" or swarm.get("half_joined"))


def _confirmed(claimants: list[str], running: list[str], swarms: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return the ``claimants`` that a host of ``running`` lists as managers of its own swarm. If two hosts show the same node id, neither of them is
    confirmed.
    """
    ids_shown = [swarm.get("node_id") for swarm in swarms.values()]
    confirmed = {(swarms[host].get("id"), node_id) for host in running for node_id in swarms[host].get("manager_ids") or ()}
    return [
        host for host in claimants
        if swarms[host].get("id") and (swarms[host]["id"], swarms[host].get("node_id")) in confirmed and ids_shown.count(swarms[host]["node_id"]) == 1
    ]  # fmt: skip


def _several_swarms_error(managers: list[str], swarms: Mapping[str, dict[str, Any]]) -> str | None:
    """Return the error if the managers run several swarms, or None. Without this error, hosts of the other swarms would join the first swarm. With
    consent, they would leave their own swarm first.
    """
    ids = {host: printable(str(swarms[host]["id"])) for host in managers if swarms[host].get("id")}
    if len(set(ids.values())) < 2:
        return None
    return (
        f"The hosts of the group swarm_managers run different swarms: {', '.join(f'{host} swarm {swarm_id}' for host, swarm_id in ids.items())}. "
        "All managers of an inventory must be in one swarm, even those that --limit excludes. Give each swarm its own inventory "
        "(docs/operate/several-swarms.md), or remove the managers of the other swarms from the group."
    )


def _no_swarm_error(
    managers: list[str], answers: Mapping[str, Any], swarms: Mapping[str, dict[str, Any]], claims: list[str]
) -> str | None:
    if not managers:
        return "The group swarm_managers is empty. Put at least one host of the inventory into it."
    # Half-joined nodes were never in a swarm: their join failed.
    joined_hosts = [host for host in managers if host in swarms and swarms[host]["state"] != "inactive" and not swarms[host].get("half_joined")]
    unconfirmed = "".join(f" {unconfirmed_claim(host)}" for host in claims)
    locked = [host for host in joined_hosts if swarms[host]["state"] == "locked"]
    if locked:
        return f"The swarm is locked on {', '.join(locked)}, {LOCKED}, and run this again.{unconfirmed}"
    silent = [host for host in managers if host not in swarms]
    reasons = [_silence_reason(host, answers.get(host)) for host in silent]
    reasons += [f"{host}: swarm state {swarms[host]['state']}, not a working manager{_complaint(swarms[host])}" for host in joined_hosts]
    if reasons:
        return (
            "No working swarm manager was found. A new swarm is created only if every manager of the inventory answers and none of them is in a "
            f"swarm. {'; '.join(reasons)}. "
            f"Bring these hosts back, or remove them from the group swarm_managers.{unconfirmed}"
        )
    return None


def unconfirmed_claim(host: str) -> str:
    """Return why the swarm that ``host`` claims to run is not used, and what to do."""
    return (
        f"{host} reports that it is the manager of a swarm, but no manager of the group swarm_managers confirms this. So no host joins that swarm. "
        f"If it is the right swarm, put {host} into swarm_managers, at least until the other hosts have joined. If nobody needs that swarm, run "
        f"'docker swarm leave --force' on {host}."
    )


def _complaint(swarm: Mapping[str, Any]) -> str:
    return f" ({swarm['error']})" if swarm.get("error") else ""


def listening_at(managers: Iterable[Any]) -> list[str]:
    """Return the addresses of managers in Docker's form. ``managers`` are nodes of Docker's API, and addresses that a user wrote. Skip unreachable
    nodes.
    """
    managers = list(managers)
    user_addresses = [_with_port(manager) for manager in managers if isinstance(manager, str)]
    return user_addresses + [address for manager in managers if not isinstance(manager, str) for address in _address_of(manager)]


def _address_of(node: Node) -> list[str]:
    status = node.get("ManagerStatus") or {}
    if status.get("Reachability") != "reachable" or not status.get("Addr"):
        return []
    host, _colon, port = status["Addr"].rpartition(":")
    if host.strip("[]") in ("0.0.0.0", "::"):
        # The leader sometimes shows its listening address (moby#35437).
        host = (node.get("Status") or {}).get("Addr") or host
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return [f"{host}:{port}"]


def _with_port(address: str, port: int = 2377) -> str:
    """Return an address with a port. ``address`` has the form of a user, such as ``10.0.0.1``, ``name:2377`` or ``[fd00::1]:2377``."""
    address = address.strip()
    host, colon, last = address.rpartition(":")
    if colon and last.isdigit() and (":" not in host or host.endswith("]")):
        return address
    host = address.strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True)
class Candidate:
    """A host, and its wanted role in the swarm."""

    answer: Any
    role: str = "worker"
    host: str | None = None  # its name in the inventory, to compare with the label of the node
    move: bool = False  # whether a worker of another swarm may leave that swarm
    advertise_addr: str = ""  # the address that it advertises when it joins


def membership(
    candidate: Candidate, nodes: Iterable[Node] | None, leaving: Iterable[str] = (), new_managers: Iterable[Any] = ()
) -> dict[str, Any]:
    """Decide how a host becomes a member of the swarm in its role. Return ``{action, error, node_id}``.

    The action is one of none, join, recover, move, promote, demote, unknown. ``nodes`` is the manager's list. It is None if no swarm exists yet, or
    if the list cannot be read before Docker is installed. ``leaving`` are the ids of nodes that will be demoted, in order. Assume that earlier
    demotions have succeeded. ``new_managers`` are the answers of hosts that become managers before the demotions.
    """
    swarm = swarm_of(candidate.answer)
    if swarm is None or _has_no_engine(candidate.answer):
        return _change("none", f"This host's swarm membership is not known. {_silence_reason('this host', candidate.answer)}.")
    state, node_id = swarm["state"], str(swarm.get("node_id") or "")
    address_error = unresolved_error(candidate.advertise_addr, swarm)
    if state == "inactive":
        return _change("join", address_error)
    if swarm.get("half_joined"):
        return _change("recover", address_error)
    if state != "active":
        return _change("none", _state_error(state, swarm.get("error")), node_id)
    if nodes is None:
        return _change("unknown", None, node_id)
    nodes_by_id = {node["ID"]: node for node in nodes}
    if node_id not in nodes_by_id:
        change = _non_member_change(swarm, candidate.move)
        return {**change, "error": change["error"] or address_error}
    change = _member_change(nodes_by_id[node_id], candidate.role, candidate.host)
    if change["action"] == "demote":
        change["error"] = demotion_error(nodes_by_id.values(), node_id, leaving, new_managers=[swarm_of(other) or {} for other in new_managers])
    return change


def _member_change(node: Node, role: str, host: str | None) -> dict[str, Any]:
    """Decide the change of a member's role. See demotion_error() for whether the other managers allow a demotion."""
    node_id, spec = node["ID"], node.get("Spec") or {}
    id_error = identity_error(host, node_id, spec.get("Labels") or {}) if host else None
    if id_error:
        return _change("none", id_error, node_id)
    if spec.get("Role") == role:
        return _change("none", None, node_id)
    return _change("promote" if role == "manager" else "demote", None, node_id)


def _change(action: str, error: str | None = None, node_id: str = "") -> dict[str, Any]:
    return {"action": action, "error": error, "node_id": node_id}


def _state_error(state: str, error: Any) -> str:
    detail = f" ({error})" if error else ""
    if state == "locked":
        return f"The swarm is locked on this node, {LOCKED}, and run this again."
    if state == "pending":
        return (
            f"This node is still trying to reach a swarm (state pending){detail}. Wait until it has joined, or stop it with "
            "'docker swarm leave --force', and run this again."
        )
    return (
        f"This node is in swarm state {state}{detail}, and it was a member before, so nothing is removed without consent. If its "
        "certificate expired or its manager moved, repair that. If nobody needs the membership any more, run "
        "'docker swarm leave --force' on it, and run this again."
    )


def _non_member_change(swarm: Mapping[str, Any], move: bool) -> dict[str, Any]:
    if swarm.get("control_available"):
        return _change(
            "none",
            f"This node (id {swarm.get('node_id')}) is a manager of another swarm. That swarm could be lost if the node left, so a run never moves "
            "a manager. First demote the node in its swarm. If nobody needs that swarm any more, run 'docker swarm leave --force' on the node.",
        )
    if not move:
        return _change(
            "none",
            f"The manager of this swarm does not list this node (id {swarm.get('node_id')}). The node is a worker of another "
            f"swarm (managers {', '.join(swarm.get('managers') or []) or 'unknown'}), or was removed from this swarm. "
            "To let the node leave its swarm and join this one, set swarm_member_move: true.",
        )
    return _change("move")


def demotion_error(nodes: Iterable[Node], node_id: str, leaving: Iterable[str] = (), new_managers: Iterable[Mapping[str, Any]] = ()) -> str | None:
    """Return why this manager may not be demoted, or None. It may be the last manager, or the other managers would have no quorum."""
    reachable = {
        node["ID"]: (node.get("ManagerStatus") or {}).get("Reachability") == "reachable"
        for node in nodes
        if (node.get("Spec") or {}).get("Role") == "manager"
    }
    # A host that is in no swarm yet has no id.
    reachable.update({swarm.get("node_id") or f"new {count}": True for count, swarm in enumerate(new_managers)} | reachable)
    for other in leaving:
        if other == node_id:
            break
        if _demotion_error_of(reachable, other) is None:
            reachable.pop(other, None)
    return _demotion_error_of(reachable, node_id)


def _demotion_error_of(reachable: Mapping[str, bool], node_id: str) -> str | None:
    remaining = {other: up for other, up in reachable.items() if other != node_id}
    if not remaining:
        return "This node is the swarm's last manager and cannot become a worker. Put another host into the group swarm_managers first."
    needed = len(remaining) // 2 + 1
    if sum(remaining.values()) < needed:
        return (
            f"Without this manager {sum(remaining.values())} of {len(remaining)} managers would be reachable and {needed} are needed "
            "for a quorum. Bring the other managers back first."
        )
    return None
