# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Docker API of a swarm manager, through the Docker SDK for Python.

The only file that imports the SDK. Everything that can go wrong on the way comes out as SwarmError with a remedy.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from functools import partial
from typing import Any, Callable, Collection, Iterator, Mapping, TypeVar
from urllib.parse import quote

from . import json_stream
from .failures import NOT_A_MANAGER, NotFound, OutOfSequence, Refused, SwarmError, leaderless, refuse_unless_manager, unreachable

# What the SDK raises; it lets errors of requests through while a daemon stops answering.
FAILURES: tuple[type[Exception], ...] = ()
SDK_ERROR = ""

try:
    from docker import APIClient
    from docker.errors import APIError, DockerException, create_api_error_from_http_exception
    from docker.tls import TLSConfig
    from requests.exceptions import HTTPError, RequestException
except ImportError as exc:
    SDK_ERROR = str(exc)
else:
    FAILURES = (DockerException, RequestException)

    class Client(APIClient):
        """Takes ca_path: requests prefers REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE to the session's own setting (psf/requests#3829)."""

        def merge_environment_settings(self, url: str, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
            own = self.verify if verify is None else verify
            return super().merge_environment_settings(url, proxies, stream, own, cert)

        def _retrieve_server_version(self) -> str:
            """As 'docker' does: for /version, which the SDK reads, dockerd runs two programs, which takes as long as all else here."""
            try:
                headers = self.get("%s/_ping" % self.base_url, timeout=self.timeout).headers
            except Exception as exc:  # as in the SDK: with a urllib3 that it does not know, that is a TypeError
                raise DockerException("its version cannot be read: %s" % exc) from exc
            return headers.get("Api-Version") or super()._retrieve_server_version()


# What a call answers.
Answer = TypeVar("Answer")

# By status: an invalid parameter, such as the name of an image, one that is not allowed, and one that names what is not there.
INPUT_REFUSED = (400, 403, 404)
# Every attempt reads anew, so losing this often in a row means that something updates the swarm without end.
ATTEMPTS = 10
# For so long what was read to connect counts.
RECENT_S = 1.0


def connect(params: Mapping[str, Any]) -> Manager:
    """A Manager for the connection options of a module."""
    if SDK_ERROR:
        raise SwarmError(
            "The Docker SDK for Python cannot be imported by %s on %s: %s. Install the distribution's package"
            " python3-docker there, or point ansible_python_interpreter to a Python that has it." % (sys.executable, platform.node(), SDK_ERROR),
            missing=["docker_sdk"],
        )
    where = params["docker_host"]
    try:
        client = Client(base_url=where, version=params["api_version"], timeout=params["timeout"], tls=_tls(params, os.environ))
        info = client.info()
    except FAILURES as exc:
        if _is_refusal(exc, _words(exc)):
            words = "The Docker daemon at %s refuses the connection with api_version %s: %s. Set another api_version, or leave it out."
            raise SwarmError(words % (where, params["api_version"], _words(exc))) from exc
        raise unreachable(where, _words(exc)) from exc
    refuse_unless_manager(info, where)
    return Manager(client, where, info["Swarm"], info.get("SystemTime"))


def _wants_tls(params: Mapping[str, Any]) -> bool:
    return params["tls"] or params["validate_certs"]


def _tls(params: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    if not _wants_tls(params):
        return False
    folder = environ.get("DOCKER_CERT_PATH")

    def path(option: str, name: str) -> str | None:
        return params[option] or (os.path.join(folder, name) if folder else None)

    cert, key = path("client_cert", "cert.pem"), path("client_key", "key.pem")
    if bool(cert) != bool(key):
        raise SwarmError("client_cert is %s and client_key is %s: give both or neither." % (cert or "not set", key or "not set"))
    authority = path("ca_path", "ca.pem")
    for option, file in (("ca_path", authority), ("client_cert", cert), ("client_key", key)):
        if file and not os.access(file, os.R_OK):
            raise SwarmError("%s on %s: %s cannot be read. Put the file there, or fix %s." % (file, platform.node(), option, option))
    try:
        return TLSConfig(
            client_cert=(cert, key) if cert else None,
            ca_cert=authority,
            verify=params["validate_certs"],
        )
    except DockerException as exc:
        raise SwarmError("%s. Fix ca_path, client_cert and client_key." % _words(exc)) from exc


def _words(exc: Exception) -> str:
    """What the daemon, or the way to it, said; without the request's address, which the SDK puts in front."""
    text = str(getattr(exc, "explanation", None) or exc)
    return text.strip().rstrip(".")


def _is_refusal(exc: Exception, words: str) -> bool:
    """Whether the daemon has judged its input. That a plugin of this machine allows no call is no such answer."""
    return isinstance(exc, APIError) and exc.status_code in INPUT_REFUSED and "authorization denied" not in words


def until_written(attempt: Callable[[], Answer]) -> Answer:
    """The answer of ``attempt()``, which reads, decides and writes; again as long as someone else was faster."""
    for _attempt in range(ATTEMPTS):
        try:
            return attempt()
        except OutOfSequence:
            continue
    raise SwarmError("The swarm was changed by someone else at each of %d attempts to change it. Run this again." % ATTEMPTS)


def _raise_for_status(response: Any) -> None:
    try:
        response.raise_for_status()
    except HTTPError as exc:
        raise create_api_error_from_http_exception(exc) from exc


class Manager:
    """A manager's view of its swarm, as the plain JSON of the API. ``time`` is its clock when it was connected to."""

    def __init__(self, client: Any, where: str, swarm: Mapping[str, Any], clock: str | None = None) -> None:
        self._client = client
        self._where = where
        self.time = clock
        self._recent = (swarm["Cluster"], clock, time.monotonic()) if clock else None  # what connect() has read, and when
        self.swarm_id = swarm["Cluster"]["ID"]
        self.node_id = swarm["NodeID"]
        self.spec = swarm["Cluster"].get("Spec") or {}
        self.autolocked = bool((self.spec.get("EncryptionConfig") or {}).get("AutoLockManagers"))

    def nodes(self) -> list[dict[str, Any]]:
        return self._call("list nodes", self._client.nodes)

    def node(self, node_id: str) -> dict[str, Any]:
        return self._call("read node %s" % node_id, self._client.inspect_node, node_id)

    def node_events(self) -> Iterator[None]:
        """Yields once the manager sends events, and then whenever a node was changed, until the manager ends that. Waits as long as it takes."""
        try:
            with self._stream("/events?filters=" + quote('{"type":["node"]}'), timeout=None) as response:
                yield
                for _part in response.iter_content(1 << 16):
                    yield
        except FAILURES as exc:
            raise self._failure("read the events of nodes", exc) from exc

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Every task, one at a time: a big swarm's are a hundred megabytes, and several times that once read.

        No filter makes them fewer without a loss. The API filters by what tasks are desired to be, and the ones that are to
        shut down, most of them ended long ago, may still have a GPU allocated; a job's are desired to be complete before and after.
        """
        return self._each("tasks", "")

    def services(self) -> list[dict[str, Any]]:
        return self._call("list services", self._client.services)

    def each_service(self, label: str = "") -> Iterator[dict[str, Any]]:
        """Every service, or every one with that label, one at a time as those of tasks()."""
        return self._each("services", "?filters=" + quote(json.dumps({"label": [label]})) if label else "")

    def _each(self, what: str, query: str) -> Iterator[dict[str, Any]]:
        try:
            with self._stream("/%s%s" % (what, query), self._client.timeout) as response:
                yield from json_stream.objects(response.iter_content(1 << 16))
        except FAILURES as exc:
            raise self._failure("list %s" % what, exc) from exc
        except ValueError as exc:
            raise SwarmError("The manager at %s broke off its list of %s: %s. Run this again." % (self._where, what, exc)) from exc

    def service(self, service_id: str) -> dict[str, Any]:
        return self._call("read service %s" % service_id, self._client.inspect_service, service_id)

    def tasks_of(self, service_id: str) -> list[dict[str, Any]]:
        return self._call("list tasks", lambda: self._client.tasks(filters={"service": [service_id]}))

    def names(self) -> dict[str, list[str]]:
        """What ends with the swarm, by name and by the words of the API."""
        lists = {"services": self._client.services, "secrets": self._client.secrets, "configs": self._client.configs}
        return {kind: [item["Spec"]["Name"] for item in self._call("list %s" % kind, call)] for kind, call in lists.items()}

    def tasks_labelled(self, label: str) -> list[dict[str, Any]]:
        """The tasks of services with that label, such as ``name=value``."""
        return self._call("list tasks", lambda: self._client.tasks(filters={"label": [label]}))

    def services_labelled(self, label: str) -> list[dict[str, Any]]:
        return self._call("list services", lambda: self._client.services(filters={"label": [label]}))

    def create_service(self, spec: Mapping[str, Any]) -> str:
        """The id of a new service. ``spec`` are the arguments of the SDK's create_service, in the API's own words."""
        return self._call("create service %s" % spec["name"], partial(self._client.create_service, **spec))["ID"]

    def update_service(self, service_id: str, version: int, spec: Mapping[str, Any]) -> None:
        """Write the whole spec, if the service still is at that version. The SDK would leave out what it does not know of it."""
        client = self._client
        url = "%s/v%s/services/%s/update?version=%d" % (client.base_url, client.api_version, service_id, version)
        self._call("update service %s" % spec["Name"], lambda: _raise_for_status(client.post(url, json=spec, timeout=client.timeout)))

    def remove_service(self, service_id: str) -> None:
        """Remove a service, unless somebody did."""
        self._remove("service", self._client.remove_service, service_id)

    def configs_labelled(self, label: str = "") -> list[dict[str, Any]]:
        """With what is in them; without a label all of them."""
        return self._call("list configs", lambda: self._client.configs(filters={"label": [label]} if label else None))

    def create_config(self, name: str, data: bytes, labels: Mapping[str, str]) -> None:
        self._call("create config %s" % name, self._client.create_config, name, data, labels)

    def remove_config(self, config_id: str) -> None:
        """Remove a config, unless somebody did."""
        self._remove("config", self._client.remove_config, config_id)

    def networks(self) -> list[dict[str, Any]]:
        """Those of the swarm, and this machine's own."""
        return self._call("list networks", self._client.networks)

    def networks_labelled(self, label: str) -> list[dict[str, Any]]:
        return self._call("list networks", lambda: self._client.networks(filters={"label": [label]}))

    def remove_network(self, network_id: str) -> None:
        """Remove a network, unless somebody did. While tasks are in it that fails."""
        self._remove("network", self._client.remove_network, network_id)

    def image_environment(self, image: str) -> list[str]:
        """What an image sets, as NAME=value; [] where this daemon does not have the image."""
        try:
            found = self._call("read the image %s" % image, self._client.inspect_image, image)
        except NotFound:
            return []
        return (found.get("Config") or {}).get("Env") or []

    def registry_says(self, image: str, login: Mapping[str, str] | None = None) -> str:
        """Why the image could not be read from its registry; empty where it could.

        An empty login is none; without one, those count that the user of this process has on this machine."""
        try:
            self._client.inspect_distribution(image, None if login is None else dict(login))
        except FAILURES as exc:
            return _words(exc)
        return ""

    def secrets_labelled(self, label: str = "") -> list[dict[str, Any]]:
        return self._call("list secrets", lambda: self._client.secrets(filters={"label": [label]} if label else None))

    def remove_secret(self, secret_id: str) -> None:
        """Remove a secret, unless somebody did."""
        self._remove("secret", self._client.remove_secret, secret_id)

    def task_log(self, task_id: str, last: int | None = None) -> Iterator[bytes]:
        """Yields what a task has printed as the API has it, in pieces: with a header before each part, unless it has a terminal; with timestamps,
        or without them the ``last`` lines alone."""
        which = "timestamps=1" if last is None else "tail=%d" % last
        try:
            with self._stream("/tasks/%s/logs?stdout=1&stderr=1&%s" % (task_id, which), self._client.timeout) as response:
                yield from response.iter_content(1 << 16)
        except FAILURES as exc:
            raise self._failure("read the log of task %s" % task_id, exc) from exc

    def update_node(self, node_id: str, version: int, spec: Mapping[str, Any]) -> None:
        """Write the whole spec, if the node still is at that version."""
        self._call("update node %s" % node_id, self._client.update_node, node_id, version, spec)

    def cluster(self) -> tuple[dict[str, Any], str]:
        """(the swarm's own object, the time on this manager). Of /info: unlike /swarm, it carries no join tokens. Right after connect() it is
        what that has read, once: dockerd runs two programs for each /info."""
        recent, self._recent = self._recent, None
        if recent and time.monotonic() - recent[2] < RECENT_S:
            return recent[:2]
        info = self._call("read the swarm", self._client.info)
        refuse_unless_manager(info, self._where)
        return info["Swarm"]["Cluster"], info["SystemTime"]

    def leader(self) -> str:
        """The node id of the manager that leads the swarm, by which each update is stamped."""
        managers = self._call("list managers", lambda: self._client.nodes(filters={"role": "manager"}))
        leading = [one["ID"] for one in managers if (one.get("ManagerStatus") or {}).get("Leader")]
        if not leading:
            raise SwarmError(NOT_A_MANAGER["lost_leader"].format(where=self._where, error="", known="none known here"), swarm_state="no_quorum")
        return leading[0]

    def join_tokens(self) -> dict[str, str]:
        """The tokens with which machines join, by role."""
        return self._call("read the join tokens", self._client.inspect_swarm)["JoinTokens"]

    def update_cluster(self, version: int, spec: Mapping[str, Any], rotate: Collection[str] = ()) -> None:
        """Write the whole spec of the swarm, if it still is at that version; replace the join tokens of the roles ``rotate``."""
        self._call("update the swarm", self._client.update_swarm, version, spec, "worker" in rotate, "manager" in rotate)

    def _remove(self, what: str, call: Callable[[str], Any], one: str) -> None:
        try:
            self._call("remove %s %s" % (what, one), call, one)
        except NotFound:
            return

    def _stream(self, path: str, timeout: float | None) -> Any:
        """The SDK reads lists as a whole; it is a session of requests besides."""
        client = self._client
        response = client.get("%s/v%s%s" % (client.base_url, client.api_version, path), stream=True, timeout=timeout)
        _raise_for_status(response)
        return response

    def _call(self, what: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except FAILURES as exc:
            raise self._failure(what, exc) from exc

    def _failure(self, what: str, exc: Exception) -> SwarmError:
        words = _words(exc)
        if "out of sequence" in words:
            return OutOfSequence("Could not %s: it was changed by someone else meanwhile. Run this again." % what)
        state = leaderless(words)
        if state:
            message = NOT_A_MANAGER[state].format(where=self._where, error=" (%s)" % words, known="see 'docker node ls'")
            return SwarmError(message, swarm_state="no_quorum")
        if isinstance(exc, APIError) and exc.status_code == 404:
            return NotFound("The manager at %s would not %s: %s." % (self._where, what, words))
        if _is_refusal(exc, words):
            return Refused("The manager at %s would not %s: %s." % (self._where, what, words))
        if isinstance(exc, APIError):
            return SwarmError("The manager at %s would not %s: %s." % (self._where, what, words))
        return unreachable(self._where, words)
