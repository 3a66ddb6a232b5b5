# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A config or secret with new content gets a new name, and unused ones are removed."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from plugins.module_utils._swarm.manager import SwarmError
from plugins.module_utils._swarm.owned_labels import VERSION_OF
from plugins.module_utils._swarm.stack_versions import remove_unused
from plugins.plugin_utils._stack.translate import translate
from plugins.plugin_utils._stack.versioned_names import name_by_content

COMPOSE = """
services: {a: {image: i}}
configs: {c: {content: "${X}"}, n: {content: x, name: settings-2}, e: {external: true}}
secrets: {s: {environment: X, labels: [mine=1]}}
"""


def entries(content: str, text: str = COMPOSE, stack: str = "train") -> dict[str, Any]:
    found = name_by_content(translate(dedent(text), "c.yml", lambda _path: None, {"X": content}), stack).document
    return {**found["configs"], **found.get("secrets", {})}


def test_the_name_depends_on_the_content() -> None:
    one, same, other = entries("1"), entries("1"), entries("2")
    assert one == same
    for key in "cs":
        assert one[key]["name"] != other[key]["name"]
        assert one[key]["name"].rpartition("_")[0] == other[key]["name"].rpartition("_")[0] == f"train_{key}"
    assert one["s"]["labels"] == {"mine": "1", VERSION_OF: "train_s"}


def test_a_name_of_the_file_stays() -> None:
    found = entries("1")
    assert found["n"] == {"file": "./configs/n", "name": "settings-2"}
    assert found["e"] == {"external": True}


def test_other_unchangeable_values_also_change_the_name() -> None:
    template = COMPOSE.replace('"${X}"', '"${X}", template_driver: golang')
    assert entries("1", template)["c"]["name"] != entries("1")["c"]["name"]


def test_the_same_content_has_another_name_in_another_stack_and_under_another_key() -> None:
    assert entries("1", stack="b")["c"]["name"].rpartition("_")[2] != entries("1")["c"]["name"].rpartition("_")[2]


def test_names_are_valid_for_swarm() -> None:
    long = "k" * 70
    found = entries("1", f"services: {{a: {{image: i}}}}\nconfigs: {{'{long}': {{content: x}}, 'a.b': {{content: x}}}}\nsecrets: {{}}")
    names = [one["name"] for one in found.values()]
    assert all(len(name) <= 64 for name in names)
    assert names[1].startswith("train_a.b_")


class Swarm:
    """Simulates a manager with services, configs and secrets, and records the requests to this manager."""

    def __init__(self, services: list[dict[str, Any]], in_use: str = "") -> None:
        self._services, self._in_use, self.removed = services, in_use, []
        own = {"com.docker.stack.namespace": "train", VERSION_OF: "train_c"}
        theirs = {**own, "com.docker.stack.namespace": "other"}
        self._lists = {
            "config": [self._made("c1", own), self._made("c2", own), self._made("c3", own), self._made("c4", theirs)],
            "secret": [self._made("s1", own)],
        }

    @staticmethod
    def _made(name: str, labels: dict[str, str]) -> dict[str, Any]:
        return {"ID": f"id-{name}", "Spec": {"Name": name, "Labels": labels}}

    def services(self) -> list[dict[str, Any]]:
        return self._services

    def configs_labelled(self, label: str) -> list[dict[str, Any]]:
        assert label == VERSION_OF
        return self._lists["config"]

    def secrets_labelled(self, label: str) -> list[dict[str, Any]]:
        assert label == VERSION_OF
        return self._lists["secret"]

    def remove_config(self, one: str) -> None:
        if one == self._in_use:
            raise SwarmError("in use")
        self.removed.append(one)

    remove_secret = remove_config


def spec(config: str | None = None, secret: str | None = None) -> dict[str, Any]:
    configs, secrets = [{"ConfigID": config}] if config else None, [{"SecretID": secret}] if secret else None
    return {"TaskTemplate": {"ContainerSpec": {"Configs": configs, "Secrets": secrets}}}


def test_names_in_use_stay_even_for_a_rollback() -> None:
    swarm = Swarm([{"Spec": spec("id-c2", "id-s1"), "PreviousSpec": spec("id-c1")}, {"Spec": {"TaskTemplate": {}}}])
    assert remove_unused(swarm, "train") == ["c3"]  # type: ignore[arg-type]
    assert swarm.removed == ["id-c3"]


def test_a_name_that_came_into_use_meanwhile_stays() -> None:
    swarm = Swarm([], in_use="id-c2")
    assert remove_unused(swarm, "train") == ["c1", "c3", "s1"]  # type: ignore[arg-type]


def test_a_credential_specification_counts_as_a_use() -> None:
    of_windows = {"TaskTemplate": {"ContainerSpec": {"Privileges": {"CredentialSpec": {"Config": "id-c1"}}}}}
    assert "c1" not in remove_unused(Swarm([{"Spec": of_windows}]), "train")  # type: ignore[arg-type]
