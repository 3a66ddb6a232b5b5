# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The warnings of a run, with the names of the hosts (pure). Ansible shows a warning without hosts, and each text once.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._tasks.keep import is_readable

# The key in a host's answer for warnings that the plan shows.
NOTED = "noted"
# How many tasks a warning names.
MAX_NAMED = 5


def add_host_name(answer: dict[str, Any], host: str, noted: Iterable[str] = (), later: bool = False) -> dict[str, Any]:
    """Return the answer of ``host``, with its name in each warning. Warnings that were ``noted`` before are dropped. If ``later``, all warnings are
    kept for the plan."""
    texts = [_text(warning) for warning in answer.get("warnings") or ()]
    other_fields = {key: value for key, value in answer.items() if key not in ("warnings", NOTED)}
    if later:
        return {**other_fields, NOTED: texts}
    shown = [text if text.startswith(f"{host}: ") else f"{host}: {text}" for text in texts if text not in list(noted)]
    return {**other_fields, "warnings": shown} if shown else other_fields


def _text(warning: Any) -> str:
    """Return the text of a warning. Since 2.19, ansible-core wraps a warning in a dataclass."""
    return str(getattr(getattr(warning, "event", None), "msg", warning))


def merge_noted(answers: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Return the noted warnings of all hosts, each text once, with the names of its hosts."""
    hosts: dict[str, list[str]] = {}
    for name, answer in answers.items():
        for text in (answer or {}).get(NOTED) or ():
            hosts.setdefault(text, []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in hosts.items()]


def unreadable_keep_labels(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return warnings about services whose label about moving their tasks cannot be read. ``nodes`` are the nodes of the ledger."""
    labels = {task["service"]: task["kept"] for node in nodes for task in node.get("tasks") or () if task.get("kept")}
    labels = {service: label for service, label in labels.items() if not is_readable(label)}
    return [
        f"service {service}: its label {label} is not true, false or an age such as 12h or 2d, so it is treated as true. Its tasks are not moved "
        f"until you correct the label: docker service update --label-add {label.partition('=')[0]}=12h {service}"
        for service, label in sorted(labels.items())
    ]


def long_runners(tasks: Mapping[str, Iterable[str]], keep_label: str) -> list[str]:
    """Return a warning about tasks that are moved after they have run for long. ``tasks`` are by host."""
    long_running = [f"{task} on {host}" for host, names in tasks.items() for task in names]
    if not long_running:
        return []
    named = ", ".join(long_running[:MAX_NAMED]) + (f" and {len(long_running) - MAX_NAMED} more" if len(long_running) > MAX_NAMED else "")
    text = f"these tasks have run for longer than a day, and are about to be moved: {named}. To keep the tasks of a service where they are: "
    return [text + f"docker service update --label-add {keep_label}=true SERVICE"]


def even_managers(managers: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a warning if this run leads to an even number of managers. ``needs`` are the needs of each host."""
    count = len(managers)
    if count % 2 or not any({"join", "move", "role"} & set(needs.get(name, ())) for name in managers):
        return []
    tolerated = (count - 1) // 2 or "none"
    comparison = f"a swarm of {count} managers can lose {tolerated} of them, like a swarm of {count - 1}"
    return [f"swarm_managers has {count} hosts: {comparison}. Use an odd number."]
