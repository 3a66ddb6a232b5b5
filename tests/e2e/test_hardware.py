# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs of a node change in a running fleet. provision adapts the node, and no task keeps running on a lost GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.fleet import MACHINES

from .conftest import Loud
from .fleet import CONFIG_TOML, Fleet, Run, wait_until
from .swarm import GPU_NODES, KIND, availabilities, availability_of, member, named, shown
from .work import all_running, service

pytestmark = pytest.mark.rare

NODE = "g1"
DEVICE = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WITHIN_S = 60  # this machine may be busy
WHOLE = (MACHINES / "rtx4090x2.conf").read_text()
CONSENT = ("--extra-vars", "gpu_node_allow_shrink=true")
POLICY = ("--extra-vars", json.dumps({"gpu_node_advertise": [{"as": "mig"}, {"as": "gpu", "kind": KIND}]}))


class Bench:
    """One node with a replaceable machine, and a service that has GPUs on this node and on the other node."""

    def __init__(self, fleet: Fleet, inventory: Path, work: Path) -> None:
        self.fleet, self.inventory, self.work = fleet, inventory, work
        self.node = fleet[NODE]

    def put(self, machine: str) -> None:
        """Give the node another machine. If the node loses an advertised GPU, wait until the watcher has paused the node."""
        path = self.work / "machine.conf"
        path.write_text(machine)
        self.fleet.swap_gpus(NODE, str(path))
        self.watch_anew()  # a real machine would reboot for such a change
        there = DEVICE.findall(self.node.run("nvidia-smi", "-L", check=False))
        if {value for values in shown(self.fleet, NODE).values() for value in values} - set(there):
            wait_until("the pause", lambda: availability_of(self.fleet, NODE) == ("pause", "active"), WITHIN_S, lambda: member(self.fleet, NODE))

    def watch_anew(self) -> None:
        """Restart the watcher. Otherwise it reports changes late that happen within two minutes after a fault."""
        self.node.run("sh", "-c", 'systemctl reset-failed "$1"; systemctl restart "$1"', "-", "gpu-swarm-health.service")

    def provision(self, *options: str) -> Run:
        return self.fleet.playbook(self.inventory, "--limit", NODE, *options)

    def follows(self, *options: str) -> None:
        """Run provision. Check that it updates the node with at most one start of dockerd, and returns the node to service."""
        since = self.fleet["m1"].run("date", "+%s.%N")
        self.node.run("logger", "--tag", "hardware", "begins")
        run = self.provision(*options)
        assert run.rc == 0, run.output
        log = self.node.run("journalctl", "--output", "cat", "--no-pager", "-t", "hardware", "-t", "systemd")
        assert log.rpartition("begins")[2].count("Started docker.service") <= 1
        assert availabilities(self.fleet, NODE, since)[-1:] in ([], ["active"])
        assert availability_of(self.fleet, NODE) == ("active", None)

    def all_tasks_run_on_existing_gpus(self, replicas: int) -> None:
        tasks = wait_until("the tasks to be placed again", lambda: all_running(self.fleet["m1"], "hold", replicas))
        homes = {self.fleet[name].swarm()["NodeID"]: self.fleet[name].gpus() for name in GPU_NODES}
        given = [(task["NodeID"], named(task["GenericResources"])[KIND]) for task in tasks]
        for node_id, gpus in given:
            assert set(gpus) <= set(homes[node_id])
        assert len({gpu for _node_id, gpus in given for gpu in gpus}) == replicas  # and no GPU is used twice


@pytest.fixture(scope="module")
def exchanged(fleet: Fleet, first: Loud, inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Replace the machine of the node. Each test continues with the machine of the previous test. At the end, restore the first machine."""
    bench = Bench(fleet, inventory, tmp_path_factory.mktemp("machines"))
    yield bench
    bench.put(WHOLE)
    bench.follows(*CONSENT)


@pytest.fixture
def bench(exchanged: Bench) -> Iterator[Bench]:
    """Start four tasks on the fleet's GPUs. Swarm spreads the tasks, so some tasks run on the node whose machine is replaced."""
    with service(exchanged.fleet, "hold", 4, "--generic-resource", f"{KIND}=1") as tasks:
        assert member(exchanged.fleet, NODE)["ID"] in [task["NodeID"] for task in tasks]
        yield exchanged


def test_a_card_is_gone_and_comes_back(fleet: Fleet, bench: Bench) -> None:
    before = (bench.node.advertised(), bench.node.started())
    gone = bench.node.gpus()[1]
    bench.put(WHOLE.replace("[gpu 0-1]", "[gpu 0]"))
    run = bench.provision()
    assert run.rc == 2
    assert f"would advertise less than before: {gone} is gone" in run.failures(NODE)[-1]
    assert (bench.node.advertised(), bench.node.started()) == before
    assert availability_of(fleet, NODE) == ("pause", "active")  # no new task starts on a lost card

    bench.follows(*CONSENT)
    assert shown(fleet, NODE) == {KIND: bench.node.gpus()}
    bench.all_tasks_run_on_existing_gpus(4)

    bench.put(WHOLE)
    bench.follows()
    assert gone in shown(fleet, NODE)[KIND]


def test_a_driver_is_upgraded(fleet: Fleet, bench: Bench) -> None:
    """Until the reboot, no GPU can be read and nothing can be changed, and the watcher pauses the node.

    After the reboot, the new driver changes only a label, and dockerd is not restarted.
    """
    before = (bench.node.advertised(), bench.node.started())
    bench.put(WHOLE.replace("\n\n", "\ninit = version-mismatch\n\n", 1))
    run = bench.provision()
    assert run.rc == 2
    assert "reboot" in run.failures(NODE)[-1].lower()
    assert availability_of(fleet, NODE) == ("pause", "active")

    bench.put(WHOLE.replace("driver = 575.64.05", "driver = 580.95.05"))
    bench.follows()
    assert (bench.node.advertised(), bench.node.started()) == before
    assert member(fleet, NODE)["Spec"]["Labels"]["gpu.driver"] == "580.95.05"
    bench.all_tasks_run_on_existing_gpus(4)


def test_cuda_loses_its_device_while_nvml_works(fleet: Fleet, bench: Bench) -> None:
    """This happens after a reboot if no service creates the device. The watcher pauses the node. A run makes the device and returns the node."""
    started = bench.node.started()
    bench.node.run("rm", "/dev/nvidia-uvm")
    bench.node.run("nvidia-smi", "-L")
    bench.watch_anew()
    wait_until("the pause", lambda: availability_of(fleet, NODE) == ("pause", "active"), WITHIN_S, lambda: member(fleet, NODE))
    bench.follows()
    assert bench.node.run("stat", "-c", "%F", "/dev/nvidia-uvm").strip() == "character special file"
    assert bench.node.started() == started


def test_a_toolkit_that_starts_no_container_has_its_node_paused(fleet: Fleet, bench: Bench) -> None:
    """Someone set a mode without a CDI specification. A run refuses the node with NVIDIA's message until the specification exists."""
    before = bench.node.read(CONFIG_TOML) or b""
    bench.node.write(CONFIG_TOML, before.replace(b'mode = "auto"', b'mode = "cdi"'))
    try:
        bench.watch_anew()
        wait_until("the pause", lambda: availability_of(fleet, NODE) == ("pause", "active"), WITHIN_S, lambda: member(fleet, NODE))
        run = bench.provision()
        assert run.rc == 2
        assert "'nvidia-ctk cdi list' does not list nvidia.com/gpu=GPU-" in run.failures(NODE)[-1]
        bench.node.run("nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml")
        bench.follows()
    finally:
        bench.node.write(CONFIG_TOML, before)
        bench.node.run("rm", "-f", "/etc/cdi/nvidia.yaml")


def test_a_card_is_swapped_and_another_one_fails(fleet: Fleet, bench: Bench) -> None:
    new = "GPU-5a3b1c00-0000-4000-8000-000000000001"
    bench.put(f"{WHOLE}\n[gpu 1]\nuuid = {new}\n")
    bench.follows()  # one new card for each lost card: such a change needs no consent
    assert new in shown(fleet, NODE)[KIND]
    bench.all_tasks_run_on_existing_gpus(4)

    (well,) = set(shown(fleet, NODE)[KIND]) - {new}
    bench.put(f"{WHOLE}\n[gpu 1]\nuuid = {new}\nfault = lost\n")
    bench.follows(*CONSENT)
    assert shown(fleet, NODE) == {KIND: [well]}
    bench.all_tasks_run_on_existing_gpus(4)


def test_mig_is_switched_on_and_off(fleet: Fleet, bench: Bench) -> None:
    cut = (MACHINES / "a100-mig.conf").read_text()
    bench.put("\n".join(line.replace("mig = on", "mig = off") for line in cut.splitlines() if not line.startswith("mig-device")) + "\n")
    bench.follows(*POLICY)
    whole = shown(fleet, NODE)
    assert len(whole[KIND]) == 2

    bench.put(cut)
    bench.follows(*POLICY)
    assert sorted(shown(fleet, NODE)) == ["MIG-1g.10gb", "MIG-2g.20gb", "MIG-3g.40gb", KIND]
    assert len(shown(fleet, NODE)[KIND]) == 1
    bench.all_tasks_run_on_existing_gpus(4)

    bench.put("\n".join(line.replace("mig = on", "mig = off") for line in cut.splitlines() if not line.startswith("mig-device")) + "\n")
    bench.follows(*POLICY, *CONSENT)
    assert shown(fleet, NODE) == whole
