# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One fleet for all tests of a session. Several tests start from the state after the fleet's first provision."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from .fleet import Fleet, Run, at_hand, toolkit

NAME = "e2e"
HERE = Path(__file__).parent
# The nodes to provision. Tests break the others, x1 to x4.
MAIN = {"swarm_managers": ["m1"], "gpu_nodes": ["g1", "g2"]}
NODES = ["m1", "g1", "g2"]
# Settings of a user in daemon.json of g1.
BY_A_PERSON = yaml.safe_load((HERE / "fleet.yml").read_text())["nodes"]["g1"]["daemon_json"].encode()
PROXY = "/etc/apt/apt.conf.d/80proxy"
# A proxy that does not exist, and a host that needs no proxy. An installation works only if both settings are kept.
PROXY_SETTING = b'Acquire::http::Proxy "http://127.0.0.1:9";\nAcquire::http::Proxy::lab-repo "DIRECT";\n'


# Nobody answers at this address, and the token is invalid.
NOBODY = "198.18.255.254:2377"
TOKEN = "SWMTKN-1-3pu6hszjas19xyp7ghgosyx9k8atbfcr8p2is99znpy26u2lkl-1awxwuwd3z9j1z3puu7rcgdbx"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fleet", help="use this fleet, which is up, and leave it up")
    parser.addoption("--name", default=NAME, help="the name of the fleet that is booted, where another run has one beside it")
    parser.addoption("--swarm-fleet", help="the same for the tests of a swarm's faults, which have a fleet of their own")
    parser.addoption("--rpm-fleet", help="the same for the tests with dnf and zypper")
    parser.addoption("--dnf5-fleet", help="the same for the tests with dnf 5")


@pytest.fixture(scope="session")
def fleet(booted: Fleet) -> Fleet:
    """Make x5 join a swarm that does not exist. The attempt fails after 25 s and leaves the node half-joined."""
    booted["x5"].leave()
    booted["x5"].run("systemd-run", "--collect", "docker", "swarm", "join", "--token", TOKEN, NOBODY)
    return booted


@pytest.fixture(scope="session")
def booted(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    name = pytestconfig.getoption("--name")
    yield from at_hand(name, HERE / "fleet.yml", pytestconfig.getoption("--fleet"), tmp_path_factory.mktemp(name))


@pytest.fixture(scope="session")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(**MAIN)


@dataclass(frozen=True)
class Bare:
    """Run --check on nodes that were never provisioned."""

    run: Run
    touched: dict[str, list[str]]
    started: tuple[dict[str, str], dict[str, str]]
    swarm: dict[str, str]


@pytest.fixture(scope="session")
def bare(fleet: Fleet, inventory: Path) -> Bare:
    fleet["g2"].write(PROXY, PROXY_SETTING)
    before = {name: fleet[name].started() for name in NODES}
    for name in NODES:
        fleet[name].touch()
    run = fleet.playbook(inventory, "--check", "--diff")
    return Bare(
        run=run,
        touched={name: fleet[name].touched() for name in NODES},
        started=(before, {name: fleet[name].started() for name in NODES}),
        swarm={name: fleet[name].swarm()["LocalNodeState"] for name in NODES},
    )


@dataclass(frozen=True)
class Loud:
    """Run at Ansible's highest verbosity, with every option that keeps data on the controller."""

    run: Run
    began: float
    home: Path
    log: Path
    cache: Path

    @classmethod
    def of(cls, fleet: Fleet, inventory: Path, kept: Path, *arguments: str, **options: str) -> Loud:
        began = time.time()
        home, log, cache = kept / "home", kept / "ansible.log", kept / "facts"
        keep = {"ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(cache)}
        run = fleet.playbook(
            inventory, "-vvvv", "--diff", *arguments, **options,
            env={"ANSIBLE_HOME": str(home), "ANSIBLE_LOG_PATH": str(log), "ANSIBLE_PIPELINING": "1", **keep},
        )  # fmt: skip
        assert run.rc == 0, run.output
        return cls(run, began, home, log, cache)


@pytest.fixture(scope="session")
def first(fleet: Fleet, inventory: Path, bare: Bare, tmp_path_factory: pytest.TempPathFactory) -> Loud:
    """Return the result of the first provision."""
    return Loud.of(fleet, inventory, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def as_before(fleet: Fleet, inventory: Path, first: Loud) -> Iterator[None]:
    """Let each test of a file change the members, and restore the state of the first provision at the end."""
    yield
    for name in MAIN["gpu_nodes"]:
        fleet["m1"].docker("node", "update", "--availability", "active", fleet[name].swarm()["NodeID"])
    run = fleet.playbook(inventory, *toolkit(version="1.20.0", hold=False))
    assert run.rc == 0, run.output
