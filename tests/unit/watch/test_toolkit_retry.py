# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher tries NVIDIA's toolkit after changes of files, and every minute while the toolkit fails."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._compat.checks import NO_CONTAINER
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import trial
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch import toolkit_retry

UUIDS = ["GPU-1"]
VERSION = "NVIDIA Container Toolkit CLI version %s\n"


class Node:
    def __init__(self, home, monkeypatch):
        self.config, self.now, self.fails, self.version, self.calls = home / "config.toml", 0.0, False, "1.20.0", []
        self.config.write_text('[nvidia-container-runtime]\nmode = "auto"\n')
        for module in (trial, toolkit_retry.toolkit):
            monkeypatch.setattr(module.shutil, "which", lambda name, path: "/usr/bin/" + name)
        self.it = toolkit_retry.Toolkit({"runtime_config": str(self.config), "nvml_path": None}, self, self.run)

    def monotonic(self):
        return self.now

    def run(self, argv):
        if argv[1:] == ["--version"]:
            return 0, VERSION % self.version, ""
        self.calls.append(argv)
        return (1, "", "it fails") if self.fails else (0, "", "")

    def minute(self):
        self.now += toolkit_retry.EVERY_S
        return self.it.problem(UUIDS)


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


def test_the_toolkit_is_tried_once_while_no_file_changes(node):
    assert [node.minute() for _minute in range(5)] == [None] * 5
    assert node.calls == [["/usr/bin/nvidia-ctk", "cdi", "generate", "--output="]]
    node.config.write_text('[nvidia-container-runtime]\nmode = "legacy"\n')
    node.minute()
    assert node.calls[1:] == [["/usr/bin/nvidia-container-cli", "info"]]


def test_a_failing_toolkit_is_tried_each_minute(node):
    node.fails = True
    words = "'nvidia-ctk cdi generate --output=' ends with 1: it fails"
    assert [node.it.problem(UUIDS) for _read in range(3)] == [words] * 3
    assert len(node.calls) == 4  # two trials, because a failed one is repeated
    node.minute()
    assert len(node.calls) == 6
    node.fails = False
    assert (node.it.problem(UUIDS), node.minute(), len(node.calls)) == (words, None, 7)


def test_the_read_that_confirms_a_fault_tries_the_toolkit_again(node):
    """For example, the toolkit fails while a package is half installed."""
    node.fails = True
    assert node.it.problem(UUIDS)
    node.fails = False
    assert [node.it.problem(UUIDS) for _read in range(2)] == [None, None]


def test_the_result_is_stored_for_assessments(node):
    node.minute()
    one = trial.trial_of({}, "jit-cdi", UUIDS)
    assert node.it.last_trial == {"inputs": trial.digest_inputs(str(node.config), None, one), "problem": None}


def test_a_toolkit_before_1_18_is_tried_in_its_mode(node):
    node.version = "1.17.8"
    node.minute()
    assert node.calls == [["/usr/bin/nvidia-container-cli", "info"]]


def test_a_mode_that_needs_nothing_is_not_tried(node):
    node.config.write_text('[nvidia-container-runtime]\nmode = "csv"\n')
    assert (node.minute(), node.calls) == (None, [])


def test_an_accepted_risk_or_nothing_advertised_means_no_trial(node):
    node.fails = True
    assert node.it.problem([]) is None
    node.it._settings = {**node.it._settings, "accept_risks": [NO_CONTAINER]}
    assert (node.minute(), node.calls) == (None, [])
