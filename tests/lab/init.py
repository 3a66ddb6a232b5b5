# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Process 1 of a lab's namespaces. It runs dockerd and the package repository.

When this process ends, the kernel ends every process below it. With the last process, the network (bridge, firewall rules, forwarding) and the mounts
disappear. So a lab leaves no trace, even if it is killed.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path


def mount(*arguments: str) -> None:
    subprocess.run(["mount", "--no-mtab", *arguments], check=True)


def own_run(run: Path) -> None:
    """Mount a separate /run with only the lab's folder in it.

    dockerd and containerd use fixed paths in /run. With the host's /run, they would find the host's containerd, and the host would find files of the
    lab.
    """
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    outside = Path("/mnt/outside")
    outside.mkdir()
    mount("--bind", str(run), str(outside))
    inside = Path("/mnt/run")
    inside.mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(inside))
    (inside / run.name).mkdir()
    mount("--move", str(outside), str(inside / run.name))
    mount("--move", str(inside), "/run")
    subprocess.run(["umount", "/mnt"], check=True)


def own_settings(root: Path) -> None:
    """Mount a folder of the lab over /etc/docker, because dockerd 20.10 writes a key there. Hide AppArmor, or dockerd would load a profile."""
    mount("--bind", str(root / "etc-docker"), "/etc/docker")
    if Path("/sys/kernel/security/apparmor").exists():
        mount("-t", "tmpfs", "tmpfs", "/sys/kernel/security")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # apt requests many files over one connection

    def log_message(self, *_arguments: object) -> None:
        pass


def serve(folder: Path) -> None:
    server = http.server.ThreadingHTTPServer(("", 80), partial(QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(root: Path, run: Path) -> int:
    own_run(run)
    own_settings(root)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Nodes send DNS queries to this address, which refuses them. By default, the kernel would send only one refusal a second.
    Path("/proc/sys/net/ipv4/icmp_ratelimit").write_text("0")
    serve(root / "repository")
    dockerd = subprocess.Popen(["dockerd", "--config-file", str(root / "daemon.json")])
    while True:  # process 1 inherits orphaned processes and must reap them
        pid, status = os.wait()
        if pid == dockerd.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
