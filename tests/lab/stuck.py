# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run on a node: mounts a file system on which every access waits in the kernel, and no signal ends it, for as long as this process is there.

So does a driver that hangs. The stand-in for NVML can wait for ever too, but a process that waits in a program can be killed.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

DEVICE, NUMBER = "/dev/fuse", (10, 229)
DETACH = 2  # MNT_DETACH
INIT = 26  # FUSE_INIT: all else is never answered (Linux, include/uapi/linux/fuse.h)
HEADER = struct.Struct("IIQ")  # of a request: length, operation, number; of an answer: length, error, number
MINOR, WRITE = 12, 4096  # an old version of the protocol, whose answer to INIT is short


def mount(folder: str) -> int:
    if not os.path.exists(DEVICE):
        os.mknod(DEVICE, 0o20600, os.makedev(*NUMBER))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.umount2(folder.encode(), DETACH)  # of a process before
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
