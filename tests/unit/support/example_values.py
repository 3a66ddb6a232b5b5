# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables and files that the Compose files of docs/examples ask for. Their pages say how to make them."""

from __future__ import annotations

ENVIRONMENT = {
    "HF_TOKEN": "a token",
    "HUB_ADMIN": "alice",
    "NFS_SERVER": "192.0.2.5",
    "REGISTRY_NODE": "m1",
    "VLLM_API_KEY": "a key of the API",
    "WEBUI_NODE": "g1",
    "WEBUI_SECRET_KEY": "a key of cookies",
}
FILES = {"./registry.crt": b"a certificate", "./registry.key": b"a key", "./htpasswd": b"deployer:$2y$05$a"}
