# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way to a Docker daemon: its Unix socket, or TCP with or without TLS, through a proxy if the environment names one.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from functools import partial
from typing import Any, Callable, Mapping, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from .problems import Unanswered

SOCKET = "unix:///var/run/docker.sock"
NETWORK = ("tcp", "http", "https")


class Tls(NamedTuple):
    """Files and what they are used for. Without ``ca_path``, the authorities count that the system trusts."""

    verify: bool = True
    ca_path: str | None = None
    client_cert: str | None = None
    client_key: str | None = None


class Way(NamedTuple):
    """``open(timeout)`` returns a new connection. Each request's path follows ``base``; ``headers`` belong to each request."""

    open: Callable[..., http.client.HTTPConnection]
    base: str = ""
    headers: Mapping[str, str] = {}
    is_local: bool = False


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float | None = None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Address(NamedTuple):
    """unix, tcp, http or https, or what else somebody wrote; and the path of a socket, or what follows ://."""

    scheme: str
    place: str

    @property
    def is_local(self) -> bool:
        return self.scheme == "unix"


def address_of(text: str) -> Address:
    """The address in this text. No text is the local socket, http+unix:// is unix://, and an address without a scheme is one of tcp://."""
    scheme, sign, place = (text.strip() or SOCKET).partition("://")
    if not sign:
        return Address("tcp", scheme)
    scheme = scheme.lower()
    return Address("unix", "/" + place.lstrip("/")) if scheme in ("unix", "http+unix") else Address(scheme, place)


def way(address: str, tls: Tls | None = None) -> Way:
    """How to reach the daemon at ``address``: unix://PATH or tcp://HOST:PORT, also written as http:// and https://. Raises Unanswered.

    An https:// address without ``tls`` has its certificate verified.
    """
    found = address_of(address)
    if found.is_local:
        return Way(partial(UnixConnection, found.place), is_local=True)
    if found.scheme not in NETWORK:
        raise Unanswered("docker_host begins with %s://, which this collection does not speak: write unix:// or tcp://" % found.scheme)
    host, port, path = _host(address, found.place)
    if found.scheme == "https" or tls:
        return _secured(host, port, path, _context(tls or Tls()))
    return _plain(host, port, path)


def _host(address: str, place: str) -> tuple[str, int, str]:
    parts = _url("//" + place)
    if not parts or not parts.hostname or not parts.port:
        raise Unanswered("docker_host %s names no host and port: write tcp://HOST:PORT" % address)
    return parts.hostname, parts.port, parts.path.rstrip("/")


def _url(text: str) -> SplitResult | None:
    """The parts of a URL; None if its host or its port cannot be one."""
    try:
        parts = urlsplit(text)
        return None if parts.port == 0 or re.search(r"[\x00-\x20\x7f]", text) else parts
    except ValueError:
        return None


def _context(tls: Tls) -> ssl.SSLContext:
    """Not ssl.create_default_context(): from Python 3.13 on that refuses authorities that Docker accepts (no key usage, for one)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    try:
        if tls.verify and tls.ca_path:
            context.load_verify_locations(tls.ca_path)
        elif tls.verify:
            context.load_default_certs()
        if tls.client_cert:
            context.load_cert_chain(tls.client_cert, tls.client_key, password="")  # nobody is there to type one
    except (OSError, ValueError) as problem:
        files = ", ".join(file for file in (tls.ca_path, tls.client_cert, tls.client_key) if file)
        raise Unanswered("the TLS files %s cannot be used (%s)" % (files, problem), problem) from problem
    return context


def _secured(host: str, port: int, path: str, context: ssl.SSLContext) -> Way:
    proxy = _proxy("https", host, port)
    if proxy is None:
        return Way(partial(http.client.HTTPSConnection, host, port, context=context), path)

    def tunnel(timeout: float | None = None) -> http.client.HTTPConnection:
        connection = http.client.HTTPSConnection(proxy.host, proxy.port, timeout=timeout, context=context)
        connection.set_tunnel(host, port, dict(proxy.headers))
        return connection

    return Way(tunnel, path)


def _plain(host: str, port: int, path: str) -> Way:
    proxy = _proxy("http", host, port)
    if proxy is None:
        return Way(partial(http.client.HTTPConnection, host, port), path)
    name = "[%s]" % host if ":" in host else host
    return Way(partial(http.client.HTTPConnection, proxy.host, proxy.port), "http://%s:%d%s" % (name, port, path), proxy.headers)


class _Proxy(NamedTuple):
    host: str
    port: int
    headers: Mapping[str, str]


def _proxy(scheme: str, host: str, port: int) -> _Proxy | None:
    """The proxy of the environment, as the docker command takes it: HTTPS_PROXY with TLS, else HTTP_PROXY; none for NO_PROXY and this machine."""
    from urllib.request import getproxies_environment  # slow to import, and of no use on a Unix socket

    proxies: Mapping[str, str] = getproxies_environment()
    url = proxies.get(scheme, "")
    if not url or _is_exempt(host, port, proxies.get("no", "")):
        return None
    parts = _url(url if "://" in url else "http://" + url)
    variable = "%s_PROXY" % scheme.upper()
    if not parts or parts.scheme != "http" or not parts.hostname:
        raise Unanswered("%s is %s: a manager is reached through proxies of http:// alone. Set NO_PROXY for %s" % (variable, url, host))
    headers = {"Proxy-Authorization": _basic(parts.username, parts.password or "")} if parts.username else {}
    return _Proxy(parts.hostname, parts.port or 80, headers)


def _basic(user: str, password: str) -> str:
    import base64

    return "Basic " + base64.b64encode(("%s:%s" % (unquote(user), unquote(password))).encode("utf-8")).decode("ascii")


def _is_exempt(host: str, port: int, no_proxy: str) -> bool:
    """Whether the host is this machine, or NO_PROXY has it: by name, by a domain of it, or by a network such as 192.0.2.0/24. A port may follow."""
    import ipaddress

    try:
        address: Any = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in (one.strip().lower() for one in no_proxy.split(",")):
        entry = _without_port(entry, port)
        name = (entry[1:] if entry.startswith("*.") else entry).lstrip(".")
        if entry == "*" or (name and (host == name or host.endswith("." + name))):
            return True
        try:
            if address is not None and address in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue  # a name
    return False


def _without_port(entry: str, port: int) -> str:
    """An entry of NO_PROXY may end with this port: NAME:PORT or [ADDRESS]:PORT."""
    host, colon, own = entry.rpartition(":")
    is_port = colon and own == str(port) and (":" not in host or host.endswith("]"))
    return (host if is_port else entry).strip("[]")
