# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Explains why a host did not become a member of a swarm, and what to do about it (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How a failed join left the node, by the state of the swarm there.
STATE_AFTER_FAILURE = {"active": "The node is a member, but not yet a working one.", "inactive": "The node is in no swarm, as before."}


def explain_failure(answer: Mapping[str, Any], host: str, args: Mapping[str, Any]) -> str:
    """Return the message for ``host``, from the failed answer of swarm_member and the arguments of that call."""
    reason = str(answer.get("msg") or "no reason given").strip().rstrip(".")
    if args.get("state") == "joined":
        return _not_joined(answer, host, args, reason) if "swarm" in answer and answer.get("reachable") else _not_tried(answer, host, args, reason)
    if args.get("state") == "initialised":
        return (
            f"{host} could not initialise a swarm: {reason}. On a node with several addresses, set swarm_member_advertise_addr "
            f"(now {args.get('advertise_addr') or 'left to Docker'})."
        )
    return f"{host} could not leave its swarm: {reason}. Run this again."


def _not_tried(answer: Mapping[str, Any], host: str, args: Mapping[str, Any], reason: str) -> str:
    if "reachable" not in answer:
        return f"{host} could not join the swarm of {args.get('manager')} as {args.get('role')}: {reason}. Run this again."
    where = ", ".join(args["managers"]) or "any address"
    return (
        f"{host} cannot reach a manager of the swarm: nothing answered at {where} within {args.get('port_timeout')} s. "
        "Open TCP port 2377 from this node to the managers, or set swarm_member_remote_addrs to addresses where this node reaches them. "
        "The node is unchanged."
    )


def _not_joined(answer: Mapping[str, Any], host: str, args: Mapping[str, Any], reason: str) -> str:
    state = answer["swarm"].get("state")
    hint = "" if "journalctl" in reason else " See 'journalctl -u docker' on this node."
    node_state = STATE_AFTER_FAILURE.get(state, f"The swarm's state there is {state}: run this again.")
    return (
        f"{host} could not join the swarm of {args.get('manager')} as {args.get('role')}: {reason}.{hint} "
        "Several addresses need swarm_member_advertise_addr; clocks that differ make certificates invalid; \"remote CA does not match\" or an "
        f"invalid token means that {', '.join(answer['reachable'])} belongs to another swarm. {node_state}"
    )
