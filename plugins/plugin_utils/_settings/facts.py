# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of a host that would take the place of settings (pure).

Any module's result may bring facts, also a module of ansible-core, whose results are not filtered here, and by default Ansible makes variables of
them that go before role defaults and the inventory. What set_fact and register make is no fact for this, unless it is cacheable.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._printable import printable
from .declaration import PREFIXES

OWN = (*PREFIXES, "gpu_swarm_")
SHOWN, WIDTH = 5, 60


def problem(task_vars: Mapping[str, Any]) -> str | None:
    """Why nothing is done on the host of these variables, or None."""
    names = of_settings(task_vars.get("ansible_facts") or ())
    if not names:
        return None
    shown = ", ".join(printable(name)[:WIDTH] for name in names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return (
        f"{task_vars['inventory_hostname']}: this host returned facts with names of settings ({shown}), which would take the place of what "
        "the inventory sets, so nothing is done there. Find out who controls that machine. Where such a fact is your own (facts of a module, "
        "set_fact with cacheable: true), give it another name, remove it from the fact cache (--flush-cache), and run this again."
    )


def of_settings(names: Iterable[str]) -> list[str]:
    """Of these names those of settings, and of what roles and playbooks call their own."""
    return sorted(name for name in names if name.lstrip("_").startswith(OWN))
