# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forms of advertising (pure). FORMS has one object for each form, with everything about the form.

To add a form, add its object and its lines in the documentation of the module and the role. A test compares the object with the documentation.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from .._gpu.record import Gpu
from . import allocation, generic_resources, groups
from .allocation import Shares
from .selection import HEX, PolicyError, Rule, in_mig_mode, is_text, is_whole_number

# Printable ASCII, without the separators and quotes of daemon.json, config.toml and docker's command line.
_KIND = re.compile(r"""(?:(?![=,"'\\])[!-~])+""")


class Option(NamedTuple):
    """One option of a rule, besides ``as`` and ``select``."""

    type: str  # the type in an argument spec
    check: Callable[[Any, str], None]  # (value, where): checks the value; raises PolicyError
    choices: Sequence[str] | None = None  # the allowed values, if they are a list


class Form(NamedTuple):
    """One way to advertise GPUs. No field has a default, because a forgotten field would lose kinds or fail on a node."""

    name: str  # the value of ``as``
    text: str  # what services reserve; the documentation starts with this text
    options: Mapping[str, Option]  # by name
    default_kind: str | None  # the kind, or the beginning of the kinds, if a rule sets no kind
    # (rule) -> the kinds that the rule names. The rule owns these kinds even after its last GPU has failed.
    kinds: Callable[[Rule], list[str]]
    # (rule) -> a regular expression for the kinds that the rule derives from GPUs, or None.
    family: Callable[[Rule], str | None]
    amounts: bool  # whether the form's kinds are amounts of memory, not lists of devices
    # A name for the form's values, such as "slots of a card", if the values are neither devices nor amounts; otherwise None.
    stands_for: str | None
    check: Callable[[Rule, str], None]  # (rule, where): checks the options of one rule together; raises PolicyError
    # (rules, kind_of): checks all rules of the form together; raises PolicyError
    check_together: Callable[[Sequence[Rule], Callable[[Rule], str | None]], None]
    takes: Callable[[Gpu], bool]  # whether the form can advertise this GPU; if not, the next rule gets the GPU
    advertise: Callable[[Rule, Sequence[Gpu], Shares], None]  # adds the resources for the rule's GPUs to the shares


def form_of(rule: Rule) -> Form:
    return FORMS[rule["as"]]


def advertise(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """Add the resources for the rule's GPUs to ``shares``."""
    form = form_of(rule)
    if form.amounts:
        shares.amounts.update(form.kinds(rule))
    form.advertise(dict(rule, kind=kind_of(rule)), gpus, shares)


def values_without_devices() -> dict[str, str]:
    """Return the name of the values for each form whose values are not devices.

    Such a form cannot share its kinds with other forms, and a task gets the cards only through the guard.
    """
    return {form.name: form.stands_for for form in FORMS.values() if form.stands_for is not None}


def kind_of(rule: Rule) -> str | None:
    """Return the rule's kind, or the beginning of its kinds; None for a form without a kind."""
    return rule.get("kind", form_of(rule).default_kind)


# --- options --------------------------------------------------------------------------------------------------------


def check_kind(kind: Any, where: str) -> None:
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise PolicyError(
            f"{where}: {generic_resources.shorten(kind)} cannot be the name of a kind; use printable ASCII characters"
            " without blanks, '=', ',' and quotes, such as NVIDIA-GPU."
        )


def check_kinds(kinds: Any, where: str) -> None:
    if not isinstance(kinds, dict):
        raise PolicyError(f'{where}: {generic_resources.shorten(kinds)} is not a mapping such as {{"*H100*": NVIDIA-H100}}.')
    for pattern, kind in kinds.items():
        if not is_text(pattern):
            raise PolicyError(f"{where}: {generic_resources.shorten(pattern)} is not a model or a pattern such as *H100*.")
        check_kind(kind, f"{where}[{pattern}]")


def check_mib(value: Any, where: str) -> None:
    if not is_whole_number(value):
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is not a number of MiB.")


def check_yes_or_no(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is neither true nor false.")


def check_slot_count(value: Any, where: str) -> None:
    if not is_whole_number(value) or not 1 <= int(value) <= allocation.MOST_SLOTS:
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is not a number of slots from 1 to {allocation.MOST_SLOTS}.")


def check_slot_size(value: Any, where: str) -> None:
    if not is_whole_number(value) or int(value) < 1:
        raise PolicyError(f"{where}: {generic_resources.shorten(value)} is not a number of MiB, at least 1.")


def check_slots(rule: Rule, where: str) -> None:
    if ("slots" in rule) == ("slot_mib" in rule):
        raise PolicyError(f"{where}: a rule with as=slots needs either 'slots', how many slots a card has, or 'slot_mib', how large each slot is.")


# --- the forms ------------------------------------------------------------------------------------------------------

_PLACE = f"(?:-{HEX}{{4,8}})?-{HEX}{{2}}(?:-{HEX}{{2}})?(?:\\.[0-7])?"
_PROFILE = r"-(?:\d+c\.)?\d+g\.\d+gb[A-Za-z0-9._-]*"
_KIND_OPTION = {"kind": Option("str", check_kind)}


def _single_kind(rule: Rule) -> list[str]:
    return [kind_of(rule)]


def _no_kinds(_rule: Rule) -> list[str]:
    return []


def _no_family(_rule: Rule) -> str | None:
    return None


def _any_rule(_rule: Rule, _where: str) -> None:
    pass


def _any_rules(_rules: Sequence[Rule], _kind_of: Callable[[Rule], str | None]) -> None:
    pass


def _any_gpu(_gpu: Gpu) -> bool:
    return True


FORMS = {
    form.name: form
    for form in (
        Form(
            name="gpu",
            text="whole GPUs",
            options=_KIND_OPTION,
            default_kind="NVIDIA-GPU",
            kinds=_single_kind,
            family=_no_family,
            amounts=False,
            stands_for=None,
            check=_any_rule,
            check_together=_any_rules,
            takes=_any_gpu,
            advertise=allocation.advertise_whole,
        ),
        Form(
            name="model",
            text="whole GPUs, a kind per model",
            options={"kinds": Option("dict", check_kinds)},
            default_kind=None,
            kinds=lambda rule: list((rule.get("kinds") or {}).values()),
            family=_no_family,
            amounts=False,
            stands_for=None,
            check=_any_rule,
            check_together=_any_rules,
            takes=_any_gpu,
            advertise=allocation.advertise_by_model,
        ),
        Form(
            name="vram",
            text="memory in MiB",
            options={
                **_KIND_OPTION,
                "reserve_mib": Option("int", check_mib),
                "sum": Option("bool", check_yes_or_no),
                "system_memory": Option("bool", check_yes_or_no),
            },
            default_kind="VRAM",
            kinds=_single_kind,
            family=lambda rule: re.escape(kind_of(rule)) + _PLACE,
            amounts=True,
            stands_for=None,
            check=_any_rule,
            check_together=_any_rules,
            takes=_any_gpu,
            advertise=allocation.advertise_memory,
        ),
        Form(
            name="slots",
            text="slots of a card",
            options={
                **_KIND_OPTION,
                "slots": Option("int", check_slot_count),
                "slot_mib": Option("int", check_slot_size),
                "slots_together": Option("bool", check_yes_or_no),
                "reserve_mib": Option("int", check_mib),
            },
            default_kind="NVIDIA-SLOT",
            kinds=_single_kind,
            family=_no_family,
            amounts=False,
            stands_for="slots of a card",
            check=check_slots,
            check_together=_any_rules,
            takes=_any_gpu,
            advertise=allocation.advertise_slots,
        ),
        Form(
            name="group",
            text="neighbouring GPUs as one unit",
            options={**_KIND_OPTION, "size": Option("int", groups.check_size), "by": Option("str", groups.check_by, groups.BY)},
            default_kind="NVIDIA-GROUP",
            kinds=_single_kind,
            family=_no_family,
            amounts=False,
            stands_for="groups of GPUs",
            check=groups.check_group,
            check_together=groups.check_sizes,
            takes=_any_gpu,
            advertise=groups.advertise_groups,
        ),
        Form(
            name="mig",
            text="MIG devices, a kind per profile",
            options=_KIND_OPTION,
            default_kind="MIG",
            kinds=_no_kinds,
            family=lambda rule: re.escape(kind_of(rule)) + _PROFILE,
            amounts=False,
            stands_for=None,
            check=_any_rule,
            check_together=_any_rules,
            takes=in_mig_mode,
            advertise=allocation.advertise_mig,
        ),
        Form(
            name="none",
            text="left to the host",
            options={},
            default_kind=None,
            kinds=_no_kinds,
            family=_no_family,
            amounts=False,
            stands_for=None,
            check=_any_rule,
            check_together=_any_rules,
            takes=_any_gpu,
            advertise=allocation.leave_to_host,
        ),
    )
}

DEFAULT_RULES = ({"as": "gpu", "kind": FORMS["gpu"].default_kind},)
