# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that a subkey is signed by its key (pure).

A fingerprint covers only the key. A subkey that an attacker added has no signature of the key (RFC 4880 and RFC 9580, 5.2.4: type 0x18), but not
every program checks that (CVE-2021-3521: rpm did not). This code checks RSA and Ed25519 signatures. It refuses subkeys of any other type of key.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple, Sequence

_BINDING = 0x18
_RSA, _EDDSA = (1, 3), 22
_LONGEST_MODULUS, _LONGEST_EXPONENT = 16384, 64  # bits. Larger numbers would take the node too long
_MOST = 16  # signatures of one subkey
# By the numbers of RFC 9580, 9.5, each with its RSA prefix (RFC 8017, 9.2).
_HASHES = {
    2: ("sha1", "3021300906052b0e03021a05000414"),
    8: ("sha256", "3031300d060960864801650304020105000420"),
    9: ("sha384", "3041300d060960864801650304020205000430"),
    10: ("sha512", "3051300d060960864801650304020305000440"),
    11: ("sha224", "302d300d06096086480165030402040500041c"),
}
_ED25519 = bytes.fromhex("092b06010401da470f01")  # length and object identifier of the curve


class _Signature(NamedTuple):
    """A signature of version 4."""

    algorithm: int
    hash: int
    hashed: bytes  # the part of the signature that is signed too
    numbers: bytes


def has_signature_of(key: bytes, subkey: bytes, signatures: Sequence[bytes]) -> bool:
    """Return whether ``key`` made one of the signatures after ``subkey``. Both are bodies of packets."""
    return any(_is_of(key, subkey, one) for one in signatures[:_MOST])


def _is_of(key: bytes, subkey: bytes, packet: bytes) -> bool:
    try:
        made = _parsed(packet)
        if made is None or key[:1] != b"\x04" or made.hash not in _HASHES:
            return False
        digest = _digest(made, key, subkey)
        if made.algorithm in _RSA and key[5] in _RSA:
            return _rsa(key[6:], made, digest)
        return made.algorithm == key[5] == _EDDSA and _eddsa(key[6:], made.numbers, digest)
    except (IndexError, ValueError, struct.error):
        return False


def _parsed(packet: bytes) -> _Signature | None:
    if packet[0] != 4 or packet[1] != _BINDING:
        return None
    end = 6 + struct.unpack_from(">H", packet, 4)[0]
    rest = end + 2 + struct.unpack_from(">H", packet, end)[0] + 2  # after the unsigned part and the first two bytes of the digest
    return _Signature(packet[2], packet[3], packet[:end], packet[rest:])


def _digest(made: _Signature, key: bytes, subkey: bytes) -> bytes:
    found = hashlib.new(_HASHES[made.hash][0])
    for body in (key, subkey):
        found.update(b"\x99" + struct.pack(">H", len(body)) + body)
    found.update(made.hashed + b"\x04\xff" + struct.pack(">L", len(made.hashed)))
    return found.digest()


def _number(data: bytes) -> tuple[int, bytes]:
    """Return the first number in OpenPGP's format, and the remaining bytes."""
    length = (struct.unpack_from(">H", data)[0] + 7) // 8
    if len(data) < 2 + length:
        raise ValueError("cut off")
    return int.from_bytes(data[2 : 2 + length], "big"), data[2 + length :]


def _rsa(public: bytes, made: _Signature, digest: bytes) -> bool:
    modulus, rest = _number(public)
    exponent, _rest = _number(rest)
    value, _rest = _number(made.numbers)
    if modulus.bit_length() > _LONGEST_MODULUS or exponent.bit_length() > _LONGEST_EXPONENT or not 0 < value < modulus:
        return False
    length = (modulus.bit_length() + 7) // 8
    signed = bytes.fromhex(_HASHES[made.hash][1]) + digest
    padded = b"\x00\x01" + b"\xff" * (length - 3 - len(signed)) + b"\x00" + signed
    return len(padded) == length and pow(value, exponent, modulus) == int.from_bytes(padded, "big")


# -- Ed25519 (RFC 8032, 5.1) -------------------------------------------------------------------------------------------

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_Point = tuple  # x, y, z and x*y, each times z


def _eddsa(public: bytes, numbers: bytes, digest: bytes) -> bool:
    if not public.startswith(_ED25519):
        return False
    written, _rest = _number(public[len(_ED25519) :])
    first, rest = _number(numbers)
    second, _rest = _number(rest)
    point, nonce, factor = written.to_bytes(33, "big"), first.to_bytes(32, "big"), int.from_bytes(second.to_bytes(32, "big"), "little")
    if point[0] != 0x40 or factor >= _ORDER:
        return False
    key, other = _decompressed(point[1:]), _decompressed(nonce)
    if key is None or other is None:
        return False
    challenge = int.from_bytes(hashlib.sha512(nonce + point[1:] + digest).digest(), "little") % _ORDER
    return _is_same(_times(factor, _BASE), _sum(other, _times(challenge, key)))


def _decompressed(data: bytes) -> _Point | None:
    whole = int.from_bytes(data, "little")
    sign, y = whole >> 255, whole & ((1 << 255) - 1)
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    x = _P - x if x & 1 != sign else x
    return x, y, 1, x * y % _P


def _sum(one: _Point, other: _Point) -> _Point:
    a, b = (one[1] - one[0]) * (other[1] - other[0]) % _P, (one[1] + one[0]) * (other[1] + other[0]) % _P
    c, d = 2 * one[3] * other[3] * _D % _P, 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(factor: int, point: _Point) -> _Point:
    found: _Point = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            found = _sum(found, point)
        point = _sum(point, point)
        factor >>= 1
    return found


def _is_same(one: _Point, other: _Point) -> bool:
    return (one[0] * other[2] - other[0] * one[2]) % _P == 0 and (one[1] * other[2] - other[1] * one[2]) % _P == 0


_BASE = _decompressed((4 * pow(5, _P - 2, _P) % _P).to_bytes(32, "little")) or (0, 1, 1, 0)
