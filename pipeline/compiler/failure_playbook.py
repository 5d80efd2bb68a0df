"""failure_playbook: what goes wrong in one way, and what helped (HMX-A §4.2).

The key is (error class, verb, message without what varies): a false merge is a wrong recovery plan, so nothing is
merged that differs in these. A segment says how often it happened, what was tried after each time and whether that
worked, and what had been done before tries that failed and tries that worked. Nothing fails; an error seen in one
session only is a finding from three sessions on.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Any, Final, NamedTuple

from pipeline.compiler.confidence import CONTRADICTED, tally, wilson
from pipeline.compiler.mining import share_with
from pipeline.compiler.model import ArtifactType, Extracted, Finding, Need
from pipeline.compiler.ways_out import HELPED, Recovery, after, once, recoveries
from pipeline.compiler.wording import listed, most_frequent, plural
from pipeline.contracts.artifact import Status
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from pipeline.contracts.pack import Section
from pipeline.segments.intent import goal_intent, goal_messages, stem
from pipeline.segments.masking import mask, mask_code, mask_ids, readable, sentence, shorten
from pipeline.segments.naming import ASK, mutates, phrase_of, silent, tool_of, words_of
from pipeline.segments.pairing import Action

NAME: Final = "failure_playbook"
_KEYS: Final = 32  # different errors of one segment that are kept, the first ones
_TRIES: Final = 8  # of one error in one segment
_BEFORE: Final = 24
_MESSAGE: Final = 160
_TITLE: Final = 90
_FAULT: Final = 80
_FAULTS: Final = 3
_LEAST_SESSIONS: Final = 2
_ACTIVE_OCCURRENCES: Final = 2
_ACTIVE_RECOVERIES: Final = 2
_MOST: Final = 0.8
_SIDE: Final = 5  # tries that failed, and that worked, before prevention is judged
_LOG_ODDS: Final = 1.0
_SHOWN: Final = 5
_SEVERITY: Final = ((0.25, "low"), (0.5, "medium"), (0.8, "high"))
_OF_COURSE: Final = "error exception failed failure command tool"
_GENERAL: Final = frozenset(f"{_OF_COURSE} process exit code status non zero nonzero".split())
"""What a class may say of every error."""
_PROGRAM: Final = re.compile(r"^<(?:id|path)>: ")
_PASSES: Final = re.compile(
    r"\b(?:sibling|parallel|another|previous) (?:\w+ )*call\b.*\b(?:errored|failed)\b"
    r"|\bcall (?:was )?(?:cancell?ed|skipped)\b",
    re.IGNORECASE,
)


class _ErrorKey(NamedTuple):
    type: str
    verb: str
    message: str

    @property
    def text(self) -> str:
        return "\n".join(self)  # none of them holds a line break


def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    done = [action for action in actions if not silent(action.verb)]
    places: dict[_ErrorKey, list[int]] = {}
    for i, action in enumerate(done):
        key = _error_key(action)
        if key is not None and (key in places or len(places) < _KEYS):
            places.setdefault(key, []).append(i)
    wishes = [name.replace(".", " ") for name in goal_intent(goal_messages(segment.steps)).classes]
    return [_extracted(key, at, done, outcome, wishes) for key, at in places.items()]


def _error_key(action: Action) -> _ErrorKey | None:
    """A command that only looks and fails without a word has found nothing: that is an answer. That something failed
    is no way to fail, nor is a warning, nor that a call was given up for another one's sake."""
    failure = action.failure
    if failure is None or _PASSES.search(failure.message) or failure.type.endswith("Warning"):
        return None
    looks = action.role is Role.ACTION and not mutates(action.verb)
    if not failure.message and (looks or _GENERAL.issuperset(words_of(failure.type))):
        return None
    kind, message = (
        mask(text, action.values).lower()[:_MESSAGE].rstrip(" .") for text in (failure.type, failure.message)
    )
    return _ErrorKey(kind, action.verb, _PROGRAM.sub("", message.removeprefix(f"{tool_of(action.verb)}: ")))


def _extracted(
    key: _ErrorKey, at: Sequence[int], done: Sequence[Action], outcome: SegmentOutcome, wishes: list[str]
) -> Extracted:
    tries = [after(i, done, outcome) for i in at[:_TRIES]]
    sources = [event for i in at[:_TRIES] for event in done[i].events]
    sources += [done[i].events[0] for try_ in tries for i in try_.rests_on]
    failure = done[at[0]].failure
    assert failure is not None
    return Extracted(
        key=key.text,
        source_events=list(dict.fromkeys(sources)),
        outcome=outcome,
        tags=[tag for tag in (tool_of(key.verb), readable(key.type, 40).lower()) if tag],
        body={
            "type": shorten(failure.type, 80),
            "verb": key.verb,
            "message": key.message,
            "surface": mask_ids(shorten(failure.message, _MESSAGE), done[at[0]].values),
            "fault": _fault(failure.fault, done[at[0]]),
            "wishes": wishes,
            "occurrences": len(at),
            "recovered": any(try_.worked for try_ in tries),
            "after": [{"steps": list(try_.steps), "again": try_.again, "worked": try_.worked} for try_ in tries],
            "before": done[at[0] - 1].verb if at[0] else "",
            "tries": list(_tries(key.verb, done)),
        },
    )


def _fault(text: str, failed: Action) -> str:
    """A single word says nothing without the name that stood behind it."""
    said = readable(mask_code(mask(text, failed.values)), _FAULT)
    return said if " " in said else ""


def _tries(verb: str, done: Sequence[Action]) -> Iterator[dict[str, Any]]:
    """Tries of the verb with what was done since the try before, and whether they worked. What comes after a failed try
    is recovery and says nothing about prevention, so the next one is left out."""
    since: list[str] = []
    tries, clean = 0, True
    for action in done:
        if action.asked:
            since.append(ASK)
        if action.verb != verb:
            if action.verb and action.ok is not False:
                since.append(action.verb)
        elif action.ok is not None:
            if clean and tries < _TRIES:
                tries += 1
                yield {"ok": action.ok, "before": once(since)[-_BEFORE:]}
            since, clean = [], action.ok


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    sessions = len({c.session_id for c in contributions})
    if sessions < _LEAST_SESSIONS:
        return None
    recovered = tally((c.session_id, c.body["recovered"]) for c in contributions)
    active = all(need.met for need in needs(contributions))
    verb = contributions[0].body["verb"]
    pattern = _pattern(contributions, verb)
    occurrences = sum(c.body["occurrences"] for c in contributions)
    ways_out = recoveries(contributions)
    recovery_steps = [recovery.shown for recovery in ways_out]
    return Finding(
        title=_title(pattern, verb),
        summary=(
            f"Seen {plural(occurrences, 'time')} in {plural(sessions, 'session')}; {recovered.successes} recovered."
            + (f" Most reliable: {recovery_steps[0][:1].lower()}{recovery_steps[0][1:]}." if recovery_steps else "")
        ),
        content={
            "failure_pattern": f"{sentence(phrase_of(verb))} fails: {pattern}" if verb else pattern,
            "trigger_conditions": _triggers(contributions, verb),
            "symptoms": _symptoms(contributions),
            "recovery_steps": recovery_steps,
            "prevention_strategies": _prevention(contributions, verb),
            "severity": _severity(contributions),
        },
        confidence=recovered.bound,
        status=Status.ACTIVE if active else Status.DRAFT,
        success_rate=recovered.rate,
        checked={
            "sessions": sessions,
            "occurrences": occurrences,
            "recoveries": recovered.successes,
            "bound": recovered.bound,
            "rule": f"active: {_ACTIVE_OCCURRENCES} sessions, {_ACTIVE_RECOVERIES} recoveries, {HELPED} of them by one "
            f"way out with bound {CONTRADICTED}",
            "enough": active,
        },
        verdicts=ways_out[0].verdicts if ways_out else (),
    )


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    recovered = tally((c.session_id, c.body["recovered"]) for c in contributions)
    ways_out = recoveries(contributions)
    helped = max((way.counts.successes for way in ways_out), default=0)
    return [
        Need("sessions with this error", recovered.sessions, _ACTIVE_OCCURRENCES),
        Need("sessions that recovered", recovered.successes, _ACTIVE_RECOVERIES),
        Need("sessions that one way out helped", helped, HELPED),
        Need("what it says but that it failed and was mended", _news(contributions, ways_out), 1),
        Need("bound of the best way out", max((way.counts.bound for way in ways_out), default=0.0), CONTRADICTED),
    ]


def _news(contributions: Sequence[Contribution], ways_out: Sequence[Recovery]) -> int:
    """Faults that came back, steps that prevent it, and ways out that are more than an edit and another try. An error
    without a message can be anything, and so can what gets past it."""
    prevented = _prevention(contributions, contributions[0].body["verb"])
    ways = sum(way.telling for way in ways_out) if contributions[0].body["message"] else 0
    return ways + len(_faults(contributions)) + len(prevented)


def _pattern(contributions: Sequence[Contribution], verb: str) -> str:
    """The message as most show it, quotes and paths only where nearly all share them; with the error's class where
    that says more."""
    kind, text = _said(contributions, verb)
    if not (kind and text):
        return kind or text or "error without a message"
    named = kind.endswith(("Error", "Exception"))
    return f"{kind}: {text}" if named or _adds(kind, text) else text


def _said(contributions: Sequence[Contribution], verb: str, limit: int = _TITLE) -> tuple[str, str]:
    """Class and message; either may be empty."""
    surface, share = most_frequent(c.body["surface"] for c in contributions)
    kind = most_frequent(c.body["type"] for c in contributions)[0]
    text = readable((surface if share >= _MOST else mask(surface)).removeprefix(f"{tool_of(verb)}: "), limit)
    return readable(mask(kind)).replace("_", " "), text


def _adds(kind: str, text: str) -> bool:
    """Does the class say anything that the message does not?"""
    told = {stem(word) for word in (*words_of(text), *_GENERAL)}
    return any(stem(word) not in told for word in words_of(kind))


def _title(pattern: str, verb: str) -> str:
    where = phrase_of(verb) if verb else ""
    return shorten(f"{sentence(pattern)} ({where})" if where else sentence(pattern), 120)


def _triggers(contributions: Sequence[Contribution], verb: str) -> list[str]:
    before, share = most_frequent(c.body["before"] for c in contributions)
    conditions = []
    if verb and before and share >= _MOST:
        how = "again" if before == verb else f"right after {phrase_of(before)}"
        conditions.append(f"{sentence(phrase_of(verb))} {how}")
    wishes = [c.body["wishes"] for c in contributions]
    common = sorted({wish for wished in wishes for wish in wished if share_with(wishes, wish) >= _MOST})
    return conditions + [f"The user wants to {wish}" for wish in common]


def _severity(contributions: Sequence[Contribution]) -> str:
    """By how many sessions ended badly and how many did not get past the error, both counting the same."""
    failed = tally((c.session_id, c.outcome is SegmentOutcome.FAILURE) for c in contributions)
    stuck = tally((c.session_id, not c.body["recovered"]) for c in contributions)
    share = (failed.successes + stuck.successes) / (2 * failed.sessions)
    return next((name for bound, name in _SEVERITY if share < bound), "critical")


def _symptoms(contributions: Sequence[Contribution]) -> list[str]:
    kind, text = _said(contributions, contributions[0].body["verb"], _MESSAGE)
    shown = [sentence(form) for form in (kind if not text or _adds(kind, text) else "", text) if form]
    shown += map(sentence, _faults(contributions))
    repeats = sum(c.body["occurrences"] > 1 for c in contributions)
    if 2 * repeats >= len(contributions):
        shown.append("The same error comes back within a session")
    return list({text.lower(): text for text in reversed(shown)}.values())[::-1]


def _faults(contributions: Sequence[Contribution]) -> list[str]:
    """What was found wrong more than once, the most frequent first."""
    counts = Counter(c.body["fault"] for c in contributions if c.body["fault"])
    often = [fault for fault, count in counts.items() if count >= _LEAST_SESSIONS]
    return sorted(often, key=lambda fault: (-counts[fault], fault))[:_FAULTS]


def _prevention(contributions: Sequence[Contribution], verb: str) -> list[str]:
    """Steps before the action that tell tries that worked from tries that failed, by log-odds."""
    good = [t["before"] for c in contributions for t in c.body["tries"] if t["ok"]]
    bad = [t["before"] for c in contributions for t in c.body["tries"] if not t["ok"]]
    if len(good) < _SIDE or len(bad) < _SIDE:
        return []
    strategies = []
    for step in sorted({step for before in (*good, *bad) for step in before}):
        with_good, with_bad = sum(step in b for b in good), sum(step in b for b in bad)
        odds = log((with_good + 0.5) / (len(good) - with_good + 0.5)) - log(
            (with_bad + 0.5) / (len(bad) - with_bad + 0.5)
        )
        mostly = 2 * with_good >= len(good) and wilson(with_good, len(good)) > 1 - wilson(len(bad) - with_bad, len(bad))
        if odds >= _LOG_ODDS and mostly:
            told = (
                f"{sentence(phrase_of(step))} first: done before {with_good} of {plural(len(good), 'try', 'tries')} to"
            )
            told += f" {phrase_of(verb)} that worked and {with_bad} of {len(bad)} that failed"
            strategies.append((-round(odds, 6), told))
    return [words for _, words in sorted(strategies)][:_SHOWN]


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    """What a pack shows of it."""
    yield from listed("Fails as", [content["failure_pattern"]] if content.get("failure_pattern") else ())
    yield from listed("When", content.get("trigger_conditions", ()))
    told = content.get("failure_pattern", "").casefold()
    yield from listed("Shows", [text for text in content.get("symptoms", ()) if text.casefold() not in told])
    yield from listed("Recover", content.get("recovery_steps", ()))
    yield from listed("Prevent", content.get("prevention_strategies", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.PROCEDURES, "failures", lines, needs)
