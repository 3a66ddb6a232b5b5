# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An argument that names a variable has the value that Ansible's own templating gives it, without a template being compiled for the name."""

from __future__ import annotations

import ansible.template
import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from jinja2 import Environment

from ansible_collections.fleet.gpu_swarm.plugins.action.gpu_node import ActionModule
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls import arguments

trusted = ansible.template.trust_as_template


@pytest.fixture
def templar():
    variables = {
        "number": 3, "none": None, "text": "gpu.", "numbers": [16, 24], "rules": [{"as": "gpu", "kind": trusted("{{ kind }}")}], "kind": "NVIDIA-GPU",
        "other": trusted("{{ number }}"), "from_a_host": "{{ kind }}", "lacking": trusted("{{ nothing }}"),
    }  # fmt: skip
    return ansible.template.Templar(DataLoader(), variables)


@pytest.fixture
def compiled(monkeypatch):
    """The templates that jinja compiles."""
    found = []
    before = Environment.compile

    def compile_one(self, source, *more, **options):
        found.append(source)
        return before(self, source, *more, **options)

    monkeypatch.setattr(Environment, "compile", compile_one)
    return found


@pytest.mark.parametrize(
    ("argument", "templates"),
    [
        ("{{ number }}", 0), ("{{none}}", 0), ("{{ text }}", 0), ("{{ numbers }}", 0), ("{{ from_a_host }}", 0), ("{{ rules }}", 1),
        ("{{ other }}", 1), ("{{ number + 1 }}", 1), ("a {{ text }}", 1), ("plain", 0), (7, 0),
    ],
)  # fmt: skip
def test_a_name_is_worth_what_a_template_is(templar, compiled, argument, templates):
    argument = trusted(argument) if isinstance(argument, str) else argument
    wanted = templar.template(argument)
    compiled.clear()
    found = ActionModule.finalize_task_arg("option", argument, templar, None)
    assert (found, type(found)) == (wanted, type(wanted))
    assert len(compiled) == templates


def test_what_somebody_else_wrote_stays_text(templar):
    assert ActionModule.finalize_task_arg("option", "{{ text }}", templar, None) == "{{ text }}"


@pytest.mark.parametrize("name", ["nothing", "lacking"])
def test_a_variable_that_is_not_there_is_an_error_as_ever(templar, name):
    with pytest.raises(AnsibleError, match="nothing"):
        ActionModule.finalize_task_arg("option", trusted("{{ %s }}" % name), templar, None)


def test_omit_is_as_ever(templar):
    templar.available_variables = {"expect": trusted("{{ omit }}")}
    with pytest.raises(AnsibleError) as found:
        ActionModule.finalize_task_arg("option", trusted("{{ expect }}"), templar, None)
    with pytest.raises(type(found.value)):
        templar.template(trusted("{{ expect }}"))


def test_names_are_looked_up_and_nothing_else():
    variables = {"a": 1}
    assert arguments.named_value(trusted("{{ a }}"), variables) == 1
    for other in ("{{ a", "{{ a.b }}", "{{ b }}", "{{ a | int }}", " {{ a }}", "{{ a }}\n"):
        assert arguments.named_value(trusted(other), variables) == other
