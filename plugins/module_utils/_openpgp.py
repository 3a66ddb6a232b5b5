# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which keys an OpenPGP key file contains (pure): nodes need not have gpg, and a fingerprint is only a hash.

RFC 4880 and RFC 9580, sections 4.2 (packets), 5.5.4 or 12.2 (fingerprints) and 6 (armor). Readers differ in what they take for armor: for
Sequoia (sqv, rpm-sequoia) a block may be indented or quoted with "> ", and its empty line may be missing; gpg sees no key there. So what could
be read in another way than this is refused. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from itertools import takewhile
from typing import Iterable, Iterator, NamedTuple, Sequence

from ._errors import GpuSwarmError
from ._openpgp_subkeys import vouched_for

SIGNATURE, PUBLIC_KEY, TRUST, SUBKEY = 2, 6, 12, 14
OTHERS = (SIGNATURE, TRUST, 13, SUBKEY, 17)  # with user id and user attribute
BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
# Those of the RFCs: any other line might be the key's first one to a reader that needs no empty line.
HEADER = re.compile(r"(?:Version|Comment|Hash|Charset|MessageID): [ -~\ufffd]*\Z")
CHECKSUM = re.compile(r"=[A-Za-z0-9+/]{4}\Z")
NO_KEY = "it is no OpenPGP public key: %s"
BLANKS = " \t\r"


class Keys(NamedTuple):
    """The keys in a file."""

    blocks: list[bytes]  # the packets of each block as they are
    armored: bool
    fingerprints: list[str]  # in capital letters, without those of subkeys, for which their key vouches


def parsed(data: bytes) -> Keys:
    """The keys in a file's bytes, of which nothing else may be there."""
    binary = bool(data) and bool(data[0] & 0x80)
    blocks = [data] if binary else list(_dearmored(data.decode("ascii", "replace").split("\n")))
    packets = [packet for block in blocks for packet in _packets(block)]
    found = [_fingerprint(body) for tag, body in packets if tag == PUBLIC_KEY]
    if not found:
        raise GpuSwarmError(NO_KEY % "no key is in it")
    _check_subkeys(packets)
    return Keys(blocks, not binary, found)


def _check_subkeys(packets: Sequence[tuple[int, bytes]]) -> None:
    """Raise GpuSwarmError for a subkey that its key has not signed: anybody could add one and sign packages with it, with the same fingerprint."""
    key = b""
    for place, (tag, body) in enumerate(packets):
        if tag == PUBLIC_KEY:
            key = body
        if tag != SUBKEY:
            continue
        behind = takewhile(lambda packet: packet[0] in (SIGNATURE, TRUST), packets[place + 1 :])
        if not vouched_for(key, body, [signature for what, signature in behind if what == SIGNATURE]):
            raise GpuSwarmError(
                NO_KEY % "it has a subkey %s that the key has not signed, as far as can be checked here (RSA, Ed25519). Get the key again from its "
                "owner, or export it without that subkey" % _fingerprint(body)
            )


def encoded(keys: Keys, armored: bool) -> bytes:
    """The bytes of a file with exactly these packets."""
    return "".join(map(_armored, keys.blocks)).encode("ascii") if armored else b"".join(keys.blocks)


def normalized(fingerprint: str) -> str | None:
    """A fingerprint as people write it, with blanks or colons in between; None where it is none."""
    plain = re.sub(r"[\s:]", "", fingerprint).upper()
    plain = plain[2:] if plain.startswith("0X") else plain
    return plain if re.match(r"(?:[0-9A-F]{40}|[0-9A-F]{64})\Z", plain) else None


def _dearmored(lines: Iterable[str]) -> Iterator[bytes]:
    """The bytes of each block. Whoever reads only the first one is shown no other keys than whoever reads all."""
    rest = iter(line.rstrip(BLANKS) for line in lines)
    for line in rest:
        if not line:
            continue
        if line != BEGIN:
            raise GpuSwarmError(NO_KEY % ("it has a line %r outside of its armor: remove what is around that" % line[:60]))
        body = []
        for inner in rest:
            if inner.startswith("-----"):
                break
            body.append(inner)
        else:
            inner = ""
        if inner != END:
            raise GpuSwarmError(NO_KEY % "its end is missing")
        yield _decoded(body)


def _decoded(body: list[str]) -> bytes:
    """Headers, an empty line, base64, and a checksum, which readers must not insist on (RFC 9580, 6.1)."""
    if "" not in body:
        raise GpuSwarmError(NO_KEY % "it has no empty line in front of the key")
    start = body.index("")
    for line in body[:start]:
        if not HEADER.match(line):
            raise GpuSwarmError(NO_KEY % ("it has a line %r in front of the key" % line[:60]))
    lines = [line for line in body[start:] if line]
    if lines and CHECKSUM.match(lines[-1]):
        lines.pop()
    try:
        return base64.b64decode("".join(lines), validate=True)
    except ValueError as problem:  # also for what is no ASCII
        raise GpuSwarmError(NO_KEY % "it has something else than base64 in it") from problem


def _armored(block: bytes) -> str:
    """As gpg writes it. With the checksum, without which old releases of rpm take no key."""
    text = base64.b64encode(block).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    checksum = base64.b64encode(struct.pack(">L", _crc24(block))[1:]).decode("ascii")
    return "\n".join([BEGIN, "", *lines, "=" + checksum, END, ""])


def _crc24(data: bytes) -> int:
    """RFC 9580, section 6.1.1."""
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _bit in range(8):
            crc = crc << 1 ^ (0x1864CFB if crc & 0x800000 else 0)
    return crc


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet."""
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise GpuSwarmError(NO_KEY % ("byte %d begins no packet" % at))
        try:
            tag, length, at = _new(data, at) if head & 0x40 else _old(data, at)
        except (IndexError, struct.error):
            raise GpuSwarmError(NO_KEY % "it is cut off") from None
        body = data[at : at + length]
        if len(body) < length or (tag != PUBLIC_KEY and tag not in OTHERS):
            raise GpuSwarmError(NO_KEY % ("it is cut off" if len(body) < length else "it has a packet of type %d" % tag))
        yield tag, body
        at += length


def _new(data: bytes, at: int) -> tuple[int, int, int]:
    """Tag, length and begin of a body: of the format since RFC 2440."""
    tag, first = data[at] & 0x3F, data[at + 1]
    if first < 192:
        return tag, first, at + 2
    if first < 224:
        return tag, ((first - 192) << 8) + data[at + 2] + 192, at + 3
    if first == 255:
        return tag, struct.unpack_from(">L", data, at + 2)[0], at + 6
    raise GpuSwarmError(NO_KEY % "it has a packet in parts")


def _old(data: bytes, at: int) -> tuple[int, int, int]:
    """The same of the format before that, which gpg still writes."""
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
