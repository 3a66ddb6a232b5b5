# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs of this node, read through libnvidia-ml.so.1."""

from __future__ import annotations

import ctypes
from typing import Any

from .devices import Gpu, Refused


def _text(call: Any, handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(96)
    return buffer.value.decode() if call(handle, buffer, 96) == 0 else ""


def _read(nvml: ctypes.CDLL, index: int) -> Gpu:
    handle, minor = ctypes.c_void_p(), ctypes.c_uint(index)
    code = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    uuid = _text(nvml.nvmlDeviceGetUUID, handle) if code == 0 else ""
    code = code or nvml.nvmlDeviceGetMinorNumber(handle, ctypes.byref(minor))
    if code or not uuid:
        return Gpu(index, uuid, index, error=nvml.nvmlErrorString(code or 999).decode())
    return Gpu(index, uuid, minor.value, _mig(nvml, handle))


def _mig(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[str, ...]:
    count, found = ctypes.c_uint(0), []
    if nvml.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(count)) != 0:
        return ()
    for index in range(count.value):
        device = ctypes.c_void_p()
        if nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index, ctypes.byref(device)) == 0:
            found.append(_text(nvml.nvmlDeviceGetUUID, device))
    return tuple(found)


def _load() -> ctypes.CDLL:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise Refused(f"failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND ({error})") from error
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    code = nvml.nvmlInit_v2()
    if code != 0:
        raise Refused(f"failed to initialize NVML: {nvml.nvmlErrorString(code).decode()}")
    return nvml


def driver() -> dict[str, str]:
    """Return the driver's version, and the newest CUDA version that it supports."""
    nvml, version, cuda = _load(), ctypes.create_string_buffer(96), ctypes.c_int(0)
    nvml.nvmlSystemGetDriverVersion(version, 96)
    nvml.nvmlSystemGetCudaDriverVersion(ctypes.byref(cuda))
    nvml.nvmlShutdown()
    return {"driver": version.value.decode(), "cuda": f"{cuda.value // 1000}.{cuda.value % 1000 // 10}"}


def gpus() -> list[Gpu]:
    nvml = _load()
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    found = [_read(nvml, index) for index in range(count.value)]
    nvml.nvmlShutdown()
    return found
