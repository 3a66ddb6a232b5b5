# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of options matches their checks. ``ansible-test sanity`` compares only modules with their own argument spec.

These tests compare modules that are an action on the controller. They also compare roles: options of a role repeat its defaults and the options of
modules.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml
from ansible.plugins.action import ActionBase
from documentation import PLUGINS
from documentation import options as documented

from ansible_collections.fleet.gpu_swarm.plugins.action import await_node, call_manager, swarm_batch
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls import managers
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.steps import STEPS

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
MODULES = {path.stem: path.read_text() for path in (ROOT / "plugins/modules").glob("*.py")}
# These actions pass unknown options to another module. The named option selects the other module.
WAITING = {
    "await_node": (await_node, "event", await_node.EVENTS),
    "call_manager": (call_manager, "module", managers.MODULES),
    "swarm_batch": (swarm_batch, "step", STEPS),
}
ACTIONS = sorted(name for name, text in MODULES.items() if "\ndef main(" not in text and name not in WAITING)


def types_of(options):
    """Return the documented options without descriptions. Missing keys get the defaults of Ansible."""
    found = {}
    for name, option in (options or {}).items():
        found[name] = {
            "type": option.get("type", "str"),
            "required": option.get("required", False),
            **{key: option.get(key) for key in ("default", "elements", "choices", "aliases")},
            "options": types_of(option.get("options") or option.get("suboptions")),
        }
    return found


class Specification(Exception):
    pass


@pytest.fixture
def specification(monkeypatch):
    """Return a function that returns the argument spec of an action."""

    def stop(_self, argument_spec=None, **_constraints):
        raise Specification(argument_spec)

    monkeypatch.setattr(ActionBase, "run", lambda *_arguments, **_options: {})
    monkeypatch.setattr(ActionBase, "validate_argument_spec", stop)

    def of(name):
        action = importlib.import_module(f"{PLUGINS}.action.{name}").ActionModule
        with pytest.raises(Specification) as found:
            action.run(object.__new__(action), task_vars={})
        return found.value.args[0]

    return of


def test_there_are_modules_that_are_actions():
    assert {"provision_plan", "report", "check_settings"} <= set(ACTIONS)


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_checks_what_its_module_documents(name, specification):
    assert types_of(specification(name)) == types_of(documented(name))


@pytest.mark.parametrize("name", WAITING)
def test_the_choices_of_an_action_that_calls_modules_are_documented(name):
    options, (action, option, choices) = documented(name), WAITING[name]
    assert set(action.OWN) <= set(options)
    assert options[option]["choices"] == list(choices)


# -- roles -----------------------------------------------------------------------------------------------------------

ROLES = sorted(path.parent.parent.name for path in ROOT.glob("roles/*/meta/argument_specs.yml"))


def entry_points(role):
    return yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text())["argument_specs"]


@pytest.mark.parametrize("role", ROLES)
def test_a_default_of_a_role_is_the_documented_one(role):
    defaults = yaml.safe_load((ROOT / "roles" / role / "defaults/main.yml").read_text())
    for entry in entry_points(role).values():
        options = entry.get("options", {})
        templated = {name for name, value in defaults.items() if "{{" in str(value)}  # the documentation describes these defaults
        assert {name: option["default"] for name, option in options.items() if "default" in option} == {
            name: value for name, value in defaults.items() if name in options and name not in templated
        }
    assert set(defaults) <= {name for entry in entry_points(role).values() for name in entry.get("options", {})}


@pytest.mark.parametrize("role", ROLES)
def test_an_option_is_the_same_at_every_entry_point(role):
    found = {}
    for entry in entry_points(role).values():
        for name, option in types_of(entry.get("options")).items():
            assert found.setdefault(name, option) == option


def test_the_options_that_the_role_passes_to_gpu_node_are_those_of_the_module():
    """Only the module checks the rules of ``advertise``. An empty string in the role means that the option is not set."""
    role, module = types_of(entry_points("gpu_node")["main"]["options"]), types_of(documented("gpu_node"))
    handed = {f"gpu_node_{name}": option for name, option in module.items() if f"gpu_node_{name}" in role}
    assert len(handed) > 10
    for name, option in handed.items():
        unset = role[name]["default"] == "" and option["default"] is None
        compared = ("elements",) if unset else ("type", "elements", "default")
        assert [role[name][key] for key in compared] == [option[key] for key in compared], name
        assert {*(role[name]["choices"] or [])} - {""} <= {*(option["choices"] or [])}, name
