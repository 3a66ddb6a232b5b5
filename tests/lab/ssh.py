# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that Ansible reaches over SSH, like most machines: OpenSSH's server, users with sudo, known host keys."""

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
USER = "ops"  # may use sudo without a password
PROMPTED, PASSWORD = "admin", "sudo-of-the-lab"  # must type this password for sudo
KEYS = "/etc/ssh/lab_authorized_keys"
# Nodes accept only keys. They share one host key, which the lab makes.
SERVER = f"HostKey /etc/ssh/ssh_host_ed25519_key\nAuthorizedKeysFile {KEYS}\nPasswordAuthentication no\n"
SUDOERS = f"{USER} ALL=(ALL) NOPASSWD: ALL\n{PROMPTED} ALL=(ALL) ALL\n"
# The options that docs/operate/ssh.md recommends.
ARGUMENTS = "-o ControlMaster=auto -o ControlPersist=10m -o PreferredAuthentications=publickey"
# The fleet's addresses are reachable only in the lab's network namespace.
WRAPPER = """\
#!/bin/sh
read -r pid <{pidfile}
exec nsenter --net="/proc/$pid/ns/net" -- "${{0##*/}}" "$@"
"""


def key(release: str) -> str:
    return downloads.key(release, PACKAGES, content(Path(__file__)))


def debs(release: str) -> list[Path]:
    return sorted((downloads.provide(release, "ssh", key(release), PACKAGES, []) / "debs").glob("*.deb"))


def image_files() -> Files:
    """Return the files of every node with sshd."""
    return {"etc/ssh/sshd_config.d/lab.conf": (SERVER.encode(), 0o644), "etc/sudoers.d/lab": (SUDOERS.encode(), 0o440)}


def image_commands(folder: str) -> list[str]:
    """Return the commands that install the packages of a folder. Remove the host keys that the packages make."""
    return [
        f"dpkg --unpack --force-confold {folder}/*.deb >/dev/null",
        "dpkg --configure --force-confold --pending >/dev/null",
        f"rm -r {folder} /etc/ssh/ssh_host_*",
        "systemctl mask sshd-keygen.service ssh.socket 2>/dev/null",
        f"useradd --create-home --shell /bin/bash {USER}",
        f"useradd --create-home --shell /bin/bash {PROMPTED}",
        f"echo {PROMPTED}:{PASSWORD} | chpasswd",
    ]


_key_lock = threading.Lock()  # nodes are created in parallel


def _pair(lab: Lab, name: str) -> Path:
    """Make a pair of keys, unless it exists, and return the path of the private key. The public key is beside the private key."""
    need(NEEDED)
    path = lab.root / "ssh" / name
    with _key_lock:
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
    """Return the folder for sockets of persistent connections. Its path is short, because a socket's path may have at most 107 characters."""
    return lab.run / f"cp-{fleet}"


def write(lab: Lab, fleet: str, hosts: dict[str, tuple[str, str]]) -> None:
    """Write the files of an SSH client. ``hosts`` has the container and the address of each host."""
    folder = output(fleet)
    lines = [f"{address} {_public(_pair(lab, container))}" for container, address in hosts.values()]
    (folder / "known_hosts").write_text("".join(lines))
    # The options are in a file, because the ssh process for a jump host gets none of the options on the command line.
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
    """Return the inventory's variables for SSH. They replace the variables of the default connection."""
    folder = output(fleet)
    programs = {f"ansible_{name}_executable": str(folder / "bin" / name) for name in ("ssh", "sftp", "scp")}
    return {
        "ansible_connection": "ssh", "ansible_user": USER, "ansible_host_key_checking": True,
        "ansible_ssh_args": ARGUMENTS, "ansible_ssh_common_args": f"-F {folder / 'ssh_config'}",
        "ansible_control_path_dir": str(_sockets(lab, fleet)), **programs,
    }  # fmt: skip


def release(lab: Lab, fleet: str) -> None:
    """Close persistent connections. Otherwise a later fleet with the same addresses would use these connections."""
    for socket in _sockets(lab, fleet).glob("*"):
        subprocess.run(["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "lab"], capture_output=True, check=False)
    shutil.rmtree(_sockets(lab, fleet), ignore_errors=True)
