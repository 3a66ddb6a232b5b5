# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""daemon_config or runtime_config names a path that differs from the path at the last change of the node."""

from __future__ import annotations

import json
import os

import pytest
from node_lab import CONFIG_TOML, DAEMON_JSON, node, resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError

DAEMON_LATER, RUNTIME_LATER = b'{"debug": true}\n', b"# another place\n" + CONFIG_TOML


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)


def moved(it, daemon=DAEMON_LATER, runtime=RUNTIME_LATER):
    """Let the options name other files. dockerd already reads these files."""
    old = {option: it.params[option] for option in ("daemon_config", "runtime_config")}
    for option, content in (("daemon_config", daemon), ("runtime_config", runtime)):
        it.params[option] = str(it.home / "etc" / "later" / os.path.basename(old[option]))
        if content is not None:
            it.put(option, content)
    it.engine._config = it.params["daemon_config"]
    it.engine.start()
    return old


def read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def edit(path):
    with open(path, "ab") as stream:
        stream.write(b"\n")


def on_record(it):
    with open(os.path.join(it.params["state_dir"], "record.json"), encoding="utf-8") as stream:
        return json.load(stream)["files"]


def test_the_old_files_are_restored_when_the_paths_change(tmp_path):
    it = node(tmp_path)
    before = it.everything()
    it.converge()
    old = moved(it)
    assessed = it.assess()
    for path in old.values():
        assert any(path in one and "still contains" in one for one in assessed["drift"]), assessed["drift"]
    result = it.converge()
    assert any(old["daemon_config"] in one and "restored" in one for one in result["warnings"]), result["warnings"]
    assert {path: it.everything()[path] for path in before} == before
    assert it.shown() == resources(0, 1)
    assert sorted(on_record(it)) == sorted([it.params["daemon_config"], it.params["runtime_config"]])
    assert it.converge()["changed"] is False
    it.option(state="absent").converge()
    assert (it.content(), it.content("runtime_config")) == (DAEMON_LATER, RUNTIME_LATER)
    assert it.state_files() == []


def test_an_edited_file_keeps_the_edit_and_loses_our_parts(tmp_path):
    it = node(tmp_path)
    it.converge()
    old = moved(it)
    for path in old.values():
        edit(path)
    it.converge()
    assert read(old["daemon_config"]) == DAEMON_JSON + b"\n"
    assert read(old["runtime_config"]) == CONFIG_TOML + b"\n"


def test_a_removed_file_is_not_made_again(tmp_path):
    it = node(tmp_path)
    it.converge()
    old = moved(it)
    for path in old.values():
        os.unlink(path)
    it.converge()
    assert [read(path) for path in old.values()] == [None, None]
    assert sorted(on_record(it)) == sorted([it.params["daemon_config"], it.params["runtime_config"]])


@pytest.mark.parametrize("trouble", ["edited", "gone", "as they were"])
def test_absent_treats_each_file_as_the_record_says(tmp_path, trouble):
    it = node(tmp_path)
    it.converge()
    first = on_record(it)
    old = moved(it)
    files = {path: read(path) for path in old.values()}
    it.converge()
    # A record of former releases, with files in two directories.
    for path, content in files.items():
        with open(path, "wb") as stream:
            stream.write(content)
    it.state.write_record({**first, **on_record(it)})
    for path in old.values() if trouble != "as they were" else []:
        edit(path) if trouble == "edited" else os.unlink(path)
    it.option(state="absent").converge()
    back = {"edited": [DAEMON_JSON + b"\n", CONFIG_TOML + b"\n"], "gone": [None, None], "as they were": [DAEMON_JSON, CONFIG_TOML]}
    assert [read(path) for path in old.values()] == back[trouble]
    assert (it.content(), it.content("runtime_config")) == (DAEMON_LATER, RUNTIME_LATER)
    assert it.state_files() == []


@pytest.mark.parametrize("edited", [False, True])
def test_absent_needs_no_option_to_find_the_files(tmp_path, edited):
    it = node(tmp_path)
    it.converge()
    old = {option: it.params[option] for option in ("daemon_config", "runtime_config")}
    for path in old.values() if edited else []:
        edit(path)
    it.option(state="absent", daemon_config=str(tmp_path / "nowhere.json"), runtime_config=str(tmp_path / "nowhere.toml")).converge()
    more = b"\n" if edited else b""
    assert [read(path) for path in old.values()] == [DAEMON_JSON + more, CONFIG_TOML + more]
    assert it.state_files() == []
    assert it.shown() == ["SSD=1"]


@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("how", ["moved", "copied"])
def test_a_moved_file_with_our_parts_keeps_its_original(tmp_path, state, how):
    it = node(tmp_path)
    it.converge()
    old = moved(it, *(read(it.params[option]) for option in ("daemon_config", "runtime_config")))
    for path in old.values() if how == "moved" else []:
        os.unlink(path)
    it.option(state=state).converge()
    it.option(state="absent").converge()
    assert (it.content(), it.content("runtime_config")) == (DAEMON_JSON, CONFIG_TOML)
    assert [read(path) for path in old.values()] == ([None, None] if how == "moved" else [DAEMON_JSON, CONFIG_TOML])
    assert it.state_files() == []


@pytest.mark.parametrize("edited", [False, True])
def test_another_name_of_the_same_file_is_no_other_file(tmp_path, edited):
    it = node(tmp_path)
    it.converge()
    (tmp_path / "link").symlink_to(tmp_path / "etc")
    there = it.everything()
    if edited:
        edit(it.params["daemon_config"])
    it.option(daemon_config=str(tmp_path / "link" / "docker" / "daemon.json"))
    it.converge()
    assert edited or it.everything() == there
    assert it.assess()["drift"] == []
    it.option(state="absent").converge()
    assert (it.content(), it.content("runtime_config")) == (DAEMON_JSON + b"\n" if edited else DAEMON_JSON, CONFIG_TOML)
    assert it.state_files() == []


def test_values_from_flags_move_to_the_new_file(tmp_path):
    it = node(tmp_path, daemon=b'{"debug": true}').unit(environment='DOCKER_OPTS="--default-runtime=nvidia --node-generic-resource SSD=1"\n')
    it.converge()
    moved(it)
    it.converge()
    assert it.shown() == [*resources(0, 1), "SSD=1"]
    it.option(state="absent").converge()
    assert it.shown() == ["SSD=1"]
    assert it.content() == DAEMON_LATER


def test_advertising_less_is_judged_by_the_old_file_too(tmp_path):
    it = node(tmp_path)
    it.converge()
    moved(it)
    it.gpus = it.gpus[:1]
    with pytest.raises(GpuSwarmError, match="less than before"):
        it.converge()


def test_an_empty_policy_restores_the_old_file_as_well(tmp_path):
    it = node(tmp_path)
    it.converge()
    old = moved(it)
    it.option(advertise=[], allow_shrink=True).converge()
    assert read(old["daemon_config"]) == DAEMON_JSON


def test_when_the_daemon_does_not_start_all_files_are_as_they_were(tmp_path):
    it = node(tmp_path)
    it.converge()
    moved(it)
    before, record = it.everything(), on_record(it)
    it.engine.refuses = "unable to configure"
    with pytest.raises(GpuSwarmError, match="unable to configure"):
        it.converge()
    assert (it.everything(), on_record(it)) == (before, record)
