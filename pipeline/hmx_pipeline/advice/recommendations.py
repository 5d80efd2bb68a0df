"""Recommendations for a running session: the next steps or a recovery, and the files its goal will touch.

Input: the question, the session's recent steps, the agent, and similar sessions, best first. Output: `Advice`. Each
recommendation names the similar session that supports it; without one, nothing is recommended.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hmx_pipeline.advice import next_after_error
from hmx_pipeline.advice.action_traces import Recommendation, courses
from hmx_pipeline.advice.files import Files, sessions
from hmx_pipeline.advice.next_command import CommandCounts, joined, next_command
from hmx_pipeline.advice.similar_sessions import COURSE, TOUCHED, course_so_far, failure
from hmx_pipeline.contracts.bounded_cache import nbytes, remembered
from hmx_pipeline.contracts.evidence import Contribution, Step
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.retrieval.score import FoundSource

STEPS: Final = 3
LEAST: Final = 0.02
"""Smallest share that is recommended. It is low because few are shown, each with its share: the third is seldom right,
but it is right in one case of three if none is likely."""
FILES: Final = 5
_REMEMBERED: Final = 32 * MB
"""Cache size in bytes, for similar sessions and what is derived from them. A running session asks repeatedly."""


class AdvisedStep(NamedTuple):
    verb: str
    share: float
    """Share of similar cases in which this was done, 0 to 1."""
    precedent: str
    """Contribution id of the most similar session that did so."""


class LikelyFiles(NamedTuple):
    paths: tuple[str, ...]
    share: float
    """Share of similar sessions that changed at least one of the files."""
    precedent: str


class Advice(NamedTuple):
    steps: tuple[AdvisedStep, ...] = ()
    files: LikelyFiles | None = None


NOTHING: Final = Advice()


def weigh(value: object) -> int:
    """Estimate the bytes that a cache entry takes. Sources count twice, because what is derived from them is about as
    large."""
    return 2 * sum(one.nbytes for one in value) if isinstance(value, tuple) else nbytes(value)


def guide(question: str, session: Sequence[Step], agent_id: str, found: Sequence[FoundSource[Contribution]]) -> Advice:
    done = [one for one in found if one.source.pattern_type == COURSE.type]
    changed = tuple(one.source for one in found if one.source.pattern_type == TOUCHED.type)
    return Advice(
        _steps(question, session, done) if done else (),
        _files(question, agent_id, changed) if changed else None,
    )


def _steps(
    question: str, session: Sequence[Step], done: Sequence[FoundSource[Contribution]]
) -> tuple[AdvisedStep, ...]:
    course = course_so_far(question, session)
    found = tuple(one.source for one in done)
    advised = next_command(joined(((_habits(one), weight) for one, weight in _sessions(done)), course), course)
    if failure(course) is not None:
        advised = next_after_error.advise(_recoveries(found), next_after_error.steps_of(course), advised)
    kept = [one for one in advised[:STEPS] if one.share >= LEAST]
    return tuple(AdvisedStep(one.verb, one.share, source) for one in kept if (source := _first(found, one)))


def _first(found: Iterable[Contribution], advised: Recommendation) -> str:
    """Return the id of the most similar session that did it; empty if only the running session has."""
    return next((one.contribution_id for one in found if advised.verb in one.body["words"]), "")


def _files(question: str, agent_id: str, found: tuple[Contribution, ...]) -> LikelyFiles | None:
    paths = tuple(file.path for file in _known_files(found, question).likely(question, agent_id)[:FILES])
    speaking = [one for one in found if not set(paths).isdisjoint(one.body["changed"])]
    if not speaking:
        return None
    return LikelyFiles(paths, round(len(speaking) / len(found), 6), speaking[0].contribution_id)


@remembered(_REMEMBERED, weigh)
def _recoveries(found: tuple[Contribution, ...]) -> next_after_error.AfterErrorCounts:
    return next_after_error.AfterErrorCounts(map(next_after_error.steps_of, courses(found)))


def _sessions(done: Sequence[FoundSource[Contribution]]) -> list[tuple[tuple[Contribution, ...], float]]:
    """Group by session. The weight is the session's BM25 score divided by the best score."""
    by_session: dict[str, list[FoundSource[Contribution]]] = defaultdict(list)
    for one in done:
        by_session[one.source.session_id].append(one)
    best = max((one.bm25 for one in done), default=0) or 1
    return [(tuple(one.source for one in own), own[0].bm25 / best) for own in by_session.values()]


@remembered(_REMEMBERED, weigh)
def _habits(session: tuple[Contribution, ...]) -> CommandCounts:
    return CommandCounts(courses(session))


@remembered(_REMEMBERED, weigh)
def _known_files(found: tuple[Contribution, ...], question: str) -> Files:
    return Files(sessions(found), question)
