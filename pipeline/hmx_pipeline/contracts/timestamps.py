"""Timestamps: RFC 3339 text to integer nanoseconds or milliseconds since 1970, and back from milliseconds (HMX-E §6.3).

Input: a text. Output: nanoseconds, None if it is no timestamp (`parse_instant`); or milliseconds, 0 if it is none
(`milliseconds`). The original text is always kept beside the instant. A leap second `23:59:60` is the next instant.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_MS: Final = 86_400_000
_FIRST_MS: Final = (date.min.toordinal() - _EPOCH) * _DAY_MS
_LAST_MS: Final = (date.max.toordinal() - _EPOCH + 1) * _DAY_MS - 1

_NS: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
_SECONDS: Final = {f"{second:02d}": second * _NS for second in range(60)}
_MILLISECONDS: Final = {f".{ms:03d}Z": ms * NS_PER_MS for ms in range(1000)} | {"Z": 0}


def parse_instant(text: str) -> int | None:
    """Return nanoseconds since 1970 UTC; None if `text` is no RFC 3339 date-time with a zone. Finer digits are cut."""
    rest = _MILLISECONDS.get(text[19:])
    second = _SECONDS.get(text[17:19])
    if rest is None or second is None or (minute := _minute(text[:17])) is None:
        return _parsed(text)
    return minute + second + rest


@lru_cache(maxsize=4096)  # a session's events are close in time
def _minute(text: str) -> int | None:
    """Return the instant at which a minute `2026-03-14T03:00:` of UTC begins."""
    return _parsed(f"{text}00Z")


def _parsed(text: str) -> int | None:
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_h, off_m = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    h, m, s = int(hour), int(minute), int(second)
    offset = (int(off_h) * 60 + int(off_m)) * (-1 if sign == "-" else 1) if sign else 0
    if h > 23 or m > 59 or (sign and (int(off_h) > 23 or int(off_m) > 59)):
        return None
    utc_minute = (h * 60 + m - offset) % 1440
    if s > 60 or (s == 60 and utc_minute != 1439):
        return None
    seconds = days * 86400 + h * 3600 + m * 60 + s - offset * 60
    return seconds * _NS + int(((fraction or "") + "0" * 9)[:9])


def milliseconds(text: str) -> int:
    """Return milliseconds since 1970; 0 if the text is no timestamp."""
    instant = parse_instant(text)
    return 0 if instant is None else instant // NS_PER_MS


def utc(ms: int) -> datetime:
    """Convert milliseconds since 1970; beyond the years 1 to 9999 the nearest moment is returned."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(max(ms, _FIRST_MS), _LAST_MS))


def format_ms(ms: int) -> str:
    """Format milliseconds since 1970 as `2026-03-14T03:00:00.000Z`."""
    return utc(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
