# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only fake of dockerd. It is a real HTTP server on a Unix socket, or on a port with or without TLS, and answers from a table."""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import threading
from http.server import BaseHTTPRequestHandler

VERSION = re.compile(r"^(https?://[^/]+)?/v[0-9.]+(?=/)")
CUT = object()
NOT_FOUND = (404, '{"message":"page not found"}')


class Streamed(list):
    """An answer in parts. Each part is sent as one chunk. If a part is an event, the server waits for this event. CUT ends the connection."""


class Daemon:
    """Answers requests from ``answers``. An answer is data for JSON, (status, text), Streamed parts, or a callable that returns one of these.

    A key is the requested path, the path without the version, or the path without version and query.
    ``requests`` records all requests in order, ``methods`` their methods.
    """

    def __init__(self, at, headers=(), answers=(), context=None):
        self.headers, self.answers = dict(headers), dict(answers)
        self.requests, self.methods, self.bodies, self.received, self.connections = [], [], [], [], 0
        kind = socketserver.UnixStreamServer if isinstance(at, str) else socketserver.TCPServer
        quiet = {"daemon_threads": True, "block_on_close": False, "handle_error": lambda *_arguments: None}
        self._server = type("Server", (socketserver.ThreadingMixIn, kind), quiet)(at, Handler)
        self._server.daemon, self._server.context = self, context
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def port(self):
        return self._server.server_address[1]

    def answer(self, path):
        bare = VERSION.sub("", path)
        found = next((self.answers[one] for one in (path, bare, bare.partition("?")[0]) if one in self.answers), NOT_FOUND)
        return found() if callable(found) else found

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        self.daemon = self.server.daemon
        if self.server.context:
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        self.daemon.connections += 1
        super().setup()

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.daemon.bodies.append(json.loads(self.rfile.read(length)) if length else None)
        self.do_GET()

    do_DELETE = do_POST

    def do_CONNECT(self):
        self.daemon.requests.append(self.path)
        self.daemon.received.append(dict(self.headers))
        self.send_error(403)

    def do_GET(self):
        self.daemon.requests.append(self.path)
        self.daemon.methods.append(self.command)
        self.daemon.received.append(dict(self.headers))
        answer = self.daemon.answer(self.path)
        if isinstance(answer, Streamed):
            self._stream(answer)
            return
        status, text = answer if isinstance(answer, tuple) else (200, json.dumps(answer))
        body = text.encode()
        self._begin(status, ("Content-Length", str(len(body))))
        self.wfile.write(body)

    def _begin(self, status, *more):
        self.send_response_only(status)
        for name, value in [*self.daemon.headers.items(), *more]:
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, parts):
        self._begin(200, ("Transfer-Encoding", "chunked"))
        for part in parts:
            if part is CUT:
                self.close_connection = True
                return
            if isinstance(part, threading.Event):
                part.wait(20)
                continue
            data = part if isinstance(part, bytes) else part.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def handle(self):
        try:
            super().handle()
        except OSError:  # the client has closed the connection
            self.close_connection = True

    def finish(self):
        with contextlib.suppress(OSError):
            super().finish()

    def address_string(self):
        return "local"

    def log_message(self, *_arguments):
        pass
