# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a module reaches a Docker daemon; names and environment variables are those of community.docker."""

    DOCUMENTATION = r"""
options:
  docker_host:
    description:
      - The daemon's address, such as V(unix:///run/docker.sock) or V(tcp://192.0.2.23:2376).
      - If not given, the environment variable E(DOCKER_HOST) is used.
    type: str
    default: unix:///var/run/docker.sock
    aliases: [docker_url]
  tls:
    description:
      - Connect with TLS. The server's certificate is verified only with O(validate_certs=true).
      - If not given, the environment variable E(DOCKER_TLS) is used.
    type: bool
    default: false
  validate_certs:
    description:
      - Connect with TLS and verify the server's certificate.
      - If not given, the environment variable E(DOCKER_TLS_VERIFY) is used.
    type: bool
    default: false
    aliases: [tls_verify]
  ca_path:
    description:
      - File with the certificate authority that signed the server's certificate.
      - If not given and the environment variable E(DOCKER_CERT_PATH) is set, C(ca.pem) in that directory is used.
    type: path
    aliases: [ca_cert, tls_ca_cert, cacert_path]
  client_cert:
    description:
      - File with the client's certificate.
      - If not given and the environment variable E(DOCKER_CERT_PATH) is set, C(cert.pem) in that directory is used.
    type: path
    aliases: [tls_client_cert, cert_path]
  client_key:
    description:
      - File with the key of O(client_cert).
      - If not given and the environment variable E(DOCKER_CERT_PATH) is set, C(key.pem) in that directory is used.
    type: path
    aliases: [tls_client_key, key_path]
  api_version:
    description:
      - Version of the Docker API to use; V(auto) is the newest that the daemon and the SDK both know.
      - If not given, the environment variable E(DOCKER_API_VERSION) is used.
    type: str
    default: auto
    aliases: [docker_api_version]
  timeout:
    description:
      - Seconds to wait for an answer of the daemon.
      - If not given, the environment variable E(DOCKER_TIMEOUT) is used.
    type: int
    default: 60
requirements:
  - Docker SDK for Python 5.0.3 or newer on the host that runs the module (Debian's package C(python3-docker))
"""
