# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a value of a bbolt file while its owner holds the file's lock and writes.

bbolt copies a page before it changes the page, and only a later commit reuses freed pages. So if the newest meta page is the same before and after
the reading, all data belongs to one commit. (etcd-io/bbolt: internal/common/page.go, meta.go, bucket.go)
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import struct
from collections import namedtuple

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Sequence

_MAGIC, _VERSION = 0xED0CDAED, 2
_BRANCH, _LEAF = 0x01, 0x02
_BUCKET = 0x01  # the flag of a leaf's element whose value is a bucket
_PAGE = struct.Struct("<QHHI")  # id, flags, elements, further pages
_META = struct.Struct("<IIIIQQQQQQ")  # magic, version, page size, flags, root, sequence, free list, pages, transaction, checksum
_BRANCH_ELEMENT = struct.Struct("<IIQ")  # start of the key, length of the key, page
_LEAF_ELEMENT = struct.Struct("<IIII")  # flags, start of the key, length of the key, length of the value
_HEADER = struct.Struct("<QQ")  # the header of a bucket: its root page (0: the page follows the header), sequence
_SIZES = (4096, 16384, 65536, 8192, 32768, 1024, 2048)  # possible page sizes, the usual ones first
_MAX_DEPTH = 64
_MAX_PAGES = 1 << 14  # the highest number of pages in a row
_TRIES = 50


class BoltError(Exception):
    """The file is not a valid bbolt file."""


_Meta = namedtuple("_Meta", ["page_size", "root", "transaction"])


def read(path: str, buckets: Sequence[bytes], key: bytes) -> bytes | None:
    """Return the value of a key in nested buckets. None if the key or the innermost bucket does not exist. Raises BoltError or OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for dummy in range(_TRIES):
            meta, problem, value = _newest(handle), None, None
            try:
                value = _lookup(handle, meta, buckets, key)
            except (BoltError, struct.error) as error:
                problem = error
            if _newest(handle) == meta:
                if problem:
                    raise BoltError(str(problem)) from problem
                return value
    finally:
        os.close(handle)
    raise BoltError("the file changed %d times while it was read" % _TRIES)


def _newest(handle: int) -> _Meta:
    first = os.pread(handle, _PAGE.size + _META.size, 0)
    metas = [_meta(first)]
    sizes = [metas[0].page_size] if metas[0] else _SIZES
    metas += [_meta(os.pread(handle, _PAGE.size + _META.size, size)) for size in sizes]
    valid = [meta for meta in metas if meta]
    if not valid:
        raise BoltError("it has no valid meta page")
    return max(valid, key=lambda meta: meta.transaction)


def _meta(data: bytes) -> _Meta | None:
    if len(data) < _PAGE.size + _META.size:
        return None
    body = data[_PAGE.size :]
    magic, version, page_size, dummy_flags, root, dummy_sequence, dummy_free, dummy_pages, transaction, checksum = _META.unpack(body)
    if magic != _MAGIC or version != _VERSION or checksum != _fnv64(body[: _META.size - 8]):
        return None
    return _Meta(page_size, root, transaction)


def _fnv64(data: bytes) -> int:
    checksum = 0xCBF29CE484222325
    for byte in data:
        checksum = ((checksum ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return checksum


def _lookup(handle: int, meta: _Meta, buckets: Sequence[bytes], key: bytes) -> bytes | None:
    page = _page(handle, meta, meta.root)
    for name in buckets:
        bucket = _find(handle, meta, page, name, _BUCKET)
        if bucket is None:
            if name == buckets[-1]:
                return None
            raise BoltError("it has no bucket %s" % name.decode("ascii", "replace"))
        root, dummy_sequence = _HEADER.unpack_from(bucket)
        page = _page(handle, meta, root) if root else bucket[_HEADER.size :]
    return _find(handle, meta, page, key, 0)


def _page(handle: int, meta: _Meta, number: int) -> bytes:
    offset = number * meta.page_size
    if offset >= os.fstat(handle).st_size:  # the kernel may refuse an offset this large
        raise BoltError("page %d is beyond the end of the file" % number)
    page, dummy_flags, dummy_count, more = _PAGE.unpack(os.pread(handle, _PAGE.size, offset))
    if page != number or more > _MAX_PAGES:
        raise BoltError("page %d carries a different page number, or is too long" % number)
    return os.pread(handle, (more + 1) * meta.page_size, offset)


def _find(handle: int, meta: _Meta, page: bytes, key: bytes, flags: int) -> bytes | None:
    """Return the value of a key below this page, if the key's element has these flags."""
    for dummy in range(_MAX_DEPTH):
        dummy_number, kind, count, dummy_more = _PAGE.unpack_from(page)
        if kind == _LEAF:
            return _in_leaf(page, count, key, flags)
        if kind != _BRANCH or not count:
            raise BoltError("a page of a tree has kind %d" % kind)
        page = _page(handle, meta, _child_page(page, count, key))
    raise BoltError("a tree is deeper than %d pages" % _MAX_DEPTH)


def _child_page(page: bytes, count: int, key: bytes) -> int:
    """Return the number of the page with the last key that is not greater than ``key``."""
    child = 0
    for index in range(count):
        at = _PAGE.size + index * _BRANCH_ELEMENT.size
        begins, length, number = _BRANCH_ELEMENT.unpack_from(page, at)
        if index and page[at + begins : at + begins + length] > key:
            break
        child = number
    return child


def _in_leaf(page: bytes, count: int, key: bytes, flags: int) -> bytes | None:
    for index in range(count):
        at = _PAGE.size + index * _LEAF_ELEMENT.size
        element_flags, begins, key_length, value_length = _LEAF_ELEMENT.unpack_from(page, at)
        start = at + begins
        if page[start : start + key_length] != key:
            continue
        value = page[start + key_length : start + key_length + value_length]
        if len(value) != value_length:
            raise BoltError("a value ends beyond its page")
        return value if element_flags == flags else None
    return None
