"""conduct contributions: counts of the tools, errors and decisions of a segment, which fingerprints add up.

Input: a segment, its outcome and its actions. Output: one contribution: calls, successes and failures by verb, errors
by class, choices by question and option; none if all are empty. A pattern keeps a bounded number of contributions and
beyond that only a sample. So a tenant's sessions are spread over 16 patterns. No artifact is compiled from them.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

from hmx_pipeline.compiler.evidence_kind import EvidenceKind, Extracted
from hmx_pipeline.contracts.event_types import ACTS, Role
from hmx_pipeline.contracts.evidence import Segment, SegmentOutcome
from hmx_pipeline.segments.intent import option_key, question_key
from hmx_pipeline.segments.pairing import Action

_ERROR, _DECISION = Role.ERROR, Role.DECISION  # enum lookups are ten times slower
NAME: Final = "conduct"
KEYS: Final = tuple(f"1:{share:x}" for share in range(16))
"""`1` is the version of the body: change it with the body. The second part says which sixteenth of the sessions."""
REST: Final = ""
"""Name of the rest: what exceeds the bound, and what has no name."""
_TOOLS: Final = 64
_ERRORS: Final = 32
_QUESTIONS: Final = 16
_OPTIONS: Final = 16
_NAME: Final = 80


def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    body = {"tools": _tools(actions), "errors": _errors(segment), "decisions": _decisions(segment)}
    if not any(body.values()):
        return []
    ends = list(dict.fromkeys((segment.steps[0].event_id, segment.steps[-1].event_id)))
    return [Extracted(key=key_of(segment), source_events=ends, outcome=outcome, tags=[], body=body)]


def key_of(segment: Segment) -> str:
    return KEYS[hashlib.sha256(segment.session_id.encode()).digest()[0] % len(KEYS)]


def _tools(actions: Sequence[Action]) -> dict[str, list[int]]:
    """Return verb → calls, successes, failures. A result whose call is in another segment does not count as a call."""
    done = [action for action in actions if action.verb and action.role in ACTS]
    named = _most(Counter(action.verb for action in done), _TOOLS)
    used = {verb: [0, 0, 0] for verb in named}
    for action in done:
        counts = used[action.verb if action.verb in used else REST]
        counts[0] += 1
        if action.ok is not None:
            counts[1 if action.ok else 2] += 1
    return used


def _errors(segment: Segment) -> dict[str, int]:
    return _most(Counter(step.name.strip()[:_NAME] for step in segment.steps if step.role is _ERROR), _ERRORS)


def _decisions(segment: Segment) -> dict[str, dict[str, int]]:
    """Count how often each option was chosen, by question. The names are those that decision_policy uses."""
    chosen: dict[str, Counter[str]] = {}
    for step in segment.steps:
        if step.role is _DECISION:
            question, option = question_key(step.name), option_key(step.text)
            if question and option and (question in chosen or len(chosen) < _QUESTIONS):
                chosen.setdefault(question, Counter())[option[:_NAME]] += 1
    return {question: _most(chosen[question], _OPTIONS) for question in sorted(chosen)}


def _most(counts: Counter[str], bound: int) -> dict[str, int]:
    """Keep the most frequent, sorted by name, and add up the others."""
    kept = sorted(counts, key=lambda name: (-counts[name], name))[:bound]
    most = {name: counts[name] for name in sorted(kept)}
    rest = counts.total() - sum(most.values())
    return {**most, REST: most.get(REST, 0) + rest} if rest else most


KIND: Final = EvidenceKind(NAME, extract, None)
