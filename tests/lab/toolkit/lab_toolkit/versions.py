# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The differences between versions of the toolkit that matter to Docker Swarm, as one table."""

from __future__ import annotations

INSTALLED = "/usr/lib/gpu-lab/toolkit/version"

# A behaviour of the toolkit, and the first and the last version with this behaviour (None: up to now).
BEHAVIOUR: dict[str, tuple[str | None, str | None]] = {
    # mode = "auto" means jit-cdi. In earlier versions it meant legacy.
    "auto-is-jit-cdi": ("1.18.0", None),
    # Only the hook of legacy mode uses swarm-resource. In other modes NVIDIA_VISIBLE_DEVICES decides for every task (NCT#1599).
    "only-legacy-reads-swarm-resource": (None, "1.18.2"),
    # The toolkit refuses a config.toml whose ldconfig is in the container.
    "refuses-ldconfig-of-the-container": ("1.17.3", None),
    # A rewrite of config.toml comments out a value that equals the default, even if the user has set it.
    "comments-out-set-defaults": (None, "1.19.1"),
    # create-device-nodes keeps existing devices. Earlier versions failed on them (NCT commit 2529aebd).
    "keeps-devices-that-exist": ("1.18.0", None),
    # The post-install script runs `systemctl daemon-reload`.
    "reloads-systemd": ("1.18.0", "1.19.1"),
}


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-")[0].split("."))


def does(version: str, what: str) -> bool:
    first, last = BEHAVIOUR[what]
    return (first is None or number(version) >= number(first)) and (last is None or number(version) <= number(last))


def installed() -> str:
    with open(INSTALLED, encoding="ascii") as stream:
        return stream.read().strip()
