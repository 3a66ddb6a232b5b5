# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that are older than NVIDIA's repository and packages are restored byte by byte. Edited files are kept and named."""

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
    """The files of a machine, and the effect of runs on them."""

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
        """Run the role. ``until`` is the step where it fails or is killed."""
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
def test_files_of_a_run_are_removed_wherever_it_ended(machine: Machine, until: str) -> None:
    machine.write("/etc/hosts", b"x")
    before = machine.all()
    machine.defines(until)
    written = {"key": [], "definition": [machine.key]}.get(until, sorted([machine.definition, machine.key]))
    assert machine.files.paths_to_restore() == written
    assert machine.restored() == (True, [])
    assert machine.all() == before
    assert machine.files.paths_to_restore() == []
    assert machine.restored() == (False, [])


def test_files_that_packages_leave_are_removed_too(machine: Machine) -> None:
    machine.defines()
    machine.installs()
    assert machine.files.paths_to_restore() == sorted([CONFIG, machine.definition, machine.key])
    assert machine.restored() == (True, [])
    assert machine.all() == {}
    assert not os.path.lexists(machine.path(LINK))
    assert not machine.path(CONFIG).parent.exists()


def test_a_working_link_stays(machine: Machine) -> None:
    machine.installs()
    machine.write("/usr/lib/systemd/system/nvidia-cdi-refresh.path", b"[Path]")
    masked = machine.path(LINK.replace(".path", ".service"))
    machine.write("/dev/null", b"")
    masked.symlink_to("/dev/null")
    machine.restored()
    assert os.path.lexists(machine.path(LINK))
    assert os.path.lexists(masked)


def test_files_of_the_user_are_restored_byte_by_byte(machine: Machine) -> None:
    """The user has a file with the name of the definition, another definition that is partly disabled, and a configuration."""
    machine.write(machine.definition, USERS)
    machine.path(machine.definition).chmod(0o640)
    machine.write(OTHER, b"deb x\n" + USERS)
    machine.write(CONFIG, b"debug = true\n")
    before = machine.all()
    machine.defines()
    machine.files.record_originals([OTHER], False, os.replace)
    machine.write(OTHER, b"deb x\n")
    machine.files.record_written([OTHER], False, os.replace)
    machine.write(machine.definition + COPY, USERS)  # Ansible stores a copy in this form
    machine.installs()
    assert machine.restored() == (True, [])
    assert machine.all() == before
    assert machine.path(machine.definition).stat().st_mode & 0o777 == 0o640


def test_files_that_were_edited_since_stay_and_are_named(machine: Machine) -> None:
    machine.defines()
    machine.installs()
    machine.write(machine.definition, b"deb mine /\n")
    machine.write(CONFIG, b"debug = true\n")
    before = machine.all()
    changed, remaining = machine.restored()
    assert changed
    assert remaining == [f"{machine.definition} (someone has edited it since)", f"{CONFIG} (someone has edited it since)"]
    kept = machine.all()
    assert {name: before[name] for name in kept} == kept
    assert machine.path(machine.definition).exists()


def test_a_later_run_keeps_files_that_were_written_between_two_runs(machine: Machine) -> None:
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


def test_files_of_a_release_without_this_record_are_removed(machine: Machine) -> None:
    """An unknown configuration is kept and named."""
    machine.write(machine.definition, b"# managed" + MARK + b"\ndeb [signed-by=/k.asc] x /\ngpgkey=file:///k.asc\n")
    machine.write("/k.asc", b"KEY")
    machine.write(CONFIG, b"x")
    assert machine.files.paths_to_restore() == sorted({machine.definition, "/k.asc"})
    changed, remaining = machine.restored()
    assert changed
    assert [one.partition(" ")[0] for one in remaining] == [CONFIG]
    assert list(machine.all()) == [CONFIG.lstrip("/")]


def test_our_own_definition_and_key_are_no_originals_for_a_later_run(machine: Machine) -> None:
    machine.write(machine.definition, b"# managed" + MARK + b"\ndeb [signed-by=%b] x /\ngpgkey=file://%b\n" % ((machine.key.encode(),) * 2))
    machine.write(machine.key, b"KEY")
    machine.defines()
    assert machine.files.paths_to_restore() == sorted([machine.definition, machine.key])
    assert machine.restored() == (True, [])
    assert machine.all() == {}


def test_the_copy_of_the_original_stays_with_an_edited_file(machine: Machine) -> None:
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


def test_only_root_can_read_the_record(machine: Machine) -> None:
    """The definition of a mirror may contain a password."""
    machine.defines()
    path = machine.path("/var/lib/gpu-swarm") / NAME
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert toolkit_files.NAME == "toolkit-files.json"


def test_the_copy_that_rpm_makes_of_the_configuration_is_removed_too(machine: Machine) -> None:
    machine.installs()
    machine.path(CONFIG).rename(machine.path(CONFIG + ".rpmsave"))
    assert machine.restored() == (True, [])
    assert machine.all() == {}


def test_a_configuration_that_an_upgrade_rewrote_is_removed(machine: Machine) -> None:
    """An upgrade rewrote the configuration while it contained our line. Our line is removed before the packages."""
    machine.installs()
    machine.write(CONFIG, b'swarm-resource = "DOCKER_RESOURCE_NVIDIA_GPU"\n\n[new-in-this-version]\nmode = "auto"\n')
    machine.files.record_written([CONFIG], False, os.replace)
    machine.write(CONFIG, b'#swarm-resource = ""\n[new-in-this-version]\nmode = "legacy"\n')
    assert machine.restored() == (True, [])
    assert machine.all() == {}


def test_a_rewritten_configuration_with_later_edits_stays(machine: Machine) -> None:
    machine.installs()
    machine.path(CONFIG).unlink()
    machine.write(CONFIG + ".rpmsave", b"debug = true\n")
    assert machine.restored()[1] == [f"{CONFIG}.rpmsave (someone has edited it since)"]
    assert list(machine.all()) == [f"{CONFIG}.rpmsave".lstrip("/")]
