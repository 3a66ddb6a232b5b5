# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Docker daemon of this machine. Reads the daemon's settings and containers, and restarts the daemon.

The data comes from the Docker API over the local socket, and from systemd. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import socket
import time
import urllib.parse
from typing import Any, Callable, Mapping, Optional

from .._docker_api import problems as api
from .._docker_api.client import Answer, Client
from .._errors import GpuSwarmError
from . import containers as container_list
from . import local_images as image_list
from .docker_unit import EngineError, Run, Unit

# A function that takes the result of Engine.inspect, and returns a sentence about a difference from the wanted state, or None.
Healthy = Callable[[Mapping[str, Any]], Optional[str]]

SBIN = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"))
REQUEST_TIMEOUT_S = 30
POLL_S = 0.1
_NOBODY_LISTENS = (FileNotFoundError, ConnectionRefusedError)
_CONNECTION_CUT = (ConnectionResetError, BrokenPipeError)
# Every answer of Podman's Docker API has this header. Docker's answers do not.
PODMAN_HEADER = "Libpod-API-Version"
# dockerd's default directory, and the file in this directory that names the node's swarm.
ROOT_DIR = "/var/lib/docker"
MEMBERSHIP = os.path.join("swarm", "docker-state.json")
# The daemon answers this request when the container has stopped.
WAIT_UNTIL_STOPPED = "/containers/%s/wait?condition=not-running"
# A worker lists only the networks that it uses.
SWARM_NETWORKS = "/networks?filters=%s" % urllib.parse.quote(json.dumps({"scope": ["swarm"]}))


class NoSuchObject(EngineError):
    """The daemon has no such object."""


class Unavailable(EngineError):
    """The daemon cannot do this now, or cannot finish in time."""


# The errors for some statuses of an answer. Every other status becomes an EngineError.
_FAILURES = {404: NoSuchObject, 503: Unavailable}


class Engine:
    """One dockerd, with its socket and its systemd unit.

    ``run(argv)`` runs a command and returns ``(rc, stdout, stderr)``; a module passes ``_bounded.run``.
    """

    def __init__(self, socket_path: str, unit: str, run: Run) -> None:
        self.socket_path = socket_path
        self.unit = unit
        self._service = Unit(unit, run)
        self._run = run
        self._client = Client("unix://" + socket_path, version=None)

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """Return the answer of ``GET path``, or None if no daemon listens."""
        answer = self._answer(path)
        return answer and answer.data

    def post(self, path: str, body: Mapping[str, Any] | None = None, timeout: float | None = None) -> Any:
        """Return the answer of ``POST path``; None if the answer is empty. Also raises EngineError if no daemon listens."""
        try:
            return self._call("POST", path, body, timeout).data
        except api.Unanswered as problem:
            reason = "nothing listens there" if isinstance(problem.cause, _NOBODY_LISTENS) else problem.words
            raise self._no_answer("POST %s" % path, reason) from problem

    def _answer(self, path: str) -> Answer | None:
        """Return the answer of ``GET path``; None if nothing listens."""
        for _attempt in range(2):
            try:
                return self._call("GET", path)
            except api.Unanswered as problem:
                if isinstance(problem.cause, _NOBODY_LISTENS):
                    return None
            # If systemd cannot start the unit, it closes the connections that wait at the socket, and refuses the next connection.
        raise self._no_answer("GET %s" % path, "the connection was cut")

    def _no_answer(self, call: str, problem: object) -> EngineError:
        return EngineError(
            "%s: %s: %s. Set docker_socket to the socket of Docker Engine. If it is right, check 'journalctl -u %s' "
            "and run this again." % (self.socket_path, call, problem, self.unit)
        )

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float | None = None) -> Answer:
        """Return the answer. Raises Unanswered if nothing listens or the connection was closed, and EngineError for every other failure."""
        call, timeout = "%s %s" % (method, path), timeout or REQUEST_TIMEOUT_S
        try:
            answer = self._client.call(method, path, body, timeout=timeout)
        except api.Refused as problem:
            self._refuse_podman(problem)
            words = "%s: %s answered %d: %s. Check 'journalctl -u %s'." % (self.socket_path, call, problem.status, problem.words, self.unit)
            raise _FAILURES.get(problem.status, EngineError)(words) from problem
        except api.Unanswered as problem:
            if isinstance(problem.cause, (*_NOBODY_LISTENS, *_CONNECTION_CUT)):
                raise
            raise self._unanswered(call, problem, timeout) from problem
        self._refuse_podman(answer)
        return answer

    def _refuse_podman(self, answer: Answer | api.Refused) -> None:
        if answer.headers.get(PODMAN_HEADER):
            refuse("podman", self.socket_path)

    def _unanswered(self, call: str, problem: api.Unanswered, timeout: float) -> GpuSwarmError:
        if isinstance(problem.cause, PermissionError):
            return GpuSwarmError(
                "%s: permission denied. The Docker socket belongs to root: run this task with 'become: true'." % self.socket_path
            )
        if isinstance(problem.cause, socket.timeout):
            return EngineError(
                "%s: %s was not answered within %d s: the daemon hangs. Check 'journalctl -u %s', restart the "
                "daemon when the containers on the node allow that, and run this again." % (self.socket_path, call, timeout, self.unit)
            )
        if isinstance(problem.cause, ValueError):
            return EngineError("%s: %s. Set docker_socket to the socket of Docker Engine." % (self.socket_path, problem.words))
        return self._no_answer(call, problem.words)

    def swarm(self) -> dict[str, Any]:
        """Return the node's own view of its swarm membership. Faster than inspect()."""
        info = self.get("/info")
        return unknown_swarm() if info is None else swarm_of(info)

    def inspect(self, unit: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return all data about this daemon that a run needs; None if Docker is not installed.

        ``unit`` is the result of Unit.inspect, if the caller has it. Raises GpuSwarmError for podman, snap and rootless Docker, because they cannot
        be nodes of a GPU swarm.
        """
        unit = self._service.inspect() if unit is None else unit
        # Do not read /version: dockerd runs two programs to answer the request, which doubles the time.
        answer = self._answer("/info")
        if answer is None:
            return self._not_running(unit)
        info = answer.data
        refuse(flavour_of(info), self.socket_path)
        return {
            "running": True,
            "version": info.get("ServerVersion"),
            "api_version": answer.headers.get("Api-Version"),
            "unit": self.unit if unit else None,
            "socket": self.socket_path,
            "flavour": "docker",
            "root_dir": info.get("DockerRootDir"),
            "default_runtime": info.get("DefaultRuntime"),
            "runtimes": {name: _runtime(value) for name, value in (info.get("Runtimes") or {}).items()},
            "generic_resources": info.get("GenericResources") or [],
            "live_restore": bool(info.get("LiveRestoreEnabled")),
            "flags": unit.get("flags", []),
            "unit_files": unit.get("files", []),
            "needs_reload": unit.get("needs_reload", False),
            "started_at": unit.get("started_at"),
            "pid": unit.get("pid"),
            "labels": info.get("Labels") or [],
            "swarm": swarm_of(info),
        }

    def _not_running(self, unit: Mapping[str, Any]) -> dict[str, Any] | None:
        if unit and unit["pid"]:
            raise EngineError(
                "%s: nothing answers on this socket, although %s runs (pid %d, %s). Set docker_socket to the socket that it listens "
                "on: see 'hosts' in its daemon.json or -H in its unit. If it has just started, run this again."
                % (self.socket_path, self.unit, unit["pid"], unit["state"])
            )
        if unit:
            return {
                "running": False, "version": None, "api_version": None, "unit": self.unit, "socket": self.socket_path,
                "flavour": "docker", "root_dir": None, "default_runtime": None, "runtimes": {},
                "generic_resources": [], "live_restore": False, "flags": [],
                "unit_files": unit["files"], "needs_reload": unit["needs_reload"], "started_at": None, "pid": None,
                "labels": [], "swarm": unknown_swarm(),
            }  # fmt: skip
        if os.path.exists("/snap/bin/docker") or os.path.isdir("/var/snap/docker"):
            refuse("snap", "/snap/bin/docker")
        rootless = sorted(glob.glob("/run/user/*/docker.sock"))
        if rootless:
            refuse("rootless", rootless[0])
        return None

    def unit_files(self) -> list[tuple[str, str, bool]]:
        return self._service.inspect().get("files", [])

    def containers(self) -> list[dict[str, Any]]:
        """Return the running containers. A restart of the daemon would stop them, and leaving the swarm may disconnect them."""
        listed = self._list("/containers/json")
        swarms = self._list(SWARM_NETWORKS) if container_list.may_be_on_swarm_networks(listed) else []
        return container_list.records(listed, [network["Id"] for network in swarms], time.time())

    def _list(self, path: str) -> list[dict[str, Any]]:
        listed = self.get(path)
        if listed is None:
            raise self._no_answer("GET %s" % path, "nothing answers any more")
        return listed

    def images(self) -> list[dict[str, Any]]:
        """Return the images that a test can use, with the best first; [] if the daemon does not answer."""
        with contextlib.suppress(EngineError):
            return image_list.candidates(self._list("/images/json"))
        return []

    def required_by(self, image: str) -> dict[str, str] | None:
        """Return the variables of an image that require a driver; None if the daemon lacks the image or does not run."""
        with contextlib.suppress(NoSuchObject):
            image_details = self.get("/images/%s/json" % urllib.parse.quote(image, safe="/:@"))
            return None if image_details is None else image_list.required((image_details.get("Config") or {}).get("Env") or [])
        return None

    def await_drain(self, timeout_s: float) -> None:
        """Wait without polling until no task of swarm runs, at most ``timeout_s``. If a task still runs afterwards, the transaction refuses the
        change."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            pause = POLL_S
            with contextlib.suppress(EngineError):  # the daemon may answer slowly while it stops containers
                task_containers = [item["id"] for item in self.containers() if item["service"]]
                if not task_containers:
                    return
                self.post(WAIT_UNTIL_STOPPED % task_containers[0], timeout=max(POLL_S, deadline - time.monotonic()))
                pause = POLL_S / 10  # the daemon may list a stopped container for another moment
            time.sleep(pause)

    # -- acting ------------------------------------------------------------------------------------------------

    def validate(self, config_file: str) -> str | None:
        """Let dockerd validate a configuration file. Return its error message, or None.

        Docker Engine before 23.0 has no such option (moby#42393), so None is returned.
        """
        dockerd = shutil.which("dockerd", path=SBIN)
        if not dockerd:
            return None
        rc, out, err = self._run([dockerd, "--validate", "--config-file", config_file])
        text = (err or out).strip()
        if rc == 0 or "unknown flag: --validate" in text:
            return None
        return text

    def restart(self, reload_units: bool, limit_s: float) -> None:
        """Restart the daemon within ``limit_s``. Call :meth:`wait` for the result."""
        self._service.restart(reload_units, limit_s)

    def reload(self) -> None:
        """Let the daemon reload the part of its configuration that it can change while it runs."""
        self._service.reload()

    def wait(self, healthy: Healthy, timeout_s: float, since: float | None = None) -> dict[str, Any]:
        """Wait until ``healthy(view)`` returns None. Raises EngineError with the last problem, or with the reason why dockerd did not start."""
        deadline = (time.monotonic() if since is None else since) + timeout_s
        while True:
            problem, view = self._problem(healthy)
            if problem is None:
                self._service.reset_start_limit()
                return view
            if time.monotonic() > deadline:
                reasons = ". ".join(part.rstrip(".") for part in (problem, self.reason()) if part)
                raise EngineError("%s is not in the wanted state after %d s: %s" % (self.unit, timeout_s, reasons))
            time.sleep(POLL_S)

    def _problem(self, healthy: Healthy) -> tuple[str | None, dict[str, Any] | None]:
        """Return (a sentence about a difference from the wanted state, or None; the result of inspect())."""
        unit = self._service.inspect()
        pending = self._service.pending(unit)
        if pending:
            return pending, None
        try:
            view = self.inspect(unit)
        except EngineError as problem:
            return problem.message, None
        if not view or not view["running"]:
            return "it does not answer on %s" % self.socket_path, None
        return healthy(view), view

    def reason(self) -> str:
        """Return the reason in dockerd's log why dockerd did not start."""
        return self._service.reason()


# -- pure parts ------------------------------------------------------------------------------------------------------


def flavour_of(info: Mapping[str, Any]) -> str:
    """Return ``docker``, ``snap`` or ``rootless``, from the answer of /info."""
    if "name=rootless" in (info.get("SecurityOptions") or []):
        return "rootless"
    if str(info.get("DockerRootDir", "")).startswith("/var/snap/"):
        return "snap"
    return "docker"


_REMEDIES = {
    "podman": "this is Podman, which emulates Docker but has no swarm. Remove podman-docker and install Docker Engine.",
    "snap": "this is Docker from snap: it cannot use the NVIDIA runtime of the host and keeps its daemon.json elsewhere. "
    "Remove the snap and install Docker Engine from a package.",
    "rootless": "this is rootless Docker, which cannot be a swarm node with overlay networks. "
    "Install Docker Engine as a system service.",
}


def refuse(flavour: str, where: str) -> None:
    """Raise GpuSwarmError if ``flavour`` cannot be a node of a GPU swarm."""
    if flavour in _REMEDIES:
        raise GpuSwarmError("%s: %s" % (where, _REMEDIES[flavour]), flavour=flavour)


def swarm_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node's own view of its swarm membership."""
    swarm = info.get("Swarm") or {}
    return {
        "state": swarm.get("LocalNodeState") or "inactive",
        "id": (swarm.get("Cluster") or {}).get("ID") or None,  # only managers know this value
        "node_id": swarm.get("NodeID") or None,
        "addr": swarm.get("NodeAddr") or None,
        "control_available": bool(swarm.get("ControlAvailable")),
        "error": swarm.get("Error") or None,
        "managers": sorted(peer["Addr"] for peer in swarm.get("RemoteManagers") or []),
        "manager_ids": sorted(peer["NodeID"] for peer in swarm.get("RemoteManagers") or [] if peer.get("NodeID")),
        "half_joined": False,
    }


def _runtime(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a runtime without the long list of its features."""
    return {key: part for key, part in value.items() if key != "status"}


def unknown_swarm() -> dict[str, Any]:
    """Return the membership of a node that does not answer. The node may be a worker or even a manager of a swarm."""
    return dict(swarm_of({}), state="unknown")


def swarm_without_engine(root_dir: str = ROOT_DIR) -> dict[str, Any]:
    """Return the membership of a node without a running Docker. The membership is unknown if a stopped or removed engine has left its state on
    disk."""
    return unknown_swarm() if os.path.exists(os.path.join(root_dir, MEMBERSHIP)) else swarm_of({})


def half_joined(state: str, root_dir: str | None) -> bool:
    """Return whether a join never succeeded: the node has no Raft state and no certificate of an earlier membership.

    state.json and docker-state.json prove nothing: dockerd writes both as soon as it tries to join. Without consent, a run may use ``docker swarm
    leave --force`` only if a join never succeeded. In every other case the node may have the swarm's state, or may only have an expired certificate
    (moby#29242).
    """
    if state != "error" or not root_dir:
        return False
    swarm = os.path.join(root_dir, "swarm")
    return not any(os.path.exists(os.path.join(swarm, *part)) for part in (("raft",), ("certificates", "swarm-node.crt")))
