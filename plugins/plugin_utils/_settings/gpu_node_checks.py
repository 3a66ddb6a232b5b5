# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds values of settings that nodes or managers would refuse (pure). Runs the same checks as the code on the nodes and managers.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...module_utils._compat.checks import check_accepted
from ...module_utils._config.shm_size import check_size
from ...module_utils._errors import GpuSwarmError
from ...module_utils._node.card_metrics_file import check_directory
from ...module_utils._node.node_options import argument_spec
from ...module_utils._policy.data_network import check as check_data_interface
from ...module_utils._policy.offered_devices import check as check_devices
from ...module_utils._policy.rules import check_extra, check_rules
from ...module_utils._queue.queues import check_queues, to_label

ROLE = "gpu_node_"


def refusal(name: str, value: Any) -> str | None:
    """Return why nodes or managers would refuse this value of the right type, or None."""
    if name not in _CHECKS:
        return None
    try:
        text = json.dumps(value, default=str)
    except TypeError:  # YAML allows dates as keys
        return f"{name} has a key that is no text. Put the key in quotes."
    return _refusal(name, text)


@lru_cache(maxsize=256)  # most hosts have the same value
def _refusal(name: str, value: str) -> str | None:
    try:
        _CHECKS[name](json.loads(value))
    except GpuSwarmError as problem:
        text = problem.message
        if text.startswith(name):
            return text
        return f"{ROLE if text.startswith(name.removeprefix(ROLE)) else f'{name}: '}{text}"
    return None


def _check_rules(value: Any) -> None:
    """Check rules as the module does, which accepts numbers written as text."""
    try:
        validation = ArgumentSpecValidator({"advertise": argument_spec()["advertise"]}).validate({"advertise": value})
    except TypeError:  # the validator fails on anything but a mapping
        check_rules(value)
        raise
    check_rules(value if validation.error_messages else _without_nulls(validation.validated_parameters["advertise"]))
    if validation.error_messages:
        raise GpuSwarmError(f"{'. '.join(validation.error_messages)}.")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _check_extra(value: Any) -> None:
    check_extra(value, ())


def _check_queues(value: Any) -> None:
    to_label(check_queues(value))


# The same settings as in validation.CHECKED.
_CHECKS: dict[str, Callable[[Any], None]] = {
    "gpu_node_advertise": _check_rules,
    "gpu_node_extra_resources": _check_extra,
    "gpu_node_accept_risks": check_accepted,
    "gpu_node_textfile": check_directory,
    "gpu_node_data_interface": check_data_interface,
    "gpu_node_devices": partial(check_devices, where="gpu_node_devices"),
    "gpu_swarm_devices": partial(check_devices, where="gpu_swarm_devices"),
    "gpu_node_default_shm_size": check_size,
    "gpu_swarm_queues": _check_queues,
}
