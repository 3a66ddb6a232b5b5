# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges the settings of all hosts of a run, before it contacts any.

Private to this collection: no stability is promised to others.
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
from .names import NAMED, Names, misspelt, misspelt_groups
from .roles import ROLES, declared
from .validation import CHECKED, as_text, contains_template, is_template, problem, shown

# The groups of an inventory whose hosts are a fleet.
GROUPS = ("swarm_managers", "swarm_workers", "gpu_nodes")
NOTHING_SHORT = CommandLine()
# The variable of managers of which only the API is used.
EXTERNAL = "swarm_manager_docker_host"

NOTHING_CHANGED = "Nothing was changed."
# Hosts have this once `status` has read a policy, and the plays that plan under it the second, as a variable of the play.
POLICY, PREVIEW = "gpu_swarm_policy_read", "_gpu_swarm_only_plans"


class Problems(NamedTuple):
    """In words: what is wrong for every host of the run, and what only for some, with these hosts."""

    run: list[str]
    hosts: dict[str, list[str]]


class ReadOnce:
    """Ansible's hostvars, the variables of each host put together once: for five hundred hosts that takes longer than all that is
    done with them."""

    def __init__(self, hostvars: Any) -> None:
        self._hostvars = hostvars
        self._read: dict[str, Any] = {}

    def raw_get(self, name: str) -> Any:
        if name not in self._read:
            self._read[name] = self._hostvars.raw_get(name)
        return self._read[name]

    def __getitem__(self, name: str) -> Any:
        return self._hostvars[name]

    def __contains__(self, name: str) -> bool:
        return name in self._hostvars


def check(
    task_vars: Mapping[str, Any], names: list[str], template: Callable[[Any], Any], roles: Iterable[str] = ROLES, line: CommandLine = NOTHING_SHORT
) -> Problems:
    """What is wrong with the settings of the hosts ``names``. ``template(value)`` is the value for the host that the task runs for."""
    settings = declared(roles)
    known, hostvars = Names(settings), task_vars["hostvars"]
    of_play = _of_play(task_vars, settings)
    run = [*_previewed(task_vars), *misspelt_groups(task_vars.get("groups", {}), GROUPS)]
    own = {key: value for key, value in of_play.items() if not str(key).startswith(command_line.OTHERS)}
    run += command_line.misspelt(line, settings, [own, *(hostvars.raw_get(name) for name in names)])
    run += _short(line, settings, template)
    run += _wrong(of_play, settings, known, lambda key: template(of_play[key]))
    found: dict[str, list[str]] = {}
    for name in names:
        raw = hostvars.raw_get(name)
        mine = {key: value for key, value in raw.items() if key not in of_play} if of_play.keys() & raw.keys() else raw
        for text in _wrong(mine, settings, known, partial(_templated, hostvars, name)):
            found.setdefault(text, []).append(name)
    run += _all_divided(task_vars, names, [setting for setting in settings.values() if setting.once and setting.name not in of_play])
    run += [text for text, where in found.items() if len(where) == len(names)]
    return Problems(run, {text: where for text, where in found.items() if text not in run})


def as_message(problems: Problems) -> str:
    """All of them as one message, each once."""
    return " ".join([*problems.run, *(f"{_in_words(where)}: {text}" for text, where in problems.hosts.items()), NOTHING_CHANGED])


def _in_words(hosts: list[str]) -> str:
    more = len(hosts) - NAMED
    return ", ".join(hosts[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _short(line: CommandLine, settings: Mapping[str, Setting], template: Callable[[Any], Any]) -> Iterator[str]:
    for name, of in line.given().items():
        value = line.variables[name]
        text = _judged(replace(settings[of], name=name), value, partial(template, value))
        yield from [text] if text else []


def _previewed(task_vars: Mapping[str, Any]) -> Iterator[str]:
    """Ansible keeps what include_vars has read until it ends: another playbook of the same run would carry out what was to be shown only."""
    if POLICY in task_vars and not task_vars.get(PREVIEW):
        yield (
            f"status with plan has read {task_vars[POLICY]} before, in the same run of Ansible, which keeps its variables until the end. "
            "Start this playbook by itself, without plan."
        )


def _of_play(task_vars: Mapping[str, Any], settings: Mapping[str, Setting]) -> dict[str, Any]:
    """What stands at the play, such as at import_playbook: it counts for all hosts, and no host's variables show it."""
    raw = task_vars["hostvars"].raw_get(task_vars["inventory_hostname"])
    return {key: value for key, value in task_vars.items() if key not in raw or (key in settings and value != raw[key])}


def _templated(hostvars: Any, name: str, key: str) -> Any:
    return hostvars[name][key]


def _all_divided(task_vars: Mapping[str, Any], names: list[str], once: list[Setting]) -> Iterator[str]:
    """A run goes by no external manager's settings, but for those of the swarm."""
    hostvars = task_vars["hostvars"]
    managed = [name for name in names if not hostvars.raw_get(name).get(EXTERNAL)]
    yield from _divided(hostvars, managed, [setting for setting in once if not setting.swarm])
    yield from _divided(hostvars, _of_fleet(task_vars, managed), [setting for setting in once if setting.swarm])


def _of_fleet(task_vars: Mapping[str, Any], names: list[str]) -> list[str]:
    """These hosts, and those of the inventory's groups that this run leaves out."""
    others = [name for group in GROUPS for name in task_vars.get("groups", {}).get(group, []) if name in task_vars["hostvars"]]
    return list(dict.fromkeys([*names, *others]))


def _divided(hostvars: Any, names: list[str], settings: Iterable[Setting]) -> Iterator[str]:
    """The settings for the whole run of which the hosts have several values: the run would take that of its first host."""
    for setting in settings:
        written = {name: hostvars.raw_get(name).get(setting.name) for name in names}
        if len(set(map(str, written.values()))) < 2:
            continue
        # The first host with each value. Where none is set, it is the default.
        found: dict[str, str] = {}
        for name, value in written.items():
            found.setdefault(str(_or_default(setting, _known(hostvars, name, setting.name, value))), name)
        if len(found) > 1:
            values = ", and ".join(f"{_set(setting, written[name])} for {name}" for name in list(found.values())[:2])
            yield f"{setting.name} counts for the whole run, and is {values}. Put it into group_vars/all.yml, or give it with -e."


def _known(hostvars: Any, name: str, key: str, value: Any) -> Any:
    try:
        return _templated(hostvars, name, key) if is_template(value) else value
    except AnsibleError:
        return value  # that it cannot be evaluated is an error of this host


def _or_default(setting: Setting, value: Any) -> Any:
    return setting.default if value in (None, "", []) else as_text(setting, value)


def _set(setting: Setting, value: Any) -> str:
    return "not set" if value is None else shown(setting, as_text(setting, value))


def _wrong(
    values: Mapping[str, Any], settings: Mapping[str, Setting], known: Names, templated: Callable[[str], Any]
) -> Iterator[str]:
    yield from (misspelt(name, meant) for name, meant in known.misspelt(values.keys()).items())
    for key in sorted(values.keys() & settings.keys()):
        text = _judged(settings[key], values[key], partial(templated, key))
        if text:
            yield text


def _judged(setting: Setting, value: Any, evaluate: Callable[[], Any]) -> str | None:
    """What is wrong with a value as it is written; ``evaluate()`` is what its templates make of it."""
    try:
        # Templating a host's variables costs far more than reading them, so only what needs it is templated.
        is_evaluated = contains_template(value) if setting.name in CHECKED else is_template(value)
        return problem(setting, evaluate() if is_evaluated else value)
    except AnsibleError as error:
        return f"{setting.name} is {shown(setting, value)}, which cannot be evaluated: {mask(str(error))}. Set it right, or leave it out."
