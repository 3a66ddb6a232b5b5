# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.unreachable import reason

CHANGED = (
    'Data could not be sent to remote host "g1". Make sure this host can be reached over ssh: @@@@@@@@\r\n'
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n@@@@@@@@\r\nIT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r\n"
    "Offending ED25519 key in known_hosts:2\r\nHost key for [g1]:2222 has changed and you have requested strict checking.\r\n"
    "Host key verification failed.\r\n"
)
UNKNOWN = (
    "Failed to connect to the host via ssh: No ED25519 host key is known for 10.0.0.1 and you have requested strict checking.\r\n"
    "Host key verification failed.\r\n"
)


@pytest.mark.parametrize(
    ("message", "begins"),
    [
        (CHANGED, "Host key for [g1]:2222 has changed: nothing was sent there. If"),
        (UNKNOWN, "No ED25519 host key is known for 10.0.0.1: nothing was sent there. If"),
    ],
)
def test_a_changed_host_key_is_explained(message, begins):
    assert reason(message).startswith(begins)
    assert "\n" not in reason(message)


@pytest.mark.parametrize("message", ["no route to host", "Host key verification failed.", "Permission denied (publickey).", ""])
def test_other_reasons_stay_as_they_are(message):
    assert reason(message) == message
