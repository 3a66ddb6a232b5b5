# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the text of a service's unit, with the limits of every service of this collection (pure).

systemd before 247 does not know some of these keys. It logs a warning for each and starts the service.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

# The limits of every service. /home and /root stay readable: a Python or a setting may point there. ReadOnlyPaths replaces ProtectControlGroups,
# which mounts another /proc, without the mounts below the machine's own. It also leaves /run writable, and so does ProtectKernelTunables.
_EVERY = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ReadOnlyPaths=-/run -/sys/fs/cgroup
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
MemoryMax=1G
"""
# Further limits, of a service that needs only sockets and files. The directory of metrics may belong to node_exporter's user, and without
# CAP_DAC_OVERRIDE root cannot write there.
SOCKETS_ONLY = """\
CapabilityBoundingSet=CAP_DAC_OVERRIDE
PrivateNetwork=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
RestrictNamespaces=yes
"""


class Unit(NamedTuple):
    """``service``: the lines of [Service] that are the service's own. ``writable``: where it may write, ignored if it does not exist at the start.
    A link is followed then, so where it leads may change without this text; but systemd drops a link below another writable directory.
    ``families``: the kinds of sockets. ``more``: further limits."""

    note: str
    description: str
    service: str
    writable: Sequence[str]
    families: str = "AF_UNIX"
    more: str = ""

    def text(self) -> bytes:
        paths = "".join("ReadWritePaths=%s\n" % quoted("-" + path) for path in self.writable)
        families = "RestrictAddressFamilies=%s\n" % self.families
        head = "# Written by the Ansible collection fleet.gpu_swarm, which overwrites changes. %s\n" % self.note
        unit = "[Unit]\nDescription=%s\nAfter=docker.service\nStartLimitIntervalSec=0\n" % self.description
        service = "\n[Service]\n" + self.service + _EVERY + self.more + families + paths
        return (head + unit + service + "\n[Install]\nWantedBy=multi-user.target\n").encode("utf-8")


def quoted(word: str) -> str:
    """Return a word of a unit with quotes and escapes, so that systemd reads the same word."""
    return '"%s"' % word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
