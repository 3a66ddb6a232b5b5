# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads tasks from files of Swarm's agent: files of real engines, files that are being written, and files with other content."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import bolt, engine_record, task_record
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.task_record import TaskRecord

DATA = Path(__file__).parents[1] / "data" / "guard"
KIND = "NVIDIA-GPU"
# For each release: a task that reserved one GPU, the GPU, and a task without a reservation that sets the variable itself.
RELEASES = {
    "20.10.24": ("yccc6rdh271akys7e34nmh2z3", "GPU-9e4dd2e4-144c-500c-9a7a-2a058b4346aa", "jf5giqkeks1j604yf9dy2hdax"),
    "26.1.5": ("os4h3yhd38lmqy77fykgvxym7", "GPU-77a610a8-caa6-5036-afec-4399b4137c2b", "sznzfnmgku8fpv6rmqqbwynu1"),
    "28.5.2": ("tcxv2adwomktojqg4o3n3x8yw", "GPU-bfc71c33-9f8a-5879-b127-2d85a4819e0b", "704jdn2uygti7u673933a1s9s"),
}


def root(folder, release):
    """Unpack the data directory of dockerd of this release."""
    path = folder / "swarm" / "worker" / "tasks.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.decompress((DATA / f"tasks-{release}.db.gz").read_bytes()))
    return folder


@pytest.mark.parametrize("release", RELEASES)
def test_a_file_of_an_engine_has_the_allocations_and_the_variables_of_services(tmp_path, release):
    with_gpu, uuid, without = RELEASES[release]
    data_root = str(root(tmp_path, release))
    assert engine_record.task(data_root, with_gpu) == TaskRecord(((KIND, uuid),), (), ("A=b",), keeps_running=True)
    assert engine_record.task(data_root, without) == TaskRecord((), (), ("DOCKER_RESOURCE_NVIDIA-GPU=all",), keeps_running=True)
    assert engine_record.task(data_root, "nobody") is None


def test_a_file_beside_the_folder_of_remapped_users_is_found(tmp_path):
    with_gpu, uuid, _without = RELEASES["26.1.5"]
    remapped = root(tmp_path, "26.1.5") / "100000.100000"
    remapped.mkdir()
    assert engine_record.task(str(remapped), with_gpu).named == ((KIND, uuid),)


@pytest.mark.parametrize(
    ("content", "problem"), [(b"", "no valid meta page"), (b"\0" * 9000, "no valid meta page"), (b"x" * 9000, "no valid meta page")]
)
def test_an_invalid_file_is_an_error(tmp_path, content, problem):
    path = tmp_path / "tasks.db"
    path.write_bytes(content)
    with pytest.raises(bolt.BoltError, match=problem):
        bolt.read(str(path), (b"v1",), b"x")


def test_a_file_of_another_layout_is_an_error_and_not_an_ended_task(tmp_path):
    path = root(tmp_path, "26.1.5") / "swarm" / "worker" / "tasks.db"
    for buckets in ((b"v2", b"tasks", b"x"), (b"v1", b"jobs", b"x")):
        with pytest.raises(bolt.BoltError, match="has no bucket"):
            bolt.read(str(path), buckets, b"data")


@given(places=st.lists(st.tuples(st.integers(0, 32767), st.integers(0, 255)), min_size=1, max_size=40))
@example(places=[(12332, 1)])  # a page number that no file has
def test_a_broken_file_is_an_error_or_no_answer(tmp_path_factory, places):
    data = bytearray(gzip.decompress((DATA / "tasks-26.1.5.db.gz").read_bytes()))
    for place, value in places:
        data[place] = value
    path = tmp_path_factory.mktemp("broken") / "tasks.db"
    path.write_bytes(data)
    with contextlib.suppress(bolt.BoltError, task_record.RecordError):
        found = bolt.read(str(path), (b"v1", b"tasks", RELEASES["26.1.5"][0].encode()), b"data")
        assert found is None or isinstance(task_record.parse(found), TaskRecord)


class Writer(threading.Thread):
    """Commits like bbolt: first the pages, then the other meta page. Between the writes, the file is torn."""

    def __init__(self, path, data):
        super().__init__()
        self.path, self.data, self.ends = path, data, threading.Event()

    def run(self):
        newest = max((self._meta(number) for number in (0, 1)), key=lambda one: one[8])
        transaction = newest[8]
        with open(self.path, "r+b", buffering=0) as stream:
            while not self.ends.is_set():
                transaction += 1
                fields = [*newest[:8], transaction]
                body = struct.pack("<IIIIQQQQQ", *fields)
                at = 4096 * (transaction % 2) + 16
                stream.seek(at)
                stream.write(body[:30])
                stream.seek(at + 30)
                stream.write(body[30:] + struct.pack("<Q", bolt._fnv64(body)))

    def _meta(self, number):
        return struct.unpack_from("<IIIIQQQQQQ", self.data, 4096 * number + 16)


@pytest.mark.parametrize("release", RELEASES)
def test_a_file_is_read_while_it_is_written(tmp_path, release):
    with_gpu, uuid, _without = RELEASES[release]
    data_root = root(tmp_path, release)
    path = data_root / "swarm" / "worker" / "tasks.db"
    writer = Writer(path, path.read_bytes())
    writer.start()
    answers = []
    try:
        for _number in range(300):
            with contextlib.suppress(bolt.BoltError):  # no answer is also valid, because the file may change during each attempt
                answers.append(engine_record.task(str(data_root), with_gpu).named)
    finally:
        writer.ends.set()
        writer.join()
    assert set(answers) <= {((KIND, uuid),)}
    assert engine_record.task(str(data_root), with_gpu).named == ((KIND, uuid),)


def number(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(index, value):
    if isinstance(value, int):
        return number(index << 3) + number(value)
    return number(index << 3 | 2) + number(len(value)) + value


def resource(kind, value):
    body = field(1, kind.encode()) + field(2, value if isinstance(value, int) else value.encode())
    return field(15, field(2 if isinstance(value, int) else 1, body))


def test_amounts_and_several_resources_and_unknown_fields_are_read():
    environment = field(3, field(2, b"resources") + field(1, field(1, b"image") + field(5, b"A=b") + field(5, b"NVIDIA_VISIBLE_DEVICES=all")))
    fixed = number(4 << 3 | 1) + b"12345678" + number(5 << 3 | 5) + b"1234"
    data = field(1, b"id") + resource("GPU", "GPU-a") + fixed + resource("VRAM", 8000) + environment + resource("GPU", "GPU-b")
    found = task_record.parse(data)
    assert found == TaskRecord((("GPU", "GPU-a"), ("GPU", "GPU-b")), (("VRAM", 8000),), ("A=b", "NVIDIA_VISIBLE_DEVICES=all"))


@pytest.mark.parametrize(("desired", "stays"), [(512, True), (576, True), (640, False), (800, False), (0, False), (b"512", False), (None, False)])
def test_the_wanted_state_of_a_task_is_read(desired, stays):
    """A task with RUNNING or COMPLETE of swarmkit's api/types.proto continues to run. A task with SHUTDOWN or REMOVE stops."""
    data = resource("GPU", "GPU-a") + (b"" if desired is None else field(10, desired))
    assert task_record.parse(data).keeps_running is stays


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_specific_error(data):
    with contextlib.suppress(task_record.RecordError):
        assert isinstance(task_record.parse(data), TaskRecord)


def test_a_truncated_record_is_an_error():
    for data in (b"\x0a", b"\x0a\x05ab", b"\xff" * 11, b"\x0b", field(15, field(1, b"\x08\x01")) + b"\x7a\x02\x08\x01"):
        with pytest.raises(task_record.RecordError):
            task_record.parse(data)


def test_a_missing_file_is_a_system_error(tmp_path):
    assert not os.path.exists(tmp_path / "swarm")
    with pytest.raises(FileNotFoundError):
        engine_record.task(str(tmp_path), "x")
