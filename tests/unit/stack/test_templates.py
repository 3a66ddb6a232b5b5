# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Swarm expands Go templates in variables, hostname and mounts, and prints the whole value if it cannot.

So templates of other tools are never passed to swarm.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack.stack_yaml import to_display
from plugins.plugin_utils._stack.translate import Stack, translate

S = "s3cr3t"
JINJA = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"


def of(service: dict[str, Any], **more: Any) -> Stack:
    files = {"own.env": f"OF_FILE='{S}-{{{{Zq'\n".encode()}
    return translate(yaml.safe_dump({"services": {"llm": {"image": "lab/task", **service}}, **more}), "compose.yml", files.get, {})


@pytest.mark.parametrize("value", [f"{S}-{{{{Zq+Ul66", JINJA, "{{", "{{{a", "costs ${{'$'}}5"])
def test_a_value_is_written_so_that_swarm_does_not_expand_it(value: str) -> None:
    stack = of({"environment": {"TEMPLATE": value.replace("$", "$$"), "PLAIN": "x}}"}})
    found = stack.document["services"]["llm"]["environment"]
    assert found["TEMPLATE"].replace('{{"{{"}}', "{{").replace("$$", "$") == value.replace("$$", "$")
    assert "{{" not in found["TEMPLATE"].replace('{{"{{"}}', "")
    assert found["PLAIN"] == "x}}"
    (note,) = stack.notes
    assert note.startswith("compose.yml: services.llm.environment.TEMPLATE: swarm would expand its '{{' as a template.")
    assert S not in note


def test_a_value_from_a_file_is_written_the_same_way() -> None:
    stack = of({"env_file": "own.env"})
    assert stack.document["services"]["llm"]["environment"] == {"OF_FILE": f'{S}-{{{{"{{{{"}}}}Zq'}
    assert S in to_display(stack.document)[0]  # the variable's name does not look like a secret


def test_fields_of_swarm_are_deployed_unchanged() -> None:
    service = {
        "hostname": "worker-{{.Node.Hostname}}",
        "environment": ["HOST={{ .Node.Hostname }}", "URL=https://edge.example.org/%s.mp4"],
        "volumes": ["codecs:/codecs-{{.Task.Slot}}", {"type": "bind", "source": "/srv/{{.Service.Name}}", "target": "/srv"}],
    }
    stack = of(service, volumes={"codecs": {"name": "codecs-{{.Task.Slot}}"}})
    made = stack.document["services"]["llm"]
    assert made["environment"]["HOST"] == "{{ .Node.Hostname }}"
    assert {key: made[key] for key in ("hostname", "volumes")} == {key: service[key] for key in ("hostname", "volumes")}
    assert stack.notes == []


REFUSED = {
    "a field of swarm": ({"environment": {"A": "{{if .Task.Slot}}" + S}}, {}, "services.llm.environment.A has one of swarm's fields"),
    "an unknown field": ({"environment": ["A={{.Node.Name}}" + S]}, {}, "services.llm.environment.A has one of swarm's fields"),
    "hostname": ({"hostname": S + "{{x}}"}, {}, "services.llm.hostname has '{{'"),
    "a volume": ({"volumes": [f"/{S}{{{{x}}}}:/data"]}, {}, "services.llm.volumes[0] has '{{'"),
    "a mount": ({"volumes": [{"type": "volume", "target": f"/{S}{{{{x}}}}"}]}, {}, "services.llm.volumes[0].target has '{{'"),
    "a tmpfs": ({"tmpfs": [f"/{S}{{{{x}}}}"]}, {}, "services.llm.volumes[0].target has '{{'"),
    "a volume's name": ({}, {"volumes": {"v": {"name": S + "{{x}}"}}}, "volumes.v.name has '{{'"),
    "a volume's option": ({}, {"volumes": {"v": {"driver_opts": {"o": f"password={S}{{{{x"}}}}, "volumes.v.driver_opts.o has '{{'"),
    "a volume's label": ({}, {"volumes": {"v": {"labels": [f"a={S}{{{{x"]}}}, "volumes.v.labels.a has '{{'"),
}  # fmt: skip


@pytest.mark.parametrize(("service", "more", "message"), REFUSED.values(), ids=REFUSED)
def test_the_error_does_not_show_the_value(service: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(service, **more)
    assert raised.value.message.startswith(f"compose.yml: {message}")
    assert "Write each of swarm's fields alone" in raised.value.message
    assert S not in raised.value.message
