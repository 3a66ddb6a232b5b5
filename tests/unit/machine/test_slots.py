# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import slots


def test_slots_by_address(tmp_path):
    assert slots.slots_by_address(str(tmp_path)) == {}
    for name, address in {"12": "0000:c1:00\n", "3-1": "0000:17:00\n", "9": ""}.items():
        folder = tmp_path / slots.SLOTS / name
        folder.mkdir(parents=True)
        (folder / "address").write_text(address)
    assert slots.slots_by_address(str(tmp_path)) == {"0000:c1:00": "12", "0000:17:00": "3-1"}


def test_the_gpus_of_the_driver_are_listed(tmp_path):
    assert slots.driver_addresses(str(tmp_path)) == []
    for name in ("0000:c1:00.0", "0000:17:00.0", "bind", "module", "new_id"):
        (tmp_path / slots.DRIVER / name).mkdir(parents=True)
    assert slots.driver_addresses(str(tmp_path)) == ["00000000:17:00.0", "00000000:C1:00.0"]
