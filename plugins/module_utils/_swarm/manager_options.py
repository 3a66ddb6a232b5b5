# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of modules that connect to a manager, and warnings about unsafe options.

This file imports Ansible. The client of the API is in other files, because a service without Ansible uses the client too.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible.module_utils.basic import env_fallback

from .._docker_api.connections import NETWORK, parse_address
from .._mask import mask

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

UNVERIFIED = (
    "%s is used with TLS, but the certificate of the server is not verified: anyone who can intercept the connection"
    " can pose as that manager and read join tokens. Set validate_certs: true, and ca_path to the authority that signed the certificate"
    " (for a manager of the inventory in swarm_manager_docker_tls)."
)


def unprotected(params: Mapping[str, Any]) -> list[str]:
    """Return a list with one warning if the connection is not protected; otherwise [].

    A connection is not protected if anyone who reaches the API can use it, or if an attacker can pose as the manager.
    """
    address, shown = parse_address(params["docker_host"]), mask(params["docker_host"])
    if params["validate_certs"] or address.scheme not in NETWORK:
        return []
    if params["tls"]:
        return [UNVERIFIED % shown]
    if address.scheme == "https":
        return []  # the certificate is verified without these options
    return [
        "%s is used without TLS. Anyone who can listen to the connection can read join tokens, and anyone who reaches that port is root there."
        " Have its dockerd verify clients (--tlsverify), and set validate_certs, ca_path, client_cert and client_key." % shown
    ]
