# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever the code refuses has a row in docs/TROUBLESHOOTING.md, or a reason why it needs none."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import messages, refusals

PAGE = Path(__file__).resolve().parents[2] / "docs" / "TROUBLESHOOTING.md"
# What stands under these headings is a state, or Docker's own word: no error.
OTHERS = (messages.DOCKERS, messages.ISSUES, "States")
ROWS = [message for heading, message in messages.quoted(PAGE.read_text(encoding="utf-8")) if heading not in OTHERS]


@functools.cache
def found():
    """Read by the worker that has the test for it, and not by each that collects it."""
    return refusals.of_plugins() + refusals.of_tasks()


@functools.cache
def without_row():
    return refusals.uncovered(found(), ROWS)


# The end of a message about something that somebody wrote: what to write instead.
VERBS = "Add|Begin|Close|Drop|Fix|Give|Have|Indent|List|Mount|Name|Publish|Put|Remove|Rename|Save|Take|Use|Write|give|make|say|use|write"
TO_WRITE = rf"[.,:;…] ({VERBS})\b|[Ii]t takes"
WHAT_IT_IS_NOT = r" is (not|neither|none|negative)\b| takes (either )?'| mixes "


class Allowed(NamedTuple):
    """What has no row of its own. ``row`` is the one of the page that stands for all of them, or within which the text is printed."""

    files: str
    text: str
    row: str
    reason: str


ALLOWED = [
    Allowed(
        r"/(_stack|_classes)/|_controller/job_file\.py|_jobs/(definition|mounts)\.py",
        rf"{TO_WRITE}|, and (is 0 or more|… at most)",
        "… is …, and has to be …",
        "a value in the user's own file: the message begins with its place, and ends with what to write there",
    ),
    Allowed(
        r"_policy/(forms|generic_resources|groups|labels|rules|selection)\.py",
        f"{TO_WRITE}|{WHAT_IT_IS_NOT}",
        "advertise: …",
        "a value in a rule: the message names the rule, the key, the value and what may stand there",
    ),
    Allowed(
        r"^filter/|_node_spec/updates\.py|_swarm/(lease|owned_labels)\.py|_verify/(images|plan)\.py|_jobs/(finished|prune)\.py"
        r"|_controller/manager_api\.py|_plan/(batches|toolkit)\.py|tasks/version\.yml",
        rf"^(labels of node|[a-z_]+|…)( …)?(?=:| is| needs).*({TO_WRITE}|, and is 0 or more|one of|It has to be)",
        "labels of node …",
        "a value of an option, with which the message begins; it ends with what to give",
    ),
    Allowed(r"_node/running\.py|_dockerd/unit\.py", r"^(it|its|systemd) ", "… is not as wanted after … s: …", "stands at the end of that message"),
    Allowed(
        r"_policy/allocation\.py", r"UUID|its memory is divided already", "GPU … is not advertised: …", "stands at the end of that message"
    ),
    Allowed(r"_plan/reservations\.py", r" would ", "services would have no place under the new policy", "stands within that message"),
    Allowed(
        r"_fleet/advertised\.py",
        r"^advertises …, and",
        "… A member keeps the address with which it joined: have it leave and join again",
        "stands at the beginning of that warning",
    ),
    Allowed(r"signing_key\.py|_openpgp\.py", r"^it is ", "… is not taken for the repository's key: …", "stands at the end of that message"),
    Allowed(
        r"modules/swarm_member\.py", r"^no manager can be reached$", "… reaches no manager of the swarm: nothing answered at …", "becomes that one"
    ),
    Allowed(r"_jobs/finished\.py", r"^it is no job$", "it is no job: swarm starts its tasks again", "the same, of a global service"),
    Allowed(
        r"_node_spec/held_back\.py",
        r"^it is not ready$|^finished job … would run again$",
        "finished job …, which would run again",
        "why a module leaves a node for now; a run goes on waiting, and prints what the plan says of it",
    ),
    Allowed(r"_controller/answer\.py", r"^… is not what it should be$", "what came back is no answer of this module (…)", "stands in its brackets"),
    Allowed(
        r"modules/gpu_node\.py",
        r"^…: …\. …, and run this again\.$",
        "this needs root on the node, and the task runs as user id …",
        "a file that cannot be read or written: its path, the system's reason, and become where that is missing",
    ),
    Allowed(
        r"modules/repository_(key|packages)\.py",
        r"^(content|definition) ",
        "labels of node …",
        "an option that the role gives: who calls the module alone reads which one",
    ),
    Allowed(r"_gpu/nvml\.py", r"^NVML: …", "NVML: …", "a row of a single word does not count by itself"),
    Allowed(r"action/swarm_job\.py", r"^… Run this again without 'again'", "The job … was submitted, and it is not known how far it is", "its end"),
    Allowed(
        r"_node_spec/updates\.py",
        r"^Node … \(…\): …|^… Nothing was changed\.$",
        "The manager at … would not …: …",
        "what a manager refused, for one node",
    ),
    Allowed(r"tasks/seek\.yml", r"cannot get version", "apt cannot get version … of the NVIDIA Container Toolkit", "of any package manager"),
    Allowed(
        r"tasks/repository_key\.yml", r"^…: …\. … The package sources", "cannot fetch the repository's key from …", "that message, with what helps"
    ),
    Allowed(
        r"verify/tasks/assess\.yml", r"^… Name one that does", "The manager … could not be queried about the swarm: …", "the answer of a manager"
    ),
]


def is_allowed(one):
    return [rule for rule in ALLOWED if re.search(rule.files, one.where) and re.search(rule.text, one.text)]


def unexplained(texts, rows=ROWS):
    return [one for one in refusals.uncovered(texts, rows) if not is_allowed(one)]


def test_each_refusal_of_the_code_has_a_row():
    assert len(found()) > 350
    assert unexplained(found()) == []


def test_the_rooms_of_nodes_and_plans_are_read():
    for room in ("_node/", "_dockerd/", "_config/", "_policy/", "_plan/", "_fleet/"):
        assert len([one for one in found() if room in one.where]) > 2, room


@pytest.mark.parametrize("rule", ALLOWED, ids=lambda rule: f"{rule.files} {rule.text}"[:60])
def test_each_exception_is_needed_and_leads_to_a_row(rule):
    assert rule.row in ROWS
    assert rule.reason
    assert any(rule in is_allowed(one) for one in without_row())


def test_without_its_row_a_refusal_is_found():
    row = "cannot note the change before it is made: …"
    assert [one.where.partition(":")[0] for one in unexplained(found(), [one for one in ROWS if one != row])] == ["module_utils/_node/transaction.py"]


NEW = "the flux of %s is inverted, and nothing was changed. Call the vendor."


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("module_utils/_node/new.py", f"raise GpuSwarmError({NEW!r} % path)"),
        ("module_utils/_dockerd/new.py", f"raise EngineError({NEW!r} % path)"),
        ("module_utils/_policy/rules.py", f"raise PolicyError({NEW!r} % path)"),
        ("plugin_utils/_stack/gpus.py", "raise GpuSwarmError(f'the flux of {path} is inverted, and nothing was changed.')"),
        ("module_utils/_config/new.py", f"wrong = {NEW!r} % path\n    raise GpuSwarmError(wrong)"),
        ("module_utils/_config/new.py", f"raise self._wrong(path)\n\ndef _wrong(self, path):\n    return ConfigError({NEW!r} % path)"),
        ("modules/new.py", f"module.fail_json(msg=mask({NEW!r} % path))"),
        ("action/new.py", f"return {{'failed': True, 'msg': {NEW!r} % path}}"),
        ("action/new.py", f"result.update(failed=True, msg=TEXTS[key] % path)\n\nTEXTS = {{'a': {NEW!r}}}"),
        ("plugin_utils/_plan/new.py", f"return {NEW!r} % path if path else None"),
        ("plugin_utils/_fleet/new.py", f"return TEXT % path\n\nTEXT = {NEW!r}"),
    ],
)
def test_a_new_refusal_is_found(where, code):
    new = list(
        refusals.refusals(
            ast.parse(f"def f(path) -> str | None:\n    {code}\n"), where, {"GpuSwarmError", "ConfigError", "EngineError", "PolicyError"}
        )
    )
    assert [one.text[:27] for one in unexplained(new)] == ["the flux of … is inverted, "]


def test_each_alternative_of_a_message_counts():
    code = 'raise GpuSwarmError(("one way to say it" if x else "or another way") + f", {x}: " + "%d of {}".format(x) % 3)'
    assert [one.text for one in refusals.refusals(ast.parse(code), "a.py")] == ["one way to say it, …: … of …", "or another way, …: … of …"]


def test_what_is_caught_in_the_code_or_passed_on_is_none():
    code = "raise ValueError('it is of no use to anybody here')\nraise GpuSwarmError(str(problem))\nraise\n"
    assert list(refusals.refusals(ast.parse(code), "module_utils/_node/new.py")) == []


def test_a_row_of_one_word_covers_nothing():
    one = refusals.Refusal("a.py:1", "it is out of order")
    assert refusals.uncovered([one], ["out", "… is …"]) == [one]
    assert refusals.uncovered([one], ["it is out …"]) == []
