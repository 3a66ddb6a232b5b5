# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys that are passed on exist in the format of 'docker stack deploy'. Each key of Compose is passed on, translated or reported.

The names are from docker/cli's formats 3.8 and 3.9 (cli/compose/schema/data), without keys that its conversion never reads, and from the
Compose specification (05-services.md, 06-networks.md, deploy.md).
"""

from __future__ import annotations

import pytest

from plugins.plugin_utils._stack import keys

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
