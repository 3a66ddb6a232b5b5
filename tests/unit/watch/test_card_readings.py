# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two files about what the cards are doing: cards.json, and the metrics for node_exporter."""

from __future__ import annotations

import json
import os
import resource

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import card_metrics_file
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.card_metrics import METRICS, rendered
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._watch.card_readings import CardReadings

CARD = {
    "uuid": "GPU-1",
    "card": None,
    "temperature_c": 71,
    "power_w": 650.5,
    "power_limit_w": 700.0,
    "utilisation_percent": 7,
    "memory_used_mib": 2,
    "memory_mib": 81559,
    "sm_clock_mhz": 1755,
    "throttle": ["sw_power_cap", "hw_thermal"],
    "processes": 1,
}
UNKNOWN = {**dict.fromkeys(CARD), "uuid": "MIG-1", "card": "GPU-1"}


class Clock:
    now = 1795000000.5

    def time(self):
        return self.now


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "run" / "gpu-swarm").mkdir(parents=True, mode=0o700)
    (tmp_path / "textfile").mkdir()
    return tmp_path


def readings(folders, textfile="textfile"):
    return CardReadings({"textfile": textfile and str(folders / textfile)}, str(folders), Clock())


def test_the_file_for_people_has_every_row_and_the_time(folders):
    assert readings(folders, "").write([CARD, UNKNOWN]) == []
    path = folders / "run" / "gpu-swarm" / "cards.json"
    assert json.loads(path.read_text()) == {"version": 1, "at": 1795000000, "cards": [CARD, UNKNOWN]}
    assert os.listdir(folders / "textfile") == []


def test_everybody_may_read_it_and_nobody_may_list_the_folder(folders):
    before = os.umask(0o022)
    try:
        readings(folders).write([CARD])
    finally:
        os.umask(before)
    folder = folders / "run" / "gpu-swarm"
    assert (folder.stat().st_mode & 0o777, (folder / "cards.json").stat().st_mode & 0o777) == (0o711, 0o644)


def values(text):
    return {(one.name, *one.labels.values()): one.value for family in text_string_to_metric_families(text) for one in family.samples}


def test_the_metrics_are_in_base_units_and_unknown_values_are_left_out(folders):
    readings(folders).write([CARD, UNKNOWN])
    assert values((folders / "textfile" / "gpu-swarm-cards.prom").read_text()) == {
        ("gpu_swarm_cards_read_timestamp_seconds",): 1795000000.5,
        ("gpu_swarm_card_temperature_celsius", "GPU-1"): 71,
        ("gpu_swarm_card_power_watts", "GPU-1"): 650.5,
        ("gpu_swarm_card_power_limit_watts", "GPU-1"): 700,
        ("gpu_swarm_card_utilisation_ratio", "GPU-1"): 0.07,
        ("gpu_swarm_card_memory_used_bytes", "GPU-1"): 2 << 20,
        ("gpu_swarm_card_memory_size_bytes", "GPU-1"): 81559 << 20,
        ("gpu_swarm_card_sm_clock_hertz", "GPU-1"): 1755e6,
        ("gpu_swarm_card_processes", "GPU-1"): 1,
        ("gpu_swarm_card_throttled", "GPU-1", "sw_power_cap"): 1,
        ("gpu_swarm_card_throttled", "GPU-1", "hw_thermal"): 1,
    }


def test_every_metric_begins_with_the_name_of_the_collection():
    assert all(metric.name.startswith("gpu_swarm_card") for metric in METRICS)


def test_without_cards_only_the_time_is_left():
    assert values(rendered([], 5)) == {("gpu_swarm_cards_read_timestamp_seconds",): 5}


def test_a_failure_of_one_file_is_said_once_and_the_other_file_is_written(folders):
    it = readings(folders, "none")
    (line,) = it.write([CARD])
    assert "gpu-swarm-cards.prom: No such file or directory. Create it" in line
    assert it.write([CARD]) == []
    assert (folders / "run" / "gpu-swarm" / "cards.json").exists()
    (folders / "none").mkdir()
    assert it.write([CARD]) == []
    (folders / "none" / "gpu-swarm-cards.prom").unlink()
    (folders / "none").rmdir()
    assert len(it.write([CARD])) == 1


def test_with_a_full_disk_no_old_values_stay(folders):
    it = readings(folders)
    it.write([CARD])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        said = it.write([CARD])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [line.count("File too large") for line in said] == [1, 1]
    assert os.listdir(folders / "textfile") == os.listdir(folders / "run" / "gpu-swarm") == []


def test_a_missing_runtime_directory_is_said_and_the_metrics_are_written(folders):
    (folders / "run" / "gpu-swarm").rmdir()
    it = readings(folders)
    (line,) = it.write([CARD])
    assert line.startswith("what the cards are doing cannot be written: ")
    assert (folders / "textfile" / "gpu-swarm-cards.prom").exists()


def test_only_the_watcher_s_own_file_is_removed(folders):
    folder = folders / "textfile"
    path = folder / card_metrics_file.NAME
    path.write_text("# HELP mine x\n")
    card_metrics_file.remove(str(folder))
    assert path.exists()
    readings(folders).write([])
    for directory in (str(folder), str(folder), None, "", str(folder / "none")):
        card_metrics_file.remove(directory)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("directory", ["/tmp", "/tmp/x", "/var/tmp/x", "/srv/../tmp/x", "metrics", "."])
def test_a_directory_that_the_watcher_cannot_write_to_is_refused(directory):
    with pytest.raises(GpuSwarmError, match=r"^textfile is .*, but must be an absolute path outside /tmp and /var/tmp"):
        card_metrics_file.check_directory(directory)


@pytest.mark.parametrize("directory", ["/var/lib/prometheus/node-exporter", "/tmpfs", "/srv"])
def test_other_directories_are_accepted(directory):
    card_metrics_file.check_directory(directory)


def test_a_folder_that_cannot_be_opened_is_a_finding_and_does_not_end_the_watcher(folders, monkeypatch):
    def refuse(_path, _mode):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    watcher = readings(folders, "")
    (line,) = watcher.write([CARD])
    assert "gpu-swarm cannot be opened for other users: Operation not permitted" in line
    assert watcher.write([CARD]) == []  # said once
    monkeypatch.undo()
    watcher.write([CARD])
    assert os.stat(folders / "run" / "gpu-swarm").st_mode & 0o777 == 0o711
