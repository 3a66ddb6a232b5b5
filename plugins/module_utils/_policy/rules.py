# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the user's rules, and finds the GPUs that the rules select and the kinds that the rules name (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Sequence

from .._gpu.record import Gpu
from . import generic_resources, selection
from .forms import FORMS, check_kind, form_of, kind_of, values_without_devices
from .selection import PolicyError, Rule, as_list, check_one_of


def check_rules(rules: Any) -> None:
    """Raise PolicyError for the first error. The message names the place in the list."""
    if not isinstance(rules, (list, tuple)):
        raise PolicyError(f"advertise: {generic_resources.shorten(rules)} is not a list of rules. {_example()}")
    for number, rule in enumerate(rules):
        _check_rule(rule, f"advertise[{number}]")
    _check_clash(rules)


def _check_rule(rule: Any, where: str) -> None:
    if not isinstance(rule, dict):
        raise PolicyError(f"{where}: {generic_resources.shorten(rule)} is not a rule. {_example()}")
    form = rule.get("as")
    check_one_of(FORMS, form, f"{where}.as")
    options = FORMS[form].options
    allowed = ("as", "select", *options)
    unknown = sorted(str(key) for key in rule if key not in allowed)
    if unknown:
        raise PolicyError(
            f"{where}: a rule with as={form} does not know {', '.join(unknown)}; use only: {', '.join(allowed)}."
        )
    for key, value in rule.items():
        if key in options:
            options[key].check(value, f"{where}.{key}")
    FORMS[form].check(rule, where)
    selection.check_select(rule.get("select"), where + ".select")


def _check_clash(rules: Sequence[Rule]) -> None:
    check_case(owned_kinds(rules))
    amounts = owned_kinds([rule for rule in rules if form_of(rule).amounts])
    for kind in owned_kinds([rule for rule in rules if not form_of(rule).amounts]):
        if kind in amounts:
            raise PolicyError(
                f"advertise: the kind {kind} is a list of GPUs in one rule and an amount of memory in another; a kind is"
                " one of the two. Rename one."
            )
    for name, description in values_without_devices().items():
        own = owned_kinds([rule for rule in rules if rule["as"] == name])
        for kind in owned_kinds([rule for rule in rules if rule["as"] != name]):
            if kind in own:
                raise PolicyError(f"advertise: the kind {kind} is {description} in one rule and something else in another. Rename one.")
    for form in FORMS.values():
        form.check_together([rule for rule in rules if rule["as"] == form.name], kind_of)


def check_case(kinds: Iterable[str], where: str = "advertise") -> None:
    """Raise PolicyError if two kinds differ only in case. Swarm distinguishes such kinds, but a task has only one variable for both kinds."""
    seen: dict[str, str] = {}
    for kind in kinds:
        other = seen.setdefault(kind.upper(), kind)
        if other != kind:
            raise PolicyError(
                f"{where}: the kinds {other!r} and {kind!r} differ only in case. Swarm has two kinds then, but tasks find both in the"
                f" same variable {generic_resources.variable_name(kind)}. Use one spelling or rename one."
            )


def _example() -> str:
    return "Example of a rule: {as: gpu, kind: NVIDIA-GPU}."


# --- the user's own resources ---------------------------------------------------------------------------------------


def check_extra(extra: Any, owned: Iterable[str]) -> None:
    """Raise PolicyError for an entry of ``extra_resources`` that dockerd would refuse, or that has a kind in ``owned``.

    The rules decide about owned kinds.
    """
    where = "extra_resources"
    entries = extra if isinstance(extra, (list, tuple)) else None
    if entries is None or not all(isinstance(entry, str) for entry in entries):
        raise PolicyError(f'{where}: {generic_resources.shorten(extra)} is not a list such as ["SSD=1", "FPGA=card-a"].')
    try:
        parsed = generic_resources.parse(entries)
    except generic_resources.ResourceError as error:
        raise PolicyError(f"{where}: {error} Fix it.") from error
    decided = {kind.upper(): kind for kind in owned}
    check_case(parsed, where)
    for kind, values in parsed.items():
        check_kind(kind, where)
        if kind.upper() in decided:
            raise PolicyError(f"{where}: {decided[kind.upper()]} is a kind that 'advertise' decides. Rename {kind} or remove it.")
        for value in values if isinstance(values, list) else []:
            _check_extra_value(kind, value, values)


def _check_extra_value(kind: str, value: str, values: list[str]) -> None:
    if not value:
        raise PolicyError(f"extra_resources: {kind}= has no value. Write {kind}=1 for an amount or {kind}=name for a named resource.")
    if values.count(value) > 1:
        raise PolicyError(f"extra_resources: {kind}={value} is listed twice, and swarm would count it twice. Remove one.")
    if value.upper().startswith(("GPU-", "MIG-")):
        raise PolicyError(
            f"extra_resources: {kind}={value} is a GPU. Swarm would allocate a GPU in a second kind to two tasks. Use a rule of 'advertise' for it."
        )


# --- which GPUs, which kinds ----------------------------------------------------------------------------------------


def selects(rule: Rule, gpu: Gpu) -> bool:
    return form_of(rule).takes(gpu) and selection.selects(rule.get("select"), gpu)


def describe_rule(rule: Rule, number: int) -> str:
    """Return the rule as text: ``advertise[0] (as gpu, select model *H200*)``."""
    wanted = ["%s %s" % (key, ", ".join(str(value) for value in as_list(values))) for key, values in (rule.get("select") or {}).items()]
    return "advertise[%d] (as %s%s)" % (number, rule["as"], ", select " + " and ".join(wanted) if wanted else "")


def owned_kinds(rules: Sequence[Rule]) -> list[str]:
    """Return the kinds that the rules name, in order. Resources of these kinds belong to this collection."""
    return list(dict.fromkeys(kind for rule in rules for kind in form_of(rule).kinds(rule)))


def in_family(kind: str, rules: Sequence[Rule]) -> bool:
    """Return whether a rule can derive this kind from a GPU, such as VRAM-C1 or MIG-1g.10gb."""
    families = [form_of(rule).family(rule) for rule in rules]
    return any(family and re.fullmatch(family, kind, re.IGNORECASE) for family in families)
