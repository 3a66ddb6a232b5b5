# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""config.toml as the toolkit reads and rewrites it: sorted, without the user's comments, with defaults commented out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from .versions import does

PATH = Path("/etc/nvidia-container-runtime/config.toml")

DEFAULTS: dict[str, Any] = {
    "disable-require": False,
    "supported-driver-capabilities": "compat32,compute,display,graphics,ngx,utility,video",
    "nvidia-container-cli": {"environment": [], "ldconfig": "@/sbin/ldconfig", "load-kmods": True},
    "nvidia-container-runtime": {
        "log-level": "info",
        "mode": "auto",
        "runtimes": ["runc", "crun"],
        "modes": {
            "cdi": {
                "annotation-prefixes": ["cdi.k8s.io/"],
                "default-kind": "nvidia.com/gpu",
                "spec-dirs": ["/etc/cdi", "/var/run/cdi"],
            },
            "csv": {"mount-spec-path": "/etc/nvidia-container-runtime/host-files-for-container.d"},
            "legacy": {"cuda-compat-mode": "ldconfig"},
        },
    },
    "nvidia-container-runtime-hook": {"path": "nvidia-container-runtime-hook", "skip-mode-detection": False},
    "nvidia-ctk": {"path": "nvidia-ctk"},
}

COMMENTED: dict[str, Any] = {
    "swarm-resource": "DOCKER_RESOURCE_GPU",
    "accept-nvidia-visible-devices-envvar-when-unprivileged": True,
    "accept-nvidia-visible-devices-as-volume-mounts": False,
    "nvidia-container-cli.root": "/run/nvidia/driver",
    "nvidia-container-cli.path": "/usr/bin/nvidia-container-cli",
    "nvidia-container-cli.debug": "/var/log/nvidia-container-toolkit.log",
    "nvidia-container-cli.ldcache": "/etc/ld.so.cache",
    "nvidia-container-cli.no-cgroups": False,
    "nvidia-container-cli.user": "root:video",
    "nvidia-container-runtime.debug": "/var/log/nvidia-container-runtime.log",
}


class ConfigError(Exception):
    pass


def load(path: Path = PATH) -> dict[str, Any]:
    """Return only the values that the file sets. If the file is missing, all values are defaults."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return json.loads(json.dumps(DEFAULTS))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"failed to load specified config file: {error}") from error


def checked(tree: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the tree unchanged. Raises ConfigError for values that the real toolkit cannot decode."""
    for name in _keys(tree):
        known = get(DEFAULTS, name, COMMENTED.get(name))
        if known is not None and not isinstance(get(tree, name), type(known)):
            raise ConfigError(f"failed to unmarshal config: Can't convert {get(tree, name)} to {type(known).__name__}")
    ldconfig = get(tree, "nvidia-container-cli.ldconfig", "@")
    inside = get(tree, "features.allow-ldconfig-from-container", False)
    if does(version, "refuses-ldconfig-of-the-container") and not ldconfig.startswith("@") and not inside:
        raise ConfigError(f'nvidia-container-cli.ldconfig value "{ldconfig}" is not host-relative (does not start with a \'@\')')
    return tree


def get(tree: dict[str, Any], dotted: str, default: Any = None) -> Any:
    *tables, key = dotted.split(".")
    for table in tables:
        tree = tree.get(table, {})
    return tree.get(key, default)


def put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *tables, key = dotted.split(".")
    for table in tables:
        tree = tree.setdefault(table, {})
    tree[key] = value


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _is_commented(tree: dict[str, Any], dotted: str, explicit: set[str], version: str) -> bool:
    text = get(tree, dotted)
    if text is not None and dotted in explicit and not does(version, "comments-out-set-defaults"):
        return False
    if dotted == "nvidia-container-runtime.debug" and text == "/dev/null":
        return True
    return text is None or text == "" or text == COMMENTED[dotted]


def _keys(tree: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for key, value in tree.items():
        found.add(prefix + key)
        if isinstance(value, dict):
            found |= _keys(value, f"{prefix}{key}.")
    return found


def render(tree: dict[str, Any], version: str, explicit: set[str] | None = None) -> str:
    """Return the file's text. ``explicit`` lists the keys that the user has set, by default all keys of the tree."""
    explicit = _keys(tree) if explicit is None else explicit
    tree = json.loads(json.dumps(tree))
    commented = {dotted for dotted in COMMENTED if _is_commented(tree, dotted, explicit, version)}
    for dotted in commented:
        put(tree, dotted, COMMENTED[dotted])
    return "\n".join(_lines(tree, "", commented)).lstrip("\n") + "\n"


def _lines(tree: dict[str, Any], prefix: str, commented: set[str]) -> list[str]:
    lines = []
    for key in sorted(key for key in tree if not isinstance(tree[key], dict)):
        lines.append(f"{'#' if prefix + key in commented else ''}{key} = {_value(tree[key])}")
    for key in sorted(key for key in tree if isinstance(tree[key], dict)):
        lines += ["", f"[{prefix}{key}]", *_lines(tree[key], f"{prefix}{key}.", commented)]
    return lines
