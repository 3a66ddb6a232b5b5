# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds pynvml and NVML's library. Only this file imports pynvml. The errors in this file say why NVML cannot be used.

Private to this collection; it may change without notice.
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
# A binding must have these functions. If an older binding lacks another function, the values of that function are None.
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
    """pynvml is not installed on this node."""


class LibraryMissing(NvmlError):
    """This node has no NVML library."""


class DriverMismatch(NvmlError):
    """The library and the loaded kernel module have different versions."""


class NvmlHangs(NvmlError):
    """NVML does not answer."""


class NvmlFailed(NvmlError):
    """NVML does not start, or a query about the whole machine failed."""


def find_binding(library_path: str | None = None, state_dir: str = _libraries.STATE_DIR) -> Any:
    """Import and return pynvml: the node's own package, or else the package at ``library_path``, or else the copy under ``state_dir``."""
    try:
        return _import()
    except Exception:
        # This collection's copy must come first if the node's pynvml is broken or too old.
        _libraries.add_to_path(library_path, state_dir, first=importlib.util.find_spec("pynvml") is not None)
    try:
        return _import()
    except Exception as exc:
        raise BindingMissing(
            "%s on this node cannot use pynvml, the Python binding of NVML (%s). Install 'nvidia-ml-py' on the controller, "
            "which copies it to the node, or install it on the node."
            % (sys.executable, _failure_text(exc)),
            missing=["nvml_binding"],
        ) from exc


def _import() -> Any:
    nvml = importlib.import_module("pynvml")
    lacking = [name for name in _NEEDED if not hasattr(nvml, name)]
    if lacking:
        del sys.modules["pynvml"]
        raise ImportError("%s has no %s: it is too old" % (getattr(nvml, "__file__", "pynvml"), lacking[0]))
    return nvml


def _failure_text(exc: Exception) -> str:
    """Return why an import failed. An old package can raise any exception. In that case, the text names the package's file."""
    if isinstance(exc, ImportError):
        return str(exc)
    spec = importlib.util.find_spec("pynvml")
    return "%s: %s: %s" % (spec.origin if spec else "pynvml", type(exc).__name__, exc)


def choose_library(nvml: Any, nvml_path: str | None) -> None:
    """Make the binding use the library at ``nvml_path``. The binding itself loads the library only by name."""
    if nvml_path is None:
        return
    path = os.path.join(nvml_path, LIBRARY) if os.path.isdir(nvml_path) else nvml_path
    # In some releases, the binding is a package, and an inner module has the handle.
    inner_module = sys.modules[nvml.nvmlInit.__module__]
    loaded = getattr(inner_module, "nvmlLib", None)
    if loaded is not None and loaded._name == path:
        return  # the library is already loaded from this path
    try:
        # An older binding may keep its handle in another place. It loads the library by name, and gets this library because it is already loaded.
        library = ctypes.CDLL(path)
    except OSError as exc:
        raise LibraryMissing(
            "nvml_path (role: gpu_node_nvml_path): %s cannot be loaded (%s). Set it to the path of %s, or remove it, and the loader finds it."
            % (path, exc, LIBRARY)
        ) from exc
    if loaded is None or loaded._handle != library._handle:
        vars(inner_module)["nvmlLib"] = library
        getattr(inner_module, "_nvmlGetFunctionPointer_cache", {}).clear()


def init_error(exc: Any, nvml_path: str | None) -> NvmlError:
    """Return the error for a failed nvmlInit, with the remedy."""
    code = getattr(exc, "value", None)
    if code == 12:
        return LibraryMissing(
            "%s is not installed on this node. It is the management library of the NVIDIA driver. Install the driver, or set nvml_path "
            "(role: gpu_node_nvml_path) to the library's path." % LIBRARY,
            unreadable="library",
        )
    if code == 18:
        return DriverMismatch(
            "NVML (%s): the driver's library and the loaded kernel module have different versions, as after an "
            "upgrade without a reboot. Reboot the node, or reload the nvidia kernel modules when nothing uses them." % (nvml_path or LIBRARY),
            unreadable="mismatch",
        )
    if code == 9:
        return NvmlFailed(
            "NVML: Driver Not Loaded. The library is installed, but the kernel module is not loaded. Try 'modprobe nvidia' on this "
            "node and check 'dmesg | grep -i -e nvrm -e nvidia'."
        )
    return NvmlFailed("NVML does not start: %s. Check 'nvidia-smi' and 'dmesg | grep -i nvrm' on this node." % exc)
