# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node is not ready if its toolkit cannot give GPUs to containers. An assessment tries the program that the toolkit's mode needs."""

from __future__ import annotations

import json
import os

import pytest
from node_lab import UUIDS, gpu, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._compat.checks import NO_CONTAINER
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import hardware, toolkit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import trial
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.trial import Trial

CLI_ROOT = {"nvidia-container-cli.root": "/run/nvidia/driver"}
AS_THE_HOOK = {
    "nvidia-container-cli.path": "/opt/bin/cli", "nvidia-container-cli.ldcache": "/opt/ld.so.cache", "nvidia-container-cli.user": "root:video",
    "nvidia-container-cli.no-cgroups": False, "nvidia-container-cli.environment": (),
}  # fmt: skip
OWN_VARIABLES = {"nvidia-container-cli.environment": ("LD_LIBRARY_PATH=/opt/driver",)}
AUTOMATIC = {"nvidia-container-runtime.modes.cdi.default-kind": "runtime.nvidia.com/gpu"}
CDI = {"nvidia-container-runtime.modes.cdi.default-kind": "example.com/card", "nvidia-container-runtime.modes.cdi.spec-dirs": ("/srv/cdi",)}
GENERATE = Trial(["nvidia-ctk", "cdi", "generate", "--output="])
SAID = 'time="2026-11-28T10:00:00Z" level=error msg="failed to generate CDI spec: failed to locate libcuda.so"'


@pytest.mark.parametrize(
    ("values", "mode", "expected"),
    [
        ({}, "jit-cdi", GENERATE),
        ({}, "legacy", Trial(["nvidia-container-cli", "info"])),
        (CLI_ROOT, "legacy", Trial(["nvidia-container-cli", "--root=/run/nvidia/driver", "info"])),
        (AS_THE_HOOK, "legacy", Trial(["/opt/bin/cli", "--ldcache=/opt/ld.so.cache", "--user=root:video", "info"])),
        (OWN_VARIABLES, "legacy", None),
        (AUTOMATIC, "cdi", GENERATE),
        ({}, "cdi", Trial(["nvidia-ctk", "cdi", "list"], ["nvidia.com/gpu=U1", "nvidia.com/gpu=U2"])),
        (CDI, "cdi", Trial(["nvidia-ctk", "cdi", "list", "--spec-dir=/srv/cdi"], ["example.com/card=U1", "example.com/card=U2"])),
        ({}, "csv", None),
        ({}, None, None),
    ],
)
def test_the_toolkit_is_tried_in_its_mode(values, mode, expected):
    assert trial.trial_of(values, mode, ["U1", "U2"]) == expected


LIST = Trial(["nvidia-ctk", "cdi", "list"], ["nvidia.com/gpu=U1", "nvidia.com/gpu=U2", "nvidia.com/gpu=U3"])


@pytest.mark.parametrize(
    ("one", "done", "words"),
    [
        (GENERATE, (0, "cdiVersion: 0.5.0\n", "level=info"), None),
        (GENERATE, (1, "", f"level=warning\n{SAID}\n"), f"'nvidia-ctk cdi generate --output=' ends with 1: {SAID}"),
        (GENERATE, (1, "", ""), "'nvidia-ctk cdi generate --output=' ends with 1: no output"),
        (LIST, (0, "nvidia.com/gpu=U1\nnvidia.com/gpu=U2\nnvidia.com/gpu=U3\nnvidia.com/gpu=all\n", ""), None),
        (LIST, (0, "nvidia.com/gpu=0\nnvidia.com/gpu=U1\n", ""), "'nvidia-ctk cdi list' does not list nvidia.com/gpu=U2 and 1 more. Create the"),
        (LIST, (0, "", 'level=info msg="Found 0 CDI devices"'), "'nvidia-ctk cdi list' does not list nvidia.com/gpu=U1 and 2 more. Create the"),
    ],
)
def test_a_problem_is_read_from_the_output_of_a_trial(one, done, words):
    found = trial.problem_in_output(one, *done)
    assert found is None if words is None else found.startswith(words)


class Programs:
    """Returns the given answers in turn, in place of the programs that a trial calls."""

    def __init__(self, *ends):
        self.calls, self.ends = [], list(ends)

    def run(self, argv):
        self.calls.append(argv)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


@pytest.fixture
def _installed(monkeypatch):
    monkeypatch.setattr(trial.shutil, "which", lambda name, path: "/usr/bin/" + name)


FAILS, WORKS = (1, "", SAID), (0, "", "")


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(("ends", "fails", "calls"), [([WORKS], False, 1), ([FAILS, WORKS], False, 2), ([FAILS, FAILS], True, 2)])
def test_a_trial_that_fails_once_is_repeated(ends, fails, calls):
    programs = Programs(*ends)
    assert bool(trial.find_problem(programs.run, GENERATE)) == fails
    assert [argv[0] for argv in programs.calls] == ["/usr/bin/nvidia-ctk"] * calls


@pytest.mark.usefixtures("_installed")
def test_a_hung_trial_is_a_failed_one():
    late = GpuSwarmError("'/usr/bin/nvidia-ctk cdi generate' timed out after 30 s")
    assert trial.find_problem(Programs(late, late).run, GENERATE) == late.message


def test_a_missing_toolkit_is_not_tried():
    assert trial.find_problem(Programs().run, Trial(["no-such-program"])) is None
    assert trial.find_problem(Programs().run, None) is None


def test_a_result_depends_on_settings_and_specifications_and_the_trial(tmp_path):
    config, specs = tmp_path / "config.toml", tmp_path / "cdi"
    config.write_text("")
    specs.mkdir()
    seen = set()
    for step in (None, lambda: config.write_text("x = 1"), lambda: (specs / "nvidia.yaml").write_text("{}")):
        if step:
            step()
        digest = trial.digest_inputs(str(config), None, GENERATE, [str(specs)])
        assert digest == trial.digest_inputs(str(config), None, GENERATE, [str(specs)])
        seen.add(digest)
    seen.add(trial.digest_inputs(str(config), None, LIST, [str(specs)]))
    assert len(seen) == 4


# --- a node ---------------------------------------------------------------------------------------------------------

FAULT = "fault reason=toolkit"


@pytest.fixture
def it(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    monkeypatch.setattr(hardware, "uptime_s", lambda: 9999.0)
    made = node(tmp_path)
    made.tried = []
    made.fails = None

    def problem(_run, one):
        made.tried.append(one)
        return made.fails

    monkeypatch.setattr(trial, "find_problem", problem)
    made.toolkit_version = None
    return made


def test_a_failed_toolkit_is_refused_with_its_message(it):
    before = it.everything()
    it.fails = f"'nvidia-ctk cdi generate --output=' ends with 1: {SAID}"
    (refused,) = it.assess()["refused"]
    assert (refused["id"], SAID in refused["text"], it.assess()["fault"]) == (NO_CONTAINER, True, None)
    assert refused["text"].startswith("NVIDIA Container Toolkit, 'nvidia-ctk cdi generate --output=' ends with 1")
    with pytest.raises(GpuSwarmError, match="NVIDIA's toolkit cannot give GPUs to containers"):
        it.converge()
    assert it.everything() == before


def test_a_failed_toolkit_is_a_fault_on_a_node_that_advertises_gpus(it):
    it.converge()
    it.fails = "it fails"
    assert (it.assess()["fault"], [one["id"] for one in it.assess()["refused"]]) == (FAULT, [NO_CONTAINER])
    it.option(accept_risks=[NO_CONTAINER])
    accepted = it.assess()
    assert (accepted["fault"], accepted["refused"], any("it fails" in text for text in accepted["warnings"])) == (None, [], True)


@pytest.mark.parametrize(("version", "tried"), [("1.17.8", "nvidia-container-cli"), ("1.18.2", None), ("1.19.0", "nvidia-ctk")])
def test_a_mode_that_the_run_will_replace_is_not_tried(it, monkeypatch, version, tried):
    """With toolkit 1.18 the assessment tries nothing, because the run will replace the mode. Only legacy mode may work on the node."""
    monkeypatch.setattr(toolkit, "read_version", lambda _run, _path: version)
    it.assess()
    assert [one and one.command[0] for one in it.tried] == [tried]


@pytest.mark.parametrize("option", [{"advertise": []}, {"restart": "never"}, {"state": "absent"}])
def test_only_a_node_that_advertises_gpus_is_tried(it, option):
    it.option(**option).assess()
    assert it.tried == []


def test_with_a_failed_card_the_trial_adds_nothing(it):
    it.gpus = [gpu(0), gpu(1, "failed")]
    it.assess()
    assert it.tried == []


def test_a_trial_of_the_watcher_with_the_same_files_is_not_repeated(it):
    it.option(health=True, health_faults=[], health_ignored=[], nvml_timeout=60)
    it.converge()
    status = it.home / "run/gpu-swarm/health.json"
    one = trial.trial_of({}, "legacy", UUIDS[:2])
    it.put("runtime_config", it.content("runtime_config").replace(b'"auto"', b'"legacy"'))
    values = trial.digest_inputs(it.params["runtime_config"], None, one)
    for problem, tries in ((None, 0), ("it failed", 1)):
        status.write_text(json.dumps({"pid": os.getpid(), "label": "ok", "tried": {"inputs": values, "problem": problem}}))
        it.tried.clear()
        it.assess()
        assert len(it.tried) == tries
    status.write_text(json.dumps({"pid": os.getpid(), "label": "ok", "tried": {"inputs": "other", "problem": None}}))
    it.assess()
    assert it.tried[1:] == [one]
