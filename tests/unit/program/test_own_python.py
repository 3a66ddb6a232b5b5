# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A service that runs as root is installed only if nobody but root can replace its Python interpreter."""

from __future__ import annotations

import json
import os
import stat

import module_process
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program.own_python import require_own_python

SOMEBODY = 4711


@pytest.fixture
def owned(monkeypatch):
    """Return a dict from paths to (user id, group id, mode). ``os.lstat`` reports these values, because only root could change the real ones."""
    others = {}
    really = os.lstat

    def lstat(path, **more):
        found = list(really(path, **more))
        uid, gid, mode = others.get(str(path), (found[4], found[5], found[0]))
        return os.stat_result([mode, *found[1:4], uid, gid, *found[6:]])

    monkeypatch.setattr(os, "lstat", lstat)
    return others


@pytest.fixture
def python(tmp_path):
    """Make venv/bin/python as a link to opt/python, through another link."""
    for folder in ("venv/bin", "opt"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt/python3.12").touch(0o755)
    (tmp_path / "opt/python3").symlink_to("../opt/python3.12")
    (tmp_path / "venv/bin/python").symlink_to(tmp_path / "opt/python3")
    return tmp_path / "venv/bin/python"


def require(python):
    require_own_python(str(python), str(python.parents[1]))


def test_a_python_of_root_is_accepted(python):
    require(python)


def test_a_missing_python_is_reported_elsewhere(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", "none"):
        require_own_python(str(tmp_path / name), str(tmp_path))


@pytest.mark.parametrize("part", ["venv", "venv/bin", "venv/bin/python", "opt", "opt/python3", "opt/python3.12"])
def test_each_part_of_its_path_must_belong_to_root_even_behind_links(python, tmp_path, owned, part):
    owned[str(tmp_path / part)] = (SOMEBODY, 0, os.lstat(tmp_path / part).st_mode)
    with pytest.raises(GpuSwarmError) as raised:
        require(python)
    assert f"the Python {python}, but users other than root can replace it: {tmp_path / part} belongs to user id 4711. " in raised.value.message
    assert "Set ansible_python_interpreter to a Python that only root can change" in raised.value.message


@pytest.mark.parametrize(("mode", "group", "words"), [(0o757, 0, "written by everybody"), (0o775, SOMEBODY, "written by group id 4711")])
def test_others_must_not_be_able_to_write_there(python, tmp_path, owned, mode, group, words):
    owned[str(tmp_path / "opt")] = (os.geteuid(), group, stat.S_IFDIR | mode)
    with pytest.raises(GpuSwarmError, match=words):
        require(python)
    # For example /tmp: users can replace only their own files there.
    owned[str(tmp_path / "opt")] = (os.geteuid(), group, stat.S_IFDIR | stat.S_ISVTX | mode)
    require(python)


def test_an_environment_of_another_user_is_refused(python, tmp_path, owned):
    """Python loads files from the environment, so its owner could run code as root."""
    (tmp_path / "env").mkdir()
    owned[str(tmp_path / "env")] = (SOMEBODY, 0, stat.S_IFDIR | 0o755)
    with pytest.raises(GpuSwarmError, match="belongs to user id 4711"):
        require_own_python(str(python), str(tmp_path / "env"))


def test_debians_group_of_usr_local_is_as_good_as_root(owned):
    owned["/usr/local"] = (0, 50, stat.S_IFDIR | 0o2775)
    require_own_python("/usr/local", "/usr/local")


@pytest.mark.parametrize("module", ["manager_service", "swarm_job_timer"])
@pytest.mark.parametrize("check", [True, False])
def test_a_manager_gets_no_service_of_such_a_python(tmp_path, module, check):
    (tmp_path / "python3").touch(0o755)
    tmp_path.chmod(0o777)
    before = f"import sys; sys.executable = {str(tmp_path / 'python3')!r}"
    done = module_process.run(module, {"state_dir": str(tmp_path / "state"), "_ansible_check_mode": check}, before=before)
    assert f"users other than root can replace it: {tmp_path} can be written by everybody" in json.loads(done.stdout)["msg"]
    assert not (tmp_path / "state").exists()
