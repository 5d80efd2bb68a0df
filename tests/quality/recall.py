"""E1: does a pack hold the turns of a long conversation that answer a question about it?

Each conversation is a tenant; a question's gold turns are known. A gold turn counts if at least four fifths of its
content words stand in one entry whose lineage includes its event. Packs are those of the service: both stages, Redis,
plan, fetch, assembly. Baseline: BM25 of stems over turns with the three previous turns' terms and the date's words,
its turns rendered and counted as packs do, as many of the best as fit. Whole conversations are drawn. The budgets are
filled; what a pack holds that stops where entries stop helping is asked besides, with the tokens that it took.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log1p
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.episode import RESERVED
from hmx_pipeline.contracts.options import Filling
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.contracts.timestamps import utc
from hmx_pipeline.packs.render import episode, marked
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.score import MemorySnapshot
from hmx_pipeline.retrieval.searchable import Document, document, episode_step
from hmx_pipeline.retrieval.terms import STOP_WORDS, terms
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.embedding_model import Semantic
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EPISODES
from tests.quality.figures import Bar, Case, Figure, mean, paired
from tests.quality.remembered import both_stages, memory
from tests.quality.sessions import MissingError, Sessions

_FILE: Final = "locomo"
_BARS: Final = {
    1000: Bar(least=0.86, proven=True),
    2000: Bar(least=0.9, proven=True),
    4000: Bar(least=0.93, proven=True),
}
_RELEVANT: Final = 2000
_RELEVANT_BAR, _TOKENS_BAR = Bar(least=0.9), Bar(most=1200)
_MULTI_HOP: Final = "multi_hop"
_MULTI_HOP_BAR: Final = Bar(least=0.76)
_SEMANTIC_BARS: Final = {
    1000: Bar(least=0.9, proven=True),
    2000: Bar(least=0.94, proven=True),
    4000: Bar(least=0.97, proven=True),
}
_SEMANTIC_MULTI_HOP_BAR: Final = Bar(least=0.87)
_SHARE: Final = 0.8
_DAY_MS: Final = 86_400_000
_WORD: Final = re.compile(r"[a-z0-9]+")


class Question(NamedTuple):
    tenant_id: str
    text: str
    kind: str
    gold: Mapping[str, frozenset[str]]
    """Content words of each turn that answers it, by event."""


def task(sessions: Sessions) -> Iterator[Figure]:
    return _figures(sessions, "recall", None, _BARS, _MULTI_HOP_BAR)


def semantic(sessions: Sessions) -> Iterator[Figure]:
    """The same with the model that HMX_SEMANTIC names."""
    try:
        model = Semantic.of(Settings.load())
    except SettingsError as error:
        raise MissingError(str(error)) from error
    if model is None:
        raise MissingError("HMX_SEMANTIC names no model; `hmx semantic` fetches it")
    return _figures(sessions, "semantic", model, _SEMANTIC_BARS, _SEMANTIC_MULTI_HOP_BAR)


def _figures(
    sessions: Sessions, name: str, model: Semantic | None, bars: Mapping[int, Bar], multi_hop: Bar
) -> Iterator[Figure]:
    questions = questions_of(sessions)
    records = both_stages(sessions.events(_FILE))
    cases: dict[int, list[tuple[Question, Case]]] = defaultdict(list)
    relevant: list[Case] = []
    tokens: list[Case] = []
    with memory(name, model) as held:
        held.add(records)
        usual = {tenant: _Usual(turns) for tenant, turns in _turns(records).items()}
        for question in questions:
            ranked = usual[question.tenant_id].ranked(question.text)
            packs = held.ask(question.text, question.tenant_id, bars, fill=Filling.BUDGET)
            shown = held.ask(question.text, question.tenant_id, [_RELEVANT])[_RELEVANT]
            relevant.append(Case(question.tenant_id, _held(question, _entries(*shown))))
            tokens.append(Case(question.tenant_id, shown[0].token_budget.used))
            for budget, pack in packs.items():
                value = _held(question, _entries(*pack))
                baseline = _held(question, _within(budget, ranked))
                cases[budget].append((question, Case(question.tenant_id, value, baseline)))
    for budget, bar in bars.items():
        yield paired(name, _FILE, f"gold turns within {budget}", [case for _, case in cases[budget]], bar)
    yield mean(name, _FILE, f"what is relevant, within {_RELEVANT}", relevant, _RELEVANT_BAR)
    yield mean(name, _FILE, "tokens that it takes", tokens, _TOKENS_BAR)
    budget = max(bars)
    hops = [case for question, case in cases[budget] if question.kind == _MULTI_HOP]
    yield paired(name, _FILE, f"the same, several hops, {budget}", hops, multi_hop)


def questions_of(sessions: Sessions) -> list[Question]:
    turns = {turn["event_id"]: _content(turn["text"]) for turn in _lines(sessions, "turns")}
    return [
        Question(
            asked["tenant_id"],
            asked["question"],
            asked["category"],
            {event: turns[event] for event in asked["evidence_event_ids"]},
        )
        for asked in _lines(sessions, "qa")
        if asked["evidence_event_ids"]
    ]


def _lines(sessions: Sessions, name: str) -> list[dict[str, Any]]:
    file = sessions.folder / f"{_FILE}_{name}.jsonl"
    if not file.exists():
        raise MissingError(f"{file} is not there")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _content(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - STOP_WORDS


class Said(NamedTuple):
    """An entry: what it says, and the events that it rests on."""

    words: frozenset[str]
    events: frozenset[str]


def _held(question: Question, said: Sequence[Said]) -> float:
    """The share of the gold turns."""
    found = sum(
        any(event in one.events and len(words & one.words) >= _SHARE * len(words) for one in said)
        for event, words in question.gold.items()
    )
    return found / len(question.gold)


def _entries(pack: ContextPack, fetched: MemorySnapshot) -> list[Said]:
    lineage = _lineage(pack, fetched)
    return [Said(_content(entry.content), lineage[entry.source_id]) for entry in pack.entries]


def _lineage(pack: ContextPack, fetched: MemorySnapshot) -> dict[str, frozenset[str]]:
    events: dict[str, Iterable[str]] = {entry.source_id: [entry.source_id] for entry in pack.entries}
    events.update((found.source.artifact_id, found.source.source_events) for found in fetched.artifacts)
    known = (*(found.source for found in fetched.knowledge), *fetched.policies)
    events.update((record.record_id, record.source_events) for record in known)
    return {source: frozenset(found) for source, found in events.items()}


def _turns(records: Iterable[TopicRecord]) -> dict[str, list[Document]]:
    """By tenant."""
    turns: dict[str, list[Document]] = defaultdict(list)
    for record in records:
        if record.topic == EPISODES and record.value is not None:
            fields = orjson.loads(record.value)
            found = document(fields, episode_step(fields))
            if found is not None:
                turns[fields["metadata"][RESERVED]["tenant_id"]].append(found)
    return turns


class _Usual:
    """The baseline over one tenant's turns."""

    def __init__(self, turns: Sequence[Document]) -> None:
        self._turns = turns
        self._said = [Said(_content(turn.text), frozenset({turn.event_id})) for turn in turns]
        self._cost = [estimate(marked(episode(turn))) for turn in turns]
        own = [Counter(terms(f"{turn.text} {utc(turn.at // _DAY_MS * _DAY_MS):%d %B %Y}")) for turn in turns]
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        lengths = []
        for number, turn in enumerate(turns):
            weights: dict[str, float] = defaultdict(float)
            for back, weight in enumerate((1.0, 0.6, 0.4, 0.2)):
                if number >= back and turns[number - back].session_id == turn.session_id:
                    for term, n in own[number - back].items():
                        weights[term] += weight * n
            lengths.append(sum(weights.values()))
            for term, weighed in weights.items():
                self._postings[term].append((number, weighed))
        usual = sum(lengths) / len(lengths)
        self._norms = [0.9 * (0.4 + 0.6 * length / usual) for length in lengths]

    def ranked(self, query: str) -> list[tuple[int, Said]]:
        """What each takes and says, the best first."""
        scores = [0.0] * len(self._turns)
        for term in sorted(set(terms(query))):
            postings = self._postings.get(term, ())
            weight = log1p((len(self._turns) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, n in postings:
                scores[number] += weight * 1.9 * n / (n + self._norms[number])
        order = sorted(range(len(scores)), key=lambda number: (-round(scores[number], 6), number))
        return [(self._cost[number], self._said[number]) for number in order]


def _within(budget: int, ranked: Iterable[tuple[int, Said]]) -> list[Said]:
    """Whatever still fits, the best first."""
    taken = []
    for cost, said in ranked:
        if cost <= budget:
            budget -= cost
            taken.append(said)
    return taken
