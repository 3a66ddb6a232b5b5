# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds bad settings in config.toml of the NVIDIA Container Toolkit (pure). Such a setting hides a task's own GPUs from the task, or shows it GPUs of
other tasks.

tests/pages/toolkit_keys.py lists the decision about each key; docs/fix/known-issues.md shows that list as a table. ``values`` maps
dotted names to the values in the file: a text, a bool, a tuple of texts, or None for any other type. A check returns the bad setting as text, or "".
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Tuple

Version = Tuple[int, ...]

AUTO, LEGACY, CSV, CDI, JIT_CDI = "auto", "legacy", "csv", "cdi", "jit-cdi"
# Since FIRST_JIT_CDI, auto means jit-cdi. Since FIRST_FOR_SWARM, all modes read swarm-resource. In earlier versions only the legacy mode's hook reads
# it.
FIRST_JIT_CDI, FIRST_FOR_SWARM = (1, 18, 0), (1, 19, 0)
# Since this version, NVIDIA's tools refuse a file whose ldconfig is a program inside the container.
_FIRST_HOST_LDCONFIG = (1, 17, 3)

_CLI, _RUNTIME, _HOOK, _FEATURES = "nvidia-container-cli.", "nvidia-container-runtime.", "nvidia-container-runtime-hook.", "features."
MODE = _RUNTIME + "mode"
UNPRIVILEGED = "accept-nvidia-visible-devices-envvar-when-unprivileged"
NO_CGROUPS = _CLI + "no-cgroups"
CAPABILITIES = "supported-driver-capabilities"
LDCONFIG, IN_CONTAINER = _CLI + "ldconfig", _FEATURES + "allow-ldconfig-from-container"
HOOKS = _RUNTIME + "modes.jit-cdi.nvcdi-disable-hooks"

# Every key of the toolkit's configuration (api/config/v1 at 1.20.0, internal/config since 1.13.5) by the type of its value. swarm-resource is
# missing, because this collection writes it.
TEXTS = (
    CAPABILITIES, _CLI + "root", _CLI + "path", _CLI + "debug", _CLI + "ldcache", _CLI + "user", LDCONFIG, "nvidia-ctk.path",
    _RUNTIME + "debug", _RUNTIME + "log-level", MODE, _RUNTIME + "modes.csv.mount-spec-path", _RUNTIME + "modes.csv.compat-container-root",
    _RUNTIME + "modes.cdi.default-kind", _RUNTIME + "modes.legacy.cuda-compat-mode", _HOOK + "path",
)  # fmt: skip
BOOLS = (
    "disable-require", UNPRIVILEGED, "accept-nvidia-visible-devices-as-volume-mounts", _CLI + "load-kmods", _CLI + "no-pivot", NO_CGROUPS,
    _HOOK + "skip-mode-detection", _FEATURES + "allow-cuda-compat-libs-from-container", IN_CONTAINER, _FEATURES + "allow-unknown-oci-spec-fields",
    _FEATURES + "disable-cuda-compat-lib-hook", _FEATURES + "disable-imex-channel-creation", _FEATURES + "ignore-imex-channel-requests",
    _FEATURES + "no-additional-gids-for-device-nodes",
)  # fmt: skip
LISTS = (
    _CLI + "environment", _RUNTIME + "runtimes", _RUNTIME + "modes.cdi.spec-dirs", _RUNTIME + "modes.cdi.annotation-prefixes",
    _RUNTIME + "modes.jit-cdi.nvcdi-feature-flags", HOOKS,
)  # fmt: skip
_FORMS = ((TEXTS, str, "a text"), (BOOLS, bool, "true or false"), (LISTS, tuple, "a list of texts"))
_MODES = (AUTO, LEGACY, CSV, CDI, JIT_CDI)
_CAPABILITIES = ("compute", "compat32", "graphics", "utility", "video", "display", "ngx")
_NEEDED = ("compute", "utility")
# Without these hooks a container does not find the driver's libraries.
_NEEDED_HOOKS = ("all", "create-symlinks", "update-ldcache")


def mode_of(values: Mapping[str, Any], version: Version | None, integrated: bool) -> str | None:
    """Return the mode of the runtime, or None if the mode is unknown. ``integrated``: all GPUs are those of a Jetson. On a Jetson, auto means csv."""
    mode = values.get(MODE, AUTO)
    if mode != AUTO:
        return mode
    if version is None:
        return None
    return CSV if integrated else JIT_CDI if version >= FIRST_JIT_CDI else LEGACY


def is_integrated(names: Sequence[str]) -> bool:
    """Return whether NVIDIA's tools treat all of these GPUs as those of a Jetson (isIntegratedGPUName in go-nvlib)."""
    return bool(names) and all("(nvgpu)" in name or "NVIDIA Thor" in name for name in names)


def refused_by_nvidia(values: Mapping[str, Any], version: Version | None) -> str:
    """Return the setting that keeps NVIDIA's runtime from starting any container."""
    for names, form, expected in _FORMS:
        for name in names:
            if name in values and not isinstance(values[name], form):
                return "%s, where NVIDIA's tools expect %s" % (name, expected)
    if values.get(MODE, AUTO) not in _MODES:
        return setting_text(MODE, values)
    needs_host_program = version is not None and version >= _FIRST_HOST_LDCONFIG
    if needs_host_program and not values.get(LDCONFIG, "@").startswith("@") and not values.get(IN_CONTAINER):
        return "%s, which does not begin with @" % setting_text(LDCONFIG, values)
    return ""


def ignores_swarm_resource(values: Mapping[str, Any], version: Version | None, integrated: bool) -> str:
    """Return the mode if this mode does not read swarm-resource and must not be replaced: a mode that the user chose, or auto on a Jetson."""
    mode = mode_of(values, version, integrated)
    unknown_yet = mode == JIT_CDI and version is not None and version < FIRST_JIT_CDI
    if mode not in (CSV, CDI) and not unknown_yet:
        return ""
    return setting_text(MODE, values) if values.get(MODE, AUTO) != AUTO else "mode = \"auto\", which is csv on a Jetson"


def is_replaced(values: Mapping[str, Any], version: Version | None, integrated: bool) -> str:
    """Return the mode if this collection replaces it by legacy, because jit-cdi does not read swarm-resource."""
    if mode_of(values, version, integrated) != JIT_CDI or version is None or version < FIRST_JIT_CDI:
        return ""
    return setting_text(MODE, values) if MODE in values else "no mode"


def ignores_variables(values: Mapping[str, Any]) -> str:
    return setting_text(UNPRIVILEGED, values) if values.get(UNPRIVILEGED) is False else ""


def without_cgroups(values: Mapping[str, Any], mode: str | None) -> str:
    return setting_text(NO_CGROUPS, values) if values.get(NO_CGROUPS) is True and mode == LEGACY else ""


def without_capabilities(values: Mapping[str, Any], mode: str | None) -> str:
    """Return the setting that makes the hook of the legacy mode fail, or omit CUDA or NVML; "" without such a setting."""
    capabilities = values.get(CAPABILITIES, "all")
    if mode != LEGACY or capabilities == "all" or not isinstance(capabilities, str):
        return ""
    words = [word.strip() for word in capabilities.split(",") if word.strip()]
    is_right = all(word in _CAPABILITIES for word in words) and all(word in words for word in _NEEDED)
    return "" if is_right else setting_text(CAPABILITIES, values)


def without_hooks(values: Mapping[str, Any], mode: str | None) -> str:
    hooks = [name for name in values.get(HOOKS) or () if name in _NEEDED_HOOKS] if isinstance(values.get(HOOKS), tuple) else []
    return "%s without %s" % (HOOKS, ", ".join(hooks)) if hooks and mode in (JIT_CDI, CSV) else ""


def setting_text(name: str, values: Mapping[str, Any]) -> str:
    """Return the setting as the file contains it."""
    table, dot, key = name.rpartition(".")
    value = values[name]
    text = str(value).lower() if isinstance(value, bool) else '"%s"' % value
    return "%s = %s%s" % (key, text, " in [%s]" % table if dot else "")
