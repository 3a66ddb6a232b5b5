# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After a lab is taken down, the machine is unchanged except for installed packages and caches."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import CHECKOUT, Lab

FLEET = "no-trace"
# Counters and states that change on their own.
MOVING = re.compile(
    r"random|^fs\.quota|(^|[._-])(nr|count|state|stat|pid|score)([._-]|$)|file-nr|inode|dentry|\.last_|tainted|perf_event|sched_domain|icmp_msgs|keys\."
)


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def firewall() -> list[str]:
    """Return every rule of both kernel interfaces, without counters."""
    found = []
    for command in ("iptables-nft-save", "iptables-legacy-save", "ip6tables-nft-save", "ip6tables-legacy-save"):
        found += [f"{command}: {line}" for line in output(command).splitlines() if not line.startswith("#")]
    return [re.sub(r"\[\d+:\d+\]", "", line) for line in found]


def settings() -> list[str]:
    lines = subprocess.run(["sysctl", "-a"], capture_output=True, text=True, check=False).stdout.splitlines()
    return [line for line in lines if not MOVING.search(line.partition(" = ")[0])]


def snapshot() -> dict[str, list[str]]:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "links": sorted(line.split(": ")[1] for line in output("ip", "-o", "link").splitlines()),
        "addresses": sorted(" ".join(line.split()[1:4]) for line in output("ip", "-o", "address").splitlines()),
        "routes": sorted(output("ip", "route", "show", "table", "all").splitlines()),
        "network namespaces": output("ip", "netns", "list").splitlines(),
        # Compare the options too: a systemd that sees the host's /sys/fs/cgroup makes this mount read-only.
        "mounts": sorted(" ".join(line.split()[4:]) for line in mounts),
        "firewall": firewall(),
        "settings of the kernel": settings(),
        "control group hierarchies": sorted(line.split(":")[1] for line in Path("/proc/self/cgroup").read_text().splitlines()),
        **{str(folder): sorted(os.listdir(folder)) for folder in map(Path, ("/etc", "/run", "/var/lib", "/mnt", "/opt", "/sys/fs/cgroup"))},
    }


def changes(before: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the differences line by line."""
    now = snapshot()
    return {part: sorted(set(before[part]) ^ set(now[part])) for part in before if sorted(before[part]) != sorted(now[part])}


def traces(lab: Lab) -> dict[str, list[str]]:
    """Return processes of the lab, recognised by a mark that they inherit, and its control groups and files."""
    marks = [str(lab.root).encode(), lab.name.encode()]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(folder / name).read_bytes() for name in ("cmdline", "cgroup", "environ")]
        except OSError:  # the process has ended meanwhile
            continue
        if folder.name != str(os.getpid()) and any(mark in text for mark in marks for text in texts):
            found.append(texts[0].replace(b"\0", b" ").decode(errors="replace").strip())
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{lab.name}")]
    return {"processes": found, "control groups": groups, "files": [str(path) for path in (lab.root, lab.run) if path.exists()]}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    root = tmp_path / "lab"
    monkeypatch.setenv("GPU_SWARM_LAB_ROOT", str(root))
    yield Lab(root)
    command("down", "--all")


def command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.lab", *words], cwd=CHECKOUT, check=True)


def start(folder: Path) -> None:
    description = folder / "fleet.yml"
    description.write_text("nodes: {t1: {gpus: a100, toolkit: 1.20.0, groups: [swarm_managers, gpu_nodes]}}\n")
    command("up", str(description), "--name", FLEET)
    node = f"{FLEET}.t1"
    command("exec", node, "--", "docker", "swarm", "init", "--advertise-addr", "eth0")
    command("exec", node, "--", "docker", "network", "create", "--driver", "overlay", "--attachable", "net")
    command("exec", node, "--", "docker", "run", "--detach", "--network", "net", "--publish", "8080:80", "lab/task")


def nothing() -> dict[str, list[str]]:
    return {"processes": [], "control groups": [], "files": []}


def test_down_leaves_no_trace(lab: Lab, tmp_path: Path) -> None:
    before = snapshot()
    assert traces(lab) == nothing()
    start(tmp_path)
    there = traces(lab)
    # Prove that the search finds existing traces.
    assert any(line.startswith("dockerd ") for line in there["processes"])
    assert any("task" in line for line in there["processes"])
    assert there["control groups"]
    assert {line.partition(" =")[0] for line in before["settings of the kernel"]} >= {"net.ipv4.ip_forward", "fs.inotify.max_user_instances"}
    assert there["files"] == [str(lab.root), str(lab.run)]
    command("down", "--all")
    assert traces(lab) == nothing()
    assert changes(before) == {}
    assert not (CHECKOUT / "build" / "lab" / FLEET).exists()


@pytest.mark.rare
def test_a_killed_lab_leaves_no_process_and_down_removes_its_files(lab: Lab, tmp_path: Path) -> None:
    before = snapshot()
    start(tmp_path)
    os.kill(int(lab.pidfile.read_text()), signal.SIGKILL)
    command("down", "--all")
    assert traces(lab) == nothing()
    assert changes(before) == {}


@pytest.mark.rare
def test_removing_a_fleet_keeps_the_others(lab: Lab, tmp_path: Path) -> None:
    start(tmp_path)
    second = tmp_path / "second.yml"
    second.write_text("nodes: {t1: {}}\n")
    command("up", str(second), "--name", f"{FLEET}-2")
    command("down", f"{FLEET}-2")
    command("exec", f"{FLEET}.t1", "--", "docker", "info", "--format", "{{.Swarm.LocalNodeState}}")
    assert not (CHECKOUT / "build" / "lab" / f"{FLEET}-2").exists()
