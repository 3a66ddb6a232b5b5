# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from decisions import ADDED, DAEMON, FINISHED, RUNTIME, RUNTIME_BY_HAND, SET_BEFORE, absent, converged, on_record, params, seen
from node_lab import CONFIG_TOML, DAEMON_JSON, UUIDS, gpu, resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.decision import decide
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.journal import entry_after_write

NOTHING = None


# --- present --------------------------------------------------------------------------------------------------------


def test_a_fresh_node():
    decision = decide(params(), seen())
    doc = json.loads(decision.writes[DAEMON])
    assert sorted(doc["node-generic-resources"]) == [*resources(0, 1), "SSD=1"]
    assert (doc["default-runtime"], doc["runtimes"]) == ("nvidia", {"nvidia": {"path": "nvidia-container-runtime"}})
    assert b'\nswarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n' in decision.writes[RUNTIME]
    assert (decision.action, decision.restart, decision.changed) == ("restart", True, True)
    assert decision.drift == [
        f"2 GPUs not advertised as NVIDIA-GPU: {UUIDS[0]}, {UUIDS[1]}",
        "swarm-resource is not set, kinds are NVIDIA-GPU",
    ]
    assert decision.running.resources == [*resources(0, 1), "SSD=1"]
    assert [item["before_header"] for item in decision.diff] == [DAEMON, RUNTIME]
    assert decision.diff[0]["before"].encode() == DAEMON_JSON
    assert decision.advertisement["labels"]["gpu.count"] == "2"


@pytest.mark.parametrize("daemon", [DAEMON_JSON, NOTHING, RUNTIME_BY_HAND])
@pytest.mark.parametrize("toml", [CONFIG_TOML, SET_BEFORE])
def test_files_and_their_records_are_decided_together(daemon, toml):
    decision = decide(params(), seen(daemon, toml))
    assert decision.writes == {DAEMON: FINISHED[daemon], RUNTIME: FINISHED[toml]}
    assert decision.inserted == ADDED
    for path, before in ((DAEMON, daemon), (RUNTIME, toml)):
        assert entry_after_write(Snapshot(path, before, 0o644, 0, 0), ADDED[path], FINISHED[before], None) == on_record(path, before)


def test_a_finished_node_needs_nothing():
    decision = decide(params(), seen(**converged()))
    assert (decision.writes, decision.action, decision.restart, decision.changed) == ({}, None, False, False)
    assert (decision.drift, decision.diff, decision.warnings) == ([], [], [])


NVIDIA = {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}

# case -> (the difference on a finished node, the action on the daemon, the only drift)
DIFFERENT = {
    "an old process": (
        {"shown": ["SSD=1"]},
        "restart",
        f"2 GPUs not advertised as NVIDIA-GPU: {UUIDS[0]}, {UUIDS[1]}",
    ),
    "only the default runtime": ({"runtime": "runc"}, "reload", "the default runtime is runc, not nvidia"),
    "resources that others listed": (
        {"shown": resources(0, 1)},
        "restart",
        "SSD is absent in the running daemon, 1 in its configuration",
    ),
    "the daemon is down": ({"running": False}, "restart", "dockerd is not running"),
    "a shortened UUID": (
        {"shown": [*resources(0), "NVIDIA-GPU=GPU-00000001", "SSD=1"]},
        "restart",
        f"GPU-00000001 is advertised as NVIDIA-GPU, a shortened UUID of {UUIDS[1]}",
    ),
}


@pytest.mark.parametrize(("differs", "act", "drift"), DIFFERENT.values(), ids=DIFFERENT)
@pytest.mark.parametrize("restart", ["if_needed", "never"])
def test_right_files_and_a_different_daemon_need_a_restart(differs, act, drift, restart):
    decision = decide(params(restart=restart), seen(**converged(**differs)))
    assert (decision.writes, decision.action, decision.drift[0]) == ({}, act, drift)
    assert decision.restart == (act == "restart")
    assert decision.changed == (restart == "if_needed")


def test_different_files_and_a_right_daemon_are_written():
    finished = converged()
    finished["daemon"] = DAEMON_JSON
    decision = decide(params(), seen(**finished))
    assert list(decision.writes) == [DAEMON]
    assert (decision.action, decision.drift) == (None, [f"{DAEMON} differs from what was decided"])
    finished = converged(toml=SET_BEFORE)
    finished["toml"] = SET_BEFORE
    decision = decide(params(), seen(**finished))
    assert (list(decision.writes), decision.action) == ([RUNTIME], None)
    assert decision.drift == ["swarm-resource lists DOCKER_RESOURCE_GPU, kinds are NVIDIA-GPU"]


def test_a_node_without_an_engine_is_refused():
    decision = decide(params(restart="never"), seen(engine=False))
    assert (decision.action, decision.changed, sorted(decision.writes)) == (None, True, [DAEMON, RUNTIME])
    assert decision.drift[0].startswith("2 GPUs not advertised")


def test_a_node_may_have_no_toolkit_yet():
    decision = decide(params(), seen(toml=None, toolkit=None, missing=["toolkit"]))
    assert (list(decision.writes), decision.action, decision.changed) == ([DAEMON], "restart", True)


FOR_THE_USER = {
    "live-restore": ({"daemon": b'{"live-restore": true}'}, ["live-restore is true", "Remove the key"]),
    "nftables": ({"daemon": b'{"firewall-backend": "nftables"}'}, ["firewall-backend is nftables", "Set it to iptables, or remove it"]),
    "live-restore by flag": ({"flags": ["--live-restore"]}, ["--live-restore", "Remove the flag"]),
    "a default runtime by flag": (
        {"flags": ["-H", "fd://", "--default-runtime=nvidia"]},
        ["--default-runtime=nvidia", DAEMON, "Remove the flag from its unit"],
    ),
    "resources by flag": (
        {"flags": ["--node-generic-resource", "NVIDIA-GPU=GPU-1"]},
        ["--node-generic-resource=NVIDIA-GPU=GPU-1", "Remove the flag"],
    ),
    "another file": ({"flags": ["--config-file", "/opt/d.json"]}, ["dockerd reads /opt/d.json, not " + DAEMON, "daemon_config"]),
    "another file, with =": ({"flags": ["--config-file=/opt/d.json"]}, ["dockerd reads /opt/d.json"]),
    "a flag that was added to the unit later": (
        {"flags": ["-H", "fd://"], "unit_flags": ["-H", "fd://", "--default-runtime=runc"]},
        ["--default-runtime=runc", DAEMON, "Remove the flag from its unit"],
    ),
    "a file that was added to the unit later": ({"unit_flags": ["--config-file=/opt/d.json"]}, ["dockerd reads /opt/d.json"]),
    "a unit that systemd reads differently": ({"unit_problem": "/etc/x.conf: systemd read ExecStart"}, ["/etc/x.conf: systemd read ExecStart"]),
    "no config.toml": ({"toml": None}, [RUNTIME, "does not exist", "1.20.0", "nvidia-ctk config --in-place"]),
    "a list": ({"daemon": b"[]"}, [DAEMON, "a list", "Fix the file"]),
    "garbage at the end": ({"daemon": b"{} x"}, [DAEMON, "not JSON", "Fix the file"]),
    "runtimes is no object": ({"daemon": b'{"runtimes": []}'}, [DAEMON, "runtimes is a list", "an object"]),
    "a path twice": ({"daemon": b'{"runtimes": {"nvidia": {"path": "a", "path": "b"}}}'}, [DAEMON, "runtimes.nvidia.path occurs more than once"]),
    "resources are no list": ({"daemon": b'{"node-generic-resources": "GPU=1"}'}, [DAEMON, "is a string", "a list such as"]),
    "not TOML": ({"toml": b"a = = b"}, [RUNTIME, "not TOML", "Fix the file"]),
    "others' resources mixed": (
        {"daemon": b'{"node-generic-resources": ["FPGA=1", "FPGA=a"]}'},
        [DAEMON, "FPGA mixes a number"],
    ),
}


@pytest.mark.parametrize(("found", "words"), FOR_THE_USER.values(), ids=FOR_THE_USER)
def test_problems_that_only_the_user_can_fix_are_refused(found, words):
    with pytest.raises(GpuSwarmError) as raised:
        decide(params(), seen(**found))
    for word in words:
        assert word in raised.value.message


@pytest.mark.parametrize(("unit_flags", "hint"), [(["--live-restore"], False), (["$DOCKER_OPTS"], True)])
def test_flags_of_the_process_and_of_the_unit_are_reported_once(unit_flags, hint):
    with pytest.raises(GpuSwarmError) as raised:
        decide(params(), seen(flags=["--live-restore"], unit_flags=unit_flags))
    assert raised.value.message.count("--live-restore") == 1
    assert raised.value.message.endswith("If you have removed them since, restart the daemon.") is hint


@pytest.mark.parametrize("flags", [["--config-file", DAEMON], ["--config-file=" + DAEMON], ["-H", "fd://", "--add-runtime=x=y"]])
def test_harmless_flags_are_accepted(flags):
    assert decide(params(), seen(flags=flags)).action == "restart"


def test_a_kind_of_others_with_the_same_variable_is_taken_over():
    daemon = json.dumps({"node-generic-resources": ["nvidia-gpu=GPU-00000000", "SSD=1"]}).encode()
    decision = decide(params(), seen(daemon=daemon))
    assert sorted(json.loads(decision.writes[DAEMON])["node-generic-resources"]) == [*resources(0, 1), "SSD=1"]
    assert decision.warnings == [f"{DAEMON}: node-generic-resources listed 'nvidia-gpu=GPU-00000000', which the policy decides."]


# --- the policy -----------------------------------------------------------------------------------------------------


def test_an_empty_policy_leaves_an_untouched_node_alone():
    for daemon in (DAEMON_JSON, None, b'{"live-restore": true}'):
        decision = decide(params(advertise=[]), seen(daemon=daemon, toml=None, toolkit=None, gpus=[]))
        assert (decision.writes, decision.action, decision.changed, decision.drift) == ({}, None, False, [])


def test_an_empty_policy_takes_our_resources_from_a_node_that_had_them():
    assert [item["id"] for item in decide(params(advertise=[]), seen(gpus=[], **converged())).refused] == ["shrink"]
    decision = decide(params(advertise=[], allow_shrink=True), seen(gpus=[], **converged()))
    assert decision.refused == []
    assert json.loads(decision.writes[DAEMON])["node-generic-resources"] == ["SSD=1"]
    assert b"\nswarm-resource" not in decision.writes[RUNTIME]
    assert (decision.action, decision.inserted[DAEMON]) == ("restart", {"resources": [], "kinds": []})


@pytest.mark.parametrize(("on_loss", "refused"), [(None, ["shrink"]), ("pause", ["shrink"]), ("report", ["shrink"]), ("shrink", [])])
def test_only_one_setting_for_lost_cards_is_consent(on_loss, refused):
    assert [item["id"] for item in decide(params(on_loss=on_loss), seen(gpus=[gpu(0)], **converged())).refused] == refused


def test_gpus_that_all_failed_do_not_stay_advertised_by_hand():
    daemon = json.dumps(dict(NVIDIA, **{"node-generic-resources": resources(0, 1)})).encode()
    failed = [gpu(0, "failed"), gpu(1, "failed")]
    decision = decide(params(), seen(daemon=daemon, gpus=failed, shown=resources(0, 1), runtime="nvidia"))
    assert json.loads(decision.writes[DAEMON]).get("node-generic-resources", []) == []
    assert decision.action == "restart"
    assert [item["reason"] for item in decision.advertisement["left_out"]] == ["GPU is lost"] * 2
    assert decision.advertisement["labels"] == {}


def test_unset_options_of_ansible_do_not_count():
    unset = {"uuid": None, "pci_bus_id": None, "index": [1], "model": None, "min_memory_mib": None}
    decision = decide(params(advertise=[{"as": "gpu", "kind": "NVIDIA-GPU", "select": unset}]), seen())
    assert decision.advertisement["resources"] == resources(1)
    decision = decide(params(advertise=[{"as": "gpu", "kind": None, "select": None}]), seen())
    assert decision.advertisement["resources"] == resources(0, 1)


# --- absent ---------------------------------------------------------------------------------------------------------


def test_absent_restores_the_original_bytes():
    decision = absent(**converged())
    assert decision.writes == {DAEMON: DAEMON_JSON, RUNTIME: CONFIG_TOML}
    assert (decision.action, decision.released) == ("restart", [DAEMON, RUNTIME])
    assert decision.drift == [f"{DAEMON} still contains changes of this collection", f"{RUNTIME} still contains changes of this collection"]
    assert absent(**converged(daemon=NOTHING)).writes[DAEMON] is None


def test_absent_after_an_edit_removes_only_our_parts():
    finished = converged()
    finished["daemon"] = finished["daemon"].replace(b'"local"', b'"journald"')
    assert absent(**finished).writes[DAEMON] == DAEMON_JSON.replace(b'"local"', b'"journald"')


def test_absent_keeps_entries_that_the_user_had_first():
    finished = converged()
    finished.update(daemon=DAEMON_JSON, toml=CONFIG_TOML)
    decision = absent(**finished)
    assert (decision.writes, decision.action, sorted(decision.released)) == ({}, "restart", [DAEMON, RUNTIME])
    assert decision.drift == ["dockerd was started before its files were changed"]
    finished.update(shown=["SSD=1"], runtime="runc")
    decision = absent(**finished)
    assert (decision.writes, decision.action, decision.changed, decision.drift) == ({}, None, False, [])


def test_absent_of_an_unchanged_node_does_nothing():
    by_hand = json.dumps(dict(NVIDIA, **{"node-generic-resources": resources(0, 1)})).encode()
    decision = absent(daemon=by_hand, shown=resources(0, 1), runtime="nvidia")
    assert (decision.writes, decision.action, decision.changed, decision.drift, decision.released) == ({}, None, False, [], [])


def test_absent_reports_whether_docker_keeps_a_runtime_nvidia():
    """A runtime from before the first run is restored with daemon.json. The toolkit's packages contain the program of this runtime."""
    by_hand = RUNTIME_BY_HAND
    assert absent(daemon=by_hand).runtime_stays is True
    assert absent(**converged(daemon=by_hand)).runtime_stays is True
    assert absent(**converged()).runtime_stays is False
    assert absent().runtime_stays is False
    assert decide(params(), seen(daemon=by_hand)).runtime_stays is False


def test_absent_of_a_default_runtime_alone_needs_a_restart():
    # A reload sets a default runtime only if the file names one.
    decision = absent(**converged(shown=["SSD=1"]))
    assert decision.action == "restart"


def test_absent_needs_nothing_that_only_present_needs():
    decision = absent(**dict(converged(), toolkit=None, missing=["toolkit"], flags=["--live-restore"]))
    assert sorted(decision.writes) == [DAEMON, RUNTIME]
