"""E7: was the agent corrected about this before, and does the pack say so? Asked with a session's first three user
messages at most, tool and path unknown, of memory that holds the sessions finished by then: is an earlier correction
with the same key in the pack?

A correction is a rejection with text, or a rejection or interruption that a user message follows; its key is the file,
else the command with its subcommand, else the tool. Packs are those of the service, of what was said and observed
alone. Baseline: corrections by BM25 of their session's goal and their text, as many as fit.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.advice.ranking import Ranking
from pipeline.contracts.event_types import Role
from pipeline.contracts.instants import milliseconds
from pipeline.contracts.pack import Section
from pipeline.packs.tokens import estimate
from pipeline.segments.intent import plain_stems
from pipeline.segments.naming import verb_of
from pipeline.store.projection import Record
from pipeline.topology import EPISODES
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.remembered import Remembered, as_read, memory
from tests.quality.sessions import Sessions, published

_FILE: Final = "claude_code"
_BARS: Final = {500: Bar(least=0.42, proven=True), 2000: Bar(least=0.85, proven=True)}
_SAID: Final = re.compile(r"\bthe user said:\s*(.+)", re.DOTALL)
_PATH_PARTS: Final = 3
"""The last of a path: where a checkout lies differs."""
_ASKED: Final = 3
_QUERY: Final = 4_000
_SECTIONS: Final = [Section.EPISODES, Section.EVIDENCE]
Event = Mapping[str, Any]


class Correction(NamedTuple):
    key: str
    text: str
    goal: str
    events: frozenset[str]
    """That say it."""


class Told(NamedTuple):
    """A session."""

    session_id: str
    tenant_id: str
    start: int
    end: int
    goal: str
    """Its first user messages."""
    corrections: list[Correction]


def task(sessions: Sessions) -> Iterator[Figure]:
    events = sessions.events(_FILE)
    told = sorted(_sessions(events), key=lambda one: (one.start, one.session_id))
    episodes: dict[str, list[Record]] = defaultdict(list)
    for record in as_read(published(events), EPISODES):
        episodes[record.key.decode().rpartition("/")[2]].append(record)
    cases: dict[int, list[Case]] = defaultdict(list)
    with memory("corrections") as held:
        waiting, over, offset = sorted(told, key=lambda one: (one.end, one.session_id)), [], 0
        for now in told:
            while waiting and waiting[0].end < now.start:
                over.append(finished := waiting.pop(0))
                found = [r._replace(offset=offset + n) for n, r in enumerate(episodes[finished.session_id])]
                offset += len(found)
                held.add(found)
            for budget, case in _asked(held, now, [one for one in over if one.tenant_id == now.tenant_id]):
                cases[budget].append(case)
    for budget, bar in _BARS.items():
        yield paired("corrections", _FILE, f"surfaces within {budget}", cases[budget], bar)


def _asked(held: Remembered, now: Told, over: Sequence[Told]) -> Iterator[tuple[int, Case]]:
    known = [correction for one in over for correction in one.corrections]
    wanted = {correction.key for correction in now.corrections} & {correction.key for correction in known}
    if not wanted or not now.goal:
        return
    packs = held.ask(now.goal[:_QUERY], now.tenant_id, _BARS, sections=_SECTIONS)
    for budget, (pack, _) in packs.items():
        shown = {entry.source_id for entry in pack.entries}
        usual = {known[number].key for number in _usual(known, now.goal, budget)}
        for key in sorted(wanted):
            value = any(correction.key == key and shown & correction.events for correction in known)
            yield budget, Case(now.session_id, float(value), float(key in usual))


def _usual(known: Sequence[Correction], goal: str, budget: int) -> Iterator[int]:
    ranking = Ranking([plain_stems(f"{correction.goal}\n{correction.text}") for correction in known])
    scores = ranking.scores(plain_stems(goal))
    for number in sorted(range(len(known)), key=lambda number: (-scores[number], number)):
        cost = estimate(known[number].text)
        if cost <= budget:
            budget -= cost
            yield number


def _sessions(events: Iterable[Event]) -> Iterator[Told]:
    by_session: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_session[event["session_id"]].append(event)
    for name, own in by_session.items():
        own.sort(key=lambda event: event["sequence"])
        times = [milliseconds(event["timestamp"]) for event in own]
        asked = [event["content"]["text"] for event in own if _by_user(event)][:_ASKED]
        goal = "\n".join(asked)
        yield Told(name, own[0]["tenant_id"], min(times), max(times), goal, [*_corrections(own, goal)])


def _by_user(event: Event) -> bool:
    return (
        event["event_type"] == "message" and event["content"].get("role") == "user" and bool(event["content"]["text"])
    )


def _corrections(own: Sequence[Event], goal: str) -> Iterator[Correction]:
    known = {event["event_id"]: event for event in own}
    key = ""
    for place, event in enumerate(own):
        if event["event_type"] != "feedback" or event["content"]["signal"] not in ("correction", "negative"):
            continue
        key = _key(event, known) or key
        said = _SAID.search(event["content"].get("comment") or "")
        if said and key:
            yield Correction(key, said[1].strip(), goal, frozenset({event["event_id"]}))
            continue
        follows = next((e for e in own[place + 1 :] if e["event_type"] != "feedback"), None)
        if follows is not None and _by_user(follows) and key:
            yield Correction(key, follows["content"]["text"], goal, frozenset({event["event_id"], follows["event_id"]}))


def _key(event: Event, known: Mapping[str, Event]) -> str:
    """Of what was rejected, or interrupted."""
    about = event["metadata"].get("rejected_command") or ""
    tool = event["metadata"].get("rejected_tool") or ""
    target = known.get(event["content"].get("target_event_id") or "")
    if not tool and target is not None:
        content = target["content"]
        tool = content.get("tool_name") or target["event_type"]
        about = content.get("path") or content.get("file_path") or content.get("command") or ""
    if tool in ("message", "feedback"):
        return ""
    if about.startswith("/") and " " not in about:
        return "/".join(about.split("/")[-_PATH_PARTS:])
    return verb_of(Role.ACTION, about) if " " in about else tool
