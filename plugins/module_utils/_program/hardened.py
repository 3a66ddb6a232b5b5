# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the text of a service's unit, with the limits of every service of this collection (pure).

systemd before 247 does not know some of these keys. Such a systemd logs a warning for each unknown key and starts the service.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

# The limits of every service. /home and /root stay readable, because the path of Python or of a setting may lead there. ReadOnlyPaths is used instead
# of ProtectControlGroups. ProtectControlGroups mounts a new /proc, which lacks the mounts below the machine's /proc. Both ProtectControlGroups and
# ProtectKernelTunables leave /run writable.
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
# Further limits for a service that needs only sockets and files. The directory of metrics may belong to node_exporter's user. root cannot write
# there without CAP_DAC_OVERRIDE.
SOCKETS_ONLY = """\
CapabilityBoundingSet=CAP_DAC_OVERRIDE
PrivateNetwork=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
RestrictNamespaces=yes
"""


class Unit(NamedTuple):
    """The unit of one service.

    ``service``: the service's own lines of [Service]. ``writable``: the paths where the service may write. When the service starts, systemd ignores
    paths that do not exist, and follows links. So a link may get another target without a change of the unit. But systemd ignores a link below
    another writable directory. ``families``: the kinds of sockets. ``more``: further limits.
    """

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
