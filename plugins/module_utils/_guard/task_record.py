# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the record that swarm's agent keeps of a task: the resources that the scheduler assigned, and the service's variables (pure).

The bytes are a protobuf message of swarmkit (api/objects.proto: Task; api/specs.proto; api/types.proto).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Iterator

# The numbers of fields in the messages.
_SPEC, _DESIRED, _ASSIGNED = 3, 10, 15  # fields of Task: the service's specification, desired_state, and assigned_generic_resources
_KEEPS_RUNNING = (512, 576)  # values of TaskState: RUNNING and COMPLETE; swarm does not stop such a task
_CONTAINER = 1  # field of TaskSpec
_ENVIRONMENT = 5  # field of ContainerSpec
_NAMED, _DISCRETE = 1, 2  # fields of GenericResource
_KIND, _VALUE = 1, 2  # fields of both kinds of generic resources
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


class RecordError(Exception):
    """The record is not a valid message."""


# One task. named: (kind, value) of each named generic resource. amounts: (kind, amount) of each other resource. environment: the variables that the
# service sets, without the variables of its image. keeps_running: whether swarm wants the task to keep running.
TaskRecord = namedtuple("TaskRecord", ["named", "amounts", "environment", "keeps_running"], defaults=[False])


def parse(data: bytes) -> TaskRecord:
    """Parse the record. Raises RecordError."""
    named_resources, amounts, environment, keeps_running = [], [], [], False
    for number, value in _fields(data):
        if number == _ASSIGNED:
            for resource_kind, resource in _fields(_message(value)):
                kind, amount = _resource(_message(resource))
                if resource_kind == _NAMED:
                    named_resources.append((kind, _text(amount)))
                elif resource_kind == _DISCRETE:
                    amounts.append((kind, amount if isinstance(amount, int) else 0))
        elif number == _SPEC:
            environment += list(_environment(_message(value)))
        elif number == _DESIRED:
            keeps_running = value in _KEEPS_RUNNING
    return TaskRecord(tuple(named_resources), tuple(amounts), tuple(environment), keeps_running)


def _resource(data: bytes) -> tuple[str, int | bytes]:
    fields = dict(_fields(data))
    return _text(fields.get(_KIND, b"")), fields.get(_VALUE, b"")


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
    raise RecordError("a field has a number instead of a text or a message")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of each field."""
    offset = 0
    while offset < len(data):
        tag, offset = _varint(data, offset)
        kind = tag & 7
        if kind == _VARINT:
            value, offset = _varint(data, offset)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, offset = _varint(data, offset)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise RecordError("a field has kind %d" % kind)
        if offset + length > len(data):
            raise RecordError("a field ends beyond the message")
        yield tag >> 3, data[offset : offset + length]
        offset += length


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if offset >= len(data):
            break
        byte = data[offset]
        offset += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, offset
    raise RecordError("a number does not end")
