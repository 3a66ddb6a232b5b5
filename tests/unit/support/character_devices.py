# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that look like character devices of a machine, because only root can make real ones."""

from __future__ import annotations

import os
import stat
from types import SimpleNamespace

PROC_DEVICES = """\
Character devices:
  1 mem
 10 misc
195 nvidia
226 drm
236 nvidia-caps
511 nvidia-uvm
237 vfio

Block devices:
  7 loop
"""


class Devices:
    """The devices below ``root``. ``os.lstat`` shows them while ``monkeypatch`` holds."""

    def __init__(self, root, monkeypatch):
        self._root = root
        self._numbers = {}
        real = os.lstat

        def lstat(path, **options):
            status, number = real(path, **options), self._numbers.get(str(path))
            if number is None:
                return status
            mode = stat.S_IFCHR | stat.S_IMODE(status.st_mode)
            return SimpleNamespace(st_mode=mode, st_rdev=number, st_uid=status.st_uid, st_gid=44)

        monkeypatch.setattr(os, "lstat", lstat)
        (root / "proc").mkdir(exist_ok=True)
        (root / "proc/devices").write_text(PROC_DEVICES)
        (root / "dev").mkdir(exist_ok=True)

    def add(self, path, major, minor, mode=0o660):
        file = self._root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.chmod(mode)
        self._numbers[str(file)] = os.makedev(major, minor)

    def vendor(self, major, minor, text):
        """Write the PCI vendor of a device."""
        file = self._root / f"sys/dev/char/{major}:{minor}/device/vendor"
        file.parent.mkdir(parents=True)
        file.write_text(text)
