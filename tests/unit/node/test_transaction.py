# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json
import os
import re
import stat

import pytest
from node_lab import CONFIG_TOML, DAEMON_JSON, gpu, node, resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _files
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.engine import EngineError, swarm_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import node as gpu_node
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import transaction

BUSY = {"id": "4f66", "name": "train.1.x", "image": "cuda", "service": "train", "task": "x"}
CONVERGED = ["NVIDIA-GPU=GPU-00000000-1111-2222-3333-444444444444", "NVIDIA-GPU=GPU-00000001-1111-2222-3333-444444444444", "SSD=1"]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)


# --- success ----------------------------------------------------------------------------------------------------------


def test_the_first_run_changes_the_second_does_not_and_absent_restores(tmp_path):
    it = node(tmp_path)
    before = it.everything()
    result = it.converge()
    assert (result["changed"], result["restarted"], result["reloaded"]) == (True, True, False)
    assert it.shown() == CONVERGED
    assert it.engine.inspect()["default_runtime"] == "nvidia"
    assert it.state_files() == ["cards.json", "record.json"]
    after = it.everything()
    assert b'swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"' in it.content("runtime_config")

    result = it.converge()
    assert (result["changed"], result["restarted"], result["drift"], result["diff"]) == (False, False, [], [])
    assert it.everything() == after
    assert it.engine.calls() == ["restart"]

    result = it.option(state="absent").converge()
    assert (result["changed"], result["restarted"]) == (True, True)
    assert it.everything() == before
    assert it.shown() == ["SSD=1"]
    assert it.state_files() == []

    assert it.converge()["changed"] is False
    assert it.engine.calls() == ["restart", "restart"]


def test_check_mode_reports_the_same_and_touches_nothing(tmp_path):
    it = node(tmp_path)
    before = it.everything()
    assessed = it.assess()
    assert it.everything() == before
    assert not os.path.exists(it.params["state_dir"])
    assert it.engine.calls() == []
    done = it.converge()
    for key in ("changed", "diff", "drift", "resources", "swarm_resource", "labels", "restart_required"):
        assert assessed[key] == done[key], key


def test_a_file_that_did_not_exist_is_removed_again(tmp_path):
    it = node(tmp_path, daemon=None)
    it.converge()
    assert stat.S_IMODE(os.stat(it.params["daemon_config"]).st_mode) == 0o644
    it.option(state="absent").converge()
    assert it.content() is None


def test_a_different_default_runtime_alone_needs_a_reload(tmp_path):
    text = json.dumps({"node-generic-resources": resources(0, 1), "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})
    it = node(tmp_path, daemon=text.encode(), drain_timeout=7)
    it.engine.carries = [BUSY]  # a reload is harmless for containers, so the run does not wait for them
    result = it.converge()
    assert (result["restarted"], result["reloaded"], it.engine.calls()) == (False, True, ["reload"])


def test_right_files_under_an_old_process_need_a_restart(tmp_path):
    it = node(tmp_path, restart="never")
    it.converge()
    assert it.engine.calls() == []
    written = it.everything()
    result = it.option(restart="if_needed").converge()
    assert (result["changed"], result["restarted"], result["diff"]) == (True, True, [])
    assert {path: one for path, one in it.everything().items() if "gpu-swarm-devices" not in path} == written
    assert it.shown() == CONVERGED


def test_a_stopped_daemon_is_started(tmp_path):
    it = node(tmp_path)
    it.converge()
    it.engine.stop()
    assert "dockerd is not running" in it.assess()["drift"]
    assert it.converge()["restarted"] is True
    assert it.converge()["changed"] is False


def test_a_symbolic_link_stays_a_link(tmp_path):
    it = node(tmp_path, daemon=None)
    real = tmp_path / "site" / "daemon.json"
    real.parent.mkdir()
    real.write_bytes(DAEMON_JSON)
    os.makedirs(os.path.dirname(it.params["daemon_config"]))
    os.symlink(real, it.params["daemon_config"])
    it.engine.start()
    it.converge()
    assert os.path.islink(it.params["daemon_config"])
    assert b"NVIDIA-GPU" in real.read_bytes()
    it.option(state="absent").converge()
    assert os.path.islink(it.params["daemon_config"])
    assert real.read_bytes() == DAEMON_JSON


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_mode_and_owner_stay(tmp_path, mode):
    it = node(tmp_path)
    os.chmod(it.params["daemon_config"], mode)
    if os.geteuid() == 0:
        os.chown(it.params["daemon_config"], 12, 34)
    before = it.everything()
    it.converge()
    path = it.params["daemon_config"]
    assert it.everything()[path][1:] == before[path][1:]
    it.option(state="absent").converge()
    assert it.everything() == before


def test_an_edit_stays_when_the_change_is_removed(tmp_path):
    it = node(tmp_path)
    it.converge()
    it.put("daemon_config", it.content().replace(b'"local"', b'"journald"'))
    it.put("runtime_config", it.content("runtime_config") + b"[mine]\nx = 1\n")
    it.option(state="absent").converge()
    assert it.content() == DAEMON_JSON.replace(b'"local"', b'"journald"')
    assert it.content("runtime_config") == CONFIG_TOML + b"[mine]\nx = 1\n"


def test_a_file_restored_by_hand_is_not_restored_again(tmp_path):
    original = json.dumps({"node-generic-resources": ["NVIDIA-GPU=GPU-short"]}).encode()
    it = node(tmp_path, daemon=original)
    it.converge()
    it.put("daemon_config", original)
    it.option(state="absent").converge()
    assert it.content() == original


def test_other_gpus_are_advertised_and_the_former_ones_again(tmp_path):
    it = node(tmp_path)
    before = it.everything()
    it.converge()
    it.gpus = [gpu(0), gpu(1, "failed")]
    there = it.everything()
    with pytest.raises(GpuSwarmError, match="less than before: GPU 1 .* GPU is lost.*'expect: 1'"):
        it.converge()
    assert it.everything() == there
    assert it.option(expect=1).converge()["warnings"] == [
        "GPU 1 (NVIDIA-H100-80GB-HBM3, GPU-00000001-1111-2222-3333-444444444444) is not advertised: GPU is lost"
    ]
    assert it.shown() == [*resources(0), "SSD=1"]
    it.option(state="absent").converge()
    assert it.everything() == before


def test_an_empty_policy_restores_what_was_changed(tmp_path):
    it = node(tmp_path)
    assert it.option(advertise=[]).converge()["changed"] is False
    it.option(advertise=[{"as": "gpu", "kind": "NVIDIA-GPU"}]).converge()
    with pytest.raises(GpuSwarmError, match=f"less than before: no rule is left for {resources(0)[0].partition('=')[2]}.*allow_shrink"):
        it.option(advertise=[]).converge()
    assert it.shown() == CONVERGED
    it.option(allow_shrink=True).converge()
    assert it.shown() == ["SSD=1"]
    assert it.option(allow_shrink=False).assess()["refused"] == []  # the user has already consented to fewer GPUs
    assert b"\nswarm-resource" not in it.content("runtime_config")
    it.option(state="absent").converge()
    assert it.content() == DAEMON_JSON
    assert it.content("runtime_config") == CONFIG_TOML


# --- flags that users gave to dockerd -----------------------------------------------------------------------------------

ARTICLE = """\
[Service]
ExecStart=
ExecStart=/usr/bin/dockerd -H fdd:// --default-runtime=nvidia --node-generic-resource gpu=GPU-00000000
"""
OPTIONS = 'DOCKER_OPTS="--node-generic-resource SSD=1 --log-level=warn --node-generic-resource NVIDIA-GPU=GPU-00000000"\n'
DROP_IN, DEFAULTS = "docker.service.d/override.conf", "etc/default/docker"


def test_a_recipe_of_flags_is_taken_over_with_one_restart_and_restored(tmp_path):
    it = node(tmp_path).unit(ARTICLE * 2, loaded=False)
    before = it.everything()
    assessed = it.assess()
    assert it.everything() == before
    adopted = ("-H fdd:// is a misprint", "moved from here to daemon.json", "was removed, because it contained nothing else")
    assert [words in assessed["adopted"][place] for place, words in enumerate(adopted)] == [True, True, True]
    assert not set(assessed["adopted"]) & set(assessed["warnings"])
    assert DROP_IN in "".join(diff["before_header"] for diff in assessed["diff"])
    done = it.converge()
    assert (done["restarted"], it.engine.calls()) == (True, ["restart"])
    assert done["adopted"] == assessed["adopted"]
    assert set(done["adopted"]) <= set(done["warnings"])
    assert not [path for path in it.everything() if path.endswith(".conf")]
    assert it.doc()["node-generic-resources"] == ["SSD=1", *resources(0, 1)]  # gpu=… is removed, because it named a GPU of this node
    assert "--default-runtime=nvidia" not in it.engine.inspect()["flags"]
    again = it.converge()
    assert (again["changed"], again["drift"], again["adopted"]) == (False, [], [])
    back = it.option(state="absent").converge()
    assert it.everything() == before
    # The former file is back: dockerd cannot start with this file, and systemd has not read it.
    assert it.engine.needs_reload() is True
    assert "override.conf: this file is restored, but dockerd runs without it" in "".join(back["warnings"])


def test_flags_of_others_move_to_the_file_and_back(tmp_path):
    it = node(tmp_path, daemon=b"{}").unit(environment=OPTIONS)
    before = it.everything()
    assert it.converge()["restarted"] is True
    assert (tmp_path / DEFAULTS).read_text() == 'DOCKER_OPTS="--log-level=warn"\n'
    assert it.doc()["node-generic-resources"] == ["SSD=1", *resources(0, 1)]
    assert it.shown() == [*resources(0, 1), "SSD=1"]
    # If someone removes a value from daemon.json later, the run does not restore the value.
    it.put("daemon_config", it.content().replace(b'"SSD=1",', b""))
    it.converge()
    assert it.doc()["node-generic-resources"] == resources(0, 1)
    it.option(state="absent").converge()
    assert (tmp_path / DEFAULTS).read_text() == before[str(tmp_path / DEFAULTS)][0].decode()


def test_flags_in_a_file_that_somebody_edited_since_are_restored_beside_the_edit(tmp_path):
    it = node(tmp_path, daemon=b"{}").unit(environment=OPTIONS)
    it.converge()
    (tmp_path / DEFAULTS).write_text('# mine\nDOCKER_OPTS="--log-level=debug"\n')
    it.option(state="absent").converge()
    assert (tmp_path / DEFAULTS).read_text() == (
        '# mine\nDOCKER_OPTS="--log-level=debug --node-generic-resource=SSD=1 --node-generic-resource=NVIDIA-GPU=GPU-00000000"\n'
    )
    assert it.doc() == {}


def test_flags_that_no_longer_fit_are_reported(tmp_path):
    it = node(tmp_path, daemon=b"{}").unit(environment=OPTIONS)
    it.converge()
    (tmp_path / DEFAULTS).write_text("# nothing\n")
    done = it.option(state="absent").converge()
    assert "someone has edited this file, so --node-generic-resource=SSD=1, " in "".join(done["warnings"])
    assert it.engine.process()["running"]


def test_right_resources_by_flags_still_need_a_restart(tmp_path):
    flags = " ".join(f"--node-generic-resource {one}" for one in resources(0, 1))
    it = node(tmp_path, daemon=b"{}").unit(environment=f'DOCKER_OPTS="--default-runtime=nvidia {flags}"\n')
    assert it.shown() == resources(0, 1)
    assessed = it.assess()
    assert (assessed["restart_required"], bool(assessed["drift"])) == (True, True)
    it.engine.carries = [BUSY]
    with pytest.raises(GpuSwarmError, match="would stop 1 running container"):
        it.converge()


def test_a_flag_of_only_the_running_process_ends_with_it(tmp_path):
    it = node(tmp_path, daemon=b"{}").unit(environment='DOCKER_OPTS="--default-runtime=nvidia"\n')
    (tmp_path / DEFAULTS).write_text("# taken out by hand\n")
    assert it.converge()["restarted"] is True
    assert it.engine.inspect()["flags"] == ["-H", "fd://", "--containerd=/run/containerd/containerd.sock"]


@pytest.mark.parametrize(
    ("drop_in", "words"),
    [
        ("[Service]\nExecStart=\nExecStart=/usr/sbin/dockerd --node-generic-resource gpu=${GPU}\n", "--node-generic-resource=gpu=${GPU}"),
        ("[Service]\nExecStart=\nExecStart=/usr/sbin/dockerd --node-generic-resource SSD\n", "--node-generic-resource: "),
    ],
)
def test_flags_that_cannot_be_taken_over_are_an_error_that_names_them(tmp_path, drop_in, words):
    it = node(tmp_path)
    it.engine._drop_ins.mkdir(parents=True)
    (it.engine._drop_ins / "override.conf").write_text(drop_in)
    before = it.everything()
    with pytest.raises(GpuSwarmError) as raised:
        it.converge()
    assert words in raised.value.message
    assert it.everything() == before


def test_without_restarts_only_files_are_adopted(tmp_path):
    it = node(tmp_path).unit(ARTICLE, loaded=False)
    done = it.option(restart="never").converge()
    assert (done["restarted"], it.engine.calls(), it.engine.needs_reload()) == (False, [], False)
    assert it.option(restart="if_needed").converge()["restarted"] is True


def test_a_drop_in_is_restored_with_its_mode_and_owner(tmp_path):
    it = node(tmp_path, daemon=b"{}").unit("[Service]\nExecStart=\nExecStart=/usr/sbin/dockerd -H fd:// --default-runtime=nvidia\n")
    drop_in = it.engine._drop_ins / "override.conf"
    drop_in.chmod(0o640)
    os.chown(drop_in, 12, 34)
    before = it.everything()
    it.converge()
    assert not drop_in.exists()
    it.option(state="absent").converge()
    assert it.everything() == before


@pytest.fixture
def read_by_systemd(tmp_path):
    """Simulate 'systemctl daemon-reload' and 'systemctl start' of a recipe. 'systemctl start' does not change a running daemon."""
    it = node(tmp_path, daemon=b"{}").unit(ARTICLE + "GPU-00000001\n", loaded=False)
    it.engine.daemon_reload()
    return it


def test_a_drop_in_that_dockerd_never_used_is_restored_without_using_it(read_by_systemd):
    before = read_by_systemd.everything()
    read_by_systemd.converge()
    read_by_systemd.option(state="absent").converge()
    assert read_by_systemd.everything() == before
    assert read_by_systemd.engine.inspect()["running"]


def test_nor_is_it_used_when_a_failure_is_reverted(read_by_systemd):
    before = read_by_systemd.everything()
    read_by_systemd.engine.refuses = "unable to configure"
    with pytest.raises(GpuSwarmError, match="runs with them again"):
        read_by_systemd.converge()
    assert read_by_systemd.everything() == before
    assert read_by_systemd.engine.inspect()["running"]


# --- originals --------------------------------------------------------------------------------------------------------


def test_every_file_that_is_changed_has_one_dated_backup(tmp_path):
    it = node(tmp_path).unit(ARTICLE, loaded=False)
    os.chmod(it.params["daemon_config"], 0o640)
    done = it.converge()
    config, toml, drop_in = it.params["daemon_config"], it.params["runtime_config"], str(it.engine._drop_ins / "override.conf")
    assert it.backups() == {config: DAEMON_JSON, toml: CONFIG_TOML, drop_in: ARTICLE.encode()}
    assert sorted(done["backups"]) == sorted([config, toml, drop_in])
    for path, backup in done["backups"].items():
        assert re.fullmatch(re.escape(str(tmp_path / "state" / "backup") + path) + r"\.\d{8}T\d{6}Z", backup)
    assert stat.S_IMODE(os.stat(done["backups"][config]).st_mode) == 0o640
    it.gpus = [gpu(0), gpu(1), gpu(2)]
    assert it.converge()["backups"] == done["backups"]
    assert it.assess()["backups"] == done["backups"]
    it.option(state="absent").converge()
    assert it.backups() == {}


def test_the_backup_of_an_edited_file_stays(tmp_path):
    it = node(tmp_path)
    it.converge()
    it.put("daemon_config", it.content().replace(b'"local"', b'"journald"'))
    it.option(state="absent").converge()
    assert it.backups() == {it.params["daemon_config"]: DAEMON_JSON}


def test_a_new_file_has_no_backup_and_a_failed_change_leaves_none(tmp_path):
    it = node(tmp_path, daemon=None)
    assert list(it.converge()["backups"]) == [it.params["runtime_config"]]
    other = node(tmp_path / "other")
    other.engine.refuses = "unable to configure"
    with pytest.raises(GpuSwarmError):
        other.converge()
    assert other.backups() == {}


# --- refusals ---------------------------------------------------------------------------------------------------------


def busy(it):
    it.engine.carries = [BUSY, dict(BUSY, name="by-hand", service=None)]


def no_toolkit(it):
    it.toolkit = None
    os.unlink(it.params["runtime_config"])


def no_engine(it):
    it.engine.inspect = lambda: None


def complaint(it):
    it.engine.complains = "unable to configure the Docker daemon with file %s: directive x" % (
        os.path.join(it.params["state_dir"], "candidate.json")
    )


def live_restore(it):
    it.put("daemon_config", b'{"live-restore": true}')


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (busy, ["2 running container(s): train, by-hand", "when_busy: restart"]),
        (no_toolkit, ["NVIDIA Container Toolkit is not installed", "config.toml", "fleet.gpu_swarm.nvidia_container_toolkit"]),
        (no_engine, ["Docker Engine is not installed", "docker.service", "restart: never"]),
        (complaint, ["etc/docker/daemon.json: dockerd would not start", "directive x", "Nothing was changed"]),
        (live_restore, ["live-restore is true", "Remove the key"]),
    ],
)
def test_refused_before_anything_is_written(tmp_path, trouble, words):
    it = node(tmp_path)
    trouble(it)
    before = it.everything()
    with pytest.raises(GpuSwarmError) as raised:
        it.converge()
    for word in words:
        assert word in raised.value.message
    assert "candidate.json" not in raised.value.message
    assert it.everything() == before
    assert it.engine.calls() == []
    assert it.state_files() == []


def test_only_a_restart_waits_for_a_drain(tmp_path):
    it, waited = node(tmp_path, drain_timeout=7), []
    it.engine.carries = [BUSY]

    def drained(timeout_s):
        waited.append(timeout_s)
        it.engine.carries = []
        it.put("daemon_config", b'{"log-driver": "local"}')  # someone edits the file meanwhile

    it.engine.drained = drained
    assert it.assess()["restart_required"]
    assert waited == []
    assert it.converge()["restarted"]
    assert waited == [7]
    assert it.doc()["log-driver"] == "local"

    it.engine.carries = [BUSY]
    assert not it.converge()["restarted"]  # nothing has to change
    it.option(restart="never", advertise=[], allow_shrink=True)
    it.converge()
    assert waited == [7]


@pytest.mark.parametrize("edits", [False, True])
def test_dockerd_validates_its_file_during_a_drain_and_again_after_an_edit(tmp_path, edits):
    it, before = node(tmp_path, drain_timeout=7), []
    it.engine.carries = [BUSY]

    def drained(_timeout_s):
        before.extend(it.engine.validated)
        it.engine.carries = []
        if edits:
            it.put("daemon_config", b'{"log-driver": "local"}')

    it.engine.drained = drained
    it.converge()
    assert len(before) == 1
    assert it.engine.validated == ([*before, it.doc()] if edits else before)
    assert it.doc() == it.engine.validated[-1]


@pytest.mark.parametrize(("recent_s", "advertised"), [(60.0, 2), (0.0, 1)])
def test_after_a_long_drain_the_gpus_are_read_again(tmp_path, monkeypatch, recent_s, advertised):
    monkeypatch.setattr(gpu_node, "RECENT_S", recent_s)
    it = node(tmp_path, drain_timeout=7)
    it.engine.carries = [BUSY]

    def drained(_timeout_s):
        it.engine.carries = []
        it.gpus = it.gpus[:1]

    it.engine.drained = drained
    result = it.converge()
    assert (len(result["gpus"]), result["containers"]) == (advertised, [])
    assert it.shown() == [*CONVERGED[:advertised], "SSD=1"]


def test_a_drop_in_that_appeared_during_the_drain_costs_no_second_restart(tmp_path):
    it = node(tmp_path, drain_timeout=7).unit()
    it.engine.carries = [BUSY]

    def drained(_timeout_s):
        it.engine.carries = []
        drop_in = it.engine._drop_ins / "mine.conf"
        drop_in.parent.mkdir(parents=True, exist_ok=True)
        drop_in.write_text("[Service]\nExecStart=\nExecStart=/usr/bin/dockerd -H fd:// --default-runtime=nvidia\n")

    it.engine.drained = drained
    it.converge()
    assert (it.engine.calls(), it.shown()) == (["restart"], CONVERGED)


def test_a_daemon_that_died_during_the_drain_is_started(tmp_path):
    it = node(tmp_path, drain_timeout=7)
    it.engine.carries = [BUSY]

    def drained(_timeout_s):
        it.engine.stop()
        it.engine.containers = dead

    def dead():
        raise EngineError("nothing answers any more")

    it.engine.drained = drained
    result = it.converge()
    assert (result["restarted"], result["containers"], it.shown()) == (True, [], CONVERGED)


def test_an_invalid_file_is_refused_before_the_drain(tmp_path):
    it = node(tmp_path, drain_timeout=7)
    it.engine.carries, it.engine.complains = [BUSY], "directive x"
    with pytest.raises(GpuSwarmError, match=r"dockerd would not start .* directive x. Nothing was changed"):
        it.converge()
    assert it.engine.calls() == []


def test_containers_that_a_drain_did_not_end_are_reported_with_the_remedy(tmp_path):
    it = node(tmp_path, drain_timeout=7)
    it.engine.drained = lambda _timeout_s: None
    busy(it)
    with pytest.raises(GpuSwarmError, match=r"train, by-hand. They did not end within 7 s .* stop_grace_period.*provision_drain_timeout"):
        it.converge()
    it.engine.carries = it.engine.carries[1:]  # only containers that were started by hand remain, and a drain does not end such containers
    with pytest.raises(GpuSwarmError, match=r"by-hand. Let them finish or drain the node, then"):
        it.converge()


BY_HAND = dict(BUSY, name="by-hand", service=None)


def arrives_late(it, *later):
    """Let dockerd show no containers at the first inspection, and ``later`` at the next inspections."""
    shown = iter([[], *later])
    it.engine.containers = lambda: next(shown)


def test_a_container_that_came_after_the_inspection_is_not_stopped(tmp_path):
    it = node(tmp_path)
    before = it.everything()
    arrives_late(it, [BY_HAND])
    with pytest.raises(GpuSwarmError, match=r"stop 1 running container\(s\): by-hand\. .*The files were restored\.") as raised:
        it.converge()
    assert raised.value.details == {"busy": [BY_HAND], "came": [BY_HAND], "restored": True}
    assert it.facts["containers"] == [BY_HAND]
    assert (it.everything(), it.engine.calls(), it.state_files()) == (before, [], [])
    arrives_late(it, [])
    assert it.converge()["restarted"]


def test_nothing_is_inspected_again_without_need(tmp_path):
    it = node(tmp_path, when_busy="restart")
    arrives_late(it)  # with consent there is no second inspection
    assert it.converge()["restarted"]
    it.engine.stop()  # a stopped daemon runs no containers
    it.option(when_busy="refuse").engine.containers = None
    assert it.converge()["restarted"]


def test_a_daemon_that_cannot_be_inspected_again_is_not_restarted(tmp_path):
    it = node(tmp_path)
    before, answers = it.everything(), iter([[]])

    def containers():
        for answer in answers:
            return answer
        raise EngineError("the daemon hangs")

    it.engine.containers = containers
    with pytest.raises(GpuSwarmError, match="the daemon hangs. The files were restored"):
        it.converge()
    assert (it.everything(), it.engine.calls()) == (before, [])


def active(it):
    member = dict(swarm_of({}), state="active", node_id="vt5h9cpc9198oweazjzwntv63", control_available=True)
    real = it.engine.inspect
    it.engine.inspect = lambda: dict(real(), swarm=member, flags=["--http-proxy=http://me:secret@proxy"], unit_flags=["-H", "fd://"])
    return member


def no_driver(it):
    def fails(_missing):
        raise GpuSwarmError("NVML: Driver Not Loaded.")

    it._read_gpus = fails


@pytest.mark.parametrize("trouble", [busy, no_toolkit, complaint, live_restore, no_driver])
def test_a_fault_of_a_node_does_not_hide_its_swarm(tmp_path, trouble):
    it = node(tmp_path)
    member = active(it)
    trouble(it)
    assert it.facts == {}
    with pytest.raises(GpuSwarmError):
        it.converge()
    assert it.facts["swarm"] == member
    assert (it.facts["engine"]["running"], it.facts["containers"]) == (True, it.engine.carries)
    assert "secret" not in json.dumps(it.facts)


def test_the_flags_of_the_daemon_are_not_returned(tmp_path):
    it = node(tmp_path)
    active(it)
    assert "secret" not in json.dumps(it.assess())


def test_a_diff_is_made_only_on_request(tmp_path):
    it = node(tmp_path)
    assert len(it.assess()["diff"]) == 2
    it.diff = False
    assert "diff" not in it.assess()


def test_libraries_that_were_sent_are_reported(tmp_path, monkeypatch):
    it = node(tmp_path)
    monkeypatch.setattr(gpu_node._libraries, "is_from_controller", lambda name, path: name == "tomli")
    assert it.assess()["missing"] == ["toml_parser"]


def test_with_consent_containers_are_stopped(tmp_path):
    it = node(tmp_path, when_busy="restart")
    busy(it)
    assert it.converge()["restarted"] is True


def test_without_an_engine_only_files_are_written(tmp_path):
    it = node(tmp_path, restart="never")
    no_engine(it)
    result = it.converge()
    assert (result["changed"], result["restarted"], result["missing"][0]) == (True, False, "engine")
    assert it.doc()["default-runtime"] == "nvidia"
    assert it.converge()["changed"] is False


# --- failures half-way ------------------------------------------------------------------------------------------------


def refuses(it):
    it.engine.refuses = "unable to configure the Docker daemon with file x: invalid character '1'"


def hangs(it):
    it.engine.hangs = True


def shows_nothing(it):
    it.engine.shows_nothing = True


@pytest.mark.parametrize("existed", [True, False])
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (refuses, "docker.service did not start: unable to configure the Docker daemon with file x: invalid character '1'."),
        (hangs, "docker.service is not in the wanted state after 0 s: it does not answer on"),
        (shows_nothing, "docker.service is not in the wanted state after 0 s: it shows no generic resources, not NVIDIA-GPU="),
    ],
)
def test_a_failed_change_is_reverted(tmp_path, trouble, words, existed):
    it = node(tmp_path, daemon=DAEMON_JSON if existed else None)
    if existed:
        os.chmod(it.params["daemon_config"], 0o600)
    before, shown = it.everything(), it.shown()
    trouble(it)
    with pytest.raises(GpuSwarmError) as raised:
        it.converge()
    assert words in raised.value.message
    assert raised.value.message.endswith(
        "The files were restored and docker.service runs with them again. Fix the cause and run this again."
    )
    assert ".." not in raised.value.message
    assert it.everything() == before
    assert it.engine.inspect()["running"]
    assert it.shown() == shown
    assert it.engine.calls() == ["restart", "restart"]
    assert it.state_files() == []


def test_a_failed_removal_is_reverted(tmp_path):
    it = node(tmp_path, daemon=None)
    it.converge()
    mode = 0o640
    os.chmod(it.params["daemon_config"], mode)
    before = it.everything()
    failing = iter([GpuSwarmError("docker.service did not start: no reason given"), None])

    def restart(_reread, _limit_s):
        problem = next(failing)
        it.engine.start("restart")
        if problem:
            raise problem

    it.engine.restart = restart
    with pytest.raises(GpuSwarmError, match="no reason given. The files were restored"):
        it.option(state="absent").converge()
    assert it.everything() == before
    assert it.shown() == resources(0, 1)
    assert it.state_files() == ["cards.json", "record.json"]


def test_a_failed_reload_never_becomes_a_restart(tmp_path):
    text = json.dumps({"node-generic-resources": resources(0, 1), "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})
    it = node(tmp_path, daemon=text.encode())
    it.engine.carries = [BUSY]
    before = it.everything()
    it.engine.shows_nothing = True
    with pytest.raises(GpuSwarmError, match="its default runtime is runc"):
        it.converge()
    assert it.everything() == before
    assert set(it.engine.calls()) == {"reload"}


def test_a_daemon_that_was_down_does_not_count_as_failed(tmp_path):
    it = node(tmp_path, running=False)
    refuses(it)
    before = it.everything()
    with pytest.raises(GpuSwarmError, match="invalid character '1'. The files were restored. Fix the cause"):
        it.converge()
    assert it.everything() == before


def test_if_reverting_fails_both_causes_are_reported_and_the_journal_stays(tmp_path):
    it = node(tmp_path)

    def restart(_reread, _limit_s):
        it.engine.stop()
        raise GpuSwarmError("docker.service did not start: start-limit-hit")

    it.engine.restart = restart
    before = it.everything()
    barred = "limit-hit. The files .* but docker.service does not run with them yet: .*limit.* run this again"
    with pytest.raises(GpuSwarmError, match=barred) as problem:
        it.converge()
    assert problem.value.details["restored"] is False
    assert it.everything() == before
    assert it.state_files() == ["journal.json"]
    del it.engine.restart
    it.converge()
    assert it.shown() == CONVERGED
    assert it.state_files() == ["cards.json", "record.json"]


def full(*_arguments, **_options):
    raise OSError(errno.ENOSPC, "No space left on device", "/x")


def test_a_full_disk_at_the_journal_changes_nothing(tmp_path, monkeypatch):
    it = node(tmp_path)
    before = it.everything()
    monkeypatch.setattr(it.state, "_write", full)
    with pytest.raises(GpuSwarmError, match="the journal of the change cannot be written: .*No space left.* Nothing was changed. Free some space"):
        it.converge()
    assert it.everything() == before
    assert it.engine.calls() == []


@pytest.mark.parametrize("nth", [0, 1])
def test_a_full_disk_at_a_file_needs_no_space_to_revert(tmp_path, monkeypatch, nth):
    it = node(tmp_path)
    before, real, written = it.everything(), _files.write, []

    def write(path, *arguments, **options):
        if path in (it.params["daemon_config"], it.params["runtime_config"]):
            written.append(path)
            if len(written) == nth + 1:
                full()
        return real(path, *arguments, **options)

    monkeypatch.setattr(_files, "write", write)
    with pytest.raises(GpuSwarmError, match="No space left on device.* The files were restored. Fix") as problem:
        it.converge()
    assert problem.value.details["restored"] is True
    assert it.everything() == before
    assert len(written) == nth + 1 + nth
    assert it.engine.calls() == []
    assert it.state_files() == []


def test_a_full_disk_during_reverting_is_reported_and_fixed_by_the_next_run(tmp_path, monkeypatch):
    it = node(tmp_path)
    before = it.everything()
    refuses(it)
    monkeypatch.setattr(transaction._files, "restore", full)
    with pytest.raises(GpuSwarmError, match="could not be restored: .*No space left.* Their contents are in .* Fix the problem and") as problem:
        it.converge()
    assert problem.value.details["restored"] is False
    monkeypatch.undo()
    it.engine.refuses = None
    it.converge()
    assert it.shown() == CONVERGED
    it.option(state="absent").converge()
    assert it.everything() == before


@pytest.mark.parametrize("problem", [SystemExit(1), Exception("Could not replace a with b")])
def test_any_error_of_atomic_move_is_reverted(tmp_path, problem):
    # Before ansible-core 2.19, atomic_move reports the error and exits. Since 2.19, atomic_move raises a bare Exception.
    it = node(tmp_path)
    before, real = it.everything(), it.move

    def move(source, target):
        if target == it.params["runtime_config"]:
            raise problem
        real(source, target)

    it.move = move
    with pytest.raises((SystemExit, GpuSwarmError)):
        it.converge()
    assert it.everything() == before
    assert it.state_files() == []
