# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import card_record

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "galaxy.yml").exists())
CARD = {"index": 0, "uuid": "GPU-1", "name": None, "pci_bus_id": None, "serial": None, "slot": None, "mig": []}


def test_leftovers_of_a_killed_write_are_removed_with_the_record(tmp_path, monkeypatch):
    """deprovision keeps every other file in the directory, because such a file may belong to someone else."""
    record = card_record.CardRecord(str(tmp_path))
    monkeypatch.setattr(os, "replace", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        record.write([CARD])
    monkeypatch.undo()
    (left,) = os.listdir(tmp_path)
    brought = (ROOT / "playbooks/tasks/deprovision/clear_directory.yml").read_text()
    assert all(f'"{{{{ _gpu_swarm_directory }}}}/{name}"' in brought for name in (left, card_record.NAME))
    record.write([CARD])
    assert (os.listdir(tmp_path), record.read()) == ([card_record.NAME], [CARD])
