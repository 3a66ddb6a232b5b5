# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds pynvml and NVML's library, and is the only file that imports pynvml; the errors of what is not there, or does not start.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from typing import Any

from .. import _libraries
from .._errors import GpuSwarmError

LIBRARY = "libnvidia-ml.so.1"
# What a binding must know; what else an older one does not know is None.
_NEEDED = (
    "NVMLError",
    "NVML_NVLINK_MAX_LINKS",
    "nvmlInit",
    "nvmlShutdown",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
)


class NvmlError(GpuSwarmError):
    """NVML as a whole cannot be read."""


class BindingMissing(NvmlError):
    """No pynvml on this node."""


class LibraryMissing(NvmlError):
    """No NVML library on this node."""


class DriverMismatch(NvmlError):
    """The library belongs to another driver than the one that is loaded."""


class NvmlHangs(NvmlError):
    """NVML does not answer."""


class NvmlFailed(NvmlError):
    """NVML's init or a query about the whole machine failed."""


def find_binding(library_path: str | None = None, state_dir: str = _libraries.STATE_DIR) -> Any:
    """Imports pynvml: the node's own, else the one at ``library_path``, else the one kept under ``state_dir``."""
    try:
        return _import()
    except Exception:
        # The libraries of this collection must come before one that is broken or too old.
        _libraries.use(library_path, state_dir, first=importlib.util.find_spec("pynvml") is not None)
    try:
        return _import()
    except Exception as exc:
        raise BindingMissing(
            "%s on this node cannot use pynvml, the Python binding of NVML (%s). With 'nvidia-ml-py' installed on "
            "the controller, the module brings it along; or install it on the node."
            % (sys.executable, _words(exc)),
            missing=["nvml_binding"],
        ) from exc


def _import() -> Any:
    nvml = importlib.import_module("pynvml")
    lacking = [name for name in _NEEDED if not hasattr(nvml, name)]
    if lacking:
        del sys.modules["pynvml"]
        raise ImportError("%s has no %s: it is too old" % (getattr(nvml, "__file__", "pynvml"), lacking[0]))
    return nvml


def _words(exc: Exception) -> str:
    """Why an import failed; an old package of that name can raise anything, and hardly ever names the place."""
    if isinstance(exc, ImportError):
        return str(exc)
    spec = importlib.util.find_spec("pynvml")
    return "%s: %s: %s" % (spec.origin if spec else "pynvml", type(exc).__name__, exc)


def choose_library(nvml: Any, nvml_path: str | None) -> None:
    """Makes the binding use the library at ``nvml_path``; the binding itself can only have the loader find it by name."""
    if nvml_path is None:
        return
    path = os.path.join(nvml_path, LIBRARY) if os.path.isdir(nvml_path) else nvml_path
    # Some packagings of the binding are a package around the module that has the handle.
    home = sys.modules[nvml.nvmlInit.__module__]
    known = getattr(home, "nvmlLib", None)
    if known is not None and known._name == path:
        return  # loaded from there already
    try:
        # Loaded already, it is also what the loader finds by name, if an older binding keeps its handle elsewhere.
        library = ctypes.CDLL(path)
    except OSError as exc:
        raise LibraryMissing(
            "nvml_path (role: gpu_node_nvml_path): %s cannot be loaded (%s). Give the path of %s, or leave it out to let the loader find it."
            % (path, exc, LIBRARY)
        ) from exc
    if known is None or known._handle != library._handle:
        vars(home)["nvmlLib"] = library
        getattr(home, "_nvmlGetFunctionPointer_cache", {}).clear()


def init_error(exc: Any, nvml_path: str | None) -> NvmlError:
    """Why NVML does not start, and the remedy."""
    code = getattr(exc, "value", None)
    if code == 12:
        return LibraryMissing(
            "the loader finds no %s on this node: the NVIDIA driver, or the part of it with the management library, is "
            "not installed. Install the driver, or give the library's place as nvml_path (role: gpu_node_nvml_path)." % LIBRARY,
            unreadable="library",
        )
    if code == 18:
        return DriverMismatch(
            "NVML (%s): the driver's library and the loaded kernel module are of different versions, as after an "
            "upgrade without a reboot. Reboot the node, or reload the nvidia kernel modules when nothing uses them." % (nvml_path or LIBRARY),
            unreadable="mismatch",
        )
    if code == 9:
        return NvmlFailed(
            "NVML: Driver Not Loaded. The library is here, the kernel module is not. Try 'modprobe nvidia' on this "
            "node and check 'dmesg | grep -i -e nvrm -e nvidia'."
        )
    return NvmlFailed("NVML does not start: %s. Check 'nvidia-smi' and 'dmesg | grep -i nvrm' on this node." % exc)
