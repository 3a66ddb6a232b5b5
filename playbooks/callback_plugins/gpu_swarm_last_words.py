# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prints how a run of this collection went, after Ansible's recap, and sets the exit status.

Ansible has no exit status between success and failure. This callback adds two statuses. 75 means "try again later" (EX_TEMPFAIL of sysexits.h),
because some nodes still wait for work to end. 2 means that no task failed, but the run found something wrong.

At the end of a run, Ansible calls its callbacks one after the other. If one of them ended the process, the callbacks after it, such as junit,
would be skipped. So this callback prints and exits after all of them, when Ansible cleans up.
"""

from __future__ import annotations

import functools
import os
import sys

from ansible import constants
from ansible.executor.task_queue_manager import TaskQueueManager
from ansible.plugins.callback import CallbackBase

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import last_words

DOCUMENTATION = r"""
name: gpu_swarm_last_words
type: aggregate
short_description: Prints how a run went, and sets its exit status
description:
  - Prints the outcome of a run after Ansible's recap.
  - Ends ansible-playbook with exit status 75 if nothing failed and some nodes wait for work to end.
  - Ends ansible-playbook with exit status 2 if no task failed and some hosts are still not as they should be.
"""

STATUSES = {last_words.DONE: 0, last_words.WAITING: os.EX_TEMPFAIL, last_words.FAILED: 2}  # 2 is also Ansible's status if hosts failed
# call_manager may run one of these actions on a manager. If it runs another module, it removes the module's last words from the result.
ACTIONS = {f"fleet.gpu_swarm.{name}" for name in (*last_words.ACTIONS, "call_manager")}
# Programs read the output of these stdout callbacks. They find the last words in the results of tasks.
FOR_PROGRAMS = ("json", "jsonl")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpu_swarm_last_words"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self):
        super().__init__()
        self._reasons, self._ended = {}, False
        last_words.Collector.active = True
        TaskQueueManager.cleanup = _with_last_words(TaskQueueManager.cleanup, self._end)

    def v2_runner_on_ok(self, result):
        if (result._task.resolved_action or result._task.action) in ACTIONS:
            last_words.Collector.words += last_words.words_in(result._result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.v2_runner_on_ok(result)
        if not ignore_errors:
            self._reasons[result._host.get_name()] = last_words.reason(result._result)

    def v2_runner_on_unreachable(self, result):
        self._reasons[result._host.get_name()] = last_words.reason(result._result)

    def _end(self, stats):
        """Print the last words, once. Return the exit status, or None if Ansible's exit status applies."""
        if self._ended:
            return None
        self._ended = True
        words_of_actions = last_words.Collector.words
        failed, unreachable = (self._reasons_of({*names} - last_words.explained()) for names in (stats.failures, stats.dark))
        others = last_words.words_about_failures(failed, unreachable, not words_of_actions, last_words.Collector.printed)
        if constants.DEFAULT_STDOUT_CALLBACK.rpartition(".")[2] not in FOR_PROGRAMS:
            for words in [*words_of_actions, *([others] if others else [])]:
                last_words.show(words)
        return None if stats.failures or stats.dark else STATUSES[last_words.worst(words.verdict for words in words_of_actions)]

    def _reasons_of(self, names):
        return {name: self._reasons.get(name, "no reason given") for name in sorted(names)}


def _with_last_words(cleanup, end):
    """Wraps TaskQueueManager.cleanup. PlaybookExecutor calls it after all callbacks (lib/ansible/executor/playbook_executor.py).

    PlaybookExecutor also calls it after Ctrl-C or an error of Ansible. In this case, the wrapper prints the present last words, and Ansible sets the
    exit status.
    """

    @functools.wraps(cleanup)
    def wrapper(manager, *args, **kwargs):
        cleanup(manager, *args, **kwargs)
        raised = sys.exc_info()[0] is not None
        status = end(manager._stats)
        if status and not raised:
            manager._loader.cleanup_all_tmp_files()  # PlaybookExecutor would do this after the cleanup
            raise SystemExit(status)

    return wrapper
