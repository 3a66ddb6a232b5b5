# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the timer starts on each manager: on the one that leads, it removes what is over.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import sys

from .._errors import GpuSwarmError
from .._printable import printable
from .._swarm.manager import connect
from . import logs
from .prune import prune

CONNECTION = {
    "tls": False, "validate_certs": False, "ca_path": None, "client_cert": None, "client_key": None, "api_version": "auto", "timeout": 60,
}  # fmt: skip


def main() -> int:
    home = os.path.dirname(os.path.abspath(sys.argv[0]))  # a link, beside the settings
    with open(os.path.join(home, "settings.json"), encoding="utf-8") as stream:
        settings = json.load(stream)
    logs.sweep(settings["log_directory"])
    try:
        manager = connect(dict(CONNECTION, docker_host="unix://%s" % settings["docker_socket"]))
        if not any(node["ID"] == manager.node_id and (node.get("ManagerStatus") or {}).get("Leader") for node in manager.nodes()):
            return 0
        done = prune(manager, {"services": None, "labels": None, "holder": None, **settings}, False)
    except GpuSwarmError as problem:
        sys.stderr.write("%s\n" % printable(problem.message))
        return 1
    for name in done.removed:
        sys.stdout.write("removed %s\n" % printable(name))
    for name, stays in done.kept:
        if stays.unsaved:
            sys.stderr.write("%s\n" % printable("%s stays: %s" % (name, stays.reason)))
    return 0
