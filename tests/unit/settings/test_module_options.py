# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.module_options import explained

FAILED = {"failed": True, "msg": "argument 'x' is of type <class 'str'> and we were unable to convert to int"}
WRONG = [
    ({"advertise": "gpu"}, "advertise (role: gpu_node_advertise) is 'gpu', and has to be a list of mappings. Set it so, or leave it out for"),
    ({"advertise": ["gpu"]}, "advertise (role: gpu_node_advertise) is ['gpu'], and has to be a list of mappings"),
    ({"expect": "many"}, "expect (role: gpu_node_expect) is 'many', and has to be a whole number of GPUs, 0 or more. Set it so, or leave it out"),
    ({"timeout": "long", "allow_shrink": "sure"}, "timeout (role: gpu_node_timeout) is 'long'"),
    ({"timeout": "long", "allow_shrink": "sure"}, "allow_shrink (role: gpu_node_allow_shrink) is 'sure', and has to be true or false"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_an_option_of_a_wrong_type_is_named_with_its_variable(options, words):
    assert words in explained(FAILED, "gpu_node", options)["msg"]


def test_a_value_outside_of_the_choices_is_named_with_its_variable():
    failed = {"failed": True, "msg": "value of isolation must be one of: off, audit, reserved, exclusive, got: strict"}
    text = explained(failed, "gpu_node", {"isolation": "strict", "state": "gathered"})["msg"]
    assert text.startswith("isolation (role: gpu_node_isolation) is 'strict', and has to be off, audit, reserved or exclusive.")


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        (FAILED, {"state": "gathered", "advertise": [{"as": "gpu"}], "expect": "0", "docker_socket": "/x", "library_path": "/y"}),
        (FAILED, {"state": "gone"}),  # it failed over something else
        ({"changed": False}, {"expect": "many"}),
    ],
)
def test_any_other_answer_stays_as_it_is(answer, options):
    assert explained(answer, "gpu_node", options) == answer
