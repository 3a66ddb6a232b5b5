# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The label in which a queued service keeps its state, and the rule that finished work never runs twice (pure).

``waiting`` · ``waiting attempt=1 keeps=n7`` · ``admitted attempt=1 node=n7 admission=k3f9`` · ``over attempt=1 node=n7 result=failed: exit code 1``.
A gang's label also has its MASTER_PORT and the whole plan in the order of the ranks, ``port=29417 plan=s1:n7,s2:n8``. ``result`` is the last field,
and the only one with blanks. If *waiting* work has an ``admission``, that admission is being taken back.

``attempt`` counts the admissions. ``limit`` is the time limit at the time of the admission, in seconds or ``none``. ``released`` is the number of
attempts when somebody last released the work. If the service is scaled to 0 or rolled back, only later attempts make the work *held*.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from .._printable import printable
from .._swarm.owned_labels import PREFIX
from .queue_words import ADMITTED, HELD, OVER, WAITING

LABEL = PREFIX + "queue-state"
STATES = (WAITING, ADMITTED, OVER, HELD)
MOST_MEMBERS = 64  # of a gang
LONGEST_RESULT, LONGEST_LABEL = 200, 8 * 1024  # characters
ROLLED_BACK = "it was rolled back after it was admitted, and swarm ran it again"

_ID = r"[A-Za-z0-9]{1,64}"
_LIST_OF = "%s(?:,%s)*"
_PAIR = "%s:%s" % (_ID, _ID)
_FIELDS = {
    "attempt": r"[0-9]{1,6}",
    "released": r"[0-9]{1,6}",
    "node": _ID,
    "admission": _ID,
    "limit": r"[0-9]{1,12}|none",
    "keeps": _LIST_OF % (_ID, _ID),
    "avoids": _LIST_OF % (_ID, _ID),
    "port": r"[0-9]{1,5}",
    "plan": _LIST_OF % (_PAIR, _PAIR),
}
_FORM = re.compile(
    r"(?P<state>%s)%s(?: result=(?P<result>[^\n]+))?"
    % ("|".join(STATES), "".join("(?: %s=(?P<%s>%s))?" % (name, name, form) for name, form in _FIELDS.items()))
)


class State(NamedTuple):
    """``keeps`` are the nodes that are kept for the head of the queue, ``avoids`` the nodes that refused the work.

    ``plan`` has the service id and the node id of each member of a gang, ``port`` is the gang's MASTER_PORT. ``limit`` is text.
    """

    state: str = WAITING
    attempt: int = 0
    released: int = 0
    node: str = ""
    admission: str = ""
    keeps: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    plan: tuple[tuple[str, str], ...] = ()
    result: str = ""
    port: int = 0
    limit: str = ""


def to_text(state: State) -> str:
    """Return the label's value."""
    words = {
        "attempt": str(state.attempt or ""),
        "released": str(state.released or ""),
        "node": state.node,
        "admission": state.admission,
        "limit": state.limit,
        "keeps": ",".join(state.keeps),
        "avoids": ",".join(state.avoids),
        "port": str(state.port or ""),
        "plan": ",".join("%s:%s" % pair for pair in state.plan),
        "result": _cut(printable(" ".join(state.result.split()))),
    }
    return " ".join([state.state, *("%s=%s" % item for item in words.items() if item[1])])


def _cut(result: str) -> str:
    return result if len(result) <= LONGEST_RESULT else result[: LONGEST_RESULT - 1].rstrip() + "…"


def from_text(text: str | None) -> State | None:
    """Return the state; None if the text is unreadable. A service without the label waits."""
    if text is None:
        return State()
    match = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST_LABEL else None
    if not match:
        return None
    found = match.groupdict()
    keeps, avoids, plan = (tuple(item for item in (found[name] or "").split(",") if item) for name in ("keeps", "avoids", "plan"))
    if max(len(keeps), len(avoids), len(plan)) > MOST_MEMBERS:
        return None
    return State(
        found["state"],
        int(found["attempt"] or 0),
        int(found["released"] or 0),
        found["node"] or "",
        found["admission"] or "",
        keeps,
        avoids,
        tuple((member, node) for member, _colon, node in (pair.partition(":") for pair in plan)),
        _cut(printable(found["result"] or "")),
        int(found["port"] or 0),
        found["limit"] or "",
    )


def state_of(service: Mapping[str, Any]) -> State:
    """Return the state of a queued service.

    If a service is scaled to 0, swarm drops the record of ended tasks, and would run the work again later. So after a person, a script or a rollback
    scaled an admitted service to 0, it is held until somebody releases it. A rollback also restores the former label, so the label of the
    former specification counts too. At 1 replica, swarm itself runs ended tasks again when it rolls back.
    """
    spec = service["Spec"]
    state, former = _label_of(spec), _label_of(service.get("PreviousSpec") or {})
    if state is None:
        return State(HELD, attempt=1, result="its label %s is unreadable" % LABEL)
    begun = max(_begun(state), _begun(former))
    if state.state == HELD or begun <= state.released:
        return state
    if replicas_of(spec) == 0:
        return State(HELD, begun, state.released, state.node, result="it was scaled to 0 after it was admitted, and would run again")
    if _was_rolled_back(service) and not (state.state == ADMITTED and state == former):
        return State(HELD, begun, state.released, state.node, result=ROLLED_BACK)
    return state


def is_at_rest(service: Mapping[str, Any]) -> bool:
    """Return whether the work is over or held, and the label says so. Then a round has nothing to do for it."""
    state = state_of(service)
    return state.state in (OVER, HELD) and state == _label_of(service["Spec"])


def released(state: State) -> State:
    """Return the state of work that somebody released. It waits again, and its former attempts no longer make it *held*."""
    return State(WAITING, attempt=_begun(state), released=_begun(state), node=state.node)


def tried_again(state: State) -> State:
    """Return the state of work that waits for another attempt, because a person asked for it. Its service keeps 1 replica, so swarm keeps its log."""
    return State(WAITING, attempt=_begun(state), released=state.released, node=state.node)


def replicas_of(spec: Mapping[str, Any]) -> int:
    replicas = ((spec.get("Mode") or {}).get("Replicated") or {}).get("Replicas", 1)
    return replicas if isinstance(replicas, int) else 1


def _was_rolled_back(service: Mapping[str, Any]) -> bool:
    """Return whether the last update of the service was a rollback. Each other update removes this status."""
    return str((service.get("UpdateStatus") or {}).get("State") or "").startswith("rollback")


def _begun(state: State | None) -> int:
    """Return how many attempts have begun. If the label is unreadable, assume one."""
    if state is None:
        return 1
    return max(state.attempt, 1) if state.state in (ADMITTED, OVER) else state.attempt


def _label_of(spec: Mapping[str, Any]) -> State | None:
    return from_text((spec.get("Labels") or {}).get(LABEL))
