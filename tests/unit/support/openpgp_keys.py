# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Key files. The sample is NVIDIA's key as its repository has it."""

from __future__ import annotations

import base64
import re
from pathlib import Path

NVIDIA = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
ARMORED = (Path(__file__).parents[1] / "data" / "nvidia-gpgkey.asc").read_bytes()
BINARY = base64.b64decode(re.sub(rb"-----.*?-----|\n=.{4}\n", b"", ARMORED))
# The smallest body that a key can have.
SMALL = b"\x04\x00\x00\x00\x00\x01\x00\x01\x01\x00\x01\x01"
EVIL = b"\x98\x0c" + SMALL


def armor(data, head="PUBLIC KEY", headers=""):
    return f"-----BEGIN PGP {head} BLOCK-----\n{headers}\n{base64.encodebytes(data).decode()}=abcd\n-----END PGP {head} BLOCK-----\n".encode()


def prefixed(block, prefix):
    return b"".join(prefix + line for line in block.splitlines(keepends=True))
