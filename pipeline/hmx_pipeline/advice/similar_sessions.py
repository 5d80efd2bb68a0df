"""Search terms for similar sessions: those that index a past session, and those that query for it.

Input: contributions of the kinds `course` and `touched` as they stand on the evidence topic; or a question and the
running session's steps. Output: terms. Raises LookupError or TypeError if a body has another form.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from hmx_pipeline.advice.action_traces import ActionTrace, under_way
from hmx_pipeline.advice.next_after_error import RecoveryStep, steps_of
from hmx_pipeline.compiler import action_trace, touched_files
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Pattern, Step
from hmx_pipeline.segments.action_names import silent
from hmx_pipeline.segments.file_paths import files_in, identifiers, name_parts
from hmx_pipeline.segments.intent import plain_stems, stem

COURSE: Final = Pattern(action_trace.NAME, action_trace.KEY)
TOUCHED: Final = Pattern(touched_files.NAME, touched_files.KEY)
PRECEDENTS: Final = (COURSE, TOUCHED)
_GOAL_AFTER_ERROR: Final = 4


class SessionQuery(NamedTuple):
    """Query terms, sorted."""

    courses: list[str]
    files: list[str]


def precedent_terms(contribution: Mapping[str, Any]) -> list[str]:
    """Return the terms that index a contribution of `PRECEDENTS`; none if it is withdrawn or no file was changed."""
    if contribution["withdrawn"]:
        return []
    body = contribution["body"]
    if contribution["pattern_type"] == COURSE.type:
        return _of_course(body)
    return list(_of_files(body["goal"], [*body["names"], *body["changed"]])) if body["changed"] else []


def sought(question: str, session: Sequence[Step]) -> SessionQuery:
    """Build the query: the goal, the last two actions, and the open failure. After an error the error says more than
    the goal, so only the goal's longest words are used: they find similar sessions that had no such error."""
    action_trace = course_so_far(question, session)
    verbs = [act.verb for act in action_trace.acts if not silent(act.verb)]
    did = [*(f"did {verb}" for verb in verbs[-1:]), *_in_turn(verbs[-2:])]
    failed = failure(action_trace)
    if failed is None:
        did += _goal(action_trace.goal)
    else:
        longest = sorted(action_trace.goal, key=lambda word: (-len(word), word))[:_GOAL_AFTER_ERROR]
        did += [*_failed(failed.error or "", failed.verb), *_goal(longest)]
    names = [*identifiers(question), *files_in(question)]
    return SessionQuery(sorted(set(did)), sorted(set(_of_files(plain_stems(question), names))))


def course_so_far(question: str, session: Sequence[Step]) -> ActionTrace:
    """Return the running session's action trace. The question counts as the user's first message."""
    # It has an id, because an error without a parent would name a message without one.
    asked = Step(event_id="question", at=0, role=Role.MESSAGE, actor="user", text=question)
    return under_way([asked, *session])


def failure(action_trace: ActionTrace) -> RecoveryStep | None:
    """Return the last step if it failed, so that nothing has been done about it yet."""
    steps = steps_of(action_trace)
    return steps[-1] if steps and steps[-1].error is not None else None


def _of_course(body: Mapping[str, Any]) -> list[str]:
    words: Sequence[str] = body["words"]
    acts = [(words[verb], ok, words[error] if error >= 0 else "") for verb, ok, error, *_ in body["acts"] if verb >= 0]
    verbs = [verb for verb, *_ in acts if not silent(verb)]
    terms = [*_goal(words[place] for place in body["goal"]), *(f"did {verb}" for verb in verbs), *_in_turn(verbs)]
    for verb, ok, error in acts:
        if ok == 0 or error:
            terms += _failed(error, verb)
    for _, error in body["faults"]:
        terms += _failed(words[error] if error >= 0 else "", "")
    return list(dict.fromkeys(terms))


def _goal(stems: Iterable[str]) -> Iterator[str]:
    return (f"goal {word}" for word in stems)


def _in_turn(verbs: Sequence[str]) -> Iterator[str]:
    return (f"did {one}, {other}" for one, other in pairwise(verbs))


def _failed(error: str, verb: str) -> Iterator[str]:
    yield f"failed {error}"
    if verb:
        yield f"failed {error} in {verb}"


def _of_files(goal: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    yield from (f"file {word}" for word in goal)
    yield from (f"file {stem(part)}" for name in names for part in name_parts(name))
