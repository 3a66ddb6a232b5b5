# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options and fixtures of the chaos tests: one fleet with running tasks, and the accidents that interrupt its runs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, at_hand

from .plan import rounds
from .yard import GPU_NODES, MANAGER, NODES, Yard

NAME = "chaos"
DESCRIPTION = Path(__file__).parent / "fleet.yml"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fleet", help="use this fleet, which is up, and leave it up")
    parser.addoption("--kills", type=int, default=int(os.environ.get("KILLS") or 20), help="how often a run is killed (KILLS; 20)")
    parser.addoption(
        "--seed", type=int, default=int(os.environ.get("SEED") or random.randrange(10**6)), help="seed of the random accidents (SEED; random)"
    )


def _sequel(config: pytest.Config) -> str:
    return f"to repeat: make chaos KILLS={config.getoption('--kills')} SEED={config.getoption('--seed')}"


def pytest_report_header(config: pytest.Config) -> str:
    return _sequel(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(_sequel(config))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "accidents" in metafunc.fixturenames:
        drawn = rounds(metafunc.config.getoption("--seed"), metafunc.config.getoption("--kills"), NODES)
        metafunc.parametrize("accidents", drawn, ids=[f"{found[0].number}-{found[-1].number}" for found in drawn])


@pytest.fixture(scope="session")
def fleet(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from at_hand(NAME, DESCRIPTION, pytestconfig.getoption("--fleet"), tmp_path_factory.mktemp(NAME))


@pytest.fixture(scope="session")
def yard(pytestconfig: pytest.Config, fleet: Fleet) -> Yard:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        """Print a line during the test."""
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)

    return Yard(fleet, fleet.inventory(swarm_managers=[MANAGER], gpu_nodes=GPU_NODES), say)
