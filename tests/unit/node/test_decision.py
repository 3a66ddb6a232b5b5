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
    made = decide(params(), seen())
    doc = json.loads(made.writes[DAEMON])
    assert sorted(doc["node-generic-resources"]) == [*resources(0, 1), "SSD=1"]
    assert (doc["default-runtime"], doc["runtimes"]) == ("nvidia", {"nvidia": {"path": "nvidia-container-runtime"}})
    assert b'\nswarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n' in made.writes[RUNTIME]
    assert (made.act, made.restart, made.changed) == ("restart", True, True)
    assert made.drift == [
        f"2 GPUs not advertised as NVIDIA-GPU: {UUIDS[0]}, {UUIDS[1]}",
        "swarm-resource is not set, kinds are NVIDIA-GPU",
    ]
    assert made.running.resources == [*resources(0, 1), "SSD=1"]
    assert [item["before_header"] for item in made.diff] == [DAEMON, RUNTIME]
    assert made.diff[0]["before"].encode() == DAEMON_JSON
    assert made.advertisement["labels"]["gpu.count"] == "2"


@pytest.mark.parametrize("daemon", [DAEMON_JSON, NOTHING, RUNTIME_BY_HAND])
@pytest.mark.parametrize("toml", [CONFIG_TOML, SET_BEFORE])
def test_what_is_written_and_what_is_put_on_record_of_it(daemon, toml):
    made = decide(params(), seen(daemon, toml))
    assert made.writes == {DAEMON: FINISHED[daemon], RUNTIME: FINISHED[toml]}
    assert made.inserted == ADDED
    for path, before in ((DAEMON, daemon), (RUNTIME, toml)):
        assert entry_after_write(Snapshot(path, before, 0o644, 0, 0), ADDED[path], FINISHED[before], None) == on_record(path, before)


def test_nothing_to_do():
    made = decide(params(), seen(**converged()))
    assert (made.writes, made.act, made.restart, made.changed) == ({}, None, False, False)
    assert (made.drift, made.diff, made.warnings) == ([], [], [])


NVIDIA = {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}

# what of a finished node differs -> (what is done to the daemon, the only drift)
DIFFERENT = {
    "an old process": (
        {"shown": ["SSD=1"]},
        "restart",
        f"2 GPUs not advertised as NVIDIA-GPU: {UUIDS[0]}, {UUIDS[1]}",
    ),
    "only the default runtime": ({"runtime": "runc"}, "reload", "the default runtime is runc, not nvidia"),
    "what others listed": (
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
def test_right_files_and_a_daemon_that_differs(differs, act, drift, restart):
    made = decide(params(restart=restart), seen(**converged(**differs)))
    assert (made.writes, made.act, made.drift[0]) == ({}, act, drift)
    assert made.restart == (act == "restart")
    assert made.changed == (restart == "if_needed")


def test_the_files_differ_and_the_daemon_does_not():
    finished = converged()
    finished["daemon"] = DAEMON_JSON
    made = decide(params(), seen(**finished))
    assert list(made.writes) == [DAEMON]
    assert (made.act, made.drift) == (None, [f"{DAEMON} differs from what was decided"])
    finished = converged(toml=SET_BEFORE)
    finished["toml"] = SET_BEFORE
    made = decide(params(), seen(**finished))
    assert (list(made.writes), made.act) == ([RUNTIME], None)
    assert made.drift == ["swarm-resource lists DOCKER_RESOURCE_GPU, kinds are NVIDIA-GPU"]


def test_no_engine():
    made = decide(params(restart="never"), seen(engine=False))
    assert (made.act, made.changed, sorted(made.writes)) == (None, True, [DAEMON, RUNTIME])
    assert made.drift[0].startswith("2 GPUs not advertised")


def test_no_toolkit_yet():
    made = decide(params(), seen(toml=None, toolkit=None, missing=["toolkit"]))
    assert (list(made.writes), made.act, made.changed) == ([DAEMON], "restart", True)


FOR_THE_USER = {
    "live-restore": ({"daemon": b'{"live-restore": true}'}, ["live-restore is true", "Remove the key"]),
    "nftables": ({"daemon": b'{"firewall-backend": "nftables"}'}, ["firewall-backend is nftables", "Set it to iptables, or remove it"]),
    "its flag": ({"flags": ["--live-restore"]}, ["--live-restore", "Remove the flag"]),
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
    "a flag that the unit got since": (
        {"flags": ["-H", "fd://"], "unit_flags": ["-H", "fd://", "--default-runtime=runc"]},
        ["--default-runtime=runc", DAEMON, "Remove the flag from its unit"],
    ),
    "a file that the unit got since": ({"unit_flags": ["--config-file=/opt/d.json"]}, ["dockerd reads /opt/d.json"]),
    "a unit that systemd reads otherwise": ({"unit_problem": "/etc/x.conf: systemd read ExecStart"}, ["/etc/x.conf: systemd read ExecStart"]),
    "no config.toml": ({"toml": None}, [RUNTIME, "does not exist", "1.20.0", "nvidia-ctk config --in-place"]),
    "a list": ({"daemon": b"[]"}, [DAEMON, "a list", "Fix the file"]),
    "garbage at the end": ({"daemon": b"{} x"}, [DAEMON, "not JSON", "Fix the file"]),
    "runtimes is no object": ({"daemon": b'{"runtimes": []}'}, [DAEMON, "runtimes is a list", "an object"]),
    "a path twice": ({"daemon": b'{"runtimes": {"nvidia": {"path": "a", "path": "b"}}}'}, [DAEMON, "runtimes.nvidia.path is there more than once"]),
    "resources are no list": ({"daemon": b'{"node-generic-resources": "GPU=1"}'}, [DAEMON, "is a string", "a list such as"]),
    "not TOML": ({"toml": b"a = = b"}, [RUNTIME, "not TOML", "Fix the file"]),
    "others' resources mixed": (
        {"daemon": b'{"node-generic-resources": ["FPGA=1", "FPGA=a"]}'},
        [DAEMON, "FPGA mixes a number"],
    ),
}


@pytest.mark.parametrize(("found", "words"), FOR_THE_USER.values(), ids=FOR_THE_USER)
def test_what_only_the_user_can_fix(found, words):
    with pytest.raises(GpuSwarmError) as raised:
        decide(params(), seen(**found))
    for word in words:
        assert word in raised.value.message


@pytest.mark.parametrize(("unit_flags", "hint"), [(["--live-restore"], False), (["$DOCKER_OPTS"], True)])
def test_what_runs_and_what_would_be_started_are_reported_once(unit_flags, hint):
    with pytest.raises(GpuSwarmError) as raised:
        decide(params(), seen(flags=["--live-restore"], unit_flags=unit_flags))
    assert raised.value.message.count("--live-restore") == 1
    assert raised.value.message.endswith("If you have removed them since, restart the daemon.") is hint


@pytest.mark.parametrize("flags", [["--config-file", DAEMON], ["--config-file=" + DAEMON], ["-H", "fd://", "--add-runtime=x=y"]])
def test_flags_that_do_no_harm(flags):
    assert decide(params(), seen(flags=flags)).act == "restart"


def test_a_kind_of_others_that_tasks_could_not_distinguish_is_taken_over():
    daemon = json.dumps({"node-generic-resources": ["nvidia-gpu=GPU-00000000", "SSD=1"]}).encode()
    made = decide(params(), seen(daemon=daemon))
    assert sorted(json.loads(made.writes[DAEMON])["node-generic-resources"]) == [*resources(0, 1), "SSD=1"]
    assert made.warnings == [f"{DAEMON}: node-generic-resources listed 'nvidia-gpu=GPU-00000000', which the policy decides."]


# --- the policy -----------------------------------------------------------------------------------------------------


def test_an_empty_policy_leaves_an_untouched_node_alone():
    for daemon in (DAEMON_JSON, None, b'{"live-restore": true}'):
        made = decide(params(advertise=[]), seen(daemon=daemon, toml=None, toolkit=None, gpus=[]))
        assert (made.writes, made.act, made.changed, made.drift) == ({}, None, False, [])


def test_an_empty_policy_takes_our_resources_from_a_node_that_had_them():
    assert [item["id"] for item in decide(params(advertise=[]), seen(gpus=[], **converged())).refused] == ["shrink"]
    made = decide(params(advertise=[], allow_shrink=True), seen(gpus=[], **converged()))
    assert made.refused == []
    assert json.loads(made.writes[DAEMON])["node-generic-resources"] == ["SSD=1"]
    assert b"\nswarm-resource" not in made.writes[RUNTIME]
    assert (made.act, made.inserted[DAEMON]) == ("restart", {"resources": [], "kinds": []})


@pytest.mark.parametrize(("on_loss", "refused"), [(None, ["shrink"]), ("pause", ["shrink"]), ("report", ["shrink"]), ("shrink", [])])
def test_what_is_to_become_of_a_lost_card_is_consent_with_one_of_its_words(on_loss, refused):
    assert [item["id"] for item in decide(params(on_loss=on_loss), seen(gpus=[gpu(0)], **converged())).refused] == refused


def test_gpus_that_all_failed_do_not_stay_advertised_by_hand():
    daemon = json.dumps(dict(NVIDIA, **{"node-generic-resources": resources(0, 1)})).encode()
    failed = [gpu(0, "failed"), gpu(1, "failed")]
    made = decide(params(), seen(daemon=daemon, gpus=failed, shown=resources(0, 1), runtime="nvidia"))
    assert json.loads(made.writes[DAEMON]).get("node-generic-resources", []) == []
    assert made.act == "restart"
    assert [item["reason"] for item in made.advertisement["left_out"]] == ["GPU is lost"] * 2
    assert made.advertisement["labels"] == {}


def test_options_that_ansible_hands_over_unset_are_no_options():
    unset = {"uuid": None, "pci_bus_id": None, "index": [1], "model": None, "min_memory_mib": None}
    made = decide(params(advertise=[{"as": "gpu", "kind": "NVIDIA-GPU", "select": unset}]), seen())
    assert made.advertisement["resources"] == resources(1)
    made = decide(params(advertise=[{"as": "gpu", "kind": None, "select": None}]), seen())
    assert made.advertisement["resources"] == resources(0, 1)


# --- absent ---------------------------------------------------------------------------------------------------------


def test_absent_gives_the_original_bytes_back():
    made = absent(**converged())
    assert made.writes == {DAEMON: DAEMON_JSON, RUNTIME: CONFIG_TOML}
    assert (made.act, made.released) == ("restart", [DAEMON, RUNTIME])
    assert made.drift == [f"{DAEMON} still contains changes of this collection", f"{RUNTIME} still contains changes of this collection"]
    assert absent(**converged(daemon=NOTHING)).writes[DAEMON] is None


def test_absent_after_an_edit_takes_only_what_was_put_in():
    finished = converged()
    finished["daemon"] = finished["daemon"].replace(b'"local"', b'"journald"')
    assert absent(**finished).writes[DAEMON] == DAEMON_JSON.replace(b'"local"', b'"journald"')


def test_absent_where_the_user_was_there_first():
    finished = converged()
    finished.update(daemon=DAEMON_JSON, toml=CONFIG_TOML)
    made = absent(**finished)
    assert (made.writes, made.act, sorted(made.released)) == ({}, "restart", [DAEMON, RUNTIME])
    assert made.drift == ["dockerd was started before its files were changed"]
    finished.update(shown=["SSD=1"], runtime="runc")
    made = absent(**finished)
    assert (made.writes, made.act, made.changed, made.drift) == ({}, None, False, [])


def test_absent_where_nothing_was_changed():
    by_hand = json.dumps(dict(NVIDIA, **{"node-generic-resources": resources(0, 1)})).encode()
    made = absent(daemon=by_hand, shown=resources(0, 1), runtime="nvidia")
    assert (made.writes, made.act, made.changed, made.drift, made.released) == ({}, None, False, [], [])


def test_absent_reports_whether_docker_keeps_a_runtime_nvidia():
    """One that was there before the first run comes back with the file, and its program is in the toolkit's packages."""
    by_hand = RUNTIME_BY_HAND
    assert absent(daemon=by_hand).runtime_stays is True
    assert absent(**converged(daemon=by_hand)).runtime_stays is True
    assert absent(**converged()).runtime_stays is False
    assert absent().runtime_stays is False
    assert decide(params(), seen(daemon=by_hand)).runtime_stays is False


def test_absent_where_only_the_default_runtime_is_left_needs_a_restart():
    # A reload takes a default runtime only from a file that sets one.
    made = absent(**converged(shown=["SSD=1"]))
    assert made.act == "restart"


def test_absent_needs_nothing_that_only_present_needs():
    made = absent(**dict(converged(), toolkit=None, missing=["toolkit"], flags=["--live-restore"]))
    assert sorted(made.writes) == [DAEMON, RUNTIME]
