# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options by which modules reach a manager. Apart from its API, which a service without Ansible uses as well.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from ansible.module_utils.basic import env_fallback

CONNECTION_OPTIONS = dict(
    docker_host=dict(
        type="str",
        default="unix:///var/run/docker.sock",
        fallback=(env_fallback, ["DOCKER_HOST"]),
        aliases=["docker_url"],
    ),
    tls=dict(type="bool", default=False, fallback=(env_fallback, ["DOCKER_TLS"])),
    validate_certs=dict(type="bool", default=False, fallback=(env_fallback, ["DOCKER_TLS_VERIFY"]), aliases=["tls_verify"]),
    ca_path=dict(type="path", aliases=["ca_cert", "tls_ca_cert", "cacert_path"]),
    client_cert=dict(type="path", aliases=["tls_client_cert", "cert_path"]),
    client_key=dict(type="path", aliases=["tls_client_key", "key_path"]),
    api_version=dict(type="str", default="auto", fallback=(env_fallback, ["DOCKER_API_VERSION"]), aliases=["docker_api_version"]),
    timeout=dict(type="int", default=60, fallback=(env_fallback, ["DOCKER_TIMEOUT"])),
)
