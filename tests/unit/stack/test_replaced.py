# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which services get new tasks. The code compares the file with the deployed service."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plugins.plugin_utils._stack import replaced
from plugins.plugin_utils._stack.document import load_compose
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.stack_yaml import to_yaml
from plugins.plugin_utils._stack.translate import translate
from plugins.plugin_utils._stack.versioned_names import name_by_content

FILE: dict[str, Any] = {
    "services": {
        "a": {"image": "i", "environment": {"X": "1"}, "configs": ["c"], "deploy": {"replicas": 1, "update_config": {"order": "start-first"}}},
        "b": {"image": "i"},
    },
    "configs": {"c": {"content": "x"}},
    "volumes": {"v": None},
}


def names(change: Any = None, there: Any = ("s_a", "s_b"), **more: Any) -> list[str]:
    """Return the services whose tasks are replaced. ``former`` is the stack file of the last deployment."""
    return [one["Name"] for one in marked(change, more.get("former", FILE), there) if "ForceUpdate" in one["TaskTemplate"]]


def marked(change: Any, former: Any, there: Any) -> list[dict[str, Any]]:
    new = yaml.safe_load(yaml.safe_dump(FILE))
    if change:
        change(new["services"]["a"], new)
    before, after = (one and name_by_content(translate(yaml.safe_dump(one), "c.yml", lambda _path: None, {}), "s").document for one in (former, new))
    return replaced.mark_replaced(specifications(after, "s"), "s", after, before and load_compose(to_yaml(before), "stack.yml"), there)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (None, []),
        (lambda a, _all: a.update(image="j"), ["s_a"]),
        (lambda a, _all: a["environment"].update(X="2"), ["s_a"]),
        (lambda a, _all: a.update(ports=["80:80"]), ["s_a"]),
        (lambda a, _all: a["deploy"].update(restart_policy={"condition": "any"}), ["s_a"]),
        (lambda a, _all: a["deploy"].update(resources={"limits": {"cpus": "0.5"}}), ["s_a"]),
        (lambda _a, all_: all_["configs"]["c"].update(content="y"), ["s_a"]),
        (lambda _a, all_: all_.update(networks={"default": {"internal": True}}), ["s_a", "s_b"]),
        # These changes cause no new task.
        (lambda a, _all: a["deploy"].update(replicas=2), []),
        (lambda a, _all: a["deploy"].update(labels={"x": "1"}), []),
        (lambda a, _all: a["deploy"].update(update_config={"parallelism": 3}), []),
        (lambda a, _all: a["deploy"].update(placement={"constraints": ["node.id==x"]}), []),
        (lambda a, _all: a.update(depends_on=["b"]), []),
        (lambda _a, all_: all_["services"]["b"].update(volumes=["/v:/v"]), ["s_b"]),
    ],
)
def test_changed_services_are_replaced(change: Any, found: list[str]) -> None:
    assert names(change) == found


def test_if_unknown_all_existing_services_count_as_replaced() -> None:
    """For example, a user deployed the stack in another way."""
    assert names(former=None) == ["s_a", "s_b"]
    assert names(former=None, there=["s_b"]) == ["s_b"]


def test_services_that_start_first_are_found() -> None:
    assert replaced.starts_first(marked(lambda a, _all: a.update(image="j"), FILE, ["s_a", "s_b"]))
    assert not replaced.starts_first(marked(lambda _a, all_: all_["services"]["b"].update(image="j"), FILE, ["s_a", "s_b"]))
