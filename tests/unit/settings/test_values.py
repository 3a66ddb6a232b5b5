# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings that a plan reads. Playbooks read settings only from the plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from host_vars import GROUPS, HostVars

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.declaration import PLAYBOOKS
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.roles import declared_settings
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.validation import convert
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.values import FOR_RUN, FOR_TASKS, offered_devices, run_settings, values

CHECKOUT = Path(__file__).parents[3]
DECLARED = declared_settings()


def read(variables, templated=None, play=None, template=None, wanted=FOR_TASKS):
    first = next(iter(variables))
    task_vars = {**variables[first], **(play or {}), "inventory_hostname": first, "groups": GROUPS, "hostvars": HostVars(variables, templated)}
    return values(task_vars, list(variables), wanted, template or (lambda value: value)), task_vars


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("provision_wait", 5, 5),
        ("provision_wait", "5", 5),
        ("provision_wait", " 5 ", 5),
        ("provision_wait", 5.0, 5),
        ("provision_wait", "5.0", 5),
        ("provision_wait", 0, 0),
        ("provision_wait", None, 300),
        ("provision_wait", "5m", 300),
        ("provision_wait", [5], 300),
        ("provision_wait", "inf", 300),
        ("maintain_reboot", "yes", True),
        ("maintain_reboot", "false", False),
        ("maintain_reboot", "perhaps", False),
        ("deprovision_leave", "no", False),
        ("deprovision_leave", None, True),
        ("provision_disrupt", "all", "all"),
        ("provision_batch", [1, "25%"], [1, "25%"]),
        ("provision_batch", "", None),
        ("provision_allow_pending", True, True),
        ("provision_lease", None, None),
        ("provision_lease", "60", 60),
        ("provision_ignore_pending", "one, two", ["one", "two"]),
        ("provision_ignore_pending", ["one"], ["one"]),
        ("nvidia_container_toolkit_hold", "", None),
        ("nvidia_container_toolkit_hold", "yes", True),
    ],
)
def test_a_value_has_the_declared_type_of_its_setting(name, written, value):
    found = convert(DECLARED[name], written)
    assert (found, type(found)) == (value, type(value))


def test_an_unset_setting_has_its_declared_default():
    found, _task_vars = read({"g1": {}})
    assert found == {"g1": {name: DECLARED[name].default for name in FOR_TASKS}}
    assert not {None} & set(found["g1"].values())


def test_each_host_has_its_own_values():
    found, _task_vars = read({"g1": {"provision_wait": "5"}, "g2": {"provision_wait": 7, "maintain_reboot": "yes"}, "g3": {}})
    assert [(one["provision_wait"], one["maintain_reboot"]) for one in found.values()] == [(5, False), (7, True), (300, False)]


def test_variables_of_the_play_count_for_all_hosts():
    found, _task_vars = read({"g1": {"provision_wait": 5}, "g2": {}}, play={"provision_wait": "{{ wait }}"}, template=lambda value: "9")
    assert [one["provision_wait"] for one in found.values()] == [9, 9]


def test_only_templates_are_templated_also_in_lists():
    variables = {"g1": {"provision_batch": ["{{ one }}", 2], "provision_max_failed": 2, "motd": "{{ nothing }}"}}
    found, task_vars = read(variables, {"g1": {"provision_batch": [1, 2]}}, wanted=("provision_batch", "provision_max_failed"))
    assert found == {"g1": {"provision_batch": [1, 2], "provision_max_failed": 2}}
    assert task_vars["hostvars"].queried == ["g1"]


def test_a_broken_template_on_one_host_does_not_affect_others():
    class Broken(HostVars):
        def __getitem__(self, name):
            raise AnsibleError("'wait' is undefined")

    task_vars = {"inventory_hostname": "g1", "hostvars": Broken({"g1": {"provision_wait": "{{ wait }}"}, "g2": {"provision_wait": 5}})}
    found = values(task_vars, ["g1", "g2"], ["provision_wait"], lambda value: value)
    assert found == {"g1": {"provision_wait": 300}, "g2": {"provision_wait": 5}}


def offered(variables, templated=None, play=None):
    first = next(iter(variables))
    task_vars = {**variables[first], **(play or {}), "inventory_hostname": first, "groups": GROUPS, "hostvars": HostVars(variables, templated)}
    return offered_devices(task_vars, lambda value: value)


def test_devices_are_those_of_all_hosts_together():
    of_all = {"fuse": ["/dev/fuse"]}
    own = {"fuse": ["/dev/fuse", "/dev/fuse2"], "capture": ["/dev/video*"]}
    assert offered({"m1": {}, "g1": {}, "g2": {}}) == {}
    assert offered({"m1": {"gpu_swarm_devices": of_all}, "g1": {"gpu_swarm_devices": own}, "g2": {"gpu_swarm_devices": ""}}) == own
    assert offered({"m1": {}, "g1": {"gpu_swarm_devices": own}}) == own  # of the group of the GPU nodes alone
    assert offered({"m1": {}, "g1": {"gpu_swarm_devices": {"fuse": "{{ paths }}"}}}, {"g1": {"gpu_swarm_devices": of_all}}) == of_all
    assert offered({"m1": {"gpu_swarm_devices": {7: ["/dev/a7"]}}}) == {"7": ["/dev/a7"]}  # YAML reads such a name as a number
    # preflight runs on localhost without an inventory, and gets the setting with -e.
    assert offered({"localhost": {"gpu_swarm_devices": of_all}}) == of_all
    assert offered({"m1": {}, "g1": {"gpu_swarm_devices": own}}, play={"gpu_swarm_devices": of_all}) == of_all


def test_wrong_devices_of_a_host_are_an_error_with_its_name():
    with pytest.raises(GpuSwarmError, match=r"^g1: gpu_swarm_devices\.fuse\[0\] is '/etc/passwd', but must be an absolute path below /dev"):
        offered({"m1": {}, "g1": {"gpu_swarm_devices": {"fuse": ["/etc/passwd"]}}})


def test_settings_of_the_whole_run_are_read():
    same = {"provision_max_failed": "2", "provision_take_lease": "yes"}
    task_vars = {"inventory_hostname": "g1", "hostvars": HostVars({"g1": same, "m1": same})}
    assert run_settings(task_vars, ["g1", "m1"], lambda value: value) == {
        "gpu_swarm_isolation": None,
        "gpu_swarm_dedicated": False,
        "gpu_swarm_queues": None,
        "gpu_swarm_record": True,
        "gpu_swarm_page": False,
        "gpu_swarm_grafana_url": "",
        "provision_keep_label": "gpu-swarm.keep",
        "provision_batch": None,
        "provision_max_failed": 2,
        "provision_lease": None,
        "provision_take_lease": True,
        "provision_allow_pending": None,
        "provision_ignore_pending": None,
        "provision_remove_finished_jobs": False,
        "provision_note_run": False,
    }


# --- the playbooks ------------------------------------------------------------------------------------------------------

YAML = sorted(CHECKOUT.glob("playbooks/**/*.yml"))
# These settings are needed without a plan: the files of the user, the external managers, and the link on the page of status.
BEFORE_THE_PLAN = {"maintain_tasks", "status_plan", "swarm_manager_docker_host", "swarm_manager_docker_tls", "gpu_swarm_grafana_url"}


def code(path):
    """Return the file without comments."""
    return re.sub(r"(?m)(^|\s)#.*$", "", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_tasks_read_settings_only_from_the_plan(path):
    names = {setting.name for setting in PLAYBOOKS} - BEFORE_THE_PLAN
    expressions = re.findall(r"(?s:\{\{.*?\}\})|^ *(?:when|until|that):.*(?:\n *- .*)*", code(path), re.MULTILINE)
    texts = [re.sub(r"'[^']*'", "", one) for one in expressions]
    assert [one for one in texts for name in names if re.search(rf"(?<!settings\.)\b{name}\b", one)] == []


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_no_task_contains_a_default_of_a_setting(path):
    names = "|".join(DECLARED)
    assert re.findall(rf"\b(?:{names}) \| default\((?!omit\b|none\b|''|'not set'|\[\]|(?:{names})\b)[^)]*\)", code(path)) == []


def test_tasks_use_every_setting_that_the_plan_passes_on():
    text = "".join(map(code, YAML))
    assert set(re.findall(r"steps\[inventory_hostname\]\.settings\.(\w+)", text)) == set(FOR_TASKS)
    assert set(re.findall(r"gpu_swarm_plan\.settings\.(\w+)", text)) <= set(FOR_RUN)  # the plan itself uses the other settings
