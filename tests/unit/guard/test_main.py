# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard as its front calls it, with the files that it reads."""

from __future__ import annotations

import json
import sys

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import call, findings, main

ID = 64 * "a"
VARIABLE = "DOCKER_RESOURCE_NVIDIA-GPU"


@pytest.fixture
def guard(tmp_path, monkeypatch):
    """Has the guard judge a container of this service that requests all GPUs; what swarm gave its task cannot be read."""
    home, bundle, record = tmp_path / "home", tmp_path / "bundle", tmp_path / "docker" / "containers" / ID
    for folder in (home, bundle, record):
        folder.mkdir(parents=True)
    monkeypatch.setattr(findings, "_JOURNAL", str(tmp_path / "no-journal"))
    (tmp_path / "config.toml").write_text('swarm-resource = "%s"\n' % VARIABLE)

    def guard(service, level):
        settings = {"level": level, "devices": [], "kinds": ["NVIDIA-GPU"], "data_root": str(tmp_path / "docker"), "run": str(tmp_path / "run")}
        (home / "settings.json").write_text(json.dumps({**settings, "runtime_config": str(tmp_path / "config.toml")}))
        labels = {"com.docker.swarm.task.id": "t1", "com.docker.swarm.service.name": service}
        (record / "config.v2.json").write_text(json.dumps({"Config": {"Labels": labels}}))
        (bundle / "config.json").write_text(json.dumps({"process": {"env": ["%s=all" % VARIABLE]}}))
        monkeypatch.setattr(sys, "argv", ["x", str(home), "--log", str(tmp_path / "log"), "create", "--bundle", str(bundle), ID])
        status = main.main()
        found = tmp_path / "run" / "found.json"
        return status, sorted(json.loads(found.read_text())) if found.exists() else []

    return guard


@pytest.mark.parametrize(
    ("service", "level", "status", "counted"),
    [
        ("train", "reserved", call.REFUSED, ["train"]),
        ("train", "audit", call.GOES_ON, ["train"]),
        ("gpu-swarm-verify-1f2e-2", "reserved", call.REFUSED, []),
        ("gpu-swarm-verify-1f2e-2", "exclusive", call.REFUSED, []),
        ("gpu-swarm-verify-1f2e-2", "audit", call.GOES_ON, ["gpu-swarm-verify-1f2e-2"]),  # no name hides from it what would be refused
        ("gpu-swarm-verifying", "reserved", call.REFUSED, ["gpu-swarm-verifying"]),
    ],
)
def test_what_verify_tries_is_refused_like_anything_else_and_not_counted(guard, service, level, status, counted):
    assert guard(service, level) == (status, counted)


def test_where_many_services_were_counted_the_one_of_longest_ago_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "_JOURNAL", str(tmp_path / "no-journal"))
    file = tmp_path / findings.FILE
    many = {"s%d" % place: {"forged": {"count": 1, "last": 1000 + place, "text": "x"}} for place in range(findings._SERVICES)}
    many["s0"]["hidden"] = {"count": 1, "last": 1795000000, "text": "x"}  # again, of late
    file.write_text(json.dumps(many))
    findings.add(str(tmp_path), "new", {"forged": "x"})
    assert json.loads(file.read_text()).keys() == {*many, "new"} - {"s1"}
    findings.add(str(tmp_path), "new", {"forged": "x"})
    kept = findings.read(str(file))
    assert (len(kept), kept["new"]["forged"]["count"]) == (findings._SERVICES, 2)
