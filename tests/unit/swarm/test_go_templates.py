# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Swarm expands Go templates in some values. This collection escapes every template that is not a field of swarm.

So the container gets the text that the user wrote, with the values of swarm's fields.
"""

from __future__ import annotations

import random

import pytest

from plugins.module_utils._swarm import go_templates

FIELDS = [
    "{{.Service.ID}}", "{{ .Service.Name }}", "{{.Service.Labels}}", '{{index .Service.Labels "a.b"}}', "{{.Node.ID}}", "{{.Node.Hostname}}",
    "{{.Node.Platform}}", "{{.Node.Platform.OS}}", "{{.Node.Platform.Architecture}}", "{{.Task.ID}}", "{{.Task.Name}}", "{{\t.Task.Slot}}",
]  # fmt: skip
OTHERS = [
    "s3cr3t-{{Zq+Ul66",
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}",
    "{{{",
    "{{{{",
    "{{}}",
    '{{"{{"}}',
    "Host(`{{ normalize .Name }}`)",
    "{{/* a comment */}}",
    "{{- x -}}",
    "{{ x.Node.Hostname }}",  # a field of another tool
]


def expanded(text: str) -> str:
    """Expand a text from left to right, as Go's text/template does. Only fields of swarm and the action ``{{"{{"}}`` are supported."""
    found = ""
    while "{{" in text:
        before, _braces, rest = text.partition("{{")
        assert rest.startswith('"{{"}}') or go_templates.only_fields("{{" + rest.partition("}}")[0] + "}}"), rest
        literal = rest.startswith('"{{"}}')
        found += before + ("{{" if literal else "<field>")
        text = rest[len('"{{"}}') :] if literal else rest.partition("}}")[2]
    return found + text


@pytest.mark.parametrize("text", FIELDS)
def test_swarms_fields_stay(text: str) -> None:
    whole = f"a {text}:{text}"
    assert go_templates.literal(whole) == whole
    assert go_templates.only_fields(whole)
    assert not go_templates.is_meant_for_swarm(whole)
    assert expanded(whole) == "a <field>:<field>"


@pytest.mark.parametrize("text", OTHERS)
def test_any_other_brace_reaches_the_container_unchanged(text: str) -> None:
    assert not go_templates.only_fields(text)
    assert not go_templates.is_meant_for_swarm(text)
    assert expanded(go_templates.literal(text)) == text
    assert go_templates.as_written(go_templates.literal(text)) == text
    assert expanded(go_templates.literal(f"{text}{{{{.Node.ID}}}}")) in (f"{text}<field>", f"{text}{{{{.Node.ID}}}}")


def test_any_text_reaches_the_container_unchanged() -> None:
    chance = random.Random(7)
    for _number in range(2000):
        text = "".join(chance.choice(["{", "}", "{{", "}}", '"', "`", "a", ".", " ", "-", "\n"]) for _one in range(chance.randint(0, 12)))
        assert expanded(go_templates.literal(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        '{{if eq .Task.Slot "1"}}a{{end}}',
        "{{ .Node.Hostname | printf }}",
        "{{.Node.Name}}",
        "{{.Service.Labels.x}}",
        "{{- .Task.Slot}}",
        "{{.Node.ID}}{{.Task.Labels}}",
    ],
)
def test_a_field_inside_a_text_is_kept(text: str) -> None:
    assert go_templates.is_meant_for_swarm(text)
