# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Docker API of a swarm manager. Each failure is a SwarmError with a remedy.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import time
from typing import Any, Callable, Collection, Iterator, Mapping, TypeVar
from urllib.parse import quote

from .._docker_api import logins
from .._docker_api import problems as api
from .._docker_api.client import AUTO, Client, filtered, with_query
from .._docker_api.connections import Tls
from .._mask import mask
from . import json_stream
from .failures import NOT_A_MANAGER, NotFound, OutOfSequence, Refused, SwarmError, missing_leader, refuse_unless_manager, unreachable

# The result of a call.
Answer = TypeVar("Answer")

# The HTTP statuses for an invalid parameter (such as an image name), a forbidden request, and a missing object.
INPUT_REFUSED = (400, 403, 404)
# Each attempt reads the object again. If this many attempts in a row fail, something updates the swarm all the time.
ATTEMPTS = 10
# The connection options of programs on a manager. They use the socket of its daemon.
BY_SOCKET = dict(tls=False, validate_certs=False, ca_path=None, client_cert=None, client_key=None, api_version=AUTO)
# The event that may stand for a change of any object.
ANY = ("", "")
# How long cluster() may return the data that connect() has read (seconds).
RECENT_S = 1.0


def connect(params: Mapping[str, Any]) -> Manager:
    """Return a Manager for the connection options of a module."""
    where = mask(params["docker_host"])
    if params["timeout"] < 1:
        words = "timeout is %d, but must be 1 or more: the seconds to wait for an answer of Docker (also DOCKER_TIMEOUT). Nothing was changed."
        raise SwarmError(words % params["timeout"])
    tls = _tls(params, os.environ)
    try:
        client = Client(params["docker_host"], tls, params["timeout"], params["api_version"])
        info = client.get("/info")
    except api.ApiError as exc:
        if _is_refusal(exc) and params["api_version"] != AUTO:
            words = "The Docker daemon at %s refuses the connection with api_version %s: %s. Set another api_version, or omit it."
            raise SwarmError(words % (where, params["api_version"], exc.words)) from exc
        raise unreachable(where, exc.words) from exc
    refuse_unless_manager(info, where)
    return Manager(client, where, info["Swarm"], info.get("SystemTime"))


def _tls(params: Mapping[str, Any], environ: Mapping[str, str]) -> Tls | None:
    if not (params["tls"] or params["validate_certs"]):
        return None
    folder = environ.get("DOCKER_CERT_PATH")

    def path(option: str, name: str) -> str | None:
        return params[option] or (os.path.join(folder, name) if folder else None)

    cert, key = path("client_cert", "cert.pem"), path("client_key", "key.pem")
    if bool(cert) != bool(key):
        raise SwarmError("client_cert is %s and client_key is %s: set both of them or none." % (cert or "not set", key or "not set"))
    authority = path("ca_path", "ca.pem")
    for option, file in (("ca_path", authority), ("client_cert", cert), ("client_key", key)):
        if file and not os.access(file, os.R_OK):
            raise SwarmError("%s on %s: %s cannot be read. Put the file there, or fix %s." % (file, platform.node(), option, option))
    return Tls(params["validate_certs"], authority, cert, key)


def _login_header(image: str, login: Mapping[str, str] | None) -> dict[str, str]:
    """Return the header with this login to the image's registry. If ``login`` is None, it is this user's login on this machine.

    A node with the containerd image store uses a login only for its server.
    """
    if login:
        registry = logins.registry_of(image)
        login = {**login, "serveraddress": logins.DOCKER_HUB_URL if registry == logins.DOCKER_HUB else registry}
    return logins.login_header(logins.read_login(image) if login is None else login)


def _is_refusal(exc: api.ApiError) -> bool:
    """Return whether the daemon refused the content of a request. False if an authorization plugin of this machine refused the request."""
    return isinstance(exc, api.Refused) and exc.status in INPUT_REFUSED and "authorization denied" not in exc.words


def _changed(event: bytes) -> tuple[str, str]:
    """Return the kind and the id of the object that the event names."""
    try:
        found = json.loads(event)
        return str(found["Type"]), str(found["Actor"]["ID"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ANY


def until_written(attempt: Callable[[], Answer]) -> Answer:
    """Return the result of ``attempt()``, which reads, decides and writes. Calls it again if somebody else wrote first."""
    for _attempt in range(ATTEMPTS):
        try:
            return attempt()
        except OutOfSequence:
            continue
    raise SwarmError("The swarm could not be changed: somebody else changed it during each of %d attempts. Run this again." % ATTEMPTS)


class Manager:
    """A manager's view of its swarm, as plain JSON of the API. ``time`` is the manager's time when the connection was made."""

    def __init__(self, client: Client, where: str, swarm: Mapping[str, Any], clock: str | None = None) -> None:
        self._client = client
        self._where = where
        self.time = clock
        self._recent = (swarm["Cluster"], clock, time.monotonic()) if clock else None  # what connect() has read, and when
        self.swarm_id = swarm["Cluster"]["ID"]
        self.node_id = swarm["NodeID"]
        self.spec = swarm["Cluster"].get("Spec") or {}
        self.autolocked = bool((self.spec.get("EncryptionConfig") or {}).get("AutoLockManagers"))

    # -- nodes -------------------------------------------------------------------------------------------------

    def nodes(self) -> list[dict[str, Any]]:
        return self._list("nodes")

    def node(self, node_id: str) -> dict[str, Any]:
        return self._read("read node %s" % node_id, "/nodes/%s" % quote(node_id))

    def update_node(self, node_id: str, version: int, spec: Mapping[str, Any]) -> None:
        """Write the whole spec. Raises OutOfSequence if the node no longer has this version."""
        self._post("update node %s" % node_id, with_query("/nodes/%s/update" % quote(node_id), version=version), spec)

    def remove_node(self, node_id: str) -> bool:
        """Remove a node from the swarm's list, and return whether the node was listed. Uses force, because swarm notices only later that the node has
        left."""
        return self._remove("node", node_id, "?force=true")

    def events(self, *kinds: str) -> Iterator[tuple[str, str]]:
        """Yield the kind and the id of each object of these kinds (``node``, ``service``) when it changes. Ends when the manager ends the stream.
        There is no time limit.

        Yield ``ANY`` once when the manager begins to send events, and for an event that cannot be read.
        """
        try:
            with self._client.stream(with_query("/events", filters=json.dumps({"type": kinds}, separators=(",", ":"))), endless=True) as pieces:
                yield ANY
                rest = b""
                for piece in pieces:
                    *lines, rest = (rest + piece).split(b"\n")
                    yield from map(_changed, lines)
        except api.ApiError as exc:
            raise self._failure("read the events of %ss" % "s and ".join(kinds), exc) from exc

    def leader(self) -> str:
        """Return the node id of the manager that leads the swarm. The leader's clock stamps each update."""
        managers = self._list("nodes", {"role": ["manager"]})
        leaders = [node["ID"] for node in managers if (node.get("ManagerStatus") or {}).get("Leader")]
        if not leaders:
            raise SwarmError(NOT_A_MANAGER["lost_leader"].format(where=self._where, error="", known="none known here"), swarm_state="no_quorum")
        return leaders[0]

    # -- tasks -------------------------------------------------------------------------------------------------

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Yield every task, one at a time.

        In a big swarm, the text of all tasks has a hundred megabytes. The parsed tasks would need several times as much memory.

        A filter cannot help, because the API filters by desired state. Most tasks with the desired state shutdown ended long ago, but some still have
        a GPU allocated. A job's tasks have the desired state complete before and after they end.
        """
        return self._each("tasks")

    def tasks_of(self, service_id: str) -> list[dict[str, Any]]:
        return self._list("tasks", {"service": [service_id]})

    def tasks_labelled(self, label: str) -> list[dict[str, Any]]:
        """Return the tasks of services with this label, such as ``name=value``."""
        return self._list("tasks", {"label": [label]})

    def task_log(self, task_id: str, last: int | None = None) -> Iterator[bytes]:
        """Yield a task's log as the API sends it, in pieces. Each part has a header, unless the task has a terminal.

        With ``last``, yield only this number of lines from the end, without timestamps. Otherwise yield all lines, with timestamps.
        """
        return self._task_log(task_id, {"timestamps": 1} if last is None else {"tail": last})

    def task_output(self, task_id: str, follow: bool = False) -> Iterator[bytes]:
        """Yield the whole output of a task as the API sends it, without timestamps.

        With ``follow``, also yield what the task writes later. Then the stream may never end, not even after the task.
        """
        return self._task_log(task_id, {"follow": 1} if follow else {}, endless=follow)

    def _task_log(self, task_id: str, options: Mapping[str, int], endless: bool = False) -> Iterator[bytes]:
        path = with_query("/tasks/%s/logs" % quote(task_id), stdout=1, stderr=1, **options)
        try:
            with self._client.stream(path, endless=endless) as pieces:
                yield from pieces
        except api.ApiError as exc:
            raise self._failure("read the log of task %s" % task_id, exc) from exc

    # -- services ----------------------------------------------------------------------------------------------

    def services(self) -> list[dict[str, Any]]:
        return self._list("services")

    def each_service(self, label: str = "") -> Iterator[dict[str, Any]]:
        """Yield the services with this label, or all services, one at a time like ``tasks()``."""
        return self._each("services", {"label": [label]} if label else None)

    def services_labelled(self, label: str) -> list[dict[str, Any]]:
        return self._list("services", {"label": [label]})

    def service(self, service_id: str) -> dict[str, Any]:
        return self._read("read service %s" % service_id, "/services/%s" % quote(service_id))

    def create_service(self, spec: Mapping[str, Any], login: Mapping[str, str] | None = None) -> str:
        """Create a service and return its id. Nodes pull its image with this login, as in ``why_unreadable``."""
        what = "create service %s" % spec["Name"]
        headers = self._called(what, lambda: _login_header(spec["TaskTemplate"]["ContainerSpec"]["Image"], login))
        return self._post(what, "/services/create", spec, headers)["ID"]

    def update_service(self, service_id: str, version: int, spec: Mapping[str, Any]) -> None:
        """Write the whole spec. Raises OutOfSequence if the service no longer has this version."""
        self._post("update service %s" % spec["Name"], with_query("/services/%s/update" % quote(service_id), version=version), spec)

    def remove_service(self, service_id: str) -> None:
        """Remove a service. Raise no error if the service no longer exists."""
        self._remove("service", service_id)

    # -- configs, secrets, networks, images --------------------------------------------------------------------

    def names(self) -> dict[str, list[str]]:
        """Return the names of all objects that are lost with the swarm: services, secrets and configs."""
        return {kind: [item["Spec"]["Name"] for item in self._list(kind)] for kind in ("services", "secrets", "configs")}

    def configs_labelled(self, label: str = "") -> list[dict[str, Any]]:
        """Return the configs with this label, and their contents. Without ``label``, return all configs."""
        return self._list("configs", {"label": [label]} if label else None)

    def create_config(self, name: str, data: bytes, labels: Mapping[str, str]) -> None:
        spec = {"Name": name, "Data": base64.b64encode(data).decode("ascii"), "Labels": dict(labels)}
        self._post("create config %s" % name, "/configs/create", spec)

    def remove_config(self, config_id: str) -> None:
        """Remove a config. Raise no error if the config no longer exists."""
        self._remove("config", config_id)

    def secrets_labelled(self, label: str = "") -> list[dict[str, Any]]:
        return self._list("secrets", {"label": [label]} if label else None)

    def remove_secret(self, secret_id: str) -> None:
        """Remove a secret. Raise no error if the secret no longer exists."""
        self._remove("secret", secret_id)

    def networks(self) -> list[dict[str, Any]]:
        """Return the networks of the swarm and the networks of this machine."""
        return self._list("networks")

    def networks_labelled(self, label: str) -> list[dict[str, Any]]:
        return self._list("networks", {"label": [label]})

    def remove_network(self, network_id: str) -> None:
        """Remove a network. Raise no error if the network no longer exists. The call fails while tasks use the network."""
        self._remove("network", network_id)

    def image_environment(self, image: str) -> list[str]:
        """Return the variables that an image sets, as NAME=value; [] if this daemon does not have the image."""
        try:
            data = self._read("read the image %s" % image, "/images/%s/json" % quote(image, safe="/:@"))
        except NotFound:
            return []
        return (data.get("Config") or {}).get("Env") or []

    def why_unreadable(self, image: str, login: Mapping[str, str] | None = None) -> str:
        """Return why the manager cannot read the image from its registry; empty if the manager can read the image.

        An empty ``login`` means anonymous. If ``login`` is None, this code uses the logins of this process's user on this machine.
        """
        try:
            self._look_up(image, login)
        except api.ApiError as exc:
            return exc.words
        return ""

    def image_digest(self, image: str, login: Mapping[str, str] | None = None) -> str:
        """Return the digest that an image has in its registry now. ``login`` is as in ``why_unreadable``."""
        answer = self._called("look up the image %s" % image, lambda: self._look_up(image, login))
        digest = (answer.get("Descriptor") or {}).get("digest")
        if not digest:
            raise SwarmError("The registry has no digest for the image %s." % image)
        return digest

    def _look_up(self, image: str, login: Mapping[str, str] | None) -> Any:
        return self._client.call("GET", "/distribution/%s/json" % quote(image, safe="/:@"), headers=_login_header(image, login)).data

    # -- the swarm itself --------------------------------------------------------------------------------------

    def cluster(self) -> tuple[dict[str, Any], str]:
        """Return (the swarm's own object, the manager's time), from /info.

        Unlike /swarm, /info has no join tokens. The first call right after connect() returns what connect() read, because dockerd runs two programs
        for each /info.
        """
        recent, self._recent = self._recent, None
        if recent and time.monotonic() - recent[2] < RECENT_S:
            return recent[:2]
        info = self._read("read the swarm", "/info")
        refuse_unless_manager(info, self._where)
        return info["Swarm"]["Cluster"], info["SystemTime"]

    def join_tokens(self) -> dict[str, str]:
        """Return the join tokens by role."""
        return self._read("read the join tokens", "/swarm")["JoinTokens"]

    def update_cluster(self, version: int, spec: Mapping[str, Any], rotate: Collection[str] = ()) -> None:
        """Write the whole spec of the swarm, and replace the join tokens of the roles in ``rotate``.

        Raises OutOfSequence if the version is not current.
        """
        tokens = {"rotate%sToken" % role.capitalize(): "true" for role in ("Worker", "Manager") if role.lower() in rotate}
        self._post("update the swarm", with_query("/swarm/update", version=version, **tokens), spec)

    # -- calls -------------------------------------------------------------------------------------------------

    def _read(self, what: str, path: str) -> Any:
        return self._called(what, lambda: self._client.get(path))

    def _list(self, kind: str, filters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        return self._called("list %s" % kind, lambda: self._client.get("/" + kind, filters)) or []

    def _each(self, kind: str, filters: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list one by one."""
        try:
            with self._client.stream(filtered("/" + kind, filters)) as pieces:
                yield from json_stream.objects(pieces)
        except api.ApiError as exc:
            raise self._failure("list %s" % kind, exc) from exc
        except ValueError as exc:
            raise SwarmError("The list of %s from the manager at %s cannot be read: %s. Run this again." % (kind, self._where, exc)) from exc

    def _post(self, what: str, path: str, spec: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        return self._called(what, lambda: self._client.call("POST", path, spec, headers).data)

    def _remove(self, what: str, name: str, query: str = "") -> bool:
        """Remove an object, and return whether the object existed."""
        try:
            self._called("remove %s %s" % (what, name), lambda: self._client.call("DELETE", "/%ss/%s%s" % (what, quote(name), query)))
        except NotFound:
            return False
        return True

    def _called(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except api.ApiError as exc:
            raise self._failure(what, exc) from exc

    def _failure(self, what: str, exc: api.ApiError) -> SwarmError:
        words = exc.words
        if "out of sequence" in words:
            return OutOfSequence("Could not %s: somebody else changed it at the same time. Run this again." % what)
        state = missing_leader(words)
        if state:
            message = NOT_A_MANAGER[state].format(where=self._where, error=" (%s)" % words, known="see 'docker node ls'")
            return SwarmError(message, swarm_state="no_quorum")
        if isinstance(exc, api.LoginUnreadable):
            return SwarmError("Could not %s: the login to the registry cannot be read on this machine: %s." % (what, words))
        if isinstance(exc, api.Refused):
            error = NotFound if exc.status == 404 else Refused if _is_refusal(exc) else SwarmError
            return error("The manager at %s refused to %s: %s." % (self._where, what, words))
        return unreachable(self._where, words)
