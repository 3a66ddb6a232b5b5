# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of `make test` and `make test-all`, in the order in which they are started."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from tests.lab import images, nodes, rootfs
from tests.lab.fleet import Node

from . import changed, count, tree
from .model import BIN, BUILD, OUT, ROOT, Stage

PYTHON = str(BIN / "python")
ENTER = ROOT / "tests" / "lab" / "enter"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# What is sent to the nodes, and what stays on the controller: each with the oldest Python it may meet.
NODE_CODE = ["plugins/modules", "plugins/module_utils"]
CONTROLLER_CODE = ["plugins/action", "plugins/filter", "plugins/plugin_utils"]


def tool(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


# The end-to-end tests, by the fleet that they run on. What stands in no list is in the stage `e2e`. So are those of MEMBERS, but for runs
# with rare tests, in which one fleet would be at work for longer than all others together: they have a second one of the same kind there.
E2E = "tests/e2e"
MEMBERS = ("jobs", "lost", "maintain", "provision", "remove", "secrets", "toml_agreement", "verify", "versions")
E2E_MEMBERS = [f"{E2E}/test_{name}.py" for name in MEMBERS]
E2E_SWARM = [f"{E2E}/test_swarm_faults.py", f"{E2E}/test_leader_changes.py"]
# Each of these has small fleets of its own, or none.
APART = (
    "air_gap", "controllers", "deprovision", "execution_environment", "leave_no_trace", "recipes", "repository_packages", "rpm", "ssh", "two_swarms",
    "upgrade",
)  # fmt: skip
E2E_APART = [f"{E2E}/test_{name}.py" for name in APART]
E2E_HEALTH = [f"{E2E}/test_health.py"]
# Where each node image has been made: those with a node of Debian's testing suite, and what compares the images with the docs.
E2E_ISOLATION = [f"{E2E}/test_{name}.py" for name in ("isolation", "listed_versions", "releases")]
E2E_RPM = [f"{E2E}/test_rpm_nodes.py", f"{E2E}/test_dnf5_nodes.py"]


# Combinations that are rare, and examples that take long, carry the mark `rare`: they run in `make test-all`.
OFTEN = ("-m", "not rare")
# What hangs is ended. On a slow day the longest stage took 65 minutes with its rare tests.
LIMIT_S, RARE_LIMIT_S = 3600, 7200
# What runs on Docker 20.10 and 26.1 otherwise, on the newest there is in place of 26.1.
NEWEST = "-newest"
E2E_NEWEST = [f"{E2E}/test_{name}.py" for name in ("versions", "health")]
MOLECULE_NEWEST = ("policies", "health")
# tests/e2e/test_health.py and test_isolation.py try the same on other nodes, of which a part is in `make test`.
MOLECULE_RARE = ("health", "isolation")


def pytest(name: str, *words: str, **options: object) -> Stage:
    report = OUT / f"{name}.xml"
    command = [PYTHON, "-m", "pytest", "-p", "no:cacheprovider", *words, f"--junitxml={report}"]
    return Stage(name, command, count=lambda _log: count.junit(report), **options)  # type: ignore[arg-type]


def images_of(fleet: str) -> tuple[str, ...]:
    """What is to be there before a fleet of this description is booted."""
    return ("images", "images-moving") if any(f"image: {release}" in fleet for release in rootfs.releases(moving=True)) else ("images",)


def ansible_lint(*files: str) -> Stage:
    """Of these files and what they include, else of all."""
    return Stage("ansible-lint", tool("ansible-lint", "--profile", "production", "--strict", "--offline", "--nocolor", *files))


def vermin(version: str, paths: list[str], *more: str) -> list[str]:
    present = [path for path in paths if (ROOT / path).exists()]
    return tool("vermin", f"--target={version}-", "--no-tips", "--violations", *more, *present)


def molecule(scenario: str) -> Stage:
    """A scenario's actions are tests, and so are its testinfra tests."""
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
    """The same, of no other release where that one cannot be had: this is what such a stage is for."""
    (release,) = rootfs.releases(moving=True)
    env = {**stage.env, images.REPLACE: f"{Node.image}={release}"}
    return replace(stage, name=f"{stage.name}{NEWEST}", needs=("images", "images-moving"), env=env)


def newest() -> list[Stage]:
    """Fleets of a file have names of their own: what has the same one has a lock."""
    e2e = pytest(f"e2e{NEWEST}", *E2E_NEWEST, f"--name=e2e{NEWEST}", lock="e2e-health", timeout_s=RARE_LIMIT_S)
    return [replace(on_the_newest(e2e), name=e2e.name), *(on_the_newest(molecule(scenario)) for scenario in MOLECULE_NEWEST)]


# Unit tests of this repository's own tools and texts, which run with build/venv alone.
OF_TOOLS = ("bench", "lab", "runner", *(f"test_{name}.py" for name in ("links", "platforms", "requirements", "rooms", "texts")))

# An action is called for the arguments of its task as of ansible-core 2.19.
OF_2_19 = ("calls/test_arguments.py",)


def unit_with(core: str, *words: str, **options: object) -> Stage:
    stage = pytest(f"unit-{core}", *OFTEN, *words, "tests/unit", timeout_s=RARE_LIMIT_S, **options)
    return replace(stage, command=[PYTHON, "-m", "tests.runner.cores", core, "python", *stage.command[1:]])


def ends() -> list[Stage]:
    """The oldest and the newest ansible-core, and the oldest Python of nodes; rare. What is rare among their tests runs in `unit` alone."""
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
    """After what takes seconds come the longest first, so that none of them is what all others have been waiting for."""
    limit = {"timeout_s": RARE_LIMIT_S if rare else LIMIT_S}  # with several times as many tests
    members = E2E_MEMBERS if rare else []
    apart = [*members, *E2E_APART, *E2E_HEALTH, *E2E_ISOLATION, *E2E_RPM, *E2E_SWARM]
    which = () if rare else OFTEN
    return [
        # debootstrap mostly waits for the network and the disk: it may run beside the rest. What needs no fleet begins meanwhile.
        Stage("images", [PYTHON, "-m", "tests.runner.images"], setup=True, background=True, timeout_s=1800),
        # Debian's testing suite moves, and can be broken on any day: nodes are of another release then.
        Stage("images-moving", [PYTHON, "-m", "tests.runner.images", "--moving"], setup=True, background=True, spare=True, needs=("images",)),
        Stage("ruff", tool("ruff", "check", ".")),
        Stage("vermin-nodes", vermin("3.8", NODE_CODE, "--exclude=tomllib")),
        Stage("vermin-controller", vermin("3.10", CONTROLLER_CODE)),
        Stage("shellcheck", tool("shellcheck", ".ci/run", "tests/setup.sh", *(f"tests/lab/{name}" for name in LAB_SCRIPTS))),
        pytest("e2e", *which, E2E, *(f"--ignore={path}" for path in apart), needs=("images",), **limit),
        *([pytest("e2e-members", *members, "--name=e2e-members", needs=("images",), **limit)] if members else ()),
        pytest("e2e-apart", *which, *E2E_APART, needs=("images",), **limit),
        pytest("e2e-health", *which, *E2E_HEALTH, needs=("images",), lock="e2e-health", **limit),
        pytest("e2e-isolation", *which, *E2E_ISOLATION, needs=("images", "images-moving"), **limit),
        pytest("e2e-rpm", *which, *E2E_RPM, needs=("images", "images-moving") if rare else ("images",), **limit),
        # In short; `make chaos` goes on for longer.
        pytest("chaos", "tests/chaos", needs=("images",), env={"KILLS": "1"}),
        pytest("unit", *which, "tests/unit"),
        # Together these take half as long as the first.
        *(molecule(name) for name in scenarios() if rare or name not in MOLECULE_RARE),
        pytest("e2e-swarm", *which, *E2E_SWARM, needs=("images",), **limit),
        *(newest() if rare else ()),
        Stage(
            "sanity",
            tool("ansible-test", "sanity", "--python", PYTHON_VERSION, "--color", "no"),
            # Of what users install. In the stages of other releases of ansible-core it is the whole tree.
            prepare=lambda: tree.prepare_sanity(tree.shipped()),
            cwd=tree.sanity(),
            env={"HOME": str(tree.sanity_home())},
        ),
        pytest("galaxy", "tests/galaxy"),
        pytest("alerts", "tests/alerts"),
        ansible_lint(),
        Stage("docs", tool("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs=self", ".")),
        Stage("mypy", tool("mypy")),
        Stage("yamllint", tool("yamllint", "--strict", ".")),
        Stage("changelog", tool("antsibull-changelog", "lint")),
        *(ends() if rare else []),
    ]


LAB_SCRIPTS = ("enter/docker", "driver/modprobe", "driver/nvidia-modprobe")
LINTS = ("ruff", "mypy", "vermin-nodes", "vermin-controller", "shellcheck", "yamllint")


def check(files: set[str]) -> list[Stage]:
    """Of what changed: lint, types and the unit tests that it concerns, but for long ones. The rest of what is checked takes minutes."""
    wanted = {*LINTS, *(["changelog"] if any(path.startswith("changelogs/") for path in files) else [])}
    tests = changed.Tree(ROOT, map(str, tree.files())).concerned(files)
    # On each core, since every test may be concerned; a few of them take half of the time.
    unit = [pytest("unit", "--numprocesses=auto", "--dist=worksteal", "-m", "not rare and not long", *tests)] if tests else []
    return [*unit, *_lint(files), *(stage for stage in stages() if stage.name in wanted)]


def _lint(files: set[str]) -> list[Stage]:
    """Of a file that is gone it is not known what includes it."""
    found = sorted(path for path in files if path.startswith(("playbooks/", "roles/")) and path.endswith(".yml"))
    if not found:
        return []
    return [ansible_lint(*found) if all((ROOT / path).exists() for path in found) else ansible_lint()]


def environment(stage: Stage) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join((str(ENTER), str(BIN), os.environ.get("PATH", os.defpath))),
        "ANSIBLE_COLLECTIONS_PATH": str(BUILD / "collections"),
        # Tools look at these to decide on colours, cursor tricks and questions; a log wants none of them.
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONUNBUFFERED": "1",
        # What only saves CPU, of which two cores have too little: see there.
        "PYTHONPATH": str(ROOT / "tests" / "runner" / "startup"),
        nodes.COMPILED: "1",
        **stage.env,
    }
