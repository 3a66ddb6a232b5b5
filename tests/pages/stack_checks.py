# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/reference/stack-checks.md from a table in the code: the errors that Docker reports only during a deployment."""

from __future__ import annotations

from plugins.plugin_utils._stack.deploy_checks import CHECKS

from .blocks import table

HEAD = """\
<!-- Made by `python -m tests.pages` from plugins/plugin_utils/_stack/deploy_checks.py; edit that. -->
# What is checked before a stack is deployed

`docker stack deploy` first makes networks, secrets and configs, and then creates the services, one after the other. If it refuses a service,
the parts that it has made stay behind. So `fleet.gpu_swarm.deploy` ([before a deployment](../run/deploy.md#before)) checks each row
of this table first, also with `--check`. If a row applies, nothing is deployed, and one message names the service, the key and the value.

`tests/unit/stack/test_deploy_checks.py` has a Compose file for each row. `tests/e2e/test_deploy_checks.py` gives these files to Docker itself, which
refuses them, unless the row says that Docker accepts it.

The last column names the first release of Docker that behaves so. 20.10 is the oldest supported release.

On managers with Docker 23.0 or newer, `docker stack config` reads the file as well, before anything is made.

Someone else may take a port or a name between the check and the deployment. Then Docker refuses, and the message names what it had made by
then. If the stack is new, these parts are removed again.

"""
COLUMNS = ("row", "refused", "Docker checks it in", "since")


def page() -> str:
    return HEAD + table(COLUMNS, ((f"`{check.id}`", check.what, check.docker, check.since or "20.10") for check in CHECKS))
