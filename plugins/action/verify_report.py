# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.plugins.action import ActionBase

from ..plugin_utils._fleet import identity
from ..plugin_utils._fleet.inventory import current_answer
from ..plugin_utils._report import last_words, terminal, verify
from ..plugin_utils._report.fold import paragraphs
from ..plugin_utils._report.table import render
from ..plugin_utils._rollout.manager_updates import ASSESSED, node_id_of


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "hosts": {"type": "list", "elements": "str", "required": True},
                "ledger": {"type": "dict", "required": True},
                "tested": {"type": "dict", "required": True},
            }
        )
        nodes = {node["id"]: node for node in args["ledger"].get("nodes") or []}
        assessed = _assessed(task_vars, args["hosts"])
        ids = {name: node_id_of({ASSESSED: answer}) for name, answer in assessed.items()}
        mistaken = identity.problems(ids, nodes)
        swarm = verify.SwarmResult(args["tested"], (args["ledger"].get("swarm") or {}).get("isolation"))
        rows, problems = [], {}
        for name, node_id in ids.items():
            found = verify.host_result(assessed[name], nodes.get(node_id), node_id, swarm, mistaken.get(name))
            rows.extend(verify.rows(name, found))
            if found.wrong:
                problems[name] = found.wrong
        used = verify.images({node_id: name for name, node_id in ids.items() if node_id}, args["tested"])
        untested = {} if self._task.check_mode else verify.untested(ids, args["tested"])
        below = [verify.summary(args["hosts"], problems, args["tested"]), *used, *verify.enforcement(assessed)]
        width = terminal.width(self._display.columns)
        text = f"{render(verify.HEADINGS, rows, width)}\n\n{paragraphs(below, width)}"
        line = verify.outcome(args["hosts"], problems, untested)
        last_words.say(result, last_words.LastWords(last_words.verdict_of(untested, problems), line, text, hosts=list(problems)))
        result.update(changed=False, problems=problems, rows=rows, waiting=list(untested))
        return result


def _assessed(task_vars, names):
    alive = set(task_vars["ansible_play_hosts"])
    return {name: current_answer(task_vars["hostvars"].raw_get(name).get(ASSESSED), name in alive) for name in names}
