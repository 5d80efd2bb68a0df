"""Updates: a statement, and a day later what replaces it. Does the new value hold, and the old one no more?

Planted ones are every affirmative form beside every form of update, in seven languages; the others are sentences that
people wrote (`rulebook/updates.jsonl`). Of those it also counts how often the statement was read at all: an update can
end only what is known. Worst is that the old value stands alone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.quality.figures import Bar, Case, Figure, mean
from tests.quality.planted_updates import LANGUAGES
from tests.quality.sessions import MissingError, Sessions
from tests.support.talk import holding, knowledge_of, said

DAY: Final = 1_440
"""In minutes."""
RIGHT: Final = Bar(least=0.7)
STALE: Final = Bar(most=0.1)


class Pair(NamedTuple):
    language: str
    before: str
    after: str
    old: str
    new: str


class Outcome(NamedTuple):
    read: bool
    """The statement was known before it was replaced."""
    old: bool
    """What it says still holds."""
    new: bool


def task(sessions: Sessions) -> Iterator[Figure]:
    yield from measured("planted", planted())
    yield from measured("other people's", _found(sessions))


def measured(name: str, pairs: Iterable[Pair]) -> Iterator[Figure]:
    judged = [(pair, outcome(pair)) for pair in pairs]
    of_read = [(pair, found) for pair, found in judged if found.read]
    yield mean("updates", name, "statements read", [Case(pair.before, float(found.read)) for pair, found in judged])
    right = [Case(pair.before, float(found.new and not found.old)) for pair, found in of_read]
    stale = [Case(pair.before, float(found.old and not found.new)) for pair, found in of_read]
    yield mean("updates", name, "new one alone holds, of those", right, RIGHT)
    yield mean("updates", name, "old one alone holds, of those", stale, STALE)


def planted() -> Iterator[Pair]:
    for code, language in LANGUAGES.items():
        for number, (form, now, mine) in enumerate(language.said):
            old, new = language.values[number % len(language.values)]
            states, renewed = (form.format(a=x, b=x) for x in (old, new))
            whole = renewed.rstrip(".。")
            kept = (mine and code == "en") or code in ("ja", "zh")
            within = whole if kept else whole[:1].lower() + whole[1:]
            for update in (*language.own, *(language.mine if mine else language.any)):
                stated = whole if update.startswith("{") else within
                yield Pair(code, states, update.format(n=now.format(b=new), s=stated, a=old, b=new), old, new)


def _found(sessions: Sessions) -> Iterator[Pair]:
    file = sessions.folder / "rulebook" / "updates.jsonl"
    if not file.exists():
        raise MissingError(f"{file} is not there; set HMX_DATA to the folder of the open data")
    for one in map(json.loads, file.read_text("utf-8").splitlines()):
        yield Pair(one["lang"], one["earlier"], one["text"], one["old"], one["new"])


def outcome(pair: Pair, *, late: bool = False) -> Outcome:
    """`late`: the statement comes in after what replaces it."""
    before, after = said("before", pair.before), said("after", pair.after, at=DAY)
    records = holding(knowledge_of(after + before if late else before + after))
    events = {event["event_id"] for event in before}
    read = holding(knowledge_of(before))
    old = any(_affirms(record) and events.issuperset(record["source_events"]) for record in records)
    gone = pair.new.lower().startswith(("no longer", "can")) and not old
    return Outcome(bool(read), old, gone or any(states(record, pair.new) for record in records))


def states(record: Mapping[str, Any], value: str) -> bool:
    return _affirms(record) and value.lower() in f"{record['body']['object']} {record['text']}".lower()


def _affirms(record: Mapping[str, Any]) -> bool:
    return not record["body"]["negated"]
