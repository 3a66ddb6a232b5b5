# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of `make test` and `make test-all`, in the order in which they are started."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from tests.lab import images, nodes, rootfs
from tests.lab.fleet import Node

from . import changed, count, tree
from .model import BIN, BUILD, OUT, ROOT, Stage

PYTHON = str(BIN / "python")
ENTER = ROOT / "tests" / "lab" / "enter"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Code for nodes, and code for the controller, each with its oldest supported Python.
NODE_CODE = ["plugins/modules", "plugins/module_utils"]
CONTROLLER_CODE = ["plugins/action", "plugins/filter", "plugins/plugin_utils"]


def tool(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


# The end-to-end tests, by their fleet. Tests in no list are in the stage `e2e`. The tests of MEMBERS are in this stage too, except in runs with rare
# tests. In such runs one fleet would take longer than all others together, so MEMBERS get a second fleet of the same kind.
E2E = "tests/e2e"
MEMBERS = ("jobs", "lost", "maintain", "provision", "secrets", "toml_agreement", "verify", "versions")
E2E_MEMBERS = [f"{E2E}/test_{name}.py" for name in MEMBERS]
E2E_SWARM = [f"{E2E}/test_swarm_faults.py", f"{E2E}/test_leader_changes.py"]
# Each of these files boots small fleets for itself, or needs no fleet.
APART = (
    "air_gap", "controllers", "day", "deprovision", "example_servers", "execution_environment", "leave_no_trace", "queue", "recipes", "record",
    "repository_packages", "rpm", "ssh", "two_swarms", "upgrade", "workloads",
)  # fmt: skip
E2E_APART = [f"{E2E}/test_{name}.py" for name in APART]
E2E_HEALTH = [f"{E2E}/test_health.py"]
# Tests that need all node images: they have a node of Debian testing, or compare the images with the docs.
E2E_ISOLATION = [f"{E2E}/test_{name}.py" for name in ("isolation", "listed_versions", "releases")]
E2E_RPM = [f"{E2E}/test_rpm_nodes.py", f"{E2E}/test_dnf5_nodes.py"]


# Rare combinations and slow examples have the mark `rare` and run in `make test-all`.
OFTEN = ("-m", "not rare")
# The runner ends a stage that hangs (seconds). On a slow day, the longest stage took 65 minutes with its rare tests.
LIMIT_S, RARE_LIMIT_S = 3600, 7200
# Tests for Docker 20.10 and 26.1. In these stages, nodes have the newest Docker instead of 26.1.
NEWEST = "-newest"
E2E_NEWEST = [f"{E2E}/test_{name}.py" for name in ("versions", "health", "queue")]
MOLECULE_NEWEST = ("policies", "health")
# tests/e2e/test_health.py and test_isolation.py test the same on other nodes, partly in `make test`.
MOLECULE_RARE = ("health", "isolation")


def pytest(name: str, *words: str, **options: object) -> Stage:
    report = OUT / f"{name}.xml"
    command = [PYTHON, "-m", "pytest", "-p", "no:cacheprovider", *words, f"--junitxml={report}"]
    return Stage(name, command, count=lambda _log: count.junit(report), **options)  # type: ignore[arg-type]


def images_of(fleet: str) -> tuple[str, ...]:
    """Return the stages that make the images for a fleet of this description."""
    return ("images", "images-moving") if any(f"image: {release}" in fleet for release in rootfs.releases(moving=True)) else ("images",)


def ansible_lint(*files: str) -> Stage:
    """Return the stage that checks these files and their includes, or all files."""
    return Stage("ansible-lint", tool("ansible-lint", "--profile", "production", "--strict", "--offline", "--nocolor", *files))


def vermin(version: str, paths: list[str], *more: str) -> list[str]:
    present = [path for path in paths if (ROOT / path).exists()]
    return tool("vermin", f"--target={version}-", "--no-tips", "--violations", *more, *present)


def molecule(scenario: str) -> Stage:
    """Return the stage of a scenario. Its actions and its testinfra tests count as tests."""
    report = OUT / f"molecule-{scenario}.testinfra.xml"
    return Stage(
        f"molecule-{scenario}",
        tool("molecule", "--base-config", ".config/molecule/config.yml", "test", "--scenario-name", scenario, "--report"),
        prepare=lambda: report.unlink(missing_ok=True),
        count=lambda log: count.molecule(log.read_text(errors="replace")) + count.junit(report),
        needs=images_of((ROOT / "molecule" / scenario / "fleet.yml").read_text()),
        lock="molecule",
        env={"MOLECULE_GLOB": "molecule/*/molecule.yml", "MOLECULE_EPHEMERAL_DIRECTORY": str(BUILD / "molecule" / scenario)},
    )


def scenarios() -> list[str]:
    return sorted(path.parent.name for path in ROOT.glob("molecule/*/molecule.yml"))


def on_the_newest(stage: Stage) -> Stage:
    """Return the stage with nodes of the moving release. No other release may replace the moving release in this stage."""
    (release,) = rootfs.releases(moving=True)
    env = {**stage.env, images.REPLACE: f"{Node.image}={release}"}
    return replace(stage, name=f"{stage.name}{NEWEST}", needs=("images", "images-moving"), env=env)


def newest() -> list[Stage]:
    """Return the stages with the newest Docker. The fleet of a test file has a fixed name. So stages with the same test file share a lock."""
    e2e = pytest(f"e2e{NEWEST}", *E2E_NEWEST, f"--name=e2e{NEWEST}", lock="e2e-health", timeout_s=RARE_LIMIT_S)
    return [replace(on_the_newest(e2e), name=e2e.name), *(on_the_newest(molecule(scenario)) for scenario in MOLECULE_NEWEST)]


# Unit tests of the repository's tools and texts, which run only with build/venv.
OF_TEXTS = ("code_blocks", "links", "platforms", "requirements", "rooms", "texts")
OF_TOOLS = ("bench", "lab", "runner", "site", *(f"test_{name}.py" for name in OF_TEXTS))

# This test calls actions in a way that exists since ansible-core 2.19.
OF_2_19 = ("calls/test_arguments.py",)


def unit_with(core: str, *words: str, **options: object) -> Stage:
    stage = pytest(f"unit-{core}", *OFTEN, *words, "tests/unit", timeout_s=RARE_LIMIT_S, **options)
    return replace(stage, command=[PYTHON, "-m", "tests.runner.cores", core, "python", *stage.command[1:]])


def ends() -> list[Stage]:
    """Return the rare stages with the oldest and newest ansible-core, and the oldest Python of nodes. Their rare tests run only in `unit`."""
    others, newer = ([f"--ignore=tests/unit/{name}" for name in names] for names in (OF_TOOLS, OF_2_19))
    sanity = [PYTHON, "-m", "tests.runner.sanity"]
    return [
        unit_with("oldest", *others, *newer),
        unit_with("newest", *others),
        unit_with("python38", "-p", "python38", env={"PYTHONPATH": str(ROOT / "tests" / "runner" / "python38")}),
        Stage("sanity-oldest", [*sanity, "oldest"]),
        Stage("sanity-newest", [*sanity, "newest"]),
        Stage("sanity-python38", [*sanity, "oldest", "--python", "3.8", "--test", "import", "--test", "compile"]),
    ]


def stages(*, rare: bool = False) -> list[Stage]:
    """Return all stages: first the shortest, then the longest, so that the run does not end with one long stage alone."""
    limit = {"timeout_s": RARE_LIMIT_S if rare else LIMIT_S}  # a run with rare tests has several times as many tests
    members = E2E_MEMBERS if rare else []
    apart = [*members, *E2E_APART, *E2E_HEALTH, *E2E_ISOLATION, *E2E_RPM, *E2E_SWARM]
    which = () if rare else OFTEN
    return [
        # debootstrap mostly waits for network and disk, so it may run beside the other stages. Stages without a fleet start meanwhile.
        Stage("images", [PYTHON, "-m", "tests.runner.images"], setup=True, background=True, timeout_s=1800),
        # Debian testing changes and can be broken on any day. Then nodes get another release.
        Stage("images-moving", [PYTHON, "-m", "tests.runner.images", "--moving"], setup=True, background=True, spare=True, needs=("images",)),
        Stage("ruff", tool("ruff", "check", ".")),
        Stage("vermin-nodes", vermin("3.8", NODE_CODE, "--exclude=tomllib")),
        Stage("vermin-controller", vermin("3.10", CONTROLLER_CODE)),
        Stage("shellcheck", tool("shellcheck", ".ci/run", "tests/setup.sh", *(f"tests/lab/{name}" for name in LAB_SCRIPTS))),
        pytest("e2e", *which, E2E, *(f"--ignore={path}" for path in apart), needs=("images",), **limit),
        *([pytest("e2e-members", *members, "--name=e2e-members", needs=("images",), **limit)] if members else ()),
        pytest("e2e-apart", *which, *E2E_APART, needs=("images", "images-moving") if rare else ("images",), **limit),
        pytest("e2e-health", *which, *E2E_HEALTH, needs=("images",), lock="e2e-health", **limit),
        pytest("e2e-isolation", *which, *E2E_ISOLATION, needs=("images", "images-moving"), **limit),
        pytest("e2e-rpm", *which, *E2E_RPM, needs=("images", "images-moving") if rare else ("images",), **limit),
        # A short run; `make chaos` runs longer.
        pytest("chaos", "tests/chaos", needs=("images",), env={"KILLS": "1"}),
        pytest("unit", *which, "tests/unit"),
        # Together these stages take half as long as the first one.
        *(molecule(name) for name in scenarios() if rare or name not in MOLECULE_RARE),
        pytest("e2e-swarm", *which, *E2E_SWARM, needs=("images",), **limit),
        *(newest() if rare else ()),
        Stage(
            "sanity",
            tool("ansible-test", "sanity", "--python", PYTHON_VERSION, "--color", "no"),
            # The files that users install. The stages of other releases of ansible-core check the whole tree.
            prepare=lambda: tree.prepare_sanity(tree.shipped()),
            cwd=tree.sanity(),
            env={"HOME": str(tree.sanity_home())},
        ),
        pytest("galaxy", "tests/galaxy"),
        pytest("alerts", "tests/alerts"),
        pytest("page", "tests/page"),
        ansible_lint(),
        Stage("docs", tool("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs=self", ".")),
        Stage("docs-site", [PYTHON, "-m", "tests.site"]),
        Stage("mypy", tool("mypy")),
        Stage("yamllint", tool("yamllint", "--strict", ".")),
        Stage("workflows", tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, workflows()))),
        Stage("changelog", tool("antsibull-changelog", "lint")),
        *(ends() if rare else []),
    ]


def workflows() -> list[Path]:
    return sorted((ROOT / ".github" / "workflows").glob("*.yml"))


LAB_SCRIPTS = ("enter/docker", "driver/modprobe", "driver/nvidia-modprobe", "workload/build.sh")
LINTS = ("ruff", "mypy", "vermin-nodes", "vermin-controller", "shellcheck", "yamllint")


def check(files: set[str]) -> list[Stage]:
    """Return the stages for changed files: lint, types, and the affected unit tests except long tests. All other checks take minutes."""
    wanted = {*LINTS, *(["changelog"] if any(path.startswith("changelogs/") for path in files) else [])}
    tests = changed.Tree(ROOT, map(str, tree.files())).concerned(files)
    # Use all cores, because every test may be affected. A few tests take half of the time.
    unit = [pytest("unit", "--numprocesses=auto", "--dist=worksteal", "-m", "not rare and not long", *tests)] if tests else []
    return [*unit, *_lint(files), *(stage for stage in stages() if stage.name in wanted)]


def _lint(files: set[str]) -> list[Stage]:
    """Return the stage that checks the changed files, or all files if one was removed, because any other file may have included it."""
    found = sorted(path for path in files if path.startswith(("playbooks/", "roles/")) and path.endswith(".yml"))
    if not found:
        return []
    return [ansible_lint(*found) if all((ROOT / path).exists() for path in found) else ansible_lint()]


def environment(stage: Stage) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join((str(ENTER), str(BIN), os.environ.get("PATH", os.defpath))),
        "ANSIBLE_COLLECTIONS_PATH": str(BUILD / "collections"),
        # With these variables, tools print no colours, cursor movements or prompts, which a log must not contain.
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONUNBUFFERED": "1",
        # This saves CPU time, which is scarce on two cores. The file explains how.
        "PYTHONPATH": str(ROOT / "tests" / "runner" / "startup"),
        nodes.COMPILED: "1",
        **stage.env,
    }
