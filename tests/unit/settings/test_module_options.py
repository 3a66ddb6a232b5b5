# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.module_options import explain_option_errors

FAILED = {"failed": True, "msg": "argument 'x' is of type <class 'str'> and we were unable to convert to int"}
WRONG = [
    ({"advertise": "gpu"}, "advertise (role: gpu_node_advertise) is 'gpu', but must be a list of mappings. Correct it, or remove it to use"),
    ({"advertise": ["gpu"]}, "advertise (role: gpu_node_advertise) is ['gpu'], but must be a list of mappings"),
    ({"expect": "many"}, "expect (role: gpu_node_expect) is 'many', but must be a whole number of GPUs, 0 or more. Correct it, or remove it"),
    ({"timeout": "long", "allow_shrink": "sure"}, "timeout (role: gpu_node_timeout) is 'long'"),
    ({"timeout": 0}, "timeout (role: gpu_node_timeout) is 0, but must be a whole number, 1 or more. Correct it, or remove it to use the default"),
    ({"timeout": "long", "allow_shrink": "sure"}, "allow_shrink (role: gpu_node_allow_shrink) is 'sure', but must be true or false"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_an_option_of_a_wrong_type_is_named_with_its_variable(options, words):
    assert words in explain_option_errors(FAILED, "gpu_node", options)["msg"]


def test_a_value_outside_of_the_choices_is_named_with_its_variable():
    failed = {"failed": True, "msg": "value of isolation must be one of: off, audit, reserved, exclusive, got: strict"}
    text = explain_option_errors(failed, "gpu_node", {"isolation": "strict", "state": "gathered"})["msg"]
    assert text.startswith("isolation (role: gpu_node_isolation) is 'strict', but must be off, audit, reserved or exclusive.")


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        (FAILED, {"state": "gathered", "advertise": [{"as": "gpu"}], "expect": "0", "docker_socket": "/x", "library_path": "/y"}),
        (FAILED, {"state": "gone"}),  # the module failed for another reason
        ({"changed": False}, {"expect": "many"}),
    ],
)
def test_any_other_answer_stays_unchanged(answer, options):
    assert explain_option_errors(answer, "gpu_node", options) == answer
