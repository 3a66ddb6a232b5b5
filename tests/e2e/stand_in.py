# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers on a Unix socket like a replacement of Docker: python3 stand_in.py podman|rootless|snap SOCKET."""

from __future__ import annotations

import http.server
import json
import socketserver
import sys

VERSION = {"Version": "26.1.5", "ApiVersion": "1.45", "Components": [{"Name": "Engine", "Version": "26.1.5"}]}
INFO = {"ServerVersion": "26.1.5", "DockerRootDir": "/var/lib/docker", "SecurityOptions": ["name=seccomp,profile=builtin"]}
ANSWERS = {
    "podman": {"/version": {**VERSION, "Version": "5.4.2", "Components": [{"Name": "Podman Engine", "Version": "5.4.2"}]}, "/info": INFO},
    "rootless": {"/version": VERSION, "/info": {**INFO, "SecurityOptions": [*INFO["SecurityOptions"], "name=rootless"]}},
    "snap": {"/version": VERSION, "/info": {**INFO, "DockerRootDir": "/var/snap/docker/common/var-lib-docker"}},
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = ANSWERS[sys.argv[1]].get(self.path)
        body = json.dumps(answer if answer is not None else []).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if sys.argv[1] == "podman":
            self.send_header("Libpod-API-Version", "5.4.2")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


socketserver.UnixStreamServer(sys.argv[2], Handler).serve_forever()
