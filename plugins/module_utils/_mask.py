# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Masks credentials in texts that are shown (pure), such as the password of a proxy in daemon.json, a unit or an error of dockerd.

Text that only may be a credential is masked too. Never use this code for text that is written to a configuration file.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import re
from typing import Any, Container, Iterable, Iterator

MASK = "***"
SHORTEST = 6  # mask_values() ignores shorter values

# JSON and systemd may escape a character: \/ \" \u002f \x40. If the text is quoted again, the text has more backslashes.
_SLASH = r"(?:\\*/|\\+u002[fF]|\\+x2[fF])"
_AT = r"(?:@|\\+u0040|\\+x40)"
_COLON = r"(?::|\\+u003[aA]|\\+x3[aA])"
# A blank ends a URL, and so does a quote that is not escaped.
_CHAR = r"(?:\\+[^\s\\]|[^\s\"<>\\])"
# In a URL, the last @ before the path ends the credentials, because a password may contain an @. A user without a password may be a token.
_AUTHORITY = rf"(?:(?!{_SLASH})(?![?#]){_CHAR})"
_URL = rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*{_COLON}{_SLASH}{_SLASH})(?P<who>{_AUTHORITY}+)(?={_AT})"
# A password with a slash, ? or # makes the URL invalid, but the password is still secret. Digits before a slash are a port.
_BROKEN = (
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*{_COLON}{_SLASH}{_SLASH})"
    rf"(?P<who>(?:(?!{_COLON}|{_AT}){_AUTHORITY})*{_COLON}(?!\d+{_SLASH})(?:(?!{_COLON}{_SLASH}{_SLASH}){_CHAR})+)(?={_AT})"
)
_USER = re.compile(rf"(?:(?!{_COLON}).)*?{_COLON}", re.DOTALL)
# Docker also accepts a proxy without a scheme. Digits before a slash are a port, and the digest of an image is not a host. The length is limited,
# because a match can start at many places.
_BARE = rf"""(?P<scheme>["'=])(?P<who>[^\s"'<>\\=:@/,]{{1,100}}{_COLON}(?!{_SLASH}|\d+{_SLASH}){_CHAR}{{1,500}})(?={_AT}(?!sha\d+:))"""
# Options of log drivers and the like: "splunk-token": "…", --log-opt splunk-token=…, and a password of digits without quotes.
_SECRET = "(?:token|password|passwd|secret(?:[-_](?:access[-_])?key)?|shared[-_]key)"
_NAMED = re.compile(rf"""(?i)({_SECRET}(?:\\*["'])?\s*[=:]\s*(?:\\*["'])|{_SECRET}=)((?:\\.|[^\s"'\\,])+)""")
_KEY_WITH_VALUE = re.compile(r"[^=:]*[=:](?=.)", re.DOTALL)
_NUMBER = re.compile(rf"""(?i)({_SECRET}\\*["']\s*:\s*)(-?\d[\d.e+-]*)""")


def mask(text: str) -> str:
    """Return the text with masked passwords in URLs: ``http://svc:***@proxy``. Also masks values of options such as ``token=``."""
    if "@" in text or "\\" in text:
        # Compiled only here, because most runs have nothing to mask. re caches the pattern.
        for form in (_URL, _BROKEN, _BARE):
            text = re.sub(form, _mask_password, text)
    return _NUMBER.sub(_mask_after_name, _NAMED.sub(_mask_after_name, text))


def mask_data(value: Any, unmasked_keys: Container[str] = ()) -> Any:
    """Return plain data with all texts masked. Values of the keys ``unmasked_keys`` are not masked, because other code compares them."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: item if key in unmasked_keys else mask_data(item, unmasked_keys) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_data(item, unmasked_keys) for item in value]
    return value


def mask_value_in_key(text: str) -> str:
    """Return a key with its value masked, if somebody wrote a value into the key by mistake: ``NAME=value`` becomes ``NAME=***``."""
    match = _KEY_WITH_VALUE.match(text)
    return match.group() + MASK if match else text


def _mask_after_name(match: re.Match[str]) -> str:
    return match.group(1) + MASK


def _mask_password(match: re.Match[str]) -> str:
    user = _USER.match(match.group("who"))
    return match.group("scheme") + (user.group() if user else "") + MASK


def mask_values(text: str, values: Iterable[str], names: Iterable[str] = ()) -> str:
    """Return the text with these values masked, even if Go or JSON has quoted a value once or twice. Values shorter than SHORTEST, and values inside
    one of ``names``, are not masked."""
    forms = {form for value in values if len(value) >= SHORTEST for quoted in _quoted(value) for form in _quoted(quoted)}
    name_spans = [match.span() for name in names for match in re.finditer(r"(?<![\w-])%s(?![\w-])" % re.escape(name), text)]
    spans = [span for form in forms for span in _spans(text, form) if not any(begin <= span[0] and span[1] <= end for begin, end in name_spans)]
    shown, at = [], 0
    for begin, end in sorted(spans):
        if begin >= at:
            shown += [text[at:begin], MASK]
        at = max(at, end)
    return "".join(shown) + text[at:]


def _spans(text: str, part: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each occurrence of the part."""
    begin = text.find(part)
    while begin >= 0:
        yield begin, begin + len(part)
        begin = text.find(part, begin + 1)


def _quoted(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    plain = json.dumps(value, ensure_ascii=False)[1:-1]
    yield plain
    for character, code in (("<", "3c"), (">", "3e"), ("&", "26")):
        plain = plain.replace(character, "\\u00" + code)
    yield plain
