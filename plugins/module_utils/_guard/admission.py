# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides about a container before it is created (pure). The container starts unchanged, gets the devices that its task reserved, or is refused.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import namedtuple

from .._isolation_levels import AUDIT, LEVELS, OFF
from . import bundle, reservation
from . import share as shares
from .refusal import APART, FORGED, MOUNT, TOO_SMALL, UNKNOWN, UNRESERVED
from .share import is_mapped, is_slot

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any, Collection, Mapping, Sequence

# These levels hide GPUs only from tasks with slots or groups. At OFF, the guard does nothing except give these tasks their cards.
LENIENT = (OFF, AUDIT)
# dockerd writes these labels last, so no service can set or hide these labels.
TASK, SERVICE = "com.docker.swarm.task.id", "com.docker.swarm.service.name"
# Prefix of the names of services that verify starts to test a node. Refusals of these services are intended and not counted.
PROBE = "gpu-swarm-verify"
# Reasons why a task sees less than it requests without being refused. Findings are counted under these names and under the codes of refusals.
HIDDEN, BEYOND = "hidden", "beyond-share"
_OLD_TASK_TEXT = "its task is no longer assigned to this node, so it gets no GPU"
# Names of other findings for the journal.
UNREADABLE, OLD = "unread", "old-task"
_REMEDY = {
    MOUNT: "Remove the mount, and reserve GPUs with --generic-resource.",
    FORGED: "Remove the variable: swarm sets it from --generic-resource.",
    UNRESERVED: "Reserve GPUs with --generic-resource, or add the service to gpu_node_isolation_allow if it should see all GPUs.",
    UNKNOWN: "Remove the variable, or run fleet.gpu_swarm.provision if the GPU is new.",
    APART: "Reserve fewer slots, or remove slots_together from the rule.",
    TOO_SMALL: "Reserve more, or lower gpu_node_cuda_overhead_mib.",
}


# The settings of a node. allow: names of services; label:KEY or label:KEY=VALUE for labels of containers. devices: the devices that the node
# advertises by their own names. kinds: the kinds of named resources. listed: the variables that NVIDIA's runtime may read. map: {kind: {value:
# devices}} of all other resources; the value is reservation.AMOUNT if the kind is an amount. Each entry of the map also has two values. mib is the
# part of the devices' memory. together says whether all values of a task must be on one device. card_mib: the memory of the cards. overhead_mib: the
# memory that CUDA needs for each process.
Settings = namedtuple(
    "Settings", ["level", "allow", "devices", "kinds", "listed", "map", "card_mib", "overhead_mib"], defaults=[(), (), (), (), {}, {}, 0]
)
# A container that is about to be created. entries: its variables. mounts: the mounts that request devices. task: the TaskRecord that swarm's agent
# wrote, or None. unread: why that record could not be read.
Container = namedtuple("Container", ["labels", "entries", "mounts", "task", "unread"], defaults=[None])
# devices: the devices that the container may see; None: the container starts unchanged. refused: the reason, shown in the task's error. found:
# {name: text} of findings to count and report. holds: the devices to hold for its task, visible or not. variables: further variables to set.
# without: variables to remove. code: the refusal's code.
Verdict = namedtuple("Verdict", ["devices", "refused", "found", "holds", "variables", "without", "code"], defaults=[None, {}, (), {}, (), ""])


def service_name(labels: Mapping[str, str]) -> str:
    return labels.get(SERVICE, "") or "of task %s" % labels.get(TASK, "")


def decide(settings: Settings, container: Container) -> Verdict:
    """Apply the rules of the level ``reserved``. ``audit`` only reports, except for slots and groups. ``exclusive`` also checks holds."""
    if TASK not in container.labels:
        return Verdict(None)
    if is_allowed(settings.allow, container.labels):
        return Verdict(_all_requested(settings, container))
    if settings.level == OFF:
        return _mapped_verdict(settings, container)
    findings = {}
    if container.task is None:
        findings = {UNREADABLE: "its task's GPUs cannot be read: %s" % container.unread} if container.unread else {OLD: _OLD_TASK_TEXT}
    parts = reservation.reserved_parts(settings, container)
    devices = _devices(parts)
    share = shares.share(parts, container.task.environment if container.task else (), settings.card_mib, settings.overhead_mib)
    if share.beyond:
        findings[BEYOND] = "%s." % share.beyond
    name, text = _refusal(settings, container, parts, share)
    if name:
        return _at_level(settings, Verdict(None, "%s %s" % (text, _REMEDY[name]), {**findings, name: text}, code=name), parts)
    if _spread_over_cards(parts):
        findings[APART] = _spread_over_cards(parts)
    requests_gpus = bundle.requests_gpus(container.entries, settings.listed)
    if not devices and requests_gpus and OLD not in findings:
        findings[HIDDEN] = "its image requests %s, and it has no reservation" % _describe_requested(settings, container)
    without = _unreserved_variables(settings, parts)
    return _at_level(settings, Verdict(devices, None, findings, _holds(parts), share.variables, without), parts)


def reserved_names(settings: Settings, container: Container) -> tuple[str, ...]:
    """Return the devices that a task has reserved and that no other task may use. The task's variables do not matter."""
    return () if is_allowed(settings.allow, container.labels) else _holds(reservation.reserved_parts(settings, container))


def _mapped_verdict(settings: Settings, container: Container) -> Verdict:
    """Show a task the cards of its slots or groups. Other tasks start unchanged; nothing is counted, held or refused."""
    parts = reservation.reserved_parts(settings, container)
    if not any(is_mapped(part) for part in parts):
        return Verdict(None)
    own = container.task.environment if container.task else ()
    variables = shares.share(parts, own, settings.card_mib, settings.overhead_mib).variables
    return Verdict(_devices(parts), variables=variables)


def _devices(parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(device for part in parts for device in part.devices))


def _unreserved_variables(settings: Settings, parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    """Return the variables that name amounts that the task did not reserve. An image may set such variables."""
    reserved = {part.kind for part in parts}
    return tuple(reservation.variable(kind) for kind, values in settings.map.items() if reservation.AMOUNT in values and kind not in reserved)


def _at_level(settings: Settings, verdict: Verdict, parts: Sequence[reservation.Part]) -> Verdict:
    """Return the verdict for this level. At ``audit``, change nothing, except for tasks with slots or groups: only the guard can give such tasks
    GPUs."""
    audited = settings.level == AUDIT and not any(is_mapped(part) for part in parts)
    return verdict._replace(devices=None, refused=None, variables={}, code="") if audited else verdict


def is_allowed(allow: Sequence[str], labels: Mapping[str, str]) -> bool:
    """Return whether a container with these labels may see all GPUs."""
    for rule in allow:
        kind, colon, label = rule.partition(":")
        if colon and kind == "label":
            key, equals, value = label.partition("=")
            if key in labels and (not equals or labels[key] == value):
                return True
        elif labels.get(SERVICE) == rule:
            return True
    return False


def _all_requested(settings: Settings, container: Container) -> tuple[str, ...] | None:
    """Return the devices that an allowed service requests. None if the service has no slots or groups: NVIDIA's runtime then reads the requests
    itself."""
    mapped = any(is_mapped(part) for part in reservation.reserved_parts(settings, container))
    return tuple(bundle.last_requested(container.entries, bundle.VISIBLE) or ("all",)) if mapped else None


def _names(parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    """Return the values of named resources. An amount of memory has no name: other tasks may use the rest of its card."""
    return tuple(part.value for part in parts if part.value != reservation.AMOUNT)


def _holds(parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    """Return the names to hold: each card of a group, or the value itself for any other resource."""
    named_parts = [part for part in parts if part.value != reservation.AMOUNT]
    return tuple(name for part in named_parts for name in (part.devices if len(part.devices) > 1 else (part.value,)))


def _spread_over_cards(parts: Sequence[reservation.Part]) -> str:
    """Return a sentence if slots of one kind are on several cards, otherwise ''."""
    for kind in dict.fromkeys(part.kind for part in parts if is_slot(part)):
        cards = dict.fromkeys(device for part in parts if part.kind == kind for device in part.devices)
        if len(cards) > 1:
            return "swarm gave it slots of %d cards (%s: %s)." % (len(cards), kind, ", ".join(cards))
    return ""


def _refusal(settings: Settings, container: Container, parts: Sequence[reservation.Part], share: shares.Share) -> tuple[str, str]:
    """Return (code, sentence) of the refusal; both empty if nothing is refused."""
    if container.mounts:
        return MOUNT, "it has a mount at %s, which makes NVIDIA's runtime give it GPUs." % container.mounts[0]
    foreign = [part.value or part.kind for part in parts if not part.devices]
    if foreign:
        return UNKNOWN, "it requests %s, which this node does not advertise." % ", ".join(foreign)
    own = container.task.environment if container.task else ()
    for name in sorted({bundle.name_of(entry) for entry in own}):
        if name in settings.listed:
            beyond = [word for word in bundle.requested(own, name) if word not in _names(parts)]
            if beyond:
                return FORGED, "it sets %s=%s itself, and %s." % (name, ",".join(beyond), _describe_reserved(parts))
    wanted = bundle.requested(own, bundle.VISIBLE)
    if wanted and not parts:
        return UNRESERVED, "it sets %s=%s, and has no reservation." % (bundle.VISIBLE, ",".join(wanted))
    together = {part.kind for part in parts if part.together}
    apart = _spread_over_cards([part for part in parts if part.kind in together])
    if apart:
        return APART, apart
    return (TOO_SMALL, share.too_small) if share.too_small else ("", "")


def _describe_reserved(parts: Sequence[reservation.Part]) -> str:
    reserved = ["%s=%d" % (part.kind, part.mib) if part.value == reservation.AMOUNT else part.value for part in parts]
    return "swarm gave it %s" % ", ".join(reserved) if reserved else "it has no reservation"


def _describe_requested(settings: Settings, container: Container) -> str:
    names = [*settings.listed, bundle.VISIBLE]
    requested = [word for name in names for word in bundle.last_requested(container.entries, name)]
    return ", ".join(dict.fromkeys(requested)) or "all GPUs, by CUDA_VERSION"


def from_json(settings: Any, listed: Collection[str]) -> Settings:
    """Return the settings. Raises ValueError if they are malformed.

    ``listed`` are the variables that config.toml names now. The result also has the variables that the last run read with a TOML parser, and the
    variable of each kind. So if the guard misreads an unusual layout, no container gets more GPUs. A run before 0.3.0 wrote no list.
    """
    if not isinstance(settings, dict) or settings.get("level") not in LEVELS:
        raise ValueError("they have no level of isolation")
    allow, devices, kinds, written = (settings.get(name, []) for name in ("allow", "devices", "kinds", "listed"))
    if not all(isinstance(texts, list) and all(isinstance(word, str) for word in texts) for texts in (allow, devices, kinds, written)):
        raise ValueError("their lists contain something other than texts")
    names = tuple(dict.fromkeys([*listed, *written, *map(reservation.variable, kinds)]))
    return Settings(settings["level"], allow, devices, kinds, names, _checked_map(settings.get("map", {})), *_memory_settings(settings))


def _memory_settings(settings: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    card_mib, overhead_mib = settings.get("card_mib", {}), settings.get("overhead_mib", 0)
    if isinstance(card_mib, dict) and all(isinstance(number, int) for number in (overhead_mib, *card_mib.values())):
        return card_mib, overhead_mib
    raise ValueError("the memory of a card is not a number")


def _checked_map(device_map: Any) -> dict[str, Any]:
    """Return the map unchanged; raises ValueError if it is malformed."""
    if isinstance(device_map, dict) and all(isinstance(values, dict) for values in device_map.values()):
        entries = [entry for values in device_map.values() for entry in values.values()]
        if all(isinstance(entry, dict) and isinstance(entry.get("devices"), list) for entry in entries):
            return device_map
    raise ValueError("the map of values to devices is malformed")
