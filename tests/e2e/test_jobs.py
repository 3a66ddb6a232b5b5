# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""job and prune_jobs: jobs run once, are retried, end after their time limit, leave their logs, and are removed when they are finished."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.lab.lab import CHECKOUT

from .conftest import Loud
from .fleet import UUID, Fleet, wait_until
from .jobs import JOB, LABEL, PRUNE, STATUS, label_leaves_alone
from .swarm import classes_of

LOGS = "/var/lib/gpu-swarm/jobs"
# One job completes, one fails twice, and a node ends the third one at its time limit. They run on both releases of Docker.
SWEEP = {
    "name": "sweep",
    "image": "lab/task",
    "command": ["sh", "-c", 'echo "case $CASE"; nvidia-smi -L; test "$CASE" != bad || exit 3; test "$CASE" != long || exec sleep 100000'],
    "array": [{"CASE": "good"}, {"CASE": "bad"}, {"CASE": "long"}],
    "env": {"API_KEY": "k3y"},
    "time_limit": 5,
    "retries": 1,
}
# x-gpu needs a label that no node has yet.
LARGE = {"name": "large", "image": "lab/task", "gpus": 64, "x-gpu": {"model": "*4090*"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("jobs")
    for one in (SWEEP, LARGE):
        (made / f"{one['name']}.yml").write_text(yaml.safe_dump(one))
    return made


@pytest.fixture(scope="module", autouse=True)
def nothing_left(fleet: Fleet, first: Loud) -> Iterator[None]:
    yield
    for name in services(fleet):
        fleet["m1"].start("docker", "service", "rm", name, check=False)
    fleet["m1"].run("rm", "--recursive", "--force", LOGS)


def services(fleet: Fleet) -> list[str]:
    return fleet["m1"].docker("service", "ls", "--format", "{{.Name}}", "--filter", LABEL).split()


def logs(fleet: Fleet) -> str:
    return fleet["m1"].run("sh", "-c", f"cat {LOGS}/*", check=False)


def test_an_array_runs_once(fleet: Fleet, inventory: Path, folder: Path) -> None:
    arguments = ["-e", f"job={folder / 'sweep.yml'}", "-vvvv", "--diff"]
    checked = fleet.playbook(inventory, "--check", *arguments, playbook=JOB)
    assert checked.rc == 0, checked.output
    assert "parameters: CASE=bad" in checked.output
    assert services(fleet) == []

    run = fleet.playbook(inventory, *arguments, playbook=JOB)
    assert run.rc == 2, run.output
    assert "1 complete, 1 failed, 1 timed out" in run.output
    assert run.failures("m1")[-1].startswith("Job sweep: 2 of 3 did not complete: ")
    assert "k3y" not in checked.output + run.output
    # The second and the third job run twice.
    written = logs(fleet)
    assert [written.count(f"case {case}") for case in ("good", "bad", "long")] == [1, 2, 2]
    assert written.count("GPU-") == 5

    again = fleet.playbook(inventory, *arguments, playbook=JOB)
    assert (again.rc, again.changed()["m1"]) == (2, 0), again.output
    assert len(services(fleet)) == 3


def test_an_ended_job_is_not_pending(fleet: Fleet, inventory: Path) -> None:
    (line,) = [line for line in fleet.playbook(inventory, "-e", "output=json", playbook=STATUS).output.splitlines() if line.startswith("{")]
    found = json.loads(line)
    assert not {row["service"] for row in found["pending"]} & set(services(fleet)), line
    one = fleet.playbook(inventory, "-e", f"service={services(fleet)[0]}", playbook=STATUS)
    assert (one.rc, "0 of 1 tasks have a node, 0 wait" in one.output) == (0, True), one.output


def test_a_job_that_no_node_can_run_is_not_submitted(fleet: Fleet, inventory: Path, folder: Path) -> None:
    run = fleet.playbook(inventory, "-e", f"job={folder / 'large.yml'}", playbook=JOB)
    assert run.rc == 2, run.output
    assert "No node could ever run it" in run.output
    assert not [name for name in services(fleet) if name.startswith("large-")]
    assert classes_of(fleet, "g1") == classes_of(fleet, "g2") == []


def test_a_refusal_of_a_manager_is_not_reported_as_silent_managers(fleet: Fleet, inventory: Path, folder: Path) -> None:
    (folder / "refused.yml").write_text("name: refused\nimage: lab/task\nnetworks: [lost]\n")
    run = fleet.playbook(inventory, "-e", f"job={folder / 'refused.yml'}", playbook=JOB)
    assert run.rc == 2, run.output
    assert "networks of the job refused has lost, which the swarm does not have." in run.output, run.output
    # The list contains swarm's network for published ports, which no service may use.
    (folder / "refused.yml").write_text("name: refused\nimage: lab/task\nnetworks: [ingress]\n")
    run = fleet.playbook(inventory, "-e", f"job={folder / 'refused.yml'}", playbook=JOB)
    assert run.rc == 2, run.output
    assert "The job refused is refused. The manager at " in run.output, run.output
    assert "No manager of the swarm answers" not in run.output
    assert not [name for name in services(fleet) if name.startswith("refused-")]


def test_a_label_reruns_no_job_and_finished_jobs_are_removed(fleet: Fleet, inventory: Path) -> None:
    """The leader has Docker 26.1. test_releases.py tests Docker 20.10 and the newest release."""
    label_leaves_alone(fleet["m1"], services(fleet))
    run = fleet.playbook(inventory, "-e", "older_than=0s", playbook=PRUNE)
    assert (run.rc, run.changed()["m1"]) == (0, 1), run.output
    assert len(services(fleet)) == 2
    # A job that this collection did not create, and that no one selected for removal.
    assert fleet["m1"].docker("service", "rm", "marker") == "marker"


@pytest.mark.rare
def test_finished_jobs_are_removed_by_the_hour(fleet: Fleet, inventory: Path) -> None:
    unit, home = "gpu-swarm-manager.service", "/var/lib/gpu-swarm/manager"
    run = fleet.playbook(inventory, "-e", "older_than=0s", "-e", "keep_last=9", "-e", "failed=true", "-e", "timer=true", playbook=PRUNE)
    assert (run.rc, len(services(fleet))) == (0, 2), run.output
    assert fleet["m1"].run("systemctl", "is-active", unit) == "active"
    fleet["m1"].run("sed", "--in-place", "s/\"keep_last\": 9/\"keep_last\": 0/", f"{home}/settings.json")
    fleet["m1"].run("systemctl", "restart", unit)  # the service removes jobs at its start, and then every hour
    wait_until("the removal of what is over", lambda: services(fleet) == [], shown=lambda: services(fleet))
    assert logs(fleet).count("case ") == 5
    run = fleet.playbook(inventory, "-e", "timer=false", playbook=PRUNE)
    assert (run.rc, run.changed()["m1"]) == (0, 1), run.output
    assert '"jobs"' not in fleet["m1"].run("sh", "-c", f"cat {home}/settings.json", check=False)


@pytest.mark.rare
def test_x_gpu_selects_nodes_and_its_label_ends_with_the_job(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """g1 has RTX 4090, and g2 has T4."""
    path = tmp_path / "picked.yml"
    path.write_text(yaml.safe_dump({"name": "picked", "image": "lab/task", "command": ["nvidia-smi", "-L"], "x-gpu": {"model": "*4090*"}}))
    checked = fleet.playbook(inventory, "--check", "-e", f"job={path}", playbook=JOB)
    assert (checked.rc, classes_of(fleet, "g1"), services(fleet)) == (0, [], []), checked.output
    run = fleet.playbook(inventory, "-e", f"job={path}", playbook=JOB)
    assert (run.rc, len(classes_of(fleet, "g1")), classes_of(fleet, "g2")) == (0, 1, []), run.output
    (card,) = UUID.findall(fleet["m1"].run("sh", "-c", f"cat {LOGS}/picked*"))
    assert card in fleet["g1"].gpus()
    again = fleet.playbook(inventory, "-e", f"job={path}", playbook=JOB)
    assert (again.rc, again.changed()["m1"]) == (0, 0), again.output
    assert fleet.playbook(inventory, "-e", "job_name=picked", "-e", "state=absent", playbook=JOB).rc == 0
    run = fleet.playbook(inventory)
    assert (run.rc, classes_of(fleet, "g1")) == (0, []), run.output


@pytest.mark.rare
def test_a_job_that_is_run_again_during_its_removal_is_not_lost(fleet: Fleet, inventory: Path) -> None:
    """Try this four hundred times. Both sides run on the manager, because calls from another machine would be too slow."""
    packed, home = io.BytesIO(), "/run/race/ansible_collections/fleet/gpu_swarm/plugins"
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(CHECKOUT / "plugins/module_utils", "module_utils")
    fleet["m1"].start("sh", "-c", f"mkdir -p {home} && tar -x -C {home}", text=packed.getvalue())
    script = (Path(__file__).parent / "race_jobs.py").read_bytes()
    total = {"tries": 0, "accepted": 0, "removed": 0, "lost": 0}
    for _part in range(8):
        done = json.loads(fleet["m1"].start("env", "PYTHONPATH=/run/race", "python3", "-", "50", text=script).stdout)
        total = {key: total[key] + done[key] for key in total}
    assert (total["tries"], total["lost"]) == (400, 0), total
    # Each side was faster in some of the tries.
    assert min(total["accepted"], total["removed"]) > 20, total
