# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of a node installs and removes the watcher and the watcher's label in daemon.json."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from node_lab import DAEMON_JSON, UUIDS, gpu, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import card_metrics_file, channel, watcher
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.journal import State
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import installed

OK = "fleet.gpu-swarm.health=ok"
FAULT = "fault xid=79"
SETTINGS = {"health": True, "health_faults": [79], "health_ignored": [13], "nvml_timeout": 60}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    monkeypatch.setattr(channel, "SHOWN_WITHIN_S", 0)
    monkeypatch.setattr(installed, "runs", lambda *_process: True)


def watched(home, **options):
    return node(home, **{**SETTINGS, **options})


def unit(it):
    return it.home / "etc/systemd/system/gpu-swarm-health.service"


def shown(it):
    return it.engine.inspect()["labels"]


def test_the_watcher_is_installed_with_the_restart_and_removed_without_a_trace(tmp_path):
    it = watched(tmp_path)
    before = it.everything()
    assert "the watcher of the GPUs is not installed" in it.assess()["drift"]
    assert it.assess()["watcher_missing"]
    result = it.converge()
    assert (result["changed"], result["restarted"], shown(it)) == (True, True, [OK])
    assert it.engine.calls() == ["restart"]
    assert it.commands[-1] == "systemctl restart gpu-swarm-health.service"
    assert unit(it).exists()
    assert not any("daemon-reload" in command or "enable" in command for command in it.commands)

    result = it.converge()
    assert (result["changed"], result["drift"], result["health"]["label"], result["watcher_missing"]) == (False, [], "ok", False)
    assert (it.engine.calls(), [one for one in it.commands if "restart" in one]) == (
        ["restart"],
        ["systemctl restart gpu-swarm-devices.service", "systemctl restart gpu-swarm-health.service"],
    )

    result = it.option(state="absent").converge()
    assert (result["changed"], shown(it)) == (True, [])
    assert it.everything() == before
    assert os.listdir(it.params["state_dir"]) == ["lock"]
    assert it.converge()["changed"] is False


def limits(it):
    """Return the settings of the watcher's unit after the lines that every service has, as {name: values}."""
    found = {}
    for line in unit(it).read_text().partition("NoNewPrivileges")[2].splitlines()[1:]:
        name, equals, value = line.partition("=")
        if equals:
            found.setdefault(name, []).append(value)
    return found


def test_its_unit_lets_it_write_to_two_directories_and_does_what_a_driver_needs(tmp_path):
    it = watched(tmp_path)
    it.converge()
    found = limits(it)
    assert found.pop("ReadWritePaths") == [f'"-{tmp_path}/state"', f'"-{tmp_path}/etc/docker"']
    assert {name: found[name] for name in ("ProtectSystem", "ProtectHome", "PrivateTmp")} == {
        "ProtectSystem": ["strict"], "ProtectHome": ["read-only"], "PrivateTmp": ["yes"]
    }  # fmt: skip
    # NVML and NVIDIA's programs load the driver, create its devices and write to /sys. The service itself reads the kernel's log.
    forbidden = ("ProtectKernelModules", "ProtectKernelLogs", "ProtectKernelTunables", "PrivateDevices", "DevicePolicy", "CapabilityBoundingSet")
    assert not set(forbidden) & set(found)


def test_its_unit_names_the_directories_to_which_links_lead(tmp_path):
    """systemd ignores a link that is below another writable directory."""
    (tmp_path / "srv").mkdir()
    it = watched(tmp_path)
    path = Path(it.params["daemon_config"])
    path.rename(tmp_path / "srv/of-docker.json")
    path.symlink_to("../../srv/of-docker.json")
    it.converge()
    assert f'"-{tmp_path}/srv"' in limits(it)["ReadWritePaths"]
    assert (it.converge()["changed"], path.is_symlink()) == (False, True)


def test_the_directory_for_metrics_is_writable_and_its_file_leaves_with_the_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(card_metrics_file, "_PRIVATE", ())  # the directories of this test are below /tmp
    folders = [tmp_path / name for name in ("one", "two")]
    files = [folder / card_metrics_file.NAME for folder in folders]
    for file in files:
        file.parent.mkdir()
        file.write_text("# HELP gpu_swarm_cards_read_timestamp_seconds x\n")
    it = watched(tmp_path, textfile=str(folders[0]))
    it.converge()
    assert f'"-{folders[0]}"' in limits(it)["ReadWritePaths"]
    assert json.loads((tmp_path / "state/health/settings.json").read_text())["textfile"] == str(folders[0])
    assert it.converge()["changed"] is False
    assert it.option(textfile=str(folders[1])).converge()["changed"] is True
    assert [file.exists() for file in files] == [False, True]
    assert it.option(state="absent").converge()["changed"] is True
    assert [file.exists() for file in files] == [False, False]


def test_a_directory_for_metrics_that_the_watcher_cannot_see_is_refused_and_changes_nothing(tmp_path):
    it = watched(tmp_path, textfile="/tmp/metrics")
    before = it.everything()
    for call in (it.assess, it.converge):
        with pytest.raises(GpuSwarmError, match="textfile is /tmp/metrics, but must be an absolute path outside /tmp and /var/tmp"):
            call()
    assert it.everything() == before


def test_a_unit_that_has_changed_restarts_the_watcher_and_systemd_reads_no_unit_anew(tmp_path):
    """This happens after an upgrade. A daemon-reload could remove the GPUs of running containers, so the former unit applies until the next boot."""
    it = watched(tmp_path)
    it.converge()
    unit(it).write_text("[Service]\nExecStart=/bin/true\n")
    it.commands.clear()
    result = it.converge()
    assert (result["changed"], result["restarted"], "ProtectSystem=strict" in unit(it).read_text()) == (True, False, True)
    assert "systemctl restart gpu-swarm-health.service" in it.commands
    assert not any("daemon-reload" in command for command in it.commands)


def test_on_a_finished_node_the_watcher_needs_no_restart(tmp_path):
    """The watcher updates the node, because the watcher knows whether tasks run on the node at that time."""
    it = watched(tmp_path, health=False)
    it.converge()
    before = it.content()
    result = it.option(health=True).converge()
    assert (result["changed"], result["restarted"], result["reloaded"], shown(it)) == (True, False, False, [])
    assert (it.engine.calls(), it.content()) == (["restart"], before)
    assert it.converge()["changed"] is False
    assert it.channel.write("ok") is None
    assert (shown(it), it.converge()["changed"]) == ([OK], False)
    assert it.option(health=False).converge()["changed"] is True
    assert (it.content(), shown(it)) == (before, [])


def test_without_node_labels_the_label_has_the_model_from_the_first_restart_on(tmp_path):
    it = watched(tmp_path, label_prefix="")
    model = it.gpus[0]["model"]
    it.converge()
    assert shown(it) == [f"{OK} model={model}"]
    assert it.converge()["changed"] is False


@pytest.mark.parametrize(("prefix", "other", "reports"), [("gpu.", "", True), ("", "acme.", False)])
def test_another_prefix_restarts_a_watcher_that_reports_the_model(tmp_path, prefix, other, reports):
    """Another prefix means an update of the node. The watcher updates the node when no old leader can stop a task because of the update."""
    it = watched(tmp_path, label_prefix=prefix)
    it.converge()
    before = shown(it)
    result = it.option(label_prefix=other).converge()
    assert (result["changed"], result["restarted"], result["reloaded"], shown(it)) == (True, False, False, before)
    assert json.loads((tmp_path / "state/health/settings.json").read_text())["model"] is reports
    assert it.converge()["changed"] is False


def test_another_prefix_alone_does_not_restart_the_watcher(tmp_path):
    it = watched(tmp_path, label_prefix="gpu.")
    it.converge()
    assert it.option(label_prefix="acme.").converge()["changed"] is False


def test_a_restart_loads_the_current_report_of_the_watcher(tmp_path):
    it = watched(tmp_path)
    it.converge()
    assert it.channel.write(FAULT) is None
    status = tmp_path / "run/gpu-swarm/health.json"
    status.write_text(json.dumps({"pid": os.getpid(), "label": "ok drift=0a1b2c3d", "waits": "tasks run here (train)", "reasons": []}))
    it.gpus = [gpu(0), gpu(1), gpu(2)]
    assert (it.converge()["restarted"], shown(it)) == (True, [OK])


@pytest.mark.parametrize(
    ("said", "shows"),
    [
        (f"fault {UUIDS[3]} reason=lost since=5", "ok"),  # a card that is no longer advertised
        (f"fault {UUIDS[0]} reason=lost since=5", "ok"),  # a card that is back
        ("fault reason=mismatch since=5", "ok"),  # the driver was just read
        (f"fault {UUIDS[0]} reason=xid xid=79 since=5 drift=0a1b2c3d", f"fault {UUIDS[0]} reason=xid xid=79 since=5"),
        ("ok", f"fault {UUIDS[0]} reason=xid xid=79"),
        (f"warning {UUIDS[0]} reason=degraded since=5", f"warning {UUIDS[0]} reason=degraded since=5"),
    ],
)
def test_a_restart_reports_what_the_run_read_and_no_old_fault(tmp_path, said, shows):
    it = watched(tmp_path)
    it.converge()
    status = tmp_path / "run/gpu-swarm/health.json"
    status.write_text(json.dumps({"pid": os.getpid(), "label": said, "reasons": []}))
    if "xid" in shows:
        log_error(it, UUIDS[0])
    it.gpus = [gpu(0), gpu(1), gpu(2)]
    result = it.converge()
    assert (result["restarted"], shown(it)) == (True, [f"fleet.gpu-swarm.health={shows}"])


def log_error(it, uuid, boot=None):
    error = {"uuid": uuid, "xid": 79, "state": "fault"}
    boot = boot or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    Path(it.watcher.home, "events.json").write_text(json.dumps({"boot": boot, "events": [error]}))


def test_logged_errors_count_without_a_watcher_and_until_a_reboot(tmp_path):
    it = watched(tmp_path)
    it.converge()
    log_error(it, UUIDS[0])
    it._command(["systemctl", "stop", watcher.UNIT])
    assert it.assess()["fault"] == f"fault {UUIDS[0]} reason=xid xid=79"
    log_error(it, UUIDS[0], boot="another")
    assert it.assess()["fault"] is None


TASK = [{"id": "4f66", "name": "train.1.x", "image": "cuda", "service": "train", "task": "x"}]


@pytest.mark.parametrize(("options", "label"), [({}, [OK]), ({"health_report": "faults"}, [OK]), ({"health_report": "all"}, [])])
def test_its_removal_does_not_update_a_node_under_an_old_leader(tmp_path, options, label):
    it = watched(tmp_path, **options)
    it.converge()
    it.engine.carries = TASK
    result = it.option(health=False).converge()
    assert (shown(it), "labels" in it.doc(), unit(it).exists()) == (label, False, False)
    assert [text for text in result["warnings"] if "until dockerd restarts" in text] == result["warnings"][: len(label)]
    assert it.converge()["changed"] is False


DRIFT = "ok drift=0a1b2c3d"
LATE = f"fault {UUIDS[0]} reason=xid xid=79 since=5"


@pytest.mark.parametrize(
    ("said", "tasks", "options", "reloads", "shows"),
    [
        (DRIFT, TASK, {"health_now": True}, True, "ok"),
        (DRIFT, TASK, {}, False, DRIFT),  # an old leader may stop the task because of the update
        (DRIFT, [], {}, False, DRIFT),  # the watcher reports the change at once
        (f"{LATE} drift=0a1b2c3d", TASK, {"health_now": True}, True, LATE),
        ("ok", TASK, {"health_now": True}, False, "ok"),
    ],
)
def test_managers_learn_of_a_repair(tmp_path, said, tasks, options, reloads, shows):
    it = watched(tmp_path)
    it.converge()
    assert it.channel.write(said) is None
    it.put("runtime_config", it.content("runtime_config").replace(b"swarm-resource", b"#swarm-resource"))
    it.engine.carries = tasks
    result = it.option(**options).converge()
    assert (result["changed"], result["restarted"], result["reloaded"]) == (True, False, reloads)
    assert shown(it) == [f"fleet.gpu-swarm.health={shows}"]
    assert it.converge()["changed"] is False


@pytest.mark.parametrize(("tasks", "options", "shows"), [([], {}, "ok"), (TASK, {"health_now": True}, "ok"), (TASK, {}, DRIFT)])
def test_a_repairing_reload_removes_the_drift(tmp_path, tasks, options, shows):
    it = watched(tmp_path)
    it.converge()
    assert it.channel.write(DRIFT) is None
    it.put("daemon_config", it.content().replace(b'"default-runtime": "nvidia"', b'"default-runtime": "runc"'))
    it.engine.reload()
    it.engine.carries = tasks
    result = it.option(**options).converge()
    assert (result["restarted"], result["reloaded"], shown(it)) == (False, True, [f"fleet.gpu-swarm.health={shows}"])
    assert it.converge()["changed"] is False


def test_nothing_is_reloaded_while_an_edit_of_a_user_waits(tmp_path):
    it = watched(tmp_path)
    it.converge()
    assert it.channel.write(DRIFT) is None
    it.put("runtime_config", it.content("runtime_config").replace(b"swarm-resource", b"#swarm-resource"))
    it.put("daemon_config", it.content().replace(b'"local"', b'"journald"'))
    it.engine.carries = TASK
    result = it.option(health_now=True).converge()
    assert (result["changed"], result["reloaded"], shown(it)) == (True, False, [f"fleet.gpu-swarm.health={DRIFT}"])


def test_what_the_watcher_reports_stays_without_a_decision(tmp_path):
    it = watched(tmp_path)
    it.converge()
    assert it.assess()["drift"] == []
    assert "other settings" in it.option(health_report="all").assess()["drift"][0]
    it.converge()
    assert it.option(health_report=None).assess()["drift"] == []
    assert "other settings" in it.option(health_report="faults").assess()["drift"][0]


def test_false_removes_the_watcher_by_a_reload(tmp_path):
    it = watched(tmp_path)
    it.converge()
    with_label = it.content()
    result = it.option(health=False).converge()
    assert (result["changed"], result["restarted"], shown(it)) == (True, False, [])
    assert it.engine.calls() == ["restart", "reload"]
    assert (b"labels" in with_label, b"labels" in it.content()) == (True, False)
    assert not unit(it).exists()
    assert not os.path.exists(it.watcher.home)
    assert it.converge()["changed"] is False
    # The loaded content is still known, so reverting needs no restart either.
    assert it.assess()["warnings"] == []
    result = it.option(health=True).converge()
    assert (result["restarted"], result["reloaded"], shown(it)) == (False, False, [])
    assert it.channel.write(FAULT) is None
    assert (it.content() != with_label, it.engine.calls().count("restart")) == (True, 1)


def test_only_this_collection_records_what_dockerd_has_loaded(tmp_path):
    it = watched(tmp_path)
    it.converge()
    entry = it.state.record()[it.params["daemon_config"]]
    assert entry["loaded"]["sha256"] == entry["written"]
    it.put("daemon_config", it.content().replace(b'"local"', b'"journald"'))
    it.option(health=False).converge()  # dockerd has not loaded the file from which this removes the label
    assert "was changed after dockerd loaded it" in it.option(health=True).assess()["warnings"][-1]
    it.engine.start()
    it.option(allow_shrink=True, advertise=[{"as": "gpu", "kind": "GPU"}]).converge()
    assert it.channel.write(FAULT) is None


def test_changes_by_the_watcher_are_neither_drift_nor_edits(tmp_path):
    it = watched(tmp_path)
    before = it.everything()
    it.converge()
    assert it.channel.write(FAULT) is None
    assert shown(it) == ["fleet.gpu-swarm.health=" + FAULT]
    assert it.state_files() == ["cards.json", "health", "record.json"]
    result = it.converge()
    assert (result["changed"], result["drift"]) == (False, [])
    assert it.doc()["labels"] == ["fleet.gpu-swarm.health=" + FAULT]
    it.option(state="absent").converge()
    assert it.everything() == before


def test_labels_of_others_stay(tmp_path):
    it = watched(tmp_path, daemon=b'{"labels": ["rack=r1"]}')
    it.converge()
    assert it.doc()["labels"] == ["rack=r1", OK]
    it.put("daemon_config", it.content().replace(b'"rack=r1"', b'"rack=r2", "row=1"'))
    it.engine.start()
    it.option(health=False).converge()
    assert (it.doc()["labels"], shown(it)[:2]) == (["rack=r2", "row=1"], ["rack=r2", "row=1"])


def test_a_file_with_a_user_s_edit_stays_and_is_reported(tmp_path):
    it = watched(tmp_path)
    it.converge()
    edited = it.content().replace(b'"local"', b'"journald"')
    it.put("daemon_config", edited)
    assert "was changed after dockerd loaded it" in it.channel.write(FAULT)
    assert (it.content(), shown(it)) == (edited, [OK])
    result = it.assess()
    assert any("cannot be reported to the swarm's managers" in text for text in result["warnings"])
    assert result["drift"] == []


@pytest.mark.parametrize("broken", [b'{"labels": ', b"", b'{"labels": "rack=r1"}'])
def test_a_broken_file_stays(tmp_path, broken):
    it = watched(tmp_path)
    it.converge()
    it.put("daemon_config", broken)
    assert it.channel.write(FAULT)
    assert (it.content(), shown(it), it.state_files()) == (broken, [OK], ["cards.json", "health", "record.json"])


@pytest.mark.parametrize("flag", ["--label=rack=r1", "--authorization-plugin=opa", "--max-concurrent-downloads=9"])
def test_with_a_flag_that_a_reload_loses_there_is_no_label(tmp_path, flag):
    it = watched(tmp_path, running=False).unit(environment="DOCKER_OPTS=%s\n" % flag)
    result = it.converge()
    assert shown(it) == []
    assert "labels" not in it.doc()
    result = it.assess()
    assert any(flag.partition("=")[0] in text for text in result["warnings"])
    assert flag.partition("=")[0] in it.channel.write(FAULT)


def test_a_refused_reload_restores_the_file(tmp_path):
    it = watched(tmp_path)
    it.converge()
    before = it.content()
    it.engine.shows_nothing = True
    assert "its label" in it.channel.write(FAULT)
    assert (it.content(), it.state_files()) == (before, ["cards.json", "health", "record.json"])
    it.engine.shows_nothing = False
    assert it.channel.write(FAULT) is None
    entry = it.state.record()[it.params["daemon_config"]]
    assert entry["loaded"]["sha256"] == entry["written"]


def test_a_killed_run_is_finished_first(tmp_path):
    it = watched(tmp_path)
    it.converge()
    (tmp_path / "state" / "journal.json").write_text("{}")
    assert "a run that was killed" in it.channel.write(FAULT)


class Killed(BaseException):
    """Simulates SIGKILL: no handler of the code catches this exception."""


def kill(monkeypatch, it, where, after):
    """Kill the process at the next call of ``where``, before or after the call does its work. ``it`` is the node that the test changes."""
    owners = {"write_record": State, "close_journal": State, "open_journal": State, "write": channel._files, "reload": it.engine, "wait": it.engine}
    owner = owners[where]
    real = getattr(owner, where)

    def killed(*given, **named):
        if after:
            real(*given, **named)
        raise Killed

    monkeypatch.setattr(owner, where, killed)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("where", ["open_journal", "write", "reload", "wait", "write_record", "close_journal"])
def test_a_killed_writer_does_not_block_the_next_one(tmp_path, monkeypatch, where, after):
    it = watched(tmp_path)
    it.converge()
    before = it.content()
    with monkeypatch.context() as patched:
        if where == "write":  # only for daemon.json, because the journal of another module uses the same function
            real = channel._files.write

            def write(path, *given):
                if path != it.params["daemon_config"]:
                    return real(path, *given)
                if after:
                    real(path, *given)
                raise Killed

            patched.setattr(channel._files, "write", write)
        else:
            kill(patched, it, where, after)
        with pytest.raises(Killed):
            it.channel.write(FAULT)
    (tmp_path / "state" / ".gpu-swarm.journal.json.x1").write_text("{")  # a truncated write left this file
    config = Path(it.params["daemon_config"])
    (config.parent / ".gpu-swarm.daemon.json.x1").write_text("{")
    assert it.channel.write("warning reason=degraded") is None
    assert (shown(it), it.state_files()) == (["fleet.gpu-swarm.health=warning reason=degraded"], ["cards.json", "health", "record.json"])
    assert not list(config.parent.glob(".gpu-swarm.*"))
    assert it.converge()["changed"] is False
    assert it.channel.write("ok") is None
    assert it.content() == before
    it.option(state="absent").converge()
    assert it.content() == DAEMON_JSON


def test_a_writer_killed_while_it_reverts_is_continued(tmp_path, monkeypatch):
    it = watched(tmp_path)
    it.converge()
    it.engine.shows_nothing = True
    with monkeypatch.context() as patched:
        kill(patched, it, "write_record", False)
        with pytest.raises(Killed):
            it.channel.write(FAULT)
    it.engine.shows_nothing = False
    assert (it.channel.write(FAULT), shown(it)) == (None, ["fleet.gpu-swarm.health=" + FAULT])


def test_an_edit_after_a_killed_writer_stays_and_is_reported(tmp_path, monkeypatch):
    it = watched(tmp_path)
    it.converge()
    with monkeypatch.context() as patched:
        kill(patched, it, "reload", False)
        with pytest.raises(Killed):
            it.channel.write(FAULT)
    edited = it.content().replace(b'"log-driver"', b'"debug": true, "log-driver"')
    it.put("daemon_config", edited)
    assert "was changed after dockerd loaded it" in it.channel.write(FAULT)
    assert (it.content(), it.state_files()) == (edited, ["cards.json", "health", "record.json"])
    it.option(state="absent").converge()
    assert it.doc() == {**json.loads(DAEMON_JSON), "debug": True}


def test_a_busy_node_keeps_the_watcher_if_the_change_is_refused(tmp_path):
    it = watched(tmp_path)
    it.converge()
    it.engine.carries = [{"id": "4f66", "name": "train.1.x", "image": "cuda", "service": "train", "task": "x"}]
    with pytest.raises(GpuSwarmError, match="would stop 1 running"):
        it.option(state="absent").converge()
    assert unit(it).exists()
    assert shown(it) == [OK]


@pytest.mark.parametrize(
    ("part", "words"),
    [("settings.json", "other settings"), ("current", "not installed|of another version")],
)
def test_a_removed_watcher_is_drift(tmp_path, part, words):
    it = watched(tmp_path)
    it.converge()
    os.unlink(os.path.join(it.watcher.home, part))
    result = it.assess()
    assert len(result["drift"]) == 1
    assert it.converge()["changed"]
    assert it.assess()["drift"] == []


def test_an_existing_fault_is_warned_of(tmp_path):
    it = watched(tmp_path)
    it.converge()
    assert it.assess()["warnings"] == []
    status = tmp_path / "run/gpu-swarm/health.json"
    status.write_text(json.dumps({"pid": os.getpid(), "label": FAULT, "blocked": None, "reasons": []}))
    assert any("reports 'fault xid=79'" in text for text in it.assess()["warnings"])
    health = it.assess()["health"]
    assert (health["label"], health["shown"]) == (FAULT, "ok")


def test_a_stopped_watcher_is_drift_and_is_started(tmp_path):
    it = watched(tmp_path)
    it.converge()
    it._command(["systemctl", "stop", watcher.UNIT])
    assert it.assess()["drift"] == ["the watcher of the GPUs is not running"]
    assert it.converge()["restarted"] is False
    assert it.assess()["drift"] == []


def test_a_new_setting_is_drift(tmp_path):
    it = watched(tmp_path)
    it.converge()
    assert "other settings" in it.option(health_faults=[79, 95]).assess()["drift"][0]
    it.converge()
    with open(os.path.join(it.watcher.home, "settings.json"), encoding="utf-8") as stream:
        assert json.load(stream)["health_faults"] == [79, 95]


@pytest.mark.parametrize("options", [{"advertise": []}, {"restart": "never"}])
def test_a_node_without_gpus_or_restarts_has_none(tmp_path, options):
    it = watched(tmp_path, **options)
    assert not it.assess()["watcher_missing"]
    it.converge()
    assert not unit(it).exists()
    assert b"labels" not in (it.content() or b"")


def test_without_restarts_the_watcher_stays_unchanged(tmp_path):
    it = watched(tmp_path)
    it.converge()
    it.gpus = [gpu(0), gpu(1), gpu(2)]
    it.option(restart="never").converge()
    assert unit(it).exists()
    assert it.doc()["labels"] == [OK]
    it.option(restart="if_needed", state="absent").converge()
    assert it.content() == DAEMON_JSON


def test_the_watcher_is_removed_even_if_nothing_may_be_restarted(tmp_path):
    """For example, deprovision after someone removed Docker Engine."""
    it = watched(tmp_path)
    it.converge()
    it.option(restart="never", state="absent").converge()
    assert not unit(it).exists()
    assert not os.path.exists(it.watcher.home)


def test_a_watcher_that_does_not_stop_is_an_error_and_nothing_is_changed(tmp_path):
    it = watched(tmp_path)
    it.converge()
    before = it.everything()
    it.stuck = True
    with pytest.raises(GpuSwarmError, match=r"gpu-swarm-health.service did not stop: it hangs\. Nothing was changed"):
        it.option(health=False).converge()
    assert it.everything() == before


def test_its_removal_keeps_labels_of_others(tmp_path):
    it = watched(tmp_path, daemon=b'{"labels": ["rack=r1"]}')
    it.converge()
    assert it.option(health=False).converge()["changed"] is True
    assert (it.doc()["labels"], it.converge()["changed"]) == (["rack=r1"], False)


def test_watched_files_are_those_that_python_can_run(tmp_path):
    it = watched(tmp_path)
    it.converge()
    code = tmp_path / "state" / "health" / "current"
    assert (code / "gpu_swarm" / "_watch" / "watch_loop.py").exists()
    assert not (code / "gpu_swarm" / "_ledger").exists()
