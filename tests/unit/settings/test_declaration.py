# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from host_vars import GROUPS, HostVars

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.inventory import SETTINGS, hosts_of
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.check import ROLES, CachedHostvars, as_message, check
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.declaration import FACTS, PLAYBOOKS, PREFIXES
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.names import Names, misspelt_groups
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.roles import settings_of_roles
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._settings.validation import convert, value_error

CHECKOUT = Path(__file__).parents[3]
DECLARED = {setting.name: setting for setting in [*PLAYBOOKS, *settings_of_roles([*ROLES, "verify", "gpu_stack"])]}

RIGHT = [
    ("provision_wait", [0, 300, "300", 2.0]),
    ("provision_disrupt", ["never", "services", "all"]),
    ("provision_batch", [2, "25%", [1, "10%"], None, "", []]),
    ("provision_allow_pending", [True, "yes", ["train", "web"], "train,web", [], None]),
    ("maintain_id", ["driver-570", "2026/11_a.b", 7, ""]),
    ("provision_max_failed", [1, "3"]),
    ("provision_take_lease", [True, "yes", "false", 0]),
    ("deprovision_leave", [False, "no"]),
    ("maintain_tasks", ["driver.yml"]),
    ("swarm_manager_docker_tls", [{"tls": True}, None]),
    ("gpu_node_advertise", [[], [{"as": "gpu", "kind": "GPU"}], [{"as": "slots", "slots": "4", "select": {"min_memory_mib": "1"}}]]),
    ("gpu_node_extra_resources", [[], ["SSD=1"], "SSD=1,FPGA=card-a", ""]),
    ("gpu_node_accept_risks", [[], ""]),
    ("status_textfile", ["", "/var/lib/x"]),
    ("gpu_node_textfile", ["", "/var/lib/x"]),
    ("gpu_node_default_shm_size", ["", "1g", "512MiB"]),
    ("prune_jobs_older_than", ["24h", "90 s", "7D"]),
    ("bundle_python", ["", 3.12, "3.12"]),
    ("gpu_node_label_memory", [[16, "24"], "16,24"]),
    ("gpu_node_label_prefix", ["gpu.", "", "acme.gpu-", "x"]),
    ("gpu_node_restart", ["never"]),
    ("gpu_node_timeout", [1]),
    ("gpu_job_wait_timeout", [0]),
    ("gpu_swarm_isolation", ["audit", "off", False, "", None]),  # YAML reads "off" as False
    ("gpu_node_isolation", ["exclusive", False]),
    ("gpu_swarm_devices", [{}, "", None, {"rdma": ["/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"], "fuse": ["/dev/fuse"]}]),
    ("gpu_swarm_queues", [{}, "", None, {"research": {"weight": 3, "max": {"NVIDIA-GPU": 24}, "time_limit": "none"}, "nightly": None}]),
    ("gpu_node_expect", ["", 7, None, "7"]),
    ("nvidia_container_toolkit_hold", [True, "", None]),
    ("nvidia_container_toolkit_version", ["1.20.0", 1.2]),
    ("swarm_member_join_timeout", [60]),
    ("swarm_member_react_limit", [1, "20", 100]),
    ("gpu_swarm_record", [True, "no"]),
    ("gpu_swarm_grafana_url", ["", "https://grafana.example.org/d/gpus?var-node=g1", "http://10.0.0.5:3000"]),
]
WRONG = [
    ("provision_wait", "soon", "provision_wait is 'soon', but must be a whole number of seconds, 0 or more. Correct it, or remove it to use"),
    ("provision_wait", "soon", " the default (300)."),
    ("provision_wait", None, "provision_wait is empty, but"),
    ("provision_wait", "", "provision_wait is empty, but"),
    ("provision_wait", -1, "provision_wait is -1, but"),
    ("provision_wait", 2.5, "provision_wait is 2.5, but"),
    ("provision_wait", True, "provision_wait is true, but"),
    ("provision_wait", [300], "provision_wait is [300], but"),
    ("provision_wait", "5m", "provision_wait is '5m', but"),
    ("provision_wait", "{{ 5 }}", "provision_wait is '{{ 5 }}', but"),  # a template that is marked as unsafe is left over after templating
    ("provision_drain_timeout", "x", "provision_drain_timeout is 'x', but"),
    ("provision_batch", "abc", "provision_batch is 'abc', but must be a number, a share such as 25%, or a list of these. Correct it, or"),
    ("provision_batch", 0, "provision_batch is 0, but"),
    ("provision_batch", [2, "x%"], "provision_batch is [2, 'x%'], but"),
    ("provision_batch", True, "provision_batch is true, but"),
    ("provision_allow_pending", 5, "provision_allow_pending is 5, but must be a list of names, or true for all. "),
    ("provision_allow_pending", {}, "must be a list of names"),
    ("provision_allow_pending", [5], "must be a list of names"),
    ("maintain_id", "a b", "maintain_id is 'a b', but must be text of letters, digits, '.', '_', '/' and '-'. "),
    ("maintain_id", "a,b", "maintain_id is 'a,b', but"),
    ("maintain_id", ["a"], "maintain_id is ['a'], but"),
    ("provision_max_failed", 0, "must be a whole number of hosts, 1 or more"),
    ("provision_lease", "", "provision_lease is empty, but must be a whole number of seconds, 1 or more. "),
    ("provision_disrupt", "some", "provision_disrupt is 'some', but must be never, services or all. "),
    ("provision_disrupt", False, "provision_disrupt is false, but must be never"),  # YAML reads "off" as False
    ("provision_take_lease", "perhaps", "must be true or false"),
    ("deprovision_leave", "", "deprovision_leave is empty, but must be true or false"),
    ("maintain_tasks", ["a.yml"], "must be a path"),
    ("swarm_manager_docker_tls", "ca.pem", "must be a mapping"),
    ("gpu_node_advertise", "gpu", "gpu_node_advertise is 'gpu', but must be a list of mappings"),
    ("gpu_node_advertise", ["gpu"], "a list of mappings"),
    ("gpu_node_label_memory", ["large"], "a list of whole numbers"),
    ("gpu_node_label_prefix", "acme.com/gpu.", "gpu_node_label_prefix is 'acme.com/gpu.', but must be letters, digits, '.', '-' and '_', at"),
    ("gpu_node_label_prefix", "gpu-swarm.", "remove it to use the default ('gpu.')."),
    ("gpu_node_label_prefix", ["gpu."], "gpu_node_label_prefix is ['gpu.'], but"),
    ("gpu_node_label_cpu_prefix", "a b", "gpu_node_label_cpu_prefix is 'a b', but must be letters, digits"),
    ("gpu_swarm_isolation", "strict", "gpu_swarm_isolation is 'strict', but must be off, audit, reserved or exclusive"),
    ("gpu_swarm_devices", ["/dev/fuse"], "gpu_swarm_devices is ['/dev/fuse'], but must be a mapping of names to lists of paths. Correct it, or"),
    ("gpu_swarm_devices", {"RDMA": ["/dev/x"]}, "gpu_swarm_devices: 'RDMA' is not a valid name of devices. Use small letters, digits, '-' and '_'"),
    ("gpu_swarm_devices", {"fuse": "/dev/fuse"}, "gpu_swarm_devices.fuse is '/dev/fuse', but must be a list of paths. Write fuse: [/dev/fuse], or"),
    ("gpu_swarm_devices", {"a": ["/dev/fuse", "/dev/mem"]}, "gpu_swarm_devices.a[1] is /dev/mem, which no service is given, because it opens the"),
    ("gpu_swarm_devices", {"a": ["/dev/nvidia*"]}, "gpu_swarm_devices.a[0] is /dev/nvidia*, which is a GPU of NVIDIA. Swarm allocates GPUs: remove"),
    ("gpu_swarm_queues", ["research"], "gpu_swarm_queues is ['research'], but must be a mapping of names to options. Correct it, or remove it to"),
    ("gpu_swarm_queues", {"research": {"weigth": 3}}, "gpu_swarm_queues: the queue research has the option 'weigth'. The options are weight, max,"),
    ("gpu_swarm_queues", {date(2026, 1, 1): {}}, "gpu_swarm_queues has a key that is no text. Put the key in quotes."),
    ("gpu_swarm_queues", {"a": {"max": {"NVIDIA-GPU": "8"}}}, "gpu_swarm_queues: max.NVIDIA-GPU of the queue a is '8'. Write a whole number from 0"),
    ("gpu_node_isolation", True, "must be off, audit, reserved or exclusive"),
    ("gpu_node_restart", "always", "must be never or if_needed"),
    ("gpu_node_allow_shrink", "sure", "must be true or false"),
    ("swarm_member_join_timeout", "long", "swarm_member_join_timeout is 'long', but must be a whole number, 1 or more"),
    ("swarm_member_join_timeout", 0, "swarm_member_join_timeout is 0, but must be a whole number, 1 or more"),
    ("swarm_member_port_timeout", 0, "swarm_member_port_timeout is 0, but must be a whole number, 1 or more"),
    ("gpu_node_nvml_timeout", 0, "gpu_node_nvml_timeout is 0, but must be a whole number, 1 or more"),
    ("nvidia_container_toolkit_version", {"a": 1}, "must be text"),
    ("gpu_node_timeout", 0, "gpu_node_timeout is 0, but must be a whole number, 1 or more. Correct it, or remove it to use the default (120)."),
    ("swarm_member_react_limit", 0, "swarm_member_react_limit is 0, but must be a whole number, 1 to 100. Correct it, or remove it to use"),
    ("swarm_member_react_limit", "101", "must be a whole number, 1 to 100. "),
    ("gpu_swarm_page", "often", "gpu_swarm_page is 'often', but must be true or false"),
    ("gpu_swarm_grafana_url", "javascript:alert(1)", "must be an address that begins with http:// or https://"),
    ("gpu_swarm_grafana_url", 'https://x/"><script>', "must be an address that begins with http:// or https://"),
    ("gpu_node_label_memory", [-1, "a"], "a list of whole numbers"),
    ("gpu_node_advertise", [{"as": "gpus"}], "gpu_node_advertise[0].as: 'gpus' is not known; use one of: "),
    ("gpu_node_advertise", [{"as": "gpu", "slots": 2}], "gpu_node_advertise[0]: a rule with as=gpu does not know slots; use only: as, select, kind."),
    ("gpu_node_advertise", [{"as": "gpu"}, {"as": "slots", "slots": "many"}], "gpu_node_advertise[1].slots: 'many' is not "),
    ("gpu_node_advertise", [{"as": "gpu", "select": {"modell": "x"}}], "gpu_node_advertise[0].select: 'modell' is not known; use one of: "),
    ("gpu_node_advertise", ["{{ rule }}"], "gpu_node_advertise[0]: '{{ rule }}' is not a rule."),  # marked as unsafe
    ("gpu_node_extra_resources", ["SSD"], "gpu_node_extra_resources: "),
    ("gpu_node_accept_risks", ["all"], "gpu_node_accept_risks: 'all' cannot be accepted; use only: "),
    ("gpu_node_default_shm_size", 16, "gpu_node_default_shm_size is '16', but must be a size of 1m or more. Write it as 1g or 512m."),
    ("gpu_node_default_shm_size", "1.5g", "gpu_node_default_shm_size is '1.5g', but must be a size of 1m or more."),
    ("gpu_node_textfile", "metrics", "gpu_node_textfile is metrics, but must be an absolute path outside /tmp and /var/tmp."),
    ("gpu_node_textfile", "/tmp/x", "gpu_node_textfile is /tmp/x, but must be an absolute path outside /tmp and /var/tmp."),
    ("status_textfile", "metrics", "status_textfile is 'metrics', but must be an absolute path."),
    ("gpu_job_log_directory", "logs", "must be an absolute path."),
    ("prune_jobs_older_than", "a week", "must be an age such as 90s, 30m, 24h or 7d."),
    ("bundle_python", "three", "must be a version such as 3.12."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values"), RIGHT)
def test_valid_values_are_accepted(name, values):
    assert [value_error(DECLARED[name], value) for value in values] == [None] * len(values)


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_invalid_values_are_refused(name, value, words):
    assert words in value_error(DECLARED[name], value)


def test_a_secret_is_not_shown():
    class Vaulted:
        def __str__(self):
            return "s3cret"

    assert "s3cret" not in value_error(DECLARED["provision_wait"], Vaulted())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("nvidia_container_toolkit_repository", ["https://svc:s3cret@mirror/x"], "is ['https://svc:***@mirror/x'], but must be text"),
        ("nvidia_container_toolkit_repository", {"url": "x", "password": "s3cret"}, "is {'url': 'x', 'password': '***'}, but"),
        ("provision_wait", "http://svc:s3cret@proxy", "is 'http://svc:***@proxy', but"),
        ("gpu_node_label_memory", ["svc:s3cret@proxy"], "is ['svc:***@proxy'], but"),
        ("swarm_manager_docker_tls", "client_key: s3cret", "is a hidden value, but must be a mapping"),
        ("swarm_manager_docker_tls", ["s3cret"], "is a hidden value, but"),
    ],
)
def test_a_secret_in_a_text_is_not_shown(name, value, words):
    text = value_error(DECLARED[name], value)
    assert "s3cret" not in text
    assert words in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nvidia_container_toolkit_repository", "{{ base }}https://svc:s3cret@mirror/x"),
        ("swarm_manager_docker_tls", "{{ base | combine({'client_key': 's3cret'}) }}"),
    ],
)
def test_a_secret_in_a_broken_template_is_not_shown(name, value):
    def template(value):
        raise AnsibleError(f"'base' is undefined: {value if 'https' in value else ''}")

    (text,) = checked({"g1": {}}, play={name: value}, template=template)[0].run
    assert "s3cret" not in text
    assert "'base' is undefined" in text


# --- declarations ----------------------------------------------------------------------------------------------------


def test_every_setting_that_the_playbooks_use_is_declared():
    used = set()
    for path in [*CHECKOUT.glob("playbooks/**/*.yml"), *CHECKOUT.glob("roles/*/tasks/*.yml"), *CHECKOUT.glob("roles/*/vars/*.yml")]:
        used |= set(re.findall(rf"(?<![\w.])(?:{'|'.join(PREFIXES)})[a-z_]+", path.read_text()))
    modules = {path.stem for path in CHECKOUT.glob("plugins/*/*.py")}
    groups = {"swarm_managers"}
    assert {name for name in used if not name.endswith("_")} - set(DECLARED) - set(FACTS) - modules - groups - ROLE_NAMES == set()


ROLE_NAMES = {path.name for path in CHECKOUT.glob("roles/*")}


def test_settings_that_are_read_from_a_host_are_declared():
    assert set(SETTINGS) <= set(DECLARED)


def test_defaults_are_valid():
    assert [text for setting in DECLARED.values() if setting.default is not None and (text := value_error(setting, setting.default))] == []


# --- names --------------------------------------------------------------------------------------------------------------

NAMES = Names(DECLARED)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpu_node_advertize", "gpu_node_advertise"),
        ("gpu_node_advertis", "gpu_node_advertise"),
        ("gpu_node_adverties", "gpu_node_advertise"),
        ("gpu_node_advertisement", "gpu_node_advertise"),
        ("gpu_node_expected", "gpu_node_expect"),
        ("gpunode_advertise", "gpu_node_advertise"),
        ("gpu_nodes_advertise", "gpu_node_advertise"),
        ("provison_wait", "provision_wait"),
        ("Provision_wait", "provision_wait"),
        ("provision_max_fail", "provision_max_failed"),
        ("provision_drain_time", "provision_drain_timeout"),
        ("nvidia_container_toolkit_versions", "nvidia_container_toolkit_version"),
    ],
)
def test_a_misspelt_name_is_an_error(name, meant):
    assert NAMES.meant(name) == meant


@pytest.mark.parametrize(
    "name",
    [
        *DECLARED, *FACTS, "gpu_node_advertise_h100", "provision_user", "gpu_node_owner", "_gpu_node_advertise", "ansible_host",
        "swarm_managers", "wait", "deprovision_date", "provision_batch_of_the_night", "gpu_swarm_plan", "docker_version", "maintain_window_begin",
    ],
)  # fmt: skip
def test_right_and_unrelated_names_are_accepted(name):
    assert NAMES.meant(name) is None


# --- all hosts of a run -------------------------------------------------------------------------------------------------


def checked(variables, templated=None, play=None, template=None):
    first = next(iter(variables))
    hostvars = HostVars(variables, templated)
    task_vars = {**variables[first], **(play or {}), "inventory_hostname": first, "groups": GROUPS, "hostvars": hostvars}
    return check(task_vars, list(variables), template or (lambda value: value)), hostvars


def test_the_level_of_the_swarm_also_counts_for_hosts_outside_the_run():
    hostvars = HostVars({"g1": {"gpu_swarm_isolation": "audit", "provision_batch": 1}, "m1": {}})
    task_vars = {"gpu_swarm_isolation": "audit", "provision_batch": 1, "inventory_hostname": "g1", "groups": GROUPS, "hostvars": hostvars}
    found = check(task_vars, ["g1"], lambda value: value)
    only = "gpu_swarm_isolation applies to the whole run, but is 'audit' for g1, and not set for m1."
    assert [text.partition(" Set it")[0] for text in found.run] == [only]


# case -> (the groups of an inventory, the misspelt groups with a suggestion)
MISSPELT = {
    "the correct name": ({"swarm_managers": ["m1"], "gpu_nodes": ["g1"], "swarm_workers": ["w1"]}, []),
    "a group of the user": ({"gpu_nodes": ["g1"], "gpu": ["g2"], "gpu_node_pool": ["g2"], "workers": ["w1"], "swarm": ["w1"]}, []),
    "a missing letter": ({"swarm_managers": ["m1"], "gpu_node": ["g1"]}, [("gpu_node", "gpu_nodes")]),
    "beside the correct group": ({"gpu_nodes": ["g1"], "gpu_node": ["g1", "g2"]}, [("gpu_node", "gpu_nodes")]),
    "a missing underscore": ({"gpunodes": ["g1"]}, [("gpunodes", "gpu_nodes")]),
    "an additional letter": ({"swarm_workerss": ["w1"]}, [("swarm_workerss", "swarm_workers")]),
    "another letter": ({"swarn_managers": ["m1"]}, [("swarn_managers", "swarm_managers")]),
    "hyphens": ({"swarm-manager": ["m1"], "gpu-nodes": ["g1"]}, [("gpu-nodes", "gpu_nodes"), ("swarm-manager", "swarm_managers")]),
    "upper case": ({"GPU_Nodes": ["g1"]}, [("GPU_Nodes", "gpu_nodes")]),
    "parts of the correct name": ({"gpu_nodes": ["g1", "g2"], "gpu_nodes1": ["g1"], "gpu_nodes2": ["g2"]}, []),
    "without a host": ({"gpu_nodes": ["g1"], "gpu_node": []}, []),
    "nodes with other processors": ({"gpu_nodes": ["g1"], "cpu_nodes": ["w1"], "npu_nodes": ["w2"]}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", MISSPELT)
def test_a_misspelt_group_is_an_error_of_the_run(case):
    groups, named = MISSPELT[case]
    task_vars = {"inventory_hostname": "g1", "groups": {"all": ["g1"], "ungrouped": [], **groups}, "hostvars": HostVars({"g1": {}})}
    found = check(task_vars, ["g1"], lambda value: value)
    assert [text.startswith("The inventory has ") for text in found.run] == [True] * len(named)
    expected = [f"in the group {group}, but not in {meant}. Rename the group to {meant}." for group, meant in named]
    assert all(words in text for text, words in zip(found.run, expected, strict=True))
    assert found.hosts == {}


def test_a_misspelt_group_names_its_first_hosts():
    (text,) = misspelt_groups({"gpu_node": [f"g{number}" for number in range(8)]}, ["gpu_nodes"])
    hosts = "g0, g1, g2, g3, g4 and 3 more"
    assert text.startswith(f"The inventory has {hosts} in the group gpu_node, but not in gpu_nodes. Rename the group to gpu_nodes.")


def test_an_error_on_all_hosts_is_reported_once():
    found, _hostvars = checked({"g1": {"provision_wait": "soon"}, "g2": {"provision_wait": "soon"}})
    assert found.hosts == {}
    assert [text.split(",")[0] for text in found.run] == ["provision_wait is 'soon'"]
    assert as_message(found).endswith("the default (300). Nothing was changed.")


@pytest.mark.parametrize("roles", [ROLES, ["gpu_node", "verify"]], ids=["provision, maintain, deprovision", "verify"])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("provision_wait", "5m", "provision_wait is '5m', but must be a whole number of seconds, 0 or more. Correct it, or remove it to use the"),
        ("provison_batch", 2, "provison_batch is not a setting. Write provision_batch, or rename it if it is a variable of your own. Nothing was"),
        ("maintain_reboots", True, "Write maintain_reboot,"),
        ("deprovision_leaves", False, "Write deprovision_leave,"),
        ("gpu_node_advertize", [], "Write gpu_node_advertise,"),
    ],
)
def test_each_playbook_finds_wrong_values_and_names(roles, name, value, words):
    variables = {"g1": {name: value}, "g2": {}}
    task_vars = {**variables["g1"], "inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars(variables)}
    text = as_message(check(task_vars, ["g1", "g2"], lambda value: value, roles))
    assert text.startswith("g1: ")
    assert words in text


def test_an_error_on_some_hosts_names_these_hosts():
    wrong = {"maintain_timeout": "x"}
    found, _hostvars = checked({"g1": {"provision_wait": 5}, "g2": {"gpu_node_advertize": [], **wrong}, "g3": wrong})
    assert found.run == []
    assert {text.split(" ")[0]: where for text, where in found.hosts.items()} == {"gpu_node_advertize": ["g2"], "maintain_timeout": ["g2", "g3"]}
    text = as_message(found)
    assert "g2: gpu_node_advertize is not a setting. Write gpu_node_advertise," in text
    assert "g2, g3: maintain_timeout is 'x'," in text


def test_an_error_on_many_hosts_names_the_first():
    wrong = {f"g{number}": {"provision_wait": "soon"} for number in range(8)}
    found, _hostvars = checked({**wrong, "m1": {}})
    assert as_message(found).startswith("g0, g1, g2, g3, g4 and 3 more: provision_wait is 'soon', but")


def test_a_policy_that_should_only_be_shown_is_not_applied_by_the_next_playbook():
    read = {"gpu_swarm_policy_read": "/tmp/policy.yml", "gpu_node_advertise": []}
    (message,) = checked({"g1": dict(read), "g2": dict(read)})[0].run
    assert message.startswith("status with plan has read /tmp/policy.yml earlier in this run of Ansible")
    assert checked({"g1": dict(read)}, play={"_gpu_swarm_only_plans": True})[0] == ([], {})


@pytest.mark.parametrize(
    ("name", "member", "manager", "words"),
    [
        ("provision_batch", [1, "25%"], None, "is [1, '25%'] for g1, and not set for m1"),
        ("provision_max_failed", 3, 1, "is 3 for g1, and 1 for m1"),
        ("provision_allow_pending", ["train"], [], "is ['train'] for g1, and [] for m1"),
        ("provision_take_lease", True, None, "is true for g1, and not set for m1"),
        ("provision_lease", "{{ long }}", 60, "is '{{ long }}' for g1, and 60 for m1"),
        ("provision_remove_finished_jobs", True, False, "is true for g1, and false for m1"),
        ("gpu_swarm_isolation", "audit", "reserved", "is 'audit' for g1, and 'reserved' for m1"),
        ("gpu_swarm_isolation", "audit", False, "is 'audit' for g1, and 'off' for m1"),
    ],
)
def test_settings_of_the_whole_run_are_the_same_for_all_hosts(name, member, manager, words):
    def found(values, **given):
        variables = {host: {} if value is None else {name: value} for host, value in values.items()}
        return checked(variables, {"g1": {name: 900}, "g2": {name: 900}} if name == "provision_lease" else None, **given)[0]

    problems = found({"g1": member, "g2": member, "m1": manager})
    assert problems.run == [f"{name} applies to the whole run, but {words}. Set it once, in group_vars/all.yml or with -e."]
    assert problems.hosts == {}
    assert found({"g1": member, "g2": member}) == ([], {})
    of_play = [*DECLARED[name].choices, 5 if DECLARED[name].type == "int" or name == "provision_batch" else True]
    assert found({"m1": manager, "g1": member}, play={name: of_play[0]}) == ([], {})


def test_an_explicit_default_equals_no_value():
    assert checked({"g1": {"provision_max_failed": "1", "provision_allow_pending": [], "provision_batch": ""}, "m1": {}})[0] == ([], {})
    assert checked({"g1": {"gpu_swarm_isolation": False}, "m1": {"gpu_swarm_isolation": "off"}})[0] == ([], {})  # an unquoted off


def test_settings_of_a_host_may_differ():
    assert checked({"g1": {"provision_disrupt": "all", "provision_wait": 5, "maintain_timeout": 5}, "m1": {}})[0] == ([], {})


def test_variables_of_the_play_count_for_all_hosts():
    variables = {"g1": {"provision_wait": 5}, "g2": {"provision_wait": "soon"}}
    assert checked(variables, play={"provision_wait": 7})[0] == ([], {})
    assert "is 'late'" in checked(variables, play={"provision_wait": "late"})[0].run[0]
    assert "Write provision_wait" in checked(variables, play={"provison_wait": 7})[0].run[0]
    assert "is 'late'" in checked(variables, play={"provision_wait": "{{ when }}"}, template=lambda value: "late")[0].run[0]


def test_only_templates_are_templated():
    written = {"g1": {"provision_wait": "{{ wait }}", "maintain_timeout": "{{ back }}"}, "g2": {"provision_wait": 7, "motd": "{{ nothing }}"}}
    found, hostvars = checked(written, {"g1": {"provision_wait": "soon", "maintain_timeout": "600"}})
    assert [(text.split(",")[0], where) for text, where in found.hosts.items()] == [("provision_wait is 'soon'", ["g1"])]
    assert hostvars.queried == ["g1", "g1"]


def test_a_template_that_fails_is_an_error():
    def template(_value):
        raise AnsibleError("'wait' is undefined")

    (text,) = checked({"g1": {}}, play={"provision_wait": "{{ wait }}"}, template=template)[0].run
    assert text == "provision_wait is '{{ wait }}', which cannot be evaluated: 'wait' is undefined. Correct the template or remove the setting."


def test_each_host_is_read_once():
    class Counted(HostVars):
        read = 0

        def raw_get(self, name):
            self.read += 1
            return super().raw_get(name)

    counted = Counted({"g1": {}, "g2": {}})
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": CachedHostvars(counted)}
    check(task_vars, ["g1", "g2"], lambda value: value)
    hosts_of(task_vars, ["g1", "g2"], ())
    assert counted.read == 2


class Encrypted:
    """Simulates a value of Ansible Vault. Its text is the decrypted content."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        if self.text is None:
            raise AnsibleError("no vault secrets found")
        return self.text


@pytest.mark.parametrize(("name", "text"), [(name, str(value)) for name, values in RIGHT for value in values if isinstance(value, (bool, int, str))])
def test_a_valid_value_may_be_encrypted(name, text):
    setting = DECLARED[name]
    if value_error(setting, text) is None:
        task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars({"g1": {name: Encrypted(text)}})}
        assert [one for one in check(task_vars, ["g1"], str, [*ROLES, "gpu_stack"]).run if "of the swarm" not in one] == []
        assert convert(setting, Encrypted(text)) == convert(setting, text)


@pytest.mark.parametrize(("name", "text"), [(name, value) for name, value, _words in WRONG if isinstance(value, str) and value and "{" not in value])
def test_an_invalid_encrypted_value_is_not_shown(name, text):
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars({"g1": {name: Encrypted(text)}})}
    (found,) = check(task_vars, ["g1"], str, [*ROLES, "verify", "gpu_stack"]).run
    assert found.startswith(f"{name} is a hidden value, but must be ")


def test_a_value_that_cannot_be_decrypted_is_a_separate_error():
    task_vars = {"inventory_hostname": "g1", "groups": GROUPS, "hostvars": HostVars({"g1": {"provision_wait": Encrypted(None)}})}
    assert check(task_vars, ["g1"], str).run == [
        "provision_wait is a hidden value, which cannot be evaluated: no vault secrets found. Correct the template or remove the setting."
    ]


JUNK_IN_RULES = [None, True, 0, -1, 1.5, "", "text", [], [None], [1], ["x"], [[]], {}, {"x": None}, [{}], {"x": [1]}]
FORM_OF = {"gpu": {}, "model": {}, "vram": {}, "slots": {"slots": 2}, "mig": {}, "none": {}}


@pytest.mark.parametrize("key", ["as", "kind", "kinds", "select", "slots", "slot_mib", "sum", "reserve_mib", "x", 1])
def test_no_value_in_a_rule_causes_a_python_error(key):
    for form, options in FORM_OF.items():
        for junk in JUNK_IN_RULES:
            rules = [{"as": form, **options, **more} for more in ({key: junk}, {"select": {key: junk}})]
            found = [value_error(DECLARED["gpu_node_advertise"], [rule]) for rule in rules]
            assert [text for text in found if text is not None and "gpu_node_advertise" not in text] == []
