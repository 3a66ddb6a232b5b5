# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command gpu-swarm, as people call it on a manager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from manager_files import NOW, A, B, allocation, event, write_record, write_snapshot

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command import command
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._command.command import Places

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
HOSTILE = "\x1b[2K\x9b1A\u202eevil\nroot\r"
COMMANDS = ("status", "top", "why", "who", "usage", "events", "card", "queue", "run", "cancel", "logs", "retry", "release")
# One call of each command that reads files.
CALLS = (["status"], ["top"], ["who"], ["who", "host-g1"], ["usage"], ["usage", "--csv"], ["events"], ["card", A])


@pytest.fixture
def gpu_swarm(tmp_path, capsys, monkeypatch):
    """Return a function that runs the command, and returns its exit status, stdout and stderr."""
    monkeypatch.setattr(command.time, "time", lambda: NOW + 12)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*argv):
        places = Places(str(tmp_path), str(tmp_path / "cards.json"), f"unix://{tmp_path}/docker.sock")
        try:
            status = command.main(argv, places)
        except SystemExit as ended:
            status = ended.code
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


@pytest.fixture
def written(tmp_path):
    write_snapshot(tmp_path)
    rows = [allocation(2), allocation(50, 10, "t0"), allocation(30, 3, "t9", "chat", "bob", sure_from=int(NOW))]
    write_record(tmp_path, rows, [event(3), event(1, "node-paused", "paused for a fault: lost", card="")])
    return tmp_path


def test_status_has_the_tables_of_the_playbook_and_the_age_of_the_data(gpu_swarm, written):
    status, out, _err = gpu_swarm("status")
    assert status == 2  # a card has a fault
    assert "train.1 (alice, 2 h)" in out
    assert out.endswith("Wrong: host-g1, host-g2. Waiting: host-g3, big.\nRead 12 s ago by m1.\n")


def test_status_can_show_one_section(gpu_swarm, written):
    _status, out, _err = gpu_swarm("status", "pending")
    assert out.startswith("service  tasks")
    answer = json.loads(gpu_swarm("status", "free", "--json")[1])
    assert sorted(answer) == ["at", "free", "leads", "manager", "waiting", "wrong"]


@pytest.mark.parametrize(("wrong", "waiting", "status"), [([], [], 0), ([], ["big"], 75), (["g1"], ["big"], 2)])
def test_the_exit_status_of_status_is_that_of_the_playbook(gpu_swarm, written, wrong, waiting, status):
    content = json.loads((written / "snapshot.json").read_text())
    content["status"].update(wrong=wrong, waiting=waiting)
    (written / "snapshot.json").write_text(json.dumps(content))
    assert gpu_swarm("status")[0] == status


def test_old_data_says_so(gpu_swarm, tmp_path):
    write_snapshot(tmp_path, at=NOW - 3600)
    assert gpu_swarm("status")[1].endswith("Read 60 min ago by m1.\nThat is old. See 'systemctl status gpu-swarm-manager'.\n")
    write_snapshot(tmp_path, at=NOW + 40, leads=False)  # the clock was set back a little
    assert gpu_swarm("status")[1].endswith("Read 0 s ago by m1.\nIt does not lead, so it reads only every ten minutes.\n")


@pytest.mark.parametrize("call", [["status"], ["who"], ["top"]])
def test_data_from_the_future_says_so(gpu_swarm, tmp_path, call):
    """The clock was set back, so data of any age may look new."""
    write_snapshot(tmp_path, at=NOW + 7200)
    assert "Its time is 119 min ahead of this machine's clock, so its age is unknown." in " ".join(gpu_swarm(*call)[1].split())


def test_who_counts_the_cards_of_each_owner(gpu_swarm, written):
    rows = json.loads(gpu_swarm("who", "--json")[1])["rows"]
    assert rows[:2] == [
        {"owner": "alice", "cards": 1, "resources": {"NVIDIA-GPU": 1}, "tasks": 1, "nodes": ["host-g1"]},
        {"owner": "bob", "cards": 1, "resources": {"NVIDIA-SLOT": 1}, "tasks": 1, "nodes": ["host-g2"]},
    ]
    assert rows[2] == {"owner": None, "cards": 0, "resources": {"VRAM": 3000}, "tasks": 1, "nodes": ["host-g3"]}


@pytest.mark.parametrize(
    ("name", "tasks"),
    [("host-g1", ["train.1", None]), ("g1", ["train.1", None]), (A, ["train.1"]), (f"{A}.slot0", ["train.1"]), ("alice", ["train.1"]), (B, [None])],
)
def test_who_shows_a_node_a_card_or_an_owner(gpu_swarm, written, name, tasks):
    assert [row["task"] for row in json.loads(gpu_swarm("who", name, "--json")[1])["rows"]] == tasks


def test_a_name_that_nobody_has_is_an_error(gpu_swarm, written):
    assert gpu_swarm("who", "nobody\x1b[2K") == (
        1, "", "gpu-swarm: No card, node or owner is named nobody\\x1b[2K. Owners without a task have nothing.\n",
    )  # fmt: skip


def test_usage_counts_hours_and_says_which_are_estimated(gpu_swarm, written):
    answer = json.loads(gpu_swarm("usage", "--json")[1])
    assert [(row["name"], round(row["hours"]), round(row["estimated"]), row["running"]) for row in answer["rows"]] == [
        ("alice", 12, 0, 1),
        ("bob", 3, 3, 0),
    ]
    text = gpu_swarm("usage", "--since", "7d", "--by", "owner")[1]
    assert text.startswith("Used from 2026-11-13 14:00 to 2026-11-20 14:00 UTC:\n")
    assert "Recorded since 2026-10-21 14:00 UTC. Last reading: 32 s ago.\nEstimated hours:" in text
    assert gpu_swarm("usage", "--csv", "--by", "node")[1].startswith("node,kind,unit,hours,cards,estimated,running\nhost-g1,NVIDIA-GPU,GPU,14.9944,")
    assert "The record begins later" in gpu_swarm("usage", "--since", "2026-01-01")[1]


def test_events_can_be_those_of_a_node(gpu_swarm, written):
    assert [row["what"] for row in json.loads(gpu_swarm("events", "--json")[1])["rows"]] == ["node-paused", "fault"]
    assert [row["what"] for row in json.loads(gpu_swarm("events", "--json", "--since", "2h")[1])["rows"]] == ["node-paused"]
    assert ": no events." in gpu_swarm("events", "--node", "host-g2")[1]


def test_the_history_of_a_card_has_its_tasks_its_events_and_what_it_is_doing(gpu_swarm, written):
    reading = {"uuid": A, "temperature_c": 71, "power_w": None, "utilisation_percent": 97, "throttle": ["power"]}
    (written / "cards.json").write_text(json.dumps({"version": 1, "at": NOW, "cards": [reading]}))
    out = gpu_swarm("card", A[:14])[1]
    assert out.startswith(f"{A}: H100, 81559 MiB\n\nNow: 97 % busy, 71 °C, slowed down: power.\n")
    lines = [line.split() for line in out.splitlines() if "NVIDIA-GPU" in line]
    assert [(line[0], line[2]) for line in lines] == [("2026-11-20", "still"), ("~2026-11-19", "2026-11-19"), ("2026-11-18", "2026-11-18")]
    answer = json.loads(gpu_swarm("card", A, "--json")[1])
    assert [answer["activity"], len(answer["allocations"]), len(answer["events"])] == [reading, 3, 1]


def test_a_card_that_nobody_knows_is_an_error(gpu_swarm, written):
    unknown = (1, "", "gpu-swarm: No card begins with GPU-deadbeef. 'gpu-swarm who NODE' on a manager lists the cards of a node.\n")
    assert gpu_swarm("card", "GPU-deadbeef") == unknown
    assert gpu_swarm("--json", "card", "GPU-deadbeef") == unknown
    hostile = gpu_swarm("card", "GPU-" + HOSTILE)
    assert (hostile[0], hostile[1], hostile[2].count("\n")) == (1, "", 1)


def test_a_card_of_the_fleet_that_no_task_had_has_an_empty_history(gpu_swarm, written):
    """The last reading of the swarm has the card, or the card is in this machine."""
    with open(written / "snapshot.json", encoding="utf-8") as stream:
        never_used = next(row["card"] for row in json.load(stream)["cards"] if row["card"] not in (None, A))
    (written / "cards.json").write_text(json.dumps({"version": 1, "at": NOW, "cards": [{"uuid": "GPU-11111111"}]}))
    for uuid in (never_used, "GPU-11111111"):
        status, out, err = gpu_swarm("card", uuid, "--json")
        assert (status, err, json.loads(out)["uuid"], json.loads(out)["allocations"]) == (0, "", uuid, [])
    (written / "snapshot.json").unlink()  # nobody can say which cards the fleet has
    assert gpu_swarm("card", "GPU-deadbeef")[0] == 0


@pytest.mark.parametrize("command", CALLS, ids=" ".join)
def test_json_may_stand_before_or_after_the_command(gpu_swarm, written, command):
    before, after = gpu_swarm("--json", *command), gpu_swarm(*command, "--json")
    assert before == after
    assert isinstance(json.loads(before[1]), dict)


def test_old_readings_of_a_card_are_not_shown(gpu_swarm, written):
    (written / "cards.json").write_text(json.dumps({"version": 1, "at": NOW - 3600, "cards": [{"uuid": A, "temperature_c": 71}]}))
    assert "Now:" not in gpu_swarm("card", A)[1]


def test_top_in_a_pipe_prints_each_card_once(gpu_swarm, written):
    out = gpu_swarm("top")[1]
    assert [line.split()[0] for line in out.splitlines()[5:]] == ["host-g1", "host-g1", "host-g2", "host-g2", "host-g3"]
    assert len(json.loads(gpu_swarm("top", "--json")[1])["cards"]) == 5


# -- bad input and faults ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
def test_hostile_names_are_printed_as_escapes(gpu_swarm, tmp_path, call):
    write_snapshot(tmp_path)
    text = (tmp_path / "snapshot.json").read_text()
    for name in ("train", "alice", "host-g2", "VRAM"):
        text = text.replace(name, json.dumps(name + HOSTILE)[1:-1])
    (tmp_path / "snapshot.json").write_text(text)
    write_record(tmp_path, [allocation(2, service_name=HOSTILE, owner=HOSTILE, model=HOSTILE)], [event(1, HOSTILE, HOSTILE, hostname=HOSTILE)])
    for argv in (call, [*call, "--json"]):
        out = gpu_swarm(*argv)[1]
        assert out
        assert [character for character in out if not character.isprintable() and character != "\n"] == []
        assert "\nroot" not in out


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", ["no directory", "no file", "junk", "another version"])
def test_without_data_one_sentence_says_what_to_do(gpu_swarm, tmp_path, call, fault, monkeypatch):
    for name in ("snapshot.json", "fleet.db"):
        if fault in ("junk", "another version"):
            (tmp_path / name).write_text("junk " * 999 if fault == "junk" else '{"version": 2}')
    if fault == "no directory":
        tmp_path.rmdir()
    status, out, err = gpu_swarm(*call)
    assert (status, out) == (1, "")
    assert err.startswith("gpu-swarm: ")
    assert str(tmp_path) in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("call", CALLS[:4])
def test_data_of_another_release_is_no_crash(gpu_swarm, tmp_path, call):
    write_snapshot(tmp_path, status={"nodes": [{}]}, cards=[{"parts": 7}])
    status, out, err = gpu_swarm(*call)
    assert (status, out) == (1, "")
    assert "wait a minute" in err


@pytest.mark.parametrize("owner", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_spreadsheet_computes_no_name(gpu_swarm, tmp_path, owner):
    write_record(tmp_path, [allocation(2, 1, owner=owner)])
    assert gpu_swarm("usage", "--csv")[1].splitlines()[1].startswith(f"'{owner},")
    assert json.loads(gpu_swarm("usage", "--json")[1])["rows"][0]["name"] == owner


def test_somebody_who_may_not_read_the_files_is_told_which_group_may(gpu_swarm, written, monkeypatch):
    def refuse(path, *args, **options):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("os.open", refuse)
    for call in CALLS:
        status, _out, err = gpu_swarm(*call)
        assert status == 1
        assert err.startswith("gpu-swarm: You may not read ")
        assert err.endswith(" Become root, or a member of the group docker.\n")


def test_why_without_a_daemon_says_how_to_start_it(gpu_swarm):
    status, _out, err = gpu_swarm("why", "train")
    assert status == 1
    assert err.startswith("gpu-swarm: Docker does not answer at unix://")
    assert err.endswith("Start it with 'systemctl start docker'.\n")


@pytest.mark.parametrize(
    "argv",
    [[], ["statu"], ["status", "--jso"], ["status", "everything"], ["usage", "--by", "colour"], ["usage", "--sinc", "7d"], ["why"], ["card"],
     ["events", "--until", "1h"]],
)  # fmt: skip
def test_unknown_options_are_refused(gpu_swarm, written, argv):
    status, out, err = gpu_swarm(*argv)
    assert (status, out) == (2, "")
    assert err.startswith("usage: gpu-swarm")


@pytest.mark.parametrize("argv", [["usage", "--since", "soon"], ["events", "--since", "-7d"], ["card", "GPU"], ["card", "'; DROP TABLE cards"]])
def test_unusable_values_are_refused(gpu_swarm, written, argv):
    status, out, err = gpu_swarm(*argv)
    assert (status, out) == (2 if argv[-1] == "-7d" else 1, "")
    assert "gpu-swarm" in err


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself_with_an_example(gpu_swarm, name):
    status, out, _err = gpu_swarm(name, "--help")
    assert status == 0
    assert f"examples:\n  gpu-swarm {name}" in out
    out += gpu_swarm("--help")[1]
    assert [line for line in out.splitlines() if len(line) > 80] == []


def test_a_terminal_without_utf8_and_a_closed_pipe_are_no_errors(written):
    """The code runs without Ansible, as it does on a manager."""
    start = f"import sys; sys.path.insert(0, {str(PLUGINS.parent)!r}); from plugins.module_utils._command import command as c;"
    code = start + f"sys.exit(c.main(sys.argv[1:], c.Places({str(written)!r})))"
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = subprocess.run([sys.executable, "-c", code, "status"], env=environ, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "")
    pipe = '"$0" -c "$1" events | true; exit ${PIPESTATUS[0]}'
    piped = subprocess.run(["bash", "-c", pipe, sys.executable, code], capture_output=True, check=False)
    assert (piped.returncode, piped.stderr) == (0, b"")
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([sys.executable, "-c", code, "events"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "gpu-swarm: the output could not be written: No space left on device\n")
