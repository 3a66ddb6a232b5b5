# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the guard with real files, in the same way as its front program."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import call, check_container, finding_counts
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._replace import replace_json

ID = 64 * "a"
VARIABLE = "DOCKER_RESOURCE_NVIDIA-GPU"


@pytest.fixture
def guard(tmp_path, monkeypatch):
    """Let the guard check a container of this service that requests all GPUs. The task's reservation cannot be read."""
    home, bundle, record = tmp_path / "home", tmp_path / "bundle", tmp_path / "docker" / "containers" / ID
    for folder in (home, bundle, record):
        folder.mkdir(parents=True)
    monkeypatch.setattr(finding_counts, "_JOURNAL", str(tmp_path / "no-journal"))
    (tmp_path / "config.toml").write_text('swarm-resource = "%s"\n' % VARIABLE)

    def guard(service, level):
        settings = {"level": level, "devices": [], "kinds": ["NVIDIA-GPU"], "data_root": str(tmp_path / "docker"), "run": str(tmp_path / "run")}
        (home / "settings.json").write_text(json.dumps({**settings, "runtime_config": str(tmp_path / "config.toml")}))
        labels = {"com.docker.swarm.task.id": "t1", "com.docker.swarm.service.name": service}
        (record / "config.v2.json").write_text(json.dumps({"Config": {"Labels": labels}}))
        (bundle / "config.json").write_text(json.dumps({"process": {"env": ["%s=all" % VARIABLE]}}))
        monkeypatch.setattr(sys, "argv", ["x", str(home), "--log", str(tmp_path / "log"), "create", "--bundle", str(bundle), ID])
        status = check_container.main()
        found = tmp_path / "run" / "found.json"
        return status, sorted(json.loads(found.read_text())) if found.exists() else []

    return guard


@pytest.mark.parametrize(
    ("service", "level", "status", "counted"),
    [
        ("train", "reserved", call.REFUSED, ["train"]),
        ("train", "audit", call.MAY_START, ["train"]),
        ("gpu-swarm-verify-1f2e-2", "reserved", call.REFUSED, []),
        ("gpu-swarm-verify-1f2e-2", "exclusive", call.REFUSED, []),
        ("gpu-swarm-verify-1f2e-2", "audit", call.MAY_START, ["gpu-swarm-verify-1f2e-2"]),  # no name hides a request from the guard
        ("gpu-swarm-verifying", "reserved", call.REFUSED, ["gpu-swarm-verifying"]),
    ],
)
def test_attempts_of_verify_are_refused_but_not_counted(guard, service, level, status, counted):
    assert guard(service, level) == (status, counted)


@pytest.mark.parametrize(("level", "counted"), [("off", []), ("audit", [""])])
def test_if_nothing_is_withheld_a_failing_guard_lets_the_container_start(guard, tmp_path, level, counted):
    assert guard("exporter", level)[0] == call.MAY_START
    (tmp_path / "run" / "found.json").unlink(missing_ok=True)
    (tmp_path / "bundle" / "config.json").write_text("[]")
    assert check_container.main() == call.MAY_START
    assert (tmp_path / "bundle" / "config.json").read_text() == "[]"
    assert list(finding_counts.read(str(tmp_path / "run" / "found.json"))) == counted


@pytest.mark.parametrize(
    ("level", "status", "device", "counted"),
    [
        ("off", call.MAY_START, "GPU-1", {}),
        ("audit", call.REFUSED, "all", {"train": ["forged"]}),
        ("reserved", call.REFUSED, "all", {"train": ["forged"]}),
    ],
)
def test_a_task_with_a_slot_may_not_forge_a_variable(guard, tmp_path, monkeypatch, level, status, device, counted):
    """A refusal is not a failure of the guard. With level off, the task gets its own card."""
    guard("train", level)
    (tmp_path / "run" / "found.json").unlink(missing_ok=True)
    path = tmp_path / "home" / "settings.json"
    slot = {"devices": ["GPU-1"], "mib": 4000, "together": False}
    path.write_text(json.dumps({**json.loads(path.read_text()), "map": {"NVIDIA-GPU": {"slot": slot}}}))
    record = check_container.engine_record.TaskRecord((("NVIDIA-GPU", "slot"),), (), ("%s=all" % VARIABLE,))
    monkeypatch.setattr(check_container.engine_record, "task", lambda root, name: record)
    assert check_container.main() == status
    entries = json.loads((tmp_path / "bundle" / "config.json").read_text())["process"]["env"]
    assert [one.partition("=")[2] for one in entries if one.startswith(VARIABLE)] == [device]
    found = finding_counts.read(str(tmp_path / "run" / "found.json"))
    assert {service: list(names) for service, names in found.items()} == counted


@pytest.mark.parametrize("level", ["reserved", "exclusive"])
def test_a_refusal_names_the_service_and_the_container(guard, level, tmp_path):
    guard("train", level)
    (line,) = (tmp_path / "log").read_text().splitlines()
    words = json.loads(line)["msg"]
    assert words.startswith("gpu-swarm: the service train is refused on this node (isolation: %s): it requests all" % level)
    assert words.endswith(" Its container is aaaaaaaaaaaa (refusal: unknown-device)")


@pytest.mark.parametrize(
    ("level", "status"), [("audit", call.MAY_START), ("reserved", call.MAY_START), ("exclusive", call.BROKEN)]
)
def test_if_run_is_full_a_task_gets_what_it_reserved(guard, tmp_path, monkeypatch, level, status):
    """If /run is full, the holders of cards are unknown. Only the level exclusive needs the holders."""
    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "run"))

    guard("train", level)
    path = tmp_path / "home" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "devices": ["GPU-1"]}))
    record = check_container.engine_record.TaskRecord((("NVIDIA-GPU", "GPU-1"),), (), ())
    monkeypatch.setattr(check_container.engine_record, "task", lambda root, name: record)
    (tmp_path / "bundle" / "config.json").write_text(json.dumps({"process": {"env": ["%s=GPU-1" % VARIABLE, "NVIDIA_VISIBLE_DEVICES=all"]}}))
    for module in (check_container.holds, finding_counts):
        monkeypatch.setattr(module.os, "makedirs", full)
    assert check_container.main() == status
    if level == "reserved":
        entries = json.loads((tmp_path / "bundle" / "config.json").read_text())["process"]["env"]
        assert [one for one in entries if one.startswith(VARIABLE)] == ["%s=GPU-1" % VARIABLE]
        assert "NVIDIA_VISIBLE_DEVICES=all" not in entries
    if level == "exclusive":
        assert "No space left on device" in (tmp_path / "log").read_text()


def test_a_journal_entry_is_one_line_whatever_a_label_contains(guard, tmp_path, monkeypatch):
    """If a container is not a task, its user wrote its labels."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        monkeypatch.setattr(finding_counts, "_JOURNAL", str(tmp_path / "journal"))
        guard("a\n<2>gpu-swarm-guard[1]: forged\x1b[2K", "audit")
        journal.settimeout(20)
        said = journal.recv(10000).decode()
    assert "service a?<2>gpu-swarm-guard[1]: forged?[2K: " in said
    assert said.isprintable()


def test_a_refused_restore_names_the_container(guard, tmp_path, monkeypatch):
    guard("train", "exclusive")
    monkeypatch.setattr(sys, "argv", [word if word != "create" else "restore" for word in sys.argv])
    assert check_container.main() == call.REFUSED
    assert "the container aaaaaaaaaaaa is of a task with GPUs" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("planted", ["", "link", "dangling", "left"])
def test_a_link_in_the_bundle_is_not_followed(tmp_path, planted):
    victim, path, new = tmp_path / "passwd", tmp_path / "config.json", tmp_path / ".config.json.new"
    victim.write_text("root")
    path.write_text("{}")
    path.chmod(0o640)
    if planted == "left":  # left by a killed guard
        new.write_text('{"half":')
    elif planted:
        new.symlink_to(victim if planted == "link" else tmp_path / "shadow")
    replace_json(str(path), {"a": 1}, 0o640)
    assert (json.loads(path.read_text()), path.is_symlink(), path.stat().st_mode & 0o777) == ({"a": 1}, False, 0o640)
    assert (victim.read_text(), sorted(os.listdir(tmp_path))) == ("root", ["config.json", "passwd"])


def test_a_link_instead_of_a_description_is_refused(guard, tmp_path):
    assert guard("exporter", "reserved")[0] == call.REFUSED
    description = tmp_path / "bundle" / "config.json"
    description.rename(tmp_path / "elsewhere.json")
    description.symlink_to(tmp_path / "elsewhere.json")
    assert check_container.main() == call.BROKEN


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """Return the new lines of the journal."""
    path = str(tmp_path / "journal")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
        stream.bind(path)
        stream.setblocking(False)
        monkeypatch.setattr(finding_counts, "_JOURNAL", path)

        def lines():
            found = []
            while True:
                try:
                    found.append(stream.recv(4096).decode().partition("]: ")[2])
                except BlockingIOError:
                    return found

        yield lines


def test_the_journal_has_the_same_finding_of_a_service_once_a_minute(tmp_path, monkeypatch, journal):
    now = [1000000]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def at(second, service="train", **found):
        now[0] = 1000000 + second
        finding_counts.add(str(tmp_path), service, found)
        return journal()

    assert at(0, forged="a", hidden="b") == ["service train: forged: a", "service train: hidden: b"]
    assert [at(second, forged="c") for second in (1, 59)] == [[], []]
    assert at(59, "other", forged="a") == ["service other: forged: a"]
    assert at(59, mount="d") == ["service train: mount: d"]
    assert at(60, forged="e") == ["service train: forged: e"]
    assert at(119, forged="f") == []
    assert at(-5000, forged="g") == ["service train: forged: g"]  # the clock was set back
    counted = finding_counts.read(str(tmp_path / finding_counts.FILE))["train"]
    assert {name: one["count"] for name, one in counted.items()} == {"forged": 6, "hidden": 1, "mount": 1}


@pytest.mark.parametrize("broken", ["not json", "[]", '{"train": []}', '{"train": {"forged": {"said": "x"}}}'])
def test_if_former_entries_cannot_be_read_the_finding_is_logged_again(tmp_path, journal, broken):
    (tmp_path / finding_counts.FILE).write_text(broken)
    finding_counts.add(str(tmp_path), "train", {"forged": "a"})
    assert journal() == ["service train: forged: a"]


def test_the_oldest_of_many_counted_services_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr(finding_counts, "_JOURNAL", str(tmp_path / "no-journal"))
    file = tmp_path / finding_counts.FILE
    many = {"s%d" % place: {"forged": {"count": 1, "last": 1000 + place, "text": "x"}} for place in range(finding_counts._SERVICES)}
    many["s0"]["hidden"] = {"count": 1, "last": 1795000000, "text": "x"}  # recorded again, recently
    file.write_text(json.dumps(many))
    finding_counts.add(str(tmp_path), "new", {"forged": "x"})
    assert json.loads(file.read_text()).keys() == {*many, "new"} - {"s1"}
    finding_counts.add(str(tmp_path), "new", {"forged": "x"})
    kept = finding_counts.read(str(file))
    assert (len(kept), kept["new"]["forged"]["count"]) == (finding_counts._SERVICES, 2)


DATA = Path(__file__).parents[1] / "data" / "guard" / "tasks-26.1.5.db.gz"
WITH_GPU, UUID = "os4h3yhd38lmqy77fykgvxym7", "GPU-77a610a8-caa6-5036-afec-4399b4137c2b"
ANSWERED = ("NVIDIA_VISIBLE_DEVICES", VARIABLE)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=9) | st.sampled_from(["\ud800", "\ufffd", "\x00", "a=b", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
VALUES = st.sampled_from(["all", "void", "none", "", "0", UUID, f"{UUID},all"]) | TEXTS
NAMES = st.sampled_from([*ANSWERED, "CUDA_VERSION", "PATH", "DOCKER_RESOURCE_SSD"]) | TEXTS
ENTRY = st.builds("{}={}".format, NAMES, VALUES) | st.sampled_from(ANSWERED)
MOUNTS = st.lists(st.fixed_dictionaries({"destination": TEXTS, "source": TEXTS}, optional={"options": JSON}), max_size=3) | st.none()


@st.composite
def documents(draw):
    """Make whole descriptions of containers. Other content and the order vary."""
    process = {**draw(st.dictionaries(TEXTS, JSON, max_size=3)), "args": draw(JSON), "env": draw(st.lists(ENTRY, max_size=8))}
    found = {**draw(st.dictionaries(TEXTS, JSON, max_size=4)), "ociVersion": "1.0", "mounts": draw(MOUNTS), "process": process, "linux": draw(JSON)}
    return {key: found[key] for key in draw(st.permutations(list(found)))}


def _place(home, task, level):
    """Write the files of a node with one container that will now be created. Write the arguments of the guard for this container too."""
    container = home / "docker" / "containers" / ID
    for folder in (home / "bundle", container, home / "docker" / "swarm" / "worker"):
        folder.mkdir(parents=True)
    (home / "docker" / "swarm" / "worker" / "tasks.db").write_bytes(TASKS)
    (container / "config.v2.json").write_text(json.dumps({"Config": {"Labels": {"com.docker.swarm.task.id": task}}}))
    (home / "config.toml").write_text('swarm-resource = "%s"\n' % VARIABLE)
    settings = {"level": level, "devices": [UUID], "kinds": ["NVIDIA-GPU"], "data_root": str(home / "docker"), "run": str(home / "run")}
    (home / "settings.json").write_text(json.dumps({**settings, "runtime_config": str(home / "config.toml")}))
    return ["x", str(home), "--log", str(home / "log"), "create", "--bundle", str(home / "bundle"), ID]


TASKS = gzip.decompress(DATA.read_bytes())


def _others(document):
    """Return the document without the variables that the guard sets. Numbers are unchanged, and keys keep their order."""
    read = json.loads(document, parse_int=str, parse_float=str)
    read["process"]["env"] = [one for one in read["process"]["env"] if one.partition("=")[0] not in ANSWERED]
    return json.dumps(read)


@given(
    document=documents(),
    readable=st.booleans(),
    task=st.sampled_from([WITH_GPU, "unknown"]),
    level=st.sampled_from(["audit", "reserved", "exclusive"]),
)
def test_only_variables_of_a_description_change(document, readable, task, level):
    """The guard reads and writes the description like on a node. The description of a refused container is unchanged."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(finding_counts, "_JOURNAL", folder), contextlib.redirect_stderr(None):
        arguments, path = _place(Path(folder) / "home", task, level), Path(folder) / "home" / "bundle" / "config.json"
        # Go writes invalid text in the first form, and everything else in the second form.
        surrogates = "\\ud800" in json.dumps(document)
        path.write_text(json.dumps(document, ensure_ascii=surrogates or readable), encoding="utf-8")
        path.chmod(0o640)
        before = path.read_bytes()
        with mock.patch.object(sys, "argv", arguments):
            status = check_container.main()
        after = path.read_bytes()
        assert (os.listdir(path.parent), path.stat().st_mode & 0o777) == (["config.json"], 0o640)
    assert status == call.MAY_START
    assert _others(after) == _others(before)
    if level == "audit":
        assert after == before
    else:
        answered = [one for one in json.loads(after)["process"]["env"] if one.partition("=")[0] in ANSWERED]
        device = UUID if task == WITH_GPU else "void"
        assert {one.partition("=")[2] for one in answered} == {device}
