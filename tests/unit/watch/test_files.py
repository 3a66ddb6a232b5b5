# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's sources besides NVML: the kernel's log, the driver's files, and this collection's files on the node."""

from __future__ import annotations

import errno
import json

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _files, _replace
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import pace, xids
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import driver
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import gpu_errors, written

UUID = "GPU-00000000-1111-2222-3333-444444444444"
DAEMON = json.dumps(
    {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "node-generic-resources": [f"NVIDIA-GPU={UUID}"]}
).encode()
RUNTIME = b'swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n'
GPUS = [{"uuid": UUID, "pci": "00000000:C1:00.0"}, {"uuid": None, "pci": None}]
SETTINGS = {"health_faults": [79, 95], "health_ignored": [31]}
LINE = "3,1042,90211,-;NVRM: Xid (PCI:0000:c1:00): %d, pid=4711\n"


def errors(*lines):
    return [one for one in map(xids.parse_event, lines) if one]


@pytest.fixture
def boot(tmp_path, monkeypatch):
    path = tmp_path / "boot_id"
    path.write_text("one\n")
    monkeypatch.setattr(pace, "BOOT_ID", str(path))
    return path


def test_errors_are_kept_for_this_boot(tmp_path, boot):
    it = gpu_errors.Events(str(tmp_path))
    found = it.add(errors(LINE % 79, LINE % 31, "another line", (LINE % 95).replace("c1", "c2")), GPUS, SETTINGS)
    assert [event.xid for event in found] == [79, 31, 95]
    assert it.read() == gpu_errors.Events(str(tmp_path)).read() == [{"uuid": UUID, "xid": 79, "state": "fault"}]
    assert f"XID 79 of {UUID}. After a reset, remove {tmp_path}" in it.standing()
    boot.write_text("another\n")
    assert gpu_errors.Events(str(tmp_path)).standing() == ""
    assert gpu_errors.Events(str(tmp_path)).read() == []


@pytest.mark.parametrize("nvml_first", [True, False])
def test_an_error_from_both_channels_counts_once(tmp_path, boot, nvml_first):
    it, of_log, of_nvml = gpu_errors.Events(str(tmp_path)), errors(LINE % 79, LINE % 31), [xids.Event("0000:c1:00", xid, "") for xid in (79, 31)]
    first = it.add(of_nvml if nvml_first else of_log, GPUS, SETTINGS)
    assert [event.xid for event in first] == ([79] if nvml_first else [79, 31])
    second = it.add(of_log if nvml_first else of_nvml, GPUS, SETTINGS)
    assert second == (of_log if nvml_first else [])  # the text in the log is longer
    assert it.read() == [{"uuid": UUID, "xid": 79, "state": "fault"}]


@pytest.fixture
def full(monkeypatch):
    """While the flag is set, let every write fail because of a full disk."""
    disk = {"full": True}

    def opened(path, mode="r", **more):
        if disk["full"] and "w" in mode:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return open(path, mode, **more)

    monkeypatch.setattr(_replace, "open", opened, raising=False)
    return disk


def test_an_error_that_does_not_fit_on_a_full_disk_counts_and_is_written_later(tmp_path, boot, full):
    it = gpu_errors.Events(str(tmp_path))
    assert [event.xid for event in it.add(errors(LINE % 79), GPUS, SETTINGS)] == [79]
    assert it.failure == f"{tmp_path}/events.json: No space left on device"
    assert it.read() == [{"uuid": UUID, "xid": 79, "state": "fault"}]
    it.add(errors(LINE % 95), GPUS, SETTINGS)
    assert [one["xid"] for one in it.read()] == [79, 95]
    assert list(tmp_path.glob("events*")) == []
    full["full"] = False
    assert it.add([], GPUS, SETTINGS) == []
    assert (it.failure, gpu_errors.Events(str(tmp_path)).read()) == ("", it.read())


def test_a_removed_error_is_over_even_on_a_full_disk(tmp_path, boot, full):
    full["full"] = False
    it = gpu_errors.Events(str(tmp_path))
    it.add(errors(LINE % 79), GPUS, SETTINGS)
    full["full"] = True
    it.add(errors(LINE % 95), GPUS, SETTINGS)
    assert [one["xid"] for one in it.read()] == [79, 95]
    (tmp_path / "events.json").unlink()
    assert it.read() == []
    full["full"] = False
    it.add([], GPUS, SETTINGS)
    assert it.read() == gpu_errors.Events(str(tmp_path)).read() == []


def test_an_unreadable_disk_removes_no_error(tmp_path, boot, monkeypatch):
    it = gpu_errors.Events(str(tmp_path))
    it.add(errors(LINE % 79), GPUS, SETTINGS)
    (tmp_path / "events.json").write_text("changed")

    def broken(path, *_more, **_options):
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(gpu_errors, "open", broken, raising=False)
    assert [one["xid"] for one in it.read()] == [79]


@pytest.mark.parametrize("broken", ["", "[]", "{", '{"boot": "one"}'])
def test_stored_errors_may_be_deleted_or_broken(tmp_path, boot, broken):
    (tmp_path / "events.json").write_text(broken)
    assert gpu_errors.Events(str(tmp_path)).read() == []


def test_the_log_is_read_from_now_on(tmp_path):
    path = tmp_path / "dev" / "kmsg"
    path.parent.mkdir()
    path.write_text("before\n")
    log = gpu_errors.Log(str(tmp_path))
    assert (log.lines(), len(log.handles())) == ([], 1)
    with path.open("a") as stream:
        stream.write(LINE % 79)
    assert log.lines() == [LINE % 79]
    assert gpu_errors.Log(str(tmp_path / "none")).lines() == []


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Create the library of a driver, and the file of the loaded module."""
    (tmp_path / "libnvidia-ml.so.580.95.05").write_bytes(b"ELF")
    (tmp_path / driver.LIBRARY).symlink_to("libnvidia-ml.so.580.95.05")
    monkeypatch.setattr(driver, "MODULE_VERSION", str(tmp_path / "version"))
    return tmp_path


@pytest.mark.parametrize(("loaded", "words"), [("580.95.05\n", None), (None, None), ("570.195.03\n", "570.195.03, the library has 580.95.05")])
def test_library_and_module_are_compared_by_their_files(installed, loaded, words):
    if loaded:
        (installed / "version").write_text(loaded)
    found = driver.find_mismatch(str(installed))
    assert (found is None) if words is None else found.endswith(words)


def test_another_driver_is_noticed(installed):
    before = driver.read_signature(str(installed))
    assert driver.read_signature(str(installed / driver.LIBRARY)) == before
    (installed / "libnvidia-ml.so.590.1.1").write_bytes(b"ELF")
    (installed / driver.LIBRARY).unlink()
    (installed / driver.LIBRARY).symlink_to("libnvidia-ml.so.590.1.1")
    assert driver.read_signature(str(installed)) != before
    assert driver.read_signature(str(installed / "none")) == (None,)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Create the record of a node, and the two files of the node."""
    monkeypatch.setattr(written, "TOOLKIT", (str(tmp_path / "nvidia-ctk"),))
    (tmp_path / "nvidia-ctk").touch()
    settings = {"daemon_config": str(tmp_path / "daemon.json"), "runtime_config": str(tmp_path / "config.toml")}
    for path, content in zip(settings.values(), (DAEMON, RUNTIME), strict=True):
        _files.write(path, content, None)
    inserted = {"resources": [f"NVIDIA-GPU={UUID}"], "kinds": ["NVIDIA-GPU"]}, {"swarm_resource": "DOCKER_RESOURCE_NVIDIA-GPU"}
    entries = [{"ours": one} for one in inserted]
    (tmp_path / "record.json").write_text(json.dumps({"files": dict(zip(settings.values(), entries, strict=True))}))
    return written.Written(str(tmp_path / "health"), settings)


def test_the_advertised_resources_are_read(node):
    assert (node.read().expected, node.read().drift) == ([UUID], None)


@pytest.mark.parametrize(("name", "content"), [("daemon.json", DAEMON), ("config.toml", RUNTIME), ("nvidia-ctk", b"")])
def test_files_that_lost_our_parts_are_drift(node, tmp_path, name, content):
    assert node.read().drift is None
    (tmp_path / name).unlink()
    first = node.read().drift
    assert len(first) == 8
    if name != "nvidia-ctk":
        (tmp_path / name).write_bytes(b"somebody's")
        assert node.read().drift not in (None, first)
    (tmp_path / name).write_bytes(content)
    assert node.read().drift is None


def test_a_half_finished_run_is_no_drift(node, tmp_path):
    """A run writes the files one after the other, and then the record."""
    assert node.read().drift is None
    (tmp_path / "journal.json").touch()
    (tmp_path / "daemon.json").write_bytes(b"{}")
    assert node.read().drift is None
    (tmp_path / "journal.json").unlink()
    assert node.read().drift is not None


@pytest.mark.parametrize(("name", "content"), [("daemon.json", DAEMON.replace(b"{", b'{"debug": true, ', 1)), ("config.toml", b"# mine\n" + RUNTIME)])
def test_another_edit_is_no_drift(node, tmp_path, name, content):
    assert node.read().drift is None
    (tmp_path / name).write_bytes(content)
    assert node.read().drift is None


def test_without_a_record_nothing_is_expected(node, tmp_path):
    (tmp_path / "record.json").unlink()
    assert (node.read().expected, node.read().drift) == ([], None)


@pytest.mark.parametrize("name", ["record.json", "daemon.json"])
def test_an_unreadable_file_changes_nothing(node, tmp_path, name):
    """The last known state is used, and the next read tries the file again."""
    assert node.read().expected == [UUID]
    (tmp_path / name).rename(tmp_path / "kept")
    (tmp_path / name).mkdir()  # root can read any file, but not a directory as a file
    assert (node.read().expected, node.read().drift) == ([UUID], None)
    (tmp_path / name).rmdir()
    assert (node.read().expected, node.read().drift is None) == ([UUID] if name == "daemon.json" else [], name == "record.json")
    (tmp_path / "kept").rename(tmp_path / name)
    assert (node.read().expected, node.read().drift) == ([UUID], None)


def test_a_half_removed_library_counts_as_another_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_FOLDERS", (str(tmp_path),))
    library = tmp_path / "libnvidia-ml.so.1"
    library.symlink_to(tmp_path / "libnvidia-ml.so.580.1")
    without = driver.read_signature(None)
    (tmp_path / "libnvidia-ml.so.580.1").touch()
    assert driver.read_signature(None) != without
