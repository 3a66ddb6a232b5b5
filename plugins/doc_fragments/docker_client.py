# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a module connects to a Docker daemon. The options and environment variables have the same names as in community.docker."""

    DOCUMENTATION = r"""
options:
  docker_host:
    description:
      - The daemon's address, such as V(unix:///run/docker.sock) or V(tcp://192.0.2.23:2376). C(http://) and C(https://) are also possible, but not
        C(ssh://).
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
      - The version of the Docker API. V(auto) means the newest version that the daemon supports.
      - If not given, the environment variable E(DOCKER_API_VERSION) is used.
    type: str
    default: auto
    aliases: [docker_api_version]
  timeout:
    description:
      - How long to wait for an answer of the daemon, in seconds, at least 1.
      - If not given, the environment variable E(DOCKER_TIMEOUT) is used.
    type: int
    default: 60
notes:
  - No library is needed on the host that runs the module.
  - Over the network, the module uses the proxy of its environment, as the C(docker) command does. With TLS, the proxy is E(HTTPS_PROXY). Without TLS,
    the proxy is E(HTTP_PROXY). The module uses no proxy for this machine, and no proxy for the names, domains and networks (such as
    C(192.0.2.0/24)) in E(NO_PROXY). The module ignores E(ALL_PROXY), and proxies whose URL does not begin with C(http://).
  - With TLS, the module trusts the authority in O(ca_path). Without O(ca_path), the module trusts the system's authorities. E(REQUESTS_CA_BUNDLE)
    and E(CURL_CA_BUNDLE) are ignored.
  - If a registry requires a login, the module uses the login of its user. It reads the login from C(config.json) in E(DOCKER_CONFIG) or
    C(~/.docker), with the keys C(auths), C(credsStore) and C(credHelpers).
"""
