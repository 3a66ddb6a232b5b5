# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of config.toml of the NVIDIA Container Toolkit, and the decision about each, in the order of docs/fix/known-issues.md.

Keys and forms are those of plugins/module_utils/_compat/runtime_config.py. A test compares both, and also the file that the package writes.
"""

from __future__ import annotations

from typing import NamedTuple

from plugins.module_utils._compat.runtime_config import BOOLS, LISTS, TEXTS
from tests.lab.toolkit.lab_toolkit import config

REFUSED, HANDLED, WARNED, LEFT = "refusal", "handled", "warning", "left alone"


class Key(NamedTuple):
    key: str
    can: str  # the key's effect on a task and its GPUs
    answer: str
    why: str = ""
    trap: str | None = None


_C, _R, _H, _F = "nvidia-container-cli.", "nvidia-container-runtime.", "nvidia-container-runtime-hook.", "features."
_LIBRARIES = "where the toolkit searches the driver; with a wrong value no container with a GPU starts"
_SHOWN = "some machines need it; `verify` starts a task on each GPU, and reports the toolkit's words"
_OTHER_DEVICES = "concerns other devices than GPUs"

KEYS = (
    Key(
        "swarm-resource", "which variables decide what a task sees", HANDLED,
        "written from the kinds that are advertised", "swarm-resource-mismatch",
    ),
    Key(
        "accept-nvidia-visible-devices-envvar-when-unprivileged", "with false no variable counts: no task gets a GPU", REFUSED,
        "", "variables-not-accepted",
    ),
    Key(
        "accept-nvidia-visible-devices-as-volume-mounts", "with true a service gets any GPU by a mount", LEFT,
        "the guard refuses such a service; without the guard, a variable does the same anyway", "no-reservation-sees-all",
    ),
    Key(
        "disable-require", "with true an image starts on a driver that is too old for it", LEFT,
        "`deploy` then does not count on the node to refuse the image",
    ),
    Key(
        "supported-driver-capabilities", "legacy mode: without compute and utility no CUDA image starts", REFUSED,
        "refused in that mode only", "capabilities-not-supported",
    ),
    Key(_C + "no-cgroups", "legacy mode: with true a container cannot open its devices", REFUSED, "refused in that mode only", "no-cgroups"),
    Key(_C + "ldconfig", "with a path without @ no container starts, since 1.17.3", REFUSED, "", "config-toml-refused"),
    Key(_C + "root", _LIBRARIES, LEFT, _SHOWN),
    Key(_C + "path", "legacy mode: the program that makes the devices", LEFT, _SHOWN),
    Key(_C + "ldcache", _LIBRARIES, LEFT, _SHOWN),
    Key(_C + "user", "legacy mode: the user of that program", LEFT, _SHOWN),
    Key(_C + "environment", "legacy mode: the environment of that program", LEFT, _SHOWN),
    Key(
        _C + "load-kmods", "legacy mode: with false the toolkit does not load nvidia-uvm", LEFT,
        "`gpu-swarm-devices.service` loads the module at boot",
    ),
    Key(_C + "no-pivot", "how that program enters a container", LEFT, "it changes no device"),
    Key(_C + "debug", "where a log goes", LEFT),
    Key("nvidia-ctk.path", "the program that runs the hooks", LEFT, _SHOWN),
    Key(
        _R + "mode", "below 1.19.0 only legacy reads swarm-resource; an unknown mode starts no container", REFUSED,
        "refused: cdi and csv below 1.19.0, and unknown modes. With 1.18, auto and jit-cdi become legacy", "mode-ignores-swarm-resource",
    ),
    Key(_R + "runtimes", "the program that starts containers; if none of them exists, no container starts", LEFT, _SHOWN),
    Key(_R + "debug", "where a log goes", LEFT),
    Key(_R + "log-level", "what is logged", LEFT),
    Key(_R + "modes.csv.mount-spec-path", "mode csv: what is mounted", LEFT, _SHOWN),
    Key(_R + "modes.csv.compat-container-root", "mode csv: where older libraries are", LEFT, _SHOWN),
    Key(_R + "modes.cdi.default-kind", "mode cdi: the kind of device that a GPU's name stands for", LEFT, _SHOWN),
    Key(_R + "modes.cdi.spec-dirs", "mode cdi: where specifications are", LEFT, _SHOWN),
    Key(_R + "modes.cdi.annotation-prefixes", "mode cdi: annotations that request devices", LEFT, "services of a swarm cannot set annotations"),
    Key(_R + "modes.jit-cdi.nvcdi-feature-flags", "details of devices and libraries", LEFT, "no flag adds or removes a GPU"),
    Key(
        _R + "modes.jit-cdi.nvcdi-disable-hooks", "containers may not find the driver's libraries", WARNED,
        "only three hooks matter", "hooks-disabled",
    ),
    Key(_R + "modes.legacy.cuda-compat-mode", "legacy mode: which libcuda a container uses", LEFT, "it changes no device"),
    Key(_H + "path", "legacy mode: the program of the hook", LEFT, _SHOWN),
    Key(_H + "skip-mode-detection", "what `docker run --gpus` does", LEFT, "services of a swarm cannot request GPUs that way"),
    Key(_F + "allow-cuda-compat-libs-from-container", "which libcuda a container uses", LEFT, "it changes no device"),
    Key(_F + "allow-ldconfig-from-container", "runs a program of the image as root", LEFT, "this gives no GPU; if you set it, you trust the images"),
    Key(
        _F + "allow-unknown-oci-spec-fields", "drops unknown fields of a container's description", LEFT,
        "the guard only writes variables",
    ),
    Key(_F + "disable-cuda-compat-lib-hook", "which libcuda a container uses", LEFT, "it changes no device"),
    Key(_F + "disable-imex-channel-creation", "IMEX channels", LEFT, _OTHER_DEVICES),
    Key(_F + "ignore-imex-channel-requests", "IMEX channels", LEFT, _OTHER_DEVICES),
    Key(
        _F + "no-additional-gids-for-device-nodes", "groups of a container's user", LEFT,
        "NVIDIA's driver lets every user open its devices by default",
    ),
)  # fmt: skip


def shipped() -> list[str]:
    """Return the keys of the file that the package writes."""
    return [*_flat(config.DEFAULTS), *config.COMMENTED]


def _flat(tree: dict[str, object], before: str = "") -> list[str]:
    return [name for key, value in tree.items() for name in (_flat(value, f"{before}{key}.") if isinstance(value, dict) else [before + key])]


def rows() -> list[tuple[str, ...]]:
    return [(f"`{one.key}`", _form(one.key), one.can, f"**{one.answer}**" + (f" (`{one.trap}`)" if one.trap else ""), one.why) for one in KEYS]


def _form(key: str) -> str:
    return next((word for names, word in ((BOOLS, "bool"), (LISTS, "list"), (TEXTS, "text")) if key in names), "text")
