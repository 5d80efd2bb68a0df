"""E7: was the agent corrected about this before, and does the pack say so? Of memory that holds what both stages make
of the sessions finished by then. Task A asks with a session's first three user messages at most, tool and path unknown:
is an earlier correction with the same key in the pack? Task B asks with the tool and what it is to be done to.

A correction is a rejection with text, or a rejection or interruption that a user message follows; its key is the file,
else the command with its subcommand, else the tool. It is in a pack where an entry shows its text, whole or at least
twenty words of it, and the record behind the entry names its events. Baselines, over corrections alone: those that are
nearest by BM25 of their session's goal and their text, and the newest, each time as many texts as fit.

All of this counts pasted plans, notices of a client and questions as corrections, which memory leaves out. So the same
is told of those alone that a reader found to say what to do (`corrections_read.txt`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.advice.ranking import Ranking
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import EvidenceControl
from hmx_pipeline.contracts.headers import KIND, Headers
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.segments.action_names import verb_of
from hmx_pipeline.segments.intent import plain_stems
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.remembered import Remembered, as_read, memory
from tests.quality.sessions import Sessions, published
from tests.support.records import START_MS, LogRecord

_FILE: Final = "claude_code"
_BARS: Final = {500: 0.42, 2000: 0.85}
_NAMED_BARS: Final = {300: 0.98}
_SAID: Final = re.compile(r"\bthe user said:\s*(.+)", re.DOTALL)
_PATH_PARTS: Final = 3
"""The last of a path: where a checkout lies differs."""
_ASKED: Final = 3
_QUERY: Final = 4_000
_SHOWN: Final = 20
"""Words of a text in a row that must stand in an entry; of a shorter one all."""
_SECTIONS: Final = [Section.FACTS]
_SILENCE_MS: Final = 3_600_000
_READ: Final = Path(__file__).with_name("corrections_read.txt")
"""A line a text: the beginning of its SHA-256, and whether it says what to do differently."""
Event = Mapping[str, Any]


class Correction(NamedTuple):
    key: str
    text: str
    goal: str
    events: frozenset[str]
    """That say it."""
    at: int
    done: str
    """The tool, and what it was to be done to."""


class Told(NamedTuple):
    """A session."""

    session_id: str
    tenant_id: str
    agent_id: str
    start: int
    end: int
    goal: str
    """Its first user messages."""
    corrections: list[Correction]


Cases = dict[tuple[str, int, str], list[Case]]
"""By task, budget and baseline."""


def task(sessions: Sessions) -> Iterator[Figure]:
    events = sessions.events(_FILE)
    told = sorted(_sessions(events), key=lambda one: (one.start, one.session_id))
    directing = [one._replace(corrections=[c for c in one.corrections if says_what_to_do(c.text)]) for one in told]
    outputs = list(published(events))
    cases, strict = _cases(outputs, told), _cases(outputs, directing)
    for budget, least in _BARS.items():
        bar = Bar(least=least, proven=True)
        yield paired("corrections", _FILE, f"surfaces within {budget}", cases["A", budget, "BM25"], bar)
        yield paired("corrections", _FILE, f"the same beside the newest, {budget}", cases["A", budget, "recency"])
        yield paired("corrections", _FILE, f"of what to do, within {budget}", strict["A", budget, "BM25"])
    for budget, least in _NAMED_BARS.items():
        bar = Bar(least=least, proven=True)
        yield paired("corrections", _FILE, f"named, within {budget}", cases["B", budget, "BM25"], bar)
        yield paired("corrections", _FILE, f"named, of what to do, within {budget}", strict["B", budget, "BM25"])


def says_what_to_do(text: str) -> bool:
    """Whether a reader found so; of a text that nobody has read, False."""
    return _verdicts().get(sha256(text.encode()).hexdigest()[:12]) == "yes"


@cache
def _verdicts() -> dict[str, str]:
    return dict(line.split() for line in _READ.read_text("utf-8").splitlines())


def _cases(outputs: Iterable[Output], told: Sequence[Told]) -> Cases:
    cases: Cases = defaultdict(list)
    with memory("corrections") as held:
        learning = _Learning(held, outputs)
        waiting, over = sorted(told, key=lambda one: (one.end, one.session_id)), list[Told]()
        for now in told:
            while waiting and waiting[0].end < now.start:
                over.append(waiting.pop(0))
                learning.learn(over[-1].session_id)
            known = [c for one in over if one.tenant_id == now.tenant_id for c in one.corrections]
            _ask(held, now, known, cases)
            _ask_by_name(held, now, known, cases)
    return cases


class _Learning:
    """What the service knows once a session is over: its episodes, and all that is compiled."""

    def __init__(self, held: Remembered, outputs: Iterable[Output]) -> None:
        self._held = held
        self._said: dict[str, list[Output]] = defaultdict(list)
        """By session, in order."""
        for output in outputs:
            value = orjson.loads(output.value or b"null")
            session = value["sessionId"] if output.topic == EPISODES else value.get("session_id")
            if session is not None:
                self._said[session].append(output)
        self._patterns = Executor(PatternsFold(), 0)
        self._offsets: Counter[str] = Counter()
        self._clock = START_MS

    def learn(self, session_id: str) -> None:
        """It is long over: whatever waits to be compiled is."""
        said = self._said[session_id]
        evidence = [self._logged(o.key, o.value, o.headers) for o in said if o.topic == EVIDENCE]
        self._clock += _SILENCE_MS
        tick = EvidenceControl(kind="tick").to_json()
        compiled = self._patterns.run([*evidence, self._logged(b"tick", tick, [(KIND, b"tick")])]).outputs
        records = [*as_read(said, EPISODES), *as_read(compiled, ARTIFACTS, KNOWLEDGE)]
        self._held.add([record._replace(offset=self._next(record.topic)) for record in records])

    def _logged(self, key: bytes, value: bytes | None, headers: Headers) -> LogRecord:
        return LogRecord(0, self._next(EVIDENCE), self._clock, key, value, headers)

    def _next(self, topic: str) -> int:
        self._offsets[topic] += 1
        return self._offsets[topic] - 1


def _ask(held: Remembered, now: Told, known: Sequence[Correction], cases: Cases) -> None:
    wanted = {correction.key for correction in now.corrections} & {correction.key for correction in known}
    if not wanted or not now.goal:
        return
    newest = sorted(known, key=lambda one: -one.at)
    nearest = _nearest(known, now.goal)
    packs = held.ask(now.goal[:_QUERY], now.tenant_id, _BARS, sections=_SECTIONS, agent_id=now.agent_id)
    for budget, (pack, _) in packs.items():
        shown = _shown(held, pack, known)
        usual = {"BM25": set(_fitting(nearest, budget)), "recency": set(_fitting(newest, budget))}
        for key in sorted(wanted):
            for name, keys in usual.items():
                cases["A", budget, name].append(Case(now.session_id, float(key in shown), float(key in keys)))


def _ask_by_name(held: Remembered, now: Told, known: Sequence[Correction], cases: Cases) -> None:
    keys = {correction.key for correction in known}
    for done, key in sorted({(one.done, one.key) for one in now.corrections if one.key in keys}):
        nearest = _nearest(known, done)
        for budget, (pack, _) in held.ask(
            done[:_QUERY], now.tenant_id, _NAMED_BARS, sections=_SECTIONS, agent_id=now.agent_id
        ).items():
            value, usual = key in _shown(held, pack, known), key in set(_fitting(nearest, budget))
            cases["B", budget, "BM25"].append(Case(now.session_id, float(value), float(usual)))


def _shown(held: Remembered, pack: ContextPack, known: Iterable[Correction]) -> set[str]:
    """Keys of which a correction is in the pack."""
    entries = []
    for entry in pack.entries:
        record = (
            held.store.get_knowledge(pack.tenant_id or "", entry.source_id) if entry.source_type == "memory" else None
        )
        entries.append((" ".join(entry.content.split()), frozenset(record["source_events"] if record else ())))
    return {
        one.key for one in known if any(one.events <= events and _shows(entry, one.text) for entry, events in entries)
    }


def _shows(entry: str, text: str) -> bool:
    """Whether it shows a text whole, or so many words of it in a row: a pasted heading before them is left out."""
    words, whole = entry.split(), " ".join(text.split())
    runs = (" ".join(words[at : at + _SHOWN]) for at in range(len(words) - _SHOWN + 1))
    return whole in entry or any(run in whole for run in runs)


def _nearest(known: Sequence[Correction], goal: str) -> list[Correction]:
    ranking = Ranking([plain_stems(f"{correction.goal}\n{correction.text}") for correction in known])
    scores = ranking.scores(plain_stems(goal))
    return [known[number] for number in sorted(range(len(known)), key=lambda number: (-scores[number], number))]


def _fitting(ordered: Iterable[Correction], budget: int) -> Iterator[str]:
    """Keys of those whose texts fit."""
    for one in ordered:
        cost = estimate(one.text)
        if cost <= budget:
            budget -= cost
            yield one.key


def _sessions(events: Iterable[Event]) -> Iterator[Told]:
    by_session: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_session[event["session_id"]].append(event)
    for name, own in by_session.items():
        own.sort(key=lambda event: event["sequence"])
        times = [milliseconds(event["timestamp"]) for event in own]
        asked = [event["content"]["text"] for event in own if _by_user(event)][:_ASKED]
        goal = "\n".join(asked)
        who = (own[0]["tenant_id"], own[0]["agent_id"])
        yield Told(name, *who, min(times), max(times), goal, [*_corrections(own, goal)])


def _by_user(event: Event) -> bool:
    return (
        event["event_type"] == "message" and event["content"].get("role") == "user" and bool(event["content"]["text"])
    )


def _corrections(own: Sequence[Event], goal: str) -> Iterator[Correction]:
    known = {event["event_id"]: event for event in own}
    key, done = "", ""
    for place, event in enumerate(own):
        if event["event_type"] != "feedback" or event["content"]["signal"] not in ("correction", "negative"):
            continue
        tool, about = _rejected(event, known)
        if found := _key(tool, about):
            key, done = found, f"{tool} {about}".strip()
        at = milliseconds(event["timestamp"])
        said = _SAID.search(event["content"].get("comment") or "")
        if said and key:
            yield Correction(key, said[1].strip(), goal, frozenset({event["event_id"]}), at, done)
            continue
        follows = next((e for e in own[place + 1 :] if e["event_type"] != "feedback"), None)
        if follows is not None and _by_user(follows) and key:
            events = frozenset({event["event_id"], follows["event_id"]})
            yield Correction(key, follows["content"]["text"], goal, events, at, done)


def _rejected(event: Event, known: Mapping[str, Event]) -> tuple[str, str]:
    """The tool, and what it was to be done to; of what was rejected, or interrupted."""
    about = event["metadata"].get("rejected_command") or ""
    tool = event["metadata"].get("rejected_tool") or ""
    target = known.get(event["content"].get("target_event_id") or "")
    if not tool and target is not None:
        content = target["content"]
        tool = content.get("tool_name") or target["event_type"]
        about = content.get("path") or content.get("file_path") or content.get("command") or ""
    return tool, about


def _key(tool: str, about: str) -> str:
    if tool in ("message", "feedback"):
        return ""
    if about.startswith("/") and " " not in about:
        return "/".join(about.split("/")[-_PATH_PARTS:])
    return verb_of(Role.ACTION, about) if " " in about else tool
