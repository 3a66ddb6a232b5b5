# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Docker daemon of this machine: what it runs with, what it carries, and how to restart it.

Reads the Docker API over the local socket with ``http.client`` (the Docker SDK need not be there) and asks systemd
about the unit. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import glob
import http.client
import json
import os
import re
import shutil
import socket
import time

from ._errors import GpuSwarmError

SBIN = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"))
REQUEST_TIMEOUT_S = 30
POLL_S = 0.1


class EngineError(GpuSwarmError):
    """The daemon did not do what it was asked to."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """One dockerd, known by its socket and its systemd unit.

    ``run(argv)`` runs a command and returns ``(rc, stdout, stderr)``; a module passes ``module.run_command``.
    """

    def __init__(self, socket_path, unit, run):
        self.socket_path = socket_path
        self.unit = unit
        self._run = run

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, path, timeout=REQUEST_TIMEOUT_S):
        """Answer of ``GET path`` as data, or None where no daemon listens."""
        connection = _UnixConnection(self.socket_path, timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read().decode("utf-8", "replace")
        except PermissionError:
            raise GpuSwarmError(
                "%s: permission denied. The Docker socket belongs to root: run this task with 'become: true'."
                % self.socket_path
            ) from None
        except socket.timeout:
            raise EngineError(
                "%s: GET %s was not answered within %d s: the daemon hangs. Look at 'journalctl -u %s', restart it when "
                "what runs on the node allows that, and run this again." % (self.socket_path, path, timeout, self.unit)
            ) from None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if response.status != 200:
            raise EngineError(
                "%s: GET %s answered %d: %s. Look at 'journalctl -u %s'."
                % (self.socket_path, path, response.status, body.strip()[:300], self.unit)
            )
        try:
            return json.loads(body)
        except ValueError:
            raise EngineError(
                "%s: GET %s answered %r, which is no JSON. Set docker_socket to the socket of Docker Engine."
                % (self.socket_path, path, body[:60])
            ) from None

    def look(self):
        """Everything that a run needs to know of this daemon, in one dict; None where Docker is not installed.

        Raises GpuSwarmError for a stand-in that cannot be a swarm node of ours: podman, snap, rootless.
        """
        unit = self._unit()
        version = self.get("/version")
        if version is None:
            return self._not_running(unit)
        flavour = flavour_of(version, None)
        refuse(flavour, self.socket_path)
        info = self.get("/info") or {}
        refuse(flavour_of(version, info), self.socket_path)
        return {
            "running": True,
            "version": version.get("Version"),
            "api_version": version.get("ApiVersion"),
            "unit": self.unit if unit else None,
            "socket": self.socket_path,
            "flavour": "docker",
            "root_dir": info.get("DockerRootDir"),
            "default_runtime": info.get("DefaultRuntime"),
            "runtimes": {name: dict(value) for name, value in (info.get("Runtimes") or {}).items()},
            "generic_resources": info.get("GenericResources") or [],
            "live_restore": bool(info.get("LiveRestoreEnabled")),
            "flags": unit.get("flags", []),
            "started_at": unit.get("started_at"),
            "swarm": swarm_of(info),
        }

    def _not_running(self, unit):
        if unit:
            return {
                "running": False, "version": None, "api_version": None, "unit": self.unit, "socket": self.socket_path,
                "flavour": "docker", "root_dir": None, "default_runtime": None, "runtimes": {},
                "generic_resources": [], "live_restore": False, "flags": unit["flags"], "started_at": None,
                "swarm": swarm_of({}),
            }  # fmt: skip
        if os.path.exists("/snap/bin/docker") or os.path.isdir("/var/snap/docker"):
            refuse("snap", "/snap/bin/docker")
        rootless = sorted(glob.glob("/run/user/*/docker.sock"))
        if rootless:
            refuse("rootless", rootless[0])
        return None

    def _unit(self):
        """The systemd unit: its dockerd flags and when it was started; {} where there is none."""
        names = "LoadState,MainPID,ExecStart,ActiveEnterTimestampMonotonic"
        rc, out, dummy = self._run(["systemctl", "show", "--property", names, self.unit])
        if rc != 0:
            return {}
        shown = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        if shown.get("LoadState") != "loaded":
            return {}
        return {
            "flags": _running_flags(shown.get("MainPID", "0")) or _exec_start_flags(shown.get("ExecStart", "")),
            "started_at": shown.get("ActiveEnterTimestampMonotonic"),
        }

    def containers(self):
        """The running containers: what a restart of the daemon would kill."""
        return [
            {
                "id": item["Id"],
                "name": (item.get("Names") or [item["Id"][:12]])[0].lstrip("/"),
                "image": item.get("Image"),
                "service": (item.get("Labels") or {}).get("com.docker.swarm.service.name"),
                "task": (item.get("Labels") or {}).get("com.docker.swarm.task.id"),
            }
            for item in self.get("/containers/json") or []
        ]

    # -- acting ------------------------------------------------------------------------------------------------

    def validate(self, config_file):
        """Lets dockerd itself judge a configuration file; returns its complaint, or None.

        Docker Engine before 23.0 has no such option (moby#42393) and is not asked.
        """
        dockerd = shutil.which("dockerd", path=SBIN)
        if not dockerd:
            return None
        rc, out, err = self._run([dockerd, "--validate", "--config-file", config_file])
        text = (err or out).strip()
        if rc == 0 or "unknown flag: --validate" in text:
            return None
        return text

    def restart(self):
        """Starts the daemon anew; raises EngineError with the daemon's own reason."""
        # A refused configuration can use up the unit's start limit, which would bar the way back too.
        self._run(["systemctl", "reset-failed", self.unit])
        rc, out, err = self._run(["systemctl", "restart", self.unit])
        if rc != 0:
            raise EngineError("%s did not start: %s" % (self.unit, self.reason() or (err or out).strip()))

    def reload(self):
        """SIGHUP: enough for default-runtime and runtimes, never for node-generic-resources (moby daemon/reload.go)."""
        rc, out, err = self._run(["systemctl", "kill", "--kill-who=main", "--signal=SIGHUP", self.unit])
        if rc != 0:
            raise EngineError("%s did not take SIGHUP: %s" % (self.unit, (err or out).strip()))

    def wait(self, healthy, timeout_s):
        """Waits until ``healthy(view)`` is None; raises EngineError with what it said last."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                view = self.look()
                complaint = healthy(view) if view and view["running"] else "it does not answer on %s" % self.socket_path
            except EngineError as problem:
                complaint = problem.message
            if complaint is None:
                return view
            if time.monotonic() > deadline:
                told = [complaint, self.reason()]
                raise EngineError(
                    "%s is not as wanted after %d s: %s" % (self.unit, timeout_s, ". ".join(part for part in told if part))
                )
            time.sleep(POLL_S)

    def reason(self):
        """What dockerd itself said last when it did not start, from the journal."""
        rc, out, dummy = self._run(
            ["journalctl", "--unit", self.unit, "--lines", "40", "--output", "cat", "--no-pager"]
        )
        return reason_from_journal(out) if rc == 0 else ""


# -- pure parts ------------------------------------------------------------------------------------------------------


def reason_from_journal(text):
    """The line in which dockerd says why it gives up; '' if there is none."""
    told = re.compile(r"failed to (start|load|create)|unable to configure|unknown flag|invalid|conflict|fatal", re.I)
    lines = [line.strip() for line in text.splitlines() if told.search(line)]
    # Not what systemd says of it: "docker.service: Failed with …", "Failed to start docker.service - Docker …".
    lines = [line for line in lines if not re.match(r"\S+\.service: |Failed to start ", line)]
    return lines[-1][:600] if lines else ""


def flavour_of(version, info):
    """docker | podman | snap | rootless, from the answers of /version and /info."""
    names = [str(part.get("Name", "")) for part in version.get("Components") or []]
    if any("podman" in name.lower() for name in names):
        return "podman"
    info = info or {}
    if "name=rootless" in (info.get("SecurityOptions") or []):
        return "rootless"
    if str(info.get("DockerRootDir", "")).startswith("/var/snap/"):
        return "snap"
    return "docker"


_REMEDIES = {
    "podman": "this is Podman standing in for Docker, which has no swarm. Remove podman-docker and install Docker Engine.",
    "snap": "this is Docker from snap: it cannot use the NVIDIA runtime of the host and keeps its daemon.json elsewhere. "
    "Remove the snap and install Docker Engine from a package.",
    "rootless": "this is rootless Docker, which cannot be a swarm node with overlay networks. "
    "Install Docker Engine as a system service.",
}


def refuse(flavour, where):
    """Raises GpuSwarmError where ``flavour`` cannot be a node of a GPU swarm."""
    if flavour in _REMEDIES:
        raise GpuSwarmError("%s: %s" % (where, _REMEDIES[flavour]), flavour=flavour)


def swarm_of(info):
    """The node's own view of its swarm membership."""
    swarm = info.get("Swarm") or {}
    return {
        "state": swarm.get("LocalNodeState") or "inactive",
        "node_id": swarm.get("NodeID") or None,
        "addr": swarm.get("NodeAddr") or None,
        "control_available": bool(swarm.get("ControlAvailable")),
        "error": swarm.get("Error") or None,
        "managers": sorted(peer["Addr"] for peer in swarm.get("RemoteManagers") or []),
        "half_joined": False,
    }


def half_joined(state, root_dir):
    """True where a join never got through: no Raft state and no certificate of an earlier membership.

    state.json and docker-state.json tell nothing: dockerd writes both as soon as it tries to join.
    Only then may ``docker swarm leave --force`` be used without asking; in every other case the node may hold the
    swarm's state or only have an expired certificate (moby#29242).
    """
    if state != "error" or not root_dir:
        return False
    swarm = os.path.join(root_dir, "swarm")
    return not any(
        os.path.exists(os.path.join(swarm, *part))
        for part in (("raft",), ("certificates", "swarm-node.crt"))
    )


def _running_flags(pid):
    if not pid.isdigit() or pid == "0":
        return []
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as stream:
            return [part.decode("utf-8", "replace") for part in stream.read().split(b"\0")[1:] if part]
    except OSError:
        return []


def _exec_start_flags(shown):
    match = re.search(r"argv\[\]=(.*?) ;", shown)
    return match.group(1).split()[1:] if match else []
