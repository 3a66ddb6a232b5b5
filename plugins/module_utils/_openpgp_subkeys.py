# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that a subkey is signed by its key (pure).

The fingerprint of a key does not cover its subkeys. Anyone can add a subkey to a key file, but only the owner of the key can sign the subkey
(signature type 0x18; RFC 4880 and RFC 9580, 5.2.4). Some programs do not check this signature (rpm did not: CVE-2021-3521). This code checks RSA and
Ed25519 signatures. If the key has another type, this code refuses its subkeys.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple, Sequence

_BINDING = 0x18
_RSA, _EDDSA = (1, 3), 22
_LONGEST_MODULUS, _LONGEST_EXPONENT = 16384, 64  # bits. A calculation with larger numbers would take too long
_MOST = 16  # how many signatures of one subkey are checked at most
# The hash functions by their numbers in RFC 9580, 9.5, each with its RSA prefix (RFC 8017, 9.2).
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
    hashed: bytes  # the start of the signature packet, which the signature covers too
    numbers: bytes


def has_signature_of(key: bytes, subkey: bytes, signatures: Sequence[bytes]) -> bool:
    """Return whether ``key`` made one of the signatures after ``subkey``. Both arguments are bodies of packets."""
    return any(_is_valid(key, subkey, signature) for signature in signatures[:_MOST])


def _is_valid(key: bytes, subkey: bytes, packet: bytes) -> bool:
    try:
        signature = _parse_signature(packet)
        if signature is None or key[:1] != b"\x04" or signature.hash not in _HASHES:
            return False
        digest = _digest(signature, key, subkey)
        if signature.algorithm in _RSA and key[5] in _RSA:
            return _verify_rsa(key[6:], signature, digest)
        return signature.algorithm == key[5] == _EDDSA and _verify_eddsa(key[6:], signature.numbers, digest)
    except (IndexError, ValueError, struct.error):
        return False


def _parse_signature(packet: bytes) -> _Signature | None:
    if packet[0] != 4 or packet[1] != _BINDING:
        return None
    end = 6 + struct.unpack_from(">H", packet, 4)[0]
    rest = end + 2 + struct.unpack_from(">H", packet, end)[0] + 2  # skip the unsigned part and the first two bytes of the digest
    return _Signature(packet[2], packet[3], packet[:end], packet[rest:])


def _digest(signature: _Signature, key: bytes, subkey: bytes) -> bytes:
    digest = hashlib.new(_HASHES[signature.hash][0])
    for body in (key, subkey):
        digest.update(b"\x99" + struct.pack(">H", len(body)) + body)
    digest.update(signature.hashed + b"\x04\xff" + struct.pack(">L", len(signature.hashed)))
    return digest.digest()


def _read_number(data: bytes) -> tuple[int, bytes]:
    """Return the first number in OpenPGP's format, and the remaining bytes."""
    length = (struct.unpack_from(">H", data)[0] + 7) // 8
    if len(data) < 2 + length:
        raise ValueError("cut off")
    return int.from_bytes(data[2 : 2 + length], "big"), data[2 + length :]


def _verify_rsa(public: bytes, signature: _Signature, digest: bytes) -> bool:
    modulus, rest = _read_number(public)
    exponent, _rest = _read_number(rest)
    value, _rest = _read_number(signature.numbers)
    if modulus.bit_length() > _LONGEST_MODULUS or exponent.bit_length() > _LONGEST_EXPONENT or not 0 < value < modulus:
        return False
    length = (modulus.bit_length() + 7) // 8
    signed = bytes.fromhex(_HASHES[signature.hash][1]) + digest
    padded = b"\x00\x01" + b"\xff" * (length - 3 - len(signed)) + b"\x00" + signed
    return len(padded) == length and pow(value, exponent, modulus) == int.from_bytes(padded, "big")


# -- Ed25519 (RFC 8032, 5.1) -------------------------------------------------------------------------------------------

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_Point = tuple  # extended coordinates of the point (x, y): x*z, y*z, z and x*y*z


def _verify_eddsa(public: bytes, numbers: bytes, digest: bytes) -> bool:
    if not public.startswith(_ED25519):
        return False
    public_number, _rest = _read_number(public[len(_ED25519) :])
    nonce_number, rest = _read_number(numbers)
    factor_number, _rest = _read_number(rest)
    encoded_key, nonce = public_number.to_bytes(33, "big"), nonce_number.to_bytes(32, "big")
    factor = int.from_bytes(factor_number.to_bytes(32, "big"), "little")
    if encoded_key[0] != 0x40 or factor >= _ORDER:
        return False
    key, nonce_point = _decompress_point(encoded_key[1:]), _decompress_point(nonce)
    if key is None or nonce_point is None:
        return False
    challenge = int.from_bytes(hashlib.sha512(nonce + encoded_key[1:] + digest).digest(), "little") % _ORDER
    return _is_same_point(_multiply_point(factor, _BASE), _add_points(nonce_point, _multiply_point(challenge, key)))


def _decompress_point(data: bytes) -> _Point | None:
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
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


def _add_points(first: _Point, second: _Point) -> _Point:
    a, b = (first[1] - first[0]) * (second[1] - second[0]) % _P, (first[1] + first[0]) * (second[1] + second[0]) % _P
    c, d = 2 * first[3] * second[3] * _D % _P, 2 * first[2] * second[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _multiply_point(factor: int, point: _Point) -> _Point:
    product: _Point = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            product = _add_points(product, point)
        point = _add_points(point, point)
        factor >>= 1
    return product


def _is_same_point(first: _Point, second: _Point) -> bool:
    return (first[0] * second[2] - second[0] * first[2]) % _P == 0 and (first[1] * second[2] - second[1] * first[2]) % _P == 0


_BASE = _decompress_point((4 * pow(5, _P - 2, _P) % _P).to_bytes(32, "little")) or (0, 1, 1, 0)
