# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks and converts the value of a setting (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._mask import mask
from .declaration import Setting

NOT_SHOWN = "a hidden value"
# Settings whose contents nodes may refuse although the type is right.
CHECKED = frozenset(
    [
        "gpu_node_accept_risks",
        "gpu_node_advertise",
        "gpu_node_data_interface",
        "gpu_node_default_shm_size",
        "gpu_node_devices",
        "gpu_node_extra_resources",
        "gpu_node_textfile",
        "gpu_swarm_devices",
        "gpu_swarm_queues",
    ]
)


def is_template(value: Any) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def is_encrypted(value: Any) -> bool:
    """Return whether the value is encrypted with Ansible Vault. Converting it to text decrypts it."""
    return value is not None and not isinstance(value, (str, int, float, list, tuple, Mapping))


def _decrypted(value: Any) -> Any:
    return str(value) if is_encrypted(value) else value


def contains_template(value: Any) -> bool:
    """Return whether the value is a template, or a list or mapping with a template."""
    if isinstance(value, Mapping):
        return any(map(contains_template, value.values()))
    return any(map(contains_template, value)) if isinstance(value, (list, tuple)) else is_template(value)


def convert(setting: Setting, value: Any) -> Any:
    """Convert a value to the declared type. Empty and invalid values become the default. value_error() reports invalid values."""
    value = _decrypted(value)
    if value in (None, ""):
        return setting.default
    value = with_off_as_text(setting, value)
    try:
        return _CONVERTERS[setting.type](value) if setting.type in _CONVERTERS else value
    except (TypeError, ValueError, OverflowError):
        return setting.default


def with_off_as_text(setting: Setting, value: Any) -> Any:
    """Return 'off' instead of false if 'off' is a choice, because YAML reads off without quotes as false."""
    return "off" if value is False and "off" in setting.choices else value


def _split(value: Any) -> Any:
    return [item.strip() for item in value.split(",")] if isinstance(value, str) else value


# Ansible passes numbers from -e as text and calculated ones as 2.0. It splits text at commas if a list is expected.
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda value: int(float(value)),
    "bool": lambda value: boolean(value, strict=True),
    "str": str,
    "list": _split,
}


def value_error(setting: Setting, value: Any) -> str | None:
    """Return the error of this value, or None. Templates in a list are not evaluated. Encrypted values are not shown."""
    plain = _decrypted(value)
    expected = _expectation(setting, plain)
    if expected is None:
        refusal = _refusal(setting, plain)
        if not refusal or not is_encrypted(value):
            return refusal
        expected = describe_values(setting)
    default = "" if setting.default in (None, "") else f" ({_shown(setting.default)})"
    return f"{setting.name} is {shown(setting, value)}, but must be {expected}. Correct it, or remove it to use the default{default}."


def _refusal(setting: Setting, value: Any) -> str | None:
    """Return why nodes would refuse a value of the right type, or None."""
    if setting.name not in CHECKED or value in (None, "", []):
        return None
    from .gpu_node_checks import refusal  # imported here, because the import takes longer than the check of all other settings

    return refusal(setting.name, convert(setting, value))


def _expectation(setting: Setting, value: Any) -> str | None:
    """Return what the value must be, or None if it is valid."""
    if setting.empty and value in (None, ""):
        return None
    if setting.choices:
        return None if str(with_off_as_text(setting, value)) in setting.choices else describe_values(setting)
    if setting.type == "list":
        return None if value is None or _is_list(value, setting.elements) else describe_values(setting)
    is_type = _TYPE_CHECKS.get(setting.type)
    fits = (is_type is None or is_type(value)) and _is_within(setting, value) and (setting.fits is None or setting.fits(value))
    return None if fits else describe_values(setting)


def _is_list(value: Any, elements: str) -> bool:
    if isinstance(value, str) and elements != "dict":  # Ansible splits it at commas
        value = value.split(",")
    is_type = _TYPE_CHECKS.get(elements)
    return isinstance(value, (list, tuple)) and (is_type is None or all(is_template(item) or is_type(item) for item in value))


def _is_within(setting: Setting, value: Any) -> bool:
    return setting.type != "int" or setting.low <= float(value) <= (float("inf") if setting.high is None else setting.high)


def _is_int(value: Any) -> bool:
    return not isinstance(value, bool) and bool(re.fullmatch(r"-?\d+(\.0)?", str(value).strip()))


def _is_bool(value: Any) -> bool:
    try:
        boolean(value, strict=True)
    except TypeError:
        return False
    return True


def _is_text(value: Any) -> bool:
    return not isinstance(value, (dict, list, tuple))


def _is_dict(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


_TYPE_CHECKS = {"int": _is_int, "bool": _is_bool, "str": _is_text, "path": _is_text, "dict": _is_dict}


def describe_values(setting: Setting) -> str:
    """Describe the allowed values, for example 'true or false'."""
    if setting.choices or setting.wants:
        return setting.wants or _join_with_or(setting.choices)
    if setting.type == "list":
        return f"a list{_describe_elements(setting.elements)}"
    if setting.type == "int":
        limits = f"{setting.low} or more" if setting.high is None else f"{setting.low} to {setting.high}"
        return f"a whole number{f' of {setting.unit}' if setting.unit else ''}, {limits}"
    return {"bool": "true or false", "str": "text", "path": "a path", "dict": "a mapping"}[setting.type]


def _describe_elements(elements: str) -> str:
    return {"int": " of whole numbers", "str": " of strings", "dict": " of mappings"}.get(elements, "")


def _join_with_or(choices: Iterable[Any]) -> str:
    *others, last = [str(choice) for choice in choices]
    return f"{', '.join(others)} or {last}" if others else last


def shown(setting: Setting, value: Any) -> str:
    """Return the value for a message. Mappings are hidden, because they may contain keys and passwords under any name, even if they were written as
    text.
    """
    return NOT_SHOWN if setting.type == "dict" and value not in (None, "") else mask(_shown(value))


def _shown(value: Any) -> str:
    if value in (None, ""):
        return "empty"
    if is_encrypted(value):
        return NOT_SHOWN
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)
