# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that are reached as most machines are: OpenSSH's server, users with sudo, and host keys that are known beforehand."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from . import downloads
from .archive import Files
from .daemon import need
from .digest import content
from .lab import Lab, output

NEEDED = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "nsenter": "util-linux"}
PACKAGES = ["openssh-server", "sudo"]
USER = "ops"  # its sudo needs no password
PROMPTED, PASSWORD = "admin", "sudo-of-the-lab"  # this one's does
KEYS = "/etc/ssh/lab_authorized_keys"
# Where nodes log in: by key alone, with one host key, which the lab has made.
SERVER = f"HostKey /etc/ssh/ssh_host_ed25519_key\nAuthorizedKeysFile {KEYS}\nPasswordAuthentication no\n"
SUDOERS = f"{USER} ALL=(ALL) NOPASSWD: ALL\n{PROMPTED} ALL=(ALL) ALL\n"
# As docs/SCALE.md has it.
ARGUMENTS = "-o ControlMaster=auto -o ControlPersist=10m -o PreferredAuthentications=publickey"
# The fleet's addresses lead somewhere in the lab's network only.
WRAPPER = """\
#!/bin/sh
read -r pid <{pidfile}
exec nsenter --net="/proc/$pid/ns/net" -- "${{0##*/}}" "$@"
"""


def key(release: str) -> str:
    return downloads.key(release, PACKAGES, content(Path(__file__)))


def debs(release: str) -> list[Path]:
    return sorted((downloads.provided(release, "ssh", key(release), PACKAGES, []) / "debs").glob("*.deb"))


def image_files() -> Files:
    """Of every node with sshd."""
    return {"etc/ssh/sshd_config.d/lab.conf": (SERVER.encode(), 0o644), "etc/sudoers.d/lab": (SUDOERS.encode(), 0o440)}


def image_commands(folder: str) -> list[str]:
    """With the packages in that folder. The keys that a package makes would be those of all nodes."""
    return [
        f"dpkg --unpack --force-confold {folder}/*.deb >/dev/null",
        "dpkg --configure --force-confold --pending >/dev/null",
        f"rm -r {folder} /etc/ssh/ssh_host_*",
        "systemctl mask sshd-keygen.service ssh.socket 2>/dev/null",
        f"useradd --create-home --shell /bin/bash {USER}",
        f"useradd --create-home --shell /bin/bash {PROMPTED}",
        f"echo {PROMPTED}:{PASSWORD} | chpasswd",
    ]


_one = threading.Lock()  # nodes are made side by side


def _pair(lab: Lab, name: str) -> Path:
    """A private key; the public one is beside it."""
    need(NEEDED)
    path = lab.root / "ssh" / name
    with _one:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
            subprocess.run(command, check=True, capture_output=True)
    return path


def _public(path: Path) -> str:
    return path.with_name(f"{path.name}.pub").read_text()


def node_files(lab: Lab, container: str) -> Files:
    host = _pair(lab, container)
    return {
        "etc/ssh/ssh_host_ed25519_key": (host.read_bytes(), 0o600),
        "etc/ssh/ssh_host_ed25519_key.pub": (_public(host).encode(), 0o644),
        KEYS.lstrip("/"): (_public(_pair(lab, "user")).encode(), 0o644),
    }


def _sockets(lab: Lab, fleet: str) -> Path:
    """Of connections that are kept: a short path, since that of a socket may have 107 characters."""
    return lab.run / f"cp-{fleet}"


def write(lab: Lab, fleet: str, hosts: dict[str, tuple[str, str]]) -> None:
    """What a client needs; of each host its container and its address."""
    folder = output(fleet)
    lines = [f"{address} {_public(_pair(lab, container))}" for container, address in hosts.values()]
    (folder / "known_hosts").write_text("".join(lines))
    # A file, since the ssh that goes to a jump host is given no other of these options.
    config = {
        "IdentityFile": _pair(lab, "user"),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": folder / "known_hosts",
        "StrictHostKeyChecking": "yes",
    }
    (folder / "ssh_config").write_text("".join(f"{key_} {value}\n" for key_, value in config.items()))
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("ssh", "sftp", "scp"):
        program = folder / "bin" / name
        program.write_text(WRAPPER.format(pidfile=lab.pidfile))
        program.chmod(0o755)


def variables(lab: Lab, fleet: str) -> dict[str, Any]:
    """Of an inventory, in place of those by which its hosts are reached otherwise."""
    folder = output(fleet)
    programs = {f"ansible_{name}_executable": str(folder / "bin" / name) for name in ("ssh", "sftp", "scp")}
    return {
        "ansible_connection": "ssh", "ansible_user": USER, "ansible_host_key_checking": True,
        "ansible_ssh_args": ARGUMENTS, "ansible_ssh_common_args": f"-F {folder / 'ssh_config'}",
        "ansible_control_path_dir": str(_sockets(lab, fleet)), **programs,
    }  # fmt: skip


def release(lab: Lab, fleet: str) -> None:
    """Connections that are kept would otherwise be there for a fleet that comes after this one, and has its addresses."""
    for socket in _sockets(lab, fleet).glob("*"):
        subprocess.run(["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "lab"], capture_output=True, check=False)
    shutil.rmtree(_sockets(lab, fleet), ignore_errors=True)
