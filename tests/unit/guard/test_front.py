# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the front program like dockerd, with real processes and real files of an engine. Another program replaces NVIDIA's runtime."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard import front
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.guard import CODE

DATA = Path(__file__).parents[1] / "data" / "guard" / "tasks-26.1.5.db.gz"
WITH_GPU, UUID, FORGES = "os4h3yhd38lmqy77fykgvxym7", "GPU-77a610a8-caa6-5036-afec-4399b4137c2b", "sznzfnmgku8fpv6rmqqbwynu1"
CARD = "GPU-00000000-caa6-5036-afec-4399b4137c2b"
VARIABLE = "DOCKER_RESOURCE_NVIDIA-GPU"
CUDA = "NVIDIA_VISIBLE_DEVICES=all"
# Records its arguments and its parent process, then becomes the first process of the container.
RUNTIME = """#!/bin/sh
echo "$$ $*" >>"$CALLS"
[ -z "$LIVES" ] || exec sleep 300
"""


class Node:
    """The files of one machine."""

    def __init__(self, home, level="reserved"):
        self.home, self.calls = home, home / "calls"
        self.libexec, self.bundles = home / "libexec it's", home / "bundles"
        for name, data in CODE.files().items():
            path = self.libexec / "current" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self._program(home / "nvidia-container-runtime", RUNTIME)
        self.guard = self._program(self.libexec / "nvidia-guard", front.text(self.front(level)))
        (home / "config.toml").write_text(f'swarm-resource = "{VARIABLE}"\n')
        tasks = home / "docker" / "swarm" / "worker" / "tasks.db"
        tasks.parent.mkdir(parents=True)
        tasks.write_bytes(gzip.decompress(DATA.read_bytes()))
        self.set(level=level)

    def front(self, level):
        listed = [VARIABLE, "SITE.GPU"]
        runtime, code = self.home / "nvidia-container-runtime", self.libexec / "current"
        return front.Front(str(runtime), str(self.libexec), str(code), sys.executable, listed, refuses=level not in ("off", "audit"))

    def set(self, **settings):
        path = self.libexec / "settings.json"
        default = {
            "allow": [], "devices": [UUID], "kinds": ["NVIDIA-GPU"], "data_root": str(self.home / "docker"),
            "runtime_config": str(self.home / "config.toml"), "run": str(self.home / "run"), "patience_s": 0,
        }  # fmt: skip
        path.write_text(json.dumps({**default, **(json.loads(path.read_text()) if path.exists() else {}), **settings}))

    def _program(self, path, text):
        path.write_text(text)
        path.chmod(0o755)
        return path

    def stops_its_tasks(self):
        """Write that the agent wants the tasks to stop: desired_state, field 10 of swarmkit's Task, from RUNNING to SHUTDOWN."""
        tasks = self.home / "docker" / "swarm" / "worker" / "tasks.db"
        tasks.write_bytes(tasks.read_bytes().replace(b"\x50\x80\x04", b"\x50\x80\x05"))

    def container(self, name, *env, task=None, managed=None, **document):
        """Write the files that exist when dockerd and containerd call the runtime."""
        bundle = self.bundles / name
        bundle.mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps({"process": {"args": ["x"], "env": ["PATH=/bin", *env]}, "mounts": [], **document}))
        record = self.home / "docker" / "containers" / name / "config.v2.json"
        record.parent.mkdir(parents=True)
        labels = {"com.docker.swarm.task.id": task, "com.docker.swarm.service.name": f"service-{name}"} if task else {}
        by_whom = {} if managed is None else {"Managed": managed}
        record.write_text(json.dumps({"ID": name, **by_whom, "Config": {"Labels": labels}}))
        return bundle

    def arguments(self, name, call="create"):
        return [
            "--root", str(self.home / "runc"), "--log", str(self.bundles / name / "log.json"), "--log-format", "json",
            call, "--bundle", str(self.bundles / name), "--pid-file", "x", name,
        ]  # fmt: skip

    def start(self, *arguments, lives=""):
        environment = {"PATH": os.environ["PATH"], "CALLS": str(self.calls), "LIVES": lives}
        return subprocess.Popen([self.guard, *arguments], env=environment, stderr=subprocess.DEVNULL)

    def create(self, name, **options):
        return self.start(*self.arguments(name, **options)).wait(60)

    def env(self, name):
        return json.loads((self.bundles / name / "config.json").read_text())["process"]["env"]

    def error(self, name):
        """Return the error that containerd's shim would read."""
        lines = (self.bundles / name / "log.json").read_text().splitlines()
        assert [sorted(json.loads(line)) for line in lines] == [["level", "msg", "time"]]
        return json.loads(lines[0])["msg"]

    def called(self):
        return [line.split(" ", 1) for line in self.calls.read_text().splitlines()] if self.calls.exists() else []

    def await_call(self):
        end = time.monotonic() + 60
        while not self.called():
            assert time.monotonic() < end
            time.sleep(0.02)

    def found(self):
        return {service: sorted(names) for service, names in json.loads((self.home / "run" / "found.json").read_text()).items()}

    def breaks(self):
        shutil.rmtree(self.libexec / "current")


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_a_task_gets_what_it_reserved_and_the_runtime_the_same_arguments(node):
    node.container("c1", CUDA, f"{VARIABLE}={UUID}", task=WITH_GPU)
    assert node.create("c1") == 0
    assert node.env("c1") == ["PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={UUID}", f"{VARIABLE}={UUID}"]
    assert node.called()[0][1] == " ".join(node.arguments("c1"))


def test_a_task_without_a_reservation_gets_none(node):
    node.container("c1", CUDA, f"{VARIABLE}=all", task="unknown")
    assert node.create("c1") == 0
    assert node.env("c1") == ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void"]
    assert node.found() == {"service-c1": ["old-task"]}


def test_config_toml_is_not_read_again_if_unchanged(node):
    """The settings contain the variables of config.toml. The guard loads the reader of the file only after someone edited the file."""
    path = node.home / "config.toml"
    node.set(listed=[VARIABLE], config=path.read_text())
    (node.libexec / "current/gpu_swarm/_guard/toolkit_config.py").unlink()
    node.container("c1", CUDA, task="unknown")
    assert node.create("c1") == 0
    path.write_text(path.read_text() + "# mine\n")
    node.container("c2", CUDA, task="unknown")
    assert node.create("c2") == 1


@pytest.mark.parametrize("settings", [{}, {"listed": ["SITE.GPU"]}], ids=["of an older run", "of this version"])
@pytest.mark.parametrize("config", ["", f'swarm-resource = [{VARIABLE!r}]\n', "swarm-resource"], ids=["none listed", "a list", "no TOML"])
def test_a_variable_of_a_known_name_is_removed_whatever_config_toml_says(node, settings, config):
    """The guard knows variables from the run and from the node's kinds. So a file that guard and runtime read differently allows no access."""
    (node.home / "config.toml").write_text(config)
    node.set(**settings)
    node.container("c1", CUDA, f"{VARIABLE}=all", *(f"{name}=all" for name in settings.get("listed", ())), task="unknown")
    assert node.create("c1") == 0
    assert node.env("c1") == ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void"]


def test_a_forged_variable_is_refused_in_the_task_s_error(node):
    node.container("c1", f"{VARIABLE}=all", task=FORGES)
    assert node.create("c1") == 1
    assert node.called() == []
    assert "service-c1 is refused on this node (isolation: reserved): it sets DOCKER_RESOURCE_NVIDIA-GPU=all itself" in node.error("c1")
    assert node.found() == {"service-c1": ["forged"]}


def test_audit_lets_it_start_and_counts_it(tmp_path):
    node = Node(tmp_path, "audit")
    before = node.container("c1", f"{VARIABLE}=all", task=FORGES) / "config.json"
    text = before.read_bytes()
    assert [node.create("c1"), before.read_bytes(), node.found()] == [0, text, {"service-c1": ["forged"]}]
    node.breaks()
    assert [node.create("c1"), before.read_bytes()] == [0, text]


def test_audit_lets_it_start_whatever_goes_wrong(tmp_path):
    node = Node(tmp_path, "audit")
    before = node.container("c1", f"{VARIABLE}=all", task=FORGES) / "config.json"
    text = before.read_bytes()
    (node.home / "docker" / "containers" / "c1" / "config.v2.json").unlink()
    assert [node.create("c1"), before.read_bytes(), node.found()] == [0, text, {"": ["broken"]}]


def slots(mib):
    """Return settings of a node where WITH_GPU holds a slot of another card."""
    return {"devices": [], "map": {"NVIDIA-GPU": {UUID: {"devices": [CARD], "mib": mib, "together": False}}}, "overhead_mib": 300}


@pytest.mark.parametrize(("level", "status", "devices"), [("off", 0, CARD), ("audit", 1, "all"), ("reserved", 1, "all")])
def test_a_task_with_a_slot_is_refused_with_audit_as_with_reserved(tmp_path, level, status, devices):
    node = Node(tmp_path, level)
    node.set(**slots(300))
    node.container("c1", CUDA, f"{VARIABLE}={UUID}", task=WITH_GPU)
    assert (node.create("c1"), node.env("c1")[1]) == (status, f"NVIDIA_VISIBLE_DEVICES={devices}")
    if status:
        assert node.called() == []
        assert f"service-c1 is refused on this node (isolation: {level}): its share is 300 MiB" in node.error("c1")
        assert node.found() == {"service-c1": ["too-small"]}


def test_with_audit_a_task_with_a_slot_sees_its_card_and_the_others_go_on(tmp_path):
    node = Node(tmp_path, "audit")
    node.set(**slots(4000))
    node.container("c1", CUDA, f"{VARIABLE}={UUID}", task=WITH_GPU)
    node.container("c2", f"{VARIABLE}=all", task=FORGES)
    assert (node.create("c1"), node.env("c1")[1]) == (0, f"NVIDIA_VISIBLE_DEVICES={CARD}")
    assert (node.create("c2"), node.env("c2")[1:]) == (0, [f"{VARIABLE}=all"])


def test_a_container_of_an_operator_starts_unchanged(node):
    node.container("c1", CUDA)
    assert (node.create("c1"), node.env("c1")) == (0, ["PATH=/bin", CUDA])


@pytest.mark.parametrize("call", ["start", "state", "kill", "delete", "exec", "features", "--version"])
def test_every_other_call_goes_through_without_an_interpreter(node, call):
    node.breaks()
    arguments = ["--root", "create", "--log=create", call, "-b", "restore", "c1"]
    process = node.start(*arguments)
    assert process.wait(60) == 0
    assert node.called() == [[str(process.pid), " ".join(arguments)]]


def test_a_container_without_a_request_starts_even_with_a_damaged_guard(node):
    node.container("c1", "DOCKER=1", task=WITH_GPU)
    node.breaks()
    (node.libexec / "settings.json").unlink()
    process = node.start(*node.arguments("c1"))
    assert (process.wait(60), node.called()[0][0]) == (0, str(process.pid))


@pytest.mark.parametrize("wants", [CUDA, f"{VARIABLE}=0", "CUDA_VERSION=12", "SITE.GPU=0", "/var/run/nvidia-container-devices/0"])
@pytest.mark.parametrize("broken", ["code", "empty", "settings", "settings-text", "toolkit", "record", "bundle", "python"])
def test_a_container_with_a_request_does_not_start_with_a_broken_guard(node, wants, broken):
    mounts = [{"destination": wants}] if wants.startswith("/") else []
    bundle = node.container("c1", *([] if mounts else [wants]), task=WITH_GPU, mounts=mounts)
    if broken == "code":
        node.breaks()
    elif broken == "empty":
        _break(node, broken)
    elif broken == "python":
        (node.libexec / "current" / "gpu_swarm" / "_guard" / "check_container.py").write_text("raise MemoryError")
    elif broken == "settings-text":
        (node.libexec / "settings.json").write_text("{")
    elif broken == "bundle":
        (bundle / "config.json").write_text((bundle / "config.json").read_text()[:-2])
    else:
        {"settings": node.libexec / "settings.json", "toolkit": node.home / "config.toml",
         "record": node.home / "docker" / "containers" / "c1" / "config.v2.json"}[broken].unlink()  # fmt: skip
    assert node.create("c1") == 1
    assert node.called() == []
    assert node.error("c1").startswith("gpu-swarm: ")


@pytest.mark.parametrize("calm", ["DOCKER_RESOURCE_SSD=1", "NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=none", f"{VARIABLE}="])
@pytest.mark.parametrize("broken", ["code", "empty", "settings"])
def test_a_container_without_a_request_starts_with_a_broken_guard(node, calm, broken):
    node.container("c1", calm, task=WITH_GPU)
    node.container("c2", calm, CUDA, task=WITH_GPU)
    _break(node, broken)
    assert (node.create("c1"), node.env("c1")[1]) == (0, calm)
    assert node.create("c2") == 1


@pytest.mark.parametrize("value", ["v", "n", "voi", "nonee", "void,0", "none,0", "0", "xvoid"])
def test_every_other_value_of_a_variable_is_a_request(node, value):
    node.container("c1", f"{VARIABLE}={value}", task=WITH_GPU)
    node.breaks()
    assert node.create("c1") == 1


def _break(node, what):
    if what == "code":
        node.breaks()
    elif what == "empty":  # a file can be empty after a loss of power
        (node.libexec / "current" / "__main__.py").write_bytes(b"")
    elif what == "toolkit":
        (node.home / "config.toml").unlink()
    else:
        (node.libexec / "settings.json").write_text("" if what == "settings" else "[]")


@pytest.mark.parametrize("broken", ["code", "empty", "toolkit", "settings", "list"])
def test_audit_never_refuses(tmp_path, broken):
    node = Node(tmp_path, "audit")
    node.container("c1", f"{VARIABLE}=all", task=FORGES)
    _break(node, broken)
    assert (node.create("c1"), node.env("c1")[1]) == (0, f"{VARIABLE}=all")
    if broken == "toolkit":
        assert node.found() == {"": ["broken"]}


def test_a_bundle_with_a_link_as_its_description_is_refused(node):
    bundle = node.container("c1", CUDA, task=WITH_GPU)
    (bundle / "config.json").rename(bundle / "other.json")
    (bundle / "config.json").symlink_to("other.json")
    assert node.create("c1") == 1


def test_a_file_of_the_operator_turns_the_guard_off(node):
    node.breaks()
    node.container("c1", CUDA, task=WITH_GPU)
    (node.libexec / "pass-through").touch()
    assert (node.create("c1"), node.env("c1")) == (0, ["PATH=/bin", CUDA])


def test_a_record_that_moved_is_found_by_the_containers_own_mounts(node):
    mounts = [{"source": f"{node.home}/docker/containers/c1/hostname", "destination": "/etc/hostname"}]
    node.container("c1", CUDA, f"{VARIABLE}={UUID}", task=WITH_GPU, mounts=mounts)
    node.set(data_root="/nowhere")
    assert (node.create("c1"), node.env("c1")[1]) == (0, f"NVIDIA_VISIBLE_DEVICES={UUID}")


def test_a_huge_environment_is_handled(node):
    node.container("c1", *(f"A{number}={'x' * 1000}" for number in range(2000)), CUDA, f"{VARIABLE}={UUID}", task=WITH_GPU)
    assert (node.create("c1"), len(node.env("c1"))) == (0, 2003)


def test_one_of_fifty_starts_wins_the_gpu_and_its_end_frees_it(tmp_path):
    node = Node(tmp_path, "exclusive")
    names = [f"c{number}" for number in range(50)]
    for name in names:
        node.container(name, f"{VARIABLE}={UUID}", task=WITH_GPU)
    starts = {name: node.start(*node.arguments(name), lives="1") for name in names}
    end = time.monotonic() + 120
    while sum(process.poll() is None for process in starts.values()) > 1 or not node.called():
        assert time.monotonic() < end
        time.sleep(0.05)
    (winner,) = (name for name, process in starts.items() if process.poll() is None)
    assert [line[0] for line in node.called()] == [str(starts[winner].pid)]  # the process id stays the same
    assert {process.wait() for name, process in starts.items() if name != winner} == {1}
    loser = next(name for name in names if name != winner)
    assert f"task {WITH_GPU} of the service service-{winner} (container {winner}) still has {UUID}" in node.error(loser)
    starts[winner].kill()
    starts[winner].wait()
    (node.bundles / loser / "log.json").unlink()
    assert node.create(loser) == 0


def test_a_hold_outlives_the_process_that_made_it(tmp_path):
    node = Node(tmp_path, "exclusive")
    init = subprocess.Popen(["sleep", "300"])
    try:
        for name in ("c1", "c2", "c3"):
            node.container(name, f"{VARIABLE}={UUID}", task=WITH_GPU)
        started = int(Path(f"/proc/{init.pid}/stat").read_text().rpartition(")")[2].split()[19])
        state = node.home / "runc" / "c1" / "state.json"
        state.parent.mkdir(parents=True)
        state.write_text(json.dumps({"init_process_pid": init.pid, "init_process_start": started}))
        assert (node.create("c1"), node.create("c2")) == (0, 1)
        state.write_text(json.dumps({"init_process_pid": init.pid, "init_process_start": started + 1}))  # another process has this id now
        assert node.create("c3") == 0
    finally:
        init.kill()
        init.wait()


def test_a_task_that_is_about_to_stop_is_waited_for(tmp_path):
    node = Node(tmp_path, "exclusive")
    for name in ("c1", "c2"):
        node.container(name, f"{VARIABLE}={UUID}", task=WITH_GPU)
    first = node.start(*node.arguments("c1"), lives="1")
    node.await_call()
    node.set(patience_s=60)
    node.stops_its_tasks()
    second = node.start(*node.arguments("c2"))
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.5)
    first.kill()
    first.wait()
    assert second.wait(60) == 0


def test_a_task_that_stays_is_not_waited_for(tmp_path):
    """The record of Swarm's agent says that the task continues to run."""
    node = Node(tmp_path, "exclusive")
    for name in ("c1", "c2"):
        node.container(name, f"{VARIABLE}={UUID}", task=WITH_GPU)
    first = node.start(*node.arguments("c1"), lives="1")
    node.await_call()
    node.set(patience_s=3600)
    assert node.start(*node.arguments("c2")).wait(60) == 1
    first.kill()
    first.wait()


def test_below_exclusive_double_use_is_counted(node):
    for name in ("c1", "c2"):
        node.container(name, f"{VARIABLE}={UUID}", task=WITH_GPU)
    first = node.start(*node.arguments("c1"), lives="1")
    node.await_call()
    assert (node.create("c2"), node.found()) == (0, {"service-c2": ["held-twice"]})
    first.kill()
    first.wait()


def test_a_checkpoint_of_a_task_is_restored_below_exclusive_only(node):
    node.container("c1", CUDA, task=WITH_GPU)
    assert node.create("c1", call="restore") == 0
    node.set(level="exclusive")
    assert node.create("c1", call="restore") == 1
    node.container("c2", CUDA)
    assert node.create("c2", call="restore") == 0


# Runs the code of the guard. Kills it before a call that changes files, or while it writes a file.
KILLED = """\
import json, os, signal, sys

sys.path.insert(0, __file__.rpartition("/")[0])
from gpu_swarm._guard import check_container

left = %d
write = json.dump


def step(event, dummy=()):
    global left
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "fcntl.flock", "socket.connect", "write"):
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1


def dump(*arguments):
    step("write")
    write(*arguments)


json.dump = dump
sys.addaudithook(step)
sys.exit(check_container.main())
"""


def _killed_at_each_step(node, task, *env):
    """Start a container for each step. Yield its name and how the guard ended, until one start is not killed."""
    program = node.libexec / "current" / "__main__.py"
    whole = program.read_text()
    for step in range(100):
        program.write_text(KILLED % step)
        node.container(f"c{step}", *env, task=task)
        status = node.create(f"c{step}")
        program.write_text(whole)
        yield f"c{step}", status


def test_a_guard_killed_at_any_step_leaves_nothing_behind(tmp_path):
    node, whole = Node(tmp_path, "exclusive"), ["PATH=/bin", CUDA, f"{VARIABLE}={UUID}"]
    after = ["PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={UUID}", f"{VARIABLE}={UUID}"]
    node.container("first", *whole[1:], task=WITH_GPU)
    assert node.create("first") == 0
    for name, status in _killed_at_each_step(node, WITH_GPU, *whole[1:]):
        if status == 0:
            break
        assert node.env(name) in (whole, after)
        assert "the guard of this node's GPUs does not run" in node.error(name)
        node.container(f"next-{name}", *whole[1:], task=WITH_GPU)
        assert node.create(f"next-{name}") == 0
        assert [path.name for path in (node.home / "run" / "holds").iterdir() if path.name[0] != "."] == [f"next-{name}"]
    steps = int(name[1:])
    assert (steps > 10, len(node.called()), node.env(name)) == (True, steps + 2, after)


def test_a_count_is_complete_wherever_a_guard_is_killed(node):
    for name, dummy in _killed_at_each_step(node, FORGES, f"{VARIABLE}=all"):
        found = node.home / "run" / "found.json"
        assert all(names == ["forged"] for names in (node.found() if found.exists() else {}).values())
        if "it sets DOCKER_RESOURCE_NVIDIA-GPU=all itself" in node.error(name):
            break
    assert (node.called(), f"service-{name}" in node.found()) == ([], True)


NO_TEXT = b"\xff\xfe\x80"


@pytest.mark.parametrize(("level", "status"), [("reserved", 1), ("exclusive", 1), ("audit", 0)])
def test_a_description_that_is_no_text_is_left_alone_and_refused_where_it_requests_a_gpu(tmp_path, level, status):
    node = Node(tmp_path, level)
    for name, env, wanted in (("c1", CUDA, status), ("c2", "A=b", 0)):
        path = node.container(name, env, "X=?", task=WITH_GPU) / "config.json"
        path.write_bytes(path.read_bytes().replace(b"?", NO_TEXT))
        before = path.read_bytes()
        assert (node.create(name), path.read_bytes()) == (wanted, before)
    if status:
        assert "the guard of this node's GPUs failed" in node.error("c1")


def test_a_record_of_dockerd_that_is_no_text_is_read(node):
    node.container("c1", CUDA, task=WITH_GPU)
    path = node.home / "docker" / "containers" / "c1" / "config.v2.json"
    before = path.read_bytes()
    assert (b'{"ID"' in before, b"service-c1" in before) == (True, True)
    path.write_bytes(before.replace(b'{"ID"', b'{"%b": "%b", "ID"' % (NO_TEXT, NO_TEXT)).replace(b"service-c1", b"service-" + NO_TEXT))
    assert (node.create("c1"), node.env("c1")) == (0, ["PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={UUID}"])


def test_a_variable_that_is_no_text_is_checked_like_any_other(node):
    tasks = node.home / "docker" / "swarm" / "worker" / "tasks.db"
    forged = f"{VARIABLE}=all".encode()
    assert forged in tasks.read_bytes()
    tasks.write_bytes(tasks.read_bytes().replace(forged, forged[:-3] + NO_TEXT))
    node.container("c1", f"{VARIABLE}=\ufffd", task=FORGES)
    assert (node.create("c1"), node.found()) == (1, {"service-c1": ["forged"]})
    assert "refused on this node (isolation: reserved): it sets DOCKER_RESOURCE_NVIDIA-GPU=" in node.error("c1")


ASKS = "sznzfnmgku8fpv6rmqqbwynu1"  # its record contains a variable of the service, which the tests replace
NAMED = {"zero": ["/dev/zero", "/dev/full"], "mem": ["/dev/mem", "/dev/kmsg"], "gone": ["/dev/no-such-device*"]}
LINUX = {"resources": {"devices": [{"allow": False, "access": "rwm"}]}, "namespaces": [{"type": "pid"}]}
LEVELS = ["off", "audit", "reserved", "exclusive"]
DEVICES = "GPU_SWARM_DEVICES"


def asking(home, level="reserved", names="zero", **settings):
    """Return a node that offers devices, and whose agent has recorded a service that asks for these names."""
    node = Node(home, level)
    node.set(offered=NAMED, **settings)
    tasks, recorded = node.home / "docker" / "swarm" / "worker" / "tasks.db", f"{VARIABLE}=all"
    variable = f"{DEVICES}={names}"
    assert len(variable) <= len(recorded)
    tasks.write_bytes(tasks.read_bytes().replace(recorded.encode(), variable.ljust(len(recorded)).encode()))
    return node


def linux(node, name):
    return json.loads((node.bundles / name / "config.json").read_text())["linux"]


@pytest.mark.parametrize("allow", [[], ["service-c1"]], ids=["", "in isolation_allow"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_service_gets_the_devices_that_it_asks_for_at_each_level(tmp_path, level, allow):
    node = asking(tmp_path, level, allow=allow)
    node.container("c1", f"{DEVICES}=zero", task=ASKS, linux=LINUX, hostname="h")
    assert node.create("c1") == 0
    entries, rules = linux(node, "c1")["devices"], linux(node, "c1")["resources"]["devices"]
    status = os.lstat("/dev/full")
    assert entries == [
        {"path": path, "type": "c", "major": 1, "minor": minor, "fileMode": 0o666, "uid": status.st_uid, "gid": status.st_gid}
        for path, minor in [("/dev/full", 7), ("/dev/zero", 5)]
    ]
    assert rules == [*LINUX["resources"]["devices"], *({"allow": True, "type": "c", "major": 1, "minor": at, "access": "rw"} for at in (7, 5))]
    document = json.loads((node.bundles / "c1" / "config.json").read_text())
    assert (document["hostname"], document["mounts"], linux(node, "c1")["namespaces"]) == ("h", [], LINUX["namespaces"])
    assert set(node.env("c1")) - {"NVIDIA_VISIBLE_DEVICES=void"} == {"PATH=/bin", f"{DEVICES}=zero"}
    assert node.called()[0][1] == " ".join(node.arguments("c1"))


@pytest.mark.parametrize("allow", [[], ["service-c1"]], ids=["", "in isolation_allow"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("names", "code"), [("zero,other", "device-not-allowed"), ("gone", "no-device"), ("mem", "no-device")])
def test_a_service_that_cannot_get_a_device_is_refused_at_each_level(tmp_path, level, allow, names, code):
    node = asking(tmp_path, level, names, allow=allow)
    path = node.container("c1", f"{DEVICES}={names}", task=ASKS, linux=LINUX) / "config.json"
    before = path.read_bytes()
    assert (node.create("c1"), node.called(), path.read_bytes()) == (1, [], before)
    assert (f"(isolation: {level}): it asks for the device" in node.error("c1"), f"(refusal: {code})" in node.error("c1")) == (True, True)
    assert not (node.home / "run" / "found.json").exists()  # the counts say what a level changes


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("offered", [{}, None], ids=["empty", "of an older run"])
def test_a_node_that_offers_nothing_refuses_whoever_asks(tmp_path, level, offered):
    node = asking(tmp_path, level)
    node.set(**({"offered": offered} if offered is not None else {}))
    if offered is None:
        path = node.libexec / "settings.json"
        path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "offered"}))
    node.container("c1", f"{DEVICES}=zero", task=ASKS)
    assert (node.create("c1"), "It allows none" in node.error("c1")) == (1, True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("task", "who"), [(WITH_GPU, "an image of a task"), (None, "docker run"), ("ended", "docker start of a former task")])
def test_the_variable_of_an_image_or_of_an_operator_gives_nothing(tmp_path, level, task, who):
    node = asking(tmp_path, level)
    node.container("c1", f"{DEVICES}=zero,other", task=task, linux=LINUX)
    assert (node.create("c1"), linux(node, "c1")) == (0, LINUX), who


@pytest.mark.parametrize("level", LEVELS)
def test_a_container_with_the_label_of_a_running_task_gets_nothing_unless_swarm_made_it(tmp_path, level):
    """'docker run' can set each label, and an image can have it, for example after 'docker commit' of the task."""
    node = asking(tmp_path, level)
    node.container("c1", f"{DEVICES}=zero", task=ASKS, managed=False, linux=LINUX)
    node.container("c2", f"{DEVICES}=zero", task=ASKS, managed=True, linux=LINUX)
    assert [node.create(name) for name in ("c1", "c2")] == [0, 0]
    assert (linux(node, "c1"), len(linux(node, "c2")["devices"])) == (LINUX, 2)


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_service_asks_for_is_not_believed_if_its_record_cannot_be_read(tmp_path, level):
    node = asking(tmp_path, level)
    (node.home / "docker/swarm/worker/tasks.db").write_bytes(b"torn")
    path = node.container("c1", f"{DEVICES}=zero", task=ASKS, linux=LINUX) / "config.json"
    node.container("c2", f"{DEVICES}= ,", "A=b", task=ASKS, linux=LINUX)
    node.container("c3", f"{DEVICES}=zero", linux=LINUX)
    before = path.read_bytes()
    assert (node.create("c1"), path.read_bytes()) == (1, before)
    assert "what its service asks for (GPU_SWARM_DEVICES) cannot be read" in node.error("c1")
    assert (node.create("c2"), node.create("c3"), linux(node, "c2"), linux(node, "c3")) == (0, 0, LINUX, LINUX)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("broken", ["code", "empty", "toolkit", "settings", "list", "offered", "linux"])
def test_a_service_that_asks_does_not_start_with_a_broken_guard(tmp_path, level, broken):
    node = asking(tmp_path, level)
    for name, env in (("c1", f"{DEVICES}=zero"), ("c2", "A=b"), ("c3", f"{DEVICES}=")):
        node.container(name, env, task=ASKS, linux=[1] if broken == "linux" else LINUX)
    if broken == "offered":
        node.set(offered={"zero": "/dev/zero"})
    elif broken != "linux":
        _break(node, broken)
    assert [node.create(name) for name in ("c1", "c2", "c3")] == [1, 0, 0]
    assert node.error("c1").startswith("gpu-swarm: ")
    assert len(node.called()) == 2


def test_at_restore_nothing_is_added(tmp_path):
    node = asking(tmp_path)
    node.container("c1", f"{DEVICES}=zero", task=ASKS, linux=LINUX)
    assert (node.create("c1", call="restore"), linux(node, "c1")) == (0, LINUX)


def test_while_a_file_turns_the_guard_off_a_service_starts_without_its_devices(tmp_path):
    node = asking(tmp_path)
    node.container("c1", f"{DEVICES}=zero", task=ASKS, linux=LINUX)
    (node.libexec / "pass-through").touch()
    assert (node.create("c1"), linux(node, "c1")) == (0, LINUX)


def test_containers_that_ask_for_no_device_do_not_load_its_code(tmp_path):
    node = asking(tmp_path)
    (node.libexec / "current/gpu_swarm/_guard/offered.py").unlink()
    node.container("c1", CUDA, f"{VARIABLE}={UUID}", task=WITH_GPU)
    assert node.create("c1") == 0
