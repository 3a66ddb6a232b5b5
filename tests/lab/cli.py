# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m tests.lab: up, down, exec, nvml, status, demo."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker.models.containers import Container

from . import daemon, demo, fleet, images, inventory, nodes, packages, rpms, ssh
from .lab import Lab, LabError


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def up(lab: Lab, options: argparse.Namespace) -> int:
    start = time.monotonic()
    path = Path(options.file) if options.file else fleet.preset(options.preset)
    settings = dict(item.partition("=")[::2] for item in options.set)
    description = fleet.read(path, options.name, settings)
    inventory.claim(lab, description.name)
    created = _create(lab, description, options.keep)
    say(f"boot: {', '.join(node.name for node in description.nodes)}")
    with _whole(lab, description, options.keep):
        nodes.boot_all(created)
    written = inventory.write(lab, description, nodes.addresses(created))
    say(f"{description.name} is up after {time.monotonic() - start:.1f} s; use: . {written.parent}/env")
    print(written)
    return 0


def _create(lab: Lab, description: fleet.Fleet, keep: bool) -> list[Container]:
    """Create the fleet's nodes without starting them. The lock is needed because all fleets share one dockerd, images and addresses."""
    with daemon.locked(lab):
        daemon.start(lab)
        if nodes.find(lab, description.name):
            raise LabError(f"a fleet named {description.name} is up already; take it down, or give another --name")
        say(f"images: {', '.join(sorted({node.image for node in description.nodes}))} (the first time takes about a minute)")
        description = images.built(description, say)
        releases = {node.image for node in description.nodes}
        images.provide(lab, releases)
        packages.publish(lab, releases)
        rpms.publish(lab, description.nodes)
        nodes.build_driver(lab)
        with _whole(lab, description, keep):
            return nodes.create_all(lab, description)


@contextmanager
def _whole(lab: Lab, description: fleet.Fleet, keep: bool) -> Iterator[None]:
    """If not all nodes of a fleet start, remove the fleet's nodes, unless ``keep`` is set."""
    try:
        yield
    except BaseException:
        if not keep:
            nodes.remove(lab, description.name)
        raise


def down(lab: Lab, options: argparse.Namespace) -> int:
    if not options.all:
        if not options.name:
            raise LabError("which fleet? give its name, or --all for everything, the lab's dockerd too")
        _take_down(lab, options.name)
        return 0
    known = [path.stem for path in lab.fleets.glob("*.json")]
    with daemon.locked(lab):
        for name in known:
            ssh.release(lab, name)
        daemon.wipe(lab)
        shutil.rmtree(lab.run)
    for name in known:
        inventory.release(lab, name)
    return 0


def _take_down(lab: Lab, name: str) -> None:
    if not nodes.remove(lab, name):
        raise LabError(f"no fleet named {name} is up; see: python -m tests.lab status")
    inventory.record(lab, name).unlink(missing_ok=True)
    inventory.release(lab, name)


def run_in_node(lab: Lab, options: argparse.Namespace) -> int:
    container = nodes.get(lab, options.node)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    flags = ["--interactive"] + (["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else [])
    sys.stdout.flush()
    os.execvp("docker", ["docker", "--host", lab.docker_host, "exec", *flags, container.name, *(command or ["bash"])])


def nvml(lab: Lab, options: argparse.Namespace) -> int:
    text = fleet.machine(options.machine, Path.cwd())
    nodes.swap_machine(nodes.get(lab, options.node), text or "")
    return 0


def status(lab: Lab, _options: argparse.Namespace) -> int:
    print(f"root   {lab.root}")
    print(f"docker {lab.docker_host if daemon.running(lab) else 'not running'}")
    if daemon.running(lab):
        found = daemon.client(lab).containers.list(all=True, filters={"label": nodes.FLEET_LABEL})
        for container in sorted(found, key=lambda item: item.name):
            print(f"node   {container.name:20} {container.status:10} {container.image.tags[0]}")
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tests.lab", description="A real fleet on one machine.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add = commands.add_parser("up", help="boot a fleet; prints the path of its inventory")
    source = add.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", help="a description in YAML (a Jinja2 template)")
    source.add_argument("--preset", help="one of tests/lab/presets")
    add.add_argument("--name", help="the fleet's name (default: the description's)")
    add.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a variable of the description")
    add.add_argument("--keep", action="store_true", help="leave the nodes of a fleet that did not boot")
    add.set_defaults(run=up)
    add = commands.add_parser("down", help="remove a fleet, or all of the lab")
    add.add_argument("name", nargs="?")
    add.add_argument("--all", action="store_true", help="every fleet, the lab's dockerd, network and files")
    add.set_defaults(run=down)
    add = commands.add_parser("exec", help="run a command on a node")
    add.add_argument("node")
    add.add_argument("command", nargs=argparse.REMAINDER)
    add.set_defaults(run=run_in_node)
    add = commands.add_parser("nvml", help="put other GPUs under a running node")
    add.add_argument("node")
    add.add_argument("machine", help="a name in tests/lab/nvml/fleet, or a file")
    add.set_defaults(run=nvml)
    add = commands.add_parser("status", help="what is up")
    add.set_defaults(run=status)
    demo.add_to(commands)
    return top


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        daemon.require_root()
        return options.run(Lab.from_environment(), options)
    except LabError as error:
        say(f"lab: {error}")
        return 1
