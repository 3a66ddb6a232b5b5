# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/STACK_CHECKS.md, made of the table of what Docker refuses only while it deploys a stack."""

from __future__ import annotations

from plugins.plugin_utils._stack.checks import CHECKS

from .blocks import table

HEAD = """\
<!-- Made by `python -m tests.pages` from plugins/plugin_utils/_stack/checks.py; edit that. -->
# What is checked before a stack is deployed

`docker stack deploy` makes networks, secrets and configs, and only then converts and creates the services, one after the other. What it refuses there
leaves a stack half made. So `deploy` checks each row of this table first, also with `--check`: then nothing is deployed, and one message names
the service, the key and the value.

`tests/unit/stack/test_checks.py` has a file for each row, and `tests/e2e/test_deploy_checks.py` gives it to Docker itself, which has to refuse it.

On managers with Docker 23.0 or newer, `docker stack config` reads the file as well, before anything is made.

Someone else may take a port or a name between the check and the deployment. Then the message names what was made. If the stack is new, that is
removed again.

"""
COLUMNS = ("row", "refused", "Docker checks it in", "since")


def page() -> str:
    return HEAD + table(COLUMNS, ((f"`{check.id}`", check.what, check.docker, check.since or "20.10") for check in CHECKS))
