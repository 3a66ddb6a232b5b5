# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a value is one of a setting (pure): what is wrong with it, in words.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._mask import mask
from .declaration import Setting

NOT_SHOWN = "a value that is not shown"
# Settings whose contents nodes would refuse, though their type is right.
CHECKED = frozenset(("gpu_node_advertise", "gpu_node_extra_resources", "gpu_node_accept_risks"))


def is_template(value: Any) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def is_encrypted(value: Any) -> bool:
    """Whether it is of Ansible Vault, which decrypts it as it is made text."""
    return value is not None and not isinstance(value, (str, int, float, list, tuple, Mapping))


def _decrypted(value: Any) -> Any:
    return str(value) if is_encrypted(value) else value


def contains_template(value: Any) -> bool:
    """Whether it is a template, or a list or mapping with one in it."""
    if isinstance(value, Mapping):
        return any(map(contains_template, value.values()))
    return any(map(contains_template, value)) if isinstance(value, (list, tuple)) else is_template(value)


def converted(setting: Setting, value: Any) -> Any:
    """The value as what its setting is declared to be. Nothing is the default, and so is what is none: problem() reports what is
    wrong with that."""
    value = _decrypted(value)
    if value in (None, ""):
        return setting.default
    value = as_text(setting, value)
    try:
        return _AS[setting.type](value) if setting.type in _AS else value
    except (TypeError, ValueError, OverflowError):
        return setting.default


def as_text(setting: Setting, value: Any) -> Any:
    """YAML reads a bare off as false."""
    return "off" if value is False and "off" in setting.choices else value


def _split(value: Any) -> Any:
    return [item.strip() for item in value.split(",")] if isinstance(value, str) else value


# Ansible has numbers as text where they come from -e, and as 2.0 where they were worked out; it splits text at commas for a list.
_AS: dict[str, Callable[[Any], Any]] = {
    "int": lambda value: int(float(value)),
    "bool": lambda value: boolean(value, strict=True),
    "str": str,
    "list": _split,
}


def problem(setting: Setting, value: Any) -> str | None:
    """What is wrong with this value, in words; None where nothing is. Templates in a list are not evaluated. What is encrypted is not shown."""
    plain = _decrypted(value)
    wanted = _wanted(setting, plain)
    if wanted is None:
        refusal = _refusal(setting, plain)
        if not refusal or not is_encrypted(value):
            return refusal
        wanted = in_words(setting)
    default = "" if setting.default in (None, "") else f" ({_shown(setting.default)})"
    return f"{setting.name} is {shown(setting, value)}, and has to be {wanted}. Set it so, or leave it out for the default{default}."


def _refusal(setting: Setting, value: Any) -> str | None:
    """Why nodes would refuse a value of the right type."""
    if setting.name not in CHECKED or value in (None, "", []):
        return None
    from .on_node import refusal  # which takes longer to load than all other settings to judge

    return refusal(setting.name, converted(setting, value))


def _wanted(setting: Setting, value: Any) -> str | None:
    """What the value has to be and is not, in words."""
    if setting.empty and value in (None, ""):
        return None
    if setting.choices:
        return None if str(as_text(setting, value)) in setting.choices else in_words(setting)
    if setting.type == "list":
        return None if value is None or _is_list(value, setting.elements) else in_words(setting)
    judge = _IS.get(setting.type)
    fits = (judge is None or judge(value)) and _is_within(setting, value) and (setting.fits is None or setting.fits(value))
    return None if fits else in_words(setting)


def _is_list(value: Any, elements: str) -> bool:
    if isinstance(value, str) and elements != "dict":  # Ansible splits it at commas
        value = value.split(",")
    judge = _IS.get(elements)
    return isinstance(value, (list, tuple)) and (judge is None or all(is_template(one) or judge(one) for one in value))


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


_IS = {"int": _is_int, "bool": _is_bool, "str": _is_text, "path": _is_text, "dict": _is_dict}


def in_words(setting: Setting) -> str:
    """What its values have to be."""
    if setting.choices or setting.wants:
        return setting.wants or _either(setting.choices)
    if setting.type == "list":
        return f"a list{_of(setting.elements)}"
    if setting.type == "int":
        limits = f"{setting.low} or more" if setting.high is None else f"{setting.low} to {setting.high}"
        return f"a whole number{f' of {setting.unit}' if setting.unit else ''}, {limits}"
    return {"bool": "true or false", "str": "text", "path": "a path", "dict": "a mapping"}[setting.type]


def _of(elements: str) -> str:
    return {"int": " of whole numbers", "str": " of texts", "dict": " of mappings"}.get(elements, "")


def _either(choices: Iterable[Any]) -> str:
    *others, last = [str(choice) for choice in choices]
    return f"{', '.join(others)} or {last}" if others else last


def shown(setting: Setting, value: Any) -> str:
    """The value as a message may have it. A mapping may contain keys and passwords under any name, also where it was written as text."""
    return NOT_SHOWN if setting.type == "dict" and value not in (None, "") else mask(_shown(value))


def _shown(value: Any) -> str:
    if value in (None, ""):
        return "empty"
    if is_encrypted(value):
        return NOT_SHOWN
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)
