# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the plugin of nvidia-docker 1.0.1. It speaks Docker's volume plugin protocol on DIRECTORY/nvidia-docker.sock.

Its volumes are called nvidia_driver_VERSION and hold copies of the driver's files. Like the real plugin, it creates only the volume of the current
driver. It keeps, lists and removes volumes of former drivers.
"""

from __future__ import annotations

import http.server
import json
import re
import shutil
import socketserver
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

VOLUMES = Path("/var/lib/nvidia-docker/volumes/nvidia_driver")
FILES = {"bin": ["/usr/bin/nvidia-smi"], "lib64": ["/usr/lib/libnvidia-ml.so.1"]}


class Refused(Exception):
    """The plugin refuses Docker's request."""


def driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]


def folder(name: str) -> Path:
    parts = re.fullmatch(r"([a-zA-Z0-9_.-]+)_([0-9.]+)", name)
    if not parts:
        raise Refused(f"bad volume format: {name}")
    if parts[1] != VOLUMES.name:
        raise Refused(f"unsupported volume: {name}")
    return VOLUMES / parts[2]


def create(name: str) -> dict[str, Any]:
    if folder(name).name != driver():
        raise Refused(f"invalid volume version: {name}")
    for place, files in FILES.items():
        (folder(name) / place).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy2(file, folder(name) / place)
    return {}


def remove(name: str) -> dict[str, Any]:
    shutil.rmtree(folder(name), ignore_errors=True)
    return {}


def path(name: str) -> dict[str, Any]:
    if not folder(name).is_dir():
        raise Refused(f"no such volume: {name}")
    return {"Mountpoint": str(folder(name))}


def unmount(name: str) -> dict[str, Any]:
    folder(name)
    return {}


def get(name: str) -> dict[str, Any]:
    return {"Volume": {"Name": name, **path(name)}}


def listed(_name: str) -> dict[str, Any]:
    found = sorted(VOLUMES.iterdir()) if VOLUMES.is_dir() else []
    return {"Volumes": [get(f"{VOLUMES.name}_{place.name}")["Volume"] for place in found]}


ANSWERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "/Plugin.Activate": lambda _name: {"Implements": ["VolumeDriver"]},
    "/VolumeDriver.Capabilities": lambda _name: {"Capabilities": {"Scope": "local"}},
    "/VolumeDriver.Create": create,
    "/VolumeDriver.Remove": remove,
    "/VolumeDriver.Mount": path,
    "/VolumeDriver.Path": path,
    "/VolumeDriver.Unmount": unmount,
    "/VolumeDriver.Get": get,
    "/VolumeDriver.List": listed,
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        queried = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        try:
            answer = {**ANSWERS[self.path](queried.get("Name", "")), "Err": ""}
        except Refused as refused:
            answer = {"Err": str(refused)}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.plugins.v1.1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "docker"  # the client of a Unix socket has no address


socket = Path(sys.argv[1]) / "nvidia-docker.sock"
socket.unlink(missing_ok=True)
socketserver.ThreadingUnixStreamServer(str(socket), Handler).serve_forever()
