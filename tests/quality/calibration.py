"""E8: does a pack know when to stop? Questions about nothing that a memory knows: how many entries are shown? And is
what answers a question more relevant than what does not?

A memory is that of one tenant of real sessions, or of one long conversation. It is asked what was asked in the others:
the questions about the other conversations, and the first things that users say in the other files. Whole memories are
drawn. Standing rules hold whatever is asked, so they do not count. Packs are those of the service.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from statistics import median
from typing import Final

import numpy as np

from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.packs.pack_query import asked
from hmx_pipeline.packs.pack_view import view
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import MemorySnapshot
from tests.quality.figures import Bar, Case, Figure, mean
from tests.quality.recall import questions_of
from tests.quality.remembered import both_stages, memory
from tests.quality.sessions import Sessions

_TALK: Final = "locomo"
_WORK: Final = ("tau", "swe", "claude_code")
_BUDGET: Final = 4_096
_EACH: Final = 20
"""Questions of each other source."""
_CHARACTERS: Final = 300
"""Of a first message: its beginning says what is wanted."""
_SHOWN_BAR, _ANY_BAR, _AUC_BAR = Bar(most=0), Bar(most=0.1), Bar(least=0.9)


def task(sessions: Sessions) -> Iterator[Figure]:
    told = questions_of(sessions)
    asks = {name: _first_messages(sessions, name) for name in _WORK}
    shown: list[tuple[str, int]] = []
    strange: list[float] = []
    known: list[float] = []
    gold: dict[bool, list[float]] = {True: [], False: []}
    for name in (_TALK, *_WORK):
        with memory("calibration") as held:
            held.add(both_stages(sessions.events(name)))
            for tenant in sorted(held.store.tenants()):
                others = {
                    _TALK: [one.text for one in told if one.tenant_id != tenant],
                    **{other: texts for other, texts in asks.items() if other != name},
                }
                for texts in others.values():
                    for text in _chosen(texts, tenant):
                        pack, fetched = held.ask(text, tenant, [_BUDGET])[_BUDGET]
                        shown.append((tenant, _answers(pack)))
                        if name == _TALK:
                            strange.append(max(_relevances(text, tenant, fetched).values(), default=0.0))
            for one in told if name == _TALK else ():
                fetched = held.ask(one.text, one.tenant_id, [_BUDGET])[_BUDGET][1]
                relevances = _relevances(one.text, one.tenant_id, fetched)
                known.append(max(relevances.values(), default=0.0))
                for event, relevance in relevances.items():
                    gold[event in one.gold].append(relevance)
    counts = [count for _, count in shown]
    about = f"{len(shown):,} questions about nothing"
    yield Figure("calibration", about, "entries shown, median", median(counts), bar=_SHOWN_BAR)
    yield mean("calibration", about, "packs with an entry", [Case(who, float(n > 0)) for who, n in shown], _ANY_BAR)
    yield Figure("calibration", _TALK, "AUC of the best entry, known or not", _auc(known, strange), bar=_AUC_BAR)
    yield Figure("calibration", _TALK, "AUC of relevance, gold or not", _auc(gold[True], gold[False]), bar=_AUC_BAR)


def _answers(pack: ContextPack) -> int:
    return sum(entry.section is not Section.CORE for entry in pack.entries)


def _relevances(text: str, tenant: str, fetched: MemorySnapshot) -> Mapping[str, float]:
    """Of each episode that was found."""
    request = PackRequest(query=text, tenant_id=tenant)
    seen = view(asked(request, plan(request), fetched), fetched)
    return {found.source.event_id: found.relevance for found in seen.episodes}


def _first_messages(sessions: Sessions, name: str) -> list[str]:
    first: dict[str, tuple[int, str]] = defaultdict(lambda: (2**63, ""))
    for event in sessions.events(name):
        if event["event_type"] == "message" and event["content"].get("role") == "user":
            first[event["session_id"]] = min(first[event["session_id"]], (event["sequence"], event["content"]["text"]))
    return [text[:_CHARACTERS] for _, text in first.values() if text.strip()]


def _chosen(texts: Sequence[str], tenant: str) -> list[str]:
    return sorted(set(texts), key=lambda text: sha256(f"{tenant}\n{text}".encode()).digest())[:_EACH]


def _auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """How often one of the first is above one of the second; equals count half."""
    others = np.sort(np.array(lower))
    ranks = (np.searchsorted(others, higher, "left") + np.searchsorted(others, higher, "right")) / 2
    return round(float(np.mean(ranks)) / len(others), 4)
