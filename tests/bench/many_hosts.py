# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host more costs the controller in memory: 500 hosts, all of them this machine, with eight GPUs made up.

``provision --check`` assesses each and plans for all; a play of one ping is Ansible's share of it. The peak is that of
ansible-playbook, whose workers share its pages.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.lab.lab import CHECKOUT

from .fleets import LOGS, BenchError, settings_apart, tail
from .memory import used_by
from .runs import PLAYBOOKS
from .table import Row, row

NVML = CHECKOUT / "tests" / "lab" / "nvml"
HOSTS = 500
RUNS = {"ping": [], "provision": ["--check"]}


def measure() -> list[Row]:
    """One row, in MiB per host."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(["make", "-s", "-C", NVML, f"OUT={made}"], check=True)
        share = {name: _per_host(name, Path(made)) for name in RUNS}
    return [row(f"{HOSTS} hosts: controller's memory per host, provision / ping (MiB)", share["provision"], share["ping"], None)]


def _per_host(name: str, made: Path) -> float:
    few, many = (_peak_mib(name, hosts, made) for hosts in (1, HOSTS))
    return (many - few) / (HOSTS - 1)


def _peak_mib(name: str, hosts: int, made: Path) -> float:
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
    used = used_by(command, environment, log)
    # Whether Docker runs on this machine, and so what becomes of the hosts, is all the same here: each has to be queried.
    queried = re.findall(r"^local\d+\s+: ok=[1-9]\d*\s+changed=\d+\s+unreachable=0 ", log.read_text(), re.MULTILINE)
    if len(queried) != hosts:
        raise BenchError(f"{name} queried {len(queried)} of {hosts} hosts ({log}):\n{tail(log)}")
    return used.peak_mib
