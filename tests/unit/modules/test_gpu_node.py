# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module as a separate process on real files, with the lab's NVML. No engine runs, so it sets ``restart: never``."""

from __future__ import annotations

import json
import os
import re
import stat
from itertools import takewhile
from pathlib import Path

import module_process
import nvml_lab
import pytest
import tomli
import yaml
from node_lab import CONFIG_TOML, DAEMON_JSON

from ansible_collections.fleet.gpu_swarm.plugins.modules import gpu_node
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.answer import form_error

# Other users cannot read a checkout in /root. So the call imports all modules before it changes to another user.
AS_NOBODY = """
import contextlib, io, os, pynvml, tomli
with contextlib.suppress(ImportError):
    import tomllib
from ansible.module_utils import basic
from ansible_collections.fleet.gpu_swarm.plugins.modules import gpu_node
if os.geteuid() == 0:
    basic._ANSIBLE_ARGS = b'{"ANSIBLE_MODULE_ARGS": {"no_such_option": true}}'
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        gpu_node.main()
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""
WITHOUT_BINDING = "import sys; sys.modules['pynvml'] = None"


class Node:
    """Two files, a state directory, and runs of the module on them."""

    def __init__(self, home):
        self.home = home
        self.daemon, self.runtime, self.state = home / "daemon.json", home / "config.toml", home / "state"
        self.daemon.write_bytes(DAEMON_JSON)
        self.runtime.write_bytes(CONFIG_TOML)

    def run(self, before="", fleet="t4x4", check=False, diff=True, **options):
        arguments = {
            "restart": "never",
            "daemon_config": str(self.daemon),
            "runtime_config": str(self.runtime),
            "state_dir": str(self.state),
            "nvml_path": nvml_lab.library(),
            "docker_socket": str(self.home / "docker.sock"),
            "docker_unit": "gpu-swarm-test.service",
            "_ansible_check_mode": check,
            "_ansible_diff": diff,
        }
        env = dict(os.environ, GPU_LAB_NVML=nvml_lab.fleet(fleet))
        done = module_process.run("gpu_node", dict(arguments, **options), env, before)
        assert done.stdout.strip().startswith("{"), done.stderr
        answer = json.loads(done.stdout)
        assert (done.returncode != 0) == bool(answer.get("failed")), done.stderr
        assert form_error(answer) is None
        return answer

    def files(self):
        """Return all files under the node's home except the lock, with bytes and mode."""
        found = {}
        for root, folders, names in os.walk(self.home):
            for name in [*folders, *names]:
                path = os.path.join(root, name)
                if name not in ("lock", "state"):
                    status = os.lstat(path)
                    content = b"" if stat.S_ISDIR(status.st_mode) else Path(path).read_bytes()
                    found[path] = (content, oct(status.st_mode))
        return found


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


# --- present and absent -----------------------------------------------------------------------------------------------


def test_everything_in_the_state_directory_is_closed_and_people_may_still_pass_to_a_record(node):
    """On a manager, the directory of the record is open for group docker."""
    node.state.mkdir(mode=0o711)
    node.run()
    modes = {path.name: oct(path.lstat().st_mode & 0o7777) for path in node.state.iterdir() if not path.is_symlink()}
    assert {name: mode for name, mode in modes.items() if not mode.endswith("00")} == {}
    assert len(modes) > 2
    assert oct(node.state.stat().st_mode & 0o7777) == "0o711"


def test_a_record_alone_is_something_to_remove(node):
    assert not node.run(check=True, state="absent")["kept"]
    (node.state / "record").mkdir(parents=True)
    assert node.run(check=True, state="absent")["kept"]


def test_the_first_run_changes_the_second_does_not_and_absent_restores(node):
    before = node.files()
    assessed = node.run(check=True)
    assert node.files() == before
    assert not node.state.exists()

    done = node.run()
    assert done["changed"] is assessed["changed"] is True
    assert done["diff"] == assessed["diff"]
    assert len(done["resources"]) == 4
    assert done["swarm_resource"] == "DOCKER_RESOURCE_NVIDIA-GPU"
    assert (done["labels"]["gpu.count"], done["labels"]["gpu.model"], done["labels"]["gpu.mem_ge_16"]) == ("4", "Tesla-T4", "true")
    assert (done["labels_unknown"], done["refused"], done["cpu"]["label_prefix"]) == ([], [], "cpu.")
    assert (done["restarted"], done["reloaded"], done["engine"]) == (False, False, None)
    assert "engine" in done["missing"]
    doc = json.loads(node.daemon.read_bytes())
    assert doc["node-generic-resources"] == ["SSD=1", *done["resources"]]
    assert doc["log-driver"] == "local"
    assert stat.S_IMODE(node.state.stat().st_mode) == 0o700
    assert {name: oct(stat.S_IMODE((node.state / name).stat().st_mode)) for name in os.listdir(node.state) if name != "lock"} == {
        "cards.json": "0o600",
        "record.json": "0o600",
        "backup": "0o700",
    }

    after = node.files()
    again = node.run()
    assert (again["changed"], again["drift"], again["diff"]) == (False, [], [])
    assert node.files() == after

    assessed = node.run(check=True, state="absent")
    assert (assessed["changed"], node.files()) == (True, after)
    assert node.run(state="absent")["changed"] is True
    assert node.files() == before
    assert node.run(state="absent")["changed"] is False


@pytest.mark.parametrize("option", ["timeout", "nvml_timeout"])
def test_nothing_can_be_done_in_no_time(node, option):
    """With 0 seconds, a restarted dockerd would always be too late, and the change would be undone."""
    before = node.files()
    assert node.run(**{option: 0})["msg"] == f"{option} is 0, but must be 1 or more, in seconds. Nothing was changed."
    assert (node.files(), node.state.exists()) == (before, False)


def test_no_engine_and_no_nvml_are_needed_to_deprovision(node):
    before = node.files()
    node.run()
    assert node.run(state="absent", nvml_path="/nonexistent")["changed"] is True
    assert node.files() == before


@pytest.mark.parametrize("check", [True, False])
def test_an_unchanged_host_has_nothing_to_restore(node, check):
    node.daemon.unlink()
    node.runtime.unlink()
    answer = node.run(check=check, state="absent", extra_resources=["SSD=1"], nvml_path="/nonexistent")
    assert (answer["changed"], answer["drift"], answer["refused"], answer["diff"]) == (False, [], [], [])
    assert (answer["resources"], answer["labels"], answer["gpus"]) == ([], {}, [])
    assert not {"toolkit", "nvml_binding", "toml_parser"} & set(answer["missing"])
    assert (node.daemon.exists(), node.runtime.exists()) == (False, False)


def test_a_host_without_gpu(node):
    before = node.files()
    answer = node.run(check=True, advertise=[], nvml_path="/nonexistent")
    assert (answer["changed"], answer["gpus"], answer["driver_version"]) == (False, [], None)
    assert (answer["swarm"]["state"], answer["containers"], answer["labels"]) == ("inactive", [], {})
    assert node.files() == before


def test_every_returned_key_is_documented(node):
    answer = node.run(check=True)
    documented = {name for name, value in yaml.safe_load(gpu_node.RETURN).items() if not value["returned"].startswith("with ")}
    assert set(answer) - {"changed", "diff", "invocation", "warnings"} == documented


@pytest.mark.parametrize("check", [True, False])
def test_contents_of_files_are_shown_only_on_request(node, check):
    node.daemon.write_bytes(b'{"proxies": {"http-proxy": "http://me:secret@proxy"}}')
    answer = node.run(check=check, diff=False)
    assert "diff" not in answer
    assert "secret" not in json.dumps(answer)


def test_a_faulty_gpu_is_excluded_and_named(node):
    answer = node.run(fleet="h100x8-one-lost")
    assert len(answer["resources"]) == 7
    assert answer["left_out"][0]["reason"]
    assert "is not advertised: " in json.dumps(answer["warnings"])  # texts, or objects with a text since ansible-core 2.19
    assert answer["labels"]["gpu.count"] == "7"


def test_a_lost_card_is_named_from_the_record_of_the_node(node):
    """NVML reports nothing about a card that fell off the bus, not even its UUID. Earlier releases wrote no record of cards."""
    gpus = node.run(fleet="h100x8")["gpus"]
    lost = next(one["index"] for one in node.run(check=True, fleet="h100x8-one-lost")["left_out"])
    of_card = gpus[lost]
    place = f"PCI address {of_card['pci_bus_id']}, serial number {of_card['serial']}"
    text = f"GPU {lost} (last known as {of_card['model']}, {of_card['uuid']}, {place}) cannot be advertised: GPU is lost"
    answer = node.run(check=True, fleet="h100x8-one-lost")
    assert text in answer["refused"][0]["text"]
    assert answer["fault"] == f"fault {of_card['uuid']} reason=lost pci={of_card['pci_bus_id']} serial={of_card['serial']}"
    (node.state / "cards.json").unlink()
    answer = node.run(check=True, fleet="h100x8-one-lost")
    assert f"{of_card['uuid']} is gone" in answer["refused"][0]["text"]
    assert f"GPU {lost} (it does not answer and was never recorded on this node) is not advertised: GPU is lost" in json.dumps(answer["warnings"])
    assert "None" not in json.dumps([answer["warnings"], answer["refused"]])


CARD_OF_A_RECORD = {"index": 0, "uuid": "GPU-1", "mig": []}
BAD = [{"mig": [[1]]}, {"mig": 5}, {"mig": "MIG-1"}, {"pci_bus_id": {}}, {"name": 5}, {"slot": ["12"]}, {"index": None}, {"uuid": {}}]


@pytest.mark.parametrize(
    "record",
    ["", "[]", "[" * 100_000, '{"cards": [{"uuid": 5}]}', '{"cards": 7}', *(json.dumps({"cards": [{**CARD_OF_A_RECORD, **bad}]}) for bad in BAD)],
    ids=lambda record: record[:60],
)
def test_an_unreadable_record_of_cards_is_ignored(node, record):
    """The record only describes cards. No decision depends on it."""
    after = node.run(), node.files()
    (node.state / "cards.json").write_text(record)
    assert node.run()["changed"] is False
    assert node.files() == after[1]


@pytest.mark.parametrize("content", [b"", b" \n", b"\xef\xbb\xbf{}", None])
def test_an_empty_configuration_is_accepted_as_dockerd_does(node, content):
    if content is None:
        node.daemon.unlink()
    else:
        node.daemon.write_bytes(content)
    before = node.files()
    assert node.run()["changed"] is True
    assert len(json.loads(node.daemon.read_bytes().decode("utf-8-sig"))["node-generic-resources"]) == 4
    node.run(state="absent")
    assert node.files() == before


def test_a_symbolic_link_and_a_mode_stay(node):
    real = node.home / "real.json"
    node.daemon.rename(real)
    real.chmod(0o600)
    node.daemon.symlink_to(real.name)
    before = node.files()
    node.run()
    assert (os.readlink(node.daemon), stat.S_IMODE(real.stat().st_mode)) == ("real.json", 0o600)
    node.run(state="absent")
    assert node.files() == before


def test_unknown_keys_and_the_rest_of_each_file_stay(node):
    node.run()
    kept = node.daemon.read_bytes()
    assert kept.startswith(b'{\r\n   "log-driver": "local",\t"node-generic-resources": ["SSD=1"')
    lines = node.runtime.read_bytes().splitlines(keepends=True)
    assert [line for line in lines if not line.startswith(b"swarm-resource")] == CONFIG_TOML.splitlines(keepends=True)


# --- every way to advertise a GPU --------------------------------------------------------------------------------------

# GPUs in NVML, the rules -> the resources without their UUIDs, and the line in config.toml
POLICIES = {
    "a kind per model": (
        "l40s-t4",
        [{"as": "model", "kinds": {"*L40S*": "L40S"}}],
        ["L40S", "NVIDIA-T4"],
        "DOCKER_RESOURCE_L40S,DOCKER_RESOURCE_NVIDIA-T4",
    ),
    "MIG devices and a whole card": (
        "a100-mig",
        [{"as": "mig"}, {"as": "gpu"}],
        ["MIG-3g.40gb", "MIG-2g.20gb", "MIG-1g.10gb", "NVIDIA-GPU"],
        "DOCKER_RESOURCE_MIG-3G.40GB,DOCKER_RESOURCE_MIG-2G.20GB,DOCKER_RESOURCE_MIG-1G.10GB,DOCKER_RESOURCE_NVIDIA-GPU",
    ),
    "memory of one card and a whole card": (
        "l40s-t4",
        [{"as": "vram", "select": {"model": ["*T4*"]}, "reserve_mib": 360}, {"as": "gpu"}],
        ["NVIDIA-GPU", "VRAM=15000"],
        "DOCKER_RESOURCE_NVIDIA-GPU",
    ),
    "the sum of all cards": ("rtx4090x2", [{"as": "vram", "sum": True}], ["VRAM=49128"], None),
    "a whole GPU with unified memory": ("gb10", [{"as": "gpu"}], ["NVIDIA-GPU"], "DOCKER_RESOURCE_NVIDIA-GPU"),
}


def kinds(resources):
    return [one.partition("=")[0] if "-" in one.partition("=")[2] else one for one in resources]


@pytest.mark.parametrize(("fleet", "rules", "resources", "line"), POLICIES.values(), ids=POLICIES)
def test_each_policy_advertises_its_resources(node, fleet, rules, resources, line):
    before = node.files()
    assessed = node.run(check=True, fleet=fleet, advertise=rules)
    answer = node.run(fleet=fleet, advertise=rules)
    assert (assessed["resources"], assessed["refused"], assessed["diff"]) == (answer["resources"], [], answer["diff"])
    assert kinds(answer["resources"]) == resources
    assert json.loads(node.daemon.read_bytes())["node-generic-resources"] == ["SSD=1", *answer["resources"]]
    assert tomli.loads(node.runtime.read_text()).get("swarm-resource") == line
    again = node.run(fleet=fleet, advertise=rules)
    assert (again["changed"], again["drift"]) == (False, [])
    node.run(state="absent")
    assert node.files() == before


def test_memory_per_card_and_the_systems_memory(node):
    answer = node.run(fleet="rtx4090x2", advertise=[{"as": "vram"}])
    assert sorted(value for one in answer["resources"] for value in [one.partition("=")[2]]) == ["24564", "24564"]
    assert all(one.startswith("VRAM-") for one in answer["resources"])
    answer = node.run(fleet="gb10", advertise=[{"as": "vram"}])
    assert "add 'system_memory: true'" in answer["msg"]
    answer = node.run(fleet="gb10", advertise=[{"as": "vram", "system_memory": True}], allow_shrink=True)
    assert re.fullmatch(r"VRAM=[1-9]\d{2,}", answer["resources"][0])


def test_extra_resources_are_added_and_removed(node):
    before = node.daemon.read_bytes()
    node.run(extra_resources=["SSD=2", "FPGA=a"], advertise=[])
    assert json.loads(node.daemon.read_bytes())["node-generic-resources"] == ["SSD=2", "FPGA=a"]
    node.run(extra_resources=["FPGA=b"], advertise=[])
    assert json.loads(node.daemon.read_bytes())["node-generic-resources"] == ["FPGA=b"]
    node.run(state="absent")
    assert node.daemon.read_bytes() == before


def test_advertising_less_needs_consent(node):
    node.run(fleet="h100x8")
    before = node.files()
    assessed = node.run(fleet="h100x8-one-lost", check=True)
    assert [one["id"] for one in assessed["refused"]] == ["shrink"]
    assert assessed["refused"][0]["text"] in assessed["drift"]
    answer = node.run(fleet="h100x8-one-lost")
    assert (answer["failed"], answer["refused"]) == (True, assessed["refused"])
    assert "'expect: 7'" in answer["msg"]
    assert node.files() == before
    assert len(node.run(fleet="h100x8-one-lost", expect=7)["resources"]) == 7
    assert node.run(fleet="h100x8-one-lost")["changed"] is False
    assert "8 GPUs are expected" in node.run(fleet="h100x8-one-lost", expect=8)["msg"]


# --- bad input ------------------------------------------------------------------------------------------------------


def kind(name):
    return {"advertise": [{"as": "gpu", "kind": name}]}


# the error -> (files, options, words of the message in order; {d} and {r} are the files)
BAD = {
    "daemon.json is not JSON": ({"daemon": b"{a: 1}"}, {}, ["{d}: it is not JSON", "line 1", "Fix the file, and run this again."]),
    "a JSON list": ({"daemon": b"[1]"}, {}, ["{d}: it contains a list, but dockerd expects an object", "Fix the file"]),
    "garbage at the end": ({"daemon": b"{}\n}"}, {}, ["{d}: it is not JSON", "line 2", "Fix the file"]),
    "runtimes is not an object": ({"daemon": b'{"runtimes": [1]}'}, {}, ["{d}: runtimes is a list ([1])", "an object", "Fix the file"]),
    "resources are not a list": (
        {"daemon": b'{"node-generic-resources": "GPU=1"}'},
        {},
        ["{d}: node-generic-resources is a string ('GPU=1')", "Fix the file"],
    ),
    "live-restore": ({"daemon": b'{"live-restore": true}'}, {}, ["{d}: live-restore is true", "Remove the key"]),
    "no config.toml": ({"runtime": None}, {}, ["NVIDIA Container Toolkit is not installed (no {r})", "Install it first"]),
    "config.toml is not TOML": ({"runtime": b"swarm-resource = \n"}, {}, ["{r}: it is not TOML", "Fix the file"]),
    "a directory": ({"daemon": "directory"}, {}, ["{d}: Is a directory", "run this again"]),
    "no NVML library": (
        {},
        {"nvml_path": "/nonexistent/libnvidia-ml.so.1"},
        ["nvml_path (role: gpu_node_nvml_path): /nonexistent/libnvidia-ml.so.1", "Set it to the path of libnvidia-ml.so.1"],
    ),
    "no GPU": ({}, {"fleet": "nogpu"}, ["NVML finds no GPU on this node", "lspci", "remove the host from the group gpu_nodes"]),
    "a driver that never answers": ({}, {"fleet": "hang", "nvml_timeout": 1}, ["NVML gave no answer within 1 s", "reboot the node"]),
    "another driver's library": ({}, {"fleet": "mismatch"}, ["different versions", "Reboot the node"]),
    "no driver": ({}, {"fleet": "nodriver"}, ["Driver Not Loaded", "modprobe nvidia"]),
    "a kind with =": ({}, kind("GPU=1"), ["advertise[0].kind: 'GPU=1'", "use printable ASCII", "such as NVIDIA-GPU"]),
    "a kind with a blank": ({}, kind("MY GPU"), ["advertise[0].kind: 'MY GPU'", "without blanks"]),
    "a kind with a comma": ({}, kind("A,B"), ["advertise[0].kind: 'A,B'", "','"]),
    "an empty kind": ({}, kind(""), ["advertise[0].kind: ''", "such as NVIDIA-GPU"]),
    "two kinds in one variable": (
        {},
        {"advertise": [{"as": "gpu", "kind": "GPU", "select": {"index": [0]}}, {"as": "gpu", "kind": "gpu"}]},
        ["the kinds 'GPU' and 'gpu'", "DOCKER_RESOURCE_GPU", "Use one spelling or rename one"],
    ),
}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("files", "options", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_clear_error_and_changes_nothing(node, files, options, words, check):
    for name, content in files.items():
        path = getattr(node, name)
        path.unlink()
        if content == "directory":
            path.mkdir()
        elif content is not None:
            path.write_bytes(content)
    before = node.files()
    answer = node.run(check=check, **options)
    assert node.files() == before
    if check and files.get("runtime", b"") is None:  # an assessment reports this as information, a change as an error
        assert "toolkit" in answer["missing"]
        return
    assert answer["failed"] is True
    here = 0
    for word in words:
        word = word.format(d=node.daemon, r=node.runtime)
        assert word in answer["msg"][here:], answer["msg"]
        here = answer["msg"].index(word, here) + 1
    assert "Traceback" not in answer["msg"]
    # Even after an error, the run must know whether this node is in a swarm.
    assert (answer["engine"], answer["swarm"]["state"], answer["containers"]) == (None, "inactive", [])


def test_no_binding_is_reported_so_that_the_action_plugin_can_send_it(node):
    before = node.files()
    answer = node.run(WITHOUT_BINDING)
    assert (answer["failed"], answer["missing"]) == (True, ["nvml_binding"])
    assert "nvidia-ml-py" in answer["msg"]
    assert "engine" not in answer  # the engine is read when the module runs again with the binding
    assert node.files() == before


NOBODY = os.geteuid() or 65534


@pytest.mark.parametrize("check", [True, False])
def test_another_user_than_root_is_refused(node, check):
    before = node.files()
    answer = node.run(AS_NOBODY, restart="if_needed", check=check)
    assert answer["msg"] == f"this needs root on the node, but the task runs as user id {NOBODY}. Add 'become: true'."
    assert node.files() == before


def test_another_user_cannot_read_files_of_root(node):
    for folder in takewhile(lambda folder: not folder.stat().st_mode & stat.S_IXOTH, (node.home, *node.home.parents)):
        folder.chmod(0o755)
    node.state = node.home / "closed" / "state"
    node.state.parent.mkdir(mode=0o555)
    before = node.files()
    answer = node.run(AS_NOBODY)
    assert answer["msg"] == f"{node.state}: Permission denied. Add 'become: true', and run this again."
    assert node.files() == before


def test_systemd_commands_may_be_missing(node, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("no-commands")))
    assert node.run()["changed"] is True


OUT_OF_PATIENCE = """
from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _bounded
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import node
_bounded.run.__defaults__ = (0.5,)
node.SBIN = %r
"""


def test_a_hung_toolkit_is_an_error_of_its_host(node, tmp_path_factory):
    """The programs of the toolkit query the driver, and the driver may hang forever."""
    program = tmp_path_factory.mktemp("bin") / "nvidia-ctk"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    before = node.files()
    answer = node.run(OUT_OF_PATIENCE % str(program.parent), check=True)
    assert answer["failed"]
    assert f"{program} --version" in answer["msg"]
    assert node.files() == before


@pytest.mark.parametrize("check", [True, False])
def test_gathering_decides_nothing(node, check):
    node.run()
    node.daemon.rename(node.home / "elsewhere.json")  # options of state=gathered may differ from those of the node
    (node.state / "journal.json").write_text("{}")
    before = node.files()
    found = node.run(state="gathered", check=check)
    assert (found["changed"], found["drift"], found["refused"], found["gpus"], found["diff"]) == (False, [], [], [], [])
    assert (found["swarm"]["state"], found["toolkit_version"], found.get("warnings", [])) == ("inactive", None, [])
    assert node.files() == before


# --- secrets --------------------------------------------------------------------------------------------------------

PROXIES = (
    b'{"proxies": {"http-proxy": "http://svc:S3cret@proxy:3128", '
    b'"https-proxy": "http:\\/\\/svc:S3cret@proxy:3128", "ftp-proxy": "svc:S3cret@proxy:3128"}, "debug": %s}\n'
)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("debug", [b"false", b"false,", b"[1"])
def test_passwords_of_proxies_are_not_shown_and_stay_in_their_files(node, check, state, debug):
    if state == "absent":
        node.run()
    node.daemon.write_bytes(PROXIES % debug)
    answer = node.run(check=check, state=state)
    assert bool(answer.get("failed")) == (debug != b"false" and state == "present") or state == "absent"
    assert "S3cret" not in json.dumps(answer)
    assert node.daemon.read_bytes().count(b"svc:S3cret@proxy:3128") == 3
    for diff in answer.get("diff", []) if state == "present" else []:
        assert diff["before_header"] != str(node.daemon) or "http://svc:***@proxy:3128" in diff["before"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"runtimes": {"nvidia": {"path": "/opt/x", "options": "http://svc:S3cret-and-much-more-than-fits-into-a-message@proxy:3128"}}}',
        b'{"node-generic-resources": "http://svc:S3cret-and-much-more-than-fits-into-a-message@proxy:3128"}',
        b'{"node-generic-resources": ["http://svc:S3cret@proxy=1=1"]}',
        b'{"default-runtime": "http://svc:S3cret@proxy"}',
    ],
)
def test_a_message_does_not_quote_a_password(node, content):
    node.daemon.write_bytes(content)
    assert "S3cret" not in json.dumps(node.run(check=True))
    assert "S3cret" not in json.dumps(node.run())


@pytest.mark.parametrize("check", [True, False])
def test_a_kind_with_the_name_of_a_secret_is_returned_unchanged(node, check):
    """The kind is compared with the swarm's list of the node. A masked text would always differ."""
    answer = node.run(check=check, extra_resources=["MATLAB-TOKEN=4", "VAULT-SECRET=a"])
    assert {"MATLAB-TOKEN=4", "VAULT-SECRET=a"} < set(answer["resources"])


# --- rules that drop cards --------------------------------------------------------------------------------------------

FOR_OTHERS = [{"as": "gpu", "select": {"model": ["*H200*"]}}]


@pytest.mark.parametrize("advertise", [[], FOR_OTHERS])
def test_a_policy_that_selects_nothing_takes_consent(node, advertise):
    assert "failed" not in node.run(advertise=advertise)  # nothing was advertised before
    node.run()
    before = node.files()
    assessed = node.run(advertise=advertise, check=True)
    assert [one["id"] for one in assessed["refused"]] == ["shrink"]
    answer = node.run(advertise=advertise)
    assert answer["failed"] is True
    assert "would advertise less than before" in answer["msg"]
    assert ("advertise[0] (as gpu, select model *H200*) selects nothing" in answer["msg"]) == bool(advertise)
    assert node.files() == before
    assert node.run(advertise=advertise, expect=0)["resources"] == []
    assert "failed" not in node.run(advertise=advertise)


def test_cards_that_a_rule_leaves_to_the_host_need_no_consent(node):
    node.run()
    answer = node.run(advertise=[*FOR_OTHERS, {"as": "none"}])
    assert (answer["changed"], answer["resources"]) == (True, [])
