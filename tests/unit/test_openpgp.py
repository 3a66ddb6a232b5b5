# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fingerprints of key files. The sample is the key in NVIDIA's repository."""

from __future__ import annotations

import base64
import contextlib
import random
import re
from pathlib import Path

import pytest
import yaml
from openpgp_keys import ARMORED, BINARY, EVIL, MIRROR, MIRRORS, NVIDIA, SMALL, armor, packets, prefixed

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._openpgp import encode_keys, normalize_fingerprint, parse_keys

ROOT = Path(__file__).parents[2]


def fingerprints(data):
    return parse_keys(data).fingerprints


def test_the_role_expects_the_key_of_nvidia_s_repository():
    assert fingerprints(ARMORED) == [NVIDIA]
    defaults = yaml.safe_load((ROOT / "roles/nvidia_container_toolkit/defaults/main.yml").read_text())
    assert defaults["nvidia_container_toolkit_key_fingerprint"] == NVIDIA


@pytest.mark.parametrize("packet", [b"\xc6\x0c", b"\xc6\xff\x00\x00\x00\x0c", b"\x98\x0c", b"\x99\x00\x0c", b"\x9a\x00\x00\x00\x0c"])
def test_both_formats_of_packets_are_read(packet):
    (one,) = fingerprints(packet + SMALL)
    assert fingerprints(armor(packet + SMALL)) == [one]
    assert fingerprints(BINARY + packet + SMALL) == [NVIDIA, one]


@pytest.mark.parametrize(
    "data",
    [
        BINARY,
        ARMORED.replace(b"\n", b"\r\n"),
        b"\n \r\n" + ARMORED + b"\n",
        armor(BINARY, headers="Version: 1\nComment: two\n"),
    ],
    ids=["binary", "CRLF", "empty lines around it", "headers"],
)
def test_keys_that_gpg_accepts_are_accepted(data):
    assert fingerprints(data) == [NVIDIA]


@pytest.mark.parametrize(
    "data",
    [BINARY + b"\x98\x0c" + SMALL, ARMORED + armor(b"\x98\x0c" + SMALL), armor(b"\x98\x0c" + SMALL) + ARMORED, armor(BINARY + b"\x98\x0c" + SMALL)],
    ids=["binary", "a second block", "a first block", "in one block"],
)
def test_an_additional_key_is_noticed(data):
    assert len(fingerprints(data)) == 2
    assert NVIDIA in fingerprints(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it contains no key"),
        (b"<html>Not found</html>", "the line '<html>Not found</html>' outside of its armor"),
        (b"\n", "it contains no key"),
        (armor(BINARY, head="PRIVATE KEY"), "PGP PRIVATE KEY BLOCK"),
        (ARMORED[:-40], "its end is missing"),
        (ARMORED.replace(b"mQINBFnN", b"mQIN*FnN"), "something other than base64"),
        (ARMORED.replace(b"\n\n", b"\n", 1), "no empty line"),
        (BINARY[:-1], "cut off"),
        (BINARY + b"\xc6", "cut off"),
        (BINARY + b"\x00", "no packet begins at byte"),
        (b"\xc6\xe0\x04", "in parts"),
        (b"\x9b" + SMALL, "without a length"),
        (b"\x98\x01\x03", "version 3"),
        (b"\x94\x0c" + SMALL, "a packet of type 5"),
    ],
)  # fmt: skip
def test_files_without_a_public_key_are_refused(data, words):
    with pytest.raises(GpuSwarmError, match=words):
        fingerprints(data)


@pytest.mark.parametrize(
    "data",
    [
        prefixed(armor(EVIL), b"> ") + ARMORED,
        prefixed(armor(EVIL), b" ") + ARMORED,
        prefixed(armor(EVIL), b"\t") + ARMORED,
        prefixed(armor(EVIL), b"\xc2\xa0") + ARMORED,
        ARMORED + prefixed(armor(EVIL), b"# "),
        b"From somebody\n" + ARMORED,
        ARMORED + b"and more\n",
        b"\xef\xbb\xbf" + ARMORED,
        b"\x00" + BINARY,
        BINARY + b"\n" + armor(EVIL),
        BINARY + armor(EVIL),
        ARMORED + BINARY,
        ARMORED.replace(b"\n\n", b"\n" + base64.b64encode(EVIL) + b"\n\n", 1),
        ARMORED.replace(b"\n\n", b"\n" + prefixed(armor(EVIL), b"> ") + b"\n", 1),
        ARMORED.replace(b"\n\n", b"\n\n" + armor(EVIL), 1),
        ARMORED.replace(b"\n\n", b"\n\n=" + base64.b64encode(EVIL) + b"\n", 1),
        ARMORED.replace(b"\n=", b"\n=abcd\n=", 1),
        armor(EVIL)[:-10] + b"\n" + ARMORED,
        ARMORED.replace(b"\nmQIN", b"\n mQIN", 1),
        prefixed(ARMORED, b" "),
        ARMORED.replace(b"\n", b"\r"),
    ],
)  # fmt: skip
def test_ambiguous_files_are_refused(data):
    with pytest.raises(GpuSwarmError):
        parse_keys(data)


KEY, NAME, SELF, SUBKEY, SIGNED, *_MORE = (whole for _kind, whole, _body in packets(BINARY))
THEIRS, THEIR_NAME, _THEIR_SELF, THEIR_SUBKEY, THEIR_SIGNED = (whole for _kind, whole, _body in packets(MIRRORS))


def flipped(packet, place=-1):
    """Return the packet with one bit inverted."""
    data = bytearray(packet)
    data[place] ^= 1
    return bytes(data)


@pytest.mark.parametrize(("data", "key"), [(BINARY, NVIDIA), (MIRRORS, MIRROR)], ids=["RSA", "Ed25519"])
def test_signed_subkeys_are_accepted(data, key):
    """This holds even if another program has inserted a packet between the subkeys, or has added a signature."""
    assert fingerprints(data) == [key]
    *before, subkey, signed = (whole for _kind, whole, _body in packets(data)[:5])
    for behind in (b"\xb0\x01\x06" + signed, SELF + signed, signed + SELF):
        assert fingerprints(b"".join([*before, subkey, behind])) == [key]


@pytest.mark.parametrize(
    "data",
    [
        BINARY + THEIR_SUBKEY,
        BINARY + THEIR_SUBKEY + THEIR_SIGNED,
        BINARY + THEIR_SUBKEY + SIGNED,
        BINARY + THEIR_SUBKEY + SELF,
        KEY + THEIR_SUBKEY + NAME + SELF + SUBKEY + SIGNED,
        KEY + NAME + SELF + THEIR_SUBKEY + SUBKEY + SIGNED,
        THEIR_SUBKEY + THEIR_SIGNED + BINARY,
        THEIRS + THEIR_NAME + SUBKEY + SIGNED,
        KEY + NAME + SELF + flipped(SUBKEY) + SIGNED,
        KEY + NAME + SELF + SUBKEY + flipped(SIGNED),
        KEY + NAME + SELF + SUBKEY + flipped(SIGNED, 7),  # the kind of signature
        KEY + NAME + SELF + SUBKEY + flipped(SIGNED, 12),  # a signed part
        KEY + NAME + SELF + SUBKEY + SIGNED[:3],
        THEIRS + THEIR_NAME + flipped(THEIR_SUBKEY) + THEIR_SIGNED,
        THEIRS + THEIR_NAME + THEIR_SUBKEY + flipped(THEIR_SIGNED),
        THEIRS + THEIR_NAME + THEIR_SUBKEY + flipped(THEIR_SIGNED, -40),
        BINARY + b"\xb8\x0c" + SMALL,
        BINARY + b"\xb8\x00",
        EVIL + b"\xb8\x0c" + SMALL + SIGNED,
    ],
)  # fmt: skip
def test_an_unsigned_subkey_is_refused(data):
    """An attacker could add a subkey and sign with this subkey, and the fingerprint of the key would not change."""
    for form in (data, armor(data)):
        with pytest.raises(GpuSwarmError, match="the key has not signed its subkey|cut off|version 0"):
            parse_keys(form)


@pytest.mark.parametrize("packet", [b"\xc6\xff\x00\x01\x00\x00", b"\x9a\x00\x01\x00\x00", b"\xb9\xff\xff", b"\xba\x00\x01\x00\x00"])
def test_a_key_of_an_impossible_size_is_refused(packet):
    size = 1 << 16 if len(packet) > 3 else (1 << 16) - 1
    with pytest.raises(GpuSwarmError, match="a key of 65536 bytes|has not signed"):
        parse_keys(BINARY + packet + b"\x04" + bytes(size - 1))


def test_any_file_is_accepted_or_refused():
    """No other exception is raised."""
    source = random.Random(7)
    for _try in range(400):
        data = bytearray(source.choice((BINARY, MIRRORS)))
        for _change in range(source.randint(1, 4)):
            place = source.randrange(len(data))
            if source.random() < 0.5:
                data[place] = source.randrange(256)
            else:
                del data[place : place + source.randint(1, 300)]
                data += b"\x98"
        with contextlib.suppress(GpuSwarmError):
            assert parse_keys(bytes(data)).fingerprints


def test_only_checked_packets_are_written():
    """For every source, the written file has the form of gpg and of NVIDIA's repository."""
    for data in (BINARY, ARMORED, armor(BINARY, headers="Comment: one\n"), ARMORED.replace(b"\n", b"\r\n")):
        assert encode_keys(parse_keys(data), armored=True) == ARMORED
        assert encode_keys(parse_keys(data), armored=False) == BINARY
    two = parse_keys(ARMORED + armor(EVIL))
    assert encode_keys(two, armored=False) == BINARY + EVIL
    assert parse_keys(encode_keys(two, armored=True)).blocks == [BINARY, EVIL]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (NVIDIA, NVIDIA),
        (NVIDIA.lower(), NVIDIA),
        ("C95B 321B 61E8 8C18 09C4  F759 DDCA E044 F796 ECB0", NVIDIA),
        ("0x" + NVIDIA, NVIDIA),
        (":".join(re.findall("..", NVIDIA)), NVIDIA),
        (NVIDIA[-16:], None),  # a key id, which others can forge
        ("", None),
        (NVIDIA + "\n" + NVIDIA, None),
    ],
)
def test_a_fingerprint_may_have_blanks_and_capitals(written, plain):
    assert normalize_fingerprint(written) == plain
