# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rooms from top to bottom, and the imports of each room. Rooms are the packages of plugins/."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
COLLECTION = ["ansible_collections", "fleet", "gpu_swarm", "plugins"]
CONTROLLER, MANAGER, NODE, ALL = "controller", "manager", "node", "all"


class Room(NamedTuple):
    """``where`` names the machine that runs its code. The picture shows ``title``, the table shows ``what``."""

    folder: str
    where: str
    title: str
    what: str

    @property
    def name(self) -> str:
        return self.folder.partition("/")[2] or self.folder


# Top to bottom: a room imports no room above it. Plugins that Ansible calls are above all rooms.
DOORS = ("modules", "action", "callback", "filter", "doc_fragments")
GROUND = Room("module_utils", ALL, "errors, files, limits", "used by every room: the one exception, files, limits, text that is safe to print")
ROOMS = (
    Room("plugin_utils/_report", CONTROLLER, "the tables", "what a run prints: the impact before it, the table and the next command after it"),
    Room("plugin_utils/_rollout", CONTROLLER, "batch by batch", "the steps of a run, a window, updates for the manager, the lease"),
    Room("plugin_utils/_plan", CONTROLLER, "who needs what", "what each host needs, its groups and batches, and what that means for users"),
    Room("plugin_utils/_fleet", CONTROLLER, "hosts, members, work", "the inventory's hosts: identity, membership, what runs there, their outcome"),
    Room("plugin_utils/_calls", CONTROLLER, "how modules run", "how modules are called: arguments, libraries, which manager, time limits"),
    Room("plugin_utils/_answers", CONTROLLER, "checked answers", "what a node answered, checked before it is used: its form, its labels, its CPU"),
    Room("plugin_utils/_page_template", CONTROLLER, "the page's files", "the page's template: HTML, style and script in one text"),
    Room("plugin_utils/_bundle", CONTROLLER, "archives", "collections as archives, for a fleet without the internet"),
    Room("plugin_utils/_stack", CONTROLLER, "Compose to stack", "translates a Compose file into the stack file that a swarm takes; reads job files"),
    Room("plugin_utils/_classes", CONTROLLER, "classes of nodes", "which nodes x-gpu of a service means, and which image a node runs best"),
    Room("plugin_utils/_settings", CONTROLLER, "declared, checked", "the settings of playbooks and roles: declared once, checked before a change"),
    Room("module_utils/_manager", MANAGER, "between two runs", "a manager's service: pauses nodes, serves queues, writes metrics, record, page"),
    Room("module_utils/_command", MANAGER, "gpu-swarm", "the command gpu-swarm: shows the fleet on a manager, and changes the work of queues"),
    Room("module_utils/_page", MANAGER, "one HTML file", "the page of the fleet: which data it shows, and the HTML file"),
    Room("module_utils/_view", MANAGER, "what people see", "the status and its tables, as managers and playbooks show them"),
    Room("module_utils/_jobs", MANAGER, "one-shot work", "jobs as services that run once: submitted, tried again, their logs saved, removed"),
    Room("module_utils/_queue", MANAGER, "who starts next", "queues: which work waits, which starts next on which node, and why"),
    Room("module_utils/_verify", MANAGER, "probe services", "which GPUs a test covers, its test services, and whether each task saw its own GPUs"),
    Room("module_utils/_node_spec", MANAGER, "labels, availability", "labels, availability and role of nodes, in one versioned update for each node"),
    Room("module_utils/_record", MANAGER, "what was, in SQLite", "what managers remember: allocations, events, daily sums, and what they tell"),
    Room("module_utils/_metrics", MANAGER, "for Prometheus", "the ledger as metrics for Prometheus"),
    Room("module_utils/_deployment", MANAGER, "a stack's place", "a stack on its swarm: conflicts, whether it fits, how far its deployment is"),
    Room("module_utils/_ledger", MANAGER, "who has what", "the ledger: which task has which GPU, what is free, and what needs attention"),
    Room("module_utils/_placement", MANAGER, "where tasks fit", "where swarm's scheduler would place a task, and why it is pending"),
    Room("module_utils/_tasks", MANAGER, "tasks, services", "what tasks and services reserve and hold, and whether a task may move"),
    Room("module_utils/_watch", NODE, "between two runs", "the service that watches a node's GPUs between two runs, and reports"),
    Room("module_utils/_node", NODE, "one transaction", "one node: observe, decide, change all of it or nothing"),
    Room("module_utils/_guard", NODE, "before the runtime", "the guard in front of NVIDIA's runtime: what a task of the swarm sees of a node's GPUs"),
    Room("module_utils/_swarm", MANAGER, "the manager's API", "the Docker API of a manager; labels of this collection; the lease of a run"),
    Room("module_utils/_dockerd", NODE, "daemon and unit", "dockerd of this machine: what it shows, its unit, flags and containers, a restart"),
    Room("module_utils/_docker_api", ALL, "the Docker API", "the client of the Docker API: sockets, TLS, streams, versions, logins to registries"),
    Room("module_utils/_config", NODE, "edits of two files", "daemon.json and config.toml, edited so that every other byte stays"),
    Room("module_utils/_compat", ALL, "known issues", "versions of Docker and the toolkit that break something, as one table"),
    Room("module_utils/_policy", ALL, "rules to resources", "the rules: which GPU is advertised as what, its labels, and consent to fewer GPUs"),
    Room("module_utils/_health", ALL, "faults, a label", "what a reading of the GPUs means, and the label that reports it"),
    Room("module_utils/_gpu", NODE, "NVML to records", "NVML, read in a process of its own, and the record of one GPU"),
    Room("module_utils/_machine", NODE, "CPU, network, packages", "what kernel, network and package manager report of a machine"),
    Room("module_utils/_textfile", ALL, "metrics as text", "metrics in Prometheus' text format, and a file that node_exporter reads"),
    Room("module_utils/_program", ALL, "installed programs", "an installed program: its code, its unit, its life under systemd"),
    GROUND,
)  # fmt: skip
BY_FOLDER = {room.folder: room for room in ROOMS}


def sources() -> list[Path]:
    return sorted(path for path in PLUGINS.rglob("*.py") if path.name != "__init__.py")


def folder_of(path: Path) -> str:
    """Return the room of a file, or the folder of plugins that Ansible calls."""
    return path.parent.relative_to(PLUGINS).as_posix()


def files(room: Room) -> list[Path]:
    return [path for path in sources() if folder_of(path) == room.folder]


def imported(path: Path) -> Iterator[str]:
    """Return all imports of a file as dotted names. The names of imports from the collection begin below plugins/."""
    package = path.relative_to(PLUGINS).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "import_module":
            yield from (str(word.value) for word in node.args if isinstance(word, ast.Constant))
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            if node.level:
                parts = [*COLLECTION, *package[: len(package) - node.level + 1], *parts]
            yield from (".".join([*parts, alias.name]) for alias in node.names)


def target(name: str) -> Path | None:
    """Return the file in plugins/ that contains an imported name."""
    parts = name.split(".")
    if parts[: len(COLLECTION)] != COLLECTION:
        return None
    place = PLUGINS.joinpath(*parts[len(COLLECTION) :])
    return next((one for one in (place.with_suffix(".py"), place.parent.with_suffix(".py")) if one.is_file()), None)


def imports() -> dict[Path, set[Path]]:
    """Return for each file the files in plugins/ that it imports."""
    return {path: {found for name in imported(path) if (found := target(name)) and found != path} for path in sources()}


def reached() -> set[Path]:
    """Return the files that a user can reach: plugins that Ansible calls, and each file that they import directly or indirectly.

    Installed programs are included, because the module that installs a program imports it.
    """
    graph, found = imports(), set()
    pending = [path for path in graph if folder_of(path) in DOORS]
    while pending:
        path = pending.pop()
        if path not in found:
            found.add(path)
            pending += graph[path]
    return found


def edges() -> set[tuple[str, str]]:
    """Return pairs of (room, imported room), by their folders."""
    found = {(folder_of(path), folder_of(other)) for path, others in imports().items() for other in others}
    return {(one, other) for one, other in found if one != other and one in BY_FOLDER and other in BY_FOLDER}


def circles() -> list[list[str]]:
    """Return each circle of files that import each other. Each circle is returned once."""
    graph, found, done = imports(), [], set()

    def walk(path: Path, way: list[Path]) -> None:
        if path in way:
            found.append([one.relative_to(PLUGINS).as_posix() for one in way[way.index(path) :]])
        elif path not in done:
            for other in sorted(graph[path]):
                walk(other, [*way, path])
            done.add(path)

    for path in graph:
        walk(path, [])
    return found
