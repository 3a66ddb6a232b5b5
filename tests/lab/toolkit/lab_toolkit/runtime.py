# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-container-runtime: on `create` writes the devices into the bundle's config.json, then becomes runc."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import cdi, config, nvml, requirement, system, versions
from .devices import Gpu, Refused, Settings, requested, resolve

NVIDIA_MAJOR, CONTROL_MINOR = 195, 255
MODES = ("auto", "legacy", "csv", "cdi", "jit-cdi")
NVML_CONF = Path("/etc/gpu-lab/nvml.conf")
LOADED = Path("/run/gpu-lab/config.toml")


def options(argv: list[str], *names: str) -> str | None:
    """Return the values of options, written as `--name value`, `--name=value` or `-n value`."""
    for position, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if name in names:
            return value if equals else argv[position + 1]
    return None


def is_create(argv: list[str]) -> bool:
    values = {position + 1 for position, argument in enumerate(argv) if argument in ("--bundle", "-b", "--root", "--log")}
    return any(argument == "create" and position not in values for position, argument in enumerate(argv))


def settings_of(tree: dict[str, Any], version: str) -> Settings:
    return Settings(
        version=version,
        mode=config.get(tree, "nvidia-container-runtime.mode", "auto"),
        swarm_resource=config.get(tree, "swarm-resource", ""),
        requires_nothing=config.get(tree, "disable-require", False),
        accept_unprivileged=config.get(tree, "accept-nvidia-visible-devices-envvar-when-unprivileged", True),
        mounts=config.get(tree, "accept-nvidia-visible-devices-as-volume-mounts", False),
        cgroups=not config.get(tree, "nvidia-container-cli.no-cgroups", False),
    )


def is_privileged(spec: dict[str, Any]) -> bool:
    return "CAP_SYS_ADMIN" in (spec["process"].get("capabilities") or {}).get("bounding", [])


def inject(
    spec: dict[str, Any], gpus: list[Gpu], settings: Settings, conf: Path, uvm: Sequence[tuple[str, int, int]] = ()
) -> dict[str, Any]:
    """Add these GPUs to the container's description. Also add the control devices and the devices in ``uvm``, even without GPUs."""
    nodes = [("/dev/nvidiactl", NVIDIA_MAJOR, CONTROL_MINOR), *uvm, *((f"/dev/nvidia{gpu.minor}", NVIDIA_MAJOR, gpu.minor) for gpu in gpus)]
    linux, paths = spec["linux"], [path for path, _major, _minor in nodes]
    devices = [device for device in linux.get("devices") or [] if device["path"] not in paths]
    rules = (linux.setdefault("resources", {}).get("devices")) or []
    for path, major, minor in nodes:
        devices.append({"path": path, "type": "c", "major": major, "minor": minor, "fileMode": 0o666})
        if settings.cgroups or not settings.legacy:
            rules.append({"allow": True, "type": "c", "major": major, "minor": minor, "access": "rwm"})
    linux["devices"], linux["resources"]["devices"] = devices, rules
    for source, destination in mounts(conf):
        # In a user namespace, a mount must keep the flags of its source.
        bind = {"destination": destination, "source": source, "type": "bind", "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]}
        spec["mounts"].append(bind)
    if not settings.legacy:  # a CDI specification does this too, so that the devices are not added twice
        env = [item for item in spec["process"]["env"] if not item.startswith("NVIDIA_VISIBLE_DEVICES=")]
        spec["process"]["env"] = [*env, "NVIDIA_VISIBLE_DEVICES=void"]
    return spec


def mounts(conf: Path) -> list[tuple[str, str]]:
    return [
        ("/usr/lib/libnvidia-ml.so.1", "/usr/lib/libnvidia-ml.so.1"),
        ("/usr/lib/gpu-lab/nvidia-smi", "/usr/bin/nvidia-smi"),
        (str(conf), str(NVML_CONF)),
    ]


def task_conf(gpus: list[Gpu], machine: str) -> str:
    """Return the settings of NVML's stand-in in a container. The stand-in shows only GPUs with a device node in the container, and only these MIG
    devices.
    """
    lines = ["devices = present", *(f"mig-visible = {uuid}" for gpu in gpus for uuid in gpu.mig)]
    return "\n".join([*lines, machine])


def modify(bundle: Path, settings: Settings) -> None:
    path = bundle / "config.json"
    spec = json.loads(path.read_text())
    env = dict(item.partition("=")[::2] for item in spec["process"].get("env", []))
    wanted = requested(env, settings, is_privileged(spec), spec.get("mounts") or [])
    if wanted is None:
        return
    if settings.legacy:
        system.make_uvm()
    if settings.legacy and not settings.requires_nothing:
        requirement.refuse(env, nvml.driver())
    chosen = resolve(wanted, nvml.gpus(), settings)
    if settings.mode == "cdi":
        unknown = [name for name in (f"{cdi.KIND}={one}" for one in wanted) if name not in cdi.names()]
        if unknown:
            raise Refused(f"failed to inject CDI devices: unresolvable CDI devices {', '.join(unknown)}")
    for gpu in chosen:
        if not Path(f"/dev/nvidia{gpu.minor}").exists():
            raise Refused(f"failed to stat /dev/nvidia{gpu.minor}: no such file or directory")
    conf = bundle.resolve() / "nvml.conf"  # removed with the bundle
    conf.write_text(task_conf(chosen, NVML_CONF.read_text()))
    path.write_text(json.dumps(inject(spec, chosen, settings, conf, system.uvm())))


def fail(argv: list[str], message: str) -> int:
    """Write the error to stderr, and to the log that the shim reads."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    log = options(argv, "--log")
    if log:
        with open(log, "a", encoding="utf-8") as out:
            out.write(json.dumps({"level": "error", "msg": message, "time": stamp}) + "\n")
    print(f'time="{stamp}" level=error msg={json.dumps(message)}', file=sys.stderr)
    return 1


def remember(runtime: str) -> None:
    """Record for the calling shell script that this config.toml could be loaded. Also record the file's low-level runtime."""
    if not config.PATH.exists():
        return
    LOADED.parent.mkdir(parents=True, exist_ok=True)
    for path, data in (LOADED.with_name(f"{LOADED.name}.runtime"), runtime.encode()), (LOADED, config.PATH.read_bytes()):
        if path.exists() and path.read_bytes() == data:  # for most containers, the file is already right
            continue
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_bytes(data)
        new.replace(path)


def main(argv: list[str]) -> int:
    version = versions.installed()
    if "--version" in argv or "-v" in argv:
        print(f"NVIDIA Container Runtime version {version}", flush=True)
    try:
        tree = config.checked(config.load(), version)
    except config.ConfigError as error:
        return fail(argv, f"error loading config: {error}")
    names = config.get(tree, "nvidia-container-runtime.runtimes", ["runc", "crun"])
    runtime = next(filter(None, map(shutil.which, names)), None)
    if runtime is None:
        return fail(argv, f"error constructing low-level runtime: no runtime binary found from candidate list: {names}")
    remember(runtime)
    if is_create(argv):
        settings = settings_of(tree, version)
        if settings.mode not in MODES or (settings.mode == "jit-cdi" and not versions.does(version, "auto-is-jit-cdi")):
            why = f"failed to construct OCI spec modifier: invalid runtime mode: {settings.mode}"
            return fail(argv, f"failed to create NVIDIA Container Runtime: {why}")
        try:
            modify(Path(options(argv, "--bundle", "-b") or "."), settings)
        except Refused as refused:
            what = "" if settings.legacy else f'failed to generate CDI spec for mode "{settings.mode}": '
            why = f"failed to construct OCI spec modifier: {what}{refused}"
            return fail(argv, f"failed to create NVIDIA Container Runtime: {why}")
    return os.execv(runtime, [runtime, *argv])
