# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy on a node. It sends requests for any name to the lab's repository."""

import http.server
import subprocess
import urllib.error
import urllib.parse
import urllib.request


class Forward(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        try:
            with urllib.request.urlopen("http://lab-repo" + path) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as answer:
            status, body = answer.code, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET


server = http.server.ThreadingHTTPServer(("127.0.0.1", 3128), Forward)
subprocess.run(["systemd-notify", "--ready"], check=True)
server.serve_forever()
