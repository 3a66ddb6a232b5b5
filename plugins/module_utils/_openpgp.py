# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which keys an OpenPGP key file holds (pure): nodes need not have gpg, and a fingerprint is only a hash.

RFC 4880 and RFC 9580, sections 4.2 (packets), 5.5.4 or 12.2 (fingerprints) and 6 (armor). A file that package managers could read in
another way than this is refused. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct

from ._errors import GpuSwarmError

PUBLIC_KEY, OTHERS = 6, (2, 12, 13, 14, 17)  # signature, trust, user id, subkey, user attribute
BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
NO_KEY = "it is no OpenPGP public key: %s"


def fingerprints(data):
    """The fingerprints of the keys in a file's bytes, armored or not, in capital letters. Those of subkeys, which their key vouches for,
    are left out."""
    binary = bool(data) and data[0] & 0x80
    blocks = [data] if binary else _dearmored(data.decode("ascii", "replace").split("\n"))
    found = [_fingerprint(body) for block in blocks for tag, body in _packets(block) if tag == PUBLIC_KEY]
    if not found:
        raise GpuSwarmError(NO_KEY % "no key is in it")
    return found


def normalized(fingerprint):
    """A fingerprint as people write it, with blanks or colons in between; None where it is none."""
    plain = re.sub(r"[\s:]", "", fingerprint).upper()
    plain = plain[2:] if plain.startswith("0X") else plain
    return plain if re.match(r"(?:[0-9A-F]{40}|[0-9A-F]{64})\Z", plain) else None


def _dearmored(lines):
    """The bytes of each block. Whoever reads only the first one is shown no other keys than whoever reads all."""
    rest = iter(lines)
    for line in rest:
        if not line.startswith("-----"):
            continue  # text between blocks
        if line.rstrip() != BEGIN:
            raise GpuSwarmError(NO_KEY % ("it has a line %r" % line[:60]))
        body = []
        for inner in rest:
            if inner.startswith("-----"):
                break
            body.append(inner.strip())
        else:
            inner = ""
        if inner.rstrip() != END:
            raise GpuSwarmError(NO_KEY % "its end is missing")
        yield _decoded(body)


def _decoded(body):
    """Headers, an empty line, base64, and a checksum, which is left out."""
    if "" not in body:
        raise GpuSwarmError(NO_KEY % "it has no empty line in front of the key")
    encoded = [line for line in body[body.index("") + 1 :] if not line.startswith("=")]
    try:
        return base64.b64decode("".join(encoded), validate=True)
    except binascii.Error as problem:
        raise GpuSwarmError(NO_KEY % "it has something else than base64 in it") from problem


def _packets(data):
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


def _new(data, at):
    """Tag, length and begin of a body: of the format since RFC 2440."""
    tag, first = data[at] & 0x3F, data[at + 1]
    if first < 192:
        return tag, first, at + 2
    if first < 224:
        return tag, ((first - 192) << 8) + data[at + 2] + 192, at + 3
    if first == 255:
        return tag, struct.unpack_from(">L", data, at + 2)[0], at + 6
    raise GpuSwarmError(NO_KEY % "it has a packet in parts")


def _old(data, at):
    """The same of the format before that, which gpg still writes."""
    tag, size = (data[at] & 0x3C) >> 2, data[at] & 0x03
    if size == 3:
        raise GpuSwarmError(NO_KEY % "it has a packet without a length")
    return tag, struct.unpack_from((">B", ">H", ">L")[size], data, at + 1)[0], at + 1 + (1 << size)


def _fingerprint(body):
    version = body[0] if body else 0
    if version == 4:
        return hashlib.sha1(b"\x99" + struct.pack(">H", len(body)) + body).hexdigest().upper()
    if version == 6:
        return hashlib.sha256(b"\x9b" + struct.pack(">L", len(body)) + body).hexdigest().upper()
    raise GpuSwarmError(NO_KEY % ("it has a key of version %d" % version))
