# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the files that Ansible needs for a fleet: an inventory, settings, and environment variables for a shell."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from . import daemon, ssh
from .fleet import GROUPS, Fleet
from .lab import CHECKOUT, Lab, LabError, output
from .nodes import container_name
from .packages import URL, fingerprint

# Forks: the nodes share this machine's cores with the controller, so more forks would only slow each other down.
ANSIBLE_CFG = """\
[defaults]
inventory = inventory.yml
forks = 12
host_key_checking = False
interpreter_python = /usr/bin/python3

[connection]
pipelining = True
"""


SSH = "inventory-ssh.yml"


def inventory(lab: Lab, fleet: Fleet, addresses: dict[str, str]) -> dict[str, Any]:
    hosts = {
        node.name: {"ansible_host": container_name(fleet.name, node.name), "lab_address": addresses[node.name], **node.vars} for node in fleet.nodes
    }
    groups: dict[str, Any] = {group: {"hosts": {n.name: {} for n in fleet.nodes if group in n.groups}} for group in GROUPS}
    common = {
        "ansible_connection": "community.docker.docker",
        # Tasks run as root already, and the nodes have no sudo. So "become: true" must do nothing. "ansible_user" would do the same, but then the
        # connection plugin calls docker twice more in each task, to find out whether docker supports it.
        "ansible_become": False,
        "ansible_docker_extra_args": f"--host {lab.docker_host}",
        "ansible_python_interpreter": "/usr/bin/python3",
        "nvidia_container_toolkit_repository": URL,
        "nvidia_container_toolkit_key_fingerprint": fingerprint(lab),
        **fleet.vars,
    }
    return {"all": {"vars": common, "hosts": hosts, "children": groups}}


def over_ssh(lab: Lab, fleet: Fleet, addresses: dict[str, str]) -> dict[str, Any]:
    """Write an inventory of the same hosts for a user with sudo."""
    found = inventory(lab, fleet, addresses)["all"]
    others = ("ansible_connection", "ansible_become", "ansible_docker_extra_args")
    common = {**ssh.variables(lab, fleet.name), **{key: value for key, value in found["vars"].items() if key not in others}}
    hosts = {name: {**words, "ansible_host": addresses[name]} for name, words in found["hosts"].items()}
    return {"all": {**found, "vars": common, "hosts": hosts}}


def _owner(name: str) -> Lab | None:
    try:
        return Lab(Path((output(name) / "lab").read_text().strip()))
    except OSError:
        return None


def claim(lab: Lab, name: str) -> None:
    """Fail if a fleet of this name is up in a lab with another root, because build/lab/NAME belongs to one lab at a time."""
    other = _owner(name)
    if other and other != lab and is_up(other, name):
        raise LabError(f"a fleet named {name} is up in the lab with root {other.root}; give another --name")


def release(lab: Lab, name: str) -> None:
    if _owner(name) == lab:
        ssh.release(lab, name)
        shutil.rmtree(output(name))


def is_up(lab: Lab, name: str) -> bool:
    """Return whether the fleet is up. A record alone is no proof, because the machine may have been switched off since."""
    return record(lab, name).exists() and daemon.running(lab)


def record(lab: Lab, name: str) -> Path:
    return lab.fleets / f"{name}.json"


def write(lab: Lab, fleet: Fleet, addresses: dict[str, str]) -> Path:
    folder = output(fleet.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lab").write_text(f"{lab.root}\n")
    document = yaml.safe_dump(inventory(lab, fleet, addresses), sort_keys=False)
    (folder / "inventory.yml").write_text(document)
    if all(node.ssh for node in fleet.nodes):
        ssh.write(lab, fleet.name, {node.name: (container_name(fleet.name, node.name), addresses[node.name]) for node in fleet.nodes})
        (folder / SSH).write_text(yaml.safe_dump(over_ssh(lab, fleet, addresses), sort_keys=False))
    (folder / "ansible.cfg").write_text(ANSIBLE_CFG)
    (folder / "env").write_text(environment(lab, folder))
    record(lab, fleet.name).touch()
    return folder / "inventory.yml"


def variables(lab: Lab, folder: Path) -> dict[str, str]:
    return {
        "DOCKER_HOST": lab.docker_host,
        "GPU_SWARM_LAB_ROOT": str(lab.root),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
    }


def environment(lab: Lab, folder: Path) -> str:
    """Return the environment for a shell, with the programs of the development environment in PATH."""
    path = f"export PATH={CHECKOUT / 'build' / 'venv' / 'bin'}:$PATH\n"
    return "".join(f"export {name}={value}\n" for name, value in variables(lab, folder).items()) + path
