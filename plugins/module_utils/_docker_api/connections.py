# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connects to a Docker daemon over its Unix socket, or over TCP with or without TLS. If the environment names a proxy, TCP goes through the proxy.

Private to this collection; it may change without notice.
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
    """The options of a connection with TLS. Without ``ca_path``, the system's certificate authorities are trusted."""

    verify: bool = True
    ca_path: str | None = None
    client_cert: str | None = None
    client_key: str | None = None


class Way(NamedTuple):
    """How to reach a daemon. ``open(timeout)`` returns a new connection. Each request needs ``headers``, and ``base`` in front of its path."""

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
    """The address of a daemon. ``scheme`` is unix, tcp, http, https, or an unknown scheme. ``place`` is the path of a socket, or the text after
    ``://``."""

    scheme: str
    place: str

    @property
    def is_local(self) -> bool:
        return self.scheme == "unix"


def parse_address(text: str) -> Address:
    """Return the address in this text.

    An empty text means the local socket. http+unix:// means unix://. An address without a scheme means tcp://.
    """
    scheme, sign, place = (text.strip() or SOCKET).partition("://")
    if not sign:
        return Address("tcp", scheme)
    scheme = scheme.lower()
    return Address("unix", "/" + place.lstrip("/")) if scheme in ("unix", "http+unix") else Address(scheme, place)


def find_way(address: str, tls: Tls | None = None) -> Way:
    """Return how to reach the daemon at ``address``: unix://PATH or tcp://HOST:PORT, also written as http:// and https://. Raises Unanswered.

    For an https:// address without ``tls``, the certificate of the server is verified.
    """
    parsed = parse_address(address)
    if parsed.is_local:
        return Way(partial(UnixConnection, parsed.place), is_local=True)
    if parsed.scheme not in NETWORK:
        raise Unanswered("docker_host begins with %s://, which this collection does not support: write unix:// or tcp://" % parsed.scheme)
    host, port, path = _split_place(address, parsed.place)
    if parsed.scheme == "https" or tls:
        return _tls_way(host, port, path, _tls_context(tls or Tls()))
    return _plain_way(host, port, path)


def _split_place(address: str, place: str) -> tuple[str, int, str]:
    parts = _split_url("//" + place)
    if not parts or not parts.hostname or not parts.port:
        raise Unanswered("docker_host %s does not contain a host and a port: write tcp://HOST:PORT" % address)
    return parts.hostname, parts.port, parts.path.rstrip("/")


def _split_url(text: str) -> SplitResult | None:
    """Return the parts of a URL; None if the host or port is invalid."""
    try:
        parts = urlsplit(text)
        return None if parts.port == 0 or re.search(r"[\x00-\x20\x7f]", text) else parts
    except ValueError:
        return None


def _tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS context.

    Do not use ssl.create_default_context(). Since Python 3.13 its contexts refuse authorities that Docker accepts, for example authorities without
    key usage.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    try:
        if tls.verify and tls.ca_path:
            context.load_verify_locations(tls.ca_path)
        elif tls.verify:
            context.load_default_certs()
        if tls.client_cert:
            context.load_cert_chain(tls.client_cert, tls.client_key, password="")  # otherwise OpenSSL would prompt for a password
    except (OSError, ValueError) as problem:
        files = ", ".join(file for file in (tls.ca_path, tls.client_cert, tls.client_key) if file)
        raise Unanswered("the TLS files %s cannot be used (%s)" % (files, problem), problem) from problem
    return context


def _tls_way(host: str, port: int, path: str, context: ssl.SSLContext) -> Way:
    proxy = _find_proxy("https", host, port)
    if proxy is None:
        return Way(partial(http.client.HTTPSConnection, host, port, context=context), path)

    def tunnel(timeout: float | None = None) -> http.client.HTTPConnection:
        connection = http.client.HTTPSConnection(proxy.host, proxy.port, timeout=timeout, context=context)
        connection.set_tunnel(host, port, dict(proxy.headers))
        return connection

    return Way(tunnel, path)


def _plain_way(host: str, port: int, path: str) -> Way:
    proxy = _find_proxy("http", host, port)
    if proxy is None:
        return Way(partial(http.client.HTTPConnection, host, port), path)
    name = "[%s]" % host if ":" in host else host
    return Way(partial(http.client.HTTPConnection, proxy.host, proxy.port), "http://%s:%d%s" % (name, port, path), proxy.headers)


class _Proxy(NamedTuple):
    host: str
    port: int
    headers: Mapping[str, str]


def _find_proxy(scheme: str, host: str, port: int) -> _Proxy | None:
    """Return the proxy that the environment names, or None.

    The variables are the same as for the docker command: HTTPS_PROXY with TLS, otherwise HTTP_PROXY. NO_PROXY lists exceptions.
    """
    from urllib.request import getproxies_environment  # slow to import, and not needed for a Unix socket

    proxies: Mapping[str, str] = getproxies_environment()
    url = proxies.get(scheme, "")
    if not url or _is_exempt(host, port, proxies.get("no", "")):
        return None
    parts = _split_url(url if "://" in url else "http://" + url)
    variable = "%s_PROXY" % scheme.upper()
    if not parts or parts.scheme != "http" or not parts.hostname:
        raise Unanswered("%s is %s, but only http:// proxies are supported for managers. Add %s to NO_PROXY" % (variable, url, host))
    headers = {"Proxy-Authorization": _basic(parts.username, parts.password or "")} if parts.username else {}
    return _Proxy(parts.hostname, parts.port or 80, headers)


def _basic(user: str, password: str) -> str:
    import base64

    return "Basic " + base64.b64encode(("%s:%s" % (unquote(user), unquote(password))).encode("utf-8")).decode("ascii")


def _is_exempt(host: str, port: int, no_proxy: str) -> bool:
    """Return whether the host is this machine, or NO_PROXY lists its name, its domain or its network, such as 192.0.2.0/24."""
    import ipaddress

    try:
        address: Any = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for item in no_proxy.split(","):
        entry = _without_port(item.strip().lower(), port)
        name = (entry[1:] if entry.startswith("*.") else entry).lstrip(".")
        if entry == "*" or (name and (host == name or host.endswith("." + name))):
            return True
        try:
            if address is not None and address in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue  # the entry is a name
    return False


def _without_port(entry: str, port: int) -> str:
    """Return an entry of NO_PROXY without this port. Entries with a port have the form NAME:PORT or [ADDRESS]:PORT."""
    host, colon, own = entry.rpartition(":")
    is_port = colon and own == str(port) and (":" not in host or host.endswith("]"))
    return (host if is_port else entry).strip("[]")
