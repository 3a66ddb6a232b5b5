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
      - The daemon's address, such as V(unix:///run/docker.sock) or V(tcp://192.0.2.23:2376). It has no other forms but C(http://) and
        C(https://), and not C(ssh://).
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
      - Version of the Docker API to use; V(auto) is the newest that the daemon speaks.
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
notes:
  - No library is needed on the host that runs the module.
  - Over the network, the proxies of the module's environment count as they do for the C(docker) command, E(HTTPS_PROXY) with TLS and else
    E(HTTP_PROXY), but not for this machine and what E(NO_PROXY) names, by name, domain or network such as C(192.0.2.0/24). E(ALL_PROXY) does
    not count, and neither do other proxies than those of C(http://).
  - With TLS, O(ca_path) decides which authority is trusted, and without it those that the system trusts. E(REQUESTS_CA_BUNDLE) and
    E(CURL_CA_BUNDLE) do not count.
  - Where a registry wants a login, it is that of the user who runs the module, of C(config.json) in E(DOCKER_CONFIG) or C(~/.docker), with its
    C(auths), C(credsStore) and C(credHelpers).
"""
