# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits the time of a call to another machine, whose connection may hang.

The ``timeout`` of a task cannot be used. It fails the task even if failed_when is false, and with run_once it fails every host.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, NoReturn


class NoAnswer(Exception):
    """The call took longer than the limit."""


class _Late(BaseException):
    """Raised when the time is over. Not an Exception, because connection plugins catch every Exception and try again."""


def within(limit_s: float, call: Callable[[], Any]) -> Any:
    """Return the result of ``call()``. Raise NoAnswer if the call takes longer than the limit. If the task has its own ``timeout``, only this timeout
    applies.
    """
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        return call()

    def give_up(*dummy: Any) -> NoReturn:
        raise _Late

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        return call()
    except _Late:
        raise NoAnswer from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
