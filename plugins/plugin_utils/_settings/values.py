# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values of the settings, converted to their declared types.

The plan reads the settings once for the whole run, and the tasks read them from the plan. Tasks do not read the variables, because tasks do not know
the defaults, and a variable may have changed after the plan, for example through facts that a host returned.

Each playbook begins with _settings/check, which reports wrong values. If a value is wrong here, it comes from later facts, and it becomes the
default.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ansible.errors import AnsibleError

from ...module_utils._errors import GpuSwarmError
from .check import fleet_hosts
from .declaration import PLAYBOOKS, Setting
from .roles import ROLES, declared_settings
from .validation import contains_template, convert, value_error

Template = Callable[[Any], Any]

# Settings that tasks read for each host: gpu_swarm_plan.steps[inventory_hostname].settings.
FOR_TASKS = ("provision_wait", "provision_drain_timeout", "maintain_reboot", "maintain_timeout", "gpu_node_nvml_timeout")
# Settings that only the steps of the plan use.
FOR_STEPS = ("maintain_id", "gpu_node_on_loss", "gpu_node_isolation")
# Settings of the whole run: gpu_swarm_plan.settings.
FOR_RUN = tuple(setting.name for setting in PLAYBOOKS if setting.once and setting.name.startswith(("provision_", "gpu_swarm_")))

DEVICES = "gpu_swarm_devices"
# The default version is for hosts without the toolkit. If the setting is not set, an installed version stays.
WITHOUT_DEFAULT = ("nvidia_container_toolkit_version",)


def run_settings(task_vars: Mapping[str, Any], names: list[str], template: Template) -> dict[str, Any]:
    """Return the settings of the whole run. All hosts have the same values."""
    return values(task_vars, names[:1], FOR_RUN, template).get("".join(names[:1]), {})


def values(
    task_vars: Mapping[str, Any], names: Iterable[str], wanted: Iterable[str], template: Template, roles: Iterable[str] = ROLES
) -> dict[str, dict[str, Any]]:
    """Return the settings ``wanted`` for each host. ``template(value)`` evaluates a template of the play."""
    declared, hostvars = declared_settings(roles), task_vars["hostvars"]
    settings = [replace(declared[key], default=None) if key in WITHOUT_DEFAULT else declared[key] for key in wanted]
    play_values = _values_of_play(task_vars, settings, template)
    host_settings = [setting for setting in settings if setting.name not in play_values]
    return {name: {**play_values, **_values_of_host(hostvars, name, host_settings)} for name in names}


def offered_devices(task_vars: Mapping[str, Any], template: Template) -> dict[str, list[str]]:
    """Return the paths of gpu_swarm_devices by name, of this host and all hosts of the fleet together. Raises GpuSwarmError for a wrong value."""
    offered: dict[str, list[str]] = {}
    by_host = values(task_vars, fleet_hosts(task_vars, [task_vars["inventory_hostname"]]), [DEVICES], template, roles=())
    for host, settings in by_host.items():
        named = settings[DEVICES]
        problem = value_error(declared_settings(())[DEVICES], named)
        if problem:
            raise GpuSwarmError(f"{host}: {problem}")
        for name, paths in ((str(name), paths) for name, paths in named.items()):
            offered[name] = list(dict.fromkeys([*offered.get(name, []), *paths]))
    return offered


def _values_of_play(task_vars: Mapping[str, Any], settings: Iterable[Setting], template: Template) -> dict[str, Any]:
    """Return the variables of the play, for example from import_playbook. They apply to all hosts, but are not among the variables of any host."""
    raw = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
    set_by_play = [setting for setting in settings if _is_set_by_play(setting.name, task_vars, raw)]
    return {setting.name: _value(setting, task_vars[setting.name], partial(template, task_vars[setting.name])) for setting in set_by_play}


def _is_set_by_play(name: str, task_vars: Mapping[str, Any], raw: Mapping[str, Any]) -> bool:
    return name in task_vars and (name not in raw or task_vars[name] != raw[name])


def _values_of_host(hostvars: Any, name: str, settings: Iterable[Setting]) -> dict[str, Any]:
    raw = hostvars.raw_get(name)
    return {setting.name: _value(setting, raw.get(setting.name), partial(_templated, hostvars, name, setting.name)) for setting in settings}


def _templated(hostvars: Any, name: str, key: str) -> Any:
    return hostvars[name][key]


def _value(setting: Setting, written: Any, templated: Callable[[], Any]) -> Any:
    try:
        # Templating costs far more than reading variables. So template only values with templates.
        return setting.default if written is None else convert(setting, templated() if contains_template(written) else written)
    except AnsibleError:
        return setting.default
