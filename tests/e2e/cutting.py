# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet whose connections to hosts can be cut."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .fleet import Fleet, Run, community_docker

# This code is appended to the connection plugin of the lab's inventory. The plugin then loses the connection to each host in the file LAB_CUT. If the
# file lists a host as HOST:once, only one call to this host is lost.
CUT = """

def is_cut(host):
    with open(os.environ["LAB_CUT"], "r+", encoding="utf-8") as file:
        listed = file.read().split()
        if host + ":once" in listed:
            file.seek(0)
            file.truncate()
            file.write(" ".join(one for one in listed if one != host + ":once"))
            return True
        return host in listed


def unless_cut(exec_command):
    def run(self, *arguments, **options):
        if is_cut(self.get_option("remote_addr")):
            raise AnsibleConnectionFailure("no route to host")
        return exec_command(self, *arguments, **options)
    return run


Connection.exec_command = unless_cut(Connection.exec_command)
"""


class Cutter:
    """Return an inventory whose hosts can be cut off, and the environment for it."""

    def __init__(self, fleet: Fleet, work: Path) -> None:
        plugin = community_docker() / "plugins" / "connection" / "docker.py"
        (work / "connection").mkdir()
        (work / "connection" / "cuttable.py").write_text(plugin.read_text() + CUT)
        self.fleet, self.list = fleet, work / "cut"
        self.env = {"ANSIBLE_CONNECTION_PLUGINS": str(work / "connection"), "LAB_CUT": str(self.list)}
        self.cut()

    def cut(self, *hosts: str) -> None:
        self.list.write_text(" ".join(hosts))

    def task(self, name: str, *hosts: str) -> dict[str, Any]:
        """Return a task that cuts off these hosts on the host ``name``."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        cut = {"dest": str(self.list), "content": " ".join(hosts), "mode": "0600"}
        when = f"inventory_hostname == '{name}'"
        return {"name": "The way to it is lost", "ansible.builtin.copy": cut, "when": when, "delegate_to": "localhost", "vars": local}

    def inventory(self, *more_managers: str) -> Path:
        groups = {"swarm_managers": ["m1", *more_managers], "gpu_nodes": ["g1", "g2"]}
        names = [name for members in groups.values() for name in members]
        more = {name: {"ansible_connection": "cuttable", **({} if name in self.fleet.hosts else {"ansible_host": name})} for name in names}
        return self.fleet.inventory(more, **groups)

    def run(self, inventory: Path, *arguments: str, playbook: str = "fleet.gpu_swarm.provision") -> Run:
        return self.fleet.playbook(inventory, *arguments, playbook=playbook, env=self.env)


def meanwhile(run: Callable[[], Run]) -> Future[Run]:
    return ThreadPoolExecutor(1).submit(run)
