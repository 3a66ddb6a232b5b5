# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node for tests: real files in a directory, and a fake daemon that reads daemon.json only when the daemon starts.

The configuration of the running daemon is in a file, because the daemon still runs after the end of the run that started it.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import dockerd_lab

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.engine import Engine, EngineError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.node import Node

NULL = "/dev/null"  # a device, with the major number 1
UUIDS = [f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(8)]
RULES = [{"as": "gpu", "kind": "NVIDIA-GPU"}]

DAEMON_JSON = b'{\r\n   "log-driver": "local",\t"node-generic-resources": ["SSD=1"]\r\n}'
CONFIG_TOML = b"""\
# the site's own
disable-require = false
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-runtime]
mode = "auto" # kept
"""


# The unit of Debian.
VENDOR_UNIT = """\
[Service]
Type=notify
EnvironmentFile=-/etc/default/docker
ExecStart=/usr/sbin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock $DOCKER_OPTS
ExecReload=/bin/kill -s HUP $MAINPID
"""


def gpu(index, state="ok", model="NVIDIA-H100-80GB-HBM3", **other):
    reasons = [] if state == "ok" else ["GPU is lost"]
    record = {
        "index": index,
        "uuid": UUIDS[index],
        "name": model.replace("-", " "),
        "model": model,
        "memory_mib": 81559,
        "architecture": "hopper",
        "mig": {"mode": "disabled", "pending": "disabled"},
        "mig_devices": [],
        "health": {"state": state, "reasons": reasons, "recovery_action": None},
    }
    return dict(record, **other)


def resources(*indices, kind="NVIDIA-GPU"):
    return [f"{kind}={UUIDS[index]}" for index in indices]


def move(source, target):
    """Move the file like atomic_move of a module, if nothing prevents the move."""
    status = os.stat(target)
    os.chown(source, status.st_uid, status.st_gid)
    shutil.copystat(target, source)
    os.rename(source, target)


# The membership of a node that is in no swarm.
OUTSIDE = {
    "state": "inactive",
    "node_id": None,
    "addr": None,
    "control_available": False,
    "error": None,
    "managers": [],
    "manager_ids": [],
    "half_joined": False,
}


class Daemon(Engine):
    """Follows the rules of dockerd for start, restart and reload. Tests set ``refuses``, ``hangs`` and ``shows_nothing`` for a new
    configuration (one that names the nvidia runtime)."""

    def __init__(self, home, daemon_config):
        super().__init__(str(home / "docker.sock"), "docker.service", run=lambda argv: (0, "", ""))
        self._process = home / "process.json"
        self._loaded = home / "systemd.json"
        self._config = daemon_config
        self._vendor = home / "lib" / "docker.service"
        self._drop_ins = home / "etc" / "systemd" / "system" / "docker.service.d"
        self._environment = home / "etc" / "default" / "docker"
        self.carries, self.validated = [], []
        self.complains = None
        self.refuses = None
        self.hangs = self.shows_nothing = False
        self._keep({"running": False, "calls": []})

    def process(self):
        return json.loads(self._process.read_text())

    def calls(self):
        return self.process()["calls"]

    def _keep(self, process):
        self._process.write_text(json.dumps(process))

    def _document(self):
        path = pathlib.Path(self._config)
        return dockerd_lab.document(path.read_bytes() if path.exists() else b"")

    # -- systemd -----------------------------------------------------------------------------------------------

    def unit_files(self):
        drop_ins = sorted(self._drop_ins.glob("*.conf")) if self._drop_ins.exists() else []
        files = [(self._vendor, "unit", False), *((path, "drop-in", True) for path in drop_ins), (self._environment, "environment", True)]
        return [(str(path), kind, editable) for path, kind, editable in files if path.exists()]

    def _units(self):
        return [(path, kind, pathlib.Path(path).read_text()) for path, kind, _editable in self.unit_files() if kind != "environment"]

    def daemon_reload(self):
        self._loaded.write_text(json.dumps(self._units()))

    def needs_reload(self):
        return self._loaded.exists() and json.loads(self._loaded.read_text()) != [list(one) for one in self._units()]

    def _argv(self):
        """Return the command that systemd would start, from the units as it last read them and the current environment files."""
        units = [text for _path, _kind, text in json.loads(self._loaded.read_text())] if self._loaded.exists() else []
        environment = [pathlib.Path(path).read_text() for path, kind, _editable in self.unit_files() if kind == "environment"]
        return dockerd_lab.command(units, environment)[1:]

    def start(self, call=None):
        calls, argv = self.calls() + ([call] if call else []), self._argv()
        try:
            doc, given = self._document(), dockerd_lab.flags(argv)
            new = "runtimes" in doc
            runs_with = self._accepted(doc, given, new)
        except dockerd_lab.Refused as problem:
            self._keep({"running": False, "calls": calls, "flags": argv})
            raise EngineError("docker.service did not start: %s" % problem) from problem
        self._keep(dict(runs_with, running=not (new and self.hangs), calls=calls, flags=argv))

    def _accepted(self, doc, given, new):
        twice = [key for key in given if key in doc]
        if twice:
            raise dockerd_lab.Refused("specified both as a flag and in the configuration file: %s" % twice)
        if any(host.startswith("fdd:") for host in given.get("hosts", [])):
            raise dockerd_lab.Refused("invalid bind address")
        if new and self.refuses:
            raise dockerd_lab.Refused(self.refuses)
        listed = doc.get("node-generic-resources", []) + given.get("node-generic-resources", [])
        shown = [] if new and self.shows_nothing else dockerd_lab.generic_resources(listed)
        kept = {"labels": doc.get("labels", []), "runtimes": doc.get("runtimes", {}), "shm": doc.get("default-shm-size", "64M")}
        return {**kept, "shown": shown, "runtime": doc.get("default-runtime") or given.get("default-runtime", ["runc"])[-1]}

    def stop(self):
        self._keep({"running": False, "calls": self.calls()})

    # -- requests of the node --------------------------------------------------------------------------------------

    def inspect(self, unit=None):
        process = self.process()
        return {
            "running": process["running"],
            "version": "26.1.5",
            "api_version": "1.45",
            "unit": self.unit,
            "socket": self.socket_path,
            "flavour": "docker",
            "root_dir": "/var/lib/docker",
            "default_runtime": process.get("runtime"),
            "runtimes": process.get("runtimes", {}),
            "generic_resources": process.get("shown", []),
            "live_restore": False,
            "flags": process.get("flags", []),
            "unit_files": self.unit_files(),
            "needs_reload": self.needs_reload(),
            "started_at": "1",
            "pid": None,
            "labels": process.get("labels", []),
            "swarm": dict(OUTSIDE),
        }

    def containers(self):
        return self.carries

    def await_drain(self, timeout_s):
        self.drained(timeout_s)

    def validate(self, config_file):
        with open(config_file, "rb") as stream:
            self.validated.append(json.loads(stream.read()))
        return self.complains

    def restart(self, reload_units, _limit_s=0):
        if reload_units and self.needs_reload():
            self.daemon_reload()
        self.start("restart")

    def reload(self):
        process, doc = self.process(), self._document()
        if not self.shows_nothing:
            process["runtime"] = doc.get("default-runtime", process["runtime"])
            process["labels"] = doc.get("labels", process["labels"])
            process["runtimes"] = doc.get("runtimes", process["runtimes"])
            process["shm"] = doc.get("default-shm-size", process["shm"])  # a removed key has no effect
        self._keep(dict(process, calls=process["calls"] + ["reload"]))

    def reason(self):
        return ""


class LabNode(Node):
    """A node with real files. Its GPUs, daemon and toolkit are fakes."""

    def __init__(self, home, **options):
        params = {
            "state": "present",
            "restart": "if_needed",
            "when_busy": "refuse",
            "advertise": RULES,
            "daemon_config": str(home / "etc" / "docker" / "daemon.json"),
            "runtime_config": str(home / "etc" / "nvidia-container-runtime" / "config.toml"),
            "nvml_path": None,
            "library_path": None,
            "docker_socket": str(home / "docker.sock"),
            "docker_unit": "docker.service",
            "state_dir": str(home / "state"),
            "drain_timeout": 0,
            "timeout": 0,
        }
        self.commands = []
        super().__init__(dict(params, **options), run=self._command, move=move, diff=True, load=lambda: None)
        self.home = self.root = home
        self.engine = Daemon(home, params["daemon_config"])
        self.gpus = [gpu(0), gpu(1)]
        self.toolkit = "1.20.0"
        self.stuck = False  # whether a unit does not stop
        self.makes_devices = True  # whether the modules of gpu-swarm-devices.service are loaded
        self.uvm(NULL)

    def _needs_root(self):
        pass

    def _command(self, argv):
        """Answer like systemd. Each start succeeds."""
        self.commands.append(" ".join(argv))
        status = self.home / "run" / "gpu-swarm" / "health.json"
        if argv == ["systemctl", "restart", "gpu-swarm-devices.service"]:
            if self.makes_devices:
                self.uvm(NULL)
        elif argv[:2] == ["systemctl", "restart"]:
            status.parent.mkdir(parents=True, exist_ok=True)
            status.write_text(json.dumps({"pid": os.getpid(), "label": "ok", "blocked": None, "reasons": []}))
        elif argv[:2] == ["systemctl", "stop"] and self.stuck:
            return 1, "", "it hangs.\n"
        elif argv[:2] == ["systemctl", "show"] and self.stuck:
            return 0, "deactivating\n", ""
        elif argv[:2] == ["systemctl", "stop"] and status.exists():
            status.unlink()
        return 0, "", ""

    def _read_gpus(self, missing):
        read = self.params["advertise"] and self.params["state"] == "present"
        return {"gpus": self.gpus if read else [], "driver_version": "580.95.05", "cuda_version": "13.0"}

    def _toolkit_version(self):
        return self.toolkit

    # -- for tests ---------------------------------------------------------------------------------------------

    def uvm(self, target, loaded=1):
        """Link /dev/nvidia-uvm to this device, or remove the link. ``loaded`` is the major number of the loaded module."""
        node, devices = self.home / "dev" / "nvidia-uvm", self.home / "proc" / "devices"
        for path in (node, devices):
            path.parent.mkdir(exist_ok=True)
        if os.path.lexists(node):
            node.unlink()
        if target:
            node.symlink_to(target)
        devices.write_text(f"  {loaded} nvidia-uvm\n" if loaded else "")

    def option(self, **options):
        self.params.update(options)
        return self

    def put(self, option, content, mode=0o644):
        path = self.params[option]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)
        os.chmod(path, mode)

    def content(self, option="daemon_config"):
        try:
            with open(self.params[option], "rb") as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def doc(self):
        return dockerd_lab.document(self.content() or b"")

    def shown(self):
        return dockerd_lab.entries(self.engine.inspect()["generic_resources"])

    def everything(self):
        """Return all files of the node except its lock and its state directory, with bytes, mode and owner."""
        found = {}
        for root, _folders, names in os.walk(self.home / "etc"):
            for name in names:
                path = os.path.join(root, name)
                status = os.lstat(path)
                with open(path, "rb") as stream:
                    found[path] = (stream.read(), oct(status.st_mode), status.st_uid, status.st_gid)
        return found

    def state_files(self):
        names = os.listdir(self.params["state_dir"]) if os.path.isdir(self.params["state_dir"]) else []
        return sorted(name for name in names if name not in ("lock", "backup"))

    def backups(self):
        """Return the bytes of the saved original files, by path."""
        root, found = os.path.join(self.params["state_dir"], "backup"), {}
        for folder, _folders, names in os.walk(root):
            for name in names:
                with open(os.path.join(folder, name), "rb") as stream:
                    found["/" + os.path.relpath(os.path.join(folder, name.rpartition(".")[0]), root)] = stream.read()
        return found

    def unit(self, drop_in=None, environment=None, loaded=True):
        """Write a unit of the distribution, a drop-in and an environment file, and start the daemon with them."""
        self.engine._vendor.parent.mkdir()
        self.engine._vendor.write_text(VENDOR_UNIT)
        for path, text in ((self.engine._drop_ins / "override.conf", drop_in), (self.engine._environment, environment)):
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        if not loaded:  # for example, a recipe ends with "systemctl start" although the daemon already runs
            (self.engine._drop_ins / "override.conf").rename(self.home / "later")
        self.engine.daemon_reload()
        self.engine.start()
        if not loaded:
            (self.home / "later").rename(self.engine._drop_ins / "override.conf")
        return self


def node(home, daemon=DAEMON_JSON, toml=CONFIG_TOML, running=True, **options):
    """Return a node with the files of a user. Its daemon runs with these files."""
    home.mkdir(exist_ok=True)
    made = LabNode(home, **options)
    for option, content in (("daemon_config", daemon), ("runtime_config", toml)):
        if content is not None:
            made.put(option, content)
    if running:
        made.engine.start()
    return made
