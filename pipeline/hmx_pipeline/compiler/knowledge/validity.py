"""Validity times in a statement: since when and until when it holds.

Input: a sentence and its time in milliseconds. Output: two times, None if not stated. Each language has its own words
before a date (`since`, `until`). A date is 2026-05-01, an English month, `today`, `tomorrow` or `next week`.
"""

import re
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Final, NamedTuple

from hmx_pipeline.compiler.knowledge.language import TONGUES, Language
from hmx_pipeline.languages.detect import language_of

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE: Final = re.compile(
    r"(?P<iso>\d{4}-\d\d-\d\d)\b"
    r"|(?P<month>(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*)\b(?: (?P<year>\d{4})\b)?"
    r"|(?P<day>today|now)\b|(?P<tomorrow>tomorrow)\b|next (?P<unit>week|month)\b",
    re.IGNORECASE,
)


class Validity(NamedTuple):
    since: int | None = None
    until: int | None = None


def validity(said: str, at: int) -> Validity:
    tongue = TONGUES[language_of(said)]
    return Validity(_told(said, "since", at, tongue), _told(said, "until", at, tongue))


def _told(said: str, name: str, at: int, tongue: Language) -> int | None:
    word = tongue.says[name].search(said)
    match = _DATE.match(said, word.end()) if word is not None else None
    if match is None:
        return None
    found = _moment(match, datetime.fromtimestamp(at / 1_000, UTC), ends=name == "until")
    return None if found is None else int(found.timestamp() * 1_000)


def _moment(match: re.Match[str], now: datetime, *, ends: bool) -> datetime | None:
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if match["iso"]:
        try:
            told = datetime.fromisoformat(match["iso"]).replace(tzinfo=UTC)
        except ValueError:
            return None
        return told + timedelta(days=1) if ends else told
    if match["month"]:
        month = 1 + _MONTHS.index(match["month"][:3].lower())
        year = int(match["year"]) if match["year"] else now.year + (month < now.month if ends else -(month > now.month))
        if not 1 <= year < MAXYEAR:
            return None
        first = datetime(year, month, 1, tzinfo=UTC)
        return (first + timedelta(days=32)).replace(day=1) if ends else first
    if match["unit"]:
        week = day + timedelta(days=7 - day.weekday())
        return week if match["unit"].lower() == "week" else (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return day + timedelta(days=1 if match["tomorrow"] or ends else 0)
