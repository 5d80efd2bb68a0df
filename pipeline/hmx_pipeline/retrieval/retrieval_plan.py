"""Retrieval plan: the terms, labels and limits that a pack request looks up, and its question class (HMX-C §5).

A query of stop words has no terms, so its pack has no matches.
"""

import re
from dataclasses import dataclass
from typing import Final

from hmx_pipeline.contracts.options import Past
from hmx_pipeline.contracts.pack import QueryClassification
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.languages import LANGUAGES, expression
from hmx_pipeline.languages.cues import cue
from hmx_pipeline.retrieval.pack_request import Lineage, PackRequest
from hmx_pipeline.retrieval.related_words import Related, related
from hmx_pipeline.retrieval.searchable import label
from hmx_pipeline.retrieval.terms import ids_in, masks, shapes, stems, terms, words
from hmx_pipeline.retrieval.times import mention
from hmx_pipeline.retrieval.vectors import Embed, Vector, vector

EPISODES: Final = 200
"""Most candidates per pack."""
ARTIFACTS: Final = 60
KNOWLEDGE: Final = 60
LOOKED_AT: Final = 500
"""Most artifacts, records and policies of each kind that a request with `as_of` fetches."""
PRECEDENTS: Final = (32, 16)
"""Most similar sessions: for their actions, and for the files they changed."""
POLICIES: Final = 20
"""Most policies: the newest of the tenant, in every pack that has room."""
CORRECTIONS: Final = 100
_TOKENS_PER_CORRECTION: Final = 512
"""Budget tokens per correction if all sections are asked for. A correction has about 35 tokens and rarely more than 64,
so corrections take about an eighth of the budget at most."""
QUERY_TERMS: Final = 64
_LISTED: Final = 16

_QUESTIONS: Final = LANGUAGES["en"]["questions"]
_TEMPORAL: Final = expression(_QUESTIONS["temporal"])
_FAILURE: Final = expression(_QUESTIONS["failure"])
_DECISION: Final = expression(_QUESTIONS["decision"])
_PROCEDURAL: Final = expression(_QUESTIONS["procedural"])
_IMPERATIVE: Final = expression(_QUESTIONS["imperative"])
_RESUME: Final = cue("resume")
_DOUBT: Final = cue("doubt")
HANDOFF: Final = "handoff"
"""Entity type of what a session hands over."""
_ASKED_FOR: Final = ((_RESUME, cue("resuming"), HANDOFF), (_DOUBT, cue("doubting"), "unknown"))
"""Questions for what says nothing in their words, the words around them, and the word that finds it."""
_QUOTED: Final = re.compile(r"[\"“`']([^\"”`'\n]{2,60})[\"”`']")
_NAMED: Final = re.compile(
    r"(?<![.!?:\n] )(?<!^)\b[A-Z][\w-]+(?: [A-Z][\w-]+)*|\b\w+(?:[./_:#-]\w+)+\b|#?\b[A-Za-z]+\d[\w-]*", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class RetrievalPlan:
    """What to fetch for a request, and how its question was classified."""

    request: PackRequest
    terms: tuple[str, ...]
    """Distinct stems, sorted."""
    shapes: tuple[str, ...]
    """Shapes of the ids in the query, sorted; they find procedures that take such ids."""
    plain: tuple[str, ...]
    """The terms that are in no id."""
    names: tuple[str, ...]
    """The terms that are in a name or an id, sorted."""
    classification: QueryClassification
    related: tuple[Related, ...] = ()
    """Related stems, nearest first; they find episodes too."""
    episodes: int = EPISODES
    artifacts: int = ARTIFACTS
    knowledge: int = KNOWLEDGE
    policies: int = POLICIES
    precedents: tuple[int, int] | None = None
    """Numbers of similar sessions to fetch; None if no running session asks."""
    corrections: int = CORRECTIONS
    """Besides corrections whose file or command the query names."""
    labels: tuple[str, ...] = ()
    """Labels that everything found must have (`documents.label`)."""
    as_of: int | None = None
    """Milliseconds; later records are ignored."""
    earlier: bool = False
    """True if superseded versions are wanted too."""
    timing: frozenset[str] = frozenset()
    """The terms by which the question names a time; no text has to have them to answer it."""
    resumes: bool = False
    """True if the question is to go on with the last work, whatever that was."""
    vector: Vector | None = None
    """Embedding of the query; it finds episodes besides the terms."""

    @property
    def subject(self) -> str:
        """Who asks: what belongs to other subjects is not there. Empty if nobody is named."""
        return self.request.subject_id or ""


def plan(request: PackRequest, embed: Embed | None = None) -> RetrievalPlan:
    """Plan a request. `embed` makes the query's vector if the request has none."""
    found = list(dict.fromkeys(words(request.query)))
    # The rarest words should stay, but frequencies are unknown here; longer words are usually rarer.
    kept = sorted(found, key=lambda word: (-len(word), word))[:QUERY_TERMS]
    asked = tuple(sorted(set(stems(kept))))
    timing = frozenset(terms(mention(request.query) or ""))
    resumes = False
    for wanted, around, name in _ASKED_FOR:
        if wanted.search(request.query) is not None:
            about = set(terms(around.sub(" ", wanted.sub(" ", request.query)))).intersection(asked)
            timing |= frozenset(asked).difference(about) | frozenset(terms(name) if about else ())
            asked, resumes = tuple(sorted({*asked, *terms(name)})), resumes or (name == HANDOFF and not about)
    as_of = None if request.as_of is None else milliseconds(request.as_of)
    ids = frozenset(terms(" ".join(ids_in(request.query))))
    return RetrievalPlan(
        request,
        asked,
        tuple(sorted({*shapes(request.query), *masks(request.query)})[:QUERY_TERMS]),
        tuple(term for term in asked if term not in ids),
        tuple(sorted(set(terms(" ".join(_NAMED.findall(request.query)))).intersection(asked))),
        classify(request.query, found),
        related(asked),
        artifacts=ARTIFACTS if as_of is None else LOOKED_AT,
        knowledge=KNOWLEDGE if as_of is None else LOOKED_AT,
        policies=POLICIES if as_of is None else LOOKED_AT,
        precedents=None if request.session_id is None else PRECEDENTS,
        corrections=_corrections(request),
        labels=_labels(request),
        as_of=as_of,
        timing=timing,
        resumes=resumes,
        earlier=as_of is not None or Past.SUPERSEDED in (request.include or ()),
        vector=_vector(request, embed),
    )


def _corrections(request: PackRequest) -> int:
    if request.sections is None:
        return min(CORRECTIONS, max(1, request.token_budget // _TOKENS_PER_CORRECTION))
    return CORRECTIONS if request.as_of is None else LOOKED_AT


def _vector(request: PackRequest, embed: Embed | None) -> Vector | None:
    if request.query_vector is not None:
        return vector(request.query_vector, request.query_model or "")
    return None if embed is None else embed(request.query)


def _labels(request: PackRequest) -> tuple[str, ...]:
    origin = request.lineage or Lineage()
    named = (
        ("session", origin.session_id),
        ("agent", origin.agent_id),
        ("trace", origin.trace_id),
        ("source", origin.source),
    )
    tags = (label("tag", tag) for tag in request.tags or ())
    return (*tags, *(label(kind, name) for kind, name in named if name is not None))


def classify(query: str, found: list[str]) -> QueryClassification:
    """Classify by the first rule that holds: temporal, failure, decision, procedural, else factual. `times` resolves
    the time."""
    rules = (
        ("temporal", bool(mention(query) or _TEMPORAL.search(query))),
        ("failure", bool(_FAILURE.search(query))),
        ("decision", bool(_DECISION.search(query))),
        ("procedural", bool(_PROCEDURAL.search(query) or _IMPERATIVE.match(query))),
    )
    entities = [match.group(1) for match in _QUOTED.finditer(query)] + _NAMED.findall(query)
    return QueryClassification(
        intent=next((name for name, holds in rules if holds), "factual"),
        keywords=found[:_LISTED],
        entities=list(dict.fromkeys(entity for entity in entities if words(entity)))[:_LISTED],
    )
