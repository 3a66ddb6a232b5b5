# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of the Docker API: JSON over HTTP, with Python's standard library only.

All code of this collection uses this client, for the daemon of a node and for a manager. The client knows no endpoints: callers pass the path.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
from typing import Any, Iterator, Mapping, NamedTuple
from urllib.parse import urlencode

from .connections import Tls, find_way
from .problems import Refused, Unanswered

AUTO = "auto"
CHUNK_BYTES = 1 << 16
MOST_SHOWN = 300  # characters of an answer that is not JSON


class Answer(NamedTuple):
    """A daemon's answer to a request. ``data`` is None if the daemon sent no content."""

    headers: http.client.HTTPMessage
    data: Any


class _Request(NamedTuple):
    method: str
    target: str
    body: Any = None
    headers: Mapping[str, str] = {}


class Client:
    """Sends requests to one daemon.

    ``version`` is the API version in each path. With AUTO the client asks the daemon once for the newest version that the daemon supports. An older
    version may not show all fields of a specification, and a write would delete the missing fields. With None, paths have no version, and the daemon
    uses its newest version. Use None for a daemon that may be upgraded meanwhile.
    """

    def __init__(self, address: str, tls: Tls | None = None, timeout: float = 60, version: str | None = AUTO) -> None:
        self._way = find_way(address, tls)
        self._timeout = timeout
        self._version = version
        self._idle: list[http.client.HTTPConnection] = []

    def get(self, path: str, filters: Mapping[str, Any] | None = None) -> Any:
        """Send GET and return the data of the answer. ``filters`` are filters of the API: a list of values by name."""
        return self.call("GET", filtered(path, filters)).data

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout: float | None = None) -> Answer:
        """Send one request and return the whole answer. Raises Refused and Unanswered."""
        request = _Request(method, self._version_prefix() + path, body, headers or {})
        response, content = self._exchange(request, timeout or self._timeout)
        if method != "GET" and not content.strip():
            return Answer(response.headers, None)
        return Answer(response.headers, _json(request, content))

    @contextlib.contextmanager
    def stream(self, path: str, endless: bool = False) -> Iterator[Iterator[bytes]]:
        """Send GET and yield the answer in chunks as they arrive. If the stream is ``endless``, there is no time limit for a chunk."""
        request = _Request("GET", self._version_prefix() + path)
        timeout = None if endless else self._timeout
        connection = self._way.open(timeout=self._timeout)
        try:
            with _failures_described(self._timeout):
                connection.connect()
                connection.sock.settimeout(timeout)
                response = self._send(connection, request)
                if not 200 <= response.status < 300:
                    raise Refused(response.status, _reason(response, response.read()), response.headers)
            yield _chunks(response, self._timeout)
        finally:
            connection.close()

    def _version_prefix(self) -> str:
        if self._version == AUTO:
            self._version = self._read_newest_version()
        return "/v%s" % self._version if self._version else ""

    def _read_newest_version(self) -> str:
        response, _content = self._exchange(_Request("GET", "/_ping"), self._timeout)
        version = response.headers.get("Api-Version")
        if not version:  # a proxy dropped the header. /version is slower, because dockerd runs two programs to answer
            request = _Request("GET", "/version")
            version = (_json(request, self._exchange(request, self._timeout)[1]) or {}).get("ApiVersion")
        if not version:
            raise Unanswered("it does not report the version of its Docker API")
        return str(version)

    def _exchange(self, request: _Request, timeout: float) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._take_connection(timeout)
        try:
            with _failures_described(timeout):
                response = self._send(connection, request)
                content = response.read()
        except BaseException:
            connection.close()
            raise
        self._reuse_or_close(connection, response)
        if not 200 <= response.status < 300:
            raise Refused(response.status, _reason(response, content), response.headers)
        return response, content

    def _send(self, connection: http.client.HTTPConnection, request: _Request) -> http.client.HTTPResponse:
        content = None if request.body is None else json.dumps(request.body).encode("utf-8")
        headers = {} if content is None else {"Content-Type": "application/json"}
        connection.request(request.method, self._way.base + request.target, content, {**headers, **self._way.headers, **request.headers})
        return connection.getresponse()

    def _take_connection(self, timeout: float) -> http.client.HTTPConnection:
        """Return an idle connection that the daemon has not closed, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if not select.select([connection.sock], [], [], 0)[0]:
                connection.sock.settimeout(timeout)
                return connection
            connection.close()
        return self._way.open(timeout=timeout)

    def _reuse_or_close(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        """Keep a network connection for the next request, because a new connection costs several round trips. Close a local connection."""
        if self._way.is_local or response.will_close or connection.sock is None:
            connection.close()
        else:
            self._idle.append(connection)


def with_query(path: str, **query: Any) -> str:
    """Return the path with these parameters in its query."""
    return path + "?" + urlencode(query)


def filtered(path: str, filters: Mapping[str, Any] | None) -> str:
    """Return the path of a list with these filters."""
    return with_query(path, filters=json.dumps(filters)) if filters else path


@contextlib.contextmanager
def _failures_described(timeout: float) -> Iterator[None]:
    try:
        yield
    except socket.timeout as problem:
        raise Unanswered("no answer within %g s" % timeout, problem) from problem
    except http.client.IncompleteRead as problem:
        raise Unanswered("the connection was cut before the end of the answer", problem) from problem
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise Unanswered(str(problem) or type(problem).__name__, problem) from problem


def _chunks(response: http.client.HTTPResponse, timeout: float) -> Iterator[bytes]:
    while True:
        with _failures_described(timeout):
            chunk = response.read1(CHUNK_BYTES)
        if not chunk:
            break
        yield chunk
    if response.length:
        raise Unanswered("the connection was cut, %d bytes before the end" % response.length)


def _json(request: _Request, content: bytes) -> Any:
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError as problem:
        raise Unanswered("%s %s was answered with %r, which is not JSON" % (request.method, request.target, text[:60]), problem) from problem


def _reason(response: http.client.HTTPResponse, content: bytes) -> str:
    """Return why a daemon refuses a request: the message in the answer, or any other text in the answer, such as a proxy's HTML page."""
    text = content.decode("utf-8", "replace")
    try:
        message = str(json.loads(text)["message"] or "")
    except (ValueError, TypeError, KeyError):
        message = " ".join(text.split())[:MOST_SHOWN]
    return message or "HTTP status %d (%s)" % (response.status, response.reason)
