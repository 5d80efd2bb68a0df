"""failure_playbook: what goes wrong in one way, and what helped (HMX-A §4.2).

The key is (error class, verb, message without what varies): a false merge is a wrong recovery plan, so nothing is
merged that differs in these. A segment says how often it happened, what was tried after each time and whether that
worked, and what had been done before tries that failed and tries that worked. Nothing fails; an error seen in one
session only is a finding from three sessions on.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Any, Final, NamedTuple

from pipeline.compiler.confidence import Tally, Verdict, contradicted, recent, tally, wilson
from pipeline.compiler.mining import share_with
from pipeline.compiler.model import ArtifactType, Extracted, Finding, Need
from pipeline.compiler.wording import listed, most_frequent, plural
from pipeline.contracts.artifact import Status
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from pipeline.contracts.limits import STEP_VALUES
from pipeline.contracts.pack import Section
from pipeline.segments.intent import goal_intent, goal_messages, stem
from pipeline.segments.masking import mask, mask_code, mask_ids, readable, sentence, shorten
from pipeline.segments.naming import ASK, mutates, phrase_of, silent, tool_of, words_of
from pipeline.segments.pairing import Action

NAME: Final = "failure_playbook"
_KEYS: Final = 32  # different errors of one segment that are kept, the first ones
_TRIES: Final = 8  # of one error in one segment
_PATH: Final = 6  # verbs from an error to the next try
_LOOKS: Final = 2
_BEFORE: Final = 24
_MESSAGE: Final = 160
_FAULT: Final = 80
_FAULTS: Final = 3
_LEAST_SESSIONS: Final = 2
_ACTIVE_OCCURRENCES: Final = 3
_ACTIVE_RECOVERIES: Final = 2
_MOST: Final = 0.8
_SIDE: Final = 5  # tries that failed, and that worked, before prevention is judged
_LOG_ODDS: Final = 1.0
_SHOWN: Final = 5
_SHOWN_ONCE: Final = 2
_HELPED: Final = 2
_SEVERITY: Final = ((0.25, "low"), (0.5, "medium"), (0.8, "high"))
_OF_COURSE: Final = "error exception failed failure command tool"
_GENERAL: Final = frozenset(f"{_OF_COURSE} process exit code status non zero nonzero".split())
"""What a class may say of every error."""
_ALIKE: Final = 0.5  # share of words by which two tools serve one purpose


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
    is no way to fail."""
    failure = action.failure
    if failure is None:
        return None
    looks = action.role is Role.ACTION and not mutates(action.verb)
    if not failure.message and (looks or _GENERAL.issuperset(words_of(failure.type))):
        return None
    kind, message = (
        mask(text, action.values).lower()[:_MESSAGE].rstrip(" .") for text in (failure.type, failure.message)
    )
    return _ErrorKey(kind, action.verb, message)


def _extracted(
    key: _ErrorKey, at: Sequence[int], done: Sequence[Action], outcome: SegmentOutcome, wishes: list[str]
) -> Extracted:
    tries = [_after(i, done, outcome) for i in at[:_TRIES]]
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
            "fault": readable(mask_code(mask(failure.fault, done[at[0]].values)), _FAULT),
            "wishes": wishes,
            "occurrences": len(at),
            "recovered": any(try_.worked for try_ in tries),
            "after": [{"steps": list(try_.steps), "again": try_.again, "worked": try_.worked} for try_ in tries],
            "before": done[at[0] - 1].verb if at[0] else "",
            "tries": list(_tries(key.verb, done)),
        },
    )


class _After(NamedTuple):
    steps: tuple[str, ...]
    again: str
    """How the failed action was tried once more: `same` or `changed` arguments, `again`, another verb like it, or
    empty: it was not."""
    worked: bool
    rests_on: tuple[int, ...]


def _after(at: int, done: Sequence[Action], outcome: SegmentOutcome) -> _After:
    """From an error to the next try of the same verb, or of one alike, or to the goal."""
    failed = done[at]
    steps: list[str] = []
    if not failed.verb:
        following = done[at + 1 : at + 2]
        return _After((), "again" if following else "", any(a.verb and a.ok is not False for a in following), ())
    for i in range(at + 1, min(at + 1 + _PATH, len(done))):
        action = done[i]
        if action.asked:
            steps.append(ASK)
        if action.verb == failed.verb or (failed.verb and _alike(action.verb, failed.verb)):
            again = _again(failed, action) if action.verb == failed.verb else action.verb
            return _After(_once(steps), again, action.ok is not False, tuple(range(at + 1, i + 1)))
        if action.verb and action.ok is not False:
            steps.append(action.verb)
    tried = tuple(steps[: _detour(steps)])
    worked = bool(tried) and outcome is SegmentOutcome.SUCCESS
    return _After(_once(tried), "", worked, tuple(range(at + 1, min(at + 1 + _PATH, len(done)))))


def _detour(steps: Sequence[str]) -> int:
    """Without a second try, what helped is the first change made elsewhere, or else the next few things looked at."""
    return next((i for i, verb in enumerate(steps, 1) if mutates(verb)), _LOOKS)


def _again(failed: Action, action: Action) -> str:
    """Only a call shows all that it was given, and only if that was short: else what looks the same proves nothing."""
    if action.values != failed.values:
        return "changed"
    return "same" if action.role is Role.CALL and len(action.values) < STEP_VALUES else "again"


def _once(steps: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(steps))


def _alike(verb: str, other: str) -> bool:
    a, b = set(words_of(verb)), set(words_of(other))
    return bool(a & b) and len(a & b) / len(a | b) >= _ALIKE


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
                yield {"ok": action.ok, "before": list(_once(since))[-_BEFORE:]}
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
    ways_out = _recoveries(contributions)
    recoveries = [recovery.shown for recovery in ways_out]
    return Finding(
        title=_title(pattern, verb),
        summary=(
            f"Seen {plural(occurrences, 'time')} in {plural(sessions, 'session')}; {recovered.successes} recovered."
            + (f" Most reliable: {recoveries[0][:1].lower()}{recoveries[0][1:]}." if recoveries else "")
        ),
        content={
            "failure_pattern": f"{sentence(phrase_of(verb))} fails: {pattern}" if verb else pattern,
            "trigger_conditions": _triggers(contributions, verb),
            "symptoms": _symptoms(contributions),
            "recovery_steps": recoveries,
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
            "rule": f"active: {_ACTIVE_OCCURRENCES} sessions, {_ACTIVE_RECOVERIES} recoveries",
            "enough": active,
        },
        verdicts=ways_out[0].verdicts if ways_out else (),
    )


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    recovered = tally((c.session_id, c.body["recovered"]) for c in contributions)
    helped = max((way.counts.successes for way in _recoveries(contributions)), default=0)
    return [
        Need("sessions with this error", recovered.sessions, _ACTIVE_OCCURRENCES),
        Need("sessions that recovered", recovered.successes, _ACTIVE_RECOVERIES),
        Need("sessions that one way out helped", helped, _HELPED),
    ]


def _pattern(contributions: Sequence[Contribution], verb: str) -> str:
    """The message as most show it, quotes and paths only where nearly all share them; with the error's class where
    that says more."""
    surface, share = most_frequent(c.body["surface"] for c in contributions)
    kind = most_frequent(c.body["type"] for c in contributions)[0]
    text = readable((surface if share >= _MOST else mask(surface)).removeprefix(f"{tool_of(verb)}: "))
    kind = _kind(kind)
    if not (kind and text):
        return kind or text or "error without a message"
    told = {stem(word) for word in words_of(f"{text} {_OF_COURSE}")}
    named = kind.endswith(("Error", "Exception", "Warning"))
    return f"{kind}: {text}" if named or any(stem(word) not in told for word in words_of(kind)) else text


def _kind(name: str) -> str:
    return readable(mask(name)).replace("_", " ")


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
    kinds = [_kind(c.body["type"]) for c in contributions]
    texts = [readable(c.body["surface"], _MESSAGE) for c in contributions]
    shown = [sentence(form) for forms in (kinds, texts) for form in (most_frequent(f for f in forms if f)[0],) if form]
    faults = Counter(c.body["fault"] for c in contributions if c.body["fault"])
    often = [fault for fault, count in faults.items() if count >= _LEAST_SESSIONS]
    shown += sorted(map(sentence, often), key=lambda fault: (-faults[fault], fault))[:_FAULTS]
    repeats = sum(c.body["occurrences"] > 1 for c in contributions)
    if 2 * repeats >= len(contributions):
        shown.append("The same error comes back within a session")
    return list({text.lower(): text for text in reversed(shown)}.values())[::-1]


class _Recovery(NamedTuple):
    words: str
    counts: Tally
    verdicts: list[Verdict]
    """A session once, by whether it ever worked there."""

    @property
    def shown(self) -> str:
        return f"{self.words} (worked in {self.counts.successes} of {plural(self.counts.sessions, 'session')})"


def _recoveries(contributions: Sequence[Contribution]) -> list[_Recovery]:
    """What was tried and has worked, by the bound of how often over independent sessions; last what works no more.
    What worked once only is shown where nothing worked twice."""
    tried: dict[_Way, dict[str, bool]] = {}
    forms: dict[_Way, list[tuple[str, ...]]] = {}
    for c in contributions:
        for after in c.body["after"]:
            way = _way(after["steps"], after["again"])
            if way is not None:
                seen = tried.setdefault(way, {})
                seen[c.session_id] = after["worked"] or seen.get(c.session_id, False)
                forms.setdefault(way, []).append(tuple(after["steps"]))
    verb = contributions[0].body["verb"]
    found = [
        _Recovery(_recovery(_usual(forms[way]), way.again, verb), tally(seen.items()), list(seen.items()))
        for way, seen in tried.items()
    ]
    ranked = sorted(
        (recovery for recovery in found if recovery.counts.successes),
        key=lambda r: (contradicted(recent(r.verdicts)), -r.counts.bound, -r.counts.successes, r.words),
    )
    return [r for r in ranked if r.counts.successes >= _HELPED][:_SHOWN] or ranked[:_SHOWN_ONCE]


class _Way(NamedTuple):
    steps: tuple[str, ...]
    again: str


def _way(steps: Sequence[str], again: str) -> _Way | None:
    """What makes two ways out the same: the changes on the way; where nothing was changed, all that was done. Looking
    around until the goal is reached is none."""
    changes = tuple(step for step in steps if mutates(step))
    if changes:
        return _Way(changes, again)
    return _Way(tuple(steps), again) if again else None


def _usual(forms: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    counts = Counter(forms)
    return min(counts, key=lambda form: (-counts[form], len(form), form))


def _recovery(steps: Sequence[str], again: str, verb: str) -> str:
    """Words for one way out; `same` without a step between is a plain retry and is called that."""
    words = [phrase_of(step) for step in steps]
    if not verb:
        return "Try again"
    match again:
        case "":
            pass
        case "same":
            words.append(f"{phrase_of(verb)} again unchanged")
        case "again":
            words.append(f"{phrase_of(verb)} again")
        case "changed":
            words.append(f"{phrase_of(verb)} again with other arguments")
        case _:
            words.append(f"{phrase_of(again)} instead")
    return sentence(", then ".join(words))


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
    yield from listed("Recover", content.get("recovery_steps", ()))
    yield from listed("Prevent", content.get("prevention_strategies", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.PROCEDURES, lines, needs)
