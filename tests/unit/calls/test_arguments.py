# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arguments that are only the name of a variable. Such an argument has the same value as with Ansible's templating, but no template is compiled."""

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
    """Record the templates that jinja compiles."""
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
def test_a_name_gives_the_same_value_as_its_template(templar, compiled, argument, templates):
    argument = trusted(argument) if isinstance(argument, str) else argument
    wanted = templar.template(argument)
    compiled.clear()
    found = ActionModule.finalize_task_arg("option", argument, templar, None)
    assert (found, type(found)) == (wanted, type(wanted))
    assert len(compiled) == templates


def test_untrusted_text_stays_text(templar):
    assert ActionModule.finalize_task_arg("option", "{{ text }}", templar, None) == "{{ text }}"


@pytest.mark.parametrize("name", ["nothing", "lacking"])
def test_a_missing_variable_is_an_error_as_in_a_template(templar, name):
    with pytest.raises(AnsibleError, match="nothing"):
        ActionModule.finalize_task_arg("option", trusted("{{ %s }}" % name), templar, None)


def test_omit_works_as_in_a_template(templar):
    templar.available_variables = {"expect": trusted("{{ omit }}")}
    with pytest.raises(AnsibleError) as found:
        ActionModule.finalize_task_arg("option", trusted("{{ expect }}"), templar, None)
    with pytest.raises(type(found.value)):
        templar.template(trusted("{{ expect }}"))


def test_only_names_are_looked_up():
    variables = {"a": 1}
    assert arguments.named_value(trusted("{{ a }}"), variables) == 1
    for other in ("{{ a", "{{ a.b }}", "{{ b }}", "{{ a | int }}", " {{ a }}", "{{ a }}\n"):
        assert arguments.named_value(trusted(other), variables) == other
