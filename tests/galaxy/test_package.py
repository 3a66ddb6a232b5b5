# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests the tarball that users install: its content is complete, the collection works, and Galaxy would accept the tarball."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.runner.tree import shipped

ROOT = Path(__file__).resolve().parents[2]
FOR_USERS = {"plugins", "roles", "playbooks", "meta", "docs", "changelogs"}
MADE = {"MANIFEST.json", "FILES.json"}
SINGLE_FILES = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", *MADE}


def names(directory: str, pattern: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / directory).glob(pattern) if not path.name.startswith("_"))


def test_the_tarball_has_only_what_users_need(installed):
    with tarfile.open(installed.tarball) as tar:
        members = [member.name for member in tar.getmembers()]
        files = {member.name for member in tar.getmembers() if not member.isdir()}
    tops = {name.split("/")[0] for name in members}
    assert tops <= FOR_USERS | SINGLE_FILES
    assert {"README.md", "LICENSE", "plugins", "roles", "playbooks", "meta"} <= tops
    assert not [name for name in members if "__pycache__" in name or name.endswith(".pyc")]
    # Files for ansible-test sanity.
    assert files - MADE == {str(name) for name in shipped()} - {"galaxy.yml"}


def test_every_module_is_in_the_action_group():
    groups = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["action_groups"]
    assert groups["gpu_swarm"] == names("plugins/modules", "*.py")


def test_collections_used_are_dependencies(installed):
    used = set()
    for path in [*ROOT.glob("roles/**/*.yml"), *ROOT.glob("playbooks/**/*.yml")]:
        used |= set(re.findall(r"^\s*(?:- )?([a-z_]+\.[a-z0-9_]+)\.[a-z0-9_]+:(?:\s|$)", path.read_text(), re.MULTILINE))
    own = {installed.fqcn, "ansible.builtin"}
    assert used, "no module is used by its full name anywhere"
    assert used - own <= set(installed.galaxy["dependencies"])


def test_dependencies_take_the_versions_tested_here(installed):
    """The tests prove something about the bounds in galaxy.yml only if the bounds include the tested versions."""
    import ansible_collections

    for name, bound in installed.galaxy["dependencies"].items():
        manifests = [Path(root, *name.split("."), "MANIFEST.json") for root in ansible_collections.__path__]
        manifest = next(path for path in manifests if path.exists())
        assert json.loads(manifest.read_text())["collection_info"]["version"] in SpecifierSet(bound)


def test_requires_ansible_takes_the_version_tested_here():
    bound = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["requires_ansible"]
    assert importlib.metadata.version("ansible-core") in SpecifierSet(bound)


def documented(installed, kind: str) -> list[str]:
    """Return the names that ansible-doc lists. Check that ansible-doc can show each of them."""
    listed = installed.run("ansible-doc", "-t", kind, "--list", "--json", installed.fqcn)
    assert listed.returncode == 0, listed.stderr
    found = sorted(json.loads(listed.stdout))
    # Call ansible-doc in both forms. It only warns if it does not find a plugin.
    for form in ([], ["--json"]):
        shown = installed.run("ansible-doc", "-t", kind, *form, *found)
        assert shown.returncode == 0, shown.stderr
    assert sorted(name for name, entry in json.loads(shown.stdout).items() if entry["doc"]["short_description"]) == found
    return [name.rpartition(".")[2] for name in found]


def test_modules_are_documented(installed):
    assert documented(installed, "module") == names("plugins/modules", "*.py")


def test_filters_are_documented(installed):
    assert set(documented(installed, "filter")) >= set(names("plugins/filter", "*.py"))


@pytest.mark.parametrize("role", sorted(path.name for path in ROOT.glob("roles/*") if path.is_dir()))
def test_role_has_an_argument_specification_like_its_defaults(installed, role):
    shown = installed.run("ansible-doc", "-t", "role", "--json", f"{installed.fqcn}.{role}")
    assert shown.returncode == 0, shown.stderr
    entry = json.loads(shown.stdout)[f"{installed.fqcn}.{role}"]["entry_points"]["main"]
    defaults = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text())
    described = {name: option["default"] for name, option in entry.get("options", {}).items() if "default" in option}
    assert described == {name: value for name, value in defaults.items() if name in described}
    assert set(defaults) <= set(entry["options"])


@pytest.mark.parametrize("playbook", names("playbooks", "*.yml"))
def test_playbook_is_found_and_parses(installed, playbook):
    done = installed.run("ansible-playbook", "--syntax-check", "-i", "localhost,", f"{installed.fqcn}.{playbook}")
    assert done.returncode == 0, done.stderr


def gpu_info(installed, library: Path, description: Path) -> dict:
    """Return the result of the installed module, as the real ansible command prints it."""
    installed.run(
        "ansible", "localhost", "-i", "localhost,", "-c", "local", "--tree", str(installed.root / "answer"), "-m", f"{installed.fqcn}.gpu_info",
        "-a", f"nvml_path={library}", "-e", f"ansible_python_interpreter={sys.executable}", GPU_LAB_NVML=str(description),
    )  # fmt: skip
    return json.loads((installed.root / "answer" / "localhost").read_text())


def test_installed_module_reads_gpus(installed, tmp_path):
    nvml = ROOT / "tests" / "lab" / "nvml"
    subprocess.run(["make", "-s", "-C", str(nvml), f"OUT={tmp_path}", f"{tmp_path}/libnvidia-ml.so.1"], check=True)
    answer = gpu_info(installed, tmp_path / "libnvidia-ml.so.1", nvml / "fleet" / "t4x4.conf")
    assert [gpu["name"] for gpu in answer["gpus"]] == ["Tesla T4"] * 4
    assert answer["changed"] is False


def test_the_installed_module_reports_a_missing_binding(installed, tmp_path):
    answer = gpu_info(installed, tmp_path / "libnvidia-ml.so.1", tmp_path / "nvml.conf")
    assert "gpus" not in answer
    assert str(tmp_path / "libnvidia-ml.so.1") in answer["msg"]


def test_galaxy_importer_has_no_complaints(installed):
    done = installed.run(
        "python",
        "-m",
        "galaxy_importer.main",
        str(installed.tarball),
        GALAXY_IMPORTER_RUN_FLAKE8="0",
        GALAXY_IMPORTER_OFFLINE_ANSIBLE_LINT="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Importer processing completed successfully" in done.stdout
    complaints = [line for line in done.stdout.splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert not complaints, "\n".join(complaints)
