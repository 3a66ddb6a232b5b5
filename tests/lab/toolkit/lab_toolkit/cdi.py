# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-ctk cdi: writes specifications of this node's GPUs. The lab uses only the device names in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import nvml
from .devices import Gpu, Refused

KIND = "nvidia.com/gpu"
SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")


def run(argv: list[str], _version: str) -> None:
    options = dict(argument.removeprefix("--").partition("=")[::2] for argument in argv[1:])
    if argv[:1] == ["generate"]:
        try:
            found = nvml.gpus()
        except Refused as problem:
            raise Refused(f"failed to generate CDI spec: failed to create device CDI specs: {problem}") from problem
        text = json.dumps(spec(found), indent=1) + "\n"  # JSON is YAML too
        if options.get("output"):
            Path(options["output"]).parent.mkdir(parents=True, exist_ok=True)
            Path(options["output"]).write_text(text)
        else:
            sys.stdout.write(text)
    elif argv[:1] == ["list"]:
        folders = [argument.partition("=")[2] for argument in argv if argument.startswith("--spec-dir=")] or SPEC_DIRS
        listed = names(folders)
        print(f'level=info msg="Found {len(listed)} CDI devices"', file=sys.stderr)
        sys.stdout.write("".join(f"{name}\n" for name in listed))
    else:
        raise Refused("the lab's stand-in knows of 'cdi' only generate and list")


def spec(gpus: Sequence[Gpu]) -> dict:
    for gpu in gpus:
        if gpu.error:
            raise Refused(f"failed to create device CDI specs: failed to get device handle: {gpu.error}")
    found = [name for gpu in gpus for name in (str(gpu.index), gpu.uuid, *gpu.mig)]
    return {"cdiVersion": "0.5.0", "kind": KIND, "devices": [{"name": name} for name in [*found, "all"]]}


def names(folders: Sequence[str] = SPEC_DIRS) -> list[str]:
    """Return the full name of every device in the specifications of these folders."""
    paths = sorted(path for folder in folders for path in Path(folder).glob("*") if path.suffix in (".yaml", ".json"))
    specs = [json.loads(path.read_text()) for path in paths]
    return [f"{one['kind']}={device['name']}" for one in specs for device in one["devices"]]
