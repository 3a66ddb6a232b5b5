# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drift between two runs is content that the next run would write again."""

from __future__ import annotations

import json

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.still_inserted import is_still_inserted

RESOURCES = ("NVIDIA-GPU=GPU-a", "NVIDIA-GPU=GPU-b")
DAEMON = {"resources": [*RESOURCES], "kinds": ["NVIDIA-GPU"]}
LABELLED, GUARDED = {**DAEMON, "label": "gpu-swarm.health"}, {**DAEMON, "runtime_before": "nvidia-container-runtime"}
RUNTIME = {"swarm_resource": "DOCKER_RESOURCE_NVIDIA-GPU"}
GUARD = "/usr/local/libexec/gpu-swarm/nvidia-guard"


def daemon(resources=RESOURCES, path="nvidia-container-runtime", default="nvidia", **more):
    return {"default-runtime": default, "runtimes": {"nvidia": {"path": path}}, "node-generic-resources": resources, **more}


@pytest.mark.parametrize(
    ("doc", "inserted", "kept"),
    [
        (daemon(), DAEMON, True),
        (daemon(debug=True), DAEMON, True),
        (daemon([*RESOURCES, "SSD=2"]), DAEMON, True),
        (daemon(RESOURCES[:1]), DAEMON, False),
        (daemon([*RESOURCES, "NVIDIA-GPU=GPU-c"]), DAEMON, False),
        (daemon(default="runc"), DAEMON, False),
        ({key: value for key, value in daemon().items() if key != "runtimes"}, DAEMON, False),
        ({}, DAEMON, False),
        (daemon(labels=["rack=r1", "gpu-swarm.health=ok"]), LABELLED, True),
        (daemon(labels=["gpu-swarm.health=fault reason=gone"]), LABELLED, True),
        (daemon(labels=["rack=r1"]), LABELLED, True),  # the watcher restores its label, or reports what prevents this
        (daemon(path=GUARD), GUARDED, True),
        (daemon(), GUARDED, False),
        (daemon(path=GUARD, debug=True), GUARDED, True),
    ],
)
def test_drift_of_daemon_json_is_found(doc, inserted, kept):
    for indent in (None, 1, 4):
        assert is_still_inserted(json.dumps(doc, indent=indent).encode(), "/etc/docker/daemon.json", inserted) is kept


@pytest.mark.parametrize("content", [None, b"", b'{"debug": tru', b"[]", b"\xff\xfe"])
def test_an_invalid_daemon_json_is_drift(content):
    assert not is_still_inserted(content, "/etc/docker/daemon.json", DAEMON)


@pytest.mark.parametrize(
    ("text", "more", "kept"),
    [
        ('swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n', {}, True),
        ("# mine\nswarm-resource='DOCKER_RESOURCE_NVIDIA-GPU'\n[nvidia-container-cli]\nroot = '/'\n", {}, True),
        ('swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n[nvidia-container-runtime]\nmode = "legacy"\n', {"mode": "legacy"}, True),
        ('swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n[nvidia-container-runtime]\nmode = "auto"\n', {"mode": "legacy"}, False),
        ('# swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n', {}, False),
        ('swarm-resource = "DOCKER_RESOURCE_GPU"\n', {}, False),
        (None, {}, False),
    ],
)
def test_drift_of_config_toml_is_found(text, more, kept):
    content = None if text is None else text.encode()
    assert is_still_inserted(content, "/etc/nvidia-container-runtime/config.toml", {**RUNTIME, **more}) is kept
