# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/pictures/status.svg: the output of `fleet.gpu_swarm.status` for a small fleet, as a picture of a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.text import Text

from plugins.module_utils._ledger.ledger import ledger
from plugins.module_utils._ledger.listed import Listed
from plugins.module_utils._tasks.tasks import epoch
from plugins.module_utils._view import status
from plugins.module_utils._view.status_text import Screen
from plugins.plugin_utils._report.last_words import COLOURS, verdict_of
from tests.unit.support.swarm_api import named, node, pending, service, task

NOW = epoch("2026-11-20T14:05:00Z")
WIDTH = 100
CODES = {"red": 31, "green": 32, "yellow": 33}
OWNERS = {"train": "alice", "sweep": "alice", "chat": "bob", "notebook": "carol"}
COMMAND = "ansible-playbook -i inventory.yml fleet.gpu_swarm.status"
MODELS = {"g1": ("NVIDIA-H100-80GB-HBM3", 8), "g2": ("Tesla-T4", 4), "g3": ("NVIDIA-A100-SXM4-80GB", 2)}
# Remove the font that rich would load from the network. Each system has a monospaced font.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xml:space="preserve" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, "DejaVu Sans Mono", monospace; font-size: {char_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def draw() -> str:
    """Return the picture as SVG."""
    found = status.status(fleet())
    line = _painted(status.outcome(found), COLOURS[verdict_of(found["waiting"], found["wrong"])])
    return terminal("status", f"$ {COMMAND}\n\n{line}\n\n{Screen(WIDTH - 2, _painted).show(found, 'all')}")


def terminal(name: str, text: str, width: int = WIDTH) -> str:
    """Return a picture of a terminal with this text, which may contain colours, as SVG."""
    # A fixed environment, so that every machine draws the same picture.
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor", _environ={"TERM": "xterm"})
    console.print(Text.from_ansi(text))
    return "\n".join(line.rstrip() for line in console.export_svg(title=name, code_format=SVG, unique_id=name).splitlines()) + "\n"


def _painted(text: str, colour: str) -> str:
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m"


def fleet() -> dict[str, Any]:
    """Return the ledger of the fleet in the pictures."""
    nodes = [_named("m1", leader=True), *(_node(host) for host in MODELS)]
    nodes[3]["Spec"]["Availability"] = "pause"
    nodes[3]["Spec"]["Labels"] |= {
        "gpu-swarm.former-availability": "active",
        "gpu-swarm.paused-by": "maintain (runs driver.yml)",
        "gpu-swarm.paused-since": "2026-11-20T14:02:11Z",
    }
    tasks = [_task("train", slot, "g1", 4 * slot - 3, 4) for slot in (1, 2)]
    tasks += [_task("chat", slot, "g2", slot, 1) for slot in (1, 2, 3)] + [_task("notebook", 1, "g3", 1, 1)]
    tasks += [pending("p1", {"NVIDIA-GPU": 2}, service="id-sweep", since="2026-11-20T13:55:00Z")]
    services = [
        service(f"id-{name}", name, reserves={"NVIDIA-GPU": gpus}) for name, gpus in (("train", 4), ("chat", 1), ("notebook", 1), ("sweep", 2))
    ]
    return {**ledger(Listed(nodes, tasks, services, NOW), "gpu-swarm.", ("*",)), "owners": OWNERS}


def _node(host: str) -> dict[str, Any]:
    model, count = MODELS[host]
    return _named(host, labels={"gpu.model": model}, resources=named(*(f"GPU-{host}-{number}" for number in range(1, count + 1))))


def _named(host: str, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = node(host, **options)
    made["Description"]["Hostname"] = host
    return made


def _task(name: str, slot: int, host: str, first: int, gpus: int) -> dict[str, Any]:
    given = named(*(f"GPU-{host}-{number}" for number in range(first, first + gpus)))
    made: dict[str, Any] = task(
        f"{name}-{slot}", host, given, service=f"id-{name}", slot=slot, reserves={"NVIDIA-GPU": gpus}, since="2026-11-20T11:40:00Z"
    )
    return made
