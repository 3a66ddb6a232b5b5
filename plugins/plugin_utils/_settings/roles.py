# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of this collection's roles, as their argument specs declare them.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from .declaration import FORMS, LIMITS, PLAYBOOKS, Setting

FOLDER = Path(__file__).resolve().parents[3] / "roles"
# The roles of provision, maintain and deprovision.
ROLES = ("gpu_node", "nvidia_container_toolkit", "swarm_member")
_NO_LIMITS = (0, None)
_NO_FORM = ("", None)


def declared_settings(roles: Iterable[str] = ROLES) -> dict[str, Setting]:
    """Return all settings of the playbooks and of these roles, by name."""
    return {setting.name: setting for setting in [*PLAYBOOKS, *settings_of_roles(roles)]}


def settings_of_roles(names: Iterable[str], folder: Path = FOLDER) -> list[Setting]:
    """Return the settings of these roles."""
    return [setting for name in names for setting in _role_settings(folder / name / "meta" / "argument_specs.yml")]


@lru_cache  # a run needs them several times
def _role_settings(spec: Path) -> list[Setting]:
    options: dict[str, dict] = {}
    for entry in yaml_load(spec.read_text(encoding="utf-8"))["argument_specs"].values():
        options.update(entry.get("options") or {})
    return [
        Setting(
            name=name,
            type=option.get("type", "str"),
            default=option.get("default"),
            meaning=_paragraphs(option)[0],
            details=" ".join(_paragraphs(option)[1:]),
            choices=tuple(filter(None, option.get("choices") or ())),
            elements=option.get("elements", "raw"),
            empty="default" not in option or "" in (option.get("choices") or ()),
            low=LIMITS.get(name, _NO_LIMITS)[0],
            high=LIMITS.get(name, _NO_LIMITS)[1],
            wants=FORMS.get(name, _NO_FORM)[0],
            fits=FORMS.get(name, _NO_FORM)[1],
        )
        for name, option in options.items()
    ]


def _paragraphs(option: dict) -> list[str]:
    return [option["description"]] if isinstance(option["description"], str) else option["description"]
