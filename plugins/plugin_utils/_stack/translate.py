# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Compose file as the stack file that a swarm takes (pure, but for the files beside it, which ``read`` has).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...module_utils._errors import GpuSwarmError
from . import checks, document, keys, mounts, references, shapes, templates
from .fields import Notes, Reader, mapping, not_known, only, text_of
from .folder import decoded
from .placement import Wanted
from .services import Context, translated
from .variables import Variables, read_variables, resolved

# Docker Engine 20.10 refuses a file that has none, and later ones go by the newest that they know. The newer one is for a limit of processes.
VERSION, VERSION_OF_PIDS = "3.8", "3.9"
ENV = ".env"
DEFAULT_KIND = "NVIDIA-GPU"
_APART = "make the network with 'docker network create', and name it here as external"


class Stack(NamedTuple):
    """``document`` is the stack file; ``files`` are those that it names, by their path beside it; ``notes`` what is to be said of it; ``wanted`` is
    what services want under x-gpu, which only a fleet can give a meaning."""

    document: dict[str, Any]
    files: dict[str, bytes]
    notes: list[str]
    wanted: dict[str, Wanted]


def translate(text: str, name: str, read: Reader, environment: Mapping[str, str], kind: str = DEFAULT_KIND) -> Stack:
    """The Compose file ``name`` with this text. ``environment`` are variables, which count before those of .env."""
    notes = Notes()
    own = read(ENV)
    of_file = {} if own is None else read_variables(decoded(own, ENV), ENV, environment)
    values = {**{key: value for key, value in of_file.items() if value is not None}, **environment}
    variables = Variables(values)
    read_in = document.load(text, name)
    found = resolved(read_in, variables, name)
    _refuse(found, name)
    notes.texts += [f"{name}: the variable {one} is not set, and counts as empty" for one in variables.unset]
    context = Context(kind, variables, read, notes)
    context.networks = dict(_section(found, "networks", name))
    services = {key: translated(key, value, name, context) for key, value in mapping(found.get("services"), f"{name}: services").items()}
    made: dict[str, Any] = {"version": VERSION, "services": {key: value for key, value in services.items() if value is not None}}
    if any("pids" in ((one.get("deploy") or {}).get("resources") or {}).get("limits", {}) for one in made["services"].values()):
        made["version"] = VERSION_OF_PIDS
    _refuse_none(made["services"], context, name)
    mounts.refuse_own_folders(read_in, made["services"], name)
    made["networks"] = {key: _network(value, f"{name}: networks.{key}", notes) for key, value in context.networks.items()}
    made["volumes"] = {key: _volume(value, f"{name}: volumes.{key}") for key, value in _section(found, "volumes", name)}
    files: dict[str, bytes] = {}
    for section in ("configs", "secrets"):
        entries = [_Entry(section, key, value, f"{name}: {section}.{key}") for key, value in _section(found, section, name)]
        made[section] = {entry.key: _carried(entry, context, files) for entry in entries}
    references.check_declared(made, name)
    choices = {key: [str(entry["image"]) for entry in want.matrix] for key, want in context.wanted.items()}
    checks.refuse(checks.Stack(made, files, name, mapping(read_in.get("services"), name), variables.unset, choices))
    return Stack(_escaped({key: value for key, value in made.items() if value}), files, notes.texts, context.wanted)


def _refuse(found: dict[str, Any], name: str) -> None:
    for key in found:
        if key in keys.TOP_REFUSED:
            raise GpuSwarmError(f"{name}: {key} has no meaning on Swarm: {keys.TOP_REFUSED[key]}.")
        if key not in keys.TOP | {"version", "name"} and not key.startswith("x-"):
            raise not_known(f"{name}: {key}")


def _refuse_none(services: dict[str, Any], context: Context, name: str) -> None:
    if context.profiles and not services:
        raise GpuSwarmError(
            f"{name}: each service has a profile, and Compose starts none of them by default. Choose one in .env or your environment, such as "
            f"COMPOSE_PROFILES={context.profiles[0]}. The file has the profiles {', '.join(dict.fromkeys(context.profiles))}."
        )
    if not services:
        raise GpuSwarmError(f"{name} has no services to deploy. Write at least one under services.")


def _section(found: dict[str, Any], key: str, name: str) -> list[tuple[str, Any]]:
    return list(mapping(found.get(key), f"{name}: {key}").items())


def _network(found: Any, where: str, notes: Notes) -> dict[str, Any]:
    made = shapes.NETWORK(_own(mapping(found, where), keys.NETWORK, where, notes), where)
    if made.get("ipam") is not None:
        made["ipam"] = _addresses(made["ipam"], f"{where}.ipam", notes)
    if made.get("driver") == "bridge":  # of one machine
        del made["driver"]
        notes.left_out(where, "driver", "nothing: overlay, which reaches all nodes, is what a stack takes")
    return made


def _addresses(found: Any, where: str, notes: Notes) -> dict[str, Any]:
    made, entries = _own(mapping(found, where), keys.IPAM, where, notes), []
    if not isinstance(made.get("config", []), list):
        raise GpuSwarmError(f"{where}.config has to be a list. Begin each subnet with '- '.")
    for number, entry in enumerate(made.get("config", [])):
        place = f"{where}.config[{number}]"
        entries.append(shapes.SUBNET(_own(mapping(entry, place), keys.IPAM_CONFIG, place, notes), place))
    return {**made, **({"config": [one for one in entries if one]} if entries else {})}


def _own(found: dict[str, Any], known: frozenset[str], where: str, notes: Notes) -> dict[str, Any]:
    """What a network has that is made with a stack."""
    for key in found:
        if key not in known:
            notes.left_out(where, key, _APART)
    return {key: value for key, value in found.items() if key in known}


def _volume(found: Any, where: str) -> dict[str, Any]:
    volume = dict(shapes.VOLUME(mapping(found, where), where))
    only(volume, keys.VOLUME, where)
    mounts.refuse_relative_device(volume, where)
    templates.refuse_in_volume(volume, where)
    return volume


class _Entry(NamedTuple):
    """A config or a secret as it is written."""

    section: str
    key: str
    found: Any
    where: str


def _carried(one: _Entry, context: Context, files: dict[str, bytes]) -> dict[str, Any]:
    """A config or a secret for the stack, with its content among ``files``."""
    section, key, found, where = one
    entry = dict(shapes.CARRIED(mapping(found, where), where))
    only(entry, ("file", "content", "environment", "external", "name", "labels", "driver", "driver_opts", "template_driver"), where, "Take it out.")
    sources = [one for one in ("file", "content", "environment", "external", "driver") if entry.get(one) not in (None, False)]
    if len(sources) != 1:
        raise GpuSwarmError(f"{where} has {' and '.join(sources) or 'no content'}. Write one of file, content, environment, or external: true.")
    made = {one: value for one, value in entry.items() if one not in ("file", "content", "environment")}
    if sources[0] in ("external", "driver"):
        return made
    path = f"{section}/{re.sub(r'[^A-Za-z0-9_.-]', '_', key)}"
    if path in files or key in (".", ".."):
        raise GpuSwarmError(f"{where}: another one has nearly this name. Give it one of letters, digits and . _ -")
    files[path] = _content(sources[0], entry[sources[0]], where, context)
    return {"file": f"./{path}", **made}


def _content(source: str, value: Any, where: str, context: Context) -> bytes:
    text = text_of(value, f"{where}.{source}") or ""
    if source == "content":
        return text.encode("utf-8")
    if source == "environment":
        if text not in context.variables.values:
            raise GpuSwarmError(f"{where}: the variable {text} is not set. Set it in .env, or in the environment.")
        return context.variables.values[text].encode("utf-8")
    content = context.read(text)
    if content is None:
        raise GpuSwarmError(f"{where}: there is no file {text}. Make it, or fix its path.")
    return content


def _escaped(value: Any) -> Any:
    """'docker stack deploy' replaces variables once more: what is a dollar now stays one."""
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value
