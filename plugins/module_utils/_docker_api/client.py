# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of the Docker API: plain JSON over HTTP, with nothing but Python's standard library.

The one client of this collection, for the daemon of a node and for the API of a manager. It knows no endpoint.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
from typing import Any, Iterator, Mapping, NamedTuple
from urllib.parse import urlencode

from .connections import Tls, way
from .problems import Refused, Unanswered

AUTO = "auto"
PIECE = 1 << 16
SHOWN = 300  # characters of an answer that is no JSON


class Answer(NamedTuple):
    """``data`` is None if the daemon sent no content."""

    headers: http.client.HTTPMessage
    data: Any


class _Request(NamedTuple):
    method: str
    target: str
    body: Any = None
    headers: Mapping[str, str] = {}


class Client:
    """One daemon.

    ``version`` goes before each path. AUTO is the newest version that the daemon speaks, read once: a specification that is read in an older
    one may lack fields, and would lose them when it is written back. None sends no version, which means the newest one of whichever daemon
    answers, for a daemon that may be restarted as another release.
    """

    def __init__(self, address: str, tls: Tls | None = None, timeout: float = 60, version: str | None = AUTO) -> None:
        self._way = way(address, tls)
        self._timeout = timeout
        self._version = version
        self._idle: list[http.client.HTTPConnection] = []

    def get(self, path: str, filters: Mapping[str, Any] | None = None) -> Any:
        """The answer of GET."""
        return self.call("GET", filtered(path, filters)).data

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout: float | None = None) -> Answer:
        """Sends one request and returns the whole answer. Raises Refused and Unanswered."""
        request = _Request(method, self._versioned() + path, body, headers or {})
        response, content = self._exchange(request, timeout or self._timeout)
        if method != "GET" and not content.strip():
            return Answer(response.headers, None)
        return Answer(response.headers, _json(request, content))

    @contextlib.contextmanager
    def stream(self, path: str, endless: bool = False) -> Iterator[Iterator[bytes]]:
        """The answer of GET in pieces, as they come. The daemon may take as long as it likes for each piece if the stream is ``endless``."""
        request = _Request("GET", self._versioned() + path)
        timeout = None if endless else self._timeout
        connection = self._way.open(timeout=self._timeout)
        try:
            with _described(self._timeout):
                connection.connect()
                connection.sock.settimeout(timeout)
                response = self._send(connection, request)
                if not 200 <= response.status < 300:
                    raise Refused(response.status, _reason(response, response.read()), response.headers)
            yield _pieces(response, self._timeout)
        finally:
            connection.close()

    def _versioned(self) -> str:
        if self._version == AUTO:
            self._version = self._newest()
        return "/v%s" % self._version if self._version else ""

    def _newest(self) -> str:
        response, _content = self._exchange(_Request("GET", "/_ping"), self._timeout)
        version = response.headers.get("Api-Version")
        if not version:  # a proxy dropped it. Not /version at first: dockerd runs two programs to answer that.
            request = _Request("GET", "/version")
            version = (_json(request, self._exchange(request, self._timeout)[1]) or {}).get("ApiVersion")
        if not version:
            raise Unanswered("it does not say which version of the Docker API it speaks")
        return str(version)

    def _exchange(self, request: _Request, timeout: float) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connection(timeout)
        try:
            with _described(timeout):
                response = self._send(connection, request)
                content = response.read()
        except BaseException:
            connection.close()
            raise
        self._keep(connection, response)
        if not 200 <= response.status < 300:
            raise Refused(response.status, _reason(response, content), response.headers)
        return response, content

    def _send(self, connection: http.client.HTTPConnection, request: _Request) -> http.client.HTTPResponse:
        content = None if request.body is None else json.dumps(request.body).encode("utf-8")
        headers = {} if content is None else {"Content-Type": "application/json"}
        connection.request(request.method, self._way.base + request.target, content, {**headers, **self._way.headers, **request.headers})
        return connection.getresponse()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        """A connection that is open already, unless the daemon closed it, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if not select.select([connection.sock], [], [], 0)[0]:
                connection.sock.settimeout(timeout)
                return connection
            connection.close()
        return self._way.open(timeout=timeout)

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        """Over the network a new connection costs several round trips. A local one costs nothing, and dockerd may be restarted at any time."""
        if self._way.is_local or response.will_close or connection.sock is None:
            connection.close()
        else:
            self._idle.append(connection)


def with_query(path: str, **query: Any) -> str:
    """The path with these parameters."""
    return path + "?" + urlencode(query)


def filtered(path: str, filters: Mapping[str, Any] | None) -> str:
    """The path of a list with these filters of the API: a list of values by name."""
    return with_query(path, filters=json.dumps(filters)) if filters else path


@contextlib.contextmanager
def _described(timeout: float) -> Iterator[None]:
    try:
        yield
    except socket.timeout as problem:
        raise Unanswered("no answer within %g s" % timeout, problem) from problem
    except http.client.IncompleteRead as problem:
        raise Unanswered("the connection was cut before the end of the answer", problem) from problem
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise Unanswered(str(problem) or type(problem).__name__, problem) from problem


def _pieces(response: http.client.HTTPResponse, timeout: float) -> Iterator[bytes]:
    while True:
        with _described(timeout):
            piece = response.read1(PIECE)
        if not piece:
            break
        yield piece
    if response.length:
        raise Unanswered("the connection was cut, %d bytes before the end" % response.length)


def _json(request: _Request, content: bytes) -> Any:
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError as problem:
        raise Unanswered("%s %s was answered with %r, which is no JSON" % (request.method, request.target, text[:60]), problem) from problem


def _reason(response: http.client.HTTPResponse, content: bytes) -> str:
    """Why a daemon refuses a request: the message of its answer, or whatever there is. A proxy may send a page of HTML, or no words at all."""
    text = content.decode("utf-8", "replace")
    try:
        words = str(json.loads(text)["message"] or "")
    except (ValueError, TypeError, KeyError):
        words = " ".join(text.split())[:SHOWN]
    return words or "HTTP status %d (%s)" % (response.status, response.reason)
