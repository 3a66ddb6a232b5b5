# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fleet.gpu_swarm.plugins.filter.external_managers import FilterModule as External
from ansible_collections.fleet.gpu_swarm.plugins.filter.manager_api import FilterModule as Api

manager_api, external_managers = Api().filters()["manager_api"], External().filters()["external_managers"]

WHERE = "tcp://m1.example.org:2376"
FILES = {"ca_path": "/c/ca.pem", "client_cert": "/c/cert.pem", "client_key": "/c/key.pem"}
TLS = {"validate_certs": True, **FILES}


def remote(tls=None, where=WHERE, **variables):
    return {"swarm_manager_docker_host": where, **({"swarm_manager_docker_tls": tls} if tls is not None else {}), **variables}


@pytest.mark.parametrize(
    ("variables", "socket", "options"),
    [
        ({}, None, {"docker_host": "unix:///var/run/docker.sock"}),
        ({"gpu_node_docker_socket": "/run/d.sock"}, None, {"docker_host": "unix:///run/d.sock"}),
        ({"gpu_node_docker_socket": "/run/d.sock"}, "/run/role.sock", {"docker_host": "unix:///run/role.sock"}),
        ({"swarm_manager_docker_host": ""}, None, {"docker_host": "unix:///var/run/docker.sock"}),
        (remote(), None, {"docker_host": WHERE}),
        (remote(TLS), "/run/role.sock", {"docker_host": WHERE, **TLS}),
        (remote(where="unix:///run/forwarded.sock"), None, {"docker_host": "unix:///run/forwarded.sock"}),
    ],
)
def test_the_api_is_a_socket_unless_the_host_says_where(variables, socket, options):
    assert manager_api("m1", {"m1": variables}, socket) == options


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (remote(where="m1.example.org:2376"), r"m1: swarm_manager_docker_host is 'm1\.example\.org:2376'. Write it as tcp://"),
        (remote({"cert": "/c"}), "m1: swarm_manager_docker_tls has cert, which is not known. Its keys are tls, validate_certs, ca_path"),
        (remote("/c"), "m1: swarm_manager_docker_tls is '/c', but must be a mapping"),
        (remote(group_names=["gpu_nodes", "swarm_managers"]), "m1 has swarm_manager_docker_host, .* also in the group gpu_nodes"),
    ],
)
def test_impossible_settings_are_refused_before_any_query(variables, text):
    with pytest.raises(AnsibleFilterError, match=text):
        external_managers(["m1"], {"m1": variables})


def test_managers_with_an_address_are_external():
    variables = {"m1": remote(TLS, group_names=["swarm_managers"]), "m2": {}, "g1": remote(group_names=["gpu_nodes"])}
    assert external_managers(["m2", "m1"], variables) == ["m1"]
    assert external_managers(["m1"], {}) == []  # before the first play, Ansible knows no variables of hosts
