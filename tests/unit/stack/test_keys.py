# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys that are passed on exist in the format of 'docker stack deploy'. Each key of Compose is passed on, translated or reported.

The names are from docker/cli's formats 3.8 and 3.9 (cli/compose/schema/data), without keys that its conversion never reads, and from the
Compose specification (05-services.md, 06-networks.md, deploy.md).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack import keys
from plugins.plugin_utils._stack.translate import translate
from tests.pages import compose_keys

# Keys of a service that are converted (cli/compose/convert/service.go).
CONVERTED = """
    cap_add cap_drop command configs credential_spec deploy dns dns_search entrypoint environment extra_hosts healthcheck hostname image init
    isolation labels logging networks ports read_only secrets stdin_open stop_grace_period stop_signal sysctls tty ulimits user volumes working_dir
"""
# Keys of the format that are not converted.
LOST = """
    build cgroup_parent cgroupns_mode container_name depends_on devices domainname env_file expose external_links ipc links mac_address network_mode
    pid privileged profiles restart security_opt shm_size tmpfs userns_mode
"""
OF_COMPOSE = """
    annotations attach blkio_config cgroup cpu_count cpu_percent cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares cpus cpuset develop
    device_cgroup_rules dns_opt extends gpus group_add label_file mem_limit mem_reservation mem_swappiness memswap_limit models oom_kill_disable
    oom_score_adj pids_limit platform post_start pre_stop provider pull_policy pull_refresh_after runtime scale storage_opt use_api_socket uts
    volumes_from
"""
ON_NETWORK = "aliases driver_opts gw_priority interface_name ipv4_address ipv6_address link_local_ips mac_address priority"
# The format's other mappings.
FORMAT = {
    "DEPLOY": "mode endpoint_mode replicas labels rollback_config update_config resources restart_policy placement",
    "LIMITS": "cpus memory pids",
    "RESERVATIONS": "cpus memory generic_resources",
    "TOP": "services networks volumes secrets configs",
    "NETWORK": "name driver driver_opts ipam external internal attachable labels",
    "IPAM": "driver config",
    "IPAM_CONFIG": "subnet",
    "VOLUME": "name driver driver_opts external labels",
    "HEALTHCHECK": "disable interval retries test timeout start_period",
    "PORT": "mode target published protocol",
    "MOUNT": "type source target read_only consistency bind volume tmpfs",
}


def test_keys_that_are_passed_on_become_a_part_of_a_service() -> None:
    assert sorted(keys.SERVICE) == sorted(CONVERTED.split())


def test_each_key_of_a_service_has_one_answer() -> None:
    answers = [*keys.SERVICE, *keys.TRANSLATED, *keys.INSTEAD, *keys.REFUSED, "profiles", "runtime"]
    assert sorted(answers) == sorted([*CONVERTED.split(), *LOST.split(), *OF_COMPOSE.split()])


@pytest.mark.parametrize("name", FORMAT)
def test_the_other_mappings_are_those_of_the_format(name: str) -> None:
    assert sorted(getattr(keys, name)) == sorted(FORMAT[name].split())


def test_each_key_of_a_network_of_a_service_has_one_answer() -> None:
    assert sorted([*keys.ON_NETWORK, *keys.INSTEAD_ON_NETWORK]) == sorted(ON_NETWORK.split())


def test_keys_of_a_mount_depend_on_its_type() -> None:
    found = {kind: sorted(options) for kind, options in keys.MOUNT_OPTIONS.items()}
    assert found == {"bind": ["propagation"], "volume": ["nocopy"], "tmpfs": ["size"]}


def test_the_page_has_each_key_of_a_service_once() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/compose-keys.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([a-z_-]+)` \|", page, re.MULTILINE)
    assert sorted(named) == sorted([*CONVERTED.split(), *LOST.split(), *OF_COMPOSE.split(), "x-gpu"])
    assert set(compose_keys.TRANSLATED) == keys.TRANSLATED
    assert set(compose_keys.REMARKS) <= keys.SERVICE
    assert set(compose_keys.PROTECT) <= keys.INSTEAD.keys()


@pytest.mark.parametrize("key", sorted(keys.INSTEAD))
def test_a_key_that_is_left_out_gives_the_note_of_the_page(key: str) -> None:
    value = "[apparmor=unconfined]" if key == "security_opt" else "[a]" if key in ("device_cgroup_rules", "annotations") else "a"
    stack = translate(f"services: {{a: {{image: i, {key}: {value}}}}}", "compose.yml", {}.get, {})
    assert stack.notes == [f"compose.yml: services.a.{key} has no effect on Swarm and is ignored; instead: {keys.INSTEAD[key]}"]
    assert stack.document["services"]["a"] == {"image": "i"}


@pytest.mark.parametrize("key", sorted(keys.REFUSED))
def test_a_key_that_is_an_error_on_the_page_is_refused(key: str) -> None:
    with pytest.raises(GpuSwarmError) as error:
        translate(f"services: {{a: {{image: i, {key}: a}}}}", "compose.yml", {}.get, {})
    assert error.value.message == f"compose.yml: services.a.{key} is not supported on Swarm: {keys.REFUSED[key]}."


TRANSLATIONS = {
    "cpu_period: 50000, cpu_quota: 50000": {"deploy": {"resources": {"limits": {"cpus": "1.000"}}}},
    "cpu_quota: 50000": {"deploy": {"resources": {"limits": {"cpus": "0.500"}}}},
    "cpus: 2": {"deploy": {"resources": {"limits": {"cpus": "2"}}}},
    "depends_on: [a]": {"depends_on": ["a"]},
    "devices: [/dev/fuse]": {
        "environment": {"GPU_SWARM_DEVICES": "fuse"},
        "deploy": {"placement": {"constraints": ["node.labels.gpu-swarm.device.fuse==true"]}},
    },
    "env_file: [f]": {"environment": {"A": "1"}},
    "gpus: [{count: 1}]": {
        "deploy": {"resources": {"reservations": {"generic_resources": [{"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": 1}}]}}}
    },
    "ipc: host": {"volumes": [{"type": "tmpfs", "target": "/dev/shm", "tmpfs": {"size": 8 * 1024**3}}]},
    "mem_limit: 1g": {"deploy": {"resources": {"limits": {"memory": "1073741824"}}}},
    "mem_reservation: 1g": {"deploy": {"resources": {"reservations": {"memory": "1073741824"}}}},
    "network_mode: host": {"networks": ["host"]},
    "pids_limit: 9": {"deploy": {"resources": {"limits": {"pids": 9}}}},
    "restart: on-failure": {"deploy": {"restart_policy": {"condition": "on-failure"}}},
    "scale: 2": {"deploy": {"replicas": 2}},
    "shm_size: 1m": {"volumes": [{"type": "tmpfs", "target": "/dev/shm", "tmpfs": {"size": 1024**2}}]},
    "tmpfs: /a": {"volumes": [{"type": "tmpfs", "target": "/a"}]},
}


@pytest.mark.parametrize("written", TRANSLATIONS)
def test_a_key_becomes_what_the_page_says(written: str) -> None:
    offered = {"fuse": ["/dev/fuse"]}
    stack = translate(f"services: {{a: {{image: i, {written}}}}}", "compose.yml", {"f": b"A=1"}.get, {}, offered=lambda: offered)
    assert stack.document["services"]["a"] == {"image": "i", **TRANSLATIONS[written]}


def test_each_translated_key_has_an_example() -> None:
    assert {re.match(r"\w+", written)[0] for written in TRANSLATIONS} == keys.TRANSLATED
