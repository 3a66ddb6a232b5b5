# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A day on a fleet: services of two owners come and go, another manager leads, a card dies and returns, a run moves work, and a manager is away.

Then usage, events, the history of each card, the page and the metrics tell the same story as Docker's API. The test notes what the API shows, and
compares in one_story.py. It takes about 20 minutes. GPU_SWARM_DAY may name a folder for the pages and screens of this day.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from . import one_story
from .cutting import meanwhile
from .fleet import STATE_DIR, Fleet, at_hand, wait_until
from .one_story import Cards, Held, Span
from .swarm import KIND, named, stopped
from .watched import CALM_S, WITHIN_S, replace, status
from .work import all_running, containers

pytestmark = pytest.mark.rare

NAME = "e2e-day"
FLEET = """
nodes:
  m1: {groups: [swarm_managers]}
  m2: {groups: [swarm_managers]}
  m3: {groups: [swarm_managers]}
  g1: {gpus: t4x4, toolkit: 1.20.0}
  g2: {gpus: rtx4090x2, toolkit: 1.20.0}
"""
MANAGERS, NODES = ["m1", "m2", "m3"], ["g1", "g2"]
UNIT = "gpu-swarm-manager.service"
TEXTFILES = "/var/lib/prometheus/node-exporter"  # swarm_member_metrics_directory
# Of two GPU nodes, the managers may pause one for a fault.
SETTINGS = {"gpu_swarm_page": True, "gpu_swarm_isolation": "off", "swarm_member_react_limit": 100}
# The leader reads at least once a minute, and looks every 15 s whether a reading is due. A missing reading for three times as long is a gap.
READING_S = 90
GAP_S = 3 * READING_S
OVER, GO = "/over", "/run/go"
Row = dict[str, Any]


class Day:
    """Plays the day, and notes what Docker's API showed.

    ``leader`` leads from the change of leader on, and its record is the one that is compared. ``former`` led before. ``witness`` is the third
    manager. It never leads and never stops. A manager that does not lead reads every ten minutes, and when its service starts.
    """

    def __init__(self, fleet: Fleet, inventory: Path) -> None:
        self.fleet, self.inventory = fleet, inventory
        self.owners: dict[str, str] = {}
        self.happened: dict[str, Held] = {}
        self.told: dict[str, tuple[Cards, Cards, Cards, Cards]] = {}
        self.former = self.leader = self.witness = ""
        self.began = 0
        self.dead = fleet["g2"].gpus()[-1]

    # -- what managers tell ------------------------------------------------------------------------------------------

    def asked(self, manager: str, *words: str) -> Any:
        """Return the answer of the command gpu-swarm on a manager; {} without an answer."""
        done = self.fleet[manager].start("gpu-swarm", *words, "--json", check=False)
        return json.loads(done.stdout) if done.stdout else {}

    def read_at(self, manager: str) -> float:
        return float(self.asked(manager, "status").get("at", 0))

    def now(self) -> int:
        return int(self.fleet["m1"].run("date", "+%s"))

    def await_reading(self, manager: str) -> int:
        """Wait for a reading that begins after this moment, and return its time."""
        now = self.now()
        wait_until(f"a reading of {manager}", lambda: self.has_read(manager, now), 2 * READING_S, lambda: self.journal(manager))
        return int(self.read_at(manager))

    def read_again(self, *managers: str) -> None:
        """Restart the service of these managers, and wait for its first reading."""
        for name in managers:
            before = self.read_at(name)
            self.fleet[name].run("systemctl", "restart", UNIT)
            wait_until(f"a reading of {name}", partial(self.has_read, name, before), READING_S, partial(self.journal, name))

    def has_read(self, manager: str, before: float) -> bool:
        return self.read_at(manager) > before

    def journal(self, manager: str) -> str:
        return self.fleet[manager].run("journalctl", "--unit", UNIT, "--output", "cat", "--no-pager", "--lines", "50")

    def events(self, manager: str, *what: str) -> list[Row]:
        """Return the events of the day, or those of these kinds."""
        rows = self.asked(manager, "events", "--since", "1d").get("rows", [])
        return [row for row in rows if row["since"] >= self.began and (not what or row["what"] in what)]

    def await_event(self, what: str, count: int = 1, seconds: float = 2 * READING_S) -> None:
        wait_until(what, lambda: len(self.events(self.leader, what)) >= count, seconds, lambda: self.events(self.leader))

    def allocations(self, manager: str) -> list[Row]:
        """Return the rows of ``gpu-swarm card`` for all cards."""
        cards = [card for name in NODES for card in self.fleet[name].gpus()]
        return [{**row, "card": card} for card in cards for row in self.asked(manager, "card", card)["allocations"]]

    def at_one_reading(self) -> tuple[list[Row], list[Row], int]:
        """Return the leader's allocations, its usage by owner, and the time of its last reading, all after the same reading."""

        def found() -> tuple[list[Row], list[Row], int] | None:
            before = self.asked(self.leader, "usage", "--since", "1d")
            rows = self.allocations(self.leader)
            after = self.asked(self.leader, "usage", "--since", "1d")
            return (rows, after["rows"], after["last_reading"]) if before["last_reading"] == after["last_reading"] else None

        made: tuple[list[Row], list[Row], int] = wait_until("answers after the same reading", found)
        return made

    def note_cards(self, moment: str) -> None:
        """Note which holders and faults Docker's API, the command, the page and the metrics name after the next reading of the leader."""
        node = self.fleet[self.leader]
        self.await_reading(self.leader)

        def found() -> tuple[Cards, Cards, Cards, Cards] | None:
            top = self.asked(self.leader, "top")
            html = (node.read(f"{STATE_DIR}/page/index.html") or b"").decode()
            page = one_story.page_data(html)
            metrics = one_story.samples((node.read(f"{TEXTFILES}/gpu-swarm.prom") or b"").decode())
            written = next((one.value for one in metrics if one.name == "gpu_swarm_snapshot_timestamp_seconds"), 0)
            if not top["at"] == page["at"] == written == self.read_at(self.leader):
                return None
            self.keep(moment, html)
            told = one_story.cards_of_snapshot(top["cards"]), one_story.cards_of_page(page), one_story.cards_of_metrics(metrics)
            return self.cards_of_api(), *told

        self.told[moment] = wait_until("files of the same reading", found)

    def keep(self, moment: str, html: str) -> None:
        """Keep the page and the screen of top for pictures, if somebody wants them."""
        folder = os.environ.get("GPU_SWARM_DAY")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{moment}.html").write_text(html)
            (Path(folder) / f"{moment}-top.txt").write_text(self.fleet[self.leader].run("env", "COLUMNS=80", "gpu-swarm", "top"))

    # -- what Docker's API shows -------------------------------------------------------------------------------------

    def tasks(self) -> list[Row]:
        """Return all tasks of the day that a manager still lists, with their cards."""
        manager = self.fleet[self.witness or "m1"]
        services = manager.docker("service", "ls", "--quiet").split()
        ids = manager.docker("service", "ps", "--quiet", "--no-trunc", *services).split() if services else []
        return [task for task in manager.inspect_tasks(ids) if task.get("GenericResources")] if ids else []

    def note(self) -> None:
        """Note the tasks, once each of them runs or has ended."""
        manager = self.fleet[self.witness or "m1"]
        settled = {"running", *one_story.ENDED}

        def found() -> list[Row]:
            tasks = self.tasks()
            return tasks if {task["Status"]["State"] for task in tasks} <= settled and not [task for task in tasks if is_ending(task)] else []

        names = {line.split()[0]: line.split()[1] for line in manager.docker("service", "ls", "--format", "{{.ID}} {{.Name}}").splitlines()}
        for task in wait_until("the tasks to run or end", found, shown=self.tasks):
            service = next(name for short, name in names.items() if task["ServiceID"].startswith(short))
            (card,) = named(task["GenericResources"])[KIND]
            before = self.happened.get(task["ID"])
            self.happened[task["ID"]] = one_story.observed(before, task, service, self.owners[service], self.node_of(task), card)

    def node_of(self, task: Row) -> str:
        return next(name for name in NODES if self.fleet[name].swarm()["NodeID"] == task["NodeID"])

    def cards_of_api(self) -> Cards:
        """Return the holders of cards. The API knows no faults: a card is unfit while the test has removed it."""
        running = [held for held in self.happened.values() if held.end is None]
        listed = {task["ID"] for task in self.tasks() if task["Status"]["State"] == "running"}
        assert listed == {held.task for held in running}
        is_lost = self.dead not in self.fleet["g2"].gpus()
        return Cards({held.card: (held.service, held.owner) for held in running}, {self.dead} if is_lost else set())

    def changes(self, node: str) -> list[dict[str, str]]:
        """Return the attributes of Docker's events about a node since the day began, as the witness saw them."""
        manager = self.fleet[self.witness]
        filters = ("--filter", "type=node", "--filter", f"node={self.fleet[node].swarm()['NodeID']}")
        until = manager.run("date", "+%s.%N")
        text = manager.docker("events", "--since", str(self.began), "--until", until, *filters, "--format", "{{json .Actor.Attributes}}")
        return [json.loads(line) for line in text.splitlines()]

    # -- the day -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for name in MANAGERS:
            self.fleet[name].run("install", "--directory", "--owner", "nobody", TEXTFILES)
        run = self.fleet.playbook(self.inventory, "--extra-vars", json.dumps(SETTINGS))
        assert run.rc == 0, run.output
        self.read_again(*MANAGERS)  # so that no event of this run belongs to the day
        self.began = self.now() + 1
        wait_until("the next second", lambda: self.now() > self.began)

    def create(self, service: str, owner: str, replicas: int, *options: str) -> None:
        self.owners[service] = owner
        reserve = ("--generic-resource", f"{KIND}=1", "--label", f"gpu-swarm.owner={owner}", "--stop-grace-period", "1s")
        create = ("service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", service, "--replicas", str(replicas))
        manager = self.fleet[self.witness or "m1"]
        manager.docker(*create, *reserve, *options)
        wait_until(f"the tasks of {service}", lambda: all_running(manager, service, replicas))

    def services_come(self) -> None:
        """alice gets two cards of g1 and one of g2, bob the other card of g2."""
        forever = ("lab/task", "sleep", "infinity")
        self.create("train", "alice", 2, "--constraint", "node.hostname==g1", *forever)
        self.create("chat", "bob", 1, *forever)
        self.create("sweep", "alice", 1, *forever)
        self.note()
        assert {held.service for held in self.happened.values() if held.node == "g2"} == {"chat", "sweep"}
        self.read_again(*MANAGERS)

    def another_manager_leads(self) -> None:
        self.former = next(name for name in MANAGERS if self.leads(name))
        with stopped(self.fleet, self.former):
            others = [name for name in MANAGERS if name != self.former]
            self.leader = wait_until("another leader", lambda: next((name for name in others if self.leads(name)), ""))
            (self.witness,) = (name for name in others if name != self.leader)
            self.await_event("leader")

    def leads(self, manager: str) -> bool:
        done = self.fleet[manager].start("docker", "node", "inspect", "self", "--format", "{{.ManagerStatus.Leader}}", check=False)
        return done.stdout.strip() == b"true"

    def a_card_dies(self) -> None:
        replace(self.fleet["g2"], "[gpu 0-1]", "[gpu 0]")
        self.await_event("fault", seconds=WITHIN_S + 2 * READING_S)
        self.await_event("node-paused")
        self.note_cards("fault")

    def the_card_returns(self) -> None:
        replace(self.fleet["g2"], "[gpu 0]", "[gpu 0-1]")
        wait_until("its watcher", lambda: status(self.fleet["g2"])["label"] == "ok", CALM_S, lambda: status(self.fleet["g2"]))
        run = self.fleet.playbook(self.inventory, "--extra-vars", json.dumps(SETTINGS))
        assert run.rc == 0, run.output
        self.await_event("node-returned")
        self.await_event("run")

    def a_run_moves_work(self) -> None:
        """The maintenance of g2 lasts until the work of g2 runs on g1, and until a reading has seen the node out of service."""
        node, tasks = self.fleet["g2"], self.fleet.work / "maintenance.yml"
        wait = f"until [ -e {GO} ]; do sleep 0.2; done"
        tasks.write_text(json.dumps([{"name": "Work for a while", "ansible.builtin.command": {"argv": ["sh", "-c", wait]}}]))
        settings = json.dumps({**SETTINGS, "maintain_tasks": str(tasks)})
        limited = ("--limit", "g2", "--extra-vars", settings)
        going = meanwhile(lambda: self.fleet.playbook(self.inventory, *limited, playbook="fleet.gpu_swarm.maintain"))

        def shown() -> Any:
            return going.result().output if going.done() else self.events(self.leader)

        def is_seen() -> bool:
            closed = [row for row in self.events(self.leader, "node-paused", "node-drained") if (row["hostname"], row["cause"]) == ("g2", "run")]
            moved = {task["NodeID"] for task in self.tasks() if task["Status"]["State"] == "running"} == {self.fleet["g1"].swarm()["NodeID"]}
            return bool(closed) and moved and not containers(node)

        try:
            wait_until("the work to move", is_seen, 300, shown)
            self.note()
        finally:
            node.write(GO, b"")
        run = going.result()
        assert run.rc == 0, run.output
        self.await_event("node-returned", 2)
        self.await_event("run", 2)
        self.await_event("fault-ended", seconds=CALM_S + 2 * READING_S)  # it could not be reported while tasks ran on the node
        self.read_again(self.witness)

    def a_service_goes(self) -> None:
        """Swarm forgets the tasks of a removed service. So the leader knows their end only as the time between two readings."""
        self.note()
        last = self.await_reading(self.leader)
        (sweep,) = (held for held in self.happened.values() if held.service == "sweep" and held.end is None)
        removed = self.now()
        self.fleet[self.witness].docker("service", "rm", "sweep")
        wait_until("its tasks to end", lambda: not containers(self.fleet[sweep.node], "sweep"))
        first = self.await_reading(self.leader)
        self.happened[sweep.task] = sweep._replace(end=Span(removed, first), is_end_known=None, unsure=Span(0, first - last))

    def the_leader_s_service_is_away(self) -> None:
        """Meanwhile bob has a card. The leader learns that only from the ended task."""
        last = self.await_reading(self.leader)
        self.fleet[self.leader].run("systemctl", "stop", UNIT)
        self.create("short", "bob", 1, "--restart-condition", "none", "lab/task", "sh", "-c", f"until [ -e {OVER} ]; do sleep 1; done")
        self.note()
        self.read_again(self.witness)
        (short,) = (held for held in self.happened.values() if held.service == "short")
        (container,) = containers(self.fleet[short.node], "short")
        self.fleet[short.node].docker("exec", container, "busybox", "touch", OVER)
        wait_until("its end", lambda: [task for task in self.tasks() if task["Status"]["State"] == "complete"], shown=self.tasks)
        self.note()
        (short,) = (held for held in self.happened.values() if held.service == "short")
        assert short.end
        length = short.end.latest - short.begin.earliest
        created = short.begin.earliest
        self.happened[short.task] = short._replace(begin=Span(created, created), unsure=Span(length, length), is_begin_known=False)
        wait_until("the gap to be long enough", lambda: self.now() > last + GAP_S, GAP_S)
        self.fleet[self.leader].run("systemctl", "start", UNIT)
        self.await_event("gap")
        self.read_again(self.witness)


def is_ending(task: Row) -> bool:
    """Return whether swarm is about to end the task."""
    return task["DesiredState"] in ("shutdown", "remove") and task["Status"]["State"] not in one_story.ENDED


@pytest.fixture(scope="module")
def fleet(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("day")
    (work / "fleet.yml").write_text(FLEET)
    yield from at_hand(NAME, work / "fleet.yml", pytestconfig.getoption("--fleet"), work)


@pytest.fixture(scope="module")
def day(fleet: Fleet) -> Day:
    """Play the day on a fleet that was just started: the record begins with this day."""
    played = Day(fleet, fleet.inventory(swarm_managers=MANAGERS, gpu_nodes=NODES))
    parts: list[Callable[[], None]] = [
        played.begin, played.services_come, played.another_manager_leads, played.a_card_dies, played.the_card_returns, played.a_run_moves_work,
        played.a_service_goes, played.the_leader_s_service_is_away,
    ]  # fmt: skip
    for part in parts:
        part()
    played.note_cards("evening")
    return played


def test_the_history_of_each_card_is_what_swarm_did(day: Day) -> None:
    rows, _usage, _last = day.at_one_reading()
    # Two tasks of train, two of chat and two of sweep, because they moved, and short.
    assert len(day.happened) == 7
    assert one_story.differences(day.happened.values(), rows) == []


def test_usage_is_the_sum_of_the_tasks_and_only_what_was_not_seen_is_estimated(day: Day) -> None:
    rows, usage, last = day.at_one_reading()
    assert {row["name"] for row in usage} == {"alice", "bob"}
    assert one_story.wrong_hours(day.happened.values(), usage, last) == []
    assert one_story.wrong_sums(rows, usage, last) == []


def test_two_managers_agree_exactly_about_what_both_saw_running(day: Day) -> None:
    count, found = one_story.disagreements(day.allocations(day.leader), day.allocations(day.witness))
    assert (count, found) == (2, [])  # chat and sweep before they moved
    (task,) = (held.task for held in day.happened.values() if held.service == "short")
    (row,) = (row for row in day.allocations(day.witness) if row["task"] == task)
    assert (row["begin_known"], row["end_known"], row["how"]) == (True, True, "complete")


def test_each_event_is_told_once_and_with_its_cause(day: Day) -> None:
    events = day.events(day.leader)
    assert one_story.told_twice(events) == []
    told = [(row["what"], row["hostname"], row["card"], row["cause"]) for row in reversed(events)]
    once = [
        ("leader", day.leader, "", ""),
        ("fault", "g2", day.dead, "lost"), ("node-paused", "g2", "", "service"), ("fault-ended", "g2", day.dead, "lost"),
        ("run", "", "", "maintain (runs maintenance.yml)"), ("gap", "", "", ""),
    ]  # fmt: skip
    assert {event: told.count(event) for event in once} == dict.fromkeys(once, 1), told
    assert [event for event in told if event[0] == "node-returned"] == [("node-returned", "g2", "", "run")] * 2, told
    assert len([event for event in told if event[0] == "run"]) == 2, told
    others = {event[:2] for event in told} - {event[:2] for event in once}
    assert others <= {("node-returned", "g2"), ("node-drained", "g2"), ("node-down", day.former), ("node-up", day.former)}, told
    assert [text for name in day.fleet.hosts for text in one_story.invented(events, name, day.changes(name))] == []


def test_the_other_managers_tell_the_change_of_leader_and_no_gap(day: Day) -> None:
    """They do not lead, so ten minutes between two readings are usual, and they may miss a fault that is soon repaired."""
    day.read_again(day.former, day.witness)
    for name in (day.former, day.witness):
        told = [(row["what"], row["hostname"], row["card"], row["cause"]) for row in day.events(name)]
        assert told.count(("leader", day.leader, "", "")) == 1, told
        assert "gap" not in {event[0] for event in told}, told


@pytest.mark.parametrize("moment", ["fault", "evening"])
def test_the_command_the_page_and_the_metrics_name_the_holders_and_faults_that_there_were(day: Day, moment: str) -> None:
    happened, command, page, metrics = day.told[moment]
    assert (command, page, metrics) == (happened, happened, happened)
    assert happened.faults == ({day.dead} if moment == "fault" else set())
    assert {owner for _service, owner in happened.holders.values()} == {"alice", "bob"}


def test_the_page_tells_the_events_and_hours_of_the_record(day: Day) -> None:
    node = day.fleet[day.leader]

    def found() -> tuple[Any, Any, Any] | None:
        page = one_story.page_data((node.read(f"{STATE_DIR}/page/index.html") or b"").decode())
        usage, events = day.asked(day.leader, "usage", "--since", "7d"), day.asked(day.leader, "events", "--since", "1d")
        return (page, usage, events) if int(page["at"]) == usage["last_reading"] == events["last_reading"] else None

    page, usage, events = wait_until("answers after the same reading", found)
    assert [row["name"] for row in page["usage"]] == [row["name"] for row in usage["rows"]]
    for mine, row in zip(page["usage"], usage["rows"], strict=True):
        assert (mine["hours"], mine["estimated"]) == pytest.approx((row["hours"], row["estimated"]), abs=0.01)
    shown = [(row["what"], row["node"], row["at"]) for row in page["events"]]
    assert shown == [(row["what"], row["hostname"], row["since"]) for row in events["rows"]]


def test_no_part_of_a_service_failed(day: Day) -> None:
    assert {name: "Please report that" in day.journal(name) for name in MANAGERS} == dict.fromkeys(MANAGERS, False)
