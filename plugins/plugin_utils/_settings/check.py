# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the settings of all hosts before a run contacts any host.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ansible.errors import AnsibleError

from ...module_utils._mask import mask
from . import command_line
from .command_line import CommandLine
from .declaration import Setting
from .names import MAX_HOSTS, Names, misspelt_error, misspelt_groups
from .roles import ROLES, declared_settings
from .validation import CHECKED, contains_template, is_template, shown, value_error, with_off_as_text

# The groups of an inventory whose hosts make up the fleet.
GROUPS = ("swarm_managers", "swarm_workers", "gpu_nodes")
NO_COMMAND_LINE = CommandLine()
# Only external managers have this variable. This collection uses only their API.
EXTERNAL = "swarm_manager_docker_host"

NOTHING_CHANGED = "Nothing was changed."
# Hosts have POLICY after `status` has read a policy. The plays that plan with this policy have PREVIEW as a play variable.
POLICY, PREVIEW = "gpu_swarm_policy_read", "_gpu_swarm_only_plans"


class Problems(NamedTuple):
    """Error texts: ``run`` has the errors of the whole run, ``hosts`` maps each other error to its hosts."""

    run: list[str]
    hosts: dict[str, list[str]]


class CachedHostvars:
    """Ansible's hostvars, with a cache of each host's raw variables. For 500 hosts, collecting the raw variables takes longer than all other code in
    this file.
    """

    def __init__(self, hostvars: Any) -> None:
        self._hostvars = hostvars
        self._cache: dict[str, Any] = {}

    def raw_get(self, name: str) -> Any:
        if name not in self._cache:
            self._cache[name] = self._hostvars.raw_get(name)
        return self._cache[name]

    def __getitem__(self, name: str) -> Any:
        return self._hostvars[name]

    def __contains__(self, name: str) -> bool:
        return name in self._hostvars


def check(
    task_vars: Mapping[str, Any], names: list[str], template: Callable[[Any], Any], roles: Iterable[str] = ROLES, line: CommandLine = NO_COMMAND_LINE
) -> Problems:
    """Find the errors in the settings of the hosts ``names``. ``template(value)`` evaluates a template for the host of the task."""
    settings = declared_settings(roles)
    known, hostvars = Names(settings), task_vars["hostvars"]
    play_variables = _play_variables(task_vars, settings)
    run = [*_policy_errors(task_vars), *misspelt_groups(task_vars.get("groups", {}), GROUPS)]
    variables_of_play = {key: value for key, value in play_variables.items() if not str(key).startswith(command_line.OTHER_PREFIXES)}
    run += command_line.misspelt_errors(line, settings, [variables_of_play, *(hostvars.raw_get(name) for name in names)])
    run += _short_name_errors(line, settings, template)
    run += _value_errors(play_variables, settings, known, lambda key: template(play_variables[key]))
    hosts_by_text: dict[str, list[str]] = {}
    for name in names:
        raw = hostvars.raw_get(name)
        own_values = {key: value for key, value in raw.items() if key not in play_variables} if play_variables.keys() & raw.keys() else raw
        for text in _value_errors(own_values, settings, known, partial(_templated, hostvars, name)):
            hosts_by_text.setdefault(text, []).append(name)
    run += _inconsistency_errors(task_vars, names, [setting for setting in settings.values() if setting.once and setting.name not in play_variables])
    run += [text for text, where in hosts_by_text.items() if len(where) == len(names)]
    return Problems(run, {text: where for text, where in hosts_by_text.items() if text not in run})


def as_message(problems: Problems) -> str:
    """Return all errors as one message, without repetitions."""
    return " ".join([*problems.run, *(f"{_list_hosts(where)}: {text}" for text, where in problems.hosts.items()), NOTHING_CHANGED])


def _list_hosts(hosts: list[str]) -> str:
    omitted = len(hosts) - MAX_HOSTS
    return ", ".join(hosts[:MAX_HOSTS]) + (f" and {omitted} more" if omitted > 0 else "")


def _short_name_errors(line: CommandLine, settings: Mapping[str, Setting], template: Callable[[Any], Any]) -> Iterator[str]:
    for name, setting_name in line.used_short_names().items():
        value = line.variables[name]
        text = _error_of(replace(settings[setting_name], name=name), value, partial(template, value))
        yield from [text] if text else []


def _policy_errors(task_vars: Mapping[str, Any]) -> Iterator[str]:
    """Refuse to change hosts after `status` has read a policy. Ansible keeps the variables of the policy, so this playbook would apply the policy."""
    if POLICY in task_vars and not task_vars.get(PREVIEW):
        yield (
            f"status with plan has read {task_vars[POLICY]} earlier in this run of Ansible, so its variables still apply. "
            "Run this playbook separately, without plan."
        )


def _play_variables(task_vars: Mapping[str, Any], settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the variables of the play, for example from import_playbook. They apply to all hosts, but are not among the variables of any host."""
    raw = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
    return {key: value for key, value in task_vars.items() if key not in raw or (key in settings and value != raw[key])}


def _templated(hostvars: Any, name: str, key: str) -> Any:
    return hostvars[name][key]


def _inconsistency_errors(task_vars: Mapping[str, Any], names: list[str], once: list[Setting]) -> Iterator[str]:
    """Yield an error for each setting of the run on which hosts differ. Check external managers only for settings of the whole swarm."""
    hostvars = task_vars["hostvars"]
    managed = [name for name in names if not hostvars.raw_get(name).get(EXTERNAL)]
    yield from _inconsistent(hostvars, managed, [setting for setting in once if not setting.swarm])
    yield from _inconsistent(hostvars, fleet_hosts(task_vars, managed), [setting for setting in once if setting.swarm])


def fleet_hosts(task_vars: Mapping[str, Any], names: list[str]) -> list[str]:
    """Return these hosts and all other hosts in the groups of the inventory, including hosts that --limit excludes."""
    fleet_names = [name for group in GROUPS for name in task_vars.get("groups", {}).get(group, []) if name in task_vars["hostvars"]]
    return list(dict.fromkeys([*names, *fleet_names]))


def _inconsistent(hostvars: Any, names: list[str], settings: Iterable[Setting]) -> Iterator[str]:
    """Yield an error for each setting of the whole run with several values. Without such an error, the run would use the value of its first host."""
    for setting in settings:
        written = {name: hostvars.raw_get(name).get(setting.name) for name in names}
        if len(set(map(str, written.values()))) < 2:
            continue
        # The first host with each value. A host without a value has the default.
        host_by_value: dict[str, str] = {}
        for name, value in written.items():
            host_by_value.setdefault(str(_or_default(setting, _evaluated(hostvars, name, setting.name, value))), name)
        if len(host_by_value) > 1:
            values = ", and ".join(f"{_describe_value(setting, written[name])} for {name}" for name in list(host_by_value.values())[:2])
            yield f"{setting.name} applies to the whole run, but is {values}. Set it once, in group_vars/all.yml or with -e."


def _evaluated(hostvars: Any, name: str, key: str, value: Any) -> Any:
    try:
        return _templated(hostvars, name, key) if is_template(value) else value
    except AnsibleError:
        return value  # the check of this host's values reports the error


def _or_default(setting: Setting, value: Any) -> Any:
    return setting.default if value in (None, "", []) else with_off_as_text(setting, value)


def _describe_value(setting: Setting, value: Any) -> str:
    return "not set" if value is None else shown(setting, with_off_as_text(setting, value))


def _value_errors(values: Mapping[str, Any], settings: Mapping[str, Setting], known: Names, templated: Callable[[str], Any]) -> Iterator[str]:
    """Yield an error for each misspelt name and each wrong value. ``templated(name)`` evaluates a variable."""
    yield from (misspelt_error(name, meant) for name, meant in known.misspelt(values.keys()).items())
    for key in sorted(values.keys() & settings.keys()):
        text = _error_of(settings[key], values[key], partial(templated, key))
        if text:
            yield text


def _error_of(setting: Setting, value: Any, evaluate: Callable[[], Any]) -> str | None:
    """Return the error of a value, or None. ``evaluate()`` returns the value with its templates evaluated."""
    try:
        # Templating costs far more than reading variables. So template only values with templates.
        is_evaluated = contains_template(value) if setting.name in CHECKED else is_template(value)
        return value_error(setting, evaluate() if is_evaluated else value)
    except AnsibleError as error:
        reason = mask(str(error))
        return f"{setting.name} is {shown(setting, value)}, which cannot be evaluated: {reason}. Correct the template or remove the setting."
