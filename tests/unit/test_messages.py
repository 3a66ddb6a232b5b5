# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What docs/ says of messages is what the code says."""

from __future__ import annotations

from pathlib import Path

from tests import messages

PAGE = Path(__file__).resolve().parents[2] / "docs" / "TROUBLESHOOTING.md"
QUOTED = messages.quoted(PAGE.read_text(encoding="utf-8"))
MESSAGES = [message for heading, message in QUOTED if heading not in (messages.DOCKERS, messages.ISSUES)]


def test_each_message_of_troubleshooting_is_one_of_the_code():
    assert len(MESSAGES) > 100
    assert messages.unknown(MESSAGES) == []


def test_a_message_that_the_code_does_not_print_is_found():
    assert messages.unknown(["its turn did not come, since … went home", MESSAGES[0]]) == ["its turn did not come, since … went home"]
