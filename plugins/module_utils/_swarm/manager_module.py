# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of modules that talk to a manager: options, the warning about an unprotected API, results and errors.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule

from .._errors import GpuSwarmError
from .manager_options import CONNECTION_OPTIONS, unprotected

Run = Callable[[Mapping[str, Any], bool], Mapping[str, Any]]


def finding_texts(result: Mapping[str, Any]) -> list[str]:
    """Return the texts of a result's findings."""
    return [finding["text"] for finding in result.get("findings", ())]


def main(
    run: Run,
    options: Mapping[str, Any],
    warnings: Callable[[Mapping[str, Any]], Sequence[str]] = finding_texts,
    on_failure: Callable[[GpuSwarmError], Mapping[str, Any]] = lambda problem: {},
) -> None:
    """Run a module: exit with the result of ``run(params, check_mode)``, or fail with its error and the error's details.

    ``options`` are the module's own options. ``warnings`` returns the warnings for a result. By default, the warnings are the result's findings.
    ``on_failure`` returns more fields for a failure.
    """
    module = AnsibleModule(argument_spec=dict(CONNECTION_OPTIONS, **options), supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except GpuSwarmError as exc:
        for text in warnings(exc.details):
            module.warn(text)
        module.fail_json(msg=exc.message, **on_failure(exc), **exc.details)
    for text in [*unprotected(module.params), *warnings(result)]:
        module.warn(text)
    module.exit_json(**result)
