# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps only the allowed labels of a node's answer (pure).

Labels decide where tasks run and who may see their data, so somebody who controls a node must not choose them. Only labels under the prefixes of the
inventory are allowed.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._health.label import LEFT_OUT, PAUSE, SHRINK, format_labels
from ...module_utils._health.verdict import excluded_label
from ...module_utils._ledger.pause_limit import ON_LOSS
from ...module_utils._policy import data_network, offered_devices
from ...module_utils._policy.labels import DEDICATED, RESERVED, Options
from ...module_utils._printable import printable
from .answer import is_cpu
from .cpu import ArchspecMissing, cpu_labels

KEY, VALUE = re.compile(r"[A-Za-z0-9_./-]{1,128}"), re.compile(r"[A-Za-z0-9_.-]{0,128}")
MAX_LABELS = 256


def prefixes(args: Mapping[str, Any]) -> tuple[str, str]:
    """Return the prefixes of labels about GPUs and about the CPU, from the arguments of gpu_node. An empty prefix means no such labels."""
    configured = [args.get(name) for name in ("label_prefix", "label_cpu_prefix")]
    gpu, cpu = (default if value is None else str(value) for value, default in zip(configured, (Options().prefix, Options().cpu_prefix), strict=True))
    return gpu, cpu


def with_allowed_labels(answer: dict[str, Any], host: str, gpu_prefix: str, cpu_prefix: str) -> dict[str, Any]:
    """Return the answer of gpu_node with only the allowed labels, and with labels that only the controller can compute."""
    if "labels" not in answer:
        return answer
    answer = {**answer, "labels_unknown": []}
    answer.pop("labels_by_address", None)  # only the controller may add it
    cpu = answer.pop("cpu", None)
    dropped = [key for key, value in answer["labels"].items() if not _is_allowed(key, value, gpu_prefix)]
    labels = {key: value for key, value in answer["labels"].items() if key not in dropped}
    if len(labels) > MAX_LABELS:
        dropped, labels = [*dropped, *list(labels)[MAX_LABELS:]], dict(list(labels.items())[:MAX_LABELS])
    warnings = [_dropped_warning(host, dropped, gpu_prefix)] if dropped else []
    try:
        labels.update(cpu_labels(dict(cpu, label_prefix=cpu_prefix)) if is_cpu(cpu) else {})
    except ArchspecMissing as missing:
        answer["labels_unknown"] = [cpu_prefix]
        warnings.append(str(missing))
    answer["labels"] = labels
    return {**answer, "warnings": [*(answer.get("warnings") or []), *warnings]} if warnings else answer


def with_inventory_labels(answer: dict[str, Any], host: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer with labels that come from settings, not from GPUs. The settings come from the task's arguments, so a node cannot choose
    these labels.

    The labels say what happens if a card is lost (no label means the default), and whether the node is dedicated to services with a reservation. They
    also name the excluded cards, and say whether somebody consented to run the node without these cards. Settings choose the names
    of the devices that services may have, and the interface of the data network. The node only says which devices and interfaces it has.
    """
    if "labels" not in answer:
        return answer
    key, on_loss = prefixes(args)[0] + DEDICATED, args.get("on_loss") or PAUSE
    labels = {name: value for name, value in answer["labels"].items() if name != key}
    if args.get("state", "present") == "present" and args.get("advertise", True):
        labels.update({ON_LOSS: on_loss} if on_loss != PAUSE else {})
        labels.update({key: "true"} if is_dedicated(args) else {})
        card_labels = [excluded_label(card, _consents(args)) for card in answer.get("left_out") or [] if "last_known" in card]
        labels.update({LEFT_OUT: format_labels(card_labels)} if card_labels else {})
    if args.get("state", "present") != "present":
        return {**answer, "labels": labels}
    labels.update(offered_devices.labels(answer.get("devices"), args.get("devices") or ()))
    return _with_data_network({**answer, "labels": labels}, host, str(args.get("data_interface") or ""))


def _with_data_network(answer: dict[str, Any], host: str, setting: str) -> dict[str, Any]:
    """Return the answer with the labels of the node's data network.

    The node keeps its present labels if there is no setting, or if its advertised address or its interfaces are not known yet. A node that joins its
    swarm in this run gets the labels at the end, when the manager shows its address.
    """
    swarm = answer.get("swarm") or {}
    interfaces = swarm.get("addresses") or {}
    found = data_network.labels(setting, str(swarm.get("addr") or ""), interfaces) if setting else {}
    if found:
        return {**answer, "labels": {**answer["labels"], **found}}
    if setting in ("", data_network.ADVERTISED) or not interfaces:
        later = {"labels_by_address": data_network.by_address(interfaces)} if setting and interfaces else {}
        return {**answer, **later, "labels_unknown": [*(answer.get("labels_unknown") or []), data_network.PREFIX]}
    return {**answer, "warnings": [*(answer.get("warnings") or []), _no_data_address(host, data_network.missing(setting, interfaces))]}


def _consents(args: Mapping[str, Any]) -> bool:
    """Return whether the settings allow the node to run without some GPUs. If the node has fewer GPUs than ``expect``, gpu_node changes nothing
    anyway."""
    return args.get("expect") is not None or boolean(args.get("allow_shrink") or False, strict=False) or args.get("on_loss") == SHRINK


def is_dedicated(args: Mapping[str, Any]) -> bool:
    return boolean(args.get("dedicated") or False, strict=False)


def without_prefix(args: Mapping[str, Any]) -> str | None:
    """Return an error if these arguments dedicate a node without a label prefix, or else None."""
    if not is_dedicated(args) or prefixes(args)[0] or args.get("state", "present") != "present" or not args.get("advertise", True):
        return None
    return (
        "dedicated (gpu_swarm_dedicated) is a label of the node under label_prefix (gpu_node_label_prefix), which is empty. Set label_prefix, such "
        "as to gpu., or remove dedicated. Nothing was changed."
    )


def _is_allowed(key: Any, value: Any, prefix: str) -> bool:
    if not (isinstance(key, str) and isinstance(value, str) and prefix):
        return False
    return key.startswith(prefix) and not key.startswith(RESERVED) and bool(KEY.fullmatch(key) and VALUE.fullmatch(value))


def _no_data_address(host: str, problem: str) -> str:
    return printable(
        f"{host}: {problem} Work over several nodes does not start there on the host's network. Correct gpu_node_data_interface (or its default, "
        "swarm_member_advertise_addr), or give the interface an address."
    )


def _dropped_warning(host: str, dropped: list[Any], prefix: str) -> str:
    shown = ", ".join(repr(key)[:60] for key in dropped[:5]) + (", …" if len(dropped) > 5 else "")
    return (
        f"{host}: its answer has node labels that it may not set, and they were dropped: {shown}. A node may only set labels under "
        f"gpu_node_label_prefix ({prefix or 'empty'}), with values of letters, digits, '.', '-' and '_'. This collection never returns "
        "such labels: find out who changed the software on that machine."
    )
