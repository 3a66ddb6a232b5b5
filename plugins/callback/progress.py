# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: A line per step instead of a line per task and host
version_added: 0.3.0
description:
  - Prints a line for each step of a playbook of this collection, and a line for each node of a rollout.
  - Prints a failure at once, with host and reason, unless a C(rescue) handles it.
  - On a terminal, the last line shows the current task. Elsewhere, a wait longer than 10 seconds gets a line of its own.
  - Prints your own tasks, such as those of C(maintain_tasks), like Ansible's default output.
  - Always prints warnings, deprecations, differences (C(--diff)), tracebacks and the messages of C(ansible.builtin.debug).
  - With C(-v), the output is Ansible's default.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - Set C(stdout_callback = fleet.gpu_swarm.progress) in the section C([defaults]) of C(ansible.cfg).
"""

import atexit
import os
import sys
import time
from pathlib import Path

from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default

from ..plugin_utils._report import last_words, progress, terminal
from ..plugin_utils._report.last_words import Collector
from ..plugin_utils._report.live_line import LiveLine

# The plays and tasks of this collection are in these folders.
FOLDERS = tuple(f"{Path(__file__).resolve().parents[2] / folder}{os.sep}" for folder in ("playbooks", "roles"))
PLAN = "fleet.gpu_swarm.provision_plan"
# The prompts of Ansible's Display. Some releases lack some of them.
PROMPTS = ("prompt", "prompt_until", "do_var_prompt")
# These environment variables mean a log, even on a terminal. ansible-runner sets the last one.
PLAIN = ("NO_COLOR", "CI", "AWX_ISOLATED_DATA_DIR")


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "fleet.gpu_swarm.progress"

    def __init__(self):
        super().__init__()
        self._run = progress.Run(time.monotonic())
        self._live, self._recap, self._differs = None, False, ""

    def _is_quiet(self, thing):
        """Return whether a play or task is one of this collection, and the user did not give -v."""
        path = thing.get_path() or ""
        return self._display.verbosity == 0 and os.path.realpath(path).startswith(FOLDERS)

    def _say(self, lines, color=None):
        for line in lines:
            self._display.display(terminal.fit(line, self._display.columns), color=color)

    # -- the run, its steps and tasks ------------------------------------------------------------------------------

    def v2_playbook_on_start(self, playbook):
        super().v2_playbook_on_start(playbook)
        if self._live is None and self._display.verbosity == 0:
            self._live = LiveLine(self._run.current, _rewrites(), lambda: self._display.columns)
            for name in ("display", *PROMPTS):
                if hasattr(self._display, name):
                    setattr(self._display, name, self._live.above(getattr(self._display, name)))
            self._live.start()
            atexit.register(self._live.stop)  # if Ctrl-C or an error of Ansible ends the run

    def v2_playbook_on_play_start(self, play):
        quiet = self._is_quiet(play)
        self._say(self._run.begin_play(play.get_name().strip() if quiet else "", bool(play.serial), time.monotonic()))
        if quiet:
            self._play = play
        else:
            self._recap = True
            super().v2_playbook_on_play_start(play)

    def v2_playbook_on_no_hosts_matched(self):
        if not self._run.step:
            super().v2_playbook_on_no_hosts_matched()

    def v2_playbook_on_no_hosts_remaining(self):
        if not self._run.step:
            super().v2_playbook_on_no_hosts_remaining()

    def _task_start(self, task, prefix=None):
        self._run.begin_task(task.get_name().strip(), time.monotonic())
        if self._is_quiet(task):
            self._task_type_cache[task._uuid], self._last_task_name = prefix, task.get_name().strip()
        else:
            self._say(self._run.open_step())
            super()._task_start(task, prefix)

    def v2_runner_on_start(self, host, task):
        self._say(self._run.begin_host(host.get_name(), time.monotonic()))
        if not self._is_quiet(task):
            super().v2_runner_on_start(host, task)

    # -- results ---------------------------------------------------------------------------------------------------

    def v2_runner_on_ok(self, result):
        self._note(result)
        if self._is_quiet(result._task):
            self._warn(result)
            self._say(progress.notes_in(result._task.resolved_action or result._task.action, result._host.get_name(), result._result))
        else:
            super().v2_runner_on_ok(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._note(result)
        quiet = self._is_quiet(result._task) and Collector.active and "module_stderr" not in result._result
        if quiet:
            self._warn(result)
        else:
            super().v2_runner_on_failed(result, ignore_errors)
        if not ignore_errors and not _is_rescued(result._task):
            self._print_failure(result, last_words.FAILS, quiet)

    def v2_runner_on_unreachable(self, result):
        self._note(result)
        quiet = self._is_quiet(result._task) and Collector.active
        if quiet:
            self._warn(result)
        else:
            super().v2_runner_on_unreachable(result)
        if not result._task.ignore_unreachable:
            self._print_failure(result, last_words.UNREACHABLE, quiet)

    def _print_failure(self, result, what, quiet):
        """Print a failure, unless the default output did or the last words explain it. A run that is killed has no last words."""
        host, why = result._host.get_name(), last_words.reason(result._result)
        if quiet and (host in last_words.explained() or last_words.words_in(result._result)):
            return
        if quiet:
            self._say([last_words.failure_line(host, what, why, Collector.printed)], last_words.COLOURS[last_words.FAILED])
        if self._display.verbosity == 0:
            Collector.printed[host] = why

    def v2_runner_on_skipped(self, result):
        self._note(result)
        if self._is_quiet(result._task):
            self._warn(result)
        else:
            super().v2_runner_on_skipped(result)

    def _note(self, result):
        task, host = result._task, result._host.get_name()
        action = task.resolved_action or task.action
        self._run.end_host(host, progress.outcomes_in(action, host, result._result))
        if action == PLAN and result._result.get("hosts_in") is not None:
            self._run.rollout.set_plan(result._result)

    def _warn(self, result):
        """Print warnings and deprecations, as the default output does beside a result. Ansible 2.19 takes the result from elsewhere."""
        self._handle_warnings(result._result)

    def v2_on_file_diff(self, result):
        self._differs = result._host.get_name() if self._is_quiet(result._task) else ""
        super().v2_on_file_diff(result)

    def _get_diff(self, difflist):
        """Return the difference below the name of its host. The default output prints a line with the host after the difference, but a quiet run does
        not."""
        text = super()._get_diff(difflist)
        return f"{self._differs}:\n{text}" if self._differs and text else text

    # -- details that a quiet run does not print -------------------------------------------------------------------

    def v2_runner_item_on_ok(self, result):
        if self._is_quiet(result._task):
            self._warn(result)
        else:
            super().v2_runner_item_on_ok(result)

    def v2_runner_item_on_failed(self, result):
        if self._is_quiet(result._task) and Collector.active:
            self._warn(result)
        else:
            super().v2_runner_item_on_failed(result)

    def v2_runner_item_on_skipped(self, result):
        if not self._is_quiet(result._task):
            super().v2_runner_item_on_skipped(result)

    def v2_runner_retry(self, result):
        if not self._is_quiet(result._task):
            super().v2_runner_retry(result)

    def v2_playbook_on_include(self, included_file):
        if not self._is_quiet(included_file._task):
            super().v2_playbook_on_include(included_file)

    # -- the end -----------------------------------------------------------------------------------------------------

    def v2_playbook_on_stats(self, stats):
        self._say(self._run.end(time.monotonic()))
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._recap or self._display.verbosity or not Collector.active:
            super().v2_playbook_on_stats(stats)


def _is_rescued(task):
    """Return whether a rescue handles a failure of this task: a block around it has a rescue, and the task is not in the block's rescue or always
    part."""
    below, parent = {task._uuid}, task._parent
    while parent is not None:
        handlers = (*getattr(parent, "rescue", ()), *getattr(parent, "always", ()))
        if getattr(parent, "rescue", ()) and not any(task_below._uuid in below for task_below in handlers):
            return True
        below.add(parent._uuid)
        parent = parent._parent
    return False


def _rewrites():
    """Return whether to rewrite the last line of the screen: only if a person sees it, and if no prompt of --step appears in between."""
    plain = any(os.environ.get(name) for name in PLAIN) or os.environ.get("TERM") == "dumb" or context.CLIARGS.get("step")
    return sys.stdout.isatty() and not plain
