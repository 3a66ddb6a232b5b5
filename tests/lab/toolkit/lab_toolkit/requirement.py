# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks an image's requirements of the driver, like nvidia-container-cli in legacy mode. Pure.

It checks only cuda and driver. It accepts all other requirements.
"""

from __future__ import annotations

import operator
import re

from .devices import Refused

SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def required(env: dict[str, str]) -> list[str]:
    if env.get("NVIDIA_DISABLE_REQUIRE") in ("1", "t", "T", "TRUE", "true", "True"):
        return []
    found = [value for name, value in env.items() if name.startswith("NVIDIA_REQUIRE_") and value]
    version = re.match(r"(\d+)\.(\d+)", env.get("CUDA_VERSION", ""))
    return [*found, f"cuda>={version[0]}"] if version and not env.get("NVIDIA_REQUIRE_CUDA") else found


def refuse(env: dict[str, str], has: dict[str, str]) -> None:
    """Raise if the driver meets no alternative. ``has`` contains the versions of cuda and driver. A blank means OR, a comma means AND."""
    for text in required(env):
        if not any(all(_met(atom, has) for atom in one.split(",") if atom) for one in text.split()):
            raise Refused(
                f"nvidia-container-cli: requirement error: unsatisfied condition: {text.split()[-1]}, please update your driver to a newer version, "
                "or use an earlier cuda container"
            )


def _met(atom: str, has: dict[str, str]) -> bool:
    found = re.fullmatch(r"(cuda|driver)(!=|<=|>=|=|<|>)([0-9.]+)", atom)
    return found is None or SIGNS[found[2]](_number(has[found[1]]), _number(found[3]))


def _number(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in version.split(".")]
    return (*parts, 0, 0, 0)[:4]
