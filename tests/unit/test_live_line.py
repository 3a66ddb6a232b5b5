# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The line at the bottom of a terminal, in playbooks that Ansible runs on a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import live_line

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
ROWS, COLUMNS = 50, 100
LIMIT_S = 60.0
# The thread would write within this time.
SILENCE_S = 2.5 * live_line.REWRITE_INTERVAL_S
LOCAL = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
STEPS = """
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - name: Wait for the test
      ansible.builtin.shell: "touch '{{ folder }}/started'; until [ -e '{{ folder }}/go' ]; do sleep 0.1; done"
    - name: The user's tasks
      ansible.builtin.include_tasks: "{{ folder }}/theirs.yml"
      when: prompts | bool
- name: Second
  hosts: all
  gather_facts: false
  vars_prompt: [{name: which, prompt: Which one, private: false}]
  tasks:
    - name: Wait until there is nothing to wait for
      ansible.builtin.shell: "true"
"""
THEIRS = """
- name: Look
  ansible.builtin.debug: {msg: all of this}
- name: Power cycle
  ansible.builtin.pause: {prompt: Is it off}
- name: Look once more
  ansible.builtin.command: "true"
"""
# A callback that warns while the line is on the screen.
WARNS = """
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "warns"

    def v2_runner_on_ok(self, result):
        if result._task.get_name() == "Wait for the test":
            self._display.warning("careful with that")
"""


class Terminal:
    """A program on a terminal, with its output."""

    def __init__(self, command, folder, **variables):
        self._terminal, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS", "ANSIBLE_NOCOLOR")}
        self._process = subprocess.Popen(
            command, cwd=folder, env={**environment, "TERM": "xterm", **variables}, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._terminal)

    def read(self, within_s):
        """Read the next output. Return whether the program wrote more."""
        if not select.select([self._terminal], [], [], within_s)[0]:
            return False
        try:
            found = os.read(self._terminal, 65536)
        except OSError:  # the program ended
            found = b""
        self.text += found.decode()
        return bool(found)

    def await_text(self, pattern):
        until = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.text, re.DOTALL):
            assert self.read(until - time.monotonic()), f"no {pattern!r} in:\n{self.text}"

    def await_file(self, path):
        until = time.monotonic() + LIMIT_S
        while not path.exists():
            self.read(0.1)
            assert time.monotonic() < until, self.text

    def answer(self, text):
        os.write(self._terminal, text.encode())

    def await_end(self):
        while self.read(LIMIT_S):
            pass
        return self._process.wait(LIMIT_S)


def screen(text):
    """Return the lines that a person sees. Supports the escape codes for colours and for erasing to the end of the line."""
    lines, column = [""], 0
    for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]?|.", text, re.DOTALL):
        if part == "\r":
            column = 0
        elif part == "\n":
            lines.append("")
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not part.startswith("\x1b["):
            lines[-1] = lines[-1][:column].ljust(column) + part + lines[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines if line.strip()]


@pytest.fixture
def folder(tmp_path):
    copy = tmp_path / "collections/ansible_collections/fleet/gpu_swarm"
    for name in ("plugins", "meta", "playbooks/callback_plugins"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "playbooks/steps.yml").write_text(STEPS)
    (copy / "playbooks/callback_plugins/warns.py").write_text(WARNS)
    (tmp_path / "theirs.yml").write_text(THEIRS)
    return tmp_path


def command(folder, prompts=False):
    extra = f"{LOCAL} folder={folder} prompts={prompts}" + ("" if prompts else " which=none")
    return [BIN / "ansible-playbook", "-i", "g1,", "fleet.gpu_swarm.steps", "-e", extra]


def variables(folder, **more):
    quiet = {"ANSIBLE_STDOUT_CALLBACK": "fleet.gpu_swarm.progress", "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections")}
    return {**quiet, "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_DEPRECATION_WARNINGS": "0", **more}


def test_the_line_is_rewritten_and_other_output_stays_whole(folder):
    with Terminal(command(folder, prompts=True), folder, **variables(folder)) as terminal:
        terminal.await_text(r"First, g1, (\d+) s: Wait for the test.*First, g1, (?!\1 )\d+ s: Wait for the test")
        (line,) = screen(terminal.text)
        assert re.fullmatch(r"  First, g1, \d+ s: Wait for the test", line)
        (folder / "go").touch()
        for prompt, answer in ((r"Is it off:", "\r"), (r"Which one: ", "this\r")):
            terminal.await_text(prompt)
            while terminal.read(0.2):  # the rest of the prompt
                pass
            assert not terminal.read(SILENCE_S), f"something is written over the prompt:\n{terminal.text}"
            terminal.answer(answer)
        assert terminal.await_end() == 0
        lines = [re.sub(r"\*{3,}", "***", re.sub(r" +\d+ s$", " N s", line)) for line in screen(terminal.text)]
    assert [line for line in lines if line != "Second N s"] == [  # a step that ran for a second has a line
        "[WARNING]: careful with that",
        "TASK [Look] ***",
        "ok: [g1] => {",
        '    "msg": "all of this"',
        "}",
        "TASK [Power cycle] ***",
        "[Power cycle]",
        "Is it off:",
        "ok: [g1]",
        "TASK [Look once more] ***",
        "changed: [g1]",
        "Which one: this",
        "First N s",
    ], terminal.text


PLAIN = [{"NO_COLOR": "1"}, {"CI": "true"}, {"TERM": "dumb"}, {"AWX_ISOLATED_DATA_DIR": "of ansible-runner"}, {"ANSIBLE_VERBOSITY": "1"}]


@pytest.mark.parametrize("more", PLAIN, ids=lambda one: next(iter(one)))
def test_the_line_can_be_switched_off(folder, more):
    with Terminal(command(folder), folder, **variables(folder, **more)) as terminal:
        terminal.await_file(folder / "started")
        while terminal.read(0.2):
            pass
        assert not terminal.read(SILENCE_S), terminal.text
        (folder / "go").touch()
        assert terminal.await_end() == 0
        assert live_line.ERASE not in terminal.text
        assert "First, g1" not in terminal.text


def test_without_a_terminal_a_long_wait_prints_lines(monkeypatch, tmp_path):
    seconds = iter([9.0, 10.0, 11.0, 19.0, 20.0, 39.0, 40.0, 1.0, 10.0])
    over = threading.Event()

    def current(_now):
        waited = next(seconds, 0.0)
        if not waited:
            over.set()
        return "  Pull, g1" if waited else "", waited

    monkeypatch.setattr(live_line, "REWRITE_INTERVAL_S", 0.001)
    with open(tmp_path / "output", "w+") as output:
        monkeypatch.setattr(sys, "stdout", output)
        line = live_line.LiveLine(current, False, lambda: COLUMNS)
        line.start()
        assert over.wait(LIMIT_S)
        line.stop()
        assert (tmp_path / "output").read_text() == 4 * "  Pull, g1\n"
