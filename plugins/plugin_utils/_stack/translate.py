# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates a Compose file into a stack file for a swarm (pure, except that ``read`` reads files in the same folder).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors
from ...module_utils._mask import mask_value_in_key
from . import deploy_checks, document, keys, mounts, references, shapes, templates
from .fields import Notes, Reader, mapping, not_known, refuse_unknown, text_of
from .folder import decode
from .named_devices import Offered
from .placement import XGpu
from .services import Context, translate_service
from .variables import Variables, read_variables, replace_variables

# Docker Engine 20.10 requires a version. Later releases use the newest version that they know. A limit on the number of processes needs version 3.9.
VERSION, VERSION_OF_PIDS = "3.8", "3.9"
ENV = ".env"
DEFAULT_KIND = "NVIDIA-GPU"
_CREATE_NETWORK = "create the network with 'docker network create', and declare it here as external"


class Stack(NamedTuple):
    """``document`` is the stack file. ``files`` are the files that it uses, by relative path. ``notes`` are for the user. ``x_gpu`` has the x-gpu of
    services. Later code translates x-gpu for a fleet.
    """

    document: dict[str, Any]
    files: dict[str, bytes]
    notes: list[str]
    x_gpu: dict[str, XGpu]


def translate(
    text: str, name: str, read: Reader, environment: Mapping[str, str], kind: str = DEFAULT_KIND, offered: Offered = dict[str, list[str]]
) -> Stack:
    """Translate the text of the Compose file ``name``. Variables of ``environment`` override .env. ``offered`` returns the paths of the devices of
    the fleet, by name. All errors of the file are raised at once, in the order of the file."""
    notes, errors = Notes(), Errors()
    env_content = read(ENV)
    env_values = {} if env_content is None else read_variables(decode(env_content, ENV), ENV, environment)
    values = {**{key: value for key, value in env_values.items() if value is not None}, **environment}
    variables = Variables(values)
    written = errors.collect(document.load_compose, text, name)
    if written is None:
        errors.refuse()
    replaced = errors.collect(replace_variables, written, variables, name)
    notes.texts += [f"{name}: the variable {variable} is not set, so it is empty" for variable in variables.unset]
    context = Context(kind, variables, read, notes, offered)
    stack = errors.collect(_translate_sections, _ComposeFile(replaced, written, name), context)
    if errors.messages:
        raise SeveralErrors(document.sort_by_place(errors.messages, written, name), stack)
    return stack


class _ComposeFile(NamedTuple):
    """A Compose file with replaced variables (``compose``), and the same file before the replacement (``written``)."""

    compose: dict[str, Any]
    written: dict[str, Any]
    name: str


def _translate_sections(file: _ComposeFile, context: Context) -> Stack:
    compose, written, name = file
    notes, errors = context.notes, Errors()
    errors.collect(_refuse_unknown_keys, compose, name)
    sections = {key: errors.collect(_section, compose, key, name) for key in ("networks", "volumes", "configs", "secrets")}
    context.networks = dict(sections["networks"] or {})
    context.written = errors.collect(mapping, written.get("services"), f"{name}: services", instead={})
    result: dict[str, Any] = {"version": VERSION, "services": errors.collect(_services, compose, name, context, instead={})}
    if any("pids" in ((service.get("deploy") or {}).get("resources") or {}).get("limits", {}) for service in result["services"].values()):
        result["version"] = VERSION_OF_PIDS
    if context.profiles or not errors.messages:
        errors.collect(_refuse_empty, result["services"], context, name)
    errors.collect(mounts.refuse_own_folders, written, result["services"], name)
    translators: dict[str, Callable[..., Any]] = {"networks": _network, "volumes": _volume}
    for section, translate_entry in translators.items():
        entries = context.networks if section == "networks" else sections[section]
        result[section] = {
            key: errors.collect(translate_entry, value, f"{name}: {section}.{key}", notes, instead={}) for key, value in (entries or {}).items()
        }
    files: dict[str, bytes] = {}
    for section in ("configs", "secrets"):
        listed = [_Entry(section, key, value, f"{name}: {section}.{key}") for key, value in (sections[section] or {}).items()]
        result[section] = {entry.key: errors.collect(_config_or_secret, entry, context, files, instead={}) for entry in listed}
    errors.collect(references.check_declared, {**result, **{key: None for key, value in sections.items() if value is None}}, name)
    choices = {key: [str(entry["image"]) for entry in x_gpu.matrix] for key, x_gpu in context.x_gpu.items()}
    errors.collect(deploy_checks.refuse, deploy_checks.Stack(result, files, name, context.written, context.variables.unset, choices))
    sections_in_use = {key: value for key, value in result.items() if value or key == "services"}
    stack = Stack(_escape_dollars(sections_in_use), files, notes.texts, context.x_gpu)
    errors.refuse(stack)
    return stack


def _services(compose: dict[str, Any], name: str, context: Context) -> dict[str, Any]:
    errors = Errors()
    entries = mapping(compose.get("services"), f"{name}: services")
    services = {key: errors.collect(translate_service, key, value, name, context, instead={}) for key, value in entries.items()}
    result = {key: value for key, value in services.items() if value is not None}
    errors.refuse(result)
    return result


def _refuse_unknown_keys(compose: dict[str, Any], name: str) -> None:
    errors = Errors()
    for key in compose:
        if key in keys.TOP_REFUSED:
            errors.add(f"{name}: {key} is not supported on Swarm: {keys.TOP_REFUSED[key]}.")
        elif key not in keys.TOP | {"version", "name"} and not key.startswith("x-"):
            errors.add(not_known(f"{name}: {mask_value_in_key(key)}"))
    errors.refuse()


def _refuse_empty(services: dict[str, Any], context: Context, name: str) -> None:
    if context.profiles and not services:
        chosen = ", ".join(sorted(filter(None, context.chosen)))
        reason = f"none has a profile of COMPOSE_PROFILES={chosen}" if chosen else "Compose starts none of them by default"
        raise GpuSwarmError(
            f"{name}: all services have profiles, and {reason}. Choose one in .env or your environment, such as "
            f"COMPOSE_PROFILES={context.profiles[0]}. The file has the profiles {', '.join(dict.fromkeys(context.profiles))}."
        )
    if not services:
        raise GpuSwarmError(f"{name} has no services to deploy. Write at least one under services.")


def _section(compose: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    return mapping(compose.get(key), f"{name}: {key}")


def _network(value: Any, where: str, notes: Notes) -> dict[str, Any]:
    errors = Errors()
    result = dict(errors.collect(shapes.NETWORK, _supported(mapping(value, where), keys.NETWORK, where, notes), where))
    if result.get("ipam") is not None:
        result["ipam"] = errors.collect(_addresses, result["ipam"], f"{where}.ipam", notes)
    if result.get("driver") == "bridge":  # such a network exists on only one machine
        del result["driver"]
        notes.ignored(where, "driver", "nothing: a stack uses overlay, which reaches all nodes")
    errors.refuse(result)
    return result


def _addresses(value: Any, where: str, notes: Notes) -> dict[str, Any]:
    result, entries, errors = _supported(mapping(value, where), keys.IPAM, where, notes), [], Errors()
    if not isinstance(result.get("config", []), list):
        raise GpuSwarmError(f"{where}.config must be a list. Begin each subnet with '- '.")
    for number, entry in enumerate(result.get("config", [])):
        entries.append(errors.collect(_subnet, entry, f"{where}.config[{number}]", notes))
    result = {**result, **({"config": [subnet for subnet in entries if subnet]} if entries else {})}
    errors.refuse(result)
    return result


def _subnet(value: Any, where: str, notes: Notes) -> dict[str, Any]:
    return dict(shapes.SUBNET(_supported(mapping(value, where), keys.IPAM_CONFIG, where, notes), where))


def _supported(options: dict[str, Any], supported: frozenset[str], where: str, notes: Notes) -> dict[str, Any]:
    """Return the keys that a network of a stack supports. Note that other keys are ignored."""
    for key in options:
        if key not in supported:
            notes.ignored(where, key, _CREATE_NETWORK)
    return {key: value for key, value in options.items() if key in supported}


def _volume(value: Any, where: str, _notes: Notes) -> dict[str, Any]:
    entry, errors = mapping(value, where), Errors()
    volume = dict(errors.collect(shapes.VOLUME, entry, where))
    errors.collect(refuse_unknown, volume, keys.VOLUME, where)
    errors.collect(mounts.refuse_relative_device, volume, where)
    errors.collect(templates.refuse_in_volume, volume, where)
    errors.refuse(volume)
    return volume


class _Entry(NamedTuple):
    """A config or secret of the Compose file."""

    section: str
    key: str
    value: Any
    where: str


def _config_or_secret(entry_of_file: _Entry, context: Context, files: dict[str, bytes]) -> dict[str, Any]:
    """Translate a config or secret, and add its content to ``files``."""
    section, key, value, where = entry_of_file
    errors = Errors()
    written = mapping(value, where)
    entry = dict(errors.collect(shapes.CONFIG_OR_SECRET, written, where))
    supported = ("file", "content", "environment", "external", "name", "labels", "driver", "driver_opts", "template_driver")
    errors.collect(refuse_unknown, entry, supported, where, "Remove it.")
    sources = [source for source in ("file", "content", "environment", "external", "driver") if written.get(source) not in (None, False)]
    if len(sources) != 1:
        errors.add(f"{where} has {' and '.join(sources) or 'no content'}. Write one of file, content, environment, or external: true.")
    errors.refuse()
    result = {option: value for option, value in entry.items() if option not in ("file", "content", "environment")}
    if sources[0] in ("external", "driver"):
        return result
    path = f"{section}/{re.sub(r'[^A-Za-z0-9_.-]', '_', key)}"
    if path in files or key in (".", ".."):
        raise GpuSwarmError(f"{where}: another entry has nearly the same name. Use only letters, digits and . _ - in the name")
    files[path] = _content(sources[0], entry[sources[0]], where, context)
    return {"file": f"./{path}", **result}


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
        raise GpuSwarmError(f"{where}: the file {text} does not exist. Create it, or correct its path.")
    return content


def _escape_dollars(value: Any) -> Any:
    """Double each dollar sign, because 'docker stack deploy' replaces variables once more."""
    if isinstance(value, dict):
        return {key: _escape_dollars(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escape_dollars(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value
