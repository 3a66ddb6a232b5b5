# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds facts of a host that would override settings (pure).

Any module can return facts, including modules of ansible-core, whose results this collection cannot filter. By default, Ansible turns facts into
variables, which override role defaults and the inventory. Variables of set_fact and register do not count as facts, unless they are cacheable.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._printable import printable
from .declaration import PREFIXES

OWN_PREFIXES = (*PREFIXES, "gpu_swarm_")
MAX_SHOWN, MAX_WIDTH = 5, 60


def problem(task_vars: Mapping[str, Any]) -> str | None:
    """Return the error for a host whose facts have names of settings, or None."""
    names = names_of_settings(task_vars.get("ansible_facts") or ())
    if not names:
        return None
    shown = ", ".join(printable(name)[:MAX_WIDTH] for name in names[:MAX_SHOWN]) + (", …" if len(names) > MAX_SHOWN else "")
    return (
        f"{task_vars['inventory_hostname']}: this host returned facts that have the names of settings ({shown}). They would override the inventory, "
        "so the host is not changed. Find out who controls that machine. If such a fact is your own (facts of a module, set_fact with "
        "cacheable: true), give it another name, remove it from the fact cache (--flush-cache), and run this again."
    )


def names_of_settings(names: Iterable[str]) -> list[str]:
    """Return the names that belong to settings, or to variables of the roles and playbooks."""
    return sorted(name for name in names if name.lstrip("_").startswith(OWN_PREFIXES))
