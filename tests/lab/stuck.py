# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on a node: mounts a file system where every access waits in the kernel until this process ends. No signal ends the wait.

A process that calls a hung driver waits like this. The stand-in for NVML can also wait forever, but then a signal can kill the process.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

DEVICE, NUMBER = "/dev/fuse", (10, 229)
DETACH = 2  # MNT_DETACH
INIT = 26  # the only request that gets an answer (Linux, include/uapi/linux/fuse.h)
HEADER = struct.Struct("IIQ")  # a request has length, operation, number; an answer has length, error, number
MINOR, WRITE = 12, 4096  # an old version of the protocol, because its answer to INIT is short


def mount(folder: str) -> int:
    if not os.path.exists(DEVICE):
        os.mknod(DEVICE, 0o20600, os.makedev(*NUMBER))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.umount2(folder.encode(), DETACH)  # left by an earlier process
    os.makedirs(folder, exist_ok=True)
    device = os.open(DEVICE, os.O_RDWR)
    if libc.mount(b"stuck", folder.encode(), b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % device):
        raise OSError(ctypes.get_errno(), "mount", folder)
    return device


def main() -> None:
    device = mount(sys.argv[1])
    while True:
        _length, operation, number = HEADER.unpack_from(os.read(device, 1 << 17))
        if operation == INIT:
            os.write(device, HEADER.pack(HEADER.size + 24, 0, number) + struct.pack("IIIIII", 7, MINOR, 0, 0, 0, WRITE))


if __name__ == "__main__":
    main()
