# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet of the lab as tests use it: playbooks run on it, its nodes are queried, broken and fixed."""

from __future__ import annotations

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
# What hangs is ended; beside two other stages a run over several nodes can take minutes.
LIMIT_S = 900


def advertised_as(kind: str) -> tuple[str, str]:
    """A policy that has the GPUs under this kind: if another one was there before, new files and a restart of dockerd."""
    return "--extra-vars", json.dumps({"gpu_node_advertise": [{"as": "gpu", "kind": kind}]})


def toolkit(**wanted: Any) -> tuple[str, str]:
    """The role's variables, by what comes after its name."""
    return "--extra-vars", json.dumps({f"nvidia_container_toolkit_{name}": value for name, value in wanted.items()})


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 60, shown: Callable[[], Any] = lambda: "no more is known") -> Any:
    """The condition's first answer that is true. If there is none in time, the failure says what is shown then."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"gave up after {seconds:.0f} s of waiting for {what}: {shown()}"
        time.sleep(0.25)
    return answer


@dataclass(frozen=True)
class Run:
    """What came out of ansible or ansible-playbook."""

    rc: int
    output: str

    @cached_property
    def recap(self) -> dict[str, dict[str, int]]:
        lines = re.findall(r"^(\S+)\s+: (ok=.*)$", self.output, re.MULTILINE)
        return {host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)} for host, counts in lines}

    def results(self, host: str) -> list[dict[str, Any]]:
        """What tasks said of a host, where Ansible shows it: failures, and all of an ad-hoc run."""
        starts = re.finditer(rf"^(?:fatal: \[{host}\]: \S+|{host} \| \S+) => (?={{)", self.output, re.MULTILINE)
        return [json.JSONDecoder().raw_decode(self.output, start.end())[0] for start in starts]

    def failures(self, host: str) -> list[str]:
        return [result["msg"] for result in self.results(host) if "msg" in result]

    def row(self, host: str) -> str:
        """The host's line of the table at the end, but for its name. A line of the recap has a colon there."""
        return re.findall(rf"^{host} +(?![ :])(.*)$", self.output, re.MULTILINE)[-1]

    def too_wide(self, columns: int) -> list[str]:
        """The longer lines of this collection, but for the command that is for copying."""
        others = r"(?:TASK|PLAY|ok:|changed:|skipping:|included:|fatal:|\[WARNING\]:|To continue:|\S+ +: ok=)"
        return [line for line in self.output.splitlines() if len(line) > columns and not re.match(others, line)]

    def failed(self) -> list[str]:
        """The hosts that the recap counts a failure of."""
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
        """Those of them that the manager still has: it forgets the oldest of a slot as new ones come."""
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
        """``systemctl start``, ``restart`` or ``kill`` of it. A unit may start three times a minute; starts by earlier tests do not count here."""
        self.run("systemctl", "reset-failed", "docker.service")
        self.run("systemctl", *verb.split(), *(units or ("docker.service",)))

    def started(self) -> str:
        """When dockerd was started last: empty while it does not run."""
        shown = self.run("systemctl", "show", "--property", "ActiveState,ActiveEnterTimestampMonotonic", "docker.service")
        state = dict(line.split("=", 1) for line in shown.splitlines())
        return state["ActiveEnterTimestampMonotonic"] if state["ActiveState"] == "active" else ""

    def files(self) -> dict[str, bytes | None]:
        return {path: self.read(path) for path in (DAEMON_JSON, CONFIG_TOML)}

    def advertised(self) -> tuple[dict[str, Any], bytes | None]:
        """What its files say but for what its watcher reports there, which is none of a run's."""
        daemon = json.loads(self.read(DAEMON_JSON) or b"{}")
        labels = [label for label in daemon.pop("labels", []) if not label.startswith("fleet.gpu-swarm.health=")]
        return {**daemon, "labels": labels}, self.read(CONFIG_TOML)

    def swarm(self) -> dict[str, Any]:
        return self.docker_json("info", "--format", "{{json .Swarm}}")

    def gpus(self) -> list[str]:
        """The full UUIDs of its GPUs, as nvidia-smi lists them; it fails over one that is lost, and goes on."""
        return UUID.findall(self.run("nvidia-smi", "-L", check=False))

    def touch(self) -> None:
        """From here on, touched() returns what was changed."""
        self.run("touch", "/run/mark")

    def touched(self) -> list[str]:
        """What lies on the node's disk and is newer than the mark, but for what Ansible and containerd keep of their own."""
        apart = ["/root", "/root/.ansible*", "/tmp", "/var/cache/lab-compiled", "/var/lib/containerd*"]  # mount points of the lab's among them
        own = [word for path in apart for word in ("-not", "-path", path)]
        found = self.run("find", "/", "-mindepth", "1", "-xdev", "-cnewer", "/run/mark", *own)
        return found.splitlines()

    def leave(self) -> None:
        self.run("docker", "swarm", "leave", "--force", check=False)

    def unwatched(self) -> None:
        """A watcher that a test before has left here reports what other tests do to the node's files, when it likes."""
        self.run("systemctl", "stop", "gpu-swarm-health.service", check=False)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """As long as this lasts, no run changes it: they wait for the lock that whoever changes a node takes."""
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
    network: tuple[str, ...] = ()  # the command in front of Ansible's

    @classmethod
    def of(cls, name: str, work: Path) -> Fleet:
        lab = Lab.from_environment()
        found = yaml.safe_load((output(name) / "inventory.yml").read_text())["all"]
        # So wide that no text that a test looks for is folded.
        env = {**os.environ, **variables(lab, output(name)), "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "1000"}
        return cls(name, env, found["hosts"], found["vars"], work)

    def __getitem__(self, name: str) -> Node:
        host = self.hosts[name]
        return Node(name, host["ansible_host"], host["lab_address"], self.env["DOCKER_HOST"])

    def inventory(self, hosts: dict[str, dict[str, Any]] | None = None, **groups: list[str]) -> Path:
        """An inventory with some of the fleet's nodes; ``hosts`` has more variables of theirs, or hosts of no fleet."""
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
        """One module, ad hoc."""
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
        """A playbook that is killed with all its processes once the condition holds."""
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
        """For runs, as a user with sudo: all of its nodes have ``ssh: true``."""
        found = yaml.safe_load((output(self.name) / SSH).read_text())["all"]
        return replace(self, hosts=found["hosts"], vars=found["vars"])

    def inside(self) -> Fleet:
        """The same fleet with the controller in its network: elsewhere the nodes' addresses lead nowhere."""
        pid = Lab.from_environment().pidfile.read_text().strip()
        return replace(self, network=("nsenter", f"--net=/proc/{pid}/ns/net", "--"))

    def swap_gpus(self, node: str, machine: str) -> None:
        """Another machine under a node: a name in tests/lab/nvml/fleet."""
        lab("nvml", self[node].container, machine)


def lab(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr


def at_hand(name: str, description: Path, given: str | None, work: Path) -> Iterator[Fleet]:
    """The fleet of that description; or the given one, which is up and stays up."""
    if given:
        yield Fleet.of(given, work)
        return
    if is_up(Lab.from_environment(), name):
        lab("down", name)  # of a run that was killed
    lab("up", str(description), "--name", name)
    yield Fleet.of(name, work)
    lab("down", name)


def of_its_own(name: str, description: str, work: Path) -> Iterator[Fleet]:
    """A fleet for one file of tests."""
    path = work / "fleet.yml"
    path.write_text(description)
    yield from at_hand(name, path, None, work)
