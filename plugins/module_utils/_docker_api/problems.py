# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exceptions of calls to the Docker API. No message contains a password or a token.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from http.client import HTTPMessage

from .._mask import mask


class ApiError(Exception):
    """A call to the Docker API failed. ``words`` is the reason, without a full stop at the end."""

    def __init__(self, words: str) -> None:
        self.words = mask(words).strip().rstrip(".")
        super().__init__(self.words)


class Refused(ApiError):
    """The daemon answered with an HTTP status that means failure."""

    def __init__(self, status: int, words: str, headers: HTTPMessage) -> None:
        super().__init__(words)
        self.status, self.headers = status, headers


class Unanswered(ApiError):
    """The daemon sent no complete answer. ``cause`` is Python's exception, if there was one."""

    def __init__(self, words: str, cause: Exception | None = None) -> None:
        super().__init__(words)
        self.cause = cause


class LoginUnreadable(ApiError):
    """This machine has a login to the registry, but the login cannot be read."""
