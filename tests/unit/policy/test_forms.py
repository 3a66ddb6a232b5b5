# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A form of advertising is one object. All code that depends on forms, and the documentation, read this object."""

from __future__ import annotations

import re
from pathlib import Path

import documentation
import pytest
import yaml
from node_lab import DAEMON_JSON, UUIDS, gpu, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import guard
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import advertise
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.forms import DEFAULT_RULES, FORMS, Form, Option, check_kind, kind_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.generic_resources import AMOUNT
from ansible_collections.fleet.gpu_swarm.plugins.modules import gpu_node

DOCUMENTED = documentation.options("gpu_node")["advertise"]
README = Path(__file__).resolve().parents[3] / "roles" / "gpu_node" / "README.md"
ROLE = README.parent / "meta" / "argument_specs.yml"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)


@pytest.fixture
def slots(monkeypatch):
    """Return a form that exists only in the registry. Each GPU gets its own kind, with the GPU's index in its name."""

    def advertise(rule, gpus, shares):
        for one in gpus:
            if one["health"]["state"] == "failed":
                shares.exclude(one, "it failed")
            else:
                shares.add(one, f"{rule['kind']}-{one['index']}", one["uuid"])

    made = Form(
        name="slot",
        text="slots",
        options={"kind": Option("str", check_kind), "width": Option("int", lambda value, where: None)},
        default_kind="SLOT",
        kinds=lambda rule: [],
        family=lambda rule: re.escape(kind_of(rule)) + r"-\d+",
        amounts=False,
        stands_for=None,
        check=lambda rule, where: None,
        check_together=lambda rules, kind_of: None,
        takes=lambda one: True,
        advertise=advertise,
    )
    monkeypatch.setitem(FORMS, made.name, made)
    return [{"as": "slot", "kind": "BAY", "select": {"index": 0}}]


@pytest.fixture
def units(monkeypatch):
    """Return another form. Its values are not devices, like the values of a group."""
    made = FORMS["group"]._replace(name="unit", text="units", default_kind="NVIDIA-UNIT")
    monkeypatch.setitem(FORMS, made.name, made)
    return [{"as": "unit", "size": 2, "by": "pcie"}]


def argument_spec(monkeypatch):
    """Return the argument spec that the module passes to Ansible."""

    class Seen(Exception):
        pass

    def module(argument_spec, **_other):
        raise Seen(argument_spec)

    monkeypatch.setattr(gpu_node, "AnsibleModule", module)
    with pytest.raises(Seen) as seen:
        gpu_node.main()
    return seen.value.args[0]["advertise"]


def test_a_new_form_is_accepted(monkeypatch, slots):
    spec = argument_spec(monkeypatch)
    assert spec["options"]["as"]["choices"][-1] == "slot"
    assert spec["options"]["width"] == {"type": "int"}
    advertise.check_rules([{"as": "slot", "width": 2}])
    with pytest.raises(GpuSwarmError, match="a rule with as=slot does not know sum; use only: as, select, kind, width"):
        advertise.check_rules([{"as": "slot", "sum": True}])
    with pytest.raises(GpuSwarmError, match="use one of: gpu, model, vram, slots, group, mig, none, slot"):
        advertise.check_rules([{"as": "bays"}])


@pytest.mark.parametrize("other", [{"as": "gpu"}, {"as": "group", "size": 2}], ids=["gpu", "group"])
def test_the_kind_of_values_that_are_no_devices_belongs_to_no_other_form(units, other):
    advertise.check_rules([*units, other])
    shared = [dict(units[0], kind="X"), dict(other, kind="X")]
    for rules in (shared, shared[::-1]):
        with pytest.raises(GpuSwarmError, match="the kind X is groups of GPUs in one rule and something else in another"):
            advertise.check_rules(rules)


def test_values_that_are_no_devices_get_a_guard_at_level_off(tmp_path, monkeypatch, units):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-container-runtime").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "nvidia-container-runtime").chmod(0o755)
    monkeypatch.setattr(guard, "SBIN", str(tmp_path / "bin"))
    it = node(tmp_path / "node", advertise=units, isolation="off")
    links = {"topology": {UUIDS[0]: "single", UUIDS[1]: "single"}}
    it.gpus = [gpu(0, pci_bus_id="00000000:C1:00.0", links=links), gpu(1, pci_bus_id="00000000:C2:00.0", links=links)]
    it.converge()
    assert it.shown() == [f"NVIDIA-UNIT={UUIDS[0]}+{UUIDS[1]}", "SSD=1"]
    assert it.doc()["runtimes"]["nvidia"]["path"].endswith("/nvidia-guard")


def test_a_new_form_is_advertised_and_deprovisioned(tmp_path, slots):
    it = node(tmp_path, advertise=slots)
    before = it.everything()
    assert it.converge()["restarted"]
    assert it.shown() == [f"BAY-0={UUIDS[0]}", "SSD=1"]
    assert b'swarm-resource = "DOCKER_RESOURCE_BAY-0"' in it.content("runtime_config")
    assert not it.converge()["changed"]
    it.option(state="absent").converge()
    assert (it.everything(), it.shown()) == (before, ["SSD=1"])


@pytest.mark.parametrize("gone", [[], [gpu(0, state="failed")]], ids=["gone", "failed"])
def test_the_kinds_of_a_new_form_stay_after_its_last_gpu_died(tmp_path, slots, gone):
    # A person or another installation wrote the entry. No record names the writer.
    it = node(tmp_path, daemon=DAEMON_JSON.replace(b'"SSD=1"', f'"SSD=1", "BAY-0={UUIDS[0]}"'.encode()), advertise=slots)
    it.gpus = gone
    assert it.shown() == [f"BAY-0={UUIDS[0]}", "SSD=1"]
    assert [one["id"] for one in it.assess()["refused"]] == ["shrink"]
    with pytest.raises(GpuSwarmError, match=f"less than before.*{UUIDS[0]}"):
        it.converge()
    it.option(allow_shrink=True).converge()
    assert it.shown() == ["SSD=1"]


def made_by(form):
    """Return a rule of the form, and the decision for three cards: two cards with a common switch, and a card in MIG mode."""
    needed = {"kinds": {"*": "NVIDIA-H100"}, "slots": 2, "size": 2, "by": "pcie"}
    rule = {"as": form.name, **{name: value for name, value in needed.items() if name in form.options}}
    links = {"topology": {UUIDS[0]: "single", UUIDS[1]: "single"}}
    cards = [gpu(0, pci_bus_id="00000000:C1:00.0", links=links), gpu(1, pci_bus_id="00000000:C2:00.0", links=links)]
    device = {"uuid": UUIDS[0].replace("GPU-", "MIG-"), "profile": "1g.10gb"}
    cards.append(gpu(2, mig={"mode": "enabled"}, mig_devices=[device]))
    return rule, advertise.decide(cards, [rule])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_form_says_whether_its_values_are_devices(form):
    _rule, made = made_by(form)
    assert {kind for kind, values in made["map"].items() if AMOUNT not in values} == (set(made["kinds"]) if form.stands_for else set())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_kinds_stay_with_the_rule_after_its_last_gpu_died(form):
    """The kinds of a form still belong to the rule if no GPU is left."""
    rule, made = made_by(form)
    present = {kind: ["x"] if kind in made["gpu_kinds"] else 1 for kind in made["kinds"]}
    assert bool(made["kinds"]) == (form.name != "none")
    assert set(advertise.decide([], [rule], (), present)["owned_kinds"]) >= set(made["kinds"])


# --- documentation ----------------------------------------------------------------------------------------------------


def test_the_documentation_of_the_module_names_each_form():
    options = DOCUMENTED["suboptions"]
    assert options["as"]["choices"] == list(FORMS)
    assert len(options["as"]["description"]) == len(FORMS)
    for line, form in zip(options["as"]["description"], FORMS.values(), strict=True):
        assert re.match(rf"With V\({form.name}\), {re.escape(form.text)}[.,]", line)
    assert DOCUMENTED["default"] == list(DEFAULT_RULES)
    takes = {name: option for form in FORMS.values() for name, option in form.options.items()}
    assert set(options) == {"as", "select", *takes}
    assert {name: options[name]["type"] for name in takes} == {name: option.type for name, option in takes.items()}


@pytest.mark.parametrize("name", [name for name in DOCUMENTED["suboptions"] if name not in ("as", "select")])
def test_each_option_names_the_forms_that_use_it(name):
    text = str(DOCUMENTED["suboptions"][name]["description"])
    forms = [form for form in FORMS.values() if name in form.options]
    for form in forms:
        kind = rf"V\({form.default_kind}\) with " if name == "kind" else "With "
        assert re.search(rf"{kind}O\(advertise\[\]\.as={form.name}\)", text)


def test_the_documentation_of_the_role_names_each_form():
    text = README.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `as: (\w+)` \| (?:`([^`=]*)=\S*`)? ?\| ([^|]*) \|$", text, re.MULTILINE)
    assert [name for name, _kind, _text in rows] == list(FORMS)
    for name, kind, text in rows:
        assert text.startswith(FORMS[name].text)
        assert kind.startswith(FORMS[name].default_kind or "")
    role = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
    assert role["gpu_node_advertise"]["default"] == list(DEFAULT_RULES)
