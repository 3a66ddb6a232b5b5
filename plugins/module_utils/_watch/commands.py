# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's commands: ``watch`` runs the service, ``label TEXT`` shows a label to the managers, ``stopped`` runs after the service.

A separate process writes the label, so that the service needs little memory. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    home = os.path.dirname(os.path.abspath(sys.argv[0]))  # do not resolve the link in the path that started the service
    command, words = sys.argv[1], sys.argv[2:]
    if command == "watch":
        from .watch_loop import Service

        Service(home, _settings(home)).run()
    else:
        from . import report

        result = report.stopped(home, _settings(home)) if command == "stopped" else report.write(home, _settings(home), words[0])
        sys.stdout.write(json.dumps(result) + "\n")


def _settings(home: str) -> dict[str, Any]:
    with open(os.path.join(home, "settings.json"), encoding="utf-8") as stream:
        return json.load(stream)
