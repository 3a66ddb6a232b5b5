# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares our reading of unit files with systemd of both Debian releases.

If we miss a flag of dockerd, and daemon.json gets the same option, dockerd does not start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugins.module_utils._dockerd.flags import DROP_IN, UnitFile
from plugins.module_utils._dockerd.loaded_unit import Loaded, find_difference

from .fleet import Fleet

CASES = yaml.safe_load((Path(__file__).parents[1] / "unit" / "data" / "units.yml").read_text(encoding="utf-8"))
# Runs on a node. Prints, for each case, the arguments that the unit's program got, and the unit as systemd shows it.
STARTER = r"""
import json, os, pathlib, shutil, subprocess, sys
HOME, UNITS = pathlib.Path("/run/unit-cases"), pathlib.Path("/run/systemd/system")
PROGRAM = "#!%s\nimport json, sys\njson.dump(sys.argv[1:], sys.stdout)\n" % sys.executable
BASE = "[Service]\nType=oneshot\nStandardOutput=truncate:%s\nEnvironmentFile=-%s\nExecStart=/bin/false\n"
BUS = "busctl --json=short get-property org.freedesktop.systemd1 /org/freedesktop/systemd1/unit/unit_2dcase_2d%d_2eservice " \
      "org.freedesktop.systemd1.Service ExecStart Environment"
cases, found = json.load(sys.stdin), {}
HOME.mkdir()
made = [HOME]
try:
    (HOME / "argv").write_text(PROGRAM)
    (HOME / "argv").chmod(0o755)
    for number, case in enumerate(cases.values()):
        name = "unit-case-%d" % number
        made += [UNITS / (name + ".service"), UNITS / (name + ".service.d")]
        (HOME / (name + ".env")).write_bytes(case.get("environment_file", "").encode())
        made[-2].write_text(BASE % (HOME / (name + ".out"), HOME / (name + ".env")))
        made[-1].mkdir()
        (made[-1] / "case.conf").write_bytes(case["drop_in"].replace("/bin/argv", str(HOME / "argv")).encode())
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "start", *("unit-case-%d" % number for number in range(len(cases)))], check=False, capture_output=True)
    for number, name in enumerate(cases):
        bus = subprocess.run((BUS % number).split(), check=True, capture_output=True).stdout.decode().splitlines()
        output = HOME / ("unit-case-%d.out" % number)
        argv = json.loads(output.read_text()) if output.exists() and output.read_text() else None
        (command,) = json.loads(bus[0])["data"]
        found[name] = {"argv": argv, "loaded": command[1], "environment": json.loads(bus[1])["data"]}
finally:
    for path in made:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "reset-failed", "unit-case-*"], check=False, capture_output=True)
version = subprocess.run(["systemctl", "--version"], check=True, capture_output=True).stdout.decode().split()[1]
print(json.dumps({"version": int(version), "found": found}))
"""


def expected(case: dict[str, Any], version: int) -> list[str]:
    argv = case["argv"]
    return argv["since 254" if version >= 254 else "before 254"] if isinstance(argv, dict) else argv


def unlike(found: dict[str, Any], case: dict[str, Any]) -> tuple[str, str] | None:
    """Return why a run would refuse the unit: a run compares the unit that systemd has loaded with our reading."""
    text = case["drop_in"].replace("/bin/argv", found["loaded"][0])
    environment = dict(entry.split("=", 1) for entry in found["environment"])
    return find_difference([UnitFile("case.conf", DROP_IN, text.encode(), True)], Loaded(found["loaded"], environment))


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_systemd_starts_the_command_that_we_read(fleet: Fleet, name: str) -> None:
    done = json.loads(fleet[name].start("python3", "-c", STARTER, text=json.dumps(CASES).encode()).stdout)
    found = done["found"]
    assert {case: found[case]["argv"] for case in CASES} == {case: expected(one, done["version"]) for case, one in CASES.items()}
    assert {case: unlike(found[case], one) for case, one in CASES.items()} == dict.fromkeys(CASES)
    variables = {case: dict(entry.split("=", 1) for entry in found[case]["environment"]) for case, one in CASES.items() if "environment" in one}
    assert variables == {case: one["environment"] for case, one in CASES.items() if "environment" in one}
