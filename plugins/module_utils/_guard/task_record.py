# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What swarm's agent wrote of a task that it was assigned: what the scheduler gave it, and what its service says (pure).

The bytes are a protobuf message of swarmkit (api/objects.proto: Task; api/specs.proto; api/types.proto).
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # typing is not loaded: that would take a fifth of the time that all of this takes
if TYPE_CHECKING:
    from typing import Iterator

# Numbers of fields.
_SPEC, _DESIRED, _GIVEN = 3, 10, 15  # of Task: the service's specification, desired_state, and assigned_generic_resources
_TO_RUN = (512, 576)  # of TaskState: the task is to run, or to come to its end by itself
_CONTAINER = 1  # of TaskSpec
_ENVIRONMENT = 5  # of ContainerSpec
_NAMED, _DISCRETE = 1, 2  # of GenericResource
_KIND, _VALUE = 1, 2  # of both of these
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


class RecordError(Exception):
    """It is no such message."""


# One task: (kind, value) of each generic resource that has a name, (kind, how many) of the others, and what the service itself sets, and not
# its image; stays: whether swarm wants it to run on.
TaskRecord = namedtuple("TaskRecord", ["named", "amounts", "environment", "stays"], defaults=[False])


def parse(data: bytes) -> TaskRecord:
    """Raises RecordError."""
    named, amounts, environment, stays = [], [], [], False
    for number, value in _fields(data):
        if number == _GIVEN:
            for what, given in _fields(_message(value)):
                kind, amount = _resource(_message(given))
                if what == _NAMED:
                    named.append((kind, _text(amount)))
                elif what == _DISCRETE:
                    amounts.append((kind, amount if isinstance(amount, int) else 0))
        elif number == _SPEC:
            environment += list(_environment(_message(value)))
        elif number == _DESIRED:
            stays = value in _TO_RUN
    return TaskRecord(tuple(named), tuple(amounts), tuple(environment), stays)


def _resource(data: bytes) -> tuple[str, int | bytes]:
    found = dict(_fields(data))
    return _text(found.get(_KIND, b"")), found.get(_VALUE, b"")


def _environment(spec: bytes) -> Iterator[str]:
    for number, container in _fields(spec):
        if number == _CONTAINER:
            for inner, value in _fields(_message(container)):
                if inner == _ENVIRONMENT:
                    yield _text(value)


def _text(value: int | bytes) -> str:
    return _message(value).decode("utf-8", "surrogateescape")


def _message(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise RecordError("a number stands where a text or a message is expected")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise RecordError("a field is of kind %d" % kind)
        if at + length > len(data):
            raise RecordError("a field ends beyond the message")
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        one = data[at]
        at += 1
        found |= (one & 0x7F) << shift
        if one < 0x80:
            return found, at
    raise RecordError("a number does not end")
