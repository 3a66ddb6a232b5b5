# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run refuses settings in config.toml that conflict with the advertised GPUs, and names them. A mode that the user chose is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from decisions import RUNTIME, converged, params, seen
from node_lab import gpu

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._compat import checks, runtime_config
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._compat.checks import Facts, check
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._config import runtime_toml
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._files import Snapshot
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.decision import decide
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node.journal import entry_after_write
from tests.lab.toolkit.lab_toolkit import config
from tests.pages import toolkit_keys

DATA = Path(__file__).parents[1] / "data" / "toml"
ORIN, THOR = dict(gpu(0), name="Orin (nvgpu)"), dict(gpu(1), name="NVIDIA Thor")


def node(toml, toolkit="1.20.0", accepted=(), **other):
    content = toml if isinstance(toml, bytes) else toml.encode()
    return decide(params(accept_risks=list(accepted)), seen(toml=content, toolkit=toolkit, **other))


def ids(made):
    return [one["id"] for one in made.refused]


def mode(value):
    return f'[nvidia-container-runtime]\nmode = "{value}"\n'


@pytest.mark.parametrize(
    ("name", "toolkit", "trap", "words"),
    [
        ("unprivileged", "1.20.0", "variables-not-accepted", "accept-nvidia-visible-devices-envvar-when-unprivileged = false"),
        ("unprivileged", "1.17.8", "variables-not-accepted", "no task gets a GPU"),
        ("jetpack", "1.18.1", "mode-ignores-swarm-resource", 'mode = "csv" in [nvidia-container-runtime]'),
        ("jetpack", "1.14.6", "mode-ignores-swarm-resource", "1.19.0 or newer (nvidia_container_toolkit_version)"),
    ],
)
def test_a_complete_config_toml_of_a_user_is_refused_by_setting(name, toolkit, trap, words):
    """The error names the file, the value and the remedy. The user can accept the risk by its name."""
    content = (DATA / f"{name}.toml").read_bytes()
    made = node(content, toolkit)
    assert ids(made) == [trap]
    text = made.refused[0]["text"]
    for part in (words, RUNTIME, f"accept_risks: [{trap}]"):
        assert part in text
    accepted = node(content, toolkit, [trap])
    assert accepted.refused == []
    assert any(words in warning for warning in accepted.warnings)
    assert runtime_toml.read_lines(accepted.writes[RUNTIME])["mode"] == runtime_toml.read_lines(content)["mode"]


def test_jetpacks_mode_works_with_a_toolkit_that_reads_swarm_resource():
    made = node((DATA / "jetpack.toml").read_bytes(), "1.19.0")
    assert (ids(made), runtime_toml.read_lines(made.writes[RUNTIME])["mode"]) == ([], "csv")


@pytest.mark.parametrize("toolkit", ["1.13.5", "1.14.6", "1.17.8", "1.18.0", "1.18.2", "1.19.0", "1.20.0"])
@pytest.mark.parametrize("chosen", ["cdi", "csv", "legacy"])
def test_a_mode_that_the_user_chose_is_never_replaced(chosen, toolkit):
    made = node(mode(chosen), toolkit)
    old = tuple(map(int, toolkit.split("."))) < (1, 19)
    assert ids(made) == (["mode-ignores-swarm-resource"] if old and chosen != "legacy" else [])
    assert runtime_toml.read_lines(made.writes[RUNTIME])["mode"] == chosen
    assert not any("jit-cdi" in warning for warning in made.warnings)


@pytest.mark.parametrize(
    ("toml", "words"), [(mode("auto"), 'has mode = "auto" in'), (mode("jit-cdi"), 'has mode = "jit-cdi" in'), ("", "has no mode: ")]
)
def test_a_mode_that_legacy_replaces_is_named_and_restored(toml, words):
    made = node(toml, "1.18.1")
    assert (ids(made), runtime_toml.read_lines(made.writes[RUNTIME])["mode"]) == ([], "legacy")
    assert any(words in warning and "ignores swarm-resource" in warning for warning in made.warnings)
    before = Snapshot(RUNTIME, toml.encode(), 0o644, 0, 0)
    record = {RUNTIME: entry_after_write(before, made.inserted[RUNTIME], made.writes[RUNTIME], None)}
    again = node(made.writes[RUNTIME], "1.18.2", record=record)
    assert (RUNTIME in again.writes, any(words in warning for warning in again.warnings)) == (False, True)
    later = node(made.writes[RUNTIME], "1.20.0", record=record)
    assert runtime_toml.read_lines(later.writes[RUNTIME])["mode"] == (runtime_toml.read_lines(toml.encode())["mode"] or "auto")


def test_a_mode_replaced_by_an_older_version_returns_if_the_risk_is_accepted():
    """Releases up to 0.2 replaced every mode by legacy."""
    was, now = mode("csv").encode(), b'swarm-resource = "DOCKER_RESOURCE_NVIDIA-GPU"\n' + mode("legacy").encode()
    inserted = {"swarm_resource": "DOCKER_RESOURCE_NVIDIA-GPU", "mode": "legacy"}
    record = {RUNTIME: entry_after_write(Snapshot(RUNTIME, was, 0o644, 0, 0), inserted, now, None)}
    made = node(now, "1.18.1", record=record)
    assert (ids(made), 'mode = "csv"' in made.refused[0]["text"]) == (["mode-ignores-swarm-resource"], True)
    accepted = node(now, "1.18.1", ["mode-ignores-swarm-resource"], record=record)
    assert runtime_toml.read_lines(accepted.writes[RUNTIME])["mode"] == "csv"
    assert runtime_toml.read_lines(node(now, "1.20.0", record=record).writes[RUNTIME])["mode"] == "csv"


@pytest.mark.parametrize(
    ("toolkit", "gpus", "found"),
    [
        ("1.18.1", [ORIN], ["mode-ignores-swarm-resource"]),
        ("1.17.8", [ORIN, THOR], ["mode-ignores-swarm-resource"]),
        ("1.18.1", [ORIN, gpu(1)], []),
        ("1.17.8", [gpu(0)], []),
        ("1.19.0", [ORIN], []),
    ],
)
def test_auto_is_csv_on_a_jetson(toolkit, gpus, found):
    made = node(mode("auto"), toolkit, gpus=gpus)
    assert ids(made) == found
    assert runtime_toml.read_lines(made.writes[RUNTIME])["mode"] == ("legacy" if toolkit == "1.18.1" and not found else "auto")


@pytest.mark.parametrize("toml", [mode("Legacy"), mode(""), mode("experimental"), '[nvidia-container-cli]\nldconfig = "/sbin/ldconfig"\n'])
def test_settings_that_stop_nvidias_runtime_are_refused(toml):
    assert ids(node(toml)) == ["config-toml-refused"]


@pytest.mark.parametrize(
    ("toml", "toolkit"),
    [
        ('[nvidia-container-cli]\nldconfig = "/sbin/ldconfig"\n', "1.17.2"),
        ('[nvidia-container-cli]\nldconfig = "/sbin/ldconfig"\n[features]\nallow-ldconfig-from-container = true\n', "1.20.0"),
        ('[nvidia-container-cli]\nldconfig = "@/sbin/ldconfig.real"\n', "1.20.0"),
        ("[another-tools]\nmode = 1\n", "1.20.0"),
        ("swarm-resource = 1\n", "1.20.0"),
    ],
)
def test_settings_that_nvidias_runtime_accepts_are_not_refused(toml, toolkit):
    assert ids(node(toml, toolkit)) == []


def test_a_setting_counts_from_its_version_on():
    ldconfig = '[nvidia-container-cli]\nldconfig = "/sbin/ldconfig"\n'
    assert [ids(node(ldconfig, toolkit)) for toolkit in ("1.17.2", "1.17.3")] == [[], ["config-toml-refused"]]
    modes = [runtime_toml.read_lines(node(mode("auto"), toolkit).writes[RUNTIME])["mode"] for toolkit in ("1.17.8", "1.18.0", "1.19.0")]
    assert modes == ["auto", "legacy", "auto"]


def test_jit_cdi_is_no_mode_before_1_18():
    assert ids(node(mode("jit-cdi"), "1.17.8")) == ["mode-ignores-swarm-resource"]


@pytest.mark.parametrize("name", [*runtime_config.TEXTS, *runtime_config.BOOLS, *runtime_config.LISTS])
def test_a_key_with_a_value_of_the_wrong_type_is_refused(name):
    for value in (1, None):
        (finding,) = check(Facts(gpus=True, toolkit="1.20.0", values={name: value}))
        assert finding.id == "config-toml-refused"
        assert f"where NVIDIA's tools expect {'true or false' if name in runtime_config.BOOLS else 'a'}" in finding.text
    table, _dot, key = name.rpartition(".")
    assert ids(node(f"{f'[{table}]' if table else ''}\n{key} = 1979-05-27\n")) == ["config-toml-refused"]


NO_CGROUPS = "[nvidia-container-cli]\nno-cgroups = true\n"
CAPABILITIES = 'supported-driver-capabilities = "%s"\n'


@pytest.mark.parametrize(
    ("toml", "trap"),
    [
        (NO_CGROUPS, "no-cgroups"),
        (NO_CGROUPS.replace("true", "false"), None),
        ("nvidia-container-cli = {no-cgroups = true}\n", "no-cgroups"),
        (CAPABILITIES % "utility", "capabilities-not-supported"),
        (CAPABILITIES % "", "capabilities-not-supported"),
        (CAPABILITIES % "compute,utility,gpu", "capabilities-not-supported"),
        (CAPABILITIES % "utility, compute", None),
        (CAPABILITIES % "all", None),
    ],
)
def test_settings_that_only_legacy_mode_reads(toml, trap):
    found = [trap] if trap else []
    assert ids(node(toml + mode("legacy"), "1.20.0")) == found
    assert [ids(node(toml, version)) for version in ("1.17.8", "1.18.1", "1.20.0")] == [found, found, []]  # auto, legacy, legacy, jit-cdi
    assert ids(node(toml + mode("cdi"), "1.20.0")) == []


def test_hooks_that_a_container_needs():
    toml = '[nvidia-container-runtime.modes.jit-cdi]\nnvcdi-disable-hooks = ["chmod", "update-ldcache"]\n'
    (warning,) = [one for one in node(toml).warnings if "hooks-disabled" in one]
    assert "nvcdi-disable-hooks without update-ldcache" in warning
    assert not any("hooks-disabled" in one for one in node(toml.replace("update-ldcache", "enable-cuda-compat")).warnings)


def test_a_node_without_gpus_for_tasks_is_not_checked():
    assert decide(params(advertise=[{"as": "none"}], extra_resources=["SSD=1"]), seen(toml=(DATA / "unprivileged.toml").read_bytes())).refused == []


def test_the_shipped_file_is_accepted_with_each_version():
    finished = converged()
    for version in ("1.13.5", "1.14.6", "1.17.8", "1.18.2", "1.19.1", "1.20.0"):
        for toml in (finished["toml"], config.render(config.load(Path("/nonexistent")), version, set()).encode()):
            assert ids(node(toml, version)) == [], version


# --- the table of all keys --------------------------------------------------------------------------------------------


def test_every_known_key_has_a_decision():
    keys = {*runtime_config.TEXTS, *runtime_config.BOOLS, *runtime_config.LISTS, "swarm-resource"}
    assert {one.key for one in toolkit_keys.KEYS} == keys
    assert len(toolkit_keys.KEYS) == len(keys)
    assert {name for name in toolkit_keys.shipped() if name not in keys} == set()
    assert {one.trap for one in toolkit_keys.KEYS if one.trap} <= set(checks.BY_ID) | {"no-reservation-sees-all", "swarm-resource-mismatch"}
