# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks answers of a node that an attacker controls, as plain data and in real runs of Ansible over local connections."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nvml_lab
import pytest
from fleet_lab import assessed
from node_lab import gpu

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers import cpu as cpu_names
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.allowed_labels import MAX_LABELS, prefixes, with_allowed_labels
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._answers.answer import form_error, plain
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls.delegation import answer_of
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.facts import problem


def test_keys_that_ansible_acts_on_are_removed_except_the_path_of_python():
    python = {"discovered_interpreter_python": "/usr/bin/python3"}
    facts = {"verify_image": "evil", **python}
    lies = {"ansible_facts": facts, "ansible_stats": {"data": {"x": 1}}, "results": [], "unreachable": True, "skipped": True}
    assert plain({"changed": True, "msg": "x", **lies}) == {"changed": True, "msg": "x", "ansible_facts": python}
    assert plain({"msg": "x", "ansible_facts": {"a": 1}}) == plain({"msg": "x", "ansible_facts": "a"}) == {"msg": "x"}
    assert answer_of(lambda: {"msg": "x", **lies}, "m1") == {"msg": "x", "ansible_facts": python}


def test_no_module_answers_past_this():
    """For a module without an action, Ansible uses the answer unchanged."""
    plugins = Path(nvml_lab.ROOT, "plugins")
    modules, actions = ({path.stem for path in (plugins / kind).glob("*.py")} for kind in ("modules", "action"))
    assert modules - actions == set()


# --- malformed answers ------------------------------------------------------------------------------------------------


def answered_by_module(**known):
    """Return an answer with all required parts. Most tests read only a few of the parts."""
    return {"left_out": [], "refused": [], "advertised": [], **assessed(**known)}


GUARDED = {"level": "reserved", "turned_off": False, "found": {}}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gpus", None),
        ("gpus", [{"name": "T4", "memory_mib": "much"}]),
        ("gpus", ["GPU-1"]),
        ("resources", ["NVIDIA-GPU"]),
        ("resources", "NVIDIA-GPU=1"),
        ("labels", ["gpu.count"]),
        ("missing", [3]),
        ("restart_required", "maybe"),
        ("swarm", None),
        ("swarm", {"node_id": "n1"}),
        ("swarm", {"state": "active", "node_id": ["n1"]}),
        ("containers", [{"name": None}]),
        ("containers", [{"name": "x", "age": "old"}]),
        ("containers", [{"name": "x", "swarm_networks": [None]}]),
        ("came", [{"name": None}]),
        ("swarm", {"state": "active", "managers": [3]}),
        ("refused", [{"id": "x"}]),
        ("engine", {"generic_resources": [3]}),
        ("toolkit_version", 1.2),
        ("toolkit_version", "x"),
        ("gpus", [{}]),
        ("gpus", [gpu(0, uuid=5)]),
        ("gpus", [gpu(0, memory_mib=10**400)]),
        ("gpus", [gpu(0, mig_devices=[{"uuid": 5}])]),
        ("left_out", [{"reason": "x"}]),
        ("advertised", ["K=1", "K=a"]),
        ("drift", None),
        *(("isolation", {**GUARDED, "memory": one}) for one in ([], {"VRAM": 1}, {"VRAM": {}}, {"VRAM": {"devices": ["GPU-1"], "mib": "1"}})),
        ("engine", {"generic_resources": [{"NamedResourceSpec": {"Kind": "K", "Value": 5}}]}),
        ("engine", {"generic_resources": [{"DiscreteResourceSpec": {"Kind": "K", "Value": float("inf")}}]}),
    ],
)
def test_an_answer_of_another_form_is_reported_by_its_part(key, value):
    assert form_error({**answered_by_module(), key: value}) == f"{key} does not have the right form"


@pytest.mark.parametrize("part", ["drift", "engine", "toolkit_version", "advertised"])
def test_a_missing_part_is_reported(part):
    answer = answered_by_module()
    del answer[part]
    assert form_error(answer) == f"{part} is missing"


def test_a_failure_has_fewer_parts():
    assert form_error({"failed": True, "msg": "NVML failed."}) is None
    assert form_error({"failed": True, "msg": "NVML failed.", "containers": "none"}) == "containers does not have the right form"


@pytest.mark.parametrize("memory", [{}, {"memory": None}, {"memory": {}}, {"memory": {"VRAM": {"devices": ["GPU-1"], "mib": 301}}}])
def test_a_guard_may_leave_out_its_memory(memory):
    assert form_error({**answered_by_module(), "isolation": {**GUARDED, **memory}}) is None


@pytest.mark.parametrize("known", [{}, {"node_id": None, "gpus": 0, "containers": [("a", None)], "engine": None}, {"warnings": ("x",)}])
def test_an_answer_of_the_module_is_accepted(known):
    assert form_error(answered_by_module(**known)) is None


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "labels", "kept"),
    [
        ("gpu.", {"gpu.count": "2", "gpu.model": "NVIDIA-T4"}, ["gpu.count", "gpu.model"]),
        ("gpu.", {"pci": "cleared", "gpu.count": "2", "cpu.x86_64_level": "v4", "gpux": "1"}, ["gpu.count"]),
        ("gpu", {"gpu-swarm.host": "g1", "gpu-swarm-leaving": "g1", "gpu_count": "2"}, ["gpu_count"]),
        ("", {"gpu.count": "2"}, []),
        ("gpu.", {"gpu.a": 2, "gpu.b": True, "gpu.c": "x\x1b[2J", "gpu.d": "a b", "gpu.e": "x" * 129, "gpu.f\n": "1", "gpu.g": "1\n"}, []),
    ],
)
def test_a_node_sets_labels_under_its_prefix_only(prefix, labels, kept):
    answer = with_allowed_labels({"labels": labels}, "g7", prefix, "cpu.")
    assert list(answer["labels"]) == kept
    dropped = [key for key in labels if key not in kept]
    assert len(answer.get("warnings", [])) == bool(dropped)
    for key in dropped[:5]:
        assert repr(key) in answer["warnings"][0]
        assert answer["warnings"][0].startswith("g7: ")


def test_a_node_sets_no_labels_without_number():
    answer = with_allowed_labels({"labels": {f"gpu.{number}": "1" for number in range(MAX_LABELS + 3)}}, "g7", "gpu.", "cpu.")
    assert len(answer["labels"]) == MAX_LABELS
    assert f"'gpu.{MAX_LABELS}'" in answer["warnings"][0]


def test_a_node_never_sets_labels_that_managers_record_about_it():
    wanted = {"fleet.count": "1", "fleet.gpu-swarm.on-loss": "report", "fleet.gpu-swarm.other": "1"}
    assert with_allowed_labels({"labels": dict(wanted)}, "g7", "fleet.", "")["labels"] == {"fleet.count": "1"}
    assert with_allowed_labels({"labels": {"gpu-swarm.host": "g1", "gcount": "1"}}, "g7", "g", "")["labels"] == {"gcount": "1"}


def test_the_prefixes_come_from_the_task_and_not_from_the_answer(monkeypatch):
    assert prefixes({}) == prefixes({"label_prefix": None}) == ("gpu.", "cpu.")
    assert prefixes({"label_prefix": "", "label_cpu_prefix": "my.cpu."}) == ("", "my.cpu.")
    cpu = {"machine": "x86_64", "vendor": None, "implementer": None, "part": None, "model": None, "features": []}
    lies = {"labels": {}, "labels_unknown": [""], "cpu": {**cpu, "label_prefix": "pci."}}
    allowed = with_allowed_labels(lies, "g7", "gpu.", "cpu.")
    assert allowed == {"labels": {"cpu.microarchitecture": "x86_64", "cpu.x86_64_level": "v1"}, "labels_unknown": []}
    assert with_allowed_labels(lies, "g7", "gpu.", "")["labels"] == {}
    assert with_allowed_labels({"labels": {}, "cpu": {**cpu, "features": [["x"]]}}, "g7", "gpu.", "cpu.")["labels"] == {}
    monkeypatch.setattr(cpu_names, "HAS_ARCHSPEC", False)
    assert with_allowed_labels(lies, "g7", "gpu.", "cpu.")["labels_unknown"] == ["cpu."]


# --- real runs --------------------------------------------------------------------------------------------------------

LIAR = """#!{python}
import json, subprocess, sys
done = subprocess.run([sys.executable, *sys.argv[1:]], stdin=sys.stdin, capture_output=True, text=True)
try:
    said = dict(json.loads(done.stdout), ansible_facts={{"verify_image": "evil", "of_play": "evil"}}, ansible_stats={{"data": {{"evil": 1}}}})
except ValueError:
    said = None
sys.stdout.write(json.dumps(said) if said else done.stdout)
"""

PLAYBOOK = """
- hosts: all
  gather_facts: false
  vars: {of_play: true}
  tasks:
    - %s
    - ansible.builtin.debug:
        msg: "{{ verify_image }} {{ of_play }}"
      run_once: true
"""


@pytest.fixture
def run_playbook(tmp_path):
    """Return a function that runs tasks with a lying first host. It returns each task's results by host. The last task shows two variables."""
    home = tmp_path / "collections" / "ansible_collections" / "fleet"
    home.mkdir(parents=True)
    (home / "gpu_swarm").symlink_to(nvml_lab.ROOT)
    liar = tmp_path / "liar"
    liar.write_text(LIAR.format(python=sys.executable))
    liar.chmod(0o755)
    inventory = tmp_path / "hosts.ini"
    common = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    inventory.write_text(f"bad {common} ansible_python_interpreter={liar}\ngood {common}\n[all:vars]\nverify_image=mine\n")

    def run(*tasks):
        playbook = tmp_path / "play.yml"
        playbook.write_text(PLAYBOOK % "\n    - ".join(tasks))
        environment = dict(
            os.environ,
            ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
            ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
            ANSIBLE_REMOTE_TEMP=str(tmp_path / "remote"),
            ANSIBLE_PIPELINING="True",
            ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json",
            GPU_LAB_NVML=nvml_lab.fleet("t4x4"),
        )
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), str(playbook)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        words = json.loads(done.stdout[done.stdout.index("{"):])
        return [task["hosts"] for task in words["plays"][0]["tasks"]]

    return run


def last_message(results):
    (last,) = results[-1].values()
    return last["msg"]


INFO = f"fleet.gpu_swarm.gpu_info: {{nvml_path: {nvml_lab.library()}}}"


def test_a_lying_first_host_sets_no_variable_of_the_run(run_playbook):
    assert last_message(run_playbook("ansible.builtin.ping:")) == "evil True"  # Ansible alone accepts the fact, but play variables override facts
    assert last_message(run_playbook(INFO)) == "mine True"


def test_a_host_whose_facts_are_settings_is_not_changed(run_playbook):
    """Variables that the user's own tasks set are not facts."""
    own = "ansible.builtin.set_fact: {gpu_node_mine: 1}", "ansible.builtin.command: {argv: ['true']}\n      register: gpu_swarm_mine"
    results = run_playbook("ansible.builtin.ping:", *own, INFO)
    assert not results[-2]["good"].get("failed")
    assert results[-2]["bad"]["failed"]
    assert "bad: this host returned facts that have the names of settings (verify_image)" in results[-2]["bad"]["msg"]
    assert last_message(results) == "mine True"


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"gpu_node_label_prefix": "x", "distribution": "Debian"}, "(gpu_node_label_prefix)"),
        ({"_gpu_swarm_manager": "x", "gpu_swarm_plan": {}}, "(_gpu_swarm_manager, gpu_swarm_plan)"),
        ({"provision_\x1b[2J": 1, "_verify_images": 1}, "(_verify_images, provision_\\x1b[2J)"),
        ({f"maintain_{number}": 1 for number in range(7)}, "maintain_4, …)"),
    ],
)
def test_facts_that_are_settings_are_named(facts, shown):
    assert shown in problem({"inventory_hostname": "g7", "ansible_facts": facts})


@pytest.mark.parametrize("variables", [{}, {"ansible_facts": {"local": {"gpu_node_expect": 1}, "my_gpu_node_x": 1}, "gpu_node_expect": 1}])
def test_variables_that_are_not_facts_may_have_any_name(variables):
    assert problem({"inventory_hostname": "g7", **variables}) is None
