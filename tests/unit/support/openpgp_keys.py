# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Key files. The sample is the key of NVIDIA's repository."""

from __future__ import annotations

import base64
import re
from pathlib import Path

NVIDIA = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
ARMORED = (Path(__file__).parents[1] / "data" / "nvidia-gpgkey.asc").read_bytes()
BINARY = base64.b64decode(re.sub(rb"-----.*?-----|\n=.{4}\n", b"", ARMORED))
# The smallest possible body of a key.
SMALL = b"\x04\x00\x00\x00\x00\x01\x00\x01\x01\x00\x01\x01"
EVIL = b"\x98\x0c" + SMALL
# An Ed25519 key with one signing subkey, as gpg 2.2 creates and exports it.
MIRROR = "EAD7EB9C31D10C943605E595A20AC3A68C3BCB39"
MIRRORS = base64.b64decode(
    "mDMEawqzBRYJKwYBBAHaRw8BAQdAVb3OHIk7Ql4BnSNyQYO2xoOSiDF9rocl+rF4sm7x9ty0Bm1pcnJvcoiQBBMWCAA4FiEE6tfrnDHRDJQ2BeWVogrDpow7yzkFAmsKsw"
    "UCGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQogrDpow7yzkL6QD/X2GuCqf5CFEUbt6UzYq5s1YRwikWud3bba4sClQaeBAA+wRYLUAFgAvdjbEGmhElE7DvaJOS"
    "GuVWkpARF8hRy54HuDMEawqzBRYJKwYBBAHaRw8BAQdAtJvvXkon8Oubrcj4Z1PHMc53L0pql2QXfRv8/4C+sxqI7wQYFggAIBYhBOrX65wx0QyUNgXllaIKw6aMO8s5BQ"
    "JrCrMFAhsCAIEJEKIKw6aMO8s5diAEGRYIAB0WIQR7FiWkHR9sh/OpAdQL7dyRyyR4nQUCawqzBQAKCRAL7dyRyyR4nU+QAQCraTX9g4LK13nbARHdfs1GdoKeXoanPRpL"
    "lEl2EVNZMwD9FrtDSY8YgOLzN77XCZJlrUo1uGvFJjGP/nQB+u7D5wSktgEA+H/rSPaABqaPh5wH9CCplSfBfNVisqboL9VP0NELsy8A/jPSZpr6LTAmIDgJ7tm8l1Ioj+"
    "Zj/eGma2bsk1inOtAA"
)


def packets(data):
    """Return the packets of a file that gpg wrote, as (type, whole packet, body)."""
    found = []
    while data:
        kind, size = (data[0] & 0x3C) >> 2, 1 << (data[0] & 3)
        end = 1 + size + int.from_bytes(data[1 : 1 + size], "big")
        found.append((kind, data[:end], data[1 + size : end]))
        data = data[end:]
    return found


def armor(data, head="PUBLIC KEY", headers=""):
    return f"-----BEGIN PGP {head} BLOCK-----\n{headers}\n{base64.encodebytes(data).decode()}=abcd\n-----END PGP {head} BLOCK-----\n".encode()


def prefixed(block, prefix):
    return b"".join(prefix + line for line in block.splitlines(keepends=True))
