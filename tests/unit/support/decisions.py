# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Input for decisions about a node: observations and options, and a node that is in the desired state."""

from __future__ import annotations

import base64
import hashlib

import dockerd_lab
from node_lab import CONFIG_TOML, DAEMON_JSON, RULES, UUIDS, gpu, resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.decision import decide
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.observation import Observation

DAEMON, RUNTIME = "/etc/docker/daemon.json", "/etc/nvidia-container-runtime/config.toml"


def params(**options):
    defaults = {"state": "present", "restart": "if_needed", "advertise": RULES, "daemon_config": DAEMON, "runtime_config": RUNTIME}
    return dict(defaults, **options)


def engine(shown=(), runtime="runc", running=True, flags=(), unit_flags=()):
    return {
        "running": running,
        "generic_resources": dockerd_lab.generic_resources(shown),
        "default_runtime": runtime if running else None,
        "flags": list(flags),
        "unit_flags": list(unit_flags),
    }


def seen(daemon=DAEMON_JSON, toml=CONFIG_TOML, gpus=None, record=None, toolkit="1.20.0", missing=(), **of_engine):
    there, unit_problem = of_engine.pop("engine", True), of_engine.pop("unit_problem", None)
    return Observation(
        gpus=[gpu(0), gpu(1)] if gpus is None else gpus,
        driver_version="580.95.05",
        cuda_version="13.0",
        daemon=Snapshot(DAEMON, daemon, 0o644, 0, 0),
        runtime=Snapshot(RUNTIME, toml, 0o644, 0, 0),
        record=record or {},
        engine=engine(**dict({"shown": ["SSD=1"]}, **of_engine)) if there else None,
        containers=[],
        toolkit_version=toolkit,
        missing=list(missing),
        unit_problem=unit_problem,
    )


# The desired content of each file, by its former content. The tests compare these literal contents with the result of decide().
OF_DAEMON_JSON = (
    b'{\r\n   "log-driver": "local",\t"node-generic-resources": ["SSD=1", "NVIDIA-GPU=%s", "NVIDIA-GPU=%s"],\t"default-runtime": "nvidia",'
    b'\t"runtimes": {\r\n      "nvidia": {\r\n         "path": "nvidia-container-runtime"\r\n      }\r\n   }\r\n}'
) % tuple(uuid.encode() for uuid in UUIDS[:2])
OF_NO_DAEMON_JSON = b"""\
{
    "default-runtime": "nvidia",
    "runtimes": {
        "nvidia": {
            "path": "nvidia-container-runtime"
        }
    },
    "node-generic-resources": [
        "NVIDIA-GPU=%s",
        "NVIDIA-GPU=%s"
    ]
}
""" % tuple(uuid.encode() for uuid in UUIDS[:2])
RUNTIME_BY_HAND = b'{"runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime", "runtimeArgs": []}}}'
OF_RUNTIME_BY_HAND = (
    b'{"runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime", "runtimeArgs": []}}, "default-runtime": "nvidia",'
    b' "node-generic-resources": ["NVIDIA-GPU=%s", "NVIDIA-GPU=%s"]}'
) % tuple(uuid.encode() for uuid in UUIDS[:2])
SET_BEFORE = CONFIG_TOML.replace(b"#swarm-resource", b"swarm-resource")
OF_CONFIG_TOML = b"""\
# the site's own
disable-require = false
#swarm-resource = "DOCKER_RESOURCE_GPU"
swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"

[nvidia-container-runtime]
mode = "auto" # kept
"""
OF_SET_BEFORE = b"""\
# the site's own
disable-require = false
swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"

[nvidia-container-runtime]
mode = "auto" # kept
"""
FINISHED = {
    DAEMON_JSON: OF_DAEMON_JSON,
    None: OF_NO_DAEMON_JSON,
    RUNTIME_BY_HAND: OF_RUNTIME_BY_HAND,
    CONFIG_TOML: OF_CONFIG_TOML,
    SET_BEFORE: OF_SET_BEFORE,
}
ADDED = {
    DAEMON: {"resources": resources(0, 1), "kinds": ["NVIDIA-GPU"]},
    RUNTIME: {"swarm_resource": "DOCKER_RESOURCE_NVIDIA-GPU"},
}


def on_record(path, before):
    """Return the entry of record.json for a file that was changed once."""
    data = None if before is None else base64.b64encode(before).decode()
    return {
        "original": {"path": path, "data": data, "mode": 0o644, "uid": 0, "gid": 0},
        "backup": None,
        "ours": ADDED[path],
        "written": hashlib.sha256(FINISHED[before]).hexdigest(),
        "pristine": True,
    }


def converged(daemon=DAEMON_JSON, toml=CONFIG_TOML, **of_engine):
    """Return the observation of a node in the desired state, whose daemon was started with it."""
    record = {DAEMON: on_record(DAEMON, daemon), RUNTIME: on_record(RUNTIME, toml)}
    shown = {"shown": [*resources(0, 1), "SSD=1"], "runtime": "nvidia"}
    return {"daemon": FINISHED[daemon], "toml": FINISHED[toml], "record": record, **dict(shown, **of_engine)}


def absent(**found):
    return decide(params(state="absent"), seen(gpus=[], **found))
