# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.dedicated import describe, keep_off_commands, warnings


def one(service="web", mode="replicated", nodes=("g1",), dedicated=True, command=True):
    named = f"docker service update … {service}" if command else None
    return {"service": service, "mode": mode, "tasks": len(nodes), "nodes": [*nodes], "dedicated": dedicated, "command": named}


EVERYWHERE = one("exporter", "global", command=False)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], ""),
        ([one(nodes=("g1", "g2"))], "without a reservation on nodes with GPUs: web (g1, g2)"),
        ([EVERYWHERE], "without a reservation on nodes with GPUs: global: exporter"),
        ([EVERYWHERE, one()], "without a reservation on nodes with GPUs: web (g1); global: exporter"),
    ],
)
def test_services_on_dedicated_nodes_are_listed(found, words):
    assert describe(found) == words


def test_commands_are_shown_for_dedicated_nodes():
    assert keep_off_commands([one("a"), one("b", dedicated=False), EVERYWHERE]) == ["docker service update … a"]


def test_a_run_that_dedicates_nodes_shows_each_command():
    (text,) = warnings(True, {"on_gpu_nodes": [one(), one("cron", dedicated=False), EVERYWHERE]})
    assert text == (
        "gpu_swarm_dedicated: without a reservation on nodes with GPUs: web (g1), cron (g1). They stay there until you keep them off: "
        "docker service update … web; docker service update … cron."
    )


def test_the_first_of_many_are_named():
    (text,) = warnings(True, {"on_gpu_nodes": [one(f"s{number}") for number in range(7)]})
    assert text.endswith("docker service update … s4. The playbook status lists 2 more.")


@pytest.mark.parametrize(
    ("dedicated", "ledger"), [(False, {"on_gpu_nodes": [one()]}), (True, None), (True, {}), (True, {"on_gpu_nodes": [EVERYWHERE]})]
)
def test_otherwise_nothing_is_reported(dedicated, ledger):
    assert warnings(dedicated, ledger) == []
