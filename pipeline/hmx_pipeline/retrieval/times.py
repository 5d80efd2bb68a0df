"""Time expressions in a question ("last week", "since May"), resolved to a span in UTC.

Input: a question, and the newest event time, which counts as "now". Output: the words that name a time, and the span
they mean; None if there are none or the date does not exist.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from hmx_pipeline.contracts.bounded_cache import once
from hmx_pipeline.contracts.timestamps import format_ms, utc

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTS: Final = {
    name: count
    for count, names in enumerate(
        ("a|an|one", "two|a couple of|couple of", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1
    )
    for name in names.split("|")
}
_MONTH: Final = f"(?:{'|'.join(_MONTHS)})"
_DAY: Final = f"(?:{'|'.join(_DAYS)})"
_COUNT: Final = rf"(?:\d{{1,4}}|{'|'.join(sorted(_COUNTS, key=len, reverse=True))})"
_UNIT: Final = "(?:minute|hour|day|week|month|year)"
_ORDINAL: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_POINTS: Final = {
    "date": r"\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?",
    "month_number": r"\d{4}-\d\d(?![\d-])",
    "full": rf"(?:{_MONTH} {_ORDINAL}(?:,? \d{{4}})?|{_ORDINAL} (?:of )?{_MONTH}(?:,? \d{{4}})?)",
    "rolling": rf"(?:past|last) {_COUNT} {_UNIT}s",
    "ago": rf"{_COUNT} {_UNIT}s? ago",
    "relative": r"(?:last|past|previous|this|next) (?:night|day|week|weekend|month|quarter|year)",
    "month": rf"(?:(?:last|this|next) )?{_MONTH}(?: (?:of )?\d{{4}})?",
    "weekday": rf"(?:(?:last|this|next) )?{_DAY}",
    "word": "the day before yesterday|yesterday|today|tonight|tomorrow",
    "year": r"(?<=\bin )\d{4}|(?<=\bsince )\d{4}|(?<=\bbefore )\d{4}|(?<=\bafter )\d{4}|(?<=\buntil )\d{4}",
}
_POINT: Final = "|".join(_POINTS.values())
_RANGE: Final = re.compile(
    rf"\b(?:(?:between|from) (?P<first>{_POINT}) (?:and|to|until|till) (?P<last>{_POINT})"
    rf"|(?:(?P<how>since|after|before|until|till|by|in|on|during) )?(?:the )?(?P<one>{_POINT}))\b",
    re.IGNORECASE,
)
_FORMS: Final = {name: re.compile(form, re.IGNORECASE) for name, form in _POINTS.items() if name != "year"}
_ONE_DAY: Final = timedelta(days=1)
OPEN: Final = ".."

Between = tuple[datetime, datetime]


class TimeSpan(NamedTuple):
    """A time span in milliseconds; `end` is exclusive, None means open."""

    start: int | None
    end: int | None

    def distance(self, at: int) -> int:
        """Return the distance of a time from the span; 0 within."""
        if self.start is not None and at < self.start:
            return self.start - at
        return at - self.end + 1 if self.end is not None and at >= self.end else 0

    def __str__(self) -> str:
        """Format as an ISO 8601 interval."""
        return "/".join(OPEN if at is None else format_ms(at) for at in self)


def mention(query: str) -> str | None:
    """Return the words that name a time."""
    found = _match(query)
    return None if found is None else found.group().lower()


def time_reference(query: str, now: int) -> TimeSpan | None:
    """Return the span that a question names. `now` in milliseconds."""
    found = _match(query)
    if found is None:
        return None
    at = utc(now)
    try:
        if found["first"]:
            first, last = _point(found["first"], at), _point(found["last"], at)
            if first is None or last is None or first[0] > last[0]:
                return None
            return TimeSpan(_ms(first[0]), _ms(last[1]))
        point = _point(found["one"], at)
    except (ValueError, OverflowError):  # such as 30 February, or a year beyond 9999
        return None
    if point is None:
        return None
    start, end = map(_ms, point)
    match (found["how"] or "").lower():
        case "since":
            return TimeSpan(start, None)
        case "after":
            return TimeSpan(end, None)
        case "before":
            return TimeSpan(None, start)
        case "until" | "till" | "by":
            return TimeSpan(None, end)
    return TimeSpan(start, end)


@once
def _match(query: str) -> re.Match[str] | None:
    for found in _RANGE.finditer(" ".join(query.split())):
        one = (found["one"] or "").lower()
        # "May" and "march" are verbs, April and June are names, so a month alone needs its preposition.
        if one not in _MONTHS or found["how"]:
            return found
    return None


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000 + at.microsecond // 1000


def _point(text: str, now: datetime) -> Between | None:
    words = text.lower()
    if re.fullmatch(r"\d{4}", words):
        return _year(int(words), now)
    for name, form in _FORMS.items():
        if form.fullmatch(words):
            return _READINGS[name](words, now)
    return None


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _day(at: datetime) -> Between:
    start = _midnight(at)
    return start, start + _ONE_DAY


def _month_of(at: datetime) -> Between:
    start = _midnight(at).replace(day=1)
    return start, (start + timedelta(days=32)).replace(day=1)


def _year(year: int, now: datetime) -> Between:
    start = _midnight(now).replace(year=year, month=1, day=1)
    return start, start.replace(year=year + 1)


def _week(at: datetime) -> Between:
    start = _midnight(at) - timedelta(days=at.weekday())
    return start, start + timedelta(days=7)


def _months_on(at: datetime, count: int) -> datetime:
    """Return the first day of the month that many months later."""
    months = at.year * 12 + at.month - 1 + count
    return _midnight(at).replace(year=months // 12, month=months % 12 + 1, day=1)


def _date(text: str, now: datetime) -> Between:
    return _day(_midnight(now).replace(year=int(text[:4]), month=int(text[5:7]), day=int(text[8:10])))


def _month_number(text: str, now: datetime) -> Between:
    return _month_of(_midnight(now).replace(year=int(text[:4]), month=int(text[5:7]), day=1))


def _full(text: str, now: datetime) -> Between:
    """Return a day of a month; without a year, the newest that has begun."""
    month = next(number for number, name in enumerate(_MONTHS, 1) if name in text)
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    day = numbers[0]
    if len(numbers) > 1:
        return _day(_midnight(now).replace(year=numbers[1], month=month, day=day))
    year = now.year if (month, day) <= (now.month, now.day) else now.year - 1
    return _day(_midnight(now).replace(year=year, month=month, day=day))


def _named_month(text: str, now: datetime) -> Between:
    """Return a month; without a year, the newest that has begun. `last` excludes this month, `next` is the first to
    come."""
    words = text.split()
    month = next(number for number, name in enumerate(_MONTHS, 1) if name in words)
    if words[-1].isdigit():
        return _month_of(_midnight(now).replace(year=int(words[-1]), month=month, day=1))
    back = (now.month - month) % 12
    back = {"last": back or 12, "next": back - 12, "this": now.month - month}.get(words[0], back)
    return _month_of(_months_on(now, -back))


def _weekday(text: str, now: datetime) -> Between:
    """Return the last such day before today; `next`: the first after it; `this`: the one in this week."""
    words = text.split()
    number = _DAYS.index(words[-1])
    back = (now.weekday() - number) % 7 or 7
    back = {"next": back - 7 or -7, "this": now.weekday() - number}.get(words[0], back)
    return _day(now - timedelta(days=back))


def _count_of(text: str) -> int:
    found = re.search(_COUNT, text)
    assert found is not None
    return int(found[0]) if found[0].isdigit() else _COUNTS[found[0]]


def _ago(text: str, now: datetime) -> Between:
    """Return the day, week, month or year of that time; for minutes and hours, a span of one unit around it."""
    count = _count_of(text)
    if "minute" in text or "hour" in text:
        unit = timedelta(minutes=1) if "minute" in text else timedelta(hours=1)
        return now - unit * count - unit / 2, now - unit * count + unit / 2
    if "day" in text:
        return _day(now - timedelta(days=count))
    if "week" in text:
        return _week(now - timedelta(weeks=count))
    return _month_of(_months_on(now, -count)) if "month" in text else _year(now.year - count, now)


def _rolling(text: str, now: datetime) -> Between:
    """Return the span up to and including now."""
    count = _count_of(text.split(maxsplit=1)[1])
    end = now + timedelta(milliseconds=1)
    for unit, length in (("minute", 1 / 1440), ("hour", 1 / 24), ("day", 1), ("week", 7), ("month", 30), ("year", 365)):
        if f" {unit}" in text:
            return now - timedelta(days=length * count), end
    raise ValueError(text)


def _relative(text: str, now: datetime) -> Between:
    which, unit = text.split()
    step = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1}[which]
    match unit:
        case "night":
            evening = _midnight(now) + timedelta(days=step, hours=18)
            return evening, evening + timedelta(hours=12)
        case "day":
            return _day(now + step * _ONE_DAY)
        case "week":
            return _week(now + timedelta(weeks=step))
        case "weekend":
            # On a weekend, `last` means the one before it.
            saturday = _week(now)[0] + timedelta(days=5, weeks=step)
            return saturday, saturday + timedelta(days=2)
        case "month":
            return _month_of(_months_on(now, step))
        case "quarter":
            start = _months_on(now, 3 * step - (now.month - 1) % 3)
            return start, _months_on(start, 3)
    return _year(now.year + step, now)


def _word(text: str, now: datetime) -> Between:
    days = {"yesterday": -1, "tomorrow": 1, "the day before yesterday": -2}.get(text, 0)
    return _day(now + timedelta(days=days))


_READINGS: Final[Mapping[str, Callable[[str, datetime], Between]]] = {
    "date": _date,
    "month_number": _month_number,
    "full": _full,
    "rolling": _rolling,
    "ago": _ago,
    "relative": _relative,
    "month": _named_month,
    "weekday": _weekday,
    "word": _word,
}
