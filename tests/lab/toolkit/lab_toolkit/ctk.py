# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-ctk: `--version`, `config`, `cdi generate` and `list`, and `system create-device-nodes`.

Each assessment of a node runs `--version`. It must be as fast as the real program, which is a binary."""

from __future__ import annotations

import sys

from . import versions

COMMIT = "0000000000000000000000000000000000000000"


def main(argv: list[str]) -> int:
    version = versions.installed()
    while argv and argv[0] in ("--quiet", "-q", "--debug", "-d"):
        argv = argv[1:]
    if argv[:1] in (["--version"], ["-v"]):
        print(f"NVIDIA Container Toolkit CLI version {version}\ncommit: {COMMIT}")
        return 0
    from . import cdi, config, ctk_config, devices, system  # imported here, because these imports take longer than everything else

    try:
        if argv[:1] in (["system"], ["cdi"]):
            {"system": system, "cdi": cdi}[argv[0]].run(argv[1:], version)
            return 0
        if argv[:1] != ["config"]:
            raise ctk_config.Invalid(f"the lab's stand-in does not have this command; {ctk_config.USAGE}")
        ctk_config.run(argv[1:], version)
    except (ctk_config.Invalid, config.ConfigError, system.Failed, devices.Refused, OSError) as error:
        print(f'level=error msg="{error}"', file=sys.stderr)
        return 1
    return 0
