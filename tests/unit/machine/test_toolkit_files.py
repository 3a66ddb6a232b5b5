# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was on a node before NVIDIA's repository and packages came is restored, byte by byte; what somebody has edited stays and is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import toolkit_files
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine.toolkit_files import CONFIG, DEFINITIONS, LINKS, MARK, NAME, ToolkitFiles

ROLE = Path(__file__).parents[3] / "roles/nvidia_container_toolkit"
FAMILIES = {path.stem: yaml.safe_load(path.read_text()) for path in ROLE.glob("vars/[A-Z]*.yml")}
USERS = b"deb [signed-by=/usr/share/keyrings/mine.gpg] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n"
OTHER = "/etc/apt/sources.list.d/cuda.list"
LINK = LINKS.replace("*.wants", "multi-user.target.wants").replace(".*", ".path")
COPY = ".123.2026-11-28@14:02:03~"


class Machine:
    """Its files, and what runs did to them."""

    def __init__(self, root: Path, family: str) -> None:
        variables = FAMILIES[family]
        self.root, self.key = root, variables["_nvidia_container_toolkit_keyring"]
        self.definition = variables["_nvidia_container_toolkit_definition"]
        self.files = ToolkitFiles(str(root / "var/lib/gpu-swarm"), str(root))

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, data: bytes) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(data)

    def all(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.root)): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}

    def defines(self, until: str = "", **more: bytes) -> None:
        """A run of the role; ``until`` is where it fails or is killed."""
        self.files.record_originals([self.definition, self.key], False, os.replace)
        steps = {"key": (self.key, b"KEY"), "definition": (self.definition, b"# managed" + MARK + b"\nsigned-by=" + self.key.encode() + b"]\n")}
        for step, (path, data) in steps.items():
            if until == step:
                return
            self.write(path, more.get(step, data))
        if until != "note":
            self.files.record_written([self.definition, self.key], False, os.replace)

    def installs(self) -> None:
        self.files.record_originals([CONFIG], False, os.replace)
        self.write(CONFIG, b"#swarm-resource\n")
        self.files.record_written([CONFIG], False, os.replace)
        link = self.path(LINK)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("/usr/lib/systemd/system/nvidia-cdi-refresh.path")

    def restored(self) -> tuple[bool, list[str]]:
        return self.files.restore(False, os.replace)


@pytest.fixture(params=sorted(FAMILIES))
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def test_the_definition_and_the_mark_are_those_of_the_role() -> None:
    assert {one["_nvidia_container_toolkit_definition"] for one in FAMILIES.values()} == set(DEFINITIONS)
    assert f'"{MARK.decode()}"' in (ROLE / "vars/main.yml").read_text()
    assert f"toolkit_config: {CONFIG}" in (ROLE / "vars/main.yml").read_text()


@pytest.mark.parametrize("until", ["", "key", "definition", "note"])
def test_what_a_run_left_is_known_and_goes_wherever_it_ended(machine: Machine, until: str) -> None:
    machine.write("/etc/hosts", b"x")
    before = machine.all()
    machine.defines(until)
    written = {"key": [], "definition": [machine.key]}.get(until, sorted([machine.definition, machine.key]))
    assert machine.files.paths_to_restore() == written
    assert machine.restored() == (True, [])
    assert machine.all() == before
    assert machine.files.paths_to_restore() == []
    assert machine.restored() == (False, [])


def test_what_the_packages_leave_goes_too(machine: Machine) -> None:
    machine.defines()
    machine.installs()
    assert machine.files.paths_to_restore() == sorted([CONFIG, machine.definition, machine.key])
    assert machine.restored() == (True, [])
    assert machine.all() == {}
    assert not os.path.lexists(machine.path(LINK))
    assert not machine.path(CONFIG).parent.exists()


def test_a_link_that_leads_somewhere_stays(machine: Machine) -> None:
    machine.installs()
    machine.write("/usr/lib/systemd/system/nvidia-cdi-refresh.path", b"[Path]")
    masked = machine.path(LINK.replace(".path", ".service"))
    machine.write("/dev/null", b"")
    masked.symlink_to("/dev/null")
    machine.restored()
    assert os.path.lexists(machine.path(LINK))
    assert os.path.lexists(masked)


def test_the_user_s_own_files_come_back_byte_by_byte(machine: Machine) -> None:
    """Under the name of the definition, as NVIDIA's instructions have it; another definition, of which a part was taken out; a configuration."""
    machine.write(machine.definition, USERS)
    machine.path(machine.definition).chmod(0o640)
    machine.write(OTHER, b"deb x\n" + USERS)
    machine.write(CONFIG, b"debug = true\n")
    before = machine.all()
    machine.defines()
    machine.files.record_originals([OTHER], False, os.replace)
    machine.write(OTHER, b"deb x\n")
    machine.files.record_written([OTHER], False, os.replace)
    machine.write(machine.definition + COPY, USERS)  # as Ansible keeps one
    machine.installs()
    assert machine.restored() == (True, [])
    assert machine.all() == before
    assert machine.path(machine.definition).stat().st_mode & 0o777 == 0o640


def test_what_somebody_has_edited_since_stays_and_is_named(machine: Machine) -> None:
    machine.defines()
    machine.installs()
    machine.write(machine.definition, b"deb mine /\n")
    machine.write(CONFIG, b"debug = true\n")
    before = machine.all()
    changed, stays = machine.restored()
    assert changed
    assert stays == [f"{machine.definition} (someone has edited it since)", f"{CONFIG} (someone has edited it since)"]
    kept = machine.all()
    assert {name: before[name] for name in kept} == kept
    assert machine.path(machine.definition).exists()


def test_a_later_run_keeps_what_somebody_wrote_between_two(machine: Machine) -> None:
    machine.defines()
    machine.write(machine.definition, b"deb mine /\n")
    machine.defines()
    machine.restored()
    assert machine.path(machine.definition).read_bytes() == b"deb mine /\n"


def test_a_key_that_another_definition_uses_stays(machine: Machine) -> None:
    machine.defines()
    machine.write(OTHER, f"deb [signed-by={machine.key}] https://example.org /\n".encode())
    assert machine.restored() == (True, [f"{machine.key} ({OTHER} uses it)"])
    assert machine.path(machine.key).exists()
    assert not machine.path(machine.definition).exists()


def test_what_a_release_without_this_record_wrote_goes(machine: Machine) -> None:
    """A configuration that it does not know stays, and is named."""
    machine.write(machine.definition, b"# managed" + MARK + b"\ndeb [signed-by=/k.asc] x /\ngpgkey=file:///k.asc\n")
    machine.write("/k.asc", b"KEY")
    machine.write(CONFIG, b"x")
    assert machine.files.paths_to_restore() == sorted({machine.definition, "/k.asc"})
    changed, stays = machine.restored()
    assert changed
    assert [one.partition(" ")[0] for one in stays] == [CONFIG]
    assert list(machine.all()) == [CONFIG.lstrip("/")]


def test_its_definition_and_key_are_no_originals_for_a_later_run(machine: Machine) -> None:
    machine.write(machine.definition, b"# managed" + MARK + b"\ndeb [signed-by=%b] x /\ngpgkey=file://%b\n" % ((machine.key.encode(),) * 2))
    machine.write(machine.key, b"KEY")
    machine.defines()
    assert machine.files.paths_to_restore() == sorted([machine.definition, machine.key])
    assert machine.restored() == (True, [])
    assert machine.all() == {}


def test_where_an_edited_file_stays_the_copy_of_the_original_stays_too(machine: Machine) -> None:
    machine.write(OTHER, b"deb x\n" + USERS)
    machine.files.record_originals([OTHER], False, os.replace)
    machine.write(OTHER + COPY, b"deb x\n" + USERS)
    machine.write(OTHER, b"deb x\n")
    machine.files.record_written([OTHER], False, os.replace)
    machine.write(OTHER, b"deb x\ndeb y\n")
    assert machine.restored()[1] == [f"{OTHER} (someone has edited it since)"]
    assert machine.all() == {OTHER.lstrip("/"): b"deb x\ndeb y\n", OTHER.lstrip("/") + COPY: b"deb x\n" + USERS}


DAMAGED = [
    "{", "[]", "null", "{}", '{"files": []}', '{"files": {"/x": 1}}', '{"files": {"/x": {}}}', '{"files": {"/x": {"before": {}, "written": []}}}',
    '{"files": {"/x": {"before": {"path": "/x", "data": "!x", "mode": 1, "uid": 1, "gid": 1}, "written": []}}}',
    '{"files": {"/x": {"before": {"path": "/x", "data": null, "mode": 1, "uid": 1, "gid": 1}, "written": null}}}', "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_record_is_an_error_that_names_it_and_changes_nothing(tmp_path: Path, text: str) -> None:
    machine = Machine(tmp_path, "Debian")
    machine.write(machine.definition, b"# managed" + MARK)
    machine.write(f"/var/lib/gpu-swarm/{NAME}", text.encode())
    before = machine.all()
    for call in (machine.files.paths_to_restore, machine.restored, machine.defines):
        with pytest.raises(GpuSwarmError, match=rf"{NAME}: this collection's own record cannot be read \(.*move it away") as refusal:
            call()
        assert len(refusal.value.message) < 500
    assert machine.all() == before


def test_a_check_changes_nothing(machine: Machine) -> None:
    assert machine.files.record_originals([machine.key], True, os.replace)
    assert machine.all() == {}
    machine.defines()
    machine.installs()
    before = machine.all()
    assert machine.files.restore(True, os.replace) == (True, [])
    assert machine.all() == before
    assert os.path.lexists(machine.path(LINK))


def test_the_record_is_closed_to_others(machine: Machine) -> None:
    """The definition of a mirror may have a password."""
    machine.defines()
    path = machine.path("/var/lib/gpu-swarm") / NAME
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert toolkit_files.NAME == "toolkit-files.json"


def test_the_copy_that_rpm_makes_of_the_configuration_goes_with_it(machine: Machine) -> None:
    machine.installs()
    machine.path(CONFIG).rename(machine.path(CONFIG + ".rpmsave"))
    assert machine.restored() == (True, [])
    assert machine.all() == {}


def test_a_configuration_that_packages_rewrote_at_an_upgrade_goes(machine: Machine) -> None:
    """While this collection's line was in it, which is removed before the packages are."""
    machine.installs()
    machine.write(CONFIG, b'swarm-resource = "DOCKER_RESOURCE_NVIDIA_GPU"\n\n[new-in-this-version]\nmode = "auto"\n')
    machine.files.record_written([CONFIG], False, os.replace)
    machine.write(CONFIG, b'#swarm-resource = ""\n[new-in-this-version]\nmode = "legacy"\n')
    assert machine.restored() == (True, [])
    assert machine.all() == {}


def test_but_not_one_with_what_somebody_has_edited(machine: Machine) -> None:
    machine.installs()
    machine.path(CONFIG).unlink()
    machine.write(CONFIG + ".rpmsave", b"debug = true\n")
    assert machine.restored()[1] == [f"{CONFIG}.rpmsave (someone has edited it since)"]
    assert list(machine.all()) == [f"{CONFIG}.rpmsave".lstrip("/")]
