# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures what one more host costs in memory, time and CPU. All 500 hosts are this machine, with eight simulated GPUs.

``provision --check`` assesses each host and plans for all hosts. A play with one ping shows Ansible's share. The memory is the peak of
ansible-playbook. Its workers share its pages. Time and CPU include the modules, because they run here as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.lab.lab import CHECKOUT

from .fleets import LOGS, BenchError, settings_apart, tail
from .memory import used_by
from .runs import PLAYBOOKS
from .table import Row, row

NVML = CHECKOUT / "tests" / "lab" / "nvml"
HOSTS = 500
RUNS = {"ping": [], "provision": ["--check"]}


class Cost(NamedTuple):
    """The cost of a run, or of one more host."""

    peak_mib: float
    seconds: float
    cpu: float


def measure() -> list[Row]:
    return rows({name: per_host(*few_and_many) for name, few_and_many in costs(1, HOSTS).items()})


def costs(*numbers: int) -> dict[str, list[Cost]]:
    """Return the cost of each run with each of these numbers of hosts."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(["make", "-s", "-C", NVML, f"OUT={made}"], check=True)
        return {name: [_cost(name, hosts, Path(made)) for hosts in numbers] for name in RUNS}


def rows(share: dict[str, Cost]) -> list[Row]:
    """Return the rows by the names of runs."""
    provision, ping = share["provision"], share["ping"]
    return [
        row(f"{HOSTS} hosts: controller's memory per host, provision / ping (MiB)", provision.peak_mib, ping.peak_mib, None),
        row(f"{HOSTS} hosts, all on this machine: time per host, provision / ping (s)", provision.seconds, ping.seconds, None),
        row(f"{HOSTS} hosts, all on this machine: CPU per host, provision / ping (s)", provision.cpu, ping.cpu, None),
    ]


def per_host(few: Cost, many: Cost) -> Cost:
    """Return the cost of one host from the costs of few and of many, which removes the fixed cost of a run."""
    return Cost(*((more - less) / (HOSTS - 1) for more, less in zip(many, few, strict=True)))


def _cost(name: str, hosts: int, made: Path) -> Cost:
    inventory, log = made / f"{hosts}.yml", LOGS / f"{hosts}-hosts-{name}.log"
    local = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "gpu_node_nvml_path": str(made / "libnvidia-ml.so.1"),
    }
    inventory.write_text(yaml.safe_dump({"all": {"vars": local, "children": {"gpu_nodes": {"hosts": {f"local[1:{hosts}]": None}}}}}))
    environment = {
        **settings_apart(), "GPU_LAB_NVML": str(NVML / "fleet" / "h100x8.conf"), "ANSIBLE_FORKS": "32",
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
    }  # fmt: skip
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "--inventory", str(inventory), *PLAYBOOKS[name], *RUNS[name]]
    began = time.monotonic()
    used = used_by(command, environment, log)
    seconds = time.monotonic() - began
    # Docker does not have to run on this machine, and the result of the run does not matter. Each host must be queried.
    queried = re.findall(r"^local\d+\s+: ok=[1-9]\d*\s+changed=\d+\s+unreachable=0 ", log.read_text(), re.MULTILINE)
    if len(queried) != hosts:
        raise BenchError(f"{name} queried {len(queried)} of {hosts} hosts ({log}):\n{tail(log)}")
    return Cost(used.peak_mib, seconds, used.cpu)
