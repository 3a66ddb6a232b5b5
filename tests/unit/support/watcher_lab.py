# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node with a watcher. The files and the child process are real. NVML is the lab's NVML, and programs return the answers of a test.

The clock is not real: if nothing happens during a wait, the wait ends at once and moves the clock forward.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

import nvml_lab
import pynvml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import nvml, processes, xid_events
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.journal import INSERTED, entry_after_write
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.watch_loop import Service

# The child of each watcher imports these modules. The child is a fork of this process, so the modules are loaded only once.
LOADED = (nvml, processes, pynvml, xid_events)

UUID, OTHER = "GPU-00000000-1111-2222-3333-444444444444", "GPU-00000000-1111-2222-3333-444444444445"
PCI = "00000000:C1:00.0"
T4 = f"[gpu 0]\nname = Tesla T4\nuuid = {UUID}\npci = {PCI}\nserial = 1322\n"
KEY = "fleet.gpu-swarm.health="
XID_79 = "3,1,1,-;NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."
RUNTIME = {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
LIMIT_S = 60  # for events that happen at once, except on a very busy machine

# The watcher's other process. It records the label and returns the answer of the test. If nothing blocks the label, it writes the label into
# daemon.json. It removes the file size limit of the watcher's process. This process starts often, so it imports little.
NO_OBSTACLE = '{"blocked": null, "waits": null}'
LABEL_PROGRAM = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
home = os.path.dirname(sys.argv[0])
with open(home + "/written", "a") as stream:
    stream.write(sys.argv[2] + "\\n")
with open(home + "/answer.json") as stream:
    answer = stream.read()
path = os.path.dirname(home) + "/daemon.json"
if answer == '{NO_OBSTACLE}' and os.path.exists(path):
    with open(path) as stream:
        before, key, after = stream.read().partition("{KEY}")
    with open(path + ".new", "w") as stream:
        stream.write(before + key + (sys.argv[2] + after[after.index('"'):] if key else ""))
    os.replace(path + ".new", path)
print(answer)
"""
# The command of the NVIDIA Container Toolkit that the watcher tries in legacy mode.
TOOLKIT = """\
#!/bin/sh
echo "$*" >> %s/tried
%s
"""
SYSTEMCTL = f"#!/bin/sh\necho MainPID={os.getpid()}\n"


class Clock:
    """The node's clock. It stops while the child works. It moves forward when the watcher waits and nothing happens."""

    def __init__(self):
        self.now = 1000.0
        self.is_nvml_answering = True
        self.meanwhile = None  # the action for the next wait between two inspections

    def monotonic(self):
        return self.now

    def time(self):
        return self.now

    def wait(self, seconds, handles):
        if is_for_answer(handles) and self.is_nvml_answering:
            ready = select.select(handles, [], [], LIMIT_S)[0]
            assert ready, f"the child has not answered within {LIMIT_S} s"
            return ready
        if self.meanwhile and not is_for_answer(handles):
            action, self.meanwhile = self.meanwhile, None
            return until_ready(handles, action)
        ready = select.select(handles, [], [], 0)[0]
        self.now += 0 if ready else seconds
        return ready


def is_for_answer(handles):
    """Return whether the watcher waits for an answer of its child. Between two inspections, the watcher also waits for the kernel's log."""
    return not any(os.readlink(f"/proc/self/fd/{handle}").endswith("/kmsg") for handle in handles)


def until_ready(handles, action):
    """Repeat the action until a handle can be read. NVML reports only errors that happen after it has registered the cards."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        action()
        ready = select.select(handles, [], [], 0.3)[0]
        if ready:
            return ready
    raise AssertionError(f"nothing came within {LIMIT_S} s")


def open_files(process):
    """Yield the paths of a process's open files."""
    with contextlib.suppress(FileNotFoundError):  # the process has just ended
        for handle in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(FileNotFoundError):  # the process has just closed this file
                yield os.readlink(f"/proc/{process}/fd/{handle}")


class WatchedNode:
    """A node that advertises a Tesla T4, and its watcher."""

    def __init__(self, folder, monkeypatch):
        self.root, self.state, self.home = folder, folder / "state", folder / "state" / "health"
        for path in (self.home, folder / "bin", folder / "docker", folder / "run" / "gpu-swarm", folder / "proc", folder / "dev"):
            path.mkdir(parents=True)
        self.status_file, self.daemon_config = folder / "run" / "gpu-swarm" / "health.json", self.state / "daemon.json"
        self._nvml, self._nvml_changes = folder / "nvml.conf", 0
        self._log = self._make_log()
        self.clock, self.watchers = Clock(), []
        self.settings = {
            "nvml_path": nvml_lab.library(),
            "nvml_timeout": 60,
            "health_faults": [79],
            "health_ignored": [13],
            "health_report": "faults",
            "daemon_config": str(self.daemon_config),
            "runtime_config": str(folder / "config.toml"),
            "data_root": str(folder / "docker"),
            "docker_unit": "docker.service",
            "docker_socket": str(folder / "docker.sock"),
        }
        monkeypatch.setenv("GPU_LAB_NVML", str(self._nvml))
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        self.write_program("bin/systemctl", SYSTEMCTL)
        (folder / "config.toml").write_text('[nvidia-container-runtime]\nmode = "csv"\n')  # in mode csv nothing is tried
        self.program = self.home / "watcher.py"
        self.program.write_text(LABEL_PROGRAM)
        monkeypatch.setattr(sys, "argv", [str(self.program), "watch"])
        self.answer(None)
        self.set_uptime(9999)
        self.set_uvm(has_device=True)
        self.set_nvml(T4)
        self.advertise(UUID)
        self.write_daemon_json("ok")
        self.start()

    def _make_log(self):
        """Create the kernel's log as a pipe, and return the end that the kernel writes to."""
        os.mkfifo(self.root / "dev" / "kmsg")
        return os.open(self.root / "dev" / "kmsg", os.O_RDWR | os.O_NONBLOCK)

    def write_program(self, name, text):
        (self.root / name).write_text(text)
        (self.root / name).chmod(0o755)

    # -- the watcher -------------------------------------------------------------------------------------------

    def start(self):
        """End the former watcher and start a new watcher."""
        self.end()
        self.watchers.append(Service(str(self.home), self.settings, str(self.root), self.clock))

    def step(self, times=1):
        """Let the watcher inspect the node this many times. Return how many seconds passed."""
        began = self.clock.now
        for _time in range(times):
            self.watchers[-1].step()
        return self.clock.now - began

    def end(self):
        for watcher in self.watchers:
            watcher.end()

    def close(self):
        self.end()
        os.close(self._log)

    def child(self, watcher=None):
        """Return the process id of the watcher's child, or None without a child. The child holds a lock while it runs."""
        for children in Path(f"/proc/{watcher or os.getpid()}/task").glob("*/children"):
            for child in children.read_text().split():
                if f"{self.home}/reader.lock" in open_files(child):
                    return int(child)
        return None

    # -- what the watcher reads --------------------------------------------------------------------------------

    def set_nvml(self, text):
        """Set the answer of NVML from now on."""
        self._nvml_changes += 1
        new = self._nvml.with_suffix(".new")
        new.write_text(text)
        os.utime(new, (self._nvml_changes, self._nvml_changes))
        new.replace(self._nvml)

    def stop_nvml(self):
        """Keep NVML from answering until ``go_on``."""
        self.clock.is_nvml_answering = False
        os.kill(self.child(), signal.SIGSTOP)

    def go_on(self):
        os.kill(self.child(), signal.SIGCONT)
        self.clock.is_nvml_answering = True

    def hang_nvml(self):
        """Let the present child and each later child hang until ``mend_nvml``."""
        self.clock.is_nvml_answering = False
        self.set_nvml(T4 + "fault = hang\n")

    def mend_nvml(self, text=T4):
        self.clock.is_nvml_answering = True
        self.set_nvml(text)

    def log(self, line):
        """Write a line into the kernel's log."""
        os.write(self._log, line.encode())

    def set_uptime(self, seconds):
        (self.root / "proc" / "uptime").write_text(f"{seconds}.00 1.00\n")

    def set_uvm(self, has_device):
        """Load the kernel module nvidia-uvm, with or without its device."""
        (self.root / "proc" / "devices").write_text("Character devices:\n  1 nvidia-uvm\n")
        device = self.root / "dev" / "nvidia-uvm"
        device.unlink(missing_ok=True)
        if has_device:
            device.symlink_to("/dev/null")  # a device with the major number 1

    def install_toolkit(self, works=True):
        """Install a toolkit in legacy mode, in which the watcher tries one command."""
        program = self.root / "bin" / "nvidia-container-cli"
        self.write_program("bin/nvidia-container-cli", TOOLKIT % (self.home, "exit 0" if works else "echo 'load library failed' >&2; exit 1"))
        Path(self.settings["runtime_config"]).write_text(
            f'[nvidia-container-cli]\npath = "{program}"\n[nvidia-container-runtime]\nmode = "legacy" # {works}\n'
        )

    def tried(self):
        """Return how often the toolkit was tried."""
        path = self.home / "tried"
        return len(path.read_text().split("info\n")) - 1 if path.exists() else 0

    def advertise(self, *uuids):
        """Record that the node advertises these cards."""
        self.resources = [f"NVIDIA-GPU={uuid}" for uuid in uuids]
        self._write_record({INSERTED: self._inserted()})

    def record_daemon_json(self):
        """Record that a run wrote the present daemon.json, so that dockerd has loaded it."""
        path = str(self.daemon_config)
        self._write_record(entry_after_write(Snapshot.take(path), self._inserted(), self.daemon_config.read_bytes(), None))

    def _inserted(self):
        return {"resources": self.resources, "kinds": ["NVIDIA-GPU"]}

    def _write_record(self, entry):
        (self.state / "record.json").write_text(json.dumps({"files": {str(self.daemon_config): entry}}))

    def write_daemon_json(self, label, **more):
        """Write daemon.json like a run or a person would."""
        content = {"labels": [KEY + label], "node-generic-resources": self.resources, **RUNTIME, **more}
        self.daemon_config.write_text(json.dumps(content))

    # -- what the watcher writes -------------------------------------------------------------------------------

    def answer(self, blocked=None, waits=None):
        """Let the other process return this answer to each label."""
        (self.home / "answer.json").write_text(json.dumps({"blocked": blocked, "waits": waits}))

    @property
    def written(self):
        """Return the labels that the watcher passed to the other process."""
        path = self.home / "written"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def status(self):
        return json.loads(self.status_file.read_text())
