# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides about a container that is about to be created (pure): it starts unchanged, gets what its task reserved, or is refused.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import namedtuple

from .._isolation_levels import AUDIT, LEVELS, OFF
from . import bundle, reservation
from . import share as shares
from .refusal import APART, FORGED, MOUNT, TOO_SMALL, UNKNOWN, UNRESERVED
from .share import is_mapped, is_slot

TYPE_CHECKING = False  # typing is not loaded: that would take a fifth of the time that all of this takes
if TYPE_CHECKING:
    from typing import Any, Collection, Mapping, Sequence

# Levels that hide no GPU, except that tasks with slots or groups see only theirs. At OFF the guard exists only for slots and groups, and only names
# their cards.
LENIENT = (OFF, AUDIT)
# dockerd writes these labels last, so no service can set or hide them.
TASK, SERVICE = "com.docker.swarm.task.id", "com.docker.swarm.service.name"
# Prefix of the services with which verify tests a node. Their refusals are intended and not counted.
PROBE = "gpu-swarm-verify"
# Reasons why a task sees less than it requests without being refused. Findings are counted under these names and under the codes of refusals.
HIDDEN, BEYOND = "hidden", "beyond-share"
_OLD = "it is of a task that is no longer assigned to this node, and gets no GPU"
# Other findings for the journal.
UNREAD, OLD = "unread", "old-task"
_REMEDY = {
    MOUNT: "Remove the mount, and reserve GPUs with --generic-resource.",
    FORGED: "Remove the variable: swarm sets it from --generic-resource.",
    UNRESERVED: "Reserve GPUs with --generic-resource, or name the service in gpu_node_isolation_allow if it is to see all of them.",
    UNKNOWN: "Remove the variable, or run fleet.gpu_swarm.provision if the GPU was added since.",
    APART: "Reserve fewer slots, or take slots_together out of the rule.",
    TOO_SMALL: "Reserve more, or lower gpu_node_cuda_overhead_mib.",
}


# The settings of a node. allow: names of services; label:KEY or label:KEY=VALUE for labels of containers. devices: the node's devices that it
# advertises by their own names. kinds: the kinds of named resources. listed: the variables in which NVIDIA's runtime may look. map: by kind and value
# (reservation.AMOUNT if the kind is an amount) the devices of all other resources, with mib, the part of their memory, and together, whether all
# values of a task must be on one device. card_mib: the memory of the cards. overhead_mib: what CUDA takes of it for each process.
Settings = namedtuple(
    "Settings", ["level", "allow", "devices", "kinds", "listed", "map", "card_mib", "overhead_mib"], defaults=[(), (), (), (), {}, {}, 0]
)
# A container that is about to be created. entries: its variables. mounts: the mounts that request devices. task: the TaskRecord that swarm's agent
# wrote, or None. unread: why it could not be read.
Container = namedtuple("Container", ["labels", "entries", "mounts", "task", "unread"], defaults=[None])
# devices: what the container may see; None: it starts unchanged. refused: the reason, shown in the task's error. found: {name: text} of findings to
# count and report. holds: what its task has, visible or not. variables: further variables to set. without: variables to remove. code: the refusal's
# code.
Verdict = namedtuple("Verdict", ["devices", "refused", "found", "holds", "variables", "without", "code"], defaults=[None, {}, (), {}, (), ""])


def service_of(labels: Mapping[str, str]) -> str:
    return labels.get(SERVICE, "") or "of task %s" % labels.get(TASK, "")


def decide(settings: Settings, container: Container) -> Verdict:
    """Decide by the rules of the level ``reserved``. ``audit`` only reports them, except for slots and groups. ``exclusive`` also checks holds."""
    if TASK not in container.labels:
        return Verdict(None)
    if is_allowed(settings.allow, container.labels):
        return Verdict(_all_requested(settings, container))
    if settings.level == OFF:
        return _mapped(settings, container)
    notes = {}
    if container.task is None:
        notes = {UNREAD: "what swarm assigned to it cannot be read: %s" % container.unread} if container.unread else {OLD: _OLD}
    parts = reservation.parts(settings, container)
    devices = _devices(parts)
    share = shares.share(parts, container.task.environment if container.task else (), settings.card_mib, settings.overhead_mib)
    if share.beyond:
        notes[BEYOND] = "%s." % share.beyond
    name, text = _refusal(settings, container, parts, share)
    if name:
        return _at(settings, Verdict(None, "%s %s" % (text, _REMEDY[name]), {**notes, name: text}, code=name), parts)
    if _apart(parts):
        notes[APART] = _apart(parts)
    wants = bundle.requests(container.entries, settings.listed)
    if not devices and wants and OLD not in notes:
        notes[HIDDEN] = "its image requests %s, and it has no reservation" % _requested(settings, container)
    without = _not_reserved(settings, parts)
    return _at(settings, Verdict(devices, None, notes, _holds(parts), share.variables, without), parts)


def held(settings: Settings, container: Container) -> tuple[str, ...]:
    """Return what a task has and no other task may have, no matter what it requests."""
    return () if is_allowed(settings.allow, container.labels) else _holds(reservation.parts(settings, container))


def _mapped(settings: Settings, container: Container) -> Verdict:
    """Show a task with slots or groups their cards. Others start unchanged; nothing is counted, held or refused."""
    parts = reservation.parts(settings, container)
    if not any(is_mapped(part) for part in parts):
        return Verdict(None)
    own = container.task.environment if container.task else ()
    variables = shares.share(parts, own, settings.card_mib, settings.overhead_mib).variables
    return Verdict(_devices(parts), variables=variables)


def _devices(parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(device for part in parts for device in part.devices))


def _not_reserved(settings: Settings, parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    """Return the variables of amounts that swarm did not give the task. An image may set one, and config.toml may list it."""
    reserved = {part.kind for part in parts}
    return tuple(reservation.variable(kind) for kind, values in settings.map.items() if reservation.AMOUNT in values and kind not in reserved)


def _at(settings: Settings, verdict: Verdict, parts: Sequence[reservation.Part]) -> Verdict:
    """Apply the level. ``audit`` changes nothing, except for tasks with slots or groups: only the guard gives them GPUs."""
    audited = settings.level == AUDIT and not any(is_mapped(part) for part in parts)
    return verdict._replace(devices=None, refused=None, variables={}, code="") if audited else verdict


def is_allowed(allow: Sequence[str], labels: Mapping[str, str]) -> bool:
    """Return whether a container with these labels may see all GPUs."""
    for one in allow:
        kind, colon, wanted = one.partition(":")
        if colon and kind == "label":
            key, equals, value = wanted.partition("=")
            if key in labels and (not equals or labels[key] == value):
                return True
        elif labels.get(SERVICE) == one:
            return True
    return False


def _all_requested(settings: Settings, container: Container) -> tuple[str, ...] | None:
    """Return what an allowed service requests. Needed only if it reserved slots or groups, which NVIDIA's runtime would take for names of devices."""
    mapped = any(is_mapped(part) for part in reservation.parts(settings, container))
    return tuple(bundle.last(container.entries, bundle.VISIBLE) or ("all",)) if mapped else None


def _names(parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    """Return the named values. An amount of memory is not exclusive: it leaves the rest of its card to others."""
    return tuple(part.value for part in parts if part.value != reservation.AMOUNT)


def _holds(parts: Sequence[reservation.Part]) -> tuple[str, ...]:
    """Return what to hold: each card of a group, otherwise the value itself."""
    named = [part for part in parts if part.value != reservation.AMOUNT]
    return tuple(one for part in named for one in (part.devices if len(part.devices) > 1 else (part.value,)))


def _apart(parts: Sequence[reservation.Part]) -> str:
    """Return a sentence if slots of one kind are on several cards, otherwise an empty text."""
    for kind in dict.fromkeys(part.kind for part in parts if is_slot(part)):
        cards = dict.fromkeys(device for part in parts if part.kind == kind for device in part.devices)
        if len(cards) > 1:
            return "swarm gave it slots of %d cards (%s: %s)." % (len(cards), kind, ", ".join(cards))
    return ""


def _refusal(settings: Settings, container: Container, parts: Sequence[reservation.Part], share: shares.Share) -> tuple[str, str]:
    """Return (code, sentence) of the refusal; both empty if there is none."""
    if container.mounts:
        return MOUNT, "it has a mount at %s, by which NVIDIA's runtime would give it GPUs." % container.mounts[0]
    foreign = [part.value or part.kind for part in parts if not part.devices]
    if foreign:
        return UNKNOWN, "it requests %s, which this node does not advertise." % ", ".join(foreign)
    own = container.task.environment if container.task else ()
    for name in sorted({bundle.name_of(one) for one in own}):
        if name in settings.listed:
            beyond = [word for word in bundle.requested(own, name) if word not in _names(parts)]
            if beyond:
                return FORGED, "it sets %s=%s itself, and %s." % (name, ",".join(beyond), _reserved(parts))
    wanted = bundle.requested(own, bundle.VISIBLE)
    if wanted and not parts:
        return UNRESERVED, "it sets %s=%s, and has no reservation." % (bundle.VISIBLE, ",".join(wanted))
    together = {part.kind for part in parts if part.together}
    apart = _apart([part for part in parts if part.kind in together])
    if apart:
        return APART, apart
    return (TOO_SMALL, share.too_small) if share.too_small else ("", "")


def _reserved(parts: Sequence[reservation.Part]) -> str:
    given = ["%s=%d" % (part.kind, part.mib) if part.value == reservation.AMOUNT else part.value for part in parts]
    return "swarm gave it %s" % ", ".join(given) if given else "it has no reservation"


def _requested(settings: Settings, container: Container) -> str:
    names = [*settings.listed, bundle.VISIBLE]
    found = [word for name in names for word in bundle.last(container.entries, name)]
    return ", ".join(dict.fromkeys(found)) or "all GPUs, by CUDA_VERSION"


def from_json(read: Any, listed: Collection[str]) -> Settings:
    """Return the settings; raises ValueError if they cannot be read.

    ``listed`` are the variables that config.toml names now. Those of the last run count too, which a parser of TOML has read, and those of each kind.
    So a layout that this guard and NVIDIA's runtime read differently opens nothing. A run before 0.3.0 wrote no list.
    """
    if not isinstance(read, dict) or read.get("level") not in LEVELS:
        raise ValueError("no level of isolation in it")
    allow, devices, kinds, written = (read.get(name, []) for name in ("allow", "devices", "kinds", "listed"))
    if not all(isinstance(one, list) and all(isinstance(word, str) for word in one) for one in (allow, devices, kinds, written)):
        raise ValueError("its lists are not of texts")
    names = tuple(dict.fromkeys([*listed, *written, *map(reservation.variable, kinds)]))
    return Settings(read["level"], allow, devices, kinds, names, _map(read.get("map", {})), *_memory(read))


def _memory(read: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    card_mib, overhead_mib = read.get("card_mib", {}), read.get("overhead_mib", 0)
    if isinstance(card_mib, dict) and all(isinstance(one, int) for one in (overhead_mib, *card_mib.values())):
        return card_mib, overhead_mib
    raise ValueError("the memory of its cards is no number")


def _map(read: Any) -> dict[str, Any]:
    """Return the map unchanged; raises ValueError if it is malformed."""
    if isinstance(read, dict) and all(isinstance(values, dict) for values in read.values()):
        entries = [one for values in read.values() for one in values.values()]
        if all(isinstance(one, dict) and isinstance(one.get("devices"), list) for one in entries):
            return read
    raise ValueError("its map is none of values to devices")
