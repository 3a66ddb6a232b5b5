# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small programs for a GPU that need only the driver's library.

``cuda.py hold`` keeps a context on the first GPU until its input ends. ``cuda.py fault`` then writes to an invalid address, which the
driver logs as XID 31, an error of the application.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_ILLEGAL_ADDRESS = 700
# PTX code that writes to address 16.
_FAULT = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry fault()
{
    .reg .u64 %address;
    .reg .u32 %value;
    mov.u64 %address, 16;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
"""


class Cuda:
    """The driver's library. A failed call raises an error."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any, expected: int = 0) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != expected:
            sys.exit(f"{name}: CUDA error {status}, expected {expected}")


def main(what: str) -> None:
    cuda = Cuda()
    print("ready", flush=True)
    sys.stdin.read()
    if what == "fault":
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.call("cuModuleLoadData", ctypes.byref(module), _FAULT)
        cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"fault")
        cuda.call("cuLaunchKernel", function, *(1,) * 6, 0, None, None, None)
        cuda.call("cuCtxSynchronize", expected=_ILLEGAL_ADDRESS)


if __name__ == "__main__":
    main(sys.argv[1])
