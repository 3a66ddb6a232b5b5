# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service's one command. Private to this collection: no stability is promised to others."""

from __future__ import annotations

import json
import os
import sys

from .._metrics.keeper import Keeper
from .._program.lifetime import say
from .leader_claims import LeaderClaims
from .service import Service


def main() -> None:
    home = os.path.dirname(os.path.abspath(sys.argv[0]))  # a link: what the service was started with
    with open(os.path.join(home, "settings.json"), encoding="utf-8") as stream:
        settings = json.load(stream)
    Service(settings, [LeaderClaims(say), Keeper(settings["metrics_directory"], say)]).run()
