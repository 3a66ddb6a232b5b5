# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Docker API of simulated nodes. Each node has a Unix socket, and one thread serves all sockets."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from functools import partial
from http import HTTPStatus

from .docker import API_VERSION, Node, Swarm, body_of

SOCKET = "docker.sock"
VERSION = re.compile(r"^/v\d+\.\d+")


class Api:
    """Serves the API while the context is open."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def __exit__(self, *_problem: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._servers = [
            await asyncio.start_unix_server(partial(self._serve, node), node.folder / SOCKET, backlog=1000) for node in self._swarm.nodes.values()
        ]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        clients = asyncio.all_tasks() - {asyncio.current_task()}  # connections that are still open
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _serve(self, node: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                writer.write(await self._answer(node, head, reader))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # one side has closed the connection
        finally:
            writer.close()

    async def _answer(self, node: Node, head: str, reader: asyncio.StreamReader) -> bytes:
        first, *lines = head.splitlines()
        headers = {name.strip().lower(): value.strip() for name, _colon, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, target, _version = first.split()
        path, _mark, query = VERSION.sub("", target).partition("?")
        if VERSION.match(target):  # requests about a swarm have a version in the path; requests of a node to its own dockerd have none
            self._swarm.calls[f"{method} {path.split('/')[1]}"] += 1
        status, data = self._swarm.answer(node, method, path, query, json.loads(body) if body else None)
        text = body_of(data)
        answer = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nApi-Version: {API_VERSION}\r\n"
        return f"{answer}Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text
