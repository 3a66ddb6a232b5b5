# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-ctk config, as far as recipes and the packages' scripts use it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from . import config

USAGE = "usage: nvidia-ctk [--quiet] [--debug] config [default] [--config-file FILE] [--set KEY=VALUE] [--in-place] [--output FILE]"


class Invalid(Exception):
    pass


def parse(argv: list[str]) -> dict[str, Any]:
    words: dict[str, Any] = {"sets": [], "file": config.PATH, "in_place": False, "output": None, "default": False}
    rest = iter(argv)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in ("--in-place", "-i"):
            words["in_place"] = True
        elif name in ("default", "create-default"):
            words["default"] = True
        elif name in ("--set", "--config-file", "--config", "-c", "--output", "-o"):
            value = value if equals else next(rest, "")
            if name == "--set":
                words["sets"] += value.split(",")  # the real command's library splits at every comma, even inside a value
            else:
                words["output" if name in ("--output", "-o") else "file"] = Path(value)
        else:
            raise Invalid(f"unknown option {argument}; {USAGE}")
    return words


def known(dotted: str) -> Any:
    default = config.get(config.DEFAULTS, dotted, config.COMMENTED.get(dotted))
    if default is None or isinstance(default, dict):
        raise Invalid(f'invalid config option: undefined field: "{dotted.split(".")[-1]}"')
    return default


def assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    default = known(key)
    if isinstance(default, bool):
        word = value.lower() if equals else "true"
        if word not in ("true", "false", "1", "0", "t", "f"):
            raise Invalid(f"invalid format: {value}")
        return key, word in ("true", "1", "t")
    if not equals:
        raise Invalid(f"invalid format: expected key=value; got {text}")
    return key, value.split(":") if isinstance(default, list) else value


def rewrite(tree: dict[str, Any], sets: list[str], version: str, from_file: bool) -> str:
    explicit = config._keys(tree) if from_file else set()
    for text in sets:
        try:
            key, value = assignment(text)
        except Invalid as error:
            raise Invalid(f"invalid --set option {text}: {error}") from error
        config.put(tree, key, value)
        explicit.add(key)
    return config.render(tree, version, explicit)


def run(argv: list[str], version: str) -> None:
    words = parse(argv)
    missing = words["default"] or not words["file"].exists()
    tree = config.load(Path("/nonexistent") if missing else words["file"])
    text = rewrite(tree, words["sets"], version, not missing)
    destination = words["file"] if words["in_place"] else words["output"]
    if destination is None:
        sys.stdout.write(text)
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.write_text(text)
