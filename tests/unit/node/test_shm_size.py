# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The default size of shared memory on a node: set and changed with a reload, given back, and restored after a failure or a kill."""

from __future__ import annotations

import json

import pytest
from node_lab import DAEMON_JSON, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError

KEY = "default-shm-size"
OF_USER = b'{"default-shm-size": "256M", "log-driver": "local"}'
BUSY = {"id": "4f66", "name": "train.1.x", "image": "cuda", "service": "train", "task": "x"}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)


def advertising(tmp_path, **options):
    """Return a node that advertises its GPUs, with a task on it. It may be reloaded, but not restarted."""
    it = node(tmp_path, **options)
    it.converge()
    it.engine.carries = [BUSY]
    return it


def in_file(it):
    return json.loads(it.content()).get(KEY)


def running_with(it):
    return it.engine.process()["shm"]


def is_done(it):
    result = it.converge()
    return not result["changed"] and not result["drift"] and not result["warnings"]


def test_the_size_is_set_and_changed_with_a_reload(tmp_path):
    it = advertising(tmp_path)
    for size, drift in (("1g", "default-shm-size is missing, not '1g'"), ("2g", "default-shm-size is '1g', not '2g'")):
        it.option(default_shm_size=size)
        assessed = it.assess()
        assert (assessed["changed"], assessed["drift"], assessed["restart_required"]) == (True, [drift], False)
        assert KEY in assessed["diff"][0]["after"]
        result = it.converge()
        assert (result["restarted"], result["reloaded"], result["warnings"]) == (False, True, [])
        assert (in_file(it), running_with(it)) == (size, size)
        assert is_done(it)
    assert it.engine.calls() == ["restart", "reload", "reload"]


def test_the_first_run_needs_no_reload_besides_its_restart(tmp_path):
    it = node(tmp_path, default_shm_size="1g")
    it.converge()
    assert (in_file(it), running_with(it), it.engine.calls()) == ("1g", "1g", ["restart"])
    assert is_done(it)


@pytest.mark.parametrize("daemon", [DAEMON_JSON, OF_USER, None])
@pytest.mark.parametrize("is_edited", [False, True])
def test_removal_gives_the_original_back(tmp_path, daemon, is_edited):
    it = node(tmp_path, daemon=daemon, default_shm_size="1g")
    it.converge()
    if is_edited:
        it.put("daemon_config", it.content().replace(b"{", b'{"debug": true, ', 1))
    it.option(state="absent").converge()
    if is_edited:
        assert json.loads(it.content()) == {"debug": True, **json.loads(daemon or b"{}")}
    else:
        assert it.content() == daemon
    assert running_with(it) == json.loads(daemon or b"{}").get(KEY, "64M")


def test_a_value_of_the_user_is_replaced_with_a_warning_and_returns(tmp_path):
    it = advertising(tmp_path, daemon=OF_USER)
    assert is_done(it)  # without the option it stays
    result = it.option(default_shm_size="1g").converge()
    assert [text.partition(": ")[2] for text in result["warnings"]] == ["default-shm-size was '256M'."]
    assert (in_file(it), running_with(it)) == ("1g", "1g")
    assert is_done(it)
    result = it.option(default_shm_size=None).converge()
    assert (result["reloaded"], in_file(it), running_with(it)) == (True, "256M", "256M")
    assert is_done(it)


@pytest.mark.parametrize("end", [{"default_shm_size": None}, {"state": "absent"}], ids=str)
@pytest.mark.parametrize(("daemon", "own", "value"), [(DAEMON_JSON, b'"default-shm-size": "256M"', "256M"), (OF_USER, b'"debug": true', None)])
def test_a_value_that_the_user_changed_after_the_first_run_returns(tmp_path, daemon, own, value, end):
    it = advertising(tmp_path, daemon=daemon)
    it.put("daemon_config", it.content().replace(b'"default-shm-size": "256M", ', b"").replace(b"{", b"{%s, " % own, 1))
    it.engine.reload()
    before = it.content()
    for size in ("1g", "2g", "2g"):
        it.option(default_shm_size=size).converge()
    it.engine.carries = []
    it.option(**end).converge()
    assert in_file(it) == value
    assert it.content() == before or end == {"state": "absent"}


def test_without_a_former_value_the_key_is_removed_and_the_run_says_until_when_it_counts(tmp_path):
    it = advertising(tmp_path)
    it.option(default_shm_size="1g").converge()
    result = it.option(default_shm_size=None).converge()
    assert [text.partition(": ")[2] for text in result["warnings"]] == ["default-shm-size is removed. dockerd uses 1g until it restarts."]
    assert (result["reloaded"], in_file(it), running_with(it)) == (False, None, "1g")
    assert is_done(it)


def test_the_same_size_of_the_user_in_other_words_stays_the_user_s(tmp_path):
    it = advertising(tmp_path, daemon=b'{"default-shm-size": "1024M"}')
    assert is_done(it.option(default_shm_size="1g"))
    it.option(default_shm_size=None)
    assert is_done(it)
    assert in_file(it) == "1024M"


def test_a_value_that_somebody_wrote_over_ours_is_drift_but_stays_when_the_option_goes(tmp_path):
    it = advertising(tmp_path, default_shm_size="1g")
    it.put("daemon_config", it.content().replace(b'"1g"', b'"4g"'))
    assert it.assess()["drift"] == ["default-shm-size is '4g', not '1g'"]
    it.option(default_shm_size=None).converge()
    assert in_file(it) == "4g"


def test_a_file_written_without_a_reload_is_loaded_later_once(tmp_path):
    it = advertising(tmp_path)
    it.option(default_shm_size="1g", restart="never").converge()
    assert (in_file(it), running_with(it)) == ("1g", "64M")
    result = it.option(restart="if_needed").converge()
    assert (result["reloaded"], running_with(it), result["drift"]) == (True, "1g", ["dockerd has perhaps not loaded its default-shm-size, '1g'"])
    assert is_done(it)


def test_a_failed_reload_restores_the_file(tmp_path):
    it = advertising(tmp_path)
    before = it.content()

    def fail():
        raise engine.EngineError("no reload")

    it.engine.reload = fail
    with pytest.raises(GpuSwarmError, match="no reload"):
        it.option(default_shm_size="1g").converge()
    assert it.content() == before


def killed_before_the_reload(it):
    """Converge, and end before dockerd loads the written file."""
    working = it.engine.reload

    def die():
        raise KeyboardInterrupt  # is not handled, like a kill

    it.engine.reload = die
    with pytest.raises(KeyboardInterrupt):
        it.converge()
    it.engine.reload = working


def test_a_run_that_was_killed_before_the_reload_is_completed(tmp_path):
    it = advertising(tmp_path)
    killed_before_the_reload(it.option(default_shm_size="1g"))
    assert (in_file(it), running_with(it)) == ("1g", "64M")
    it.converge()
    assert (in_file(it), running_with(it)) == ("1g", "1g")
    assert is_done(it)


def test_the_user_s_value_is_loaded_after_a_run_that_was_killed_before_the_reload(tmp_path):
    it = advertising(tmp_path, daemon=OF_USER)
    it.option(default_shm_size="1g").converge()
    killed_before_the_reload(it.option(default_shm_size=None))
    assert (in_file(it), running_with(it)) == ("256M", "1g")
    it.converge()
    assert (in_file(it), running_with(it)) == ("256M", "256M")
    assert is_done(it)


@pytest.mark.parametrize("size", ["1g", "2g"])
def test_each_value_that_a_killed_run_may_have_left_in_an_edited_file_is_replaced_by_the_user_s(tmp_path, size):
    it = advertising(tmp_path, daemon=OF_USER, default_shm_size="1g")
    killed_before_the_reload(it.option(default_shm_size="2g"))
    it.put("daemon_config", it.content().replace(b'"2g"', b'"%s"' % size.encode()) + b"\n \n")  # the kill was before or after the write
    it.engine.carries = []
    it.option(state="absent").converge()
    assert (in_file(it), running_with(it)) == ("256M", "256M")


def test_a_flag_of_dockerd_is_an_error_only_with_the_option(tmp_path):
    drop_in = "[Service]\nExecStart=\nExecStart=/usr/sbin/dockerd -H fd:// --default-shm-size=2g\n"
    it = node(tmp_path, running=False).unit(drop_in=drop_in)
    it.converge()
    assert is_done(it)
    before = it.content()
    with pytest.raises(GpuSwarmError) as raised:
        it.option(default_shm_size="1g").converge()
    assert "dockerd is started with --default-shm-size=2g, and does not start if" in raised.value.message
    assert "sets default-shm-size too. Remove the flag from its unit." in raised.value.message
    assert it.content() == before


def test_a_wrong_size_changes_nothing(tmp_path):
    it = advertising(tmp_path)
    before = it.content()
    with pytest.raises(GpuSwarmError, match="default_shm_size is '16', but must be a size of 1m or more. Write it as 1g or 512m."):
        it.option(default_shm_size="16").converge()
    assert it.content() == before


def test_a_node_that_advertises_nothing_keeps_its_file(tmp_path):
    it = node(tmp_path, advertise=[], default_shm_size="1g")
    assert is_done(it)
    assert it.content() == DAEMON_JSON
