# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads and checks the YAML description of a fleet. The description is a Jinja2 template, so that it can describe fleets of any size."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import yaml
from archspec.cpu import TARGETS

from . import families, rootfs
from .lab import HERE, LabError

PRESETS = HERE / "presets"
MACHINES = HERE / "nvml" / "fleet"
GROUPS = ("swarm_managers", "gpu_nodes", "swarm_workers")


@dataclass(frozen=True)
class Node:
    name: str
    image: str = "debian13"
    groups: tuple[str, ...] = ()
    gpus: str | None = None  # the text for the stand-in of NVML; None: no driver
    toolkit: str | None = None  # the toolkit's version that is installed from the start
    retired: tuple[str, ...] = ()  # predecessors of the toolkit that are installed from the start
    family: str | None = None  # the family of distributions, such as rhel; None: Debian
    cpu: str | None = None  # the name in archspec of the CPU that the node shows; None: the CPU of this machine
    docker_sdk: bool = False  # Python's docker, which this collection does not use
    ssh: bool = False  # a server of OpenSSH, and users with sudo
    daemon_json: str | None = None
    vars: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fleet:
    name: str
    nodes: tuple[Node, ...]
    vars: dict[str, Any] = field(default_factory=dict)


def preset(name: str) -> Path:
    known = {path.name.split(".")[0]: path for path in sorted(PRESETS.glob("*.yml*"))}
    if name not in known:
        raise LabError(f"there is no preset {name!r}; there are: {', '.join(known)}")
    return known[name]


def read(path: Path, name: str | None, settings: dict[str, Any]) -> Fleet:
    try:
        template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(path.read_text())
        document = yaml.safe_load(template.render(**settings))
    except (OSError, jinja2.TemplateError, yaml.YAMLError) as error:
        raise LabError(f"{path}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), dict) or not document["nodes"]:
        raise LabError(f"{path}: expected a mapping with `nodes`, itself a mapping of names to nodes")
    nodes = tuple(node(key, value or {}, path) for key, value in document["nodes"].items())
    name = name or document.get("name") or path.name.split(".")[0]
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise LabError(f"a fleet's name is made of a-z, 0-9 and -, not {name!r}")
    return Fleet(name, nodes, document.get("vars") or {})


def node(name: str, words: dict[str, Any], path: Path) -> Node:
    unknown = set(words) - set(Node.__dataclass_fields__)
    if unknown:
        raise LabError(f"{path}: node {name}: unknown {', '.join(sorted(unknown))}")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise LabError(f"{path}: a node's name is made of a-z, 0-9 and -, not {name!r}")
    family = words.get("family")
    if family not in (None, *families.table()):
        raise LabError(f"{path}: node {name}: family {family!r} is none of {', '.join(families.table())}")
    only = families.release(family)
    image = words.get("image", only or Node.image)
    if image not in rootfs.releases():
        raise LabError(f"{path}: node {name}: image {image!r} is none of {', '.join(rootfs.releases())}")
    if image != (only or image):
        raise LabError(f"{path}: node {name}: image {image!r}, but family {family!r} is on {only} only: leave `image` out")
    if words.get("cpu") not in (None, *TARGETS):
        raise LabError(f"{path}: node {name}: cpu {words['cpu']!r} is no name of archspec's, such as broadwell")
    gpus = words.get("gpus")
    groups = tuple(words.get("groups") or (["gpu_nodes"] if gpus else ["swarm_workers"]))
    for group in groups:
        if group not in GROUPS:
            raise LabError(f"{path}: node {name}: group {group!r} is none of {', '.join(GROUPS)}")
    retired = tuple(words.get("retired") or ())
    return Node(**{**words, "name": name, "image": image, "groups": groups, "gpus": machine(gpus, path.parent), "retired": retired})


def machine(words: str | dict[str, Any] | None, folder: Path = HERE) -> str | None:
    """Return the text of a machine. The argument is a name, a file, or {name: …, memory: …, count: N}."""
    if words is None:
        return None
    if isinstance(words, dict):
        last = int(words.get("count", 1)) - 1
        lines = [f"{key} = {value}" for key, value in words.items() if key != "count"]
        return "\n".join(["driver = 580.95.05", "cuda = 13.0", "", f"[gpu 0-{last}]" if last else "[gpu 0]", *lines, ""])
    for candidate in (MACHINES / f"{words}.conf", folder / words, Path(words)):
        if candidate.is_file():
            return candidate.read_text()
    names = ", ".join(sorted(path.stem for path in MACHINES.glob("*.conf")))
    raise LabError(f"no machine {words!r}: neither a file nor one of {names}")


def seeded(text: str, node_name: str) -> str:
    """Derive UUIDs from the seed: a node always gets the same UUIDs, and two nodes of a fleet never share one."""
    return text if re.search(r"(?m)^\s*seed\s*=", text) else f"seed = {node_name}\n{text}"
