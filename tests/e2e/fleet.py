# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet of the lab for tests. Tests run playbooks on the fleet, and query, break and repair its nodes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.lab.inventory import SSH, is_up, variables
from tests.lab.lab import CHECKOUT, Lab, output

BIN = Path(sys.executable).parent
DAEMON_JSON = "/etc/docker/daemon.json"
CONFIG_TOML = "/etc/nvidia-container-runtime/config.toml"
STATE_DIR = "/var/lib/gpu-swarm"
UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A run that takes longer than this is killed (seconds). While two other stages run, a run over several nodes can take minutes.
LIMIT_S = 900


def advertised_as(kind: str) -> tuple[str, str]:
    """Return a policy that advertises the GPUs as this kind. If it was another kind before, files change and dockerd restarts."""
    return "--extra-vars", json.dumps({"gpu_node_advertise": [{"as": "gpu", "kind": kind}]})


def toolkit(**wanted: Any) -> tuple[str, str]:
    """Return variables of the role gpu_node, given without this prefix."""
    return "--extra-vars", json.dumps({f"nvidia_container_toolkit_{name}": value for name, value in wanted.items()})


def community_docker() -> Path:
    """Return the collection whose connection plugin is the lab's way to its nodes."""
    spec = importlib.util.find_spec("ansible_collections.community.docker")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 60, shown: Callable[[], Any] = lambda: "no more is known") -> Any:
    """Return the first true result of the condition. After the time limit, fail with the result of ``shown``."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"gave up after {seconds:.0f} s of waiting for {what}: {shown()}"
        time.sleep(0.25)
    return answer


@dataclass(frozen=True)
class Run:
    """The result of a run of ansible or ansible-playbook."""

    rc: int
    output: str

    @cached_property
    def recap(self) -> dict[str, dict[str, int]]:
        lines = re.findall(r"^(\S+)\s+: (ok=.*)$", self.output, re.MULTILINE)
        return {host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)} for host, counts in lines}

    def results(self, host: str) -> list[dict[str, Any]]:
        """Return the messages of tasks about a host, as far as Ansible prints them: failures, and everything in an ad-hoc run."""
        starts = re.finditer(rf"^(?:fatal: \[{host}\]: \S+|{host} \| \S+) => (?={{)", self.output, re.MULTILINE)
        return [json.JSONDecoder().raw_decode(self.output, start.end())[0] for start in starts]

    def failures(self, host: str) -> list[str]:
        return [result["msg"] for result in self.results(host) if "msg" in result]

    def row(self, host: str) -> str:
        """Return the host's line of the last table, without the host's name. In the recap, a colon follows the name."""
        return re.findall(rf"^{host} +(?![ :])(.*)$", self.output, re.MULTILINE)[-1]

    def too_wide(self, columns: int) -> list[str]:
        """Return the long lines of this collection, except commands for copying."""
        others = r"(?:TASK|PLAY|ok:|changed:|skipping:|included:|fatal:|\[WARNING\]:|To continue:|\S+ +: ok=)"
        return [line for line in self.output.splitlines() if len(line) > columns and not re.match(others, line)]

    def failed(self) -> list[str]:
        """Return the hosts with a failure in the recap."""
        return [host for host, counts in self.recap.items() if counts["failed"] or counts["unreachable"]]

    def changed(self) -> dict[str, int]:
        return {host: counts["changed"] for host, counts in self.recap.items()}


@dataclass(frozen=True)
class Node:
    name: str
    container: str
    address: str
    docker_host: str

    def start(self, *command: str, text: bytes | None = None, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        argv = ["docker", "--host", self.docker_host, "exec", "--interactive", self.container, *command]
        done = subprocess.run(argv, input=text or b"", capture_output=True, check=False, timeout=LIMIT_S)
        assert not check or done.returncode == 0, f"{self.name}: {command}: {done.stderr.decode()}{done.stdout.decode()}"
        return done

    def run(self, *command: str, check: bool = True) -> str:
        return self.start(*command, check=check).stdout.decode().strip()

    def docker(self, *command: str) -> str:
        return self.run("docker", *command)

    def docker_json(self, *command: str) -> Any:
        return json.loads(self.docker(*command))

    def inspect_tasks(self, ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return the tasks that the manager still has. The manager deletes the oldest tasks of a slot when swarm creates new tasks."""
        command = ("docker", "inspect", "--type", "task", *ids)
        done = self.start(*command, check=False)
        others = [line for line in done.stderr.decode().splitlines() if line and not line.endswith("not found")]
        assert not others, f"{self.name}: {command}: {others}"
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    def read(self, path: str) -> bytes | None:
        done = self.start("cat", path, check=False)
        return done.stdout if done.returncode == 0 else None

    def write(self, path: str, content: bytes) -> None:
        self.start("sh", "-c", 'mkdir -p "${1%/*}" && cat > "$1"', "-", path, text=content)

    def dockerd(self, verb: str, *units: str) -> None:
        """Start, restart or kill dockerd with systemctl. A unit may start three times a minute, so this first resets the starts of earlier tests."""
        self.run("systemctl", "reset-failed", "docker.service")
        self.run("systemctl", *verb.split(), *(units or ("docker.service",)))

    def started(self) -> str:
        """Return the time of dockerd's last start. The result is empty while dockerd does not run."""
        shown = self.run("systemctl", "show", "--property", "ActiveState,ActiveEnterTimestampMonotonic", "docker.service")
        state = dict(line.split("=", 1) for line in shown.splitlines())
        return state["ActiveEnterTimestampMonotonic"] if state["ActiveState"] == "active" else ""

    def files(self) -> dict[str, bytes | None]:
        return {path: self.read(path) for path in (DAEMON_JSON, CONFIG_TOML)}

    def advertised(self) -> tuple[dict[str, Any], bytes | None]:
        """Return the settings in the node's files, without the watcher's report, because no run writes the report."""
        daemon = json.loads(self.read(DAEMON_JSON) or b"{}")
        labels = [label for label in daemon.pop("labels", []) if not label.startswith("fleet.gpu-swarm.health=")]
        return {**daemon, "labels": labels}, self.read(CONFIG_TOML)

    def swarm(self) -> dict[str, Any]:
        return self.docker_json("info", "--format", "{{json .Swarm}}")

    def gpus(self) -> list[str]:
        """Return the full UUIDs of the node's GPUs. If a GPU is lost, nvidia-smi fails but still lists the other GPUs."""
        return UUID.findall(self.run("nvidia-smi", "-L", check=False))

    def touch(self) -> None:
        """Set the mark after which touched() looks for changes."""
        self.run("touch", "/run/mark")

    def touched(self) -> list[str]:
        """Return the files on the node's disk that are newer than the mark, except files of Ansible and containerd, and what a manager records."""
        apart = ["/root", "/root/.ansible*", "/tmp", "/var/cache/lab-compiled", "/var/lib/containerd*"]  # this includes mount points of the lab
        apart.append(f"{STATE_DIR}/record*")
        own = [word for path in apart for word in ("-not", "-path", path)]
        found = self.run("find", "/", "-mindepth", "1", "-xdev", "-cnewer", "/run/mark", *own)
        return found.splitlines()

    def leave(self) -> None:
        self.run("docker", "swarm", "leave", "--force", check=False)

    def unwatched(self) -> None:
        """Stop the watcher that an earlier test started. Otherwise it may report the changes of this test at any time."""
        self.run("systemctl", "stop", "gpu-swarm-health.service", check=False)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of a node, so that runs wait and do not change it."""
        lock, hold = f"{STATE_DIR}/lock", "/run/hold"
        self.run("touch", hold)
        self.run("systemd-run", "--collect", "flock", lock, "sh", "-c", f"while [ -e {hold} ]; do sleep 0.1; done")
        try:
            wait_until("the lock", lambda: self.start("flock", "--nonblock", lock, "true", check=False).returncode)
            yield
        finally:
            self.run("rm", "--force", hold)


@dataclass(frozen=True)
class Fleet:
    name: str
    env: dict[str, str]
    hosts: dict[str, Any] = field(repr=False)
    vars: dict[str, Any] = field(repr=False)
    work: Path
    network: tuple[str, ...] = ()  # the prefix of each Ansible command

    @classmethod
    def of(cls, name: str, work: Path) -> Fleet:
        lab = Lab.from_environment()
        found = yaml.safe_load((output(name) / "inventory.yml").read_text())["all"]
        # Wide enough that Ansible wraps no line that a test reads.
        env = {**os.environ, **variables(lab, output(name)), "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "1000"}
        return cls(name, env, found["hosts"], found["vars"], work)

    def __getitem__(self, name: str) -> Node:
        host = self.hosts[name]
        return Node(name, host["ansible_host"], host["lab_address"], self.env["DOCKER_HOST"])

    def inventory(self, hosts: dict[str, dict[str, Any]] | None = None, **groups: list[str]) -> Path:
        """Write an inventory with some of the fleet's nodes. ``hosts`` adds variables for these nodes, or hosts outside the fleet."""
        more = hosts or {}
        members = {name: {**self.hosts.get(name, {}), **more.get(name, {})} for names in groups.values() for name in names}
        children = {group: {"hosts": {name: {} for name in names}} for group, names in groups.items()}
        path = self.work / f"inventory-{len(list(self.work.glob('inventory-*')))}.yml"
        path.write_text(yaml.safe_dump({"all": {"vars": self.vars, "hosts": members, "children": children}}))
        return path

    def playbook(
        self, inventory: Path, *arguments: str, playbook: str = "fleet.gpu_swarm.provision", env: dict[str, str] | None = None
    ) -> Run:
        return self.ansible("ansible-playbook", "--inventory", str(inventory), *arguments, playbook, env=env)

    def module(self, hosts: str, name: str, arguments: dict[str, Any], *options: str) -> Run:
        """Run one module ad hoc."""
        inventory = self.inventory(nodes=list(self.hosts))
        return self.ansible(
            "ansible", "--inventory", str(inventory), "--module-name", name, "--args", json.dumps(arguments) if arguments else "", *options, hosts
        )

    def ansible(self, program: str, *arguments: str, env: dict[str, str] | None = None) -> Run:
        done = subprocess.run(
            [*self.network, str(BIN / program), *arguments],
            cwd=self.work, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        return Run(done.returncode, done.stdout)

    def killed_when(self, what: str, condition: Callable[[], Any], inventory: Path, *arguments: str, playbook: str) -> None:
        """Start a playbook, and kill it with all its processes once the condition is true."""
        command = [*self.network, str(BIN / "ansible-playbook"), "--inventory", str(inventory), *arguments, playbook]
        with (self.work / "killed.log").open("w+") as log:
            started = subprocess.Popen(
                command, cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                wait_until(what, condition, shown=lambda: Path(log.name).read_text())
            finally:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait(LIMIT_S)

    def over_ssh(self) -> Fleet:
        """Return the fleet for runs over SSH as a user with sudo. All of its nodes have ``ssh: true``."""
        found = yaml.safe_load((output(self.name) / SSH).read_text())["all"]
        return replace(self, hosts=found["hosts"], vars=found["vars"])

    def inside(self) -> Fleet:
        """Return the same fleet with the controller in the fleet's network. Only this network has the addresses of the nodes."""
        pid = Lab.from_environment().pidfile.read_text().strip()
        return replace(self, network=("nsenter", f"--net=/proc/{pid}/ns/net", "--"))

    def swap_gpus(self, node: str, machine: str) -> None:
        """Give a node the GPUs of another machine. ``machine`` is a name in tests/lab/nvml/fleet, or a file."""
        lab("nvml", self[node].container, machine)


def lab(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr


def at_hand(name: str, description: Path, given: str | None, work: Path) -> Iterator[Fleet]:
    """Start a fleet from this description. If a fleet is ``given``, use it and leave it up."""
    if given:
        yield Fleet.of(given, work)
        return
    if is_up(Lab.from_environment(), name):
        lab("down", name)  # remains of a killed run
    lab("up", str(description), "--name", name)
    yield Fleet.of(name, work)
    lab("down", name)


def of_its_own(name: str, description: str, work: Path) -> Iterator[Fleet]:
    """Start a fleet for one file of tests."""
    path = work / "fleet.yml"
    path.write_text(description)
    yield from at_hand(name, path, None, work)
