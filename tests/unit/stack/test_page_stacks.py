# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The example stacks that serve the page of the fleet. tests/page runs their web servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.plugin_utils._stack.deploy_checks import Stack, refuse
from plugins.plugin_utils._stack.translate import translate

EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples/stacks"


CAPABILITIES = {"page-nginx.yml": "SETGID", "page-caddy.yml": "NET_BIND_SERVICE"}


@pytest.mark.parametrize("name", CAPABILITIES)
def test_a_stack_serves_the_folder_of_the_page_and_cannot_change_it(name):
    def content(path: str) -> bytes | None:
        return (EXAMPLES / path).read_bytes() if path.startswith("page/") else secrets.get(path)

    secrets = {"users": b"alice", "certificate.pem": b"certificate", "key.pem": b"key"}
    stack = translate((EXAMPLES / name).read_text(), name, content, {})
    refuse(Stack(stack.document, stack.files, name, stack.document["services"], [], {}))
    assert stack.notes == []
    (service,) = stack.document["services"].values()
    assert (service["cap_drop"], service["cap_add"]) == (["ALL"], [CAPABILITIES[name]])
    assert service["volumes"] == ["/var/lib/gpu-swarm/page:/page:ro"]
    assert service["deploy"]["placement"]["constraints"] == ["node.role == manager"]
    assert set(secrets.values()) < set(stack.files.values())
