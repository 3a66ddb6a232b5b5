# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values of the settings, each as what it is declared to be.

A plan reads them once for the whole run. The tasks read them from the plan, and not the variables: a task knows no defaults, and a
variable of that name may have changed since, such as by facts that a host returned.
A wrong value is an error of _settings/check, with which each playbook begins. Here it counts as the default: it can only come from later facts.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ansible.errors import AnsibleError

from .declaration import PLAYBOOKS, Setting
from .roles import ROLES, declared
from .validation import contains_template, converted

Template = Callable[[Any], Any]

# What tasks read of each host: gpu_swarm_plan.steps[inventory_hostname].settings.
FOR_TASKS = ("provision_wait", "provision_drain_timeout", "maintain_reboot", "maintain_timeout", "gpu_node_nvml_timeout")
# What the steps of the plan go by themselves: beside it there.
FOR_STEPS = ("maintain_id", "gpu_node_on_loss", "gpu_node_isolation")
# What counts for the whole run: gpu_swarm_plan.settings.
FOR_RUN = tuple(setting.name for setting in PLAYBOOKS if setting.once and setting.name.startswith(("provision_", "gpu_swarm_")))

# Its default is what is installed where nothing is; unset, what is installed stays.
LEFT_OPEN = ("nvidia_container_toolkit_version",)


def of_run(task_vars: Mapping[str, Any], names: list[str], template: Template) -> dict[str, Any]:
    """The settings that count for the whole run, of whose values all hosts have the same."""
    return values(task_vars, names[:1], FOR_RUN, template).get("".join(names[:1]), {})


def values(
    task_vars: Mapping[str, Any], names: Iterable[str], wanted: Iterable[str], template: Template, roles: Iterable[str] = ROLES
) -> dict[str, dict[str, Any]]:
    """By host the settings ``wanted``. ``template(value)`` is the value of a template that stands at the play."""
    known, hostvars = declared(roles), task_vars["hostvars"]
    settings = [replace(known[key], default=None) if key in LEFT_OPEN else known[key] for key in wanted]
    of_play = _of_play(task_vars, settings, template)
    of_hosts = [setting for setting in settings if setting.name not in of_play]
    return {name: {**of_play, **_of_host(hostvars, name, of_hosts)} for name in names}


def _of_play(task_vars: Mapping[str, Any], settings: Iterable[Setting], template: Template) -> dict[str, Any]:
    """What stands at the play, such as at import_playbook: it counts for all hosts, and no host's variables show it."""
    raw = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
    there = [one for one in settings if one.name in task_vars and (one.name not in raw or task_vars[one.name] != raw[one.name])]
    return {one.name: _value(one, task_vars[one.name], lambda one=one: template(task_vars[one.name])) for one in there}  # type: ignore[misc]


def _of_host(hostvars: Any, name: str, settings: Iterable[Setting]) -> dict[str, Any]:
    raw = hostvars.raw_get(name)
    return {one.name: _value(one, raw.get(one.name), lambda one=one: hostvars[name][one.name]) for one in settings}  # type: ignore[misc]


def _value(setting: Setting, written: Any, templated: Callable[[], Any]) -> Any:
    try:
        # Templating a host's variables costs far more than reading them, so only what needs it is templated.
        return setting.default if written is None else converted(setting, templated() if contains_template(written) else written)
    except AnsibleError:
        return setting.default
