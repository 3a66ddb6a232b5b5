# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page that a manager keeps up to date, with and without a record."""

from __future__ import annotations

import re

import pytest
from read_manager import ReadManager, nodes

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.reading import read
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.fleet_view import FleetView
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.page_file import PageFile
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._page.page import PLACES
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.recorder import Recorder


@pytest.fixture
def reading():
    return read(ReadManager(), nodes(), True)


@pytest.fixture
def folder(tmp_path):
    for name in ("page", "record"):
        (tmp_path / name).mkdir()
    (tmp_path / "template.html").write_text("".join(f"<{place}>@@{place}@@" for place in PLACES))
    return tmp_path


def page_in(folder, record=True):
    return PageFile(str(folder / "page"), str(folder / "template.html"), str(folder / "record") if record else "", FleetView(20), "https://grafana.example.org")


def stale_after(folder):
    return float(re.search(r'"stale_after":([0-9.]+)', (folder / "page/index.html").read_text())[1])


def test_the_page_shows_the_reading_and_its_record(folder, reading):
    Recorder(str(folder / "record")).observe(reading)
    assert page_in(folder).observe(reading) == []
    (file,) = (folder / "page").iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("index.html", 0o640)
    text = file.read_text()
    assert "host-n1" in text
    assert "https://grafana.example.org" in text


def test_without_a_record_the_page_still_shows_the_fleet(folder, reading):
    assert page_in(folder, record=False).observe(reading) == []
    assert "host-n1" in (folder / "page/index.html").read_text()


def test_a_record_that_cannot_be_read_is_reported(folder, reading):
    (line,) = page_in(folder).observe(reading)
    assert line.startswith("the page lacks usage and events: ")
    assert "host-n1" in (folder / "page/index.html").read_text()


@pytest.mark.parametrize(
    ("leads", "passed", "stale_s"),
    [(True, 60, 180), (True, 400, 1200), (True, 86400, 1800), (True, -500, 180), (False, 600, 1800), (False, 15, 1800)],
)
def test_the_page_is_stale_after_some_readings_failed(folder, reading, leads, passed, stale_s):
    page = page_in(folder, record=False)
    for at in (reading.at, reading.at + passed):
        page.observe(reading._replace(at=at, leads=leads))
    assert stale_after(folder) == stale_s


def test_a_missing_template_is_an_error_with_its_remedy(folder, reading):
    (folder / "template.html").unlink()
    with pytest.raises(GpuSwarmError, match=r"template.html: No such file or directory. Run provision again."):
        page_in(folder).observe(reading)
