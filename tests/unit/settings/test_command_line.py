# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which variables of a command line are misspelt short names, and which variables belong to the user."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleError
from host_vars import GROUPS, HostVars

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.check import as_message, check
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.command_line import CommandLine, misspelt_errors
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.roles import declared_settings

SETTINGS = declared_settings(["gpu_stack"])
SHORT = {
    "job": "gpu_job_file", "job_name": "gpu_job_name", "state": "gpu_job_state", "wait": "gpu_job_wait", "wait_timeout": "gpu_job_wait_timeout",
    "log_directory": "gpu_job_log_directory", "again": "gpu_job_again", "stack": "gpu_stack_name", "compose": "gpu_stack_compose",
    "service": "status_service", "plan": "status_plan", "what": "status_what", "output": "status_output", "owner_label": "status_owner_label",
    "older_than": "prune_jobs_older_than", "keep_last": "prune_jobs_keep_last", "labels": "prune_jobs_labels", "timer": "prune_jobs_timer",
    "failed": "prune_jobs_failed", "bundle": "bundle_directory", "machines": "bundle_machines", "python": "bundle_python",
    "ledger": "preflight_ledger",
}  # fmt: skip
MISSPELT = {
    "an additional letter": {"jobb": "job", "jobs": "job", "services": "service"},
    "a missing letter": {"stat": "state", "servce": "service", "label": "labels", "ser_vice": "service"},
    "another letter": {"servise": "service", "stste": "state", "wain": "wait", "pyton3": None, "kompose": "compose"},
    "two swapped letters": {"wiat": "wait", "owner_lable": "owner_label", "sevrice": "service"},
    "another spelling": {"older-than": "older_than", "Job": "job", "keepLast": "keep_last", "logdirectory": "log_directory"},
    "the end of a setting": {"stack_name": "stack", "stack_compose": "compose", "job_file": "job", "job_again": "again", "plan_file": "plan"},
}
OWN = [
    *SHORT, *SETTINGS, "stage", "time", "region", "env", "user", "site", "host", "hosts", "target", "team", "name", "file", "version", "image",
    "tags", "timeout", "status", "started", "planet", "awx_job", "tower_job", "awx_state", "_job", "ansible_job", "job_owner", "servers",
    "workers", "states_of",
]  # fmt: skip


def found(variables, hosts=()):
    return list(misspelt_errors(CommandLine(variables, SHORT), SETTINGS, hosts))


@pytest.mark.parametrize("case", MISSPELT)
def test_a_misspelt_name_is_found_with_a_suggestion(case):
    for name, meant in MISSPELT[case].items():
        wanted = [f"{name} is not a variable of this playbook. Did you mean {meant}? Rename it if it is a variable of your own."] if meant else []
        assert found({name: "x"}) == wanted


@pytest.mark.parametrize("name", OWN)
def test_a_variable_of_the_user_is_allowed(name):
    assert found({name: "x"}) == []


def test_a_variable_in_a_template_of_the_inventory_belongs_to_the_user():
    assert found({"jobs": 4}, [{}, {"gpu_owner": {"x": ["{{ jobs }}"]}}]) == []
    assert found({"jobs": 4}, [{"jobs": 4, "motd": "no jobs here", "other": "{{ jobs_of }}", "more": {"jobs": ["{{ x }}", "jobs"]}}]) != []


def test_each_of_several_names_is_searched_in_the_variables_of_all_hosts():
    hosts = [{"a": "{{ services }}"}, {"b": "{{ jobs }}"}]
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars(dict(zip(("g1", "both"), hosts, strict=True)))}
    line = CommandLine({"jobs": 1, "services": 2}, SHORT)
    assert check(task_vars, ["g1", "both"], lambda value: value, ["gpu_stack"], line).run == []
    assert found(line.variables, hosts) == []


def test_a_variable_in_a_template_at_import_playbook_belongs_to_the_user():
    play = {"gpu_stack_name": "{{ stack_name }}", "of_mine": "{{ jobs }}", "_gpu_swarm_of_its_own": "{{ services }}"}
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars({"g1": {}}), **play}
    line = CommandLine({"stack_name": "x", "jobs": 1, "services": 2}, SHORT)
    assert [text.split()[0] for text in check(task_vars, ["g1"], lambda _value: "x", ["gpu_stack"], line).run] == ["services"]


def test_a_name_that_is_no_text_belongs_to_the_user():
    assert found({1: "x", "jobb": "x"}) == found({"jobb": "x"})
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars({"g1": {1: "x", "env": "y"}})}
    assert check(task_vars, ["g1"], str, [], CommandLine({1: "x"}, {})).run == []


def test_a_short_name_with_a_template_that_cannot_be_evaluated_is_one_error_of_several():
    def template(_value):
        raise AnsibleError("'nope' is undefined")

    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars({"g1": {"provision_wait": "soon"}})}
    text = as_message(check(task_vars, ["g1"], template, ["gpu_stack"], CommandLine({"what": "{{ nope }}", "servise": "x"}, SHORT)))
    wanted = ("what is '{{ nope }}', which cannot be evaluated: 'nope' is undefined.", "servise is not a variable", "provision_wait is 'soon',")
    assert [part for part in wanted if part not in text] == []


def test_given_short_names_are_found():
    assert CommandLine({"wait": 1, "region": "eu"}, SHORT).used_short_names() == {"wait": "gpu_job_wait"}


def test_each_value_of_a_short_name_is_checked_with_the_rest():
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars({"g1": {"provision_wait": "soon"}})}
    line = CommandLine({"what": "fre", "output": "{{ form }}", "wait": "perhaps"}, {"what": "status_what", "output": "status_output"})
    text = as_message(check(task_vars, ["g1"], lambda _value: "xml", [], line))
    assert [part for part in ("what is 'fre',", "output is 'xml',", "provision_wait is 'soon',") if part not in text] == []
    assert "perhaps" not in text  # this playbook has no setting wait
