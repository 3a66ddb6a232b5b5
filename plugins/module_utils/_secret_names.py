# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds values that may be secret, by their names or their form (pure): in a Compose file and in a job.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Sequence

from ._mask import mask

_SECRET = re.compile(
    r"(?i)passw(?:or)?d|passphrase|secret|signature|token|credential|private|authori[sz]ation|bearer|cookie|jwt|webhook|basicauth"
    r"|(?:^|[_./-])(?:auth|cert|dsn|hmac|keys?|otp|pass|pat|pw|pwd|salt|sas)(?:$|[_./-])|(?:key|pass|pwd|[a-z]Auth)$"
)
# Settings of language models, which are not secret.
_NO_SECRET = re.compile(r"(?i)tokeni[sz]\w*|(?:max|min|num|new|total|batched|context|completion|prompt)[_-]?tokens?")
# The forms of a value with a name: NAME=value, "name": value, name: value, and an option with its value.
_ASSIGNED = re.compile(r"""(?<![\w./-])(?P<name>[A-Za-z][\w./-]*)(?:\\*["'])?(?:\s*=\s*|\s*:\s+|(?<=["']):\s*)(?=\S)""")
_OPTION = re.compile(r"(?<![\w./-])(?P<name>--?[A-Za-z][\w.-]*)(?:=|\s+(?!-))(?=\S)")
_HEADER = re.compile(r"(?i)(?<![\w-])(?:(?:proxy-)?authorization|cookie|x-[\w-]*(?:key|token|secret|auth)[\w-]*):\s*\S")
_LOGIN = re.compile(
    r"(?<!\S)(?:-u|--user|--proxy-user)[\s=]*[^\s:]+:\S|\bredis-cli\b[^|;&\n]*\s-a\s*\S|\b(?:mysql|mariadb)[\w-]*\b[^|;&\n]*\s-p\S|\bsshpass\s+-p\s*\S"
)
_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|(?i:\b(?:bearer|basic)\s+[\w.~+/=-]{12,})"
    r"|\bhooks\.slack\.com/services/\w|/api/webhooks/\d+/\w|\bbot\d{6,}:[\w-]{12,}"  # webhooks of Slack, Discord and Telegram
    r"|\b(?:sk-|hf_|gh[opsru]_|github_pat_|glpat-|nvapi-|xox[abeprs]-)[\w-]{12,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]{8,}\.[\w-]+\."
)


def is_name_of_secret(name: str) -> bool:
    return bool(_SECRET.search(_NO_SECRET.sub("", name)))


def has_secret(text: str) -> bool:
    """Return whether a text, such as a command line, contains a secret."""
    if mask(text) != text or _HEADER.search(text) or _LOGIN.search(text) or _FORMS.search(text):
        return True
    return any(is_name_of_secret(match.group("name")) for form in (_ASSIGNED, _OPTION) for match in form.finditer(text))


def is_secret_word(words: Sequence[object], place: int) -> bool:
    """Return whether this word of a command may be secret: the value of an option or header with a secret name, or part of a login."""
    text, before = str(words[place]), str(words[place - 1]) if place else ""
    is_option = before.startswith("-") and "=" not in before and not text.startswith("-")
    is_beside = (is_option or before.endswith(":")) and is_name_of_secret(before.rstrip(":"))
    return is_beside or has_secret(text) or bool(place and _LOGIN.search(" ".join(map(str, words))))
