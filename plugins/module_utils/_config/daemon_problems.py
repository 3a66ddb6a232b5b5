# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds settings and flags that keep dockerd from starting or from joining a swarm (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from . import shm_size
from .daemon_json import DEFAULT_RUNTIME, RESOURCES

FIREWALL_BACKEND = "firewall-backend"


class Flag(NamedTuple):
    """An option of dockerd's command line that must not also be in daemon.json."""

    name: str
    value: str | None
    key: str


_FLAGS = {
    "--default-runtime": DEFAULT_RUNTIME,
    "--default-shm-size": shm_size.KEY,
    "--node-generic-resource": RESOURCES,
    "--node-generic-resources": RESOURCES,
}


def conflicting_flags(argv: Sequence[str]) -> list[Flag]:
    """Return the flags that make dockerd refuse a daemon.json with this collection's keys.

    The result does not include ``--add-runtime``, because dockerd merges this flag with ``runtimes`` (moby daemon/config, skipDuplicates).
    """
    conflicting = []
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in _FLAGS:
            following = argv[position + 1] if position + 1 < len(argv) else None
            conflicting.append(Flag(name, value if equals else following, _FLAGS[name]))
    return conflicting


def _uses_nftables(doc: Mapping[str, Any], argv: Sequence[str]) -> bool:
    """Return whether dockerd refuses a swarm because of nftables (moby daemon/config, IsSwarmCompatible). If iptables is off, dockerd creates no
    rules.
    """
    words = {*argv, *("=".join(pair) for pair in zip(argv, argv[1:]))}
    features = doc.get("features")
    allowed_by_flags = {"--iptables=false", "--feature=swarm-nftables", "--feature=swarm-nftables=true"} & words
    allowed_by_file = doc.get("iptables") is False or (isinstance(features, dict) and features.get("swarm-nftables") is True)
    return not allowed_by_flags and not allowed_by_file and (doc.get(FIREWALL_BACKEND) == "nftables" or f"--{FIREWALL_BACKEND}=nftables" in words)


def find_problems(doc: Mapping[str, Any], path: str, argv: Sequence[str] = ()) -> list[str]:
    """Return a sentence for each setting that keeps this daemon from starting or from joining a swarm."""
    problems = []
    if doc.get("live-restore") is True:
        problems.append(
            f"{path}: live-restore is true, and a daemon with live-restore cannot be in a swarm."
            " Remove the key. Then containers stop when dockerd is restarted."
        )
    if any(word in ("--live-restore", "--live-restore=true") for word in argv):
        problems.append("dockerd is started with --live-restore and cannot be in a swarm. Remove the flag from its unit.")
    if _uses_nftables(doc, argv):
        where = f"{path}: firewall-backend is nftables" if doc.get(FIREWALL_BACKEND) else "dockerd is started with --firewall-backend=nftables"
        problems.append(f"{where}, so the daemon cannot be in a swarm: overlay networks need iptables. Set it to iptables, or remove it.")
    for flag in conflicting_flags(argv):
        if flag.key == shm_size.KEY and flag.key not in doc:
            continue  # the user sets it by the flag alone
        problems.append(
            f"dockerd is started with {flag.name}={flag.value}, and does not start if {path} sets"
            f" {flag.key} too. Remove the flag from its unit."
        )
    return problems
