# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tries, without a container, whether NVIDIA's toolkit can give GPUs to containers in the configured mode.

A trial takes up to a second. So the caller notes a digest of the files that decide the result, and tries again only if the digest changes.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
from typing import Any, Mapping, NamedTuple, Sequence

from .._compat import checks, runtime_config
from .._config import runtime_toml
from .._dockerd.docker_unit import Run
from .._dockerd.engine import SBIN
from .._errors import GpuSwarmError
from .._health import pace
from .._machine import driver
from .observation import Observation

CTK, CLI = "nvidia-ctk", "nvidia-container-cli"
SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
_KIND = "nvidia.com/gpu"
# Devices of this vendor need no specification file, because the runtime generates one for each container (automaticDevicePrefix).
_AUTOMATIC = "runtime.nvidia.com/"
# Options in config.toml that change the result. The hook of the legacy mode passes these options to nvidia-container-cli.
_OPTIONS = ("root", "ldcache", "user")
_PROGRAMS = (CTK, CLI, "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-cdi-hook")
_OUTPUT_MAX = 400  # the most characters of a command's output in a message


class Trial(NamedTuple):
    """A command to try, and the CDI devices that its output must list."""

    command: Sequence[str]
    devices: Sequence[str] = ()


def trial_of(values: Mapping[str, Any], mode: str | None, uuids: Sequence[str]) -> Trial | None:
    """Return the trial for these values of config.toml and this mode; None if no trial is needed (pure)."""
    kind, folders = values.get("nvidia-container-runtime.modes.cdi.default-kind") or _KIND, spec_dirs(values)
    if mode == runtime_config.LEGACY:
        return _legacy({key.rpartition(".")[2]: value for key, value in values.items() if key.startswith("nvidia-container-cli.")})
    if mode == runtime_config.JIT_CDI or (mode == runtime_config.CDI and kind.startswith(_AUTOMATIC)):
        return Trial([CTK, "cdi", "generate", "--output="])
    if mode != runtime_config.CDI:
        return None
    chosen = ["--spec-dir=%s" % folder for folder in folders] if folders != SPEC_DIRS else []
    return Trial([CTK, "cdi", "list", *chosen], ["%s=%s" % (kind, uuid) for uuid in uuids])


def _legacy(values: Mapping[str, Any]) -> Trial | None:
    """Return the command that the hook runs, from the values of [nvidia-container-cli]. None if the values set an environment, because a trial cannot
    use the same environment."""
    if values.get("environment"):
        return None
    return Trial([values.get("path") or CLI, *("--%s=%s" % (name, values[name]) for name in _OPTIONS if values.get(name)), "info"])


def trial_for_node(params: Mapping[str, Any], observed: Observation, expected: Sequence[str]) -> tuple[Trial | None, str | None]:
    """Return a node's trial and the digest of its files. ``expected`` are the UUIDs that the node already advertises."""
    values = runtime_toml.values(observed.runtime.data)
    version = checks.parse_version(observed.toolkit_version)
    integrated = runtime_config.is_integrated([gpu.get("name") or "" for gpu in observed.gpus])
    if runtime_config.is_replaced(values, version, integrated) and version < runtime_config.FIRST_FOR_SWARM:
        return None, None  # the run will replace this mode, so no trial is needed
    mode = runtime_config.mode_of(values, version, integrated)
    uuids = [device["uuid"] for gpu in observed.gpus for device in (gpu["mig_devices"] or [gpu])]
    trial = trial_of(values, mode, expected or uuids)
    return trial, digest_inputs(params["runtime_config"], params["nvml_path"], trial, spec_dirs(values)) if trial else None


def spec_dirs(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the directories where the runtime looks for CDI specifications (pure)."""
    return values.get("nvidia-container-runtime.modes.cdi.spec-dirs") or SPEC_DIRS


def find_problem(run: Run, trial: Trial | None) -> str | None:
    """Return the toolkit's error if no container can get a GPU. None if the toolkit works or is not installed. Try twice before reporting."""
    program = shutil.which(trial.command[0], path=SBIN) if trial else None
    if not trial or not program:
        return None
    return _try(run, program, trial) and _try(run, program, trial)


def _try(run: Run, program: str, trial: Trial) -> str | None:
    try:
        return problem_in_output(trial, *run([program, *trial.command[1:]]))
    except GpuSwarmError as problem:
        return problem.message


def problem_in_output(trial: Trial, rc: int, out: str, err: str) -> str | None:
    """Return the problem that a command's exit code and output show, or None (pure)."""
    if rc != 0:
        lines = [line.strip() for line in (err or out).splitlines() if line.strip()]
        return "'%s' ends with %d: %s" % (" ".join(trial.command), rc, lines[-1][:_OUTPUT_MAX] if lines else "no output")
    missing = [device for device in trial.devices if device not in out.split()]
    if not missing:
        return None
    return "'%s' does not list %s. Create the specification with 'nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml'" % (
        " ".join(trial.command), missing[0] + (" and %d more" % (len(missing) - 1) if len(missing) > 1 else ""),
    )  # fmt: skip


def digest_inputs(runtime_config_path: str, nvml_path: str | None, trial: Trial, folders: Sequence[str] = SPEC_DIRS) -> str:
    """Return a digest of everything that decides the result: the boot, programs, settings, the driver, its devices, and CDI specifications."""
    files = [runtime_config_path, "/etc/ld.so.cache", *filter(None, (shutil.which(name, path=SBIN) for name in _PROGRAMS))]
    files += sorted(glob.glob("/dev/nvidia*")) + sorted(path for folder in folders for path in glob.glob(os.path.join(glob.escape(folder), "*")))
    with open(pace.BOOT_ID, encoding="ascii") as stream:
        inputs = [stream.read(), trial, driver.read_signature(nvml_path), [(path, _stamp(path)) for path in files]]
    return hashlib.sha256(repr(inputs).encode("utf-8")).hexdigest()[:16]


def _stamp(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_rdev,) if status.st_rdev else (status.st_ino, status.st_size, status.st_mtime_ns)
