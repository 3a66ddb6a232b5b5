# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
from pathlib import Path

import documentation
import pytest
from decisions import RUNTIME, absent, converged, params, seen

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._compat import checks, issues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._compat.checks import Facts, check
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import runtime_toml
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.decision import decide
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.journal import entry_after_write
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import shrink
from tests.pages import known_traps

ROOT = Path(__file__).resolve().parents[3]
GPU = {"gpu_kinds": ["NVIDIA-GPU"]}
VRAM = {"discrete_kinds": ["VRAM"], "memory_kinds": ["VRAM"]}
SSD = {"discrete_kinds": ["SSD"]}

# facts -> the ids of the findings
FOUND = {
    "the newest of all": (dict(GPU, engine="29.10.0", toolkit="1.20.0", leader="29.10.0"), []),
    "the last before 29": (dict(GPU, engine="28.5.2"), []),
    "names, first": (dict(GPU, engine="29.0.0"), ["names-lost-with-a-connection"]),
    "names, last": (dict(GPU, engine="29.7.2"), ["names-lost-with-a-connection"]),
    "names, corrected": (dict(GPU, engine="29.7.3"), []),
    "names, where no GPU is advertised": ({"engine": "29.7.2"}, []),
    "pulls, before": (dict(GPU, engine="29.5.3"), ["names-lost-with-a-connection"]),
    "pulls, first": (dict(GPU, engine="29.6.0"), ["unauthorized-pull-rejects", "names-lost-with-a-connection"]),
    "pulls, last, of memory alone": (
        {"gpus": True, "engine": "29.6.2~debian"}, ["unauthorized-pull-rejects", "names-lost-with-a-connection"],
    ),
    "pulls, corrected": (dict(GPU, engine="29.7.0"), ["names-lost-with-a-connection"]),
    "nothing advertised": ({"engine": "20.10.24", "toolkit": "1.18.0", "leader": "20.10.24"}, []),
    "no versions known": (GPU, []),
    "jit-cdi": (dict(GPU, toolkit="1.18.0"), ["jit-cdi-ignores-swarm-resource"]),
    "jit-cdi, last": (dict(GPU, toolkit="1.18.2"), ["jit-cdi-ignores-swarm-resource"]),
    "after jit-cdi": (dict(GPU, toolkit="1.19.0"), []),
    "before jit-cdi": (dict(GPU, toolkit="1.17.8"), []),
    "jit-cdi without named kinds": (dict(SSD, toolkit="1.18.1"), []),
    "the kind GPU": ({"gpu_kinds": ["GPU"], "toolkit": "1.19.1"}, ["kind-gpu-line-is-dropped"]),
    "the kind gpu": ({"gpu_kinds": ["gpu"], "toolkit": "1.19.0"}, ["kind-gpu-line-is-dropped"]),
    "the kind GPU, kept": ({"gpu_kinds": ["GPU"], "toolkit": "1.20.0"}, []),
    "the kind GPU beside another": ({"gpu_kinds": ["GPU", "T4"], "toolkit": "1.19.1"}, []),
    "memory": (dict(VRAM, engine="26.1.5+dfsg1"), ["memory-gives-no-device"]),
    "named on Debian 12": (dict(GPU, engine="20.10.24+dfsg1"), ["named-tasks-rejected"]),
    "named, last": (dict(GPU, engine="23.0.1"), ["named-tasks-rejected"]),
    "named, fixed": (dict(GPU, engine="23.0.2-ce"), []),
    "discrete, first": (dict(SSD, engine="23.0.2"), ["discrete-tasks-rejected"]),
    "discrete, last": (dict(SSD, engine="25.0.2"), ["discrete-tasks-rejected"]),
    "discrete, fixed": (dict(SSD, engine="25.0.3"), []),
    "discrete, before": (dict(SSD, engine="20.10.24"), []),
    "old leader": (dict(GPU, leader="20.10.24+dfsg1"), ["old-leader-evicts-gpu-tasks"]),
    "middle leader": (dict(GPU, leader="24.0.7", **SSD), ["old-leader-evicts-discrete-tasks"]),
}


@pytest.mark.parametrize(("facts", "ids"), FOUND.values(), ids=FOUND)
def test_facts_lead_to_these_findings(facts, ids):
    assert [finding.id for finding in check(Facts(**facts))] == ids


def test_a_finding_names_version_consequence_remedy_and_reference():
    (finding,) = check(Facts(engine="24.0.7", **SSD))
    for words in ("Docker Engine 24.0.7", "rejected", "25.0.3 or newer", "swarmkit#3162", "accept_risks: [discrete-tasks-rejected]"):
        assert words in finding.text


def test_a_refusal_is_lowered_by_its_name_and_no_other():
    facts = Facts(engine="24.0.7", toolkit="1.19.1", gpu_kinds=["GPU"], **SSD)
    assert [one["id"] for one in checks.refused(check(facts))] == ["kind-gpu-line-is-dropped", "discrete-tasks-rejected"]
    lowered = check(facts, ["discrete-tasks-rejected"])
    assert [one["id"] for one in checks.refused(lowered)] == ["kind-gpu-line-is-dropped"]
    (warning,) = checks.warnings(lowered)
    assert "rejected" in warning
    assert "accept_risks" not in warning


@pytest.mark.parametrize("accepted", ["all", "live-restore", "memory-gives-no-device", ""])
def test_other_checks_cannot_be_accepted(accepted):
    with pytest.raises(GpuSwarmError, match="accept_risks: .* cannot be accepted; use only: kind-gpu"):
        check(Facts(), [accepted])


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("20.10.24+dfsg1", (20, 10, 24)),
        ("23.0.2-ce", (23, 0, 2)),
        ("v1.20.0", (1, 20, 0)),
        ("27.0", (27, 0, 0)),
        ("dev", None),
        ("", None),
        (None, None),
    ],
)
def test_versions_are_compared_by_number(text, version):
    assert checks.parse_version(text) == version


# --- on a node ------------------------------------------------------------------------------------------------------

RULES_OF = {"gpu": [{"as": "gpu", "kind": "GPU"}], "vram": [{"as": "vram", "select": {"index": [0]}}]}


def on_engine(version, **options):
    found = seen()
    return decide(params(**options), found._replace(engine=dict(found.engine, version=version)))


def test_refusals_and_warnings_of_a_node():
    made = decide(params(advertise=RULES_OF["gpu"]), seen(toolkit="1.19.1"))
    assert [one["id"] for one in made.refused] == ["kind-gpu-line-is-dropped"]
    made = decide(params(advertise=RULES_OF["gpu"], accept_risks=["kind-gpu-line-is-dropped"]), seen(toolkit="1.19.1"))
    assert made.refused == []
    assert "built-in default" in made.warnings[-1]
    assert [one["id"] for one in on_engine("25.0.2", advertise=RULES_OF["vram"]).refused] == ["discrete-tasks-rejected"]
    assert [one["id"] for one in on_engine("25.0.2", extra_resources=["NVME=1"]).refused] == ["discrete-tasks-rejected"]
    old = on_engine("20.10.24+dfsg1")
    assert (old.refused, len(old.warnings)) == ([], 1)
    assert "no longer meets constraints" in old.warnings[0]


def test_deprovisioning_is_never_refused():
    assert absent(**dict(converged(), toolkit="1.18.0")).refused == []


def test_legacy_mode_is_set_for_the_toolkits_that_need_it():
    made = decide(params(), seen(toolkit="1.18.1"))
    assert runtime_toml.read_lines(made.writes[RUNTIME]) == {"swarm_resource": "DOCKER_RESOURCE_NVIDIA-GPU", "mode": "legacy"}
    assert made.inserted[RUNTIME] == {"swarm_resource": "DOCKER_RESOURCE_NVIDIA-GPU", "mode": "legacy"}
    assert 'config.toml has mode = "auto" in [nvidia-container-runtime]: The default mode (jit-cdi) ignores swarm-resource' in made.warnings[-1]


def test_legacy_mode_ends_with_the_toolkit_that_needs_it():
    finished = converged()
    before = finished["toml"]
    original = finished["record"][RUNTIME]["original"]
    made = decide(params(), seen(**dict(finished, toolkit="1.18.1")))
    finished["toml"] = made.writes[RUNTIME]
    finished["record"][RUNTIME] = entry_after_write(
        Snapshot(RUNTIME, before, 0o644, 0, 0), made.inserted[RUNTIME], made.writes[RUNTIME], finished["record"][RUNTIME]
    )
    assert finished["record"][RUNTIME]["original"] == original
    assert decide(params(), seen(**dict(finished, toolkit="1.18.2"))).writes == {}
    assert runtime_toml.read_lines(decide(params(), seen(**finished)).writes[RUNTIME])["mode"] == "auto"
    by_hand = dict(finished, toml=finished["toml"].replace(b'"legacy"', b'"cdi"'))
    assert decide(params(), seen(**by_hand)).writes == {}
    assert absent(**finished).writes[RUNTIME] == Snapshot.from_json(original).data


# --- the table ------------------------------------------------------------------------------------------------------


def test_names_are_unique():
    names = [trap.id for trap in known_traps.ALL]
    assert len(names) == len(set(names))


def test_the_table_on_the_nodes_has_what_code_reads():
    named = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "plugins").rglob("*.py")) if path.name != Path(issues.__file__).name)
    assert [trap.id for trap in issues.TRAPS if not trap.when and f'"{trap.id}"' not in named] == []
    sent = {trap.id for trap in issues.TRAPS}
    assert [trap.id for trap in known_traps.ALL if trap.when and trap.id not in sent] == []
    assert sent < {trap.id for trap in known_traps.ALL}  # and the page shows what is sent


@pytest.mark.parametrize("trap", known_traps.ALL, ids=lambda trap: trap.id)
def test_each_row_is_complete_and_its_proof_exists(trap):
    assert all([trap.affected, trap.wrong, trap.reference, trap.remedy])
    assert trap.answer in (issues.HANDLED, issues.WARNING, issues.REFUSAL, issues.DOCUMENTED)
    assert trap.when is None or trap.when in checks._CONDITIONS
    assert trap.versions is None or (trap.when and trap.versions[0] < trap.versions[1])
    path, found, name = trap.proof.partition("::")
    if not found:
        assert (trap.proof, trap.answer) == ("cited", issues.DOCUMENTED)
        return
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_a_refusal_for_fewer_gpus_is_in_the_table():
    assert [trap.answer for trap in known_traps.ALL if trap.id == shrink.ID] == [issues.REFUSAL]


def test_the_module_documents_the_names_that_can_be_accepted():
    option = documentation.options("gpu_node")["accept_risks"]
    assert option["choices"] == list(checks.ACCEPTABLE)
