# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the keys in an OpenPGP key file (pure). Nodes do not need gpg for that: a fingerprint is only a hash.

RFC 4880 and RFC 9580, sections 4.2 (packets), 5.5.4 or 12.2 (fingerprints) and 6 (armor). Programs accept different kinds of armor. Sequoia (sqv,
rpm-sequoia) accepts a block that is indented, that is quoted with "> ", or that has no empty line. gpg sees no key in such a block. So this code
refuses every file that another program could read differently. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from itertools import takewhile
from typing import Iterable, Iterator, NamedTuple, Sequence

from ._errors import GpuSwarmError
from ._openpgp_subkeys import has_signature_of

SIGNATURE, PUBLIC_KEY, TRUST, SUBKEY = 2, 6, 12, 14
OTHERS = (SIGNATURE, TRUST, 13, SUBKEY, 17)  # 13 is the tag of a user id, 17 of a user attribute
BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
# The headers that the RFCs define. If a program does not need the empty line, it could read any other line as part of the key.
HEADER = re.compile(r"(?:Version|Comment|Hash|Charset|MessageID): [ -~\ufffd]*\Z")
CHECKSUM = re.compile(r"=[A-Za-z0-9+/]{4}\Z")
NO_KEY = "it is not an OpenPGP public key: %s"
BLANKS = " \t\r"


class Keys(NamedTuple):
    """The keys in a file."""

    blocks: list[bytes]  # the packets of each block
    armored: bool
    fingerprints: list[str]  # in upper case. Subkeys are not listed, because their key has signed them


def parse_keys(data: bytes) -> Keys:
    """Return the keys in the bytes of a file. Raises GpuSwarmError if the file contains anything else."""
    binary = bool(data) and bool(data[0] & 0x80)
    blocks = [data] if binary else list(_remove_armor(data.decode("ascii", "replace").split("\n")))
    packets = [packet for block in blocks for packet in _packets(block)]
    fingerprints = [_fingerprint(body) for tag, body in packets if tag == PUBLIC_KEY]
    if not fingerprints:
        raise GpuSwarmError(NO_KEY % "it contains no key")
    _check_subkeys(packets)
    return Keys(blocks, not binary, fingerprints)


def _check_subkeys(packets: Sequence[tuple[int, bytes]]) -> None:
    """Raise GpuSwarmError for a subkey that its key has not signed. Otherwise an attacker could add a subkey and sign packages with it, and the
    fingerprint would stay the same."""
    key = b""
    for place, (tag, body) in enumerate(packets):
        if tag == PUBLIC_KEY:
            key = body
        if tag != SUBKEY:
            continue
        following = takewhile(lambda packet: packet[0] in (SIGNATURE, TRUST), packets[place + 1 :])
        if not has_signature_of(key, body, [signature for following_tag, signature in following if following_tag == SIGNATURE]):
            raise GpuSwarmError(
                NO_KEY % "the key has not signed its subkey %s with RSA or Ed25519. Get the key again from its "
                "owner, or export it without that subkey" % _fingerprint(body)
            )


def encode_keys(keys: Keys, armored: bool) -> bytes:
    """Return the bytes of a file with exactly these packets."""
    return "".join(map(_add_armor, keys.blocks)).encode("ascii") if armored else b"".join(keys.blocks)


def normalize_fingerprint(fingerprint: str) -> str | None:
    """Return a fingerprint in upper case, without blanks and colons; None if the fingerprint is invalid."""
    plain = re.sub(r"[\s:]", "", fingerprint).upper()
    plain = plain[2:] if plain.startswith("0X") else plain
    return plain if re.match(r"(?:[0-9A-F]{40}|[0-9A-F]{64})\Z", plain) else None


def _remove_armor(lines: Iterable[str]) -> Iterator[bytes]:
    """Yield the bytes of each block. Raises GpuSwarmError for any text outside of the blocks."""
    rest = iter(line.rstrip(BLANKS) for line in lines)
    for line in rest:
        if not line:
            continue
        if line != BEGIN:
            raise GpuSwarmError(NO_KEY % ("it has the line %r outside of its armor. Remove such lines" % line[:60]))
        body = []
        for inner in rest:
            if inner.startswith("-----"):
                break
            body.append(inner)
        else:
            inner = ""
        if inner != END:
            raise GpuSwarmError(NO_KEY % "its end is missing")
        yield _decode_block(body)


def _decode_block(body: list[str]) -> bytes:
    """Decode a block: headers, an empty line, base64, and an optional checksum (RFC 9580, 6.1)."""
    if "" not in body:
        raise GpuSwarmError(NO_KEY % "it has no empty line in front of the key")
    start = body.index("")
    for line in body[:start]:
        if not HEADER.match(line):
            raise GpuSwarmError(NO_KEY % ("it has the line %r in front of the key" % line[:60]))
    lines = [line for line in body[start:] if line]
    if lines and CHECKSUM.match(lines[-1]):
        lines.pop()
    try:
        return base64.b64decode("".join(lines), validate=True)
    except ValueError as problem:  # this error is also raised for text that is not ASCII
        raise GpuSwarmError(NO_KEY % "it contains something other than base64") from problem


def _add_armor(block: bytes) -> str:
    """Return the block in the form that gpg writes. The block has a checksum, because old releases of rpm need a checksum."""
    text = base64.b64encode(block).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    checksum = base64.b64encode(struct.pack(">L", _crc24(block))[1:]).decode("ascii")
    return "\n".join([BEGIN, "", *lines, "=" + checksum, END, ""])


def _crc24(data: bytes) -> int:
    """Return the checksum of RFC 9580, section 6.1.1."""
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _bit in range(8):
            crc = crc << 1 ^ (0x1864CFB if crc & 0x800000 else 0)
    return crc


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and body of each packet."""
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise GpuSwarmError(NO_KEY % ("no packet begins at byte %d" % at))
        try:
            tag, length, at = _parse_new_header(data, at) if head & 0x40 else _parse_old_header(data, at)
        except (IndexError, struct.error):
            raise GpuSwarmError(NO_KEY % "it is cut off") from None
        body = data[at : at + length]
        if len(body) < length or (tag != PUBLIC_KEY and tag not in OTHERS):
            raise GpuSwarmError(NO_KEY % ("it is cut off" if len(body) < length else "it has a packet of type %d" % tag))
        yield tag, body
        at += length


def _parse_new_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag, the length and the start of a body. The header has the format of RFC 2440 and newer."""
    tag, first = data[at] & 0x3F, data[at + 1]
    if first < 192:
        return tag, first, at + 2
    if first < 224:
        return tag, ((first - 192) << 8) + data[at + 2] + 192, at + 3
    if first == 255:
        return tag, struct.unpack_from(">L", data, at + 2)[0], at + 6
    raise GpuSwarmError(NO_KEY % "it has a packet that comes in parts")


def _parse_old_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag, the length and the start of a body. The header has the old format, which gpg still writes."""
    tag, size = (data[at] & 0x3C) >> 2, data[at] & 0x03
    if size == 3:
        raise GpuSwarmError(NO_KEY % "it has a packet without a length")
    return tag, struct.unpack_from((">B", ">H", ">L")[size], data, at + 1)[0], at + 1 + (1 << size)


def _fingerprint(body: bytes) -> str:
    version = body[0] if body else 0
    if version == 4 and len(body) >= 1 << 16:
        raise GpuSwarmError(NO_KEY % ("it has a key of %d bytes" % len(body)))
    if version == 4:
        return hashlib.sha1(b"\x99" + struct.pack(">H", len(body)) + body).hexdigest().upper()
    if version == 6:
        return hashlib.sha256(b"\x9b" + struct.pack(">L", len(body)) + body).hexdigest().upper()
    raise GpuSwarmError(NO_KEY % ("it has a key of version %d" % version))
