# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of a node installs, changes and removes the guard. This needs only reloads of dockerd."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest
from character_devices import Devices
from node_lab import UUIDS, gpu, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _files
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import runtime_path
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import adopted
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import guard as guard_files
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.guard import CODE
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import code

PLAIN = "nvidia-container-runtime"
CONTAINER = {"id": "c1", "name": "job", "image": "x", "service": None, "task": None, "age": 5, "swarm_networks": []}


@pytest.fixture(autouse=True)
def _machine(monkeypatch, tmp_path_factory):
    """Shorten all waits, and install a fake of NVIDIA's runtime."""
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    programs = tmp_path_factory.mktemp("bin")
    (programs / PLAIN).write_text("#!/bin/sh\n")
    (programs / PLAIN).chmod(0o755)
    monkeypatch.setattr(guard_files, "SBIN", str(programs))


def home(it):
    return it.home / "usr/local/libexec/gpu-swarm"


def guard(it):
    return str(home(it) / "nvidia-guard")


def program(it):
    """Return the program from the file and from dockerd."""
    return it.doc()["runtimes"]["nvidia"]["path"], it.engine.process()["runtimes"]["nvidia"]["path"]


def settings(it):
    return json.loads((home(it) / "settings.json").read_text())


def advertising(tmp_path, **options):
    """Return a finished node without a guard."""
    it = node(tmp_path, **options)
    it.converge()
    assert not home(it).exists()
    return it


def open_to_others(folder):
    """Return the paths that other users may write to. Links are left out, and also /run, where systemd creates the watcher's directory."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022}
    return {str(path) for path in found if path.parts[0] != "run"}


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_new_files_on_a_node_have_their_modes_whatever_the_umask(tmp_path, umask):
    """This holds for the guard, the watcher and their parent folders, because other programs need these folders too."""
    former = os.umask(0)
    try:
        it = advertising(tmp_path)
        lab = open_to_others(it.home)
        os.umask(umask)
        it.option(isolation="reserved", health=True, health_faults=[], health_ignored=[]).converge()
    finally:
        os.umask(former)
    assert open_to_others(it.home) == lab
    assert [folder.stat().st_mode & 0o777 for folder in (home(it), home(it).parent)] == [0o755, 0o755]
    assert os.access(guard(it), os.X_OK)


@pytest.fixture
def python_of_others(tmp_path_factory, monkeypatch):
    """Run the module with a Python that every user can replace."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "python3").touch(0o755)
    folder.chmod(0o777)
    monkeypatch.setattr(sys, "executable", str(folder / "python3"))
    return folder


@pytest.mark.parametrize("wanted", [{"isolation": "reserved"}, {"health": True, "health_faults": [], "health_ignored": []}])
def test_root_starts_no_program_that_others_can_replace(tmp_path, python_of_others, wanted):
    """A service of root and the guard still run after the run of Ansible. A node without a service and a guard may be changed with any Python."""
    it = advertising(tmp_path)
    it.option(**wanted)
    before = it.everything()
    for act in (it.assess, it.converge):
        with pytest.raises(GpuSwarmError, match=f"users other than root can replace it: {python_of_others} can be written by everybody"):
            act()
    assert it.everything() == before


def test_a_directory_that_was_made_open_to_all_is_closed(tmp_path):
    it = advertising(tmp_path)
    it.option(isolation="reserved").converge()
    for folder in (home(it), home(it).parent):
        folder.chmod(0o777)
    (home(it) / "nvidia-guard").unlink()
    it.converge()
    assert [folder.stat().st_mode & 0o777 for folder in (home(it), home(it).parent)] == [0o755, 0o755]


def test_a_new_comment_in_config_toml_is_no_drift(tmp_path):
    it = advertising(tmp_path)
    it.option(isolation="reserved").converge()
    it.put("runtime_config", it.content("runtime_config") + b"# mine\n")
    assert it.converge()["changed"] is False


def test_the_guard_is_installed_and_removed_by_a_reload_without_a_trace(tmp_path):
    it = advertising(tmp_path)
    before, content = it.everything(), it.content()
    it.option(isolation="reserved")
    assert "the guard of the GPUs is not installed" in it.assess()["drift"]
    assert it.everything() == before
    result = it.converge()
    assert (result["changed"], result["restarted"], result["reloaded"], program(it)) == (True, False, True, (guard(it), guard(it)))
    assert settings(it)["level"] == "reserved"
    assert (settings(it)["devices"], settings(it)["kinds"]) == (UUIDS[:2], ["NVIDIA-GPU"])
    assert settings(it)["listed"] == ["DOCKER_RESOURCE_NVIDIA-GPU"]
    assert settings(it)["config"].encode() == it.content("runtime_config")
    assert os.access(guard(it), os.X_OK)
    assert f"runtime={PLAIN}\n" in (home(it) / "nvidia-guard").read_text()
    assert [path.name for path in home(it).glob("code-*/**/__pycache__/check_container.*.pyc")] != []

    result = it.converge()
    assert (result["changed"], result["drift"]) == (False, [])
    assert result["isolation"] == {"level": "reserved", "turned_off": False, "found": {}, "memory": {}}
    result = it.option(isolation="off").converge()
    assert (result["changed"], result["reloaded"], it.content(), program(it)) == (True, True, content, (PLAIN, PLAIN))
    assert (it.everything(), home(it).parent.exists(), it.converge()["changed"]) == (before, False, False)
    assert it.engine.calls() == ["restart", "reload", "reload"]


def test_it_reports_the_card_of_each_memory_kind_and_the_smallest_usable_amount(tmp_path):
    it = advertising(tmp_path).option(isolation="reserved", advertise=[{"as": "vram", "select": {"index": 0}}, {"as": "gpu"}], cuda_overhead_mib=500)
    it.converge()
    assert it.assess()["isolation"]["memory"] == {"VRAM": {"devices": UUIDS[:1], "mib": 501}}


@pytest.mark.parametrize("text", ["[]", "{}", '{"map": []}', '{"map": {"VRAM": 1}}', '{"map": {"VRAM": {"": []}}}'])
def test_broken_settings_report_no_memory(tmp_path, text):
    it = advertising(tmp_path).option(isolation="reserved")
    it.converge()
    (home(it) / "settings.json").write_text(text)
    assert it.assess()["isolation"]["memory"] == {}


def test_with_off_nothing_changes(tmp_path):
    it = advertising(tmp_path)
    assert it.option(isolation="off").assess()["changed"] is False
    assert it.assess()["isolation"] is None


def test_absent_restores_the_file_and_removes_the_guard(tmp_path):
    it = node(tmp_path, isolation="exclusive")
    before, content = it.everything(), it.content()
    assert it.converge()["restarted"] is True
    assert program(it) == (guard(it), guard(it))
    it.option(state="absent").converge()
    assert (it.everything(), it.content(), (tmp_path / "usr/local/libexec").exists()) == (before, content, False)
    assert it.converge()["changed"] is False


def test_absent_of_a_file_that_somebody_edited_since(tmp_path):
    it = node(tmp_path, isolation="reserved")
    it.converge()
    it.put("daemon_config", it.content().replace(b'"log-driver"', b'"debug": true, "log-driver"'))
    it.option(state="absent").converge()
    assert it.doc() == {"debug": True, "log-driver": "local", "node-generic-resources": ["SSD=1"]}


def test_another_level_is_written_without_a_reload(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="audit")
    it.converge()
    calls = it.engine.calls()
    it.option(isolation="exclusive", isolation_allow=["dcgm"])
    assert it.assess()["drift"] == ["isolation is audit, not exclusive"]
    assert it.converge()["changed"] is True
    assert (settings(it)["level"], settings(it)["allow"], it.engine.calls()) == ("exclusive", ["dcgm"], calls)
    it.option(isolation_allow=[])
    assert it.assess()["drift"] == ["the guard of the GPUs is of another version, or has other settings"]


def test_at_each_level_running_tasks_hold_what_they_have(tmp_path, monkeypatch):
    """This also holds after a tool replaced the guard for a time. Allocations are recorded before the first task gets the new settings."""
    seen = []

    def adopt(settings, folder):
        there = home(it) / "settings.json"
        seen.append((settings["level"], json.loads(there.read_text())["level"] if there.exists() else None))
        assert folder == str(tmp_path / "run/gpu-swarm-guard/holds")
        return []

    monkeypatch.setattr(adopted, "adopt", adopt)
    it = advertising(tmp_path, isolation="off")
    assert seen == []
    it.option(isolation="reserved").converge()
    assert seen == [("reserved", None), ("reserved", "reserved")]
    it.option(isolation="exclusive").converge()
    assert seen[2:] == [("exclusive", "reserved"), ("exclusive", "exclusive")]
    it.converge()
    assert len(seen) == 4
    it.put("daemon_config", it.content().replace(guard(it).encode(), PLAIN.encode()))
    it.engine.reload()
    it.converge()
    assert seen[4:] == 2 * [("exclusive", "exclusive")]
    it.option(isolation="off").converge()
    assert len(seen) == 6


@pytest.mark.parametrize("broken", [["a" * 64], OSError("no such folder"), ValueError("no level")])
def test_tasks_that_cannot_be_read_are_warned_of(tmp_path, monkeypatch, broken):
    def adopt(settings, folder):
        if isinstance(broken, list):
            return broken
        raise broken

    monkeypatch.setattr(adopted, "adopt", adopt)
    (text,) = advertising(tmp_path).option(isolation="exclusive").converge()["warnings"]
    assert (str(broken) if isinstance(broken, Exception) else "and their GPUs cannot be read: aaaaaaaaaaaa.") in text
    assert "isolation exclusive does not know which GPUs they have" in text


@pytest.mark.parametrize("level", ["audit", "exclusive"])
def test_without_a_level_the_guard_keeps_its_level(tmp_path, level):
    it = advertising(tmp_path).option(isolation=level)
    it.converge()
    assert it.option(isolation=None).assess()["drift"] == []
    assert (it.converge()["changed"], it.assess()["isolation"]["level"]) == (False, level)
    assert it.option(isolation="off").converge()["changed"] is True
    assert (it.option(isolation=None).converge()["changed"], it.assess()["isolation"]) == (False, None)


def test_a_guard_with_broken_settings_is_not_removed(tmp_path):
    it = advertising(tmp_path).option(isolation="audit")
    it.converge()
    (home(it) / "settings.json").write_text("{")
    it.option(isolation=None).converge()
    assert it.assess()["isolation"]["level"] == "reserved"


def test_a_guard_that_containers_still_call_stays(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    it.engine.carries = [CONTAINER]
    assert it.option(isolation="off").converge()["changed"] is True
    assert (os.path.islink(guard(it)), sorted(os.listdir(home(it)))) == (True, ["nvidia-guard", "settings.json"])
    assert program(it) == (PLAIN, PLAIN)
    assert it.converge()["changed"] is False
    it.option(isolation="reserved").converge()
    assert (os.path.islink(guard(it)), program(it)) == (False, (guard(it), guard(it)))
    it.option(isolation="off").converge()
    it.engine.carries = []
    assert it.assess()["drift"] == ["the guard of the GPUs is still installed"]
    assert it.converge()["changed"] is True
    assert not home(it).exists()


def guarded_without_a_record(tmp_path, **options):
    """Return a node with a guard but without a record, for example from a golden image or after the loss of /var/lib/gpu-swarm."""
    it = advertising(tmp_path).option(isolation="reserved")
    it.converge()
    shutil.rmtree(it.params["state_dir"])
    return it.option(**options)


def test_the_guard_never_replaces_itself(tmp_path):
    it = guarded_without_a_record(tmp_path)
    it.converge()
    assert f"runtime={PLAIN}\n" in (home(it) / "nvidia-guard").read_text()
    assert (program(it), it.converge()["changed"]) == ((guard(it), guard(it)), False)
    it.option(isolation="off").converge()
    assert (program(it), home(it).exists()) == ((PLAIN, PLAIN), False)


def test_a_copied_file_may_name_a_missing_guard(tmp_path):
    daemon = json.dumps({"runtimes": {"nvidia": {"path": str(tmp_path / "usr/local/libexec/gpu-swarm/nvidia-guard")}}}).encode()
    it = node(tmp_path, daemon=daemon)
    it.converge()
    assert program(it) == (PLAIN, PLAIN)
    it.option(isolation="reserved").converge()
    assert f"runtime={PLAIN}\n" in (home(it) / "nvidia-guard").read_text()
    it.option(state="absent").converge()
    assert (it.doc()["runtimes"]["nvidia"]["path"], home(it).exists()) == (PLAIN, False)


def test_off_without_a_record_corrects_the_file_and_the_daemon_before_the_guard_goes(tmp_path):
    it = guarded_without_a_record(tmp_path, isolation="off")
    assert it.converge()["reloaded"] is True
    assert (program(it), home(it).exists(), it.converge()["changed"]) == ((PLAIN, PLAIN), False, False)


def test_absent_without_a_record_keeps_programs_that_the_file_still_names(tmp_path):
    it = guarded_without_a_record(tmp_path, state="absent")
    it.converge()
    assert (os.path.realpath(guard(it)).endswith(PLAIN), it.converge()["changed"]) == (True, False)


def test_without_restarts_a_removed_guard_stays_as_a_link(tmp_path):
    it = advertising(tmp_path).option(isolation="reserved")
    it.converge()
    it.option(state="absent", restart="never").converge()
    assert (os.path.islink(guard(it)), os.path.exists(guard(it)), it.converge()["changed"]) == (True, True, False)
    it.engine.start()
    it.converge()
    assert not home(it).exists()


def test_a_container_that_starts_before_the_reload_keeps_its_program(tmp_path, monkeypatch):
    it = advertising(tmp_path).option(isolation="reserved")
    it.converge()
    reload = it.engine.reload

    def meanwhile():
        it.engine.carries = [CONTAINER]
        reload()

    monkeypatch.setattr(it.engine, "reload", meanwhile)
    it.option(isolation="off").converge()
    assert os.path.islink(guard(it))
    it.engine.carries = []
    it.converge()
    assert not home(it).exists()


def test_if_the_former_program_is_gone_the_guard_stays_for_its_callers(tmp_path, monkeypatch):
    it = advertising(tmp_path).option(isolation="reserved")
    it.converge()
    it.engine.carries = [CONTAINER]
    monkeypatch.setattr(guard_files, "SBIN", str(tmp_path))
    it.option(isolation="off").converge()
    assert os.access(guard(it), os.X_OK)
    it.engine.carries = []
    it.converge()
    assert not home(it).exists()


def test_a_tool_that_replaced_the_guard_is_drift(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    content = it.content()
    it.put("daemon_config", content.replace(guard(it).encode(), b"/usr/bin/nvidia-container-runtime"))
    assert it.assess()["changed"] is True
    it.engine.reload()
    assert f"the runtime nvidia is /usr/bin/nvidia-container-runtime, not {guard(it)}" in it.assess()["drift"]
    it.converge()
    assert program(it) == (guard(it), guard(it))
    assert "runtime=/usr/bin/nvidia-container-runtime\n" in (home(it) / "nvidia-guard").read_text()
    it.option(isolation="off").converge()
    assert program(it)[0] == "/usr/bin/nvidia-container-runtime"


def as_nvidias_tool_writes_it(content):
    """Return the file as `nvidia-ctk runtime configure --runtime=docker` writes it.

    nvidia-ctk replaces the runtime and rewrites the whole file with sorted keys (pkg/config/engine/docker/docker.go).
    """
    doc = json.loads(content)
    doc["runtimes"]["nvidia"] = {"args": [], "path": PLAIN}
    return json.dumps(doc, indent=4, sort_keys=True).encode()


def test_a_later_change_by_nvidias_tool_is_drift_and_is_reverted(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    written = as_nvidias_tool_writes_it(it.content())
    it.put("daemon_config", written)
    assert it.assess()["changed"] is True
    it.engine.reload()
    assert f"the runtime nvidia is {PLAIN}, not {guard(it)}" in it.assess()["drift"]
    result = it.converge()
    assert (result["reloaded"], result["restarted"], program(it), it.converge()["changed"]) == (True, False, (guard(it), guard(it)), False)
    assert it.content() == written.replace(b'"path": "%s"' % PLAIN.encode(), b'"path": "%s"' % guard(it).encode())
    it.option(isolation="off").converge()
    assert it.content() == written


def test_tasks_older_than_the_guard_hold_what_they_have_before_it_returns(tmp_path, monkeypatch):
    seen = []
    it = advertising(tmp_path, isolation="off").option(isolation="exclusive")
    it.converge()
    it.put("daemon_config", as_nvidias_tool_writes_it(it.content()))
    it.engine.reload()
    monkeypatch.setattr(adopted, "adopt", lambda settings, folder: seen.append(program(it)) or [])
    it.converge()
    assert seen == [(PLAIN, PLAIN), (guard(it), guard(it))]
    it.put("daemon_config", as_nvidias_tool_writes_it(it.content()))
    it.gpus = it.gpus[:1]
    with pytest.raises(GpuSwarmError):
        it.converge()
    assert len(seen) == 2  # a refused run writes nothing


def test_a_daemon_that_did_not_load_the_guard_is_drift(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    process = it.engine.process()
    it.engine._keep({**process, "runtimes": {"nvidia": {"path": PLAIN}}})
    assert it.assess()["drift"] == [f"the runtime nvidia is {PLAIN}, not {guard(it)}"]
    assert (it.converge()["reloaded"], it.assess()["drift"]) == (True, [])


def test_another_version_keeps_the_former_one_for_starting_containers(tmp_path, monkeypatch):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    for number in range(3):
        monkeypatch.setattr(code, "START", code.START + f"# version {number}\n")
        assert it.converge()["changed"] is True
        assert CODE.name() in (home(it) / "nvidia-guard").read_text()
    assert len([name for name in os.listdir(home(it)) if name.startswith("code-")]) == 2
    assert it.converge()["changed"] is False


@pytest.mark.parametrize("name", ["__main__.py", "gpu_swarm/_guard/check_container.py"])
def test_code_that_a_loss_of_power_emptied_is_written_again(tmp_path, name):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    (path,) = home(it).glob(f"code-*/{name}")
    before = path.read_bytes()
    path.write_bytes(b"")
    assert it.assess()["drift"] == ["the guard of the GPUs is of another version, or has other settings"]
    it.converge()
    assert (path.read_bytes(), it.converge()["changed"]) == (before, False)


def test_current_code_stays_and_leftovers_of_a_kill_are_removed(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    kept = home(it) / CODE.name()
    os.utime(kept, (1, 1))
    for name in ("code-1", "code-2", "code-3", ".new.1", ".new.2", ".new.3"):
        (home(it) / name).mkdir()
    it.option(isolation="exclusive").converge()
    assert (kept.exists(), len(list(home(it).glob("code-*"))), list(home(it).glob(".new.*"))) == (True, 2, [])


def test_there_is_a_program_at_every_moment(tmp_path, monkeypatch):
    """The program also exists while a link for running containers becomes the guard again."""
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    it.engine.carries = [CONTAINER]
    it.option(isolation="off").converge()
    there, write = [], _files.write

    def watched(path, *rest):
        there.append(os.path.lexists(guard(it)))
        return write(path, *rest)

    monkeypatch.setattr(_files, "write", watched)
    it.option(isolation="reserved").converge()
    assert (set(there), os.path.islink(guard(it))) == ({True}, False)


def test_a_changed_front_is_drift(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    front = home(it) / "nvidia-guard"
    before = front.read_bytes()
    front.write_bytes(before + b"# mine\n")
    assert it.assess()["changed"] is True
    it.converge()
    assert front.read_bytes() == before


def test_a_file_of_the_operator_stays_and_is_warned_of(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    it.converge()
    (home(it) / "pass-through").touch()
    result = it.converge()
    assert (result["changed"], result["isolation"]["turned_off"]) == (False, True)
    assert any(f"rm {home(it)}/pass-through" in text for text in result["warnings"])


def test_files_only_keeps_the_guard_unchanged(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved", restart="never")
    assert it.converge()["changed"] is False
    it.option(restart="if_needed").converge()
    it.option(isolation="off", restart="never")
    assert it.converge()["changed"] is False
    assert program(it) == (guard(it), guard(it))


def test_a_runtime_of_the_user_is_guarded_and_restored(tmp_path):
    daemon = b'{"runtimes": {"nvidia": {"path": "/opt/site/nvidia-container-runtime", "runtimeArgs": []}}}'
    it = advertising(tmp_path, daemon=daemon).option(isolation="reserved")
    it.converge()
    assert "runtime=/opt/site/nvidia-container-runtime\n" in (home(it) / "nvidia-guard").read_text()
    it.option(isolation="off").converge()
    assert program(it)[0] == "/opt/site/nvidia-container-runtime"
    it.option(state="absent").converge()
    assert it.content() == daemon


def test_a_runtime_without_a_program_cannot_be_guarded(tmp_path):
    it = advertising(tmp_path, daemon=b'{"runtimes": {"nvidia": {"runtimeType": "io.containerd.x"}}}').option(isolation="audit")
    with pytest.raises(GpuSwarmError, match="runtimes.nvidia has no path"):
        it.assess()


def test_the_guard_knows_the_card_of_each_kind_of_memory(tmp_path):
    it = advertising(tmp_path, advertise=[{"as": "vram", "select": {"index": 0}}, {"as": "gpu"}])
    assert any("nothing ties its share to a card" in text for text in it.assess()["warnings"])
    assert any("nothing ties its share to a card" in text for text in it.option(isolation="audit").assess()["warnings"])
    assert it.option(isolation="reserved").converge()["warnings"] == []
    assert settings(it)["map"] == {"VRAM": {"": {"devices": UUIDS[:1], "mib": None, "together": False}}}
    assert (settings(it)["devices"], settings(it)["kinds"]) == (UUIDS[1:2], ["NVIDIA-GPU"])
    # Tasks with reserved memory do not start without the guard, although NVIDIA's runtime ignores such reservations.
    assert "|DOCKER_RESOURCE_VRAM)" in (home(it) / "nvidia-guard").read_text()
    it.gpus = [gpu(2), *it.gpus[1:]]
    it.option(advertise=[{"as": "vram", "select": {"index": 2}}, {"as": "gpu"}])
    assert "the guard of the GPUs is of another version, or has other settings" in it.assess()["drift"]
    it.converge()
    assert settings(it)["map"] == {"VRAM": {"": {"devices": UUIDS[2:3], "mib": None, "together": False}}}


SLOTS = [{"as": "slots", "slots": 2}]


@pytest.mark.parametrize("level", ["off", None])
def test_with_off_slots_still_need_the_guard_for_their_map(tmp_path, level):
    it = advertising(tmp_path).option(advertise=SLOTS, isolation=level)
    before = it.everything()
    assert "the guard of the GPUs is not installed" in it.assess()["drift"]
    assert it.everything() == before
    assert it.converge()["restarted"] is True
    assert (settings(it)["level"], list(settings(it)["map"]), program(it)) == ("off", ["NVIDIA-SLOT"], (guard(it), guard(it)))
    # If the guard's code does not run, containers that request a GPU still start, because the guard withholds nothing (guard/test_front.py).
    otherwise = (home(it) / "nvidia-guard").read_text().partition("\nesac\n")[2]
    assert ("GPU_SWARM_DEVICES=" in otherwise, "NVIDIA_VISIBLE_DEVICES" in otherwise) == (True, False)
    result = it.converge()
    assert (result["changed"], result["isolation"]["level"], result["isolation_level"]) == (False, "off", "off")
    calls = it.engine.calls()
    it.option(isolation="exclusive").converge()
    it.option(isolation="off").converge()
    assert (settings(it)["level"], it.engine.calls(), program(it)) == ("off", calls, (guard(it), guard(it)))
    assert it.option(advertise=[{"as": "gpu"}]).converge()["changed"] is True
    assert (home(it).exists(), program(it), it.converge()["changed"]) == (False, (PLAIN, PLAIN), False)


def test_with_off_a_rule_for_slots_without_a_card_installs_no_guard(tmp_path):
    it = advertising(tmp_path).option(isolation="off", advertise=[{"as": "slots", "slots": 2, "select": {"model": "*T4*"}}, {"as": "gpu"}])
    assert (it.converge()["isolation"], home(it).exists()) == (None, False)


def test_with_off_memory_installs_no_guard(tmp_path):
    it = advertising(tmp_path, advertise=[{"as": "vram", "select": {"index": 0}}, {"as": "gpu"}]).option(isolation="off")
    assert (it.converge()["changed"], home(it).exists()) == (False, False)
    it.option(advertise=[{"as": "vram", "select": {"index": 0}}, *SLOTS]).converge()
    assert any("nothing ties its share to a card" in text for text in it.assess()["warnings"])


@pytest.mark.parametrize("level", ["off", "reserved"])
def test_slots_are_an_error_if_no_guard_is_possible(tmp_path, level):
    it = advertising(tmp_path).option(advertise=SLOTS, isolation=level, restart="never")
    before = it.everything()
    for call in (it.assess, it.converge):
        with pytest.raises(GpuSwarmError, match="NVIDIA-SLOT are slots or groups .* restart=never does not install it. Use restart="):
            call()
    assert it.everything() == before
    it.option(restart="if_needed").converge()
    assert it.option(restart="never").converge()["changed"] is False


def test_slots_of_a_runtime_without_a_program_are_an_error(tmp_path):
    it = advertising(tmp_path, daemon=b'{"runtimes": {"nvidia": {"runtimeType": "io.containerd.x"}}}').option(isolation="off", advertise=SLOTS)
    with pytest.raises(GpuSwarmError, match="runtimes.nvidia has no path.* set isolation: off .* and remove rules for slots and groups"):
        it.assess()


def test_slots_need_a_guard(tmp_path):
    it = advertising(tmp_path).option(advertise=SLOTS)
    it.option(isolation="audit", cuda_overhead_mib=500)
    assert it.converge()["restarted"] is True
    slots = [f"{one}.slot{number}" for one in UUIDS[:2] for number in (1, 2)]
    assert it.shown() == [*(f"NVIDIA-SLOT={one}" for one in slots), "SSD=1"]
    assert list(settings(it)["map"]["NVIDIA-SLOT"]) == slots
    assert settings(it)["map"]["NVIDIA-SLOT"][slots[2]] == {"devices": UUIDS[1:2], "mib": 40779, "together": False}
    assert (settings(it)["devices"], settings(it)["kinds"]) == ([], ["NVIDIA-SLOT"])
    assert (settings(it)["card_mib"], settings(it)["overhead_mib"]) == (dict.fromkeys(UUIDS[:2], 81559), 500)
    assert it.converge()["changed"] is False
    # A slot represents its card. If the card is gone, it is reported as lost. If only the rules change, it is not.
    it.gpus = it.gpus[:1]
    assert [one["id"] for one in it.assess()["refused"]] == ["shrink"]
    assert f"fault {UUIDS[1]} reason=lost" in it.assess()["fault"]
    it.gpus = [gpu(0), gpu(1)]
    assert it.option(isolation="off", advertise=[{"as": "gpu"}]).converge()["changed"] is True
    assert it.shown() == [*(f"NVIDIA-GPU={one}" for one in UUIDS[:2]), "SSD=1"]


def paired(*numbers):
    """Return the cards with these indices. NVLink connects card 0 with card 3, and card 1 with card 2."""
    peers = {0: 3, 3: 0, 1: 2, 2: 1}
    return [gpu(one, links={"nvlink_total": 4, "nvlink_active": 4, "nvlink_peers": {UUIDS[peers[one]]: 4}, "topology": {}}) for one in numbers]


def test_groups_need_a_guard_and_stay_when_a_card_dies(tmp_path):
    it = advertising(tmp_path).option(advertise=[{"as": "group", "kind": "PAIR", "size": 2}])
    it.gpus = paired(0, 1, 2, 3)
    pairs = ["+".join((UUIDS[0], UUIDS[3])), "+".join((UUIDS[1], UUIDS[2]))]
    it.option(isolation="reserved")
    assert it.converge()["restarted"] is True
    assert it.shown() == [*(f"PAIR={one}" for one in pairs), "SSD=1"]
    assert settings(it)["map"] == {"PAIR": {one: {"devices": one.split("+"), "mib": None, "together": False} for one in pairs}}
    assert (settings(it)["devices"], settings(it)["kinds"]) == ([], ["PAIR"])
    assert b'swarm-resource = "DOCKER_RESOURCE_PAIR"' in it.content("runtime_config")
    assert it.converge()["changed"] is False
    it.gpus = paired(1, 2, 3)
    assert [one["id"] for one in it.assess()["refused"]] == ["shrink"]
    assert f"fault {UUIDS[0]} reason=lost" in it.assess()["fault"]
    it.option(allow_shrink=True).converge()
    assert it.shown() == [f"PAIR={pairs[1]}", "SSD=1"]
    assert it.converge()["changed"] is False
    it.gpus = paired(0, 1, 2, 3)
    it.converge()
    assert sorted(it.shown()) == sorted([*(f"PAIR={one}" for one in pairs), "SSD=1"])
    assert it.option(advertise=[{"as": "gpu"}], isolation="off").converge()["changed"] is True
    assert it.shown() == [*(f"NVIDIA-GPU={one}" for one in UUIDS[:4]), "SSD=1"]


@pytest.mark.parametrize("rule", [{"slots": 64}, {"slot_mib": 1274}])
def test_slots_that_cuda_itself_uses_up_are_an_error(tmp_path, rule):
    it = advertising(tmp_path).option(isolation="reserved", advertise=[{"as": "slots", "kind": "SMALL", **rule}], cuda_overhead_mib=1274)
    before = it.everything()
    for call in (it.assess, it.converge):
        with pytest.raises(GpuSwarmError, match=f"a slot of SMALL .{UUIDS[0]}.slot1. has 1274 MiB, but CUDA needs 1274 MiB .* lower gpu_node_cuda"):
            call()
    assert it.everything() == before
    it.option(cuda_overhead_mib=1273).assess()


def test_a_failed_reload_changes_nothing_and_the_next_run_continues(tmp_path):
    it = advertising(tmp_path, isolation="off").option(isolation="reserved")
    content = it.content()
    it.engine.shows_nothing = True
    with pytest.raises(GpuSwarmError, match=f"its runtime nvidia is {PLAIN}"):
        it.converge()
    assert (it.content(), program(it)) == (content, (PLAIN, PLAIN))
    it.engine.shows_nothing = False
    assert (it.converge()["changed"], program(it)) == (True, (guard(it), guard(it)))


@pytest.mark.parametrize("carries", [[], [CONTAINER]])
def test_a_reverted_change_keeps_the_guard_unchanged(tmp_path, carries, monkeypatch):
    it = advertising(tmp_path).option(isolation="audit")
    it.converge()
    if carries:  # after this, only a link remains
        it.engine.carries = carries
        it.option(isolation="off").converge()
    before = {path: path.read_bytes() for path in (home(it) / "settings.json", home(it) / "nvidia-guard")}
    it.option(isolation="exclusive")
    content = it.content()
    it.put("daemon_config", content.replace(guard(it).encode(), PLAIN.encode()))

    def fails():
        raise GpuSwarmError("no reload")

    monkeypatch.setattr(it.engine, "reload", fails)
    it.engine._keep({**it.engine.process(), "runtimes": {"nvidia": {"path": PLAIN}}})
    with pytest.raises(GpuSwarmError, match="no reload"):
        it.converge()
    assert {path: path.read_bytes() for path in before} == before
    assert os.path.islink(guard(it)) == bool(carries)


def test_options_that_a_reload_would_lose_need_a_restart(tmp_path):
    it = advertising(tmp_path)
    it.engine._keep({**it.engine.process(), "flags": ["--authorization-plugin=opa"]})
    it.option(isolation="reserved")
    result = it.assess()
    assert result["restart_required"] is True
    assert any("has the flag --authorization-plugin, which a reload would ignore" in text for text in result["drift"])
    it.engine.carries = [CONTAINER]
    with pytest.raises(GpuSwarmError, match="must be restarted"):
        it.converge()
    assert not home(it).exists()
    it.engine.carries = []
    result = it.converge()
    assert (result["restarted"], result["reloaded"], program(it)) == (True, False, (guard(it), guard(it)))


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"runtimes": {}}', b'{"runtimes": {"nvidia": {}}}', b'{"runtimes": []}'])
def test_a_file_that_names_no_program_stays(content):
    assert runtime_path.read_path(content, "x") is None
    assert runtime_path.set_path(content, "x", "/guard") == content


def test_only_the_program_changes():
    content = b'{\r\n "runtimes" : {"a": {"path": "x"},\t"nvidia": { "path" : "x" , "runtimeArgs": ["-v"]} },\r\n "z": 1.50}\n'
    guarded = runtime_path.set_path(content, "x", "/g/nvidia-guard")
    assert guarded == content.replace(b'"path" : "x" ', b'"path" : "/g/nvidia-guard" ')
    assert runtime_path.with_former_path(guarded, "x", "nvidia-guard", "x") == content
    assert runtime_path.with_former_path(content, "x", "nvidia-guard", "y") == content


RDMA = {"rdma": ["/dev/infiniband/uverbs*"], "fuse": ["/dev/fuse"]}
HAS = {"rdma": ["/dev/infiniband/uverbs0"], "fuse": []}


@pytest.fixture
def rdma(tmp_path, monkeypatch):
    """Add a device of the name rdma to the machine."""
    devices = Devices(tmp_path, monkeypatch)
    devices.add("/dev/infiniband/uverbs0", 231, 192)
    return devices


def test_if_a_device_is_allowed_the_guard_is_installed_without_isolation_and_removed_again(tmp_path, rdma):
    it = advertising(tmp_path)
    before, content = it.everything(), it.content()
    assert it.assess()["devices"] == {}
    it.option(isolation="off", devices=RDMA)
    assessed = it.assess()
    assert ("the guard of the GPUs is not installed" in assessed["drift"], assessed["devices"]) == (True, HAS)
    assert it.everything() == before
    result = it.converge()
    assert (result["changed"], result["restarted"], program(it)) == (True, False, (guard(it), guard(it)))
    assert (settings(it)["level"], settings(it)["offered"], result["devices"]) == ("off", RDMA, HAS)
    assert (it.converge()["changed"], it.assess()["isolation"]["level"]) == (False, "off")
    result = it.option(devices={}).converge()
    assert (result["changed"], result["restarted"], result["devices"], it.content(), program(it)) == (True, False, {}, content, (PLAIN, PLAIN))
    assert (it.everything(), home(it).parent.exists(), it.converge()["changed"]) == (before, False, False)


def test_other_names_are_written_without_a_reload_of_dockerd(tmp_path, rdma):
    it = advertising(tmp_path).option(isolation="reserved")
    it.converge()
    assert settings(it)["offered"] == {}
    calls = it.engine.calls()
    it.option(devices=RDMA)
    assert it.assess()["drift"] == ["the guard of the GPUs is of another version, or has other settings"]
    assert it.converge()["changed"] is True
    assert (settings(it)["offered"], it.engine.calls()) == (RDMA, calls)
    it.option(devices={"fuse": ["/dev/fuse"]}).converge()
    assert (it.converge()["changed"], it.assess()["devices"], it.engine.calls()) == (False, {"fuse": []}, calls)


def test_a_device_that_appears_is_reported_and_is_no_drift(tmp_path, rdma):
    it = advertising(tmp_path).option(devices=RDMA)
    it.converge()
    rdma.add("/dev/fuse", 10, 229)
    rdma.add("/dev/infiniband/uverbs1", 195, 0)  # this number belongs to NVIDIA's driver
    assessed = it.assess()
    assert (assessed["drift"], assessed["devices"]) == ([], {**HAS, "fuse": ["/dev/fuse"]})


def test_a_node_that_cannot_give_its_devices_reports_none(tmp_path, rdma, monkeypatch):
    it = advertising(tmp_path).option(devices=RDMA)
    it.converge()
    assert it.option(state="gathered").assess()["devices"] == HAS
    (home(it) / "pass-through").touch()
    assert it.assess()["devices"] == {"rdma": [], "fuse": []}
    (home(it) / "pass-through").unlink()
    real = it.engine.inspect
    monkeypatch.setattr(it.engine, "inspect", lambda unit=None: {**real(unit), "root_dir": "/var/lib/docker/100000.100000"})
    assert it.option(state="present").assess()["devices"] == {"rdma": [], "fuse": []}


def test_a_run_that_may_not_change_the_guard_reports_what_the_guard_gives(tmp_path, rdma):
    it = advertising(tmp_path).option(restart="never", devices=RDMA)
    assert (it.converge()["devices"], home(it).exists()) == ({}, False)
    it.option(restart="if_needed").converge()
    it.option(restart="never", devices={"fuse": ["/dev/fuse"]})
    assert (it.converge()["devices"], settings(it)["offered"]) == (HAS, RDMA)
    (home(it) / "settings.json").write_text('{"offered": {"A": 1}}')
    assert it.assess()["devices"] == {}


def test_without_a_gpu_nothing_can_be_given(tmp_path, rdma):
    it = node(tmp_path, advertise=[], devices=RDMA)
    assert (it.converge()["devices"], home(it).exists()) == ({}, False)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"RDMA": ["/dev/x"]}, "'RDMA' is not a valid name"),
        ({"rdma": ["/etc/x"]}, "'/etc/x', but must be"),
        ({"tty": ["/dev/tty*"]}, "/dev/tty* match more than 256 devices. Write paths that match fewer"),
    ],
)
def test_a_wrong_list_of_devices_changes_nothing(tmp_path, rdma, value, words):
    it = advertising(tmp_path).option(devices=value)
    for index in range(300):
        rdma.add(f"/dev/tty{index}", 4, index)
    before = it.everything()
    for act in (it.assess, it.converge):
        with pytest.raises(GpuSwarmError) as found:
            act()
        assert ("gpu_node_devices" in str(found.value), words in str(found.value)) == (True, True), found.value
    assert it.everything() == before


def test_absent_reports_no_device(tmp_path, rdma):
    it = advertising(tmp_path).option(devices=RDMA)
    it.converge()
    assert it.option(state="absent").converge()["devices"] == {}
